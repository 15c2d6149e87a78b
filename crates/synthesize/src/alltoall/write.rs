//! An exchange as a program.

use std::fmt::Write;

use super::{Exchange, Path};
use crate::layout::{BlockSpread, Layout, ONE_BLOCK, clauses};

/// The function along which chunks travel.
const SEND_ALONG: &str = "\
// Chunks of the block from the first rank of a path to its last one travel along it. Ranks between
// them keep what has arrived in scratch until it leaves.
fn send_along(path, chunks, part) {
    scratch waiting[chunks]
    let from = path[0]
    let to = path[len(path) - 1]
    let sent = input@from[to*chunks .. (to + 1)*chunks][part]
    let received = output@to[from*chunks .. (from + 1)*chunks][part]
    let stops = [sent] + [rank in path[1..len(path) - 1]: waiting@rank[part]] + [received]
    for at in 1..len(stops) { stops[at] = stops[at - 1] }
}
";

/// A block goes from rank `r` to rank `q`.
const BLOCK: &str = "output@q[r*K .. (r + 1)*K] = input@r[q*K .. (q + 1)*K]";

/// The program of `exchange` over so many ranks, before it is formatted.
pub(crate) fn text(exchange: &Exchange, ranks: u32, layout: &Layout) -> String {
    let Exchange { chunks, paths, seconds_per_byte: _ } = exchange;
    let is_straight = |path: &&Path| path.hops() == 1 && path.chunks == *chunks;
    let (straight, others): (Vec<&Path>, Vec<&Path>) = paths.iter().partition(is_straight);
    let function = if others.is_empty() { "" } else { SEND_ALONG };
    let clauses = clauses(layout);
    let mut out = format!(
        "{function}
algorithm alltoall(ranks N = {ranks}) implements alltoall(chunks {chunks}) {clauses} {{
require N == {ranks}, \"these paths are for {ranks} ranks\"
let K = {chunks}
"
    );
    out += &straight_blocks(&straight, ranks, layout);
    out += &other_paths(&others, layout);
    out.push_str("}\n");
    out
}

/// Whole blocks without ranks between, those of each rank to itself among them. Each rank begins
/// with another receiver.
fn straight_blocks(straight: &[&Path], ranks: u32, layout: &Layout) -> String {
    let hint = match layout.spread {
        BlockSpread::Channels(_) => "",
        BlockSpread::OneBlock => ONE_BLOCK,
    };
    let title = "\n// Blocks that stay, and those that go straight to their receivers.\n";
    if straight.len() as u32 == ranks * (ranks - 1) {
        let line =
            format!("for d in 0..N, r in 0..N {hint} {{\nlet q = (r + d) % N\n{BLOCK}\n}}\n");
        return format!("{title}{line}");
    }
    let mut receivers: Vec<Vec<u32>> = (0..ranks).map(|rank| vec![rank]).collect();
    for path in straight {
        let [from, to] = [path.ranks[0], path.ranks[1]];
        receivers[from as usize].push(to);
    }
    for (from, receivers) in (0..).zip(&mut receivers) {
        receivers.sort_by_key(|to| (to + ranks - from) % ranks);
    }
    format!(
        "{title}// By sender: the receivers.\nlet straight = {receivers:?}\n\
         for r in 0..N, q in straight[r] {hint} {{ {BLOCK} }}\n"
    )
}

/// The longest paths first: what has far to go should not begin last.
fn other_paths(others: &[&Path], layout: &Layout) -> String {
    let mut ordered: Vec<&Path> = others.to_vec();
    ordered.sort_by_key(|path| std::cmp::Reverse(path.hops()));
    let mut out = String::new();
    if !ordered.is_empty() {
        out.push_str("\n// The ranks that chunks of a block pass, and which chunks these are.\n");
    }
    for (at, Path { ranks, first_chunk, chunks }) in (0..).zip(ordered) {
        let end = first_chunk + chunks;
        // Writing to a string cannot fail.
        let _ = write!(out, "send_along({ranks:?}, K, {first_chunk}..{end})");
        match layout.spread {
            BlockSpread::Channels(channels) if channels > 1 => {
                let _ = write!(out, " on channel {}", at % channels);
            }
            BlockSpread::Channels(_) => {}
            BlockSpread::OneBlock => out += &format!(" {ONE_BLOCK}"),
        }
        out.push('\n');
    }
    out
}
