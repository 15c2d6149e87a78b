//! A scheduled algorithm as layers: one row for each thread block, one column for each level.

use std::collections::{BTreeMap, HashMap};

use msccl_ir::{Algorithm, Place, Step, StepKind, StepRef};

use super::RankFilter;
use super::layers::{Arrow, Layers, Node, Tone};
use super::levels::{Level, Levels};

/// The picture of `algorithm`. Solid arrows are messages, dashed ones waits; the order within a
/// thread block is from left to right.
pub fn layers(algorithm: &Algorithm, levels: &Levels, filter: &RankFilter) -> Layers {
    let mut rows = Vec::new();
    let mut row_of = HashMap::new();
    for (rank, tb, block) in algorithm.thread_blocks().filter(|(rank, ..)| filter.shows(*rank)) {
        row_of.insert((rank, tb), rows.len() as u32);
        rows.push(format!("{rank} {tb} {}", block.channel));
    }
    let mut boxes = Vec::new();
    let mut kinds = BTreeMap::new();
    let mut positions = vec![None; levels.steps.len()];
    let mut by_step = HashMap::new();
    for (Level { at, level, senders: _ }, position) in levels.steps.iter().zip(&mut positions) {
        let Some(&row) = row_of.get(&(at.rank, at.tb)) else { continue };
        *position = Some(boxes.len());
        by_step.insert(*at, boxes.len());
        let step = algorithm.step(*at);
        kinds.insert(step.kind().abbreviation(), meaning(step.kind()));
        boxes.push(node(*at, step, *level, row));
    }
    let mut arrows = Vec::new();
    for (level, to) in levels.steps.iter().zip(&positions) {
        let Some(to) = *to else { continue };
        let senders = level.senders.iter().filter_map(|&sender| positions[sender]);
        arrows.extend(senders.map(|from| Arrow { from, to, carries_data: true }));
        let waits = algorithm.step(level.at).waits.iter().filter_map(|wait| {
            let at = StepRef { rank: level.at.rank, tb: wait.tb, step: wait.step };
            by_step.get(&at).copied()
        });
        arrows.extend(waits.map(|from| Arrow { from, to, carries_data: false }));
    }
    let title = format!("{}: {}", algorithm.name, algorithm.collective);
    Layers { title, rows, boxes, arrows, captions: captions(&kinds) }
}

/// What the abbreviations mean that are used.
fn captions(kinds: &BTreeMap<&str, &str>) -> Vec<String> {
    kinds.iter().map(|(kind, meaning)| format!("{kind}: {meaning}")).collect()
}

/// The field's word for a step, spelled out.
fn meaning(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Nop => "only waits",
        StepKind::Send => "send",
        StepKind::Recv => "receive",
        StepKind::Copy => "copy",
        StepKind::Reduce => "reduce",
        StepKind::RecvCopySend => "receive, copy, send",
        StepKind::RecvReduceCopy => "receive, reduce, copy",
        StepKind::RecvReduceSend => "receive, reduce, send",
        StepKind::RecvReduceCopySend => "receive, reduce, copy, send",
        StepKind::Many => "any other step: point at it",
    }
}

fn node(at: StepRef, step: &Step, column: u32, row: u32) -> Node {
    let kind = step.kind();
    Node { column, row, label: label(step, kind), detail: detail(at, step), tone: tone(kind) }
}

/// The field's word for the step, and the slots it touches.
fn label(step: &Step, kind: StepKind) -> String {
    let destination = step.writes().next();
    match destination.or_else(|| step.reads().next()) {
        Some(region) => format!("{} {region}", kind.abbreviation()),
        None => kind.abbreviation().to_owned(),
    }
}

fn detail(at: StepRef, step: &Step) -> String {
    let Step { waits, sources, destinations, count } = step;
    let place = |place: &Place| match *place {
        Place::Local(slot) => slot.run(*count).to_string(),
        Place::Link(peer) => peer.to_string(),
    };
    let sources: Vec<_> = sources.iter().map(place).collect();
    let destinations: Vec<_> = destinations.iter().map(place).collect();
    let mut text = format!("{at}: {} → {}", sources.join(" + "), destinations.join(", "));
    for (index, wait) in waits.iter().enumerate() {
        text.push_str(if index == 0 { " after " } else { ", " });
        text.push_str(&wait.to_string());
    }
    text
}

fn tone(kind: StepKind) -> Tone {
    match kind {
        StepKind::Nop => Tone::Wait,
        StepKind::Send => Tone::Send,
        StepKind::Recv | StepKind::RecvReduceCopy => Tone::Receive,
        StepKind::Copy => Tone::Copy,
        StepKind::Reduce => Tone::Reduce,
        StepKind::RecvCopySend
        | StepKind::RecvReduceSend
        | StepKind::RecvReduceCopySend
        | StepKind::Many => Tone::Pass,
    }
}
