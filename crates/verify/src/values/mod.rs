//! What does every slot hold at the end?
//!
//! The run's steps are executed once more, in the order in which they ended, over symbols: a value
//! is a contribution or a sum of values ([`expression`]). Without races every run computes the same
//! values, so this one speaks for all. At the end every output slot must hold exactly the promised
//! multiset ([`promise`]); what is wrong is explained from the trace of the run
//! ([`counterexample`]).

mod completion;
mod counterexample;
mod expression;
mod merged;
mod order;
mod promise;
mod raw;
mod symbols;

use msccl_ir::Target;

use crate::memory::{Call, Memory};
use crate::order::AdditionOrders;
use crate::program::{At, Program};
use crate::refusal::Fault;

pub use completion::Completion;
pub use raw::RawSources;

/// What is known of the values of an algorithm with a right result.
pub(crate) struct Values {
    /// Equal outputs are equal expressions on all ranks, in every call served.
    pub(crate) same_on_every_rank: bool,
    /// In which order promised sums are added, in every call served.
    pub(crate) addition_orders: AdditionOrders,
    /// A call in place changes input slots that are not output slots.
    pub(crate) overwrites_input: bool,
    /// The result is right for every count, in every call served.
    pub(crate) serves_any_count: bool,
    /// Whether the collective promises a result at all.
    pub(crate) result_promised: bool,
    /// The steps that complete a sum, if some set of steps does so alone, in every call served.
    pub(crate) completion: Option<Completion>,
    /// Which sources of reductions are raw contributions, if the same are in every call served.
    pub(crate) raw: Option<RawSources>,
}

/// Checks reads and results for every placement that the algorithm serves.
///
/// # Errors
///
/// Reads of what nobody has written, else wrong results.
pub(crate) fn check(
    program: &Program<'_>,
    target: &Target,
    order: &[At],
) -> Result<Values, Vec<Fault>> {
    let merged = merged::Merged::of(program, target);
    let mut all: Option<Values> = None;
    for call in Call::served(program.algorithm()) {
        let mut values = check_call(program, order, call)?;
        if merged.changes_orders() {
            let larger = merged.values(program, order, call);
            values.same_on_every_rank &= larger.same_on_every_rank;
            values.addition_orders = values.addition_orders.and(larger.addition_orders);
        }
        all = Some(match all {
            Some(first) => first.and(values),
            None => values,
        });
    }
    Ok(all.unwrap_or_else(Values::of_nothing))
}

impl Values {
    fn of_nothing() -> Self {
        Self {
            same_on_every_rank: false,
            addition_orders: AdditionOrders::NoSums,
            overwrites_input: false,
            serves_any_count: false,
            result_promised: false,
            completion: None,
            raw: None,
        }
    }

    /// What holds in both calls.
    fn and(self, other: Values) -> Self {
        Self {
            same_on_every_rank: self.same_on_every_rank && other.same_on_every_rank,
            addition_orders: self.addition_orders.and(other.addition_orders),
            overwrites_input: self.overwrites_input || other.overwrites_input,
            serves_any_count: self.serves_any_count && other.serves_any_count,
            result_promised: self.result_promised && other.result_promised,
            completion: self.completion.filter(|first| other.completion.as_ref() == Some(first)),
            raw: self.raw.filter(|first| other.raw.as_ref() == Some(first)),
        }
    }
}

fn check_call(program: &Program<'_>, order: &[At], call: Call) -> Result<Values, Vec<Fault>> {
    let memory = Memory::new(program.algorithm(), call);
    let mut end = symbols::run(program, order, &memory, symbols::Record::Completions);
    if !end.unwritten.is_empty() {
        return Err(counterexample::unwritten(program, order, &memory, &end.unwritten));
    }
    let verdict = promise::check(program.algorithm(), &memory, &end);
    if !verdict.wrong.is_empty() {
        end = symbols::run(program, order, &memory, symbols::Record::Everything);
        let counterexample = counterexample::Counterexample::new(program, order, &memory, &end);
        return Err(verdict.wrong.iter().map(|wrong| counterexample.fault(wrong)).collect());
    }
    Ok(Values {
        same_on_every_rank: verdict.promises > 0 && verdict.same_on_every_rank,
        addition_orders: order::of(&end, &verdict),
        overwrites_input: verdict.overwrites_input,
        serves_any_count: verdict.columns_kept,
        result_promised: verdict.promises > 0,
        completion: completion::of(program, &end, &verdict),
        raw: end.raw,
    })
}
