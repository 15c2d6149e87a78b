//! Placement never changes what a program means: random programs, every collective.
//!
//! The reference runs a program's statements over the memory it was written for: one value for each
//! slot, aliases joined if the program is in place. The ops are run over the memory of the call.
//! Every output slot that the reference has a value for must hold it.

use std::collections::HashMap;

use msccl_collective::{Buffer, Collective, Placement, Rank, Slot};
use msccl_compiler::chunk::{At, ChunkDag};
use msccl_compiler::evaluate::Launch;
use msccl_testkit::Numbers;

use super::dag_for;

const RANKS: u32 = 3;
const CHUNKS: u32 = 3;
const SCRATCH_CHUNKS: u32 = 4;

const COLLECTIVES: &[&str] = &[
    "allreduce(chunks 3)",
    "allgather(chunks 3)",
    "reducescatter(chunks 3)",
    "alltoall(chunks 3)",
    "broadcast(root 1, chunks 3)",
    "reduce(root 1, chunks 3)",
    "gather(root 1, chunks 3)",
    "scatter(root 1, chunks 3)",
    "wide()",
    "tall()",
];

/// More input than output, and more output than input; promises only fix the sizes.
const CUSTOM: &str = "
    collective wide() {
        for r in 0..3 { given input@r[0..5]  promise output@r[0..3] = input@r[0..3] }
    }
    collective tall() {
        for r in 0..3 { given input@r[1..3]  promise output@r[0..2] = input@r[1..3]
                        promise output@r[3..5] = input@r[1..3] }
    }";

#[test]
fn random_programs_keep_their_meaning() {
    let cases = [
        (false, Placement::OutOfPlace),
        (false, Placement::InPlace),
        (true, Placement::OutOfPlace),
        (true, Placement::InPlace),
    ];
    for collective in COLLECTIVES {
        for (declared, placement) in cases {
            for seed in 1..=40 {
                check(collective, declared, placement, seed);
            }
        }
    }
}

fn check(collective: &str, declared: bool, placement: Placement, seed: u64) {
    let clause = if declared { "in place" } else { "" };
    let program = |body: &str| {
        format!(
            "{CUSTOM}\nalgorithm a(ranks N = 3) implements {collective} {clause} {{\n{body}\n}}"
        )
    };
    let launch = Launch { placement: Some(placement), ..Launch::default() };
    let one_memory = declared || placement == Placement::InPlace;
    let mut reference = Reference::new(dag_for(&program(""), &launch).collective, one_memory);
    let body = reference.random_body(seed);
    let text = program(&body);
    let dag = dag_for(&text, &launch);
    let call = run(&dag, &text);
    for rank in dag.collective.all_ranks() {
        for index in 0..dag.collective.output_chunks(rank) {
            let slot = Slot::new(Buffer::Output, index);
            let expected = reference.get(At { rank, slot });
            if dag.collective.promised(rank, index).is_some() && expected.is_some() {
                let held = call.get(&memory(&dag, At { rank, slot })).copied();
                assert_eq!(held, expected, "{placement} {rank} output[{index}]\n{text}\n{dag}");
            }
        }
    }
}

/// A value for a contribution; sums wrap.
fn value(rank: Rank, index: u32) -> u64 {
    ((u64::from(rank.0) << 32) + u64::from(index) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

struct Reference {
    collective: Collective,
    one_memory: bool,
    values: HashMap<At, u64>,
}

impl Reference {
    fn new(collective: Collective, one_memory: bool) -> Self {
        let mut reference = Self { collective, one_memory, values: HashMap::new() };
        for rank in reference.collective.all_ranks() {
            for index in 0..reference.collective.input_chunks(rank) {
                if reference.collective.given(rank, index).is_some() {
                    let cell = reference.cell(At { rank, slot: Slot::new(Buffer::Input, index) });
                    reference.values.insert(cell, value(rank, index));
                }
            }
        }
        reference
    }

    fn cell(&self, at: At) -> At {
        let At { rank, slot } = at;
        let slot = if self.one_memory { self.collective.in_place(rank, slot) } else { slot };
        At { rank, slot }
    }

    fn get(&self, at: At) -> Option<u64> {
        self.values.get(&self.cell(at)).copied()
    }

    /// Statements that are legal here, run as they are made.
    fn random_body(&mut self, seed: u64) -> String {
        let mut random = Numbers(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let mut body = format!("scratch t[{SCRATCH_CHUNKS}]\n");
        for _ in 0..24 {
            if let Some(statement) = self.random_statement(&mut random) {
                body += &statement;
                body.push('\n');
            }
        }
        body
    }

    fn random_statement(&mut self, random: &mut Numbers) -> Option<String> {
        let count = 1 + random.below_u32(CHUNKS);
        let to = self.random_region(random, count)?;
        let terms = 1 + random.below_u32(2);
        let terms: Option<Vec<At>> =
            (0..terms).map(|_| self.random_region(random, count)).collect();
        let terms = terms?;
        let reduces = random.below_u32(2) == 1;
        let sources: Vec<At> = terms.iter().copied().chain(reduces.then_some(to)).collect();
        let written = |at: &At| (0..count).all(|chunk| self.get(after(*at, chunk)).is_some());
        if !sources.iter().all(written) || !self.is_legal(to, &sources, count) {
            return None;
        }
        for chunk in 0..count {
            let sum = sources.iter().filter_map(|&at| self.get(after(at, chunk)));
            let sum = sum.fold(0, u64::wrapping_add);
            let cell = self.cell(after(to, chunk));
            self.values.insert(cell, sum);
        }
        let right: Vec<_> = terms.iter().map(|&term| write(term, count)).collect();
        let op = if reduces { "+=" } else { "=" };
        Some(format!("{} {op} {}", write(to, count), right.join(" + ")))
    }

    /// Sources are the destination, at most one of them, or lie apart from it.
    fn is_legal(&self, to: At, sources: &[At], count: u32) -> bool {
        let to = self.cell(to);
        let cells = sources.iter().map(|&source| self.cell(source));
        let (same, others): (Vec<At>, Vec<At>) = cells.partition(|&cell| cell == to);
        let apart =
            |cell: &At| cell.rank != to.rank || !cell.slot.run(count).overlaps(to.slot.run(count));
        same.len() <= 1 && others.iter().all(apart)
    }

    fn random_region(&self, random: &mut Numbers, count: u32) -> Option<At> {
        let rank = Rank(random.below_u32(RANKS));
        let buffer = Buffer::ALL[random.below_u32(3) as usize];
        let chunks = match buffer {
            Buffer::Scratch => SCRATCH_CHUNKS,
            Buffer::Input | Buffer::Output => self.collective.buffer_chunks(rank, buffer),
        };
        let starts = (chunks + 1).checked_sub(count)?;
        (starts > 0).then(|| At { rank, slot: Slot::new(buffer, random.below_u32(starts)) })
    }
}

fn after(at: At, chunk: u32) -> At {
    At { rank: at.rank, slot: at.slot.offset(chunk) }
}

fn write(at: At, count: u32) -> String {
    let At { rank, slot } = at;
    let name = if slot.buffer == Buffer::Scratch { "t" } else { slot.buffer.name() };
    format!("{name}@{}[{}..{}]", rank.0, slot.index, slot.index + count)
}

/// What the call's memory holds after the ops. Checks on the way that the input stays as it is.
fn run(dag: &ChunkDag, text: &str) -> HashMap<At, u64> {
    let mut values = HashMap::new();
    for rank in dag.collective.all_ranks() {
        for index in 0..dag.collective.input_chunks(rank) {
            if dag.collective.given(rank, index).is_some() {
                let at = At { rank, slot: Slot::new(Buffer::Input, index) };
                values.insert(memory(dag, at), value(rank, index));
            }
        }
    }
    for op in &dag.ops {
        for chunk in 0..op.count {
            let held = |source: &At| {
                let held = values.get(&memory(dag, after(*source, chunk))).copied();
                held.unwrap_or_else(|| panic!("{op} reads nothing:\n{text}\n{dag}"))
            };
            let sum = op.sources.iter().map(held).fold(0, u64::wrapping_add);
            let to = after(op.to, chunk);
            assert!(may_write(dag, to), "{op} writes the caller's input:\n{dag}");
            values.insert(memory(dag, to), sum);
        }
    }
    values
}

/// The slot that stands for all aliases of a slot in this call.
fn memory(dag: &ChunkDag, at: At) -> At {
    let At { rank, slot } = at;
    let in_place = dag.placement == Placement::InPlace;
    At { rank, slot: if in_place { dag.collective.in_place(rank, slot) } else { slot } }
}

fn may_write(dag: &ChunkDag, at: At) -> bool {
    let collective = &dag.collective;
    match at.slot.buffer {
        Buffer::Scratch => at.slot.index < dag.scratch_chunks[at.rank.index()],
        Buffer::Output => at.slot.index < collective.output_chunks(at.rank),
        Buffer::Input => (0..collective.output_chunks(at.rank)).any(|index| {
            let output = At { rank: at.rank, slot: Slot::new(Buffer::Output, index) };
            memory(dag, output) == memory(dag, at)
        }),
    }
}
