//! What executes a rank's part of calls: host threads ([`crate::host`]) or a GPU ([`crate::cuda`]).
//!
//! An engine owns the *wires* of its rank: physical links to and from every peer, made once when
//! the communicator is, the same number for every pair. A plan's links are laid onto them call by
//! call (`msccl_select::Prepared`), which needs no exchange between ranks.
//!
//! Every engine promises: calls are executed in the order in which they are given, whatever their
//! streams; nothing waits without watching for a failure or an abort of the communicator; memory
//! that a call needs beyond the caller's is the engine's, and is kept for later calls.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use msccl_collective::{CallPlacement, DataType, Rank, Reduction};
use msccl_fabric::Group;
use msccl_plan::exchange::Transfer;
use msccl_select::{Capacity, Decision, Selector};

use crate::call::{Buffers, Scalar};
use crate::error::Error;
use crate::nodes::Nodes;
use crate::settings::Settings;
use crate::shared_state::SharedState;
pub(crate) use crate::waiting::Waiting;

/// One collective, decided.
#[derive(Clone, Copy)]
pub(crate) struct DecidedCall<'a> {
    /// What runs, and how. Links are none but what the engine [has](Capacity::has), and the same on
    /// all ranks.
    pub decision: &'a Decision,
    /// The type of every element.
    pub data_type: DataType,
    /// How contributions combine.
    pub reduction: Reduction,
    /// What it works on.
    pub buffers: Buffers,
    /// The number of the call on its communicator.
    pub number: u64,
    /// What its caller asked for.
    pub request: CallRequest,
}

/// What the caller of a collective asked for, as recordings say it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct CallRequest {
    /// Name of the collective.
    pub collective: &'static str,
    /// Whether it shares memory between input and output.
    pub placement: CallPlacement,
    /// Elements of a block.
    pub count: u64,
    /// Bytes of the larger buffer.
    pub bytes: u64,
}

/// Copying one array into another, each element changed alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scaling {
    /// The first element read.
    pub from: u64,
    /// The first element written; the same as `from`, or elsewhere.
    pub to: u64,
    /// How many.
    pub elements: u64,
    /// Their type.
    pub data_type: DataType,
    /// How.
    pub by: ScaleBy,
}

/// How elements are scaled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScaleBy {
    /// Multiplied by a scalar, and rounded once.
    Scalar(Scalar),
    /// Divided by a number of contributions, as an average of integers is.
    Divisor(NonZeroU32),
}

/// Memory that a rank shows its peers, as one of them finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ShownMemory {
    /// Where it begins.
    pub address: u64,
    /// How long it is.
    pub bytes: u64,
    /// In which allocation it lies, if peers map that.
    pub export: Option<ShownExport>,
}

/// An allocation in a rank's export table, as all its peers know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ShownExport {
    /// Its place in the table.
    pub entry: u32,
    /// Which of those that have had that place.
    pub generation: u64,
    /// Whether ranks on other GPUs have mappings of their own, from which they can take it.
    pub is_detachable: bool,
}

/// A reduction of which copy engines make the exchange: every rank combines one part.
#[derive(Clone, Copy)]
pub(crate) struct CarriedReduction<'a> {
    /// The collective, and the algorithm whose order of additions it has.
    pub decided: DecidedCall<'a>,
    /// Elements of each part but the last one.
    pub part_elements: u64,
    /// Elements of all parts.
    pub all_elements: u64,
    /// Where all ranks are to have all parts: by rank, where the output begins, as this rank
    /// reaches it. Otherwise the output is this rank's part.
    pub outputs: Option<&'a [u64]>,
    /// What has the flags.
    pub shared_state: &'a Arc<SharedState>,
}

/// A collective that copy engines carry.
#[derive(Clone, Copy)]
pub(crate) struct CarriedCall<'a> {
    /// The collective; its decision has copies.
    pub decided: DecidedCall<'a>,
    /// By rank: where the output begins, as this rank reaches it.
    pub outputs: &'a [u64],
    /// Where signals lie that its blocks are there.
    pub signals: BlockSignals<'a>,
    /// Whether it brings what stays on this rank.
    pub own_block: OwnBlock,
    /// What has the flags by which ranks keep step.
    pub shared_state: &'a Arc<SharedState>,
}

/// What is done about the block of an output that comes from its own rank.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnBlock {
    /// It is copied.
    Copied,
    /// It may have any content: the caller does without.
    Omitted,
}

/// How long the signal of a block is.
pub(crate) const SIGNAL_BYTES: u64 = 4;

/// Words of four bytes, one for each block of an output, that are 1 when the block is there.
#[derive(Clone, Copy)]
pub(crate) enum BlockSignals<'a> {
    /// Nobody asked for them.
    None,
    /// This rank sets its own when all blocks are there: from this address on, so many.
    AtEnd {
        /// Where they begin.
        address: u64,
        /// How many there are.
        blocks: u64,
    },
    /// Whoever copies a block sets the receiver's: by rank, where they begin, as this rank reaches
    /// them.
    ByCopies(&'a [u64]),
}

/// A window is open as long as this lives: peers can write into it, and calls find buffers in it.
pub(crate) trait WindowGuard: fmt::Debug + Send + Sync {
    /// As [`ShownMemory::export`].
    fn export(&self) -> Option<ShownExport> {
        None
    }
}

/// By which one rank signals another.
#[derive(Clone, Copy)]
pub(crate) struct Signal<'a> {
    /// What has the word, if both ranks are of one node.
    pub shared_state: &'a Arc<SharedState>,
    /// Counts the signals so far.
    pub word: &'a AtomicU64,
}

/// Signals of a peer that a rank waits for.
pub(crate) struct AwaitedSignals<'a> {
    /// The peer.
    pub peer: Rank,
    /// By which they come.
    pub signal: Signal<'a>,
    /// How many must have come, since the communicator was made.
    pub count: u64,
    /// Why no more will come, if so.
    pub gone: &'a dyn Fn(Rank) -> Option<Error>,
}

/// Bytes for the window of a rank on another node, and a signal behind them.
#[derive(Clone, Copy)]
pub(crate) struct InterNodePut<'a> {
    /// The rank.
    pub peer: Rank,
    /// Which of its windows, counted from 1.
    pub window: u64,
    /// Where in it, in bytes; they lie inside.
    pub offset_bytes: u64,
    /// Where the bytes are.
    pub from: u64,
    /// How many; none is a mere signal.
    pub bytes: u64,
    /// Signals to the rank so far, this one included.
    pub signals: u64,
    /// Why the rank takes nothing more, if so.
    pub gone: &'a dyn Fn(Rank) -> Option<Error>,
}

/// Memory that an engine holds where its rank runs, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct EngineMemory {
    /// What [`Engine::suspend`] frees.
    pub suspendable_bytes: u64,
    /// What it keeps.
    pub persistent_bytes: u64,
}

/// How long the end of an engine may take after [`Engine::part`], if peers do not take what this
/// rank has sent.
pub(crate) const PARTING: Duration = Duration::from_secs(30);

/// What executes a rank's part of calls.
pub(crate) trait Engine: Send + Sync {
    /// What it can hold.
    fn capacity(&self) -> &Capacity;

    /// Where it runs and how its wires are realised, for people.
    fn describe(&self) -> String;

    /// Makes ready what serves calls better than what serves every call; `selector` foresees them.
    /// Called once, before the first call, while all ranks wait for one another.
    fn specialise(&self, _selector: &Selector, _settings: &Settings) {}

    /// What it holds.
    fn memory(&self) -> EngineMemory;

    /// Frees wires within the node, and scratch. Every rank of `group` calls it, when no call of
    /// any rank is under way and none comes; until [`Engine::resume`] none may. Memory between
    /// `nodes` stays, and so does what recorded graphs name.
    fn suspend(&self, group: &Group, nodes: &Nodes) -> Result<(), Error>;

    /// Makes again what [`Engine::suspend`] freed, where recorded graphs expect it. Every rank of
    /// `group` calls it.
    fn resume(&self, group: &Group, nodes: &Nodes) -> Result<(), Error>;

    /// Takes up a collective.
    fn collective(&self, call: &DecidedCall<'_>) -> Result<(), Error>;

    /// Takes up a collective that copy engines carry, as its decision says.
    fn carry(&self, call: &CarriedCall<'_>) -> Result<(), Error> {
        let name = &call.decided.decision.prepared.name;
        Err(Error::internal(format!("there are no copy engines for {name}")))
    }

    /// Whether its ranks have memory for one another's contributions, without which it takes up no
    /// reduction of which copy engines make the exchange. The same on all ranks; waits for them,
    /// the first time.
    fn has_inboxes(&self) -> Result<bool, Error> {
        Ok(false)
    }

    /// Takes up a reduction of which copy engines make the exchange.
    fn carry_reduction(&self, call: &CarriedReduction<'_>) -> Result<(), Error> {
        let name = &call.decided.decision.prepared.name;
        Err(Error::internal(format!("there are no copy engines for {name}")))
    }

    /// Sets `blocks` signals from `address` on to `value`, when the stream gets there.
    fn set_signals(
        &self,
        _address: u64,
        _blocks: u64,
        _value: u32,
        _stream: u64,
    ) -> Result<(), Error> {
        Err(Error::invalid_usage("ranks on the host have no signals of blocks"))
    }

    /// Takes up point-to-point transfers that may all wait for one another. Transfers with one peer
    /// in one direction go in order over the same wires, whatever groups they come in.
    fn transfers(&self, transfers: &[Transfer], stream: u64, call: u64) -> Result<(), Error>;

    /// Copies between buffers of this rank.
    fn copy(&self, from: u64, to: u64, bytes: u64, stream: u64) -> Result<(), Error>;

    /// A call that has nothing to do takes its place among those in other streams.
    fn pass(&self, stream: u64) -> Result<(), Error>;

    /// Whether peers of this node can write into memory that this rank shows, and signal it; the
    /// same on all ranks.
    fn has_one_sided_transfers(&self) -> bool {
        false
    }

    /// Makes sure that one-sided transfers can be taken up in `stream` now.
    fn admit_one_sided(&self, _stream: u64) -> Result<(), Error> {
        Ok(())
    }

    /// Shows peers `shown` bytes of memory as window `number`; never waits for them.
    fn show(
        &self,
        _number: u64,
        _shown: ShownMemory,
    ) -> Result<Option<Box<dyn WindowGuard>>, Error> {
        Ok(None)
    }

    /// Where this rank finds what `peer` has shown, or shows soon, as window `number`.
    fn find_shown(&self, peer: Rank, _number: u64) -> Result<ShownMemory, Error> {
        let text = format!("the window of {peer} is out of reach: it is memory of a GPU");
        Err(Error::invalid_usage(text))
    }

    /// Whether all ranks have mapped what all show; `shown` has that by rank. Waits until each has,
    /// or has said that it cannot, so all ranks get the same answer.
    fn all_have_mapped(&self, _shown: &[ShownMemory]) -> Result<bool, Error> {
        Ok(false)
    }

    /// Why ranks of other nodes can neither be put to nor signalled, if so; the same on all ranks.
    fn refuses_other_nodes(&self) -> Option<&'static str>;

    /// Counts the signals that come from `peer`, a rank of another node.
    fn signals_of(&self, peer: Rank) -> Result<&AtomicU64, Error> {
        Err(Error::internal(format!("no signals come from {peer}")))
    }

    /// Writes into a window of a rank on another node, then signals that rank, after all that was
    /// taken up before.
    fn put_between_nodes(&self, put: &InterNodePut<'_>) -> Result<(), Error> {
        Err(Error::internal(format!("{} cannot be put to", put.peer)))
    }

    /// Writes `count`, which is one more than before, to the word of `signal`, after all that was
    /// taken up before.
    fn signal(&self, signal: &Signal<'_>, count: u64, stream: u64) -> Result<(), Error>;

    /// Waits until all of `awaited` have come; what their senders had put before is there then.
    fn await_signals(&self, awaited: &[AwaitedSignals<'_>], stream: u64) -> Result<(), Error>;

    /// Scales a buffer.
    fn scale(&self, scaling: &Scaling, stream: u64) -> Result<(), Error>;

    /// Memory of at least `bytes` bytes for the calls of one stream of calls to keep intermediate
    /// results in; kept until the engine is dropped, given again to the next who asks.
    fn scratch(&self, bytes: u64) -> Result<u64, Error>;

    /// Before a group: whatever `streams` hold so far comes first, and what the group does in any
    /// of them is done before any of them goes on. Called with the distinct streams of a group.
    fn join_streams(&self, streams: &[u64]) -> Result<(), Error>;

    /// After a group: see [`Engine::join_streams`].
    fn release_streams(&self, streams: &[u64]) -> Result<(), Error>;

    /// The lines of what this rank's thread blocks wait for, for a hang report; `call` is the
    /// number of the call that they belong to.
    fn waits(&self) -> Vec<Waiting>;

    /// Whether the call of that number, and all before it, have been executed; never waits.
    fn has_finished(&self, call: u64) -> bool;

    /// A count that grows while calls under way move, as far as the engine knows;
    /// [waits](Engine::waits) that change and calls that end show it, too. Never waits.
    fn moves(&self) -> u64 {
        0
    }

    /// What has gone wrong that no call may report in time, such as links to another host. Never
    /// waits.
    fn failure(&self) -> Option<Error> {
        None
    }

    /// Whether what is given to `stream` is captured into a graph; not, if nobody can say.
    fn is_captured(&self, _stream: u64) -> bool {
        false
    }

    /// Collectives so far whose links [export buffers](msccl_select::Links::export_buffers), and
    /// whose buffers every peer could use, as far as links needed that.
    fn direct_calls(&self) -> u64;

    /// Collectives so far that a kernel for their plan alone has served.
    fn specialised_calls(&self) -> u64 {
        0
    }

    /// Collectives so far that copy engines carry.
    fn carried_calls(&self) -> u64 {
        0
    }

    /// As [`fail`](Engine::fail) for what runs where the caller does not wait; when this returns,
    /// nothing that begins from then on ends either. Takes some milliseconds where that is so.
    fn hold(&self) {}

    /// The communicator has failed. What is under way neither goes on nor ends before it is
    /// [released](Engine::release), so that nothing behind it takes what it left for a result;
    /// where calls return when they are done, they return an error. Never waits.
    fn fail(&self);

    /// The owner gives the communicator up: everything under way ends, without a result. Never
    /// waits.
    fn release(&self);

    /// The owner gives the communicator up when all its calls are done: later ones end without a
    /// result, and what peers still need of this rank reaches them. Never waits; the end of the
    /// engine does, for at most [`PARTING`].
    fn part(&self);

    /// The owner is ending the communicator: from now on a failure releases what is under way.
    /// Never waits.
    fn release_on_failure(&self);

    /// Waits until everything taken up is done or has been given up; not for what stays because of
    /// a failure.
    fn quiesce(&self) -> Result<(), Error>;
}
