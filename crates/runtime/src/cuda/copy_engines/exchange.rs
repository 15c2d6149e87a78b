//! What orders the copies of an exchange: each rank copies to some peers, and some copy to it.

use std::sync::Arc;

use msccl_collective::Rank;
use msccl_gpu::{DevicePtr, WordOperation};

use super::super::signals::CudaSignals;
use super::{EngineState, GATE, OPEN, STAGE, SUMS, Stage, StageWord};
use crate::error::Error;
use crate::shared_state::{PairFlag, SharedState};

/// Who copies to whom, as one rank has it.
pub(super) struct PairwiseExchange {
    /// The number of the call.
    pub number: u64,
    /// To whom it copies, one after another.
    pub receivers: Vec<Rank>,
    /// Who copies to it.
    pub senders: Vec<Rank>,
}

/// An exchange under way: what streams do with its words.
pub(super) struct ExchangeWords<'a> {
    pub exchange: PairwiseExchange,
    pub state: &'a EngineState,
    pub signals: &'a CudaSignals,
    pub shared_state: &'a Arc<SharedState>,
}

impl ExchangeWords<'_> {
    /// Before the copies to peers: these may come, and this rank's to them, when they have said so.
    pub fn begin(&self) -> Result<Vec<WordOperation>, Error> {
        let PairwiseExchange { number: _, receivers, senders } = &self.exchange;
        let own = self.raised_by_me(senders, PairFlag::Ready)?;
        let ready = self.raised_by(receivers, PairFlag::Ready)?;
        let mut words = vec![self.stage(Stage::Begins)];
        words.extend(own.iter().map(raise));
        words.extend(ready.iter().map(wait));
        words.push(self.gate());
        words.extend(ready.iter().map(take_down));
        words.push(self.stage(Stage::Copies));
        Ok(words)
    }

    /// Before more copies to peers that have come.
    pub fn go_on(&self) -> [WordOperation; 2] {
        [self.gate(), self.stage(Stage::Copies)]
    }

    /// Before the stream waits for sums.
    pub fn await_sums(&self) -> [WordOperation; 1] {
        [self.stage(Stage::Sums)]
    }

    /// Behind the copies of a piece to all receivers.
    pub fn piece_is_there(&self, piece: u64) -> Result<Vec<WordOperation>, Error> {
        let flags = self.raised_by_me(&self.exchange.receivers, PairFlag::Piece(piece))?;
        Ok(flags.iter().map(raise).collect())
    }

    /// Before a piece is used that all senders copy.
    pub fn await_piece(&self, piece: u64) -> Result<Vec<WordOperation>, Error> {
        let flags = self.raised_by(&self.exchange.senders, PairFlag::Piece(piece))?;
        let sums = self.state.words.ptr().offset(8 * SUMS);
        let word = WordOperation::Write { address: sums, value: piece };
        Ok(std::iter::once(word).chain(wait_for_all(&flags)).collect())
    }

    /// Behind all copies to peers.
    pub fn is_done(&self) -> Result<Vec<WordOperation>, Error> {
        let flags = self.raised_by_me(&self.exchange.receivers, PairFlag::Done)?;
        Ok(flags.iter().map(raise).chain([self.stage(Stage::Ends)]).collect())
    }

    /// Before the stream uses what peers copy.
    pub fn end(&self) -> Result<Vec<WordOperation>, Error> {
        let flags = self.raised_by(&self.exchange.senders, PairFlag::Done)?;
        Ok(wait_for_all(&flags).chain(self.leave()).collect())
    }

    /// Where there is nothing to wait for in the end.
    pub fn leave(&self) -> [WordOperation; 1] {
        [self.stage(Stage::Idle)]
    }

    fn stage(&self, stage: Stage) -> WordOperation {
        WordOperation::Write {
            address: self.state.words.ptr().offset(8 * STAGE),
            value: StageWord { stage, call: self.exchange.number }.to_word(),
        }
    }

    fn gate(&self) -> WordOperation {
        let address = self.state.words.ptr().offset(8 * GATE);
        WordOperation::AwaitEqual { address, value: OPEN }
    }

    /// Where the flags lie that this rank raises for `peers`.
    fn raised_by_me(&self, peers: &[Rank], flag: PairFlag) -> Result<Vec<DevicePtr>, Error> {
        peers.iter().map(|peer| self.address(self.state.me, *peer, flag)).collect()
    }

    /// Where those lie that `peers` raise for this rank.
    fn raised_by(&self, peers: &[Rank], flag: PairFlag) -> Result<Vec<DevicePtr>, Error> {
        peers.iter().map(|peer| self.address(*peer, self.state.me, flag)).collect()
    }

    fn address(&self, from: Rank, to: Rank, flag: PairFlag) -> Result<DevicePtr, Error> {
        let word = self.shared_state.flag(from, to, flag);
        let word = word.ok_or_else(|| Error::internal(format!("{from} has no flags")))?;
        self.signals.address(&self.state.context, self.shared_state, word)
    }
}

/// Waits until all of these are up, and takes them down.
fn wait_for_all(flags: &[DevicePtr]) -> impl Iterator<Item = WordOperation> {
    flags.iter().map(wait).chain(flags.iter().map(take_down))
}

fn raise(address: &DevicePtr) -> WordOperation {
    WordOperation::Write { address: *address, value: 1 }
}

fn take_down(address: &DevicePtr) -> WordOperation {
    WordOperation::Write { address: *address, value: 0 }
}

fn wait(address: &DevicePtr) -> WordOperation {
    WordOperation::AwaitEqual { address: *address, value: 1 }
}
