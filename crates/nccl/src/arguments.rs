//! Calls: arguments as C has them become a [`Call`], or a refusal.

use std::ffi::c_int;
use std::sync::Arc;

use msccl_collective::{DataType, Rank};
use msccl_runtime::{
    AdmissionError, AdmittedCall, BufferRole, Buffers, Call, Combine, Communicator, Error,
    Operation, Refusal,
};

use crate::abi::{CommHandle, Outcome, constant};
use crate::comm::Comm;
use crate::comm::handles::{self, ReadyComm};
use crate::fault::Fault;
use crate::group;
use crate::log::{self, Subsystem};
use crate::profiler::{self, CallArguments, RankProfile};

/// The rank `number` of `ranks`; nothing if there is no such rank.
pub fn rank_among(ranks: u32, number: c_int) -> Option<Rank> {
    u32::try_from(number).ok().filter(|rank| *rank < ranks).map(Rank)
}

/// A call being checked, argument by argument.
pub struct CheckedArguments {
    name: &'static str,
    handle: CommHandle,
    comm: Arc<Comm>,
    communicator: Communicator,
    data_type: DataType,
    numbers: Numbers,
}

/// Arguments as C has them, for the log.
#[derive(Clone, Copy, Default)]
struct Numbers {
    data_type: c_int,
    operator: c_int,
    root: c_int,
}

impl CheckedArguments {
    /// The call `name` on elements of `data_type`.
    ///
    /// # Errors
    ///
    /// There is no such communicator or type, or the communicator takes no calls.
    pub fn new(name: &'static str, handle: CommHandle, data_type: c_int) -> Result<Self, Fault> {
        let ReadyComm { comm, communicator } = handles::find_ready(handle, name)?;
        let numbers = Numbers { data_type, ..Numbers::default() };
        let data_type = constant::data_type(data_type).ok_or_else(|| {
            Fault::argument(format!("{name} : invalid type {}", numbers.data_type))
        })?;
        Ok(Self { name, handle, comm, communicator, data_type, numbers })
    }

    /// How contributions combine under `operator`.
    ///
    /// # Errors
    ///
    /// There is no such operator for elements of this type.
    pub fn combine(&mut self, operator: c_int) -> Result<Combine, Fault> {
        self.numbers.operator = operator;
        self.comm.operators.combine(self.name, operator, self.data_type)
    }

    /// The rank `number`: a root, or a peer.
    ///
    /// # Errors
    ///
    /// There is no such rank.
    pub fn rank(&mut self, number: c_int) -> Result<Rank, Fault> {
        self.numbers.root = number;
        let ranks = self.communicator.ranks();
        rank_among(ranks, number).ok_or_else(|| {
            let (name, last) = (self.name, ranks.saturating_sub(1));
            Fault::argument(format!(
                "{name} : invalid root {number} (root should be in the 0..{last} range)"
            ))
        })
    }

    /// Takes the call up: now, or at the end of the open group. One of no elements, which may have
    /// no buffers either, is still a call: ranks that compare theirs must see it.
    ///
    /// # Errors
    ///
    /// A buffer is missing, or the call fails.
    pub fn submit(
        self,
        operation: Operation,
        count: usize,
        buffers: Buffers,
    ) -> Result<Outcome, Fault> {
        let call = Call { operation, data_type: self.data_type, count: count as u64, buffers };
        self.log(&call);
        let admitted = self.communicator.admit(&call).map_err(|error| self.refusal(error))?;
        match self.comm.observation.as_ref().and_then(|observation| observation.profile.clone()) {
            None => group::call(self.comm, self.communicator, admitted),
            Some(profile) => self.submit_profiled(&profile, &call, admitted),
        }
    }

    /// The same, where a plugin follows `call`.
    fn submit_profiled(
        self,
        profile: &Arc<RankProfile>,
        call: &Call,
        admitted: AdmittedCall,
    ) -> Result<Outcome, Fault> {
        let depth = group::depth();
        let graph_captured = self.communicator.is_captured(call.buffers.stream);
        let arguments = CallArguments { call, depth: depth + 1, graph_captured };
        let admitted = admitted.with_tag(profiler::call(profile, &arguments));
        let submit = || group::call(self.comm, self.communicator, admitted);
        if depth > 0 { submit() } else { group::profiled(submit) }
    }

    /// Why the call makes no sense, in NCCL's words where it has some.
    fn refusal(&self, error: AdmissionError) -> Fault {
        match error.refusal {
            Refusal::Null(BufferRole::Send) => Fault::null(self.name, "sendbuff"),
            Refusal::Null(BufferRole::Receive) => Fault::null(self.name, "recvbuff"),
            Refusal::UnknownRank { .. } | Refusal::ExceedsMemory => Error::from(error).into(),
        }
    }

    /// A line as NCCL writes it for every call.
    fn log(&self, call: &Call) {
        if !log::is_enabled(Subsystem::Coll) {
            return;
        }
        let Self { name, handle, comm, communicator, data_type: _, numbers } = self;
        let Call { operation: _, data_type: _, count, buffers } = call;
        let Buffers { send, receive, stream } = buffers;
        let Numbers { data_type, operator, root } = numbers;
        let number = comm.count_call();
        let (handle, ranks) = (handle.0, communicator.ranks());
        let text = format_args!(
            "{name}: opCount {number:x} sendbuff {send:#x} recvbuff {receive:#x} count {count} \
             datatype {data_type} op {operator} root {root} comm {handle:#x} [nranks={ranks}] \
             stream {stream:#x}"
        );
        comm.scope().info(Subsystem::Coll, text);
    }
}
