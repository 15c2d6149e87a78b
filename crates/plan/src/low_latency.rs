//! Launches in which no thread has more than eight packets of a chunk. Low-latency kernels serve
//! them (`kernels/device/low_latency.cuh`), which leave out what such calls cannot need. This
//! module says which of these kernels serves a launch.
//!
//! That follows from the call and the buffers of one rank: other ranks may run another kernel.

use msccl_collective::Protocol;

use crate::alignment::{Alignment, OperandPlacement};
use crate::cut::wire_bytes;
use crate::launch::{LAUNCH_SIGNALS, Launch, PLAN_WORDS};
use crate::layout::{header, tb};
use crate::plan::Plan;

/// Bytes of a packet.
const PACKET_BYTES: u64 = 16;

/// Packets of a chunk that a thread has at most, one after another. Interpreters have several in
/// flight, and were slower all the same with 1 to 14 on two H200s
/// (`docs/results/2026-11-23-2xh200.md`); beyond that, other protocols serve.
const PACKETS_EACH: u64 = 8;

/// Which low-latency kernel serves a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LowLatency {
    /// That for operands which all begin at multiples of eight bytes.
    Aligned,
    /// That for any others.
    Unaligned,
}

/// A plan that such kernels can run: it lies in the launch, and every thread block has an operand
/// table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LowLatencyPlan {
    /// Fewest threads that have an operand each, and a link each.
    threads: u32,
    operands: OperandPlacement,
}

impl LowLatencyPlan {
    /// `plan`, if it is one.
    pub fn of(plan: &Plan) -> Option<Self> {
        if plan.words().len() > header::LENGTH + PLAN_WORDS {
            return None;
        }
        let count = plan.program().thread_blocks.len();
        let entries = plan.words().get(header::LENGTH..)?.chunks_exact(tb::LENGTH).take(count);
        let threads = entries.map(threads_of).try_fold(0, |most, threads| Some(most.max(threads?)));
        Some(Self { threads: threads?, operands: OperandPlacement::of(plan) })
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
    /// Which low-latency kernel can run this launch of `plan` over links of `protocol` with
    /// `threads` threads in a block, if one can.
    pub fn low_latency(
        &self,
        plan: LowLatencyPlan,
        protocol: Protocol,
        threads: u32,
    ) -> Option<LowLatency> {
        let LowLatencyPlan { threads: least, operands } = plan;
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
        Some(if self.alignment(operands) != Alignment::Bytes {
            LowLatency::Aligned
        } else {
            LowLatency::Unaligned
        })
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
        expected: Option<LowLatency>,
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
        let plan = LowLatencyPlan { threads: 40, operands: OperandPlacement { has_blocks: true } };
        assert_eq!(launch.low_latency(plan, protocol, threads), expected, "{protocol}, {threads}");
    }

    #[test]
    fn every_thread_has_few_packets() {
        let long = |launch: &mut Launch| {
            (launch.part_bytes, launch.chunk_bytes, launch.block_bytes) = (8192, 8128, 16256);
        };
        // 1016 and 544 packets.
        check(long, Protocol::Ll, 127, Some(LowLatency::Aligned));
        check(long, Protocol::Ll, 126, None);
        check(long, Protocol::Ll128, 68, Some(LowLatency::Aligned));
        check(long, Protocol::Ll128, 67, None);
        check(|_| (), Protocol::Simple, 256, None);
        // So many operands.
        check(|launch| launch.part_bytes = 256, Protocol::Ll, 40, Some(LowLatency::Aligned));
        check(|launch| launch.part_bytes = 256, Protocol::Ll, 39, None);
    }

    #[test]
    fn what_needs_more_than_one_path_has_no_low_latency_kernel() {
        let unserved = |change: fn(&mut Launch)| check(change, Protocol::Ll, 256, None);
        unserved(|launch| launch.rounds = 2);
        unserved(|launch| launch.chunks_per_message = 1);
        unserved(|launch| launch.most_messages = 5);
        unserved(|launch| launch.flags = LAUNCH_SIGNALS);
        unserved(|launch| launch.block_bytes = 1 << 32);
        unserved(|launch| *launch = launch.step_by_step());
    }

    #[test]
    fn unaligned_operands_have_a_kernel_of_their_own() {
        let unaligned =
            |change: fn(&mut Launch)| check(change, Protocol::Ll, 256, Some(LowLatency::Unaligned));
        unaligned(|launch| launch.input += 4);
        unaligned(|launch| launch.output += 2);
        unaligned(|launch| launch.block_bytes -= 1);
        unaligned(|launch| launch.chunk_bytes -= 4);
        let alone = |launch: &mut Launch| (launch.block_chunks, launch.chunk_bytes) = (1, 1015);
        check(alone, Protocol::Ll, 256, Some(LowLatency::Aligned));
    }
}
