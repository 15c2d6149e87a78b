//! `msccl synthesize`: a program for a machine, proved, with a certificate.

mod candidates;
mod fewest_steps;
mod imported;
mod layouts;
mod pieces;
mod report;

use std::io::Write;
use std::sync::OnceLock;

use msccl_collective::{CollectiveKind, Rank};
use msccl_synthesize::{
    Certificate, Ending, Layout, Options, Plan, SynthesisError, annotated, level_plans, plan,
    program,
};
use msccl_topology::cluster::Cluster;
use num_rational::Ratio;

use self::layouts::Search;
use self::pieces::{Piece, pieces};
use crate::args::{LaunchArgs, SynthesizeArgs};
use crate::artifact;
use crate::bound::title;
use crate::certified::Certified;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::loads::Loads;
use crate::output::Output;
use crate::progress::Progress;
use crate::subject;
use crate::verdict::{self, Verdict};

/// The most chunks of a block where the bound is to be met exactly.
const EXACT_CHUNKS_MAX: u32 = 1024;

/// Finds trees, writes them as a program, proves it and counts what links carry.
pub fn synthesize(args: &SynthesizeArgs, output: &mut Output) -> Result<Exit> {
    let cluster = cluster(args, output)?;
    if args.output.is_none() {
        output.divert_reports();
    }
    if args.fewest_steps && args.size.len() > 1 {
        let what =
            "--fewest-steps: expected one --size at most, since the steps are the same for all";
        return Err(Failure::new(format!("{what}; found {}", args.size.len())));
    }
    if args.fewest_steps {
        let progress = Progress::start("looking for messages".to_owned(), output.is_quiet());
        return fewest_steps::synthesize(args, &cluster, progress, output);
    }
    if args.size.len() > 1 && args.output.is_none() {
        let what = "--size: several sizes can have several programs";
        return Err(Failure::new(format!("{what}; name a file for them by --output")));
    }
    let progress = Progress::start("looking for trees".to_owned(), output.is_quiet());
    let plans = plans(args, &cluster)?;
    let mut programs = programs(args, &plans, &cluster, &progress, output)?;
    drop(progress);
    for Program { path, made, bytes, .. } in &mut programs {
        if let Some(text) = &made.text {
            *bytes = write(path.as_deref(), text, output)?;
        }
    }
    report::report(args, &programs, output);
    let exits = programs.iter().map(|program| verdict::exit(&program.made.verdict));
    Ok(exits.into_iter().find(|exit| *exit != Exit::Success).unwrap_or(Exit::Success))
}

/// What is compared: trees or paths, and levels if they may be faster for calls of a size.
fn plans(args: &SynthesizeArgs, cluster: &Cluster) -> Result<Vec<Plan>> {
    let kind = args.collective.rooted_at(Rank(args.root));
    if let Some(path) = &args.from {
        return Ok(vec![imported::plan_from(path, kind, cluster)?]);
    }
    let trees = plan(cluster, kind, &options(args)).map_err(not_found(kind, cluster))?;
    let levels = match args.size[..] {
        [] => Vec::new(),
        [..] => level_plans(cluster, kind).map_err(not_found(kind, cluster))?,
    };
    // What bounds trees bounds levels, too, and may be more than cuts show.
    let bounded = |levels| Plan { bound: trees.bound.clone(), ..levels };
    let levels: Vec<Plan> = levels.into_iter().map(bounded).collect();
    // Levels are estimated sooner, and time may be over.
    Ok(levels.into_iter().chain([trees]).collect())
}

/// A program for some sizes.
struct Program<'a> {
    plan: &'a Plan,
    /// How it was chosen, if that was for a size.
    piece: Option<Piece>,
    ending: Ending,
    /// The file to write; standard output if there is none.
    path: Option<String>,
    made: Made<'a>,
    /// Of the file, when it is written.
    bytes: Option<u64>,
}

/// The program of the only plan; or one for each range of sizes, if sizes are named.
fn programs<'a>(
    args: &SynthesizeArgs,
    plans: &'a [Plan],
    cluster: &'a Cluster,
    progress: &Progress,
    output: &mut Output,
) -> Result<Vec<Program<'a>>> {
    if args.size.is_empty() {
        let plan = &plans[0];
        progress.now("proving what was found".to_owned());
        let (ending, path) = (plan.ending, args.output.clone());
        let made = Made::of(args, plan, &Layout::default(), path.as_deref(), cluster, output)?;
        return Ok(vec![Program { plan, piece: None, ending, path, made, bytes: None }]);
    }
    let mut search = Search::new(plans, args, cluster)?;
    let pieces = pieces(&mut search, args.size.clone(), progress, output)?;
    let search_ending = if search.is_over() { Ending::TimeOver } else { Ending::Complete };
    progress.now("proving what was found".to_owned());
    let several = pieces.len() > 1;
    let program = |(number, piece): (usize, Piece)| {
        let plan = &plans[piece.best.timed.plan];
        let ending = if search_ending == Ending::TimeOver { search_ending } else { plan.ending };
        let numbered = |path: &String| if several { numbered(path, number) } else { path.clone() };
        let path = args.output.as_ref().map(numbered);
        let made = Made::of(args, plan, &piece.layout(), path.as_deref(), cluster, output)?;
        Ok(Program { plan, piece: Some(piece), ending, path, made, bytes: None })
    };
    (1..).zip(pieces).map(program).collect()
}

/// `path` with a number before its extension: `mine.msccl` becomes `mine-1.msccl`.
fn numbered(path: &str, number: usize) -> String {
    match path.rsplit_once('.') {
        Some((stem, extension)) if !extension.contains('/') => {
            format!("{stem}-{number}.{extension}")
        }
        _ => format!("{path}-{number}"),
    }
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
        path: Option<&str>,
        cluster: &'a Cluster,
        output: &mut Output,
    ) -> Result<Self> {
        let name = path.map_or_else(|| format!("{}.msccl", plan.kind.name()), str::to_owned);
        let text = program(plan, layout);
        let verdict = judged(args, &name, text.clone(), output)?;
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

/// The verdict on the program `text`, which messages call `name`.
fn judged(args: &SynthesizeArgs, name: &str, text: String, output: &mut Output) -> Result<Verdict> {
    let input = Input { name: name.to_owned(), text };
    let launch = LaunchArgs { cluster: args.cluster.clone(), ..LaunchArgs::default() };
    let loaded = subject::load(input, &launch, None, &mut |warning| output.warn(warning))?;
    Ok(verdict::judge(loaded))
}

/// Writes to the file of that path, or to standard output; the bytes of the file.
fn write(path: Option<&str>, text: &str, output: &mut Output) -> Result<Option<u64>> {
    let failed = |error: std::io::Error| format!("cannot write the program: {error}");
    let Some(path) = path else {
        let written = output.made().write_all(text.as_bytes());
        return written.map(|()| None).map_err(|error| Failure::new(failed(error)));
    };
    let written = artifact::write(path, |out| out.write_all(text.as_bytes()).map_err(failed));
    written.map(Some).map_err(Failure::new)
}
