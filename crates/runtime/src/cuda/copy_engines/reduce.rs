//! Reductions of which copy engines make the exchange, and a few thread blocks the sums.
//!
//! Every rank combines one part of the result. What does not fit into inboxes comes in rounds
//! ([`super::inbox`]), each of them in pieces. A round begins when all peers have come to it. Then
//! a rank copies its contributions to the parts of its peers, piece by piece, into their inboxes,
//! and never waits for what they copy meanwhile. A branch combines a piece when that of every peer
//! is there, with the rank's own, in the order of ranks, rounded once. In an all-reduce the stream
//! then copies what was combined to the outputs of all:
//!
//! ```text
//! stream   send piece 0 | send piece 1 | ... | hand out piece 0 | hand out piece 1 | ...
//! branch                 | combine piece 0 | combine piece 1 | ...
//! ```
//!
//! * *An inbox is filled anew* behind the *ready* of its owner, which the owner raises after it has
//!   combined all pieces of the round before.
//! * *The flag of a piece* is raised behind its copy, taken down before it is combined, and raised
//!   again in another round: behind that *ready*.
//! * *A part of an output is written* by its rank alone, and a piece of that after every rank has
//!   sent its contribution to it: the piece was complete when it was combined. So an all-reduce may
//!   be in place.
//! * *A result does not depend on how many pieces there are*: an element is one sum of all ranks.

use msccl_collective::Rank;
use msccl_gpu::{Function, WordOperation};
use msccl_plan::combine::Combine;
use msccl_plan::launch as abi;
use msccl_select::{COMBINING_THREADS, EngineWork};

use super::super::kernels::Launchable;
use super::super::launch::{self, Grid};
use super::super::launch_cache;
use super::super::registration::Registration;
use super::super::signals::CudaSignals;
use super::super::stream_order::{self, CallSite};
use super::branch::Mark;
use super::exchange::{ExchangeWords, PairwiseExchange};
use super::inbox::OpenInbox;
use super::{CopyEngines, EngineState};
use crate::engine::CarriedReduction;
use crate::error::Error;
use crate::shared_state::PIECES;

/// Elements of a piece are a multiple of that, so that pieces begin as aligned as buffers do.
const UNIT: u64 = 256;

/// What a rank sends of a piece of a large round. The sums of the last piece and the copies of the
/// first have nothing beside them; but each piece takes some 20 µs for its flags and its kernel, in
/// which an H200 copies 8 MiB.
const PIECE_BYTES: u64 = 32 << 20;
/// What it sends of each of two pieces of a round that is too small for more.
const HALF_BYTES: u64 = 16 << 20;

/// How many pieces a round has of which a rank sends so many bytes.
fn pieces(sent_bytes: u64) -> u64 {
    let halves = (sent_bytes / HALF_BYTES).clamp(1, 2);
    (sent_bytes / PIECE_BYTES).max(halves).min(PIECES)
}

/// A reduction, cut into rounds of pieces, all alike but the last ones.
struct Cut {
    /// Elements of each rank's part.
    part: u64,
    /// Elements of all parts.
    all: u64,
    /// Elements of each part in a round.
    round: u64,
    /// Elements of a piece of them.
    piece: u64,
    element_bytes: u64,
}

impl Cut {
    fn new(call: &CarriedReduction<'_>, inbox: &OpenInbox, ranks: u32) -> Self {
        let element_bytes = call.decided.data_type.size_bytes() as u64;
        let most = (inbox.slot_bytes() / element_bytes / UNIT * UNIT).max(UNIT);
        let rounds = call.part_elements.div_ceil(most).max(1);
        let round = call.part_elements.div_ceil(rounds).next_multiple_of(UNIT);
        let pieces = pieces(round * element_bytes * u64::from(ranks - 1));
        let piece = round.div_ceil(pieces).next_multiple_of(UNIT);
        Self { part: call.part_elements, all: call.all_elements, round, piece, element_bytes }
    }

    fn rounds(&self) -> u64 {
        self.part.div_ceil(self.round)
    }

    /// Of each round.
    fn pieces(&self) -> u64 {
        self.round.div_ceil(self.piece)
    }

    /// Where a piece of the part of `rank` begins among all elements, and how many it has.
    fn of(&self, rank: Rank, PieceNumber { round, piece }: PieceNumber) -> Piece {
        let part = u64::from(rank.0) * self.part;
        let round = part + round * self.round;
        let end = (round + self.round).min(part + self.part).min(self.all);
        let start = round + piece * self.piece;
        Piece { start, elements: end.saturating_sub(start).min(self.piece) }
    }

    /// Where a piece lies among those of its round.
    fn offset_bytes(&self, number: PieceNumber) -> u64 {
        number.piece * self.piece * self.element_bytes
    }
}

/// Which piece of every part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PieceNumber {
    round: u64,
    piece: u64,
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
    inbox: &'a OpenInbox,
    words: ExchangeWords<'a>,
    combiner: &'a Function,
    grid: Grid,
}

impl CopyEngines {
    /// Puts `call` into the stream of `site`. `combiner` combines its elements.
    pub fn reduce(
        &self,
        site: CallSite<'_>,
        signals: &CudaSignals,
        registration: &Registration,
        combiner: &Launchable,
        call: &CarriedReduction<'_>,
    ) -> Result<(), Error> {
        let state = &*self.state;
        let inbox = self.inbox.open(registration, state.me)?;
        let inbox = inbox.ok_or_else(|| Error::internal("there is no inbox"))?;
        state.shared_state.get_or_init(|| call.shared_state.clone());
        let Some(work) = &call.decided.decision.engine_work else {
            return Err(Error::internal("copy engines have nothing to do"));
        };
        let EngineWork::Reduction { combined: _, blocks } = **work else {
            return Err(Error::internal("nothing is to be combined"));
        };
        state.remember(call.decided.number, work);
        let ranks = call.shared_state.ranks().count() as u32;
        // Its right-hand neighbour comes first, so that no rank is everybody's first receiver.
        let peers: Vec<_> = (1..ranks).map(|hops| Rank((state.me.0 + hops) % ranks)).collect();
        let number = call.decided.number;
        let exchange = PairwiseExchange { number, receivers: peers.clone(), senders: peers };
        let words = ExchangeWords { exchange, state, signals, shared_state: call.shared_state };
        let cut = Cut::new(call, inbox, ranks);
        let Launchable { function: combiner, shared_bytes, .. } = combiner;
        let grid = Grid { shared_bytes: *shared_bytes, ..Grid::row(blocks, COMBINING_THREADS) };
        Reduction { state, site, call, cut, inbox, words, combiner, grid }.run()
    }
}

impl Reduction<'_> {
    fn run(&self) -> Result<(), Error> {
        (0..self.cut.rounds()).try_for_each(|round| self.run_round(round))?;
        match self.call.outputs {
            None => self.operate(&self.words.leave()),
            Some(_) => {
                self.operate(&self.words.is_done()?)?;
                self.operate(&self.words.end()?)
            }
        }
    }

    fn run_round(&self, round: u64) -> Result<(), Error> {
        let numbers = (0..self.cut.pieces()).map(|piece| PieceNumber { round, piece });
        let mut branch = self.state.branches.begin(self.site)?;
        self.operate(&self.words.begin()?)?;
        numbers.clone().try_for_each(|number| self.send(number))?;
        // Behind the copies, so that a device that lets streams wait for one another without need
        // has these under way.
        let mut combine = |number: PieceNumber| {
            branch.extend(self.site, number.piece, |site| self.combine(site, number))
        };
        let marks = numbers.clone().map(&mut combine).collect::<Result<Vec<_>, _>>()?;
        self.operate(&self.words.await_sums())?;
        match self.call.outputs {
            None => marks.into_iter().next_back().map_or(Ok(()), |last| last.join(self.site)),
            Some(outputs) => numbers
                .zip(marks)
                .try_for_each(|(number, combined)| self.hand_out(number, combined, outputs)),
        }
    }

    /// Copies a piece of the parts of all peers into their inboxes.
    fn send(&self, number: PieceNumber) -> Result<(), Error> {
        for peer in &self.words.exchange.receivers {
            let to = self.inbox.slot_at(*peer)? + self.cut.offset_bytes(number);
            self.copy(self.call.decided.buffers.send, self.cut.of(*peer, number), to)?;
        }
        self.operate(&self.words.piece_is_there(number.piece)?)
    }

    /// Combines a piece of this rank's part when all peers have sent theirs.
    fn combine(&self, site: CallSite<'_>, number: PieceNumber) -> Result<(), Error> {
        self.state.operate(site, &self.words.await_piece(number.piece)?)?;
        let Piece { start, elements } = self.cut.of(self.state.me, number);
        if elements == 0 {
            return Ok(());
        }
        let ranks = self.call.shared_state.ranks().count() as u32;
        let (reduction, average_of) = launch_cache::reduction(&self.call.decided, ranks);
        // What is scaled before it is added is not divided.
        let divisor = if reduction == abi::REDUCTION_AVERAGE { 0 } else { average_of };
        let record = Combine {
            to: self.result(start),
            own: self.call.decided.buffers.send + start * self.cut.element_bytes,
            others: self.inbox.own_slots()?.0 + self.cut.offset_bytes(number),
            stride_bytes: self.inbox.slot_bytes(),
            elements,
            ranks,
            rank: self.state.me.0,
            reduction,
            divisor,
        };
        launch::launch(self.combiner, site.stream(), self.grid, &record, None)
    }

    /// Where this rank puts the result of element `start`, which is of its part.
    fn result(&self, start: u64) -> u64 {
        let first = match self.call.outputs {
            Some(_) => 0,
            None => u64::from(self.state.me.0) * self.cut.part,
        };
        self.call.decided.buffers.receive + (start - first) * self.cut.element_bytes
    }

    /// Copies a piece to the `outputs` of all peers when this rank has combined it.
    fn hand_out(
        &self,
        number: PieceNumber,
        combined: Mark<'_>,
        outputs: &[u64],
    ) -> Result<(), Error> {
        combined.join(self.site)?;
        self.operate(&self.words.go_on())?;
        let piece = self.cut.of(self.state.me, number);
        for peer in &self.words.exchange.receivers {
            let output = outputs.get(peer.index());
            let output = output.ok_or_else(|| Error::internal(format!("{peer} has no output")))?;
            let to = output + piece.start * self.cut.element_bytes;
            self.copy(self.call.decided.buffers.receive, piece, to)?;
        }
        self.operate(&self.words.await_sums())
    }

    fn operate(&self, words: &[WordOperation]) -> Result<(), Error> {
        self.state.operate(self.site, words)
    }

    /// Copies the elements of `piece` of the buffer `from`.
    fn copy(&self, from: u64, piece: Piece, to: u64) -> Result<(), Error> {
        let Piece { start, elements } = piece;
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
    fn larger_rounds_have_more_pieces() {
        let found = [1, 15, 16, 31, 32, 64, 95, 96, 128, 256, 4096].map(|mib| pieces(mib << 20));
        assert_eq!(found, [1, 1, 1, 1, 2, 2, 2, 3, 4, 8, PIECES]);
    }

    #[test]
    fn pieces_make_up_all_parts() {
        for (all, ranks, round, piece) in
            [(1000, 3, 512, 256), (1, 4, 256, 256), (4096, 4, 1024, 512), (777_777, 5, 4096, 1024)]
        {
            let part = u64::div_ceil(all, ranks);
            let cut = Cut { part, all, round, piece, element_bytes: 4 };
            let numbers = (0..cut.rounds())
                .flat_map(|round| (0..cut.pieces()).map(move |piece| PieceNumber { round, piece }));
            let ranks = (0..ranks as u32).map(Rank);
            let pieces = ranks.flat_map(|rank| numbers.clone().map(move |of| (rank, of)));
            let mut next = 0;
            for Piece { start, elements } in pieces.map(|(rank, number)| cut.of(rank, number)) {
                if elements > 0 {
                    assert_eq!(start, next);
                    assert!(elements <= piece);
                    next = start + elements;
                }
            }
            assert_eq!(next, all);
        }
    }
}
