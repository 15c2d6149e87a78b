//! One-sided transfers, with their arguments checked.

use std::ffi::c_int;
use std::sync::Arc;

use msccl_collective::Rank;
use msccl_runtime::{Communicator, ExpectedSignals, Put, Window};

use crate::abi::{Address, CommHandle, Outcome};
use crate::arguments::rank_among;
use crate::comm::Comm;
use crate::comm::handles::{self, ReadyComm};
use crate::fault::Fault;
use crate::group;
use crate::task::{CommunicatorTask, OneSided};

/// A rank's communicator, about to take up one-sided transfers of the function `name`.
pub struct OneSidedArguments {
    name: &'static str,
    comm: Arc<Comm>,
    communicator: Communicator,
}

/// What one call asks for.
pub enum OneSidedCall {
    /// Bytes go to a peer, which is signalled.
    Put(PutCall),
    /// A peer is signalled.
    Signal(Rank),
    /// Signals of peers are waited for.
    Wait(Vec<ExpectedSignals>),
}

/// Bytes that go to a peer.
pub struct PutCall {
    /// Where they are.
    pub from: u64,
    /// How many.
    pub bytes: u64,
    /// The peer.
    pub peer: Rank,
    /// What reaches its memory.
    pub window: Arc<Window>,
    /// Where in that memory.
    pub offset_bytes: u64,
}

/// By which signal a call signals, or waits. NCCL has one of each so far.
#[derive(Clone, Copy)]
pub struct SignalChoice {
    /// Which signal.
    pub signal: c_int,
    /// Of which context.
    pub context: c_int,
    /// Reserved.
    pub flags: u32,
}

impl OneSidedArguments {
    /// The function `name`, called on `comm`.
    ///
    /// # Errors
    ///
    /// There is no such communicator, or it takes no calls.
    pub fn new(name: &'static str, comm: CommHandle) -> Result<Self, Fault> {
        let ReadyComm { comm, communicator } = handles::find_ready(comm, name)?;
        Ok(Self { name, comm, communicator })
    }

    /// The rank `number`.
    ///
    /// # Errors
    ///
    /// There is no such rank.
    pub fn peer(&self, number: c_int) -> Result<Rank, Fault> {
        let ranks = self.communicator.ranks();
        rank_among(ranks, number).ok_or_else(|| {
            let (name, last) = (self.name, ranks.saturating_sub(1));
            Fault::argument(format!("{name} : invalid peer {number}, expected 0..{last}"))
        })
    }

    /// Makes sure that `choice` is the one that there is.
    ///
    /// # Errors
    ///
    /// It is another one.
    pub fn check(&self, choice: SignalChoice) -> Result<(), Fault> {
        let SignalChoice { signal, context, flags } = choice;
        let name = self.name;
        let zero = |what: &str, value: i64| match value {
            0 => Ok(()),
            _ => Err(Fault::argument(format!("{name} : {what} is {value}, expected 0"))),
        };
        zero("sigIdx", signal.into())?;
        zero("ctx", context.into())?;
        zero("flags", flags.into())
    }

    /// What reaches the memory that ranks have registered under `handle`.
    ///
    /// # Errors
    ///
    /// Nothing is registered under it, or not by all ranks together.
    pub fn window(&self, handle: Address) -> Result<Arc<Window>, Fault> {
        let name = self.name;
        if handle == 0 {
            return Err(Fault::null(name, "peerWin"));
        }
        self.comm.registrations.window(handle).ok_or_else(|| {
            Fault::argument(format!(
                "{name} : {handle:#x} is no window that all ranks of the communicator have \
                 registered with NCCL_WIN_COLL_SYMMETRIC"
            ))
        })
    }

    /// Takes `call` up: now, or at the end of the open group, before its collectives.
    ///
    /// # Errors
    ///
    /// It fails.
    pub fn launch(self, call: OneSidedCall, stream: Address) -> Result<Outcome, Fault> {
        let Self { name, comm, communicator: _ } = self;
        let stream = stream as u64;
        group::launch(CommunicatorTask::OneSided(OneSided { name, comm, call, stream }))
    }
}

impl OneSidedCall {
    /// Does it on `communicator`.
    pub fn run(&self, communicator: &Communicator, stream: u64) -> Result<(), Fault> {
        match self {
            OneSidedCall::Put(PutCall { from, bytes, peer, window, offset_bytes }) => {
                let (from, bytes, peer, offset_bytes) = (*from, *bytes, *peer, *offset_bytes);
                let put = Put { from, bytes, peer, window, offset_bytes };
                Ok(communicator.put_signal(&put, stream)?)
            }
            OneSidedCall::Signal(peer) => Ok(communicator.signal(*peer, stream)?),
            OneSidedCall::Wait(expected) => Ok(communicator.wait_signals(expected, stream)?),
        }
    }
}
