//! The chunk DAG as layers: one row for each rank, an op in the row of the rank it writes on.

use std::collections::HashMap;

use msccl_compiler::chunk::{At, ChunkDag, Op};

use super::RankFilter;
use super::layers::{Arrow, Layers, Node, Tone};

/// The picture of `dag`: an op stands one column after everything it conflicts with.
pub fn layers(dag: &ChunkDag, filter: &RankFilter) -> Layers {
    let ranks: Vec<_> = dag.collective.all_ranks().filter(|&rank| filter.shows(rank)).collect();
    let mut picture = Layers {
        title: format!("{}: {}", dag.name, dag.collective),
        rows: ranks.iter().map(ToString::to_string).collect(),
        ..Layers::default()
    };
    let mut slots = Slots::default();
    for op in &dag.ops {
        let column = slots.column(op);
        let row = ranks.iter().position(|&rank| rank == op.to.rank);
        let position = row.map(|row| {
            picture.boxes.push(node(op, column, row as u32));
            picture.boxes.len() - 1
        });
        let writers = slots.writers(op);
        if let Some(to) = position {
            let arrows = writers.into_iter().map(|from| Arrow { from, to, carries_data: true });
            picture.arrows.extend(arrows);
        }
        slots.note(op, column, position);
    }
    picture
}

fn node(op: &Op, column: u32, row: u32) -> Node {
    let Op { to, sources, count, hints: _, statement: _ } = op;
    let reduces = sources.len() > 1;
    let from: Vec<_> =
        sources.iter().filter(|source| *source != to).map(|at| place(at, to)).collect();
    let sign = if sources.contains(to) { "+=" } else { "=" };
    Node {
        column,
        row,
        label: format!("{} {sign} {}", to.slot.run(*count), from.join(" + ")),
        detail: op.to_string(),
        tone: if reduces { Tone::Reduce } else { Tone::Copy },
    }
}

/// A source in few words: the rank, and the slot where it is not the destination's.
fn place(source: &At, to: &At) -> String {
    match (source.rank == to.rank, source.slot == to.slot) {
        (true, _) => source.slot.to_string(),
        (false, true) => source.rank.to_string(),
        (false, false) => format!("{}.{}", source.rank, source.slot),
    }
}

/// Who touched each slot last.
#[derive(Default)]
struct Slots {
    uses: HashMap<At, Use>,
}

#[derive(Clone, Copy, Default)]
struct Use {
    /// One more than the column of the last op that wrote it.
    written: u32,
    /// One more than the last column in which it was read or written.
    touched: u32,
    /// The box of the op that wrote it last, if that is drawn.
    writer: Option<usize>,
}

impl Slots {
    /// The first column in which `op` can stand.
    fn column(&self, op: &Op) -> u32 {
        let read = reads(op).filter_map(|at| self.uses.get(&at)).map(|used| used.written);
        let written = run(op.to, op.count).filter_map(|at| self.uses.get(&at));
        read.chain(written.map(|used| used.touched)).max().unwrap_or(0)
    }

    /// The boxes whose results `op` reads, each once.
    fn writers(&self, op: &Op) -> Vec<usize> {
        let writers = reads(op).filter_map(|at| self.uses.get(&at)?.writer);
        let mut writers: Vec<_> = writers.collect();
        writers.sort_unstable();
        writers.dedup();
        writers
    }

    fn note(&mut self, op: &Op, column: u32, position: Option<usize>) {
        for at in reads(op) {
            let used = self.uses.entry(at).or_default();
            used.touched = used.touched.max(column + 1);
        }
        for at in run(op.to, op.count) {
            let now = Use { written: column + 1, touched: column + 1, writer: position };
            self.uses.insert(at, now);
        }
    }
}

fn reads(op: &Op) -> impl Iterator<Item = At> {
    op.sources.iter().flat_map(|&source| run(source, op.count))
}

fn run(start: At, count: u32) -> impl Iterator<Item = At> {
    start.slot.run(count).slots().map(move |slot| At { rank: start.rank, slot })
}
