//! What time goes to.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;

use super::index::Index;
use super::placed::{LineName, PlacedPart};
use crate::timeline::{Span, SpanKind};

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
pub(super) struct PlacedTimes<'a> {
    pub all: Times,
    pub by_rank: BTreeMap<u32, Times>,
    /// By rank, and thread block of the plan.
    pub by_block: BTreeMap<(u32, u32), Times>,
    /// By sender and receiver; waits and moves of both.
    pub by_link: BTreeMap<(u32, u32), Times>,
    pub by_line: BTreeMap<LineName<'a>, Times>,
}

/// The time of the thread blocks in launches.
pub(super) fn placed_times<'a>(index: &Index<'a>, launches: &[usize]) -> PlacedTimes<'a> {
    let mut times = PlacedTimes::default();
    index.parts(launches).for_each(|part| times.add(index, part));
    times
}

impl<'a> PlacedTimes<'a> {
    fn add(&mut self, index: &Index<'a>, part: PlacedPart<'a>) {
        if part.part.spans.is_empty() {
            return;
        }
        let rank = index.rank_number(part.rank);
        let block = part.part.thread_block();
        let of_rank = self.by_rank.entry(rank).or_default();
        let of_block = self.by_block.entry((rank, block)).or_default();
        for placed in part.all() {
            let span = placed.span;
            for times in [&mut self.all, of_rank, of_block] {
                times.add(span);
            }
            if let Some(link) = span.link.map(|link| index.timeline.link(link)) {
                self.by_link.entry((link.from, link.to)).or_default().add(span);
            }
            if let Some(line) = placed.line() {
                self.by_line.entry(line).or_default().add(span);
            }
        }
    }
}
