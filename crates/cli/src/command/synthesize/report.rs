//! What was found, for people and for programs.

use msccl_collective::SizeRange;
use msccl_synthesize::{BlockSpread, Ending, Layout, Plan};
use serde::Serialize;

use super::Program;
use super::candidates::Timed;
use super::pieces::Piece;
use crate::args::{Format, SynthesizeArgs};
use crate::certified::{Certified, CertifiedJson};
use crate::loads::{self, Loads, LoadsJson};
use crate::output::Output;
use crate::size::{ByteSize, range_in_words};
use crate::verdict::{self, VerdictJson};

/// A program, for programs.
#[derive(Serialize)]
struct SynthesisJson<'a> {
    #[serde(flatten)]
    verdict: VerdictJson<'a>,
    chunks: u32,
    trees: usize,
    /// Those of an all-to-all.
    paths: usize,
    /// Sizes of groups, inner first.
    levels: Option<String>,
    height: u32,
    search: &'static str,
    /// How it is laid out for a size, if one is named.
    layout: Option<LayoutJson>,
    /// Of a call of the size for which it is laid out, by estimate.
    us: Option<f64>,
    loads: Option<LoadsJson>,
    certificate: Option<CertifiedJson>,
    output: Option<&'a str>,
    bytes: Option<u64>,
}

#[derive(Serialize)]
struct LayoutJson {
    protocol: String,
    /// Of a direction; nothing where one thread block does everything.
    channels: Option<u32>,
    instances: u32,
    thread_blocks: u32,
    min_bytes: u64,
    max_bytes: Option<u64>,
    /// Without the limit of thread blocks, if that is faster.
    unlimited_us: Option<f64>,
}

impl Piece {
    fn to_json(self) -> LayoutJson {
        let Timed { plan: _, layout, thread_blocks, us: _ } = self.best.timed;
        let Layout { spread, instances, protocol, sizes: _ } = layout;
        let SizeRange { min_bytes, max_bytes } = self.sizes;
        LayoutJson {
            protocol: protocol.to_string(),
            channels: match spread {
                BlockSpread::OneBlock => None,
                BlockSpread::Channels(channels) => Some(channels),
            },
            instances,
            thread_blocks,
            min_bytes,
            max_bytes,
            unlimited_us: self.best.unlimited.map(|timed| timed.us),
        }
    }

    /// `LL, one thread block in 8 instances; 3.7 µs by estimate`.
    fn in_words(self, plan: &Plan) -> String {
        let Timed { plan: _, layout, thread_blocks, us } = self.best.timed;
        let Layout { spread, instances, protocol, sizes: _ } = layout;
        let instances = match instances {
            1 => String::new(),
            _ => format!(" in {instances} instances"),
        };
        let channels = match spread {
            BlockSpread::OneBlock => {
                let what = format!("{protocol}, one thread block{instances}");
                return format!("{what}; {us:.1} µs by estimate");
            }
            BlockSpread::Channels(_) if plan.levels().is_some() => "a channel a phase".to_owned(),
            BlockSpread::Channels(1) => "1 channel".to_owned(),
            BlockSpread::Channels(channels) => format!("{channels} channels"),
        };
        let what = format!("{protocol}, {channels}{instances}, {thread_blocks} thread blocks");
        format!("{what}; {us:.1} µs by estimate")
    }
}

pub fn report(args: &SynthesizeArgs, programs: &[Program<'_>], output: &mut Output) {
    if args.report.format == Format::Json {
        let all: Vec<_> = programs.iter().map(Program::to_json).collect();
        return output.json_one_or_many(&all);
    }
    programs.iter().for_each(|program| print(args, program, output));
}

impl Program<'_> {
    fn to_json(&self) -> SynthesisJson<'_> {
        let Program { plan, piece, ending, path, made, bytes } = self;
        let trees = plan.forests().map(|forest| forest.trees.count()).sum();
        let levels = plan.levels();
        SynthesisJson {
            verdict: made.verdict.to_json(),
            chunks: plan.chunks,
            trees,
            paths: if levels.is_some() { 0 } else { plan.count() - trees },
            levels: levels.map(|levels| levels.sizes()),
            height: plan.height(),
            search: match ending {
                Ending::Complete => "complete",
                Ending::TimeOver => "time over",
            },
            layout: piece.map(Piece::to_json),
            us: piece.map(|piece| piece.best.timed.us),
            loads: made.loads.as_ref().map(Loads::to_json),
            certificate: made.certified.as_ref().map(Certified::to_json),
            output: path.as_deref(),
            bytes: *bytes,
        }
    }
}

fn print(args: &SynthesizeArgs, program: &Program<'_>, output: &mut Output) {
    let Program { plan, piece, ending, path, made, bytes } = program;
    let from = if args.from.is_some() { "read     " } else { "found    " };
    output.detail(format_args!("{from}{}", plan.summary()));
    if *ending == Ending::TimeOver {
        output.warn("the time was over; this is the best that was found");
    }
    if let Some(piece) = piece {
        let (size, words) = (piece.size, piece.in_words(plan));
        output.detail(format_args!("laid out for {size}: {words}"));
        if piece.sizes != SizeRange::ALL {
            output.detail(format_args!("serves   {}", range_in_words(piece.sizes)));
        }
        if let (Some(unlimited), Some(most)) = (piece.best.unlimited, args.thread_blocks) {
            let Timed { us, thread_blocks, .. } = unlimited;
            output.detail(format_args!(
                "limited  to {most} thread blocks; {thread_blocks} would take {us:.1} µs"
            ));
        }
    }
    verdict::print(&made.verdict, output);
    if let Some(loads) = &made.loads {
        loads::print(loads, output);
    }
    if let Some(certified) = &made.certified {
        certified.print(output);
    }
    if let (Some(path), Some(bytes)) = (path, bytes) {
        output.detail(format_args!("written  {path}, {}", ByteSize(*bytes)));
    }
}
