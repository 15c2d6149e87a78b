//! `msccl synthesize`: a program for a machine, proved, with a certificate.

mod fewest_steps;
mod imported;
mod layouts;

use std::io::Write;
use std::sync::OnceLock;

use msccl_collective::{CollectiveKind, Rank};
use msccl_synthesize::{
    Certificate, Ending, Layout, Options, Plan, SynthesisError, annotated, plan, program,
};
use msccl_topology::cluster::Cluster;
use num_rational::Ratio;
use serde::Serialize;

use self::layouts::Timed;
use crate::args::{Format, LaunchArgs, SynthesizeArgs};
use crate::artifact;
use crate::bound::title;
use crate::certified::Certified;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::loads::{self, Loads, LoadsJson};
use crate::output::Output;
use crate::progress::Progress;
use crate::size::ByteSize;
use crate::subject;
use crate::verdict::{self, Verdict, VerdictJson};

/// The most chunks of a block where the bound is to be met exactly.
const EXACT_CHUNKS_MAX: u32 = 1024;

/// Finds trees, writes them as a program, proves it and counts what links carry.
pub fn synthesize(args: &SynthesizeArgs, output: &mut Output) -> Result<Exit> {
    let cluster = cluster(args, output)?;
    if args.output.is_none() {
        output.divert_reports();
    }
    if args.fewest_steps {
        let progress = Progress::start("looking for messages".to_owned(), output.is_quiet());
        return fewest_steps::synthesize(args, &cluster, progress, output);
    }
    let progress = Progress::start("looking for trees".to_owned(), output.is_quiet());
    let kind = args.collective.rooted_at(Rank(args.root));
    let plan = match &args.from {
        Some(path) => imported::plan_from(path, kind, &cluster)?,
        None => plan(&cluster, kind, &options(args)).map_err(not_found(kind, &cluster))?,
    };
    let mut timed = None;
    if let Some(size) = args.size {
        progress.now("estimating layouts".to_owned());
        timed = layouts::timed(args, &plan, &cluster, size, output)?.into_iter().next();
    }
    let layout = timed.as_ref().map_or_else(Layout::default, |timed| timed.layout);
    progress.now("proving what was found".to_owned());
    let made = Made::of(args, &plan, &layout, &cluster, output)?;
    drop(progress);
    let written = match &made.text {
        Some(text) => write(args, text, output)?,
        None => None,
    };
    report(args, &plan, &made, timed.as_ref(), written, output);
    Ok(verdict::exit(&made.verdict))
}

/// The machine, which must have a GPU for each of the ranks.
fn cluster(args: &SynthesizeArgs, output: &mut Output) -> Result<Cluster> {
    let cluster = args.cluster.cluster(output)?.ok_or_else(|| {
        let what = "expected a machine to write a program for, found none";
        Failure::new(format!("{what}; give --topo, such as --topo hgx-h100-8"))
    })?;
    let gpus = cluster.gpus().count();
    match args.ranks {
        Some(ranks) if ranks as usize != gpus => Err(Failure::new(format!(
            "--ranks {ranks}: expected the {gpus} GPUs of {}; name a machine with {ranks} GPUs, or \
             repeat one by --nodes",
            title(&cluster)
        ))),
        Some(_) | None => Ok(cluster),
    }
}

/// Why nothing was found that does `kind` on `cluster`.
fn not_found(kind: CollectiveKind, cluster: &Cluster) -> impl Fn(SynthesisError) -> Failure {
    move |error| Failure::new(format!("{} on {}: {error}", kind.name(), title(cluster)))
}

fn options(args: &SynthesizeArgs) -> Options {
    static DEFAULT: OnceLock<Options> = OnceLock::new();
    let default = DEFAULT.get_or_init(Options::default);
    let time = args.time_limit;
    if !args.exact {
        return Options { chunks_max: args.chunks, time, ..*default };
    }
    let chunks_max = if args.chunks == default.chunks_max { EXACT_CHUNKS_MAX } else { args.chunks };
    Options { chunks_max, slack: Ratio::from_integer(0), time }
}

/// A program, and what became of it.
struct Made<'a> {
    verdict: Verdict,
    loads: Option<Loads<'a>>,
    certified: Option<Certified>,
    /// With comments, if it is proved.
    text: Option<String>,
}

impl<'a> Made<'a> {
    fn of(
        args: &SynthesizeArgs,
        plan: &Plan,
        layout: &Layout,
        cluster: &'a Cluster,
        output: &mut Output,
    ) -> Result<Self> {
        let name = args.output.clone().unwrap_or_else(|| format!("{}.msccl", plan.kind.name()));
        let text = program(plan, layout);
        let input = Input { name: name.clone(), text: text.clone() };
        let launch = LaunchArgs { cluster: args.cluster.clone(), ..LaunchArgs::default() };
        let loaded = subject::load(input, &launch, None, &mut |warning| output.warn(warning))?;
        let verdict = verdict::judge(loaded);
        let Verdict::Proved(proved) = &verdict else {
            return Ok(Self { verdict, loads: None, certified: None, text: None });
        };
        let algorithm = proved.verified.algorithm();
        let loads = Loads::of(&name, algorithm, cluster)?;
        let counted = loads.counted();
        let certificate = Certificate::new(plan.ranks, counted, cluster, plan.bound.clone());
        let certificate = certificate
            .ok_or_else(|| Failure::new(format!("{name}: expected messages, found none")))?;
        let text = annotated(&text, plan, counted, &certificate, cluster);
        let certified = Certified::of(&name, &text, algorithm, counted, cluster).transpose()?;
        Ok(Self { verdict, loads: Some(loads), certified, text: Some(text) })
    }
}

/// Writes to the requested file, or to standard output; the bytes of the file.
fn write(args: &SynthesizeArgs, text: &str, output: &mut Output) -> Result<Option<u64>> {
    let failed = |error: std::io::Error| format!("cannot write the program: {error}");
    let Some(path) = &args.output else {
        let written = output.made().write_all(text.as_bytes());
        return written.map(|()| None).map_err(|error| Failure::new(failed(error)));
    };
    let written = artifact::write(path, |out| out.write_all(text.as_bytes()).map_err(failed));
    written.map(Some).map_err(Failure::new)
}

/// What was found, for programs.
#[derive(Serialize)]
struct SynthesisJson<'a> {
    #[serde(flatten)]
    verdict: VerdictJson<'a>,
    chunks: u32,
    trees: usize,
    /// Those of an all-to-all.
    paths: usize,
    height: u32,
    search: &'static str,
    /// Of a call of the size for which it is laid out, by estimate.
    us: Option<f64>,
    loads: Option<LoadsJson>,
    certificate: Option<crate::certified::CertifiedJson>,
    output: Option<&'a str>,
    bytes: Option<u64>,
}

fn report(
    args: &SynthesizeArgs,
    plan: &Plan,
    made: &Made<'_>,
    timed: Option<&Timed>,
    written: Option<u64>,
    output: &mut Output,
) {
    let Made { verdict, loads, certified, text: _ } = made;
    if args.report.format == Format::Json {
        let trees = plan.forests().map(|forest| forest.trees.count()).sum();
        return output.json(&SynthesisJson {
            verdict: verdict.to_json(),
            chunks: plan.chunks,
            trees,
            paths: plan.count() - trees,
            height: plan.height(),
            search: match plan.ending {
                Ending::Complete => "complete",
                Ending::TimeOver => "time over",
            },
            us: timed.map(|timed| timed.us),
            loads: loads.as_ref().map(Loads::to_json),
            certificate: certified.as_ref().map(Certified::to_json),
            output: args.output.as_deref(),
            bytes: written,
        });
    }
    let from = if args.from.is_some() { "read     " } else { "found    " };
    output.detail(format_args!("{from}{}", plan.summary()));
    if plan.ending == Ending::TimeOver {
        output.warn("the time was over; this is the best that was found");
    }
    if let (Some(Timed { layout, us }), Some(size)) = (timed, args.size) {
        let Layout { channels, instances, protocol } = layout;
        output.detail(format_args!(
            "laid out for {size}: {protocol}, {channels} channels a direction, {instances} \
             instances; {us:.1} µs by estimate"
        ));
    }
    verdict::print(verdict, output);
    if let Some(loads) = loads {
        loads::print(loads, output);
    }
    if let Some(certified) = certified {
        certified.print(output);
    }
    if let (Some(path), Some(bytes)) = (&args.output, written) {
        output.detail(format_args!("written  {path}, {}", ByteSize(bytes)));
    }
}
