//! No-ops that the interpreters misread. Writer and reader share these rules: the writer refuses to
//! write such a thread block, the reader reports it.
//!
//! A no-op lends its wait to the next other step. The interpreters demand that a run of no-ops is
//! followed by a step with a wait of its own, and number the steps as if every no-op had one. So
//! what a file with other no-ops waits for depends on who reads it.

use super::row::{Row, Type};

/// Reports every hazard of one thread block with the position of the step that has it.
pub(super) fn find(rows: &[Row], mut report: impl FnMut(usize, &'static str)) {
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

#[cfg(test)]
mod tests {
    use msccl_collective::{Buffer, Slot};

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
}
