//! The instruction DAG as layers: one row for each rank, one column for each wave.

use msccl_compiler::instruction::{Dag, Instruction, Operand, Phase};

use super::RankFilter;
use super::layers::{Arrow, Layers, Node, Tone};

/// The picture of `dag`, which is about `ranks` ranks.
pub fn layers(title: String, ranks: u32, dag: &Dag, filter: &RankFilter) -> Layers {
    let ranks: Vec<_> = (0..ranks)
        .map(msccl_collective::Rank)
        .filter(|&rank| filter.shows(rank))
        .collect();
    let mut boxes = Vec::new();
    let mut positions = vec![None; dag.instructions.len()];
    for (instruction, position) in dag.instructions.iter().zip(&mut positions) {
        let row = ranks.iter().position(|&rank| rank == instruction.rank);
        *position = row.map(|row| {
            boxes.push(node(dag, instruction, row as u32));
            boxes.len() - 1
        });
    }
    let arrows = dag.messages.iter().filter_map(|message| {
        let from = positions[message.sender.0 as usize]?;
        let to = positions[message.receiver.0 as usize]?;
        Some(Arrow { from, to, carries_data: true })
    });
    let arrows = arrows.collect();
    Layers { title, rows: ranks.iter().map(ToString::to_string).collect(), boxes, arrows }
}

fn node(dag: &Dag, instruction: &Instruction, row: u32) -> Node {
    let Instruction { rank: _, wave, phase, sources, destinations, count, hints: _, statement: _ } =
        instruction;
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
        column: *wave,
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
