//! Which sources of reductions are raw contributions.
//!
//! A value is raw as long as it is one contribution, bit for bit as its rank gave it, however often
//! it was copied or sent. It stops being raw where it is combined with others. So every
//! contribution to a sum passes exactly one operand in which it is raw and combined: where
//! contributions are to be scaled before they are added, that is the place, and no other work is
//! needed.
//!
//! That place is a property of the steps if each source of each reduction is raw for all its
//! chunks, or for none.

use msccl_ir::StepRef;

use crate::program::{At, Program};

/// The sources that are raw, one bit each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawSources {
    /// For every rank, the first step number of each of its thread blocks.
    first_step: Vec<Vec<u32>>,
    /// For every step, the number of its first source; and that of all sources.
    first_source: Vec<u32>,
    bits: Vec<u64>,
}

impl RawSources {
    /// Whether source number `source` of the step is a raw contribution that the step combines with
    /// others.
    pub fn contains(&self, at: StepRef, source: usize) -> bool {
        let blocks = self.first_step.get(at.rank.index());
        let first = blocks.and_then(|blocks| blocks.get(at.tb.index()));
        let step = first.map(|first| (first + at.step.0) as usize);
        let place = step.and_then(|step| self.first_source.get(step..step + 2));
        place.is_some_and(|ends| {
            let bit = ends[0] as usize + source;
            bit < ends[1] as usize && self.bits[bit / 64] >> (bit % 64) & 1 == 1
        })
    }

    /// How many sources are raw.
    pub fn len(&self) -> usize {
        self.bits.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether none is: the algorithm combines nothing.
    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|word| *word == 0)
    }
}

/// What is found out during a run, reduction by reduction.
pub(super) struct RawRecord {
    sources: RawSources,
    /// The step that was the last to combine something.
    last: Option<At>,
    /// Whether some source is raw for some chunks alone.
    mixed: bool,
}

impl RawRecord {
    pub(super) fn new(program: &Program<'_>) -> Self {
        let steps = program.algorithm().thread_blocks().flat_map(|(_, _, block)| &block.steps);
        let mut first_source = vec![0];
        let mut sources = 0;
        for step in steps {
            sources += step.sources.len() as u32;
            first_source.push(sources);
        }
        let bits = vec![0; (sources as usize).div_ceil(64)];
        Self {
            sources: RawSources { first_step: program.first_steps(), first_source, bits },
            last: None,
            mixed: false,
        }
    }

    /// The step `at`, number `id`, combines a chunk of each of several sources; of each, whether it
    /// is raw. Chunks of a step follow one another.
    pub(super) fn combine(&mut self, at: At, id: usize, raw: impl Iterator<Item = bool>) {
        let is_first = self.last.replace(at) != Some(at);
        let start = self.sources.first_source.get(id).copied().unwrap_or(0) as usize;
        for (bit, raw) in (start..).zip(raw) {
            let Some(word) = self.sources.bits.get_mut(bit / 64) else { return };
            let mask = 1 << (bit % 64);
            if is_first {
                *word = if raw { *word | mask } else { *word & !mask };
            } else {
                self.mixed |= (*word & mask != 0) != raw;
            }
        }
    }

    /// The raw sources, if they are a property of the steps.
    pub(super) fn finish(self) -> Option<RawSources> {
        (!self.mixed).then_some(self.sources)
    }
}
