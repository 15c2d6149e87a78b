//! Message-size regimes: how many messages a counted step becomes.
//!
//! A message carries as many chunks of a counted step as fit, or all of them where the target packs
//! steps whole. So the only thing that the size of a call changes is the number `m` of chunks per
//! message, and a schedule meets finitely many: from `coarsest` (the smallest call of its byte
//! range) down to `finest` (the largest). Beyond the largest count of any step, `m` makes no
//! difference.
//!
//! A chunk has `⌈E / K⌉` elements of 1 to 8 bytes, or more: runtimes may round its length up to a
//! whole grain of 16 bytes. So in a call of `b` bytes it has at least `⌈b / loop_chunks⌉` bytes and
//! at most those rounded up to a multiple of 16. The former bounds the coarsest regime and the
//! latter the finest.

use msccl_ir::{Algorithm, LinkShape, Target};

/// What the length of a chunk may be rounded up to, in bytes; the size of every element divides it.
const GRAIN_BYTES: u64 = 16;

/// The regimes that an algorithm meets on a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Regimes {
    /// Chunks per message in the smallest call served.
    pub(crate) coarsest: u32,
    /// Chunks per message in the largest call served; at least one.
    pub(crate) finest: u32,
    /// Messages in flight on a link.
    pub(crate) depth: u32,
    message_bytes: u64,
    loop_chunks: u64,
    /// By what the target divides a size to call it the size of a call.
    call_divisor: u64,
}

impl Regimes {
    /// The regimes of `algorithm`, validated, on `target`.
    pub(crate) fn of(algorithm: &Algorithm, target: &Target) -> Self {
        let shape = target.packing_link(&algorithm.collective.kind, algorithm.protocol);
        let LinkShape { depth, message_bytes, packing: _ } = shape;
        let loop_chunks = u64::from(algorithm.collective.loop_chunks()).max(1);
        let largest_count = largest_count(algorithm);
        let at = |chunk_bytes| {
            shape.chunks_per_message(chunk_bytes, target.limits.count).min(largest_count)
        };
        let sizes = algorithm.sizes;
        let longest_chunk = sizes.max_bytes.map_or(u64::MAX, |bytes| {
            let even = bytes.div_ceil(loop_chunks);
            even.checked_next_multiple_of(GRAIN_BYTES).unwrap_or(u64::MAX)
        });
        let finest = at(longest_chunk);
        let coarsest = at(sizes.min_bytes.div_ceil(loop_chunks)).max(finest);
        let call_divisor = target.rules.call_divisor(&algorithm.collective);
        Self { coarsest, finest, depth, message_bytes, loop_chunks, call_divisor }
    }

    /// The greatest number of bytes such that in every call of up to so many a message carries
    /// `chunks` chunks, whatever the size of an element; as the target reckons the size of a call.
    pub(crate) fn largest_call_bytes(&self, chunks: u32) -> u64 {
        let chunk_bytes = self.message_bytes / u64::from(chunks.max(1));
        let whole_grains = chunk_bytes - chunk_bytes % GRAIN_BYTES;
        whole_grains.saturating_mul(self.loop_chunks) / self.call_divisor
    }
}

/// The largest count of a step that touches a link; at least one.
pub(crate) fn largest_count(algorithm: &Algorithm) -> u32 {
    let steps = algorithm.thread_blocks().flat_map(|(_, _, block)| &block.steps);
    let linked = steps.filter(|step| step.receives().chain(step.sends()).next().is_some());
    linked.map(|step| step.count).max().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use msccl_collective::{
        Buffer, Channel, Collective, Kind, Placement, Protocol, Rank, SizeRange, Slot,
    };
    use msccl_ir::{Packing, Place, RankProgram, Step, ThreadBlock};

    use super::*;

    fn regimes(finest: u32, coarsest: u32) -> Regimes {
        Regimes {
            coarsest,
            finest,
            depth: 2,
            message_bytes: 2 << 20,
            loop_chunks: 8,
            call_divisor: 1,
        }
    }

    #[test]
    fn two_chunks_a_message_fit_up_to_half_a_message_a_chunk() {
        assert_eq!(regimes(1, 4).largest_call_bytes(2), 8 << 20);
        assert_eq!(regimes(1, 4).largest_call_bytes(1), 16 << 20);
        // A third of a message is no multiple of 16 bytes.
        assert_eq!(regimes(1, 4).largest_call_bytes(3), 8 * 699_040);
    }

    /// The regimes of one step of four chunks over a block of four, in calls of up to `max_bytes`.
    fn check(packing: Packing, max_bytes: Option<u64>, finest: u32, coarsest: u32) {
        let input = Place::Local(Slot::new(Buffer::Input, 0));
        let step = Step {
            sources: [input].into_iter().collect(),
            destinations: [Place::Link(Rank(1))].into_iter().collect(),
            count: 4,
            ..Step::default()
        };
        let block = ThreadBlock {
            channel: Channel(0),
            sends: vec![Rank(1)],
            receives: Vec::new(),
            steps: vec![step],
        };
        let rank = RankProgram { scratch_chunks: 0, thread_blocks: vec![block] };
        let algorithm = Algorithm {
            name: String::new(),
            collective: Collective { kind: Kind::AllReduce, ranks: 2, chunks: 4 },
            placement: Placement::Both,
            protocol: Protocol::Simple,
            sizes: SizeRange { min_bytes: 0, max_bytes },
            threads: None,
            ranks: vec![rank],
        };
        let simple = LinkShape { depth: 2, message_bytes: 64, packing };
        let found = Regimes::of(&algorithm, &Target { simple, ..Target::native() });
        assert_eq!((found.finest, found.coarsest), (finest, coarsest), "{packing:?} {max_bytes:?}");
    }

    #[test]
    fn steps_sent_whole_know_one_regime() {
        for max_bytes in [None, Some(0), Some(64), Some(u64::MAX)] {
            check(Packing::Whole, max_bytes, 4, 4);
        }
    }

    #[test]
    fn chunks_may_be_longer_than_their_part() {
        check(Packing::Fitting, None, 1, 4);
        check(Packing::Fitting, Some(u64::MAX), 1, 4);
        check(Packing::Fitting, Some(64), 4, 4);
        // Chunks of 18 bytes may become 32 long: two fit 64 bytes, not three.
        check(Packing::Fitting, Some(72), 2, 4);
        check(Packing::Fitting, Some(4 * 32), 2, 4);
        check(Packing::Fitting, Some(4 * 32 + 1), 1, 4);
    }
}
