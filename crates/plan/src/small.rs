//! Small calls: launches of which every thread has few packets of any chunk. They have kernels of
//! their own (`kernels/device/small.cuh`), which leave out what such calls cannot need, and which
//! of them serves is said here.
//!
//! It follows from what one rank is asked for and how it lies there: others may run something else.

use msccl_collective::Protocol;

use crate::cut::wire_bytes;
use crate::launch::{LAUNCH_SIGNALS, Launch, PLAN_WORDS};
use crate::layout::{header, tb};
use crate::places::Places;
use crate::plan::Plan;

/// Bytes of a packet.
const PACKET_BYTES: u64 = 16;

/// Packets of a chunk that a thread has at most, one after another. Interpreters have several on
/// their way at once, and were slower all the same with 1 to 14 on two H200s
/// (`docs/results/2026-11-23-2xh200.md`); beyond that, other protocols serve.
const PACKETS_EACH: u64 = 8;

/// Bytes that kernels for [`Small::Even`] load at once.
const WORD_BYTES: u64 = 8;

/// Which kernel serves a small call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Small {
    /// That for operands which all begin at multiples of eight bytes.
    Even,
    /// That for any others.
    Odd,
}

/// A plan that such kernels can run: it lies in the launch, and every thread block has an operand
/// table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmallPlan {
    /// Fewest threads that have an operand each, and a link each.
    threads: u32,
    places: Places,
}

impl SmallPlan {
    /// `plan`, if it is one.
    pub fn of(plan: &Plan) -> Option<Self> {
        if plan.words().len() > header::LENGTH + PLAN_WORDS {
            return None;
        }
        let count = plan.program().thread_blocks.len();
        let entries = plan.words().get(header::LENGTH..)?.chunks_exact(tb::LENGTH).take(count);
        let threads = entries.map(threads_of).try_fold(0, |most, threads| Some(most.max(threads?)));
        Some(Self { threads: threads?, places: Places::of(plan) })
    }
}

/// Fewest threads that a thread block's entry asks for; nothing if it has steps and no operand
/// table.
fn threads_of(entry: &[u32]) -> Option<u32> {
    let word = |at: u32| entry.get(at as usize).copied();
    let (links, operands, steps) = (word(tb::LINKS)?, word(tb::OPERANDS)?, word(tb::STEPS)?);
    let links = (links & 0xffff) + (links >> tb::SENDS_SHIFT);
    (operands > 0 || steps == 0).then_some(links.max(operands))
}

impl Launch {
    /// Which kernel for small calls can run this launch of `plan` over links of `protocol` with
    /// `threads` threads in a block, if one can.
    pub fn small(&self, plan: SmallPlan, protocol: Protocol, threads: u32) -> Option<Small> {
        let SmallPlan { threads: least, places } = plan;
        let part_bytes = self.part_bytes.min(self.chunk_bytes);
        let packets = wire_bytes(protocol, part_bytes) / PACKET_BYTES;
        let fits = protocol != Protocol::Simple
            && self.flags & LAUNCH_SIGNALS == 0
            && self.rounds == 1
            && self.chunks_per_message >= self.longest_step
            && self.link_depth >= self.most_messages
            && u32::try_from(self.block_bytes).is_ok()
            && threads >= least
            && u64::from(threads) * PACKETS_EACH >= packets;
        if !fits {
            return None;
        }
        Some(if self.is_aligned(places, WORD_BYTES) { Small::Even } else { Small::Odd })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of three blocks of two chunks of 1016 bytes each.
    fn check(
        change: impl Fn(&mut Launch),
        protocol: Protocol,
        threads: u32,
        expected: Option<Small>,
    ) {
        let mut launch = Launch {
            input: 4096,
            output: 8192,
            block_bytes: 2032,
            chunk_bytes: 1016,
            part_bytes: 1024,
            slice_bytes: 1024,
            rounds: 1,
            instances: 1,
            chunks_per_message: 2,
            longest_step: 2,
            link_depth: 4,
            most_messages: 4,
            block_chunks: 2,
            ..Launch::default()
        };
        change(&mut launch);
        let plan = SmallPlan { threads: 40, places: Places { has_blocks: true } };
        assert_eq!(launch.small(plan, protocol, threads), expected, "{protocol}, {threads}");
    }

    #[test]
    fn every_thread_has_few_packets() {
        let long = |launch: &mut Launch| {
            (launch.part_bytes, launch.chunk_bytes, launch.block_bytes) = (8192, 8128, 16256);
        };
        // 1016 and 544 packets.
        check(long, Protocol::Ll, 127, Some(Small::Even));
        check(long, Protocol::Ll, 126, None);
        check(long, Protocol::Ll128, 68, Some(Small::Even));
        check(long, Protocol::Ll128, 67, None);
        check(|_| (), Protocol::Simple, 256, None);
        // So many operands.
        check(|launch| launch.part_bytes = 256, Protocol::Ll, 40, Some(Small::Even));
        check(|launch| launch.part_bytes = 256, Protocol::Ll, 39, None);
    }

    #[test]
    fn what_needs_more_than_one_way_is_not_small() {
        let not_small = |change: fn(&mut Launch)| check(change, Protocol::Ll, 256, None);
        not_small(|launch| launch.rounds = 2);
        not_small(|launch| launch.chunks_per_message = 1);
        not_small(|launch| launch.most_messages = 5);
        not_small(|launch| launch.flags = LAUNCH_SIGNALS);
        not_small(|launch| launch.block_bytes = 1 << 32);
        not_small(|launch| *launch = launch.step_by_step());
    }

    #[test]
    fn odd_places_have_a_kernel_of_their_own() {
        let odd = |change: fn(&mut Launch)| check(change, Protocol::Ll, 256, Some(Small::Odd));
        odd(|launch| launch.input += 4);
        odd(|launch| launch.output += 2);
        odd(|launch| launch.block_bytes -= 1);
        odd(|launch| launch.chunk_bytes -= 4);
        let alone = |launch: &mut Launch| (launch.block_chunks, launch.chunk_bytes) = (1, 1015);
        check(alone, Protocol::Ll, 256, Some(Small::Even));
    }
}
