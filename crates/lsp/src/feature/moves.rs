//! What a statement moves, and what the chunks that it writes hold before and after.

use std::collections::HashMap;

use msccl_collective::{Buffer, Contribution, Placement, Slot};
use msccl_compiler::chunk::{At, ChunkDag, Op};
use msccl_syntax::{FileId, Span, ast};

/// Most ops that are listed.
const MOST_LISTED: usize = 6;

/// Most chunks that are followed; beyond, values are left out.
const MOST_FOLLOWED: usize = 200_000;

/// The innermost assignment or call at a byte.
pub fn statement_at(tree: &ast::File, at: usize) -> Option<Span> {
    let algorithms = tree.items.iter().filter_map(|item| match item {
        ast::Item::Algorithm(item) => Some(&item.body),
        ast::Item::Function(item) => match &item.body {
            ast::FunctionBody::Block(block) => Some(block),
            ast::FunctionBody::Value(_) => None,
        },
        ast::Item::Collective(_) => None,
    });
    algorithms.into_iter().find_map(|block| in_block(block, at))
}

fn in_block(block: &ast::Block, at: usize) -> Option<Span> {
    let touches = |span: Span| span.start as usize <= at && at <= span.end as usize;
    let statement = block.statements.iter().find(|it| touches(it.span))?;
    match &statement.kind {
        ast::StatementKind::Assign { .. } | ast::StatementKind::Call { .. } => Some(statement.span),
        ast::StatementKind::For { body, .. } | ast::StatementKind::On { body, .. } => {
            in_block(body, at)
        }
        ast::StatementKind::If { condition: _, then, otherwise } => {
            in_block(then, at).or_else(|| in_block(otherwise.as_ref()?, at))
        }
        ast::StatementKind::Let { .. }
        | ast::StatementKind::Scratch { .. }
        | ast::StatementKind::Require { .. }
        | ast::StatementKind::Given { .. }
        | ast::StatementKind::Promise { .. } => None,
    }
}

/// What the statement at `span` moves, line by line; empty if nothing.
pub fn of_statement(dag: &ChunkDag, file: FileId, span: Span) -> Vec<String> {
    let span = Span { file, ..span };
    let is_here = |op: &Op| {
        let origin = &dag.statements[op.statement.0 as usize];
        origin.span == span || origin.called_from.contains(&span)
    };
    let is_first_instance = |op: &Op| dag.hints[op.hints.0 as usize].instance == 0;
    let ops = dag.ops.iter().enumerate();
    let ops: Vec<(usize, &Op)> =
        ops.filter(|(_, op)| is_here(op) && is_first_instance(op)).collect();
    if ops.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![summary(dag, ops.iter().map(|(_, op)| *op))];
    let listed: Vec<_> = ops.iter().take(MOST_LISTED).map(|(number, _)| *number).collect();
    lines.extend(listing(dag, &listed));
    match ops.len().saturating_sub(MOST_LISTED) {
        0 => {}
        more => lines.push(format!("… and {more} more")),
    }
    lines
}

fn summary<'a>(dag: &ChunkDag, ops: impl Iterator<Item = &'a Op>) -> String {
    let (mut moves, mut reductions, mut chunks, mut remote) = (0, 0, 0_u64, 0_u64);
    for op in ops {
        moves += 1;
        reductions += usize::from(op.sources.len() > 1);
        let count = u64::from(op.count / dag.instances.max(1)).max(1);
        chunks += count;
        let others = op.sources.iter().filter(|source| source.rank != op.to.rank);
        remote += count * others.count() as u64;
    }
    format!(
        "{} copies, {reductions} reductions; {chunks} chunks written, {remote} over links",
        moves - reductions
    )
}

/// Ops with what they do to their first chunk.
fn listing(dag: &ChunkDag, numbers: &[usize]) -> Vec<String> {
    let last = numbers.last().map_or(0, |last| last + 1);
    let work: usize = dag.ops[..last].iter().map(|op| op.count as usize * op.sources.len()).sum();
    let mut values = (work <= MOST_FOLLOWED).then(|| Values::given(dag));
    let mut lines = Vec::new();
    for (number, op) in dag.ops[..last].iter().enumerate() {
        let before = values.as_ref().map(|values| values.words(dag, op.to));
        if let Some(values) = &mut values {
            values.run(op);
        }
        if numbers.contains(&number) {
            let after = values.as_ref().map(|values| values.words(dag, op.to));
            lines.push(line(dag, op, before, after));
        }
    }
    lines
}

fn line(dag: &ChunkDag, op: &Op, before: Option<String>, after: Option<String>) -> String {
    let to = place(dag, op.to, op.count);
    let adds_to_itself = op.sources.first() == Some(&op.to) && op.sources.len() > 1;
    let sources = op.sources.iter().skip(usize::from(adds_to_itself));
    let sources: Vec<_> = sources.map(|source| place(dag, *source, op.count)).collect();
    let sign = if adds_to_itself { "+=" } else { "=" };
    let moved = format!("{to} {sign} {}", sources.join(" + "));
    match before.zip(after) {
        Some((before, after)) => format!("{moved}    // {before} → {after}"),
        None => moved,
    }
}

/// A region as programs write it.
fn place(dag: &ChunkDag, at: At, count: u32) -> String {
    let instances = dag.instances.max(1);
    let (first, count) = (at.slot.index / instances, (count / instances).max(1));
    let (name, rank) = (at.slot.buffer.name(), at.rank.0);
    match count {
        1 => format!("{name}@{rank}[{first}]"),
        count => format!("{name}@{rank}[{first}..{}]", first + count),
    }
}

/// What every slot holds: contributions, sorted; one that counts twice stands there twice.
struct Values {
    slots: HashMap<At, Vec<Contribution>>,
}

impl Values {
    /// What is there before the first op.
    fn given(dag: &ChunkDag) -> Self {
        let mut slots = HashMap::new();
        let collective = &dag.collective;
        for rank in collective.all_ranks() {
            for index in 0..collective.input_chunks(rank) {
                let slot = Slot::new(Buffer::Input, index);
                let slot = match dag.placement {
                    Placement::InPlace => collective.in_place(rank, slot),
                    Placement::OutOfPlace | Placement::Both => slot,
                };
                let given = collective.given(rank, index).into_iter().collect();
                slots.insert(At { rank, slot }, given);
            }
        }
        Self { slots }
    }

    fn run(&mut self, op: &Op) {
        for chunk in 0..op.count {
            let at = |at: At| At { rank: at.rank, slot: at.slot.offset(chunk) };
            let sources = op.sources.iter().filter_map(|source| self.slots.get(&at(*source)));
            let mut value: Vec<_> = sources.flatten().copied().collect();
            value.sort_by_key(|it| (it.index, it.rank));
            self.slots.insert(at(op.to), value);
        }
    }

    fn words(&self, dag: &ChunkDag, at: At) -> String {
        let value = self.slots.get(&at).map_or(&[][..], |value| value);
        let instances = dag.instances.max(1);
        match value {
            [] => "nothing".to_owned(),
            [one] => format!("input@{}[{}]", one.rank.0, one.index / instances),
            [first, .., last] => {
                let same = value.iter().all(|it| it.index == first.index);
                let run = value.windows(2).all(|two| two[0].rank.0 + 1 == two[1].rank.0);
                let ranks: Vec<_> = value.iter().map(|it| it.rank.0.to_string()).collect();
                match (same, run && value.len() > 2) {
                    (true, true) => {
                        let index = first.index / instances;
                        format!("sum of input@{}…{}[{index}]", first.rank.0, last.rank.0)
                    }
                    (true, false) => {
                        let index = first.index / instances;
                        format!("sum of input@{{{}}}[{index}]", ranks.join(", "))
                    }
                    (false, _) => format!("a sum of {} contributions", value.len()),
                }
            }
        }
    }
}
