//! `msccl synthesize --fewest-steps`: messages in the fewest steps, proved, with a certificate.

use msccl_collective::{Protocol, Rank};
use msccl_synthesize::Ending;
use msccl_synthesize::least_steps::{StepCertificate, StepOptions, StepPlan, fewest_steps};
use msccl_topology::cluster::Cluster;
use serde::Serialize;

use super::layouts::{estimator, us_of_program};
use super::{judged, not_found, write};
use crate::args::{Format, SynthesizeArgs};
use crate::certified_steps::{CertifiedSteps, CertifiedStepsJson};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::progress::Progress;
use crate::size::ByteSize;
use crate::verdict::{self, Verdict, VerdictJson};

/// Finds messages, writes them as a program, proves it and checks its certificate.
pub fn synthesize(
    args: &SynthesizeArgs,
    cluster: &Cluster,
    progress: Progress,
    output: &mut Output,
) -> Result<Exit> {
    let kind = args.collective.rooted_at(Rank(args.root));
    let options = StepOptions { link_chunks: args.link_chunks, time: args.time_limit };
    let plan = fewest_steps(cluster, kind, &options).map_err(not_found(kind, cluster))?;
    progress.now("proving what was found".to_owned());
    let timed = timed(args, &plan, cluster, output)?;
    let made = StepsMade::of(args, &plan, timed.protocol, cluster, output)?;
    drop(progress);
    let written = match &made.text {
        Some(text) => write(args.output.as_deref(), text, output)?,
        None => None,
    };
    report(args, &plan, &made, &timed, written, output);
    Ok(verdict::exit(&made.verdict))
}

/// A protocol, and how long a call takes with it, if a size is given.
struct TimedProtocol {
    protocol: Protocol,
    us: Option<f64>,
}

/// The protocol that is the fastest for calls of the size, by estimate; packets that carry their
/// flags if no size is given, since few steps are for small calls.
fn timed(
    args: &SynthesizeArgs,
    plan: &StepPlan,
    cluster: &Cluster,
    output: &mut Output,
) -> Result<TimedProtocol> {
    let Some(&size) = args.size.first() else {
        return Ok(TimedProtocol { protocol: Protocol::Ll, us: None });
    };
    let estimator = estimator(args, cluster)?;
    let mut us = |protocol| {
        let text = plan.program(protocol);
        us_of_program(args, plan.kind.name(), text, size, &estimator, output)
    };
    let (simple, packets) = (us(Protocol::Simple)?, us(Protocol::Ll)?);
    Ok(if packets <= simple {
        TimedProtocol { protocol: Protocol::Ll, us: Some(packets) }
    } else {
        TimedProtocol { protocol: Protocol::Simple, us: Some(simple) }
    })
}

/// A program, and what became of it.
struct StepsMade {
    verdict: Verdict,
    certified: Option<CertifiedSteps>,
    /// With comments, if it is proved.
    text: Option<String>,
}

impl StepsMade {
    fn of(
        args: &SynthesizeArgs,
        plan: &StepPlan,
        protocol: Protocol,
        cluster: &Cluster,
        output: &mut Output,
    ) -> Result<Self> {
        let name = args.output.clone().unwrap_or_else(|| format!("{}.msccl", plan.kind.name()));
        let text = plan.program(protocol);
        let verdict = judged(args, &name, text.clone(), output)?;
        let Verdict::Proved(proved) = &verdict else {
            return Ok(Self { verdict, certified: None, text: None });
        };
        let algorithm = proved.verified.algorithm();
        let certificate = StepCertificate::new(plan, algorithm)
            .map_err(|error| Failure::new(format!("{name}: {error}")))?;
        let text = plan.annotated(&text, &certificate, cluster);
        let certified = CertifiedSteps::of(&name, &text, algorithm, cluster).transpose()?;
        Ok(Self { verdict, certified, text: Some(text) })
    }
}

/// What was found, for programs.
#[derive(Serialize)]
struct StepsJson<'a> {
    #[serde(flatten)]
    verdict: VerdictJson<'a>,
    messages: usize,
    search: &'static str,
    /// Of a call of the size for which the protocol was chosen, by estimate.
    us: Option<f64>,
    steps: Option<CertifiedStepsJson>,
    output: Option<&'a str>,
    bytes: Option<u64>,
}

fn report(
    args: &SynthesizeArgs,
    plan: &StepPlan,
    made: &StepsMade,
    timed: &TimedProtocol,
    written: Option<u64>,
    output: &mut Output,
) {
    let StepsMade { verdict, certified, text: _ } = made;
    if args.report.format == Format::Json {
        return output.json(&StepsJson {
            verdict: verdict.to_json(),
            messages: plan.message_count(),
            search: match plan.ending {
                Ending::Complete => "complete",
                Ending::TimeOver => "given up",
            },
            us: timed.us,
            steps: certified.as_ref().map(CertifiedSteps::to_json),
            output: args.output.as_deref(),
            bytes: written,
        });
    }
    let (messages, steps) = (plan.message_count(), plan.steps());
    output.detail(format_args!("found    {messages} messages in {steps} steps"));
    if plan.ending == Ending::TimeOver {
        output.warn(
            "the search was given up for want of time or memory; this is the best that was found",
        );
    }
    if let (Some(us), Some(size)) = (timed.us, args.size.first()) {
        let protocol = timed.protocol;
        output.detail(format_args!("laid out for {size}: {protocol}; {us:.1} µs by estimate"));
    }
    verdict::print(verdict, output);
    if let Some(certified) = certified {
        certified.print(output);
    }
    if let (Some(path), Some(bytes)) = (&args.output, written) {
        output.detail(format_args!("written  {path}, {}", ByteSize(bytes)));
    }
}
