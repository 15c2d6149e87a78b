//! What time goes to.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;

use super::index::Index;
use crate::timeline::{Span, SpanKind, SpanRef};

/// Time of thread blocks by what they do, in µs.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Times {
    /// Waits for data.
    pub wait_data_us: f64,
    /// Waits for room.
    pub wait_room_us: f64,
    /// Waits for other thread blocks.
    pub wait_block_us: f64,
    /// Moves that do not add.
    pub copy_us: f64,
    /// Moves that add.
    pub reduce_us: f64,
    /// What comes behind the last step.
    pub finish_us: f64,
}

impl Times {
    /// All of it.
    pub fn all_us(&self) -> f64 {
        let Self { wait_data_us, wait_room_us, wait_block_us, copy_us, reduce_us, finish_us } =
            self;
        wait_data_us + wait_room_us + wait_block_us + copy_us + reduce_us + finish_us
    }

    fn add(&mut self, span: &Span) {
        let us = span.duration_ns() / 1000.0;
        match span.kind {
            SpanKind::WaitRoom => self.wait_room_us += us,
            SpanKind::WaitData => self.wait_data_us += us,
            SpanKind::WaitBlock => self.wait_block_us += us,
            SpanKind::Copy => self.copy_us += us,
            SpanKind::Reduce => self.reduce_us += us,
            SpanKind::Finish => self.finish_us += us,
        }
    }
}

impl AddAssign for Times {
    fn add_assign(&mut self, other: Self) {
        let Self { wait_data_us, wait_room_us, wait_block_us, copy_us, reduce_us, finish_us } =
            other;
        self.wait_data_us += wait_data_us;
        self.wait_room_us += wait_room_us;
        self.wait_block_us += wait_block_us;
        self.copy_us += copy_us;
        self.reduce_us += reduce_us;
        self.finish_us += finish_us;
    }
}

/// Time of thread blocks, by place.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct PlacedTimes {
    pub all: Times,
    pub by_rank: BTreeMap<u32, Times>,
    /// By rank, and thread block of the plan.
    pub by_block: BTreeMap<(u32, u32), Times>,
    /// By sender and receiver; waits and moves of both.
    pub by_link: BTreeMap<(u32, u32), Times>,
    /// By program and line.
    pub by_line: BTreeMap<(String, u32), Times>,
}

/// The time of the thread blocks in launches.
pub(super) fn placed_times(index: &Index<'_>, launches: &[usize]) -> PlacedTimes {
    let mut times = PlacedTimes::default();
    for launch in launches.iter().map(|number| &index.timeline.launches[*number]) {
        for (rank, of_rank) in index.timeline.rank_launches(launch) {
            let parts = &index.timeline.ranks[rank].parts[of_rank.parts.clone()];
            for at in parts.iter().flat_map(|part| part.spans.clone()) {
                times.add(index, SpanRef { rank: rank as u32, span: at as u32 });
            }
        }
    }
    times
}

impl PlacedTimes {
    fn add(&mut self, index: &Index<'_>, at: SpanRef) {
        let span = index.timeline.span(at);
        let rank = index.rank_number(at.rank);
        self.all.add(span);
        self.by_rank.entry(rank).or_default().add(span);
        if let Some(link) = span.link.map(|link| index.timeline.link(link)) {
            self.by_link.entry((link.from, link.to)).or_default().add(span);
        }
        let Some(placed) = index.placed(at) else { return };
        let block = placed.part.place.map_or(placed.part.track, |place| place.thread_block);
        self.by_block.entry((rank, block)).or_default().add(span);
        let plan = index.timeline.ranks[at.rank as usize].plan(placed.launch);
        let line = placed.step.and_then(|step| step.line);
        if let (Some(plan), Some(line)) = (plan, line) {
            let program = plan.source.as_ref().unwrap_or(&plan.algorithm).clone();
            self.by_line.entry((program, line)).or_default().add(span);
        }
    }
}
