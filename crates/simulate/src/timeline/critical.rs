//! What holds a call up: the chain of steps that ends last.

use msccl_collective::{Rank, TbIndex};

use crate::model::{Cause, Row, Span};

/// The steps of which each waits for the one before, to the step that ends last; the first one
/// first. What a step waited for is its [`Cause`].
pub fn path(rows: &[Row]) -> Vec<Span> {
    let last = rows.iter().enumerate().filter_map(|(row, of)| {
        let span = of.spans.len().checked_sub(1)?;
        Some((row, span))
    });
    let end_us = |&(row, span): &(usize, usize)| rows[row].spans[span].end_us;
    let mut at = last.max_by(|one, other| end_us(one).total_cmp(&end_us(other)));
    let mut chain = Vec::new();
    while let Some((row, number)) = at {
        let span = rows[row].spans[number];
        chain.push(span);
        at = match span.cause {
            Cause::Program => number.checked_sub(1).map(|before| (row, before)),
            Cause::Step(of) | Cause::Message(of) | Cause::Room(of) => {
                before(rows, of, span.start_us)
            }
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
