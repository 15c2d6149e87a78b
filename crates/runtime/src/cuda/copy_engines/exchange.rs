//! What orders the copies of an exchange: each rank copies to some peers, and some copy to it.

use std::sync::Arc;

use msccl_collective::Rank;
use msccl_gpu::{DevicePtr, WordOperation};

use super::super::signals::CudaSignals;
use super::{EngineState, GATE, OPEN, STAGE, Stage, StageWord};
use crate::error::Error;
use crate::shared_state::{PairFlag, SharedState};

/// Who copies to whom, as one rank has it.
pub(super) struct PairwiseExchange {
    /// The number of the call.
    pub number: u64,
    /// To whom it copies, ascending.
    pub receivers: Vec<Rank>,
    /// Who copies to it, ascending.
    pub senders: Vec<Rank>,
}

/// What a stream does with words: before the copies to peers, right behind them, and before it uses
/// what peers have copied.
pub(super) struct ExchangeWords {
    pub before: Vec<WordOperation>,
    pub between: Vec<WordOperation>,
    pub after: Vec<WordOperation>,
}

impl PairwiseExchange {
    /// The words of the exchange, in the order of the module above.
    pub fn words(
        &self,
        state: &EngineState,
        signals: &CudaSignals,
        shared_state: &Arc<SharedState>,
    ) -> Result<ExchangeWords, Error> {
        let Self { number, receivers, senders } = self;
        let me = state.me;
        let flag = |from, to, flag| {
            let word = shared_state.flag(from, to, flag);
            let word = word.ok_or_else(|| Error::internal(format!("{from} has no flags")))?;
            signals.address(&state.context, shared_state, word)
        };
        let addresses = |ranks: &[Rank], address: &dyn Fn(Rank) -> Result<DevicePtr, Error>| {
            ranks.iter().map(|rank| address(*rank)).collect::<Result<Vec<_>, _>>()
        };
        let own_ready = addresses(senders, &|peer| flag(me, peer, PairFlag::Ready))?;
        let ready = addresses(receivers, &|peer| flag(peer, me, PairFlag::Ready))?;
        let own_done = addresses(receivers, &|peer| flag(me, peer, PairFlag::Done))?;
        let done = addresses(senders, &|peer| flag(peer, me, PairFlag::Done))?;
        let stage = |stage| WordOperation::Write {
            address: state.words.ptr().offset(8 * STAGE),
            value: StageWord { stage, call: *number }.to_word(),
        };
        let gate = state.words.ptr().offset(8 * GATE);
        let gate = WordOperation::AwaitEqual { address: gate, value: OPEN };
        let write = |value: u64| {
            move |address: &DevicePtr| WordOperation::Write { address: *address, value }
        };
        let wait = |address: &DevicePtr| WordOperation::AwaitEqual { address: *address, value: 1 };
        let before = [stage(Stage::Begins)]
            .into_iter()
            .chain(own_ready.iter().map(write(1)))
            .chain(ready.iter().map(wait))
            .chain([gate])
            .chain(ready.iter().map(write(0)))
            .chain([stage(Stage::Copies)]);
        let between = own_done.iter().map(write(1)).chain([stage(Stage::Ends)]);
        let after =
            done.iter().map(wait).chain(done.iter().map(write(0))).chain([stage(Stage::Idle)]);
        let (before, between, after) = (before.collect(), between.collect(), after.collect());
        Ok(ExchangeWords { before, between, after })
    }
}
