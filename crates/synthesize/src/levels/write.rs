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
    let (name, chunks, clauses) = (kind.name(), levels.chunks, clauses(layout));
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
    match kind {
        CollectiveKind::AllGather => {
            let what = "each rank shares the blocks that it has with every other one.";
            let call =
                |group: &str, blocks: &str| format!("pairs_allgather({group}, output, {blocks})");
            levels.levels.iter().rev().map(|level| of_blocks(level, ranks, what, call)).collect()
        }
        CollectiveKind::ReduceScatter => {
            let what = "each rank adds up the blocks that it keeps, with every other one.";
            let call = |group: &str, blocks: &str| {
                format!("pairs_reducescatter({group}, input, {blocks})")
            };
            levels.levels.iter().map(|level| of_blocks(level, ranks, what, call)).collect()
        }
        _ => all_reduce(levels),
    }
}

/// `*8`, unless that is nothing.
fn times(factor: u32) -> String {
    if factor == 1 { String::new() } else { format!("*{factor}") }
}

/// The digit of rank `r` at a level: `r / 8 % 2`.
fn digit(level: &Level) -> String {
    let Level { size, stride, kind: _ } = *level;
    let over = if stride == 1 { String::new() } else { format!(" / {stride}") };
    format!("r{over} % {size}")
}

/// `[k in 0..8: r + k*2]`, and which ranks `r` begin a group.
fn group(level: &Level) -> (String, String) {
    let Level { size, stride, kind: _ } = *level;
    let group = format!("[k in 0..{size}: r + k{}]", times(stride));
    (group, format!("r in 0..N if {} == 0", digit(level)))
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
fn of_blocks(
    level: &Level,
    ranks: u32,
    what: &str,
    call: impl Fn(&str, &str) -> String,
) -> LevelPhase {
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
        title: format!("{}: {what}", title(level)),
        ranges: format!("{digits}{begins}"),
        call: call(&group, &blocks),
    }
}

/// Inwards by sums of ever smaller parts, and outwards again.
fn all_reduce(levels: &Levels) -> Vec<LevelPhase> {
    let mut part = levels.chunks;
    // The terms of the first chunk that rank `r` has in common with its group.
    let mut first: Vec<String> = Vec::new();
    let (mut sums, mut copies) = (Vec::new(), Vec::new());
    for level in &levels.levels {
        let (group, ranges) = group(level);
        let common = match first.join(" + ") {
            from if from.is_empty() => format!("0..{part}"),
            from => format!("{from}..{from} + {part}"),
        };
        let phase = |what: &str, call: String| LevelPhase {
            title: format!("{}: each rank {what}.", title(level)),
            ranges: ranges.clone(),
            call,
        };
        match level.kind {
            LevelKind::Exchange => {
                let what = "sends its part to every other one";
                sums.push(phase(what, format!("exchange({group}, {common})")));
            }
            LevelKind::Scatter => {
                let blocks = format!("cut({common}, {})", level.size);
                let call = |function: &str| format!("{function}({group}, input, {blocks})");
                sums.push(phase("gets the sum of its share", call("pairs_reducescatter")));
                let what = "hands its share to every other one";
                copies.push(phase(what, call("pairs_allgather")));
                part /= level.size;
                first.push(first_of(level, part));
            }
        }
    }
    sums.into_iter().chain(copies.into_iter().rev()).collect()
}

/// What a digit of `r` adds to the first chunk, if each of its values stands for `part` chunks.
fn first_of(level: &Level, part: u32) -> String {
    if part == 1 { digit(level) } else { format!("({}){}", digit(level), times(part)) }
}
