//! What a proof finds out.

use crate::order::AdditionOrders;
use crate::program::Program;
use crate::regime::Regimes;
use crate::values::{Completion, RawSources, Values};

/// What is known of a proved algorithm.
#[derive(Clone, PartialEq, Debug)]
pub struct Facts {
    /// The least link depth, the same for all links, with which every call in the byte range ends.
    pub least_link_depth: u32,
    /// Fewest chunks per message of any call in the byte range.
    pub fewest_chunks_per_message: u32,
    /// Most chunks per message of any call in the byte range; more than the largest count of any
    /// step makes no difference and is not counted.
    pub most_chunks_per_message: u32,
    /// Steps of all thread blocks of all ranks.
    pub steps: usize,
    /// Slots of all buffers of all ranks.
    pub slots: u64,
    /// Messages of one round with the fewest chunks per message.
    pub messages: u64,
    /// Whether the collective promises anything about the result. If not, everything else is
    /// proved.
    pub result_promised: bool,
    /// Whether output slots with the same promise hold the same expression on every rank, up to
    /// the order of the first two summands of a sum: then they are equal bit for bit whatever the
    /// rounding.
    pub same_on_every_rank: bool,
    /// In which order the promised sums are added. Two algorithms with the same one order give the
    /// same bits.
    pub addition_orders: AdditionOrders,
    /// Whether a call in place changes input slots that are not output slots, as an in-place
    /// reduce-scatter may.
    pub overwrites_input: bool,
    /// Whether the result is right for every count, whatever number of elements a block has. If
    /// not, only counts that the chunks of a block divide are served: on its way, some value stands
    /// in a later chunk of a block than the one it is for, and later chunks may be shorter.
    pub serves_any_count: bool,
    /// The steps at which sums become complete: where an average of integers divides. `None` if
    /// that is not a property of the steps.
    pub completion: Option<Completion>,
    /// The sources of reductions that are raw contributions: where an average of floats scales.
    /// `None` if that is not a property of the steps.
    pub raw: Option<RawSources>,
}

pub(crate) fn gather(
    program: &Program<'_>,
    regimes: &Regimes,
    least_link_depth: u32,
    values: Values,
) -> Facts {
    let Values {
        same_on_every_rank,
        addition_orders,
        overwrites_input,
        serves_any_count,
        result_promised,
        completion,
        raw,
    } = values;
    let algorithm = program.algorithm();
    let collective = &algorithm.collective;
    let slots = collective.all_ranks().zip(&algorithm.ranks).map(|(rank, program)| {
        let caller = collective.input_chunks(rank) + collective.output_chunks(rank);
        u64::from(caller) + u64::from(program.scratch_chunks)
    });
    let steps = algorithm.thread_blocks().flat_map(|(_, _, block)| &block.steps);
    let messages = steps
        .map(|step| u64::from(step.count.div_ceil(regimes.finest)) * step.sends().count() as u64);
    Facts {
        least_link_depth,
        fewest_chunks_per_message: regimes.finest,
        most_chunks_per_message: regimes.coarsest,
        steps: program.step_count(),
        slots: slots.sum(),
        messages: messages.sum(),
        result_promised,
        same_on_every_rank,
        addition_orders,
        overwrites_input,
        serves_any_count,
        completion,
        raw,
    }
}
