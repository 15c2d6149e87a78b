//! What holds a call up: the chain of steps that ends last.

use msccl_collective::{Rank, TbIndex};
use msccl_ir::StepRef;

use crate::model::{Cause, Row, Span};

/// A step on the chain.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Critical {
    /// The step.
    pub at: StepRef,
    /// Its round.
    pub round: u64,
    /// When it began, in µs.
    pub start_us: f64,
    /// When it ended, in µs.
    pub end_us: f64,
    /// What it waited for.
    pub waited: Waited,
}

/// What a step waited for last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// The step before it, or the launch.
    Program,
    /// A step of another thread block.
    Step,
    /// A message.
    Message,
    /// Room in a link.
    Room,
}

/// The chain that ends with the step that ends last, the first step first.
pub fn path(rows: &[Row]) -> Vec<Critical> {
    let last = rows.iter().enumerate().filter_map(|(row, of)| {
        let span = of.spans.len().checked_sub(1)?;
        Some((row, span))
    });
    let end_us = |&(row, span): &(usize, usize)| rows[row].spans[span].end_us;
    let mut at = last.max_by(|one, other| end_us(one).total_cmp(&end_us(other)));
    let mut chain = Vec::new();
    while let Some((row, number)) = at {
        let Span { at: step, round, kind: _, wait_us: _, start_us, end_us, cause } =
            rows[row].spans[number];
        let (waited, other) = match cause {
            Cause::Program => (Waited::Program, None),
            Cause::Step(of) => (Waited::Step, Some(of)),
            Cause::Message(of) => (Waited::Message, Some(of)),
            Cause::Room(of) => (Waited::Room, Some(of)),
        };
        chain.push(Critical { at: step, round, start_us, end_us, waited });
        at = match other {
            None => number.checked_sub(1).map(|before| (row, before)),
            Some(of) => before(rows, of, start_us),
        };
    }
    chain.reverse();
    chain
}

/// The last step of a thread block that began before `us`.
fn before(rows: &[Row], (rank, tb): (Rank, TbIndex), us: f64) -> Option<(usize, usize)> {
    let row = rows.iter().position(|row| row.rank == rank && row.tb == tb)?;
    let started = rows[row].spans.partition_point(|span| span.start_us < us);
    Some((row, started.checked_sub(1)?))
}
