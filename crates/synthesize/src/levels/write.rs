//! Levels as a program, of the standard library's exchanges in groups.

use std::fmt::Write;

use msccl_collective::CollectiveKind;

use super::{Level, LevelKind, Levels};
use crate::layout::{BlockSpread, Layout, ONE_BLOCK, clauses};

/// What [`LevelKind::Exchange`] does. The standard library's `pairs_allreduce` adds what a rank has
/// itself first, so that bits may differ from rank to rank.
const EXCHANGE: &str = "
// Every rank of a group sends its part to all others, and all add in the same order.
fn exchange(group, part) {
    let n = len(group)
    let slots = own(0..n, len(part))
    scratch inbox[n * len(part)]
    for d in 1..n, i in 0..n { inbox@(group[(i + d) % n])[slots[i]] = input@(group[i])[part] }
    for i in 0..n {
        input@(group[i])[part] = sum(j in 0..n:
            if j == i then input@(group[i])[part] else inbox@(group[i])[slots[j]])
    }
}
";

/// The program of `levels` for `kind` over so many ranks, before it is formatted.
pub(crate) fn text(levels: &Levels, kind: CollectiveKind, ranks: u32, layout: &Layout) -> String {
    let exchanges = levels.levels.iter().any(|level| level.kind == LevelKind::Exchange);
    let function = if exchanges { EXCHANGE } else { "" };
    let (name, chunks, clauses) = (kind.name(), levels.chunks(kind), clauses(layout));
    let mut out = format!(
        "import blocks
import pairs
{function}
algorithm {name}(ranks N = {ranks}) implements {name}(chunks {chunks}) in place {clauses} {{
require N == {ranks}, \"these levels are for {ranks} ranks\"
"
    );
    for (number, phase) in phases_of(levels, kind, ranks).into_iter().enumerate() {
        let hint = match layout.spread {
            BlockSpread::OneBlock => ONE_BLOCK.to_owned(),
            BlockSpread::Channels(_) => format!("on channel {number}"),
        };
        let LevelPhase { title, ranges, call } = phase;
        // Writing to a string cannot fail.
        let _ = write!(out, "\n// {title}\nfor {ranges} {hint} {{ {call} }}\n");
    }
    out.push_str("}\n");
    out
}

/// All groups of a level.
struct LevelPhase {
    title: String,
    ranges: String,
    call: String,
}

fn phases_of(levels: &Levels, kind: CollectiveKind, ranks: u32) -> Vec<LevelPhase> {
    let Levels { levels, .. } = levels;
    match kind {
        CollectiveKind::AllGather => {
            let phase = |level| of_blocks(level, ranks, "pairs_allgather", "output");
            levels.iter().rev().map(phase).collect()
        }
        CollectiveKind::ReduceScatter => {
            let phase = |level| of_blocks(level, ranks, "pairs_reducescatter", "input");
            levels.iter().map(phase).collect()
        }
        _ => all_reduce(levels),
    }
}

/// `[k in 0..8: r + k*2]`, and which ranks `r` begin a group.
fn group(level: &Level) -> (String, String) {
    let Level { size, stride, kind: _ } = level;
    let times = if *stride == 1 { String::new() } else { format!("*{stride}") };
    let over = if *stride == 1 { String::new() } else { format!(" / {stride}") };
    (format!("[k in 0..{size}: r + k{times}]"), format!("r in 0..N if r{over} % {size} == 0"))
}

fn title(level: &Level) -> String {
    let Level { size, stride, kind: _ } = level;
    match stride {
        1 => format!("Groups of {size} neighbours"),
        _ => format!("Groups of {size} ranks, {stride} apart"),
    }
}

/// Every rank of a group has, or gets, the blocks of the ranks that agree with it in this digit and
/// in those before.
fn of_blocks(level: &Level, ranks: u32, function: &str, buffer: &str) -> LevelPhase {
    let Level { size, stride, kind: _ } = *level;
    let (group, begins) = group(level);
    let more = ranks / (size * stride);
    let blocks = match (stride, more) {
        (1, 1) => format!("own({group}, 1)"),
        (_, 1) => format!("own([k in 0..{size}: r % {stride} + k*{stride}], 1)"),
        (1, _) => format!("own([k in 0..{size}: k + h*{size}], 1)"),
        (..) => format!("own([k in 0..{size}: r % {stride} + (k + h*{size})*{stride}], 1)"),
    };
    let digits = if more == 1 { String::new() } else { format!("h in 0..{more}, ") };
    LevelPhase {
        title: format!(
            "{}: each rank {} with every other one.",
            title(level),
            match function {
                "pairs_allgather" => "shares the blocks that it has",
                _ => "adds up the blocks that it keeps,",
            }
        ),
        ranges: format!("{digits}{begins}"),
        call: format!("{function}({group}, {buffer}, {blocks})"),
    }
}

/// Inwards by sums of ever smaller parts, and outwards again.
fn all_reduce(levels: &[Level]) -> Vec<LevelPhase> {
    let mut part = levels
        .iter()
        .filter(|level| level.kind == LevelKind::Scatter)
        .map(|level| level.size)
        .product::<u32>();
    // The first chunk that rank `r` has in common with its group.
    let mut first = Vec::new();
    let (mut sums, mut copies) = (Vec::new(), Vec::new());
    for level in levels {
        let (group, ranges) = group(level);
        let from = if first.is_empty() { "0".to_owned() } else { first.join(" + ") };
        let common = |part: u32| match &first[..] {
            [] => format!("0..{part}"),
            _ => format!("{from}..{from} + {part}"),
        };
        let title = title(level);
        match level.kind {
            LevelKind::Exchange => sums.push(LevelPhase {
                title: format!("{title}: each rank sends its part to every other one."),
                ranges,
                call: format!("exchange({group}, {})", common(part)),
            }),
            LevelKind::Scatter => {
                let call = |function: &str| {
                    format!("{function}({group}, input, cut({}, {}))", common(part), level.size)
                };
                sums.push(LevelPhase {
                    title: format!("{title}: each rank gets the sum of its share."),
                    ranges: ranges.clone(),
                    call: call("pairs_reducescatter"),
                });
                copies.push(LevelPhase {
                    title: format!("{title}: each rank hands its share to every other one."),
                    ranges,
                    call: call("pairs_allgather"),
                });
                part /= level.size;
                first.push(digit(level, part));
            }
        }
    }
    sums.into_iter().chain(copies.into_iter().rev()).collect()
}

/// What a digit of `r` adds to the first chunk, if each of its values stands for `part` chunks.
fn digit(level: &Level, part: u32) -> String {
    let Level { size, stride, kind: _ } = level;
    let over = if *stride == 1 { String::new() } else { format!(" / {stride}") };
    let times = if part == 1 { String::new() } else { format!("*{part}") };
    match times.is_empty() {
        true => format!("r{over} % {size}"),
        false => format!("(r{over} % {size}){times}"),
    }
}
