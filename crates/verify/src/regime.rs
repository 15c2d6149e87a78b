//! Message-size regimes: how many messages a counted step becomes.
//!
//! A call of `b` bytes has chunks of `⌈b / loop_chunks⌉` bytes, and a message carries as many chunks
//! of a counted step as fit (or all of them, where the target packs steps whole). So the only thing that the size of a call changes is the number `m` of
//! chunks per message, and a schedule meets finitely many: from `coarsest` (the smallest call of its
//! byte range) down to `finest` (the largest). Beyond the largest count of any step, `m` makes no
//! difference.

use msccl_ir::{Algorithm, LinkShape, Target};

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
}

impl Regimes {
    /// The regimes of `algorithm`, validated, on `target`.
    pub(crate) fn of(algorithm: &Algorithm, target: &Target) -> Self {
        let shape = target.link(algorithm.protocol);
        let LinkShape { depth, message_bytes, packing: _ } = shape;
        let loop_chunks = u64::from(algorithm.collective.loop_chunks()).max(1);
        let largest_count = largest_count(algorithm);
        let at =
            |bytes: u64| shape.chunks_per_message(bytes.div_ceil(loop_chunks), target.limits.count);
        let sizes = algorithm.sizes;
        let finest = at(sizes.max_bytes.unwrap_or(u64::MAX)).min(largest_count);
        let coarsest = at(sizes.min_bytes).min(largest_count).max(finest);
        Self { coarsest, finest, depth, message_bytes, loop_chunks }
    }

    /// The greatest call, in bytes, in which a message still carries `chunks` chunks.
    pub(crate) fn largest_call_bytes(&self, chunks: u32) -> u64 {
        (self.message_bytes / u64::from(chunks.max(1))).saturating_mul(self.loop_chunks)
    }
}

/// The largest count of a step that touches a link; at least one.
fn largest_count(algorithm: &Algorithm) -> u32 {
    let steps = algorithm.thread_blocks().flat_map(|(_, _, block)| &block.steps);
    let linked = steps.filter(|step| step.receives().chain(step.sends()).next().is_some());
    linked.map(|step| step.count).max().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regimes(finest: u32, coarsest: u32) -> Regimes {
        Regimes { coarsest, finest, depth: 2, message_bytes: 2 << 20, loop_chunks: 8 }
    }

    #[test]
    fn two_chunks_a_message_fit_up_to_half_a_message_a_chunk() {
        assert_eq!(regimes(1, 4).largest_call_bytes(2), 8 << 20);
        assert_eq!(regimes(1, 4).largest_call_bytes(1), 16 << 20);
        assert_eq!(regimes(1, 4).largest_call_bytes(3), 8 * ((2 << 20) / 3));
    }
}
