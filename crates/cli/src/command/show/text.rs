//! The stages as text.

use std::fmt::Write;

use msccl_collective::Rank;
use msccl_compiler::{chunk, instruction};
use msccl_ir::{Algorithm, text};

use crate::draw::RankFilter;

/// The head, and the ops that touch a shown rank, in program order.
pub fn chunks(dag: &chunk::ChunkDag, filter: &RankFilter) -> String {
    let touches = |op: &chunk::Op| {
        filter.shows(op.to.rank) || op.sources.iter().any(|source| filter.shows(source.rank))
    };
    let shown: Vec<bool> = dag.ops.iter().map(touches).collect();
    let text = dag.to_string();
    let (head, ops) = text.split_once('\n').unwrap_or((&text, ""));
    let kept = ops.lines().zip(shown).filter(|(_, shown)| *shown).map(|(line, _)| line);
    joined(std::iter::once(head).chain(kept))
}

/// The instructions of the shown ranks, in the order of waves.
pub fn instructions(dag: &instruction::InstructionDag, filter: &RankFilter) -> String {
    let mut shown: Vec<_> =
        dag.instructions.iter().filter(|instruction| filter.shows(instruction.rank)).collect();
    shown.sort_by_key(|instruction| (instruction.key(), instruction.rank));
    let mut text = String::new();
    for instruction in shown {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", dag.line(instruction));
    }
    text
}

/// The head, and the programs of the shown ranks.
pub fn schedule(algorithm: &Algorithm, filter: &RankFilter) -> String {
    let text = text::print(algorithm);
    let mut shows = true;
    let kept = text.lines().filter(|line| {
        if let Some(rank) = rank_of_head(line) {
            shows = filter.shows(rank);
        }
        shows
    });
    joined(kept)
}

/// The rank whose program begins with `line`: `r3 scratch 0`.
fn rank_of_head(line: &str) -> Option<Rank> {
    let (rank, _) = line.strip_prefix('r')?.split_once(" scratch ")?;
    rank.parse().ok().map(Rank)
}

fn joined<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.fold(String::new(), |text, line| text + line + "\n")
}
