//! The instruction DAG as layers: one row for each rank, and columns in which every message goes to
//! the right.

use std::collections::BTreeMap;

use msccl_compiler::instruction::{Instruction, InstructionDag, Operand, Phase};

use super::RankFilter;
use super::layers::{Arrow, Layers, Node, Tone};

/// The picture of `dag`, which is about `ranks` ranks.
pub fn layers(title: String, ranks: u32, dag: &InstructionDag, filter: &RankFilter) -> Layers {
    let ranks: Vec<_> =
        (0..ranks).map(msccl_collective::Rank).filter(|&rank| filter.shows(rank)).collect();
    let mut boxes = Vec::new();
    let mut positions = vec![None; dag.instructions.len()];
    let columns = columns(dag);
    let placed = dag.instructions.iter().zip(&columns).zip(&mut positions);
    for ((instruction, &column), position) in placed {
        let row = ranks.iter().position(|&rank| rank == instruction.rank);
        *position = row.map(|row| {
            boxes.push(node(dag, instruction, column, row as u32));
            boxes.len() - 1
        });
    }
    let arrows = dag.messages.iter().filter_map(|message| {
        let from = positions[message.sender.0 as usize]?;
        let to = positions[message.receiver.0 as usize]?;
        Some(Arrow { from, to, carries_data: true })
    });
    let arrows = arrows.collect();
    let rows = ranks.iter().map(ToString::to_string).collect();
    Layers { title, rows, boxes, arrows, captions: Vec::new() }
}

/// The column of every instruction: after the senders of its messages, and after what its rank does
/// in earlier waves.
fn columns(dag: &InstructionDag) -> Vec<u32> {
    let mut order: Vec<usize> = (0..dag.instructions.len()).collect();
    order.sort_by_key(|&index| dag.instructions[index].key());
    let mut columns = vec![0; order.len()];
    // The first free column of each rank, by the wave after which it is free.
    let mut free: BTreeMap<_, BTreeMap<u32, u32>> = BTreeMap::new();
    for index in order {
        let instruction = &dag.instructions[index];
        let senders = instruction.receives().map(|message| dag.message(message).sender.0 as usize);
        let after_senders = senders.map(|sender| columns[sender] + 1).max().unwrap_or(0);
        let waves = free.entry(instruction.rank).or_default();
        let earlier = waves.range(..instruction.wave).next_back().map_or(0, |(_, &free)| free);
        let column = after_senders.max(earlier);
        columns[index] = column;
        let latest = waves.values().next_back().copied().unwrap_or(0);
        waves.insert(instruction.wave, latest.max(column + 1));
    }
    columns
}

fn node(dag: &InstructionDag, instruction: &Instruction, column: u32, row: u32) -> Node {
    let Instruction {
        rank: _,
        wave: _,
        phase,
        sources,
        destinations,
        count,
        hints: _,
        statement: _,
    } = instruction;
    let operand = |operand: &Operand| match *operand {
        Operand::Local(slot) => slot.run(*count).to_string(),
        Operand::Message(id) => {
            let message = dag.message(id);
            let is_sent = message.from == instruction.rank;
            if is_sent { message.to.to_string() } else { message.from.to_string() }
        }
    };
    let sources: Vec<_> = sources.iter().map(operand).collect();
    let destinations: Vec<_> = destinations.iter().map(operand).collect();
    Node {
        column,
        row,
        label: format!("{} → {}", sources.join(" + "), destinations.join(", ")),
        detail: dag.line(instruction).to_string(),
        tone: match phase {
            Phase::Send => Tone::Send,
            Phase::Local if sources.len() > 1 => Tone::Reduce,
            Phase::Local => Tone::Copy,
            Phase::Receive => Tone::Receive,
            Phase::Pass => Tone::Pass,
        },
    }
}
