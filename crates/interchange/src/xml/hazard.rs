//! What the interpreters run wrong although every single step is in order. Writer and reader share
//! these rules: the writer refuses to write such a thread block, the reader reports it.
//!
//! - A no-op lends its wait to the next other step. The interpreters demand that a run of no-ops is
//!   followed by a step with a wait of its own, and number the steps as if every no-op had one.
//! - Consecutive `re` with the same source buffer and the same destination, of which the followers
//!   have no wait, are merged into one sum of up to [`LONGEST_CHAIN`] sources. The merged step uses
//!   the last count for all, and reads every source before it writes. A step that signals ends the
//!   chain; so does the block's `re` number [`LONGEST_CHAIN`], but no later one.

use msccl_collective::{Buffer, Slot};

use super::row::{Row, Type};

/// Sources that a merged `re` has room for.
const LONGEST_CHAIN: u32 = 16;

/// Reports every hazard of one thread block with the position of the step that has it.
pub(super) fn find(rows: &[Row], mut report: impl FnMut(usize, &'static str)) {
    lonely_nops(rows, &mut report);
    unlike_chains(rows, &mut report);
}

fn lonely_nops(rows: &[Row], report: &mut impl FnMut(usize, &'static str)) {
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| row.kind == Type::Nop) {
        if row.wait.is_none() {
            report(at, "a no-op must wait for a step; give it one, or leave it out");
        }
        match rows.get(at + 1) {
            Some(next) if next.kind == Type::Nop || next.wait.is_some() => {}
            _ => report(
                at,
                "no-ops must be followed by a step that waits too; move the last no-op's wait \
                 into that step",
            ),
        }
    }
}

struct Chain {
    from: Buffer,
    to: Slot,
    count: u32,
    length: u32,
}

fn unlike_chains(rows: &[Row], report: &mut impl FnMut(usize, &'static str)) {
    let mut chain: Option<Chain> = None;
    let mut reductions = 0;
    for (at, row) in rows.iter().enumerate() {
        if row.kind != Type::Reduce {
            chain = None;
            continue;
        }
        chain = Some(match chain.take().filter(|chain| chain.takes(row)) {
            Some(chain) => chain.follow(row, |message| report(at, message)),
            None => Chain { from: row.src.buffer, to: row.dst, count: row.count, length: 1 },
        });
        reductions += 1;
        if row.signals || reductions == LONGEST_CHAIN {
            chain = None;
        }
    }
}

impl Chain {
    fn takes(&self, row: &Row) -> bool {
        self.from == row.src.buffer && self.to == row.dst && row.wait.is_none()
    }

    fn follow(self, row: &Row, mut report: impl FnMut(&'static str)) -> Self {
        let Chain { from, to, count, length } = self;
        if count != row.count {
            report(
                "this `re` is merged with the one before it, and the merged step uses the last \
                 count for both; give them one count, or put another step between them",
            );
        }
        if row.src.run(row.count).overlaps(to.run(count)) {
            report(
                "this `re` is merged with the one before it, and reads its source before the \
                 other's sum is stored there; put another step between them",
            );
        }
        if length == LONGEST_CHAIN {
            report("more than 16 `re` are merged into one; put another step between them");
        }
        Chain { from, to, count: row.count, length: length + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::row::wait;

    fn row(kind: Type, src: u32, count: u32) -> Row {
        let src = Slot::new(Buffer::Scratch, src);
        let dst = Slot::new(Buffer::Input, 0);
        Row { kind, src, dst, count, wait: None, signals: false }
    }

    fn check(rows: &[Row], expected: &[usize]) {
        let mut found = Vec::new();
        find(rows, |at, _| found.push(at));
        assert_eq!(found, expected, "{rows:?}");
    }

    #[test]
    fn no_ops_lend_their_wait_to_a_waiting_step() {
        let nop = Row { wait: Some(wait(1, 0)), ..row(Type::Nop, 0, 0) };
        let waiting = Row { wait: Some(wait(2, 0)), ..row(Type::Send, 0, 1) };
        check(&[nop, nop, waiting], &[]);
        check(&[nop, row(Type::Send, 0, 1)], &[0]);
        check(&[waiting, nop], &[1]);
        check(&[row(Type::Nop, 0, 0), waiting], &[0]);
    }

    #[test]
    fn merged_reductions_share_one_count() {
        let (one, two) = (row(Type::Reduce, 0, 1), row(Type::Reduce, 1, 2));
        check(&[one, one, one], &[]);
        check(&[one, two], &[1]);
        check(&[one, Row { wait: Some(wait(1, 0)), ..two }], &[]);
        check(&[Row { signals: true, ..one }, two], &[]);
        check(&[one, row(Type::Copy, 5, 1), two], &[]);
    }

    #[test]
    fn merged_reductions_must_not_read_their_own_sum() {
        let to = Slot::new(Buffer::Scratch, 4);
        let first = Row { dst: to, ..row(Type::Reduce, 0, 1) };
        let double = Row { dst: to, ..row(Type::Reduce, 4, 1) };
        check(&[first, double], &[1]);
        check(&[double, first], &[]);
    }

    #[test]
    fn chains_are_cut_at_the_sixteenth_reduction_of_the_block_only() {
        let chain = vec![row(Type::Reduce, 0, 1); 32];
        check(&chain, &[]);
        let longer = vec![row(Type::Reduce, 0, 1); 34];
        check(&longer, &[32]);
    }
}
