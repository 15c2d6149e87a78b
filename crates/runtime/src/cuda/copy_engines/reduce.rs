//! Reductions of which copy engines make the exchange, and a few thread blocks the sums.
//!
//! Every rank combines one part of the result, in pieces. Of a piece each rank copies the others'
//! parts into their inboxes ([`super::inbox`]), a half of which has room for it, and combines its
//! own with what came, in the order of ranks, rounded once. In an all-reduce it then copies what it
//! has combined to the outputs of all. The sums of a piece run in a branch, beside the exchange of
//! the next piece; a half is filled anew only when what it held has been combined:
//!
//! ```text
//! stream   fill half 0 | fill half 1 | hand out piece 0 | fill half 0 | hand out piece 1 | ...
//! branch               | combine piece 0                | combine piece 1                | ...
//! ```
//!
//! * *Half 0 is filled with piece 2* behind the *ready* of its owner, which the owner raises after
//!   it has joined the branch of piece 0.
//! * *A part of an output is written* by its rank alone, after every rank has sent its contribution
//!   to it: the piece was complete when it was combined. So an all-reduce may be in place.
//! * *A result does not depend on how many pieces there are*: an element is one sum of all ranks.

use msccl_collective::{Rank, Reduction as CallReduction};
use msccl_gpu::Function;
use msccl_plan::combine::Combine;
use msccl_plan::launch as abi;
use msccl_select::{COMBINING_BLOCKS, COMBINING_THREADS};

use super::super::launch::{self, Grid};
use super::super::registration::Registration;
use super::super::signals::CudaSignals;
use super::super::stream_order::{self, CallSite};
use super::branch::{FullBranch, Slot};
use super::exchange::{ExchangeWords, PairwiseExchange};
use super::inbox::Inbox;
use super::{CopyEngines, EngineState};
use crate::engine::{CarriedReduction, DecidedCall};
use crate::error::Error;

/// Elements of a piece are a multiple of that, so that pieces begin as aligned as buffers do.
const UNIT: u64 = 256;

/// There are so many pieces, if they have so many bytes: the sums of the last one and the exchange
/// of the first have nothing beside them.
const PIECES: u64 = 8;
const PIECE_BYTES: u64 = 8 << 20;

/// A reduction, cut into pieces.
struct Cut {
    /// Elements of each rank's part but the last one's.
    part: u64,
    /// Elements of all parts.
    all: u64,
    /// Elements of each piece of a part but the last one.
    piece: u64,
    element_bytes: u64,
}

impl Cut {
    fn new(call: &CarriedReduction<'_>, inbox: &Inbox) -> Self {
        let element_bytes = call.decided.data_type.size_bytes() as u64;
        let most = (inbox.slot_bytes() / element_bytes / UNIT * UNIT).max(UNIT);
        let enough = (call.part_elements * element_bytes / PIECE_BYTES).min(PIECES);
        let pieces = call.part_elements.div_ceil(most).max(enough).max(1);
        let piece = call.part_elements.div_ceil(pieces).next_multiple_of(UNIT);
        Self { part: call.part_elements, all: call.all_elements, piece, element_bytes }
    }

    fn pieces(&self) -> u64 {
        self.part.div_ceil(self.piece)
    }

    /// Where piece `number` of the part of `rank` begins among all elements, and how many it has.
    fn of(&self, rank: Rank, number: u64) -> Piece {
        let start = u64::from(rank.0) * self.part;
        let end = (start + self.part).min(self.all);
        let start = start + number * self.piece;
        Piece { start, elements: end.saturating_sub(start).min(self.piece) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    start: u64,
    elements: u64,
}

/// A reduction under way in a stream.
struct Reduction<'a> {
    state: &'a EngineState,
    site: CallSite<'a>,
    call: &'a CarriedReduction<'a>,
    cut: Cut,
    inbox: &'a Inbox,
    words: ExchangeWords,
    combiner: &'a Function,
    registration: &'a Registration,
}

impl CopyEngines {
    /// Puts `call` into the stream of `site`. `combiner` combines its elements.
    pub fn reduce(
        &self,
        site: CallSite<'_>,
        signals: &CudaSignals,
        registration: &Registration,
        combiner: &Function,
        call: &CarriedReduction<'_>,
    ) -> Result<(), Error> {
        let state = &*self.state;
        let inbox = self.inbox.as_ref().ok_or_else(|| Error::internal("there is no inbox"))?;
        state.shared_state.get_or_init(|| call.shared_state.clone());
        let work = call.decided.decision.engine_work.as_ref();
        work.inspect(|work| state.remember(call.decided.number, work));
        let peers: Vec<_> = call.shared_state.ranks().filter(|rank| *rank != state.me).collect();
        let number = call.decided.number;
        let exchange = PairwiseExchange { number, receivers: peers.clone(), senders: peers };
        let words = exchange.words(state, signals, call.shared_state)?;
        let cut = Cut::new(call, inbox);
        Reduction { state, site, call, cut, inbox, words, combiner, registration }.run()
    }
}

impl Reduction<'_> {
    fn run(&self) -> Result<(), Error> {
        let mut before: Option<FullBranch<'_>> = None;
        for number in 0..self.cut.pieces() {
            self.fill(number)?;
            let branch = self.state.branches.begin(self.site)?;
            let full =
                branch.fill(self.site, Slot::of(number), |site| self.combine(site, number))?;
            if let Some(earlier) = before.replace(full) {
                earlier.join(self.site)?;
                self.hand_out(number - 1)?;
            }
        }
        let Some(last) = before else { return Ok(()) };
        last.join(self.site)?;
        self.hand_out(self.cut.pieces() - 1)
    }

    /// Copies a piece of the parts of all peers into their inboxes, and waits for theirs.
    fn fill(&self, number: u64) -> Result<(), Error> {
        self.exchange(|peer| {
            let Piece { start, elements } = self.cut.of(peer, number);
            let to = self.inbox.slot_at(self.registration, self.state.me, peer, number)?;
            let to = to.ok_or_else(|| Error::internal(format!("{peer} has no inbox")))?;
            self.copy(self.call.decided.buffers.send, start, to, elements)
        })
    }

    /// Combines a piece of this rank's part.
    fn combine(&self, site: CallSite<'_>, number: u64) -> Result<(), Error> {
        let Piece { start, elements } = self.cut.of(self.state.me, number);
        if elements == 0 {
            return Ok(());
        }
        let ranks = self.call.shared_state.ranks().count() as u32;
        let DecidedCall { reduction, data_type, .. } = self.call.decided;
        let (reduction, divisor) = match reduction {
            CallReduction::Sum => (abi::REDUCTION_SUM, 0),
            CallReduction::Prod => (abi::REDUCTION_PROD, 0),
            CallReduction::Min => (abi::REDUCTION_MIN, 0),
            CallReduction::Max => (abi::REDUCTION_MAX, 0),
            CallReduction::Avg if data_type.is_float() => (abi::REDUCTION_AVERAGE, 0),
            CallReduction::Avg => (abi::REDUCTION_SUM, ranks),
        };
        let record = Combine {
            to: self.result(start),
            own: self.call.decided.buffers.send + start * self.cut.element_bytes,
            others: self.inbox.own_slot(number, Rank(0)).0,
            stride_bytes: self.inbox.slot_bytes(),
            elements,
            ranks,
            rank: self.state.me.0,
            reduction,
            divisor,
        };
        let grid = Grid::row(COMBINING_BLOCKS, COMBINING_THREADS);
        launch::launch(self.combiner, site.stream(), grid, &record, None)
    }

    /// Where this rank puts the result of element `start`, which is of its part.
    fn result(&self, start: u64) -> u64 {
        let first = match self.call.outputs {
            Some(_) => 0,
            None => u64::from(self.state.me.0) * self.cut.part,
        };
        self.call.decided.buffers.receive + (start - first) * self.cut.element_bytes
    }

    /// Copies what this rank has combined to the outputs of all, where that is asked for.
    fn hand_out(&self, number: u64) -> Result<(), Error> {
        let Some(outputs) = self.call.outputs else { return Ok(()) };
        let Piece { start, elements } = self.cut.of(self.state.me, number);
        self.exchange(|peer| {
            let output = outputs.get(peer.index()).copied();
            let output = output.ok_or_else(|| Error::internal(format!("{peer} has no output")))?;
            let to = output + start * self.cut.element_bytes;
            self.copy(self.call.decided.buffers.receive, start, to, elements)
        })
    }

    /// Has `copies` copy to each peer, when that has come, and waits for what peers copy.
    fn exchange(&self, copies: impl Fn(Rank) -> Result<(), Error>) -> Result<(), Error> {
        let ExchangeWords { before, between, after } = &self.words;
        self.state.operate(self.site, before)?;
        let peers = self.call.shared_state.ranks().filter(|rank| *rank != self.state.me);
        peers.into_iter().try_for_each(copies)?;
        self.state.operate(self.site, between)?;
        self.state.operate(self.site, after)
    }

    /// Copies elements from number `start` of `from` on.
    fn copy(&self, from: u64, start: u64, to: u64, elements: u64) -> Result<(), Error> {
        if elements == 0 {
            return Ok(());
        }
        let size = self.cut.element_bytes;
        let (from, bytes) = (from + start * size, elements * size);
        stream_order::copy(&self.state.context, from, to, bytes, self.site.raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_up_all_parts() {
        for (all, ranks, piece) in [(1000, 3, 256), (1, 4, 256), (4096, 4, 512), (777_777, 5, 1024)]
        {
            let part = u64::div_ceil(all, ranks);
            let cut = Cut { part, all, piece, element_bytes: 4 };
            let pieces = (0..ranks as u32)
                .flat_map(|rank| (0..cut.pieces()).map(move |number| (rank, number)));
            let pieces = pieces.map(|(rank, number)| cut.of(Rank(rank), number));
            let mut next = 0;
            for Piece { start, elements } in pieces.filter(|piece| piece.elements > 0) {
                assert_eq!(start, next);
                assert!(elements <= piece);
                next = start + elements;
            }
            assert_eq!(next, all);
        }
    }
}
