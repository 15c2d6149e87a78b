//! `msccl verify`: a proof, or how it goes wrong; on a machine, what the schedule puts on its
//! links.

use msccl_synthesize::Certificate;
use msccl_synthesize::least_steps::StepCertificate;
use msccl_topology::cluster::Cluster;
use serde::Serialize;

use crate::args::{Format, VerifyArgs};
use crate::certified::{Certified, CertifiedJson};
use crate::certified_steps::{CertifiedSteps, CertifiedStepsJson};
use crate::cluster::steps_on;
use crate::diagnose::Warning;
use crate::exit::Exit;
use crate::failure::{FailureJson, Result};
use crate::input::{Content, Input};
use crate::loads::{self, Loads, LoadsJson, MachineWarning};
use crate::output::Output;
use crate::progress::Progress;
use crate::subject;
use crate::verdict::{self, Verdict, VerdictJson};

/// What became of one file.
type Outcome<'a> = Result<Judged<'a>>;

/// A file that could be read.
struct Judged<'a> {
    verdict: Verdict,
    /// On the machine, if one is given and the file is proved.
    loads: Option<Result<Loads<'a>>>,
    /// What became of its certificate, if it has one and there are loads.
    certified: Option<Result<Certified>>,
    /// The same of its certificate of steps.
    certified_steps: Option<Result<CertifiedSteps>>,
}

/// Judges every file; one that cannot be read does not keep the others from being judged.
pub fn verify(args: &VerifyArgs, output: &mut Output) -> Result<Exit> {
    let cluster = args.launch.cluster.cluster(output)?;
    let mut outcomes = Vec::with_capacity(args.files.len());
    for file in &args.files {
        let outcome = judge(file, args, cluster.as_ref(), output);
        if args.report.format == Format::Human {
            print(&outcome, output);
        }
        outcomes.push((file, outcome));
    }
    if args.report.format == Format::Json {
        let objects: Vec<_> =
            outcomes.iter().map(|(file, outcome)| VerdictObject::of(file, outcome)).collect();
        output.json_one_or_many(&objects);
    }
    let exits = outcomes.iter().map(|(_, outcome)| exit(outcome));
    Ok(exits.fold(Exit::Success, Exit::and))
}

fn judge<'a>(
    file: &str,
    args: &VerifyArgs,
    cluster: Option<&'a Cluster>,
    output: &mut Output,
) -> Outcome<'a> {
    let progress = Progress::start(format!("reading {file}"), output.is_quiet());
    let input = Input::read(file)?;
    let launch = match (cluster, input.content()?) {
        (Some(cluster), Content::Xml | Content::Json | Content::Text) => {
            steps_on(cluster, &args.launch)
        }
        (Some(_), Content::Program) | (None, _) => args.launch.clone(),
    };
    let is_certified = Certificate::is_in(&input.text) || StepCertificate::is_in(&input.text);
    let text = is_certified.then(|| input.text.clone());
    let mut loaded =
        subject::load(input, &launch, args.target, &mut |warning| output.warn(warning))?;
    if let (Ok(subject), Some(size)) = (&mut loaded, args.size) {
        subject.narrow(size.0)?;
    }
    progress.now(format!("proving {file}"));
    let verdict = verdict::judge(loaded);
    let loads = match (&verdict, cluster) {
        (Verdict::Proved(proved), Some(cluster)) => {
            Some(Loads::of(&proved.file, proved.verified.algorithm(), cluster))
        }
        (Verdict::Proved(_), None) | (Verdict::Refused(_), _) => None,
    };
    let certified_steps = match (&verdict, &text, cluster) {
        (Verdict::Proved(proved), Some(text), Some(cluster)) => {
            CertifiedSteps::of(&proved.file, text, proved.verified.algorithm(), cluster)
        }
        _ => None,
    };
    let certified = match (&verdict, &loads, text, cluster) {
        (Verdict::Proved(proved), Some(Ok(loads)), Some(text), Some(cluster)) => {
            let algorithm = proved.verified.algorithm();
            Certified::of(&proved.file, &text, algorithm, loads.counted(), cluster)
        }
        _ => None,
    };
    Ok(Judged { verdict, loads, certified, certified_steps })
}

fn exit(outcome: &Outcome<'_>) -> Exit {
    match outcome {
        Err(_) | Ok(Judged { loads: Some(Err(_)), .. }) => Exit::Unusable,
        Ok(
            Judged { certified: Some(Err(_)), .. } | Judged { certified_steps: Some(Err(_)), .. },
        ) => Exit::Refused,
        Ok(Judged { verdict, loads: _, certified: _, certified_steps: _ }) => {
            verdict::exit(verdict)
        }
    }
}

fn print(outcome: &Outcome<'_>, output: &mut Output) {
    match outcome {
        Ok(Judged { verdict, loads, certified, certified_steps }) => {
            verdict::print(verdict, output);
            verdict.warnings().iter().for_each(|warning| output.warn(warning));
            match loads {
                Some(Ok(loads)) => {
                    loads::print(loads, output);
                    loads.warnings.iter().for_each(|warning| output.warn(&warning.message));
                }
                Some(Err(failure)) => output.failure(failure),
                None => {}
            }
            match certified {
                Some(Ok(certified)) => certified.print(output),
                Some(Err(failure)) => output.failure(failure),
                None => {}
            }
            match certified_steps {
                Some(Ok(certified)) => certified.print(output),
                Some(Err(failure)) => output.failure(failure),
                None => {}
            }
        }
        Err(failure) => output.failure(failure),
    }
}

/// What became of one file, for programs.
#[derive(Serialize)]
#[serde(untagged)]
enum VerdictObject<'a> {
    Verdict(Box<JudgedJson<'a>>),
    Failure(FailureJson<'a>),
}

/// A verdict, and what the machine says.
#[derive(Serialize)]
struct JudgedJson<'a> {
    #[serde(flatten)]
    verdict: VerdictJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loads: Option<LoadsJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<CertifiedJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<CertifiedStepsJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    warnings: Vec<WarningJson>,
}

/// A mistake of the author that is no fault.
#[derive(Serialize)]
struct WarningJson {
    kind: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
}

impl Judged<'_> {
    fn warnings(&self) -> Vec<WarningJson> {
        let Judged { verdict, loads, certified: _, certified_steps: _ } = self;
        let unread = verdict.warnings().iter().map(|warning| {
            let (message, place) = match warning {
                Warning::At(at) => (at.message_and_hints(), Some((at.line, at.column))),
                Warning::Whole { file: _, message } => (message.clone(), None),
            };
            let (line, column) = place.unzip();
            WarningJson { kind: "unread", message, line, column }
        });
        let of_machine = loads.iter().flatten().flat_map(|loads| &loads.warnings);
        let of_machine = of_machine.map(|MachineWarning { kind, message }| WarningJson {
            kind,
            message: message.clone(),
            line: None,
            column: None,
        });
        unread.chain(of_machine).collect()
    }
}

impl<'a> VerdictObject<'a> {
    fn of(file: &'a str, outcome: &'a Outcome<'a>) -> Self {
        match outcome {
            Ok(judged) => {
                let Judged { verdict, loads, certified, certified_steps } = judged;
                let uncounted = loads.as_ref().and_then(|it| it.as_ref().err());
                let uncertified = certified.as_ref().and_then(|it| it.as_ref().err());
                let steps = certified_steps.as_ref();
                let failure = uncounted.or(uncertified).or(steps.and_then(|it| it.as_ref().err()));
                VerdictObject::Verdict(Box::new(JudgedJson {
                    verdict: verdict.to_json(),
                    loads: loads.as_ref().and_then(|it| it.as_ref().ok()).map(Loads::to_json),
                    certificate: certified
                        .as_ref()
                        .and_then(|it| it.as_ref().ok())
                        .map(Certified::to_json),
                    steps: steps.and_then(|it| it.as_ref().ok()).map(CertifiedSteps::to_json),
                    error: failure.map(ToString::to_string),
                    warnings: judged.warnings(),
                }))
            }
            Err(failure) => VerdictObject::Failure(failure.to_json(file)),
        }
    }
}
