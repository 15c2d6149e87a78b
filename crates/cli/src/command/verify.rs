//! `msccl verify`: a proof, or how it goes wrong.

use serde::Serialize;

use crate::args::{Format, VerifyArgs};
use crate::exit::Exit;
use crate::failure::{FailureJson, Result};
use crate::input::Input;
use crate::output::Output;
use crate::progress::Progress;
use crate::subject;
use crate::verdict::{self, Verdict, VerdictJson};

/// What became of one file.
type Outcome = Result<Verdict>;

/// Judges every file; one that cannot be read does not keep the others from being judged.
pub fn verify(args: &VerifyArgs, output: &mut Output) -> Result<Exit> {
    let mut outcomes = Vec::with_capacity(args.files.len());
    for file in &args.files {
        let outcome = judge(file, args, output);
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

fn judge(file: &str, args: &VerifyArgs, output: &mut Output) -> Outcome {
    let progress = Progress::start(format!("reading {file}"), output.is_quiet());
    let input = Input::read(file)?;
    let mut loaded =
        subject::load(input, &args.launch, args.target, &mut |warning| output.warn(warning))?;
    if let (Ok(subject), Some(size)) = (&mut loaded, args.size) {
        subject.narrow(size.0)?;
    }
    progress.now(format!("proving {file}"));
    Ok(verdict::judge(loaded))
}

fn exit(outcome: &Outcome) -> Exit {
    outcome.as_ref().map_or(Exit::Unusable, Verdict::exit)
}

fn print(outcome: &Outcome, output: &mut Output) {
    match outcome {
        Ok(verdict) => verdict.print(output),
        Err(failure) => failure.print(output),
    }
}

/// What became of one file, for programs.
#[derive(Serialize)]
#[serde(untagged)]
enum VerdictObject<'a> {
    Verdict(Box<VerdictJson<'a>>),
    Failure(FailureJson<'a>),
}

impl<'a> VerdictObject<'a> {
    fn of(file: &'a str, outcome: &'a Outcome) -> Self {
        match outcome {
            Ok(verdict) => VerdictObject::Verdict(Box::new(verdict.to_json())),
            Err(failure) => VerdictObject::Failure(failure.to_json(file)),
        }
    }
}
