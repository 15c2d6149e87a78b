//! Admission: whether a call makes sense on its rank, found out once.
//!
//! What is admitted has its [shape](CallShape), with the placement recognised from the addresses,
//! and buffers that are there and within the address space; nothing behind it looks at that again.

use std::fmt;

use msccl_collective::{CallPlacement, CollectiveKind, DataType, Rank, Reduction};
use msccl_plan::Direction;
use msccl_plan::exchange::Transfer;
use msccl_select::{CallShape, block_bytes};

use super::{Blocks, Buffers, Call, Combine, Operation, Scalar};
use crate::error::Error;

/// A call whose arguments make sense on the rank of the communicator that admitted it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdmittedCall(pub(crate) Admitted);

/// What a front end gives a call, by which it knows it again when it is observed
/// ([`CallObserver`](crate::CallObserver)); 0 if it gives nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct CallTag(pub u64);

/// What was admitted.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Admitted {
    Collective(CollectiveCall),
    Transfer(TransferCall),
}

/// A collective on one rank.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct CollectiveCall {
    /// On what its service depends; sums of scaled contributions are sums.
    pub shape: CallShape,
    /// What contributions are multiplied by, if they are.
    pub scalar: Option<Scalar>,
    /// What it works on.
    pub buffers: Buffers,
    /// For observers.
    pub tag: CallTag,
}

/// A send or a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TransferCall {
    /// The type of every element.
    pub data_type: DataType,
    /// Elements.
    pub count: u64,
    /// With whom, where it lies, and how long it is.
    pub transfer: Transfer,
    /// In which stream.
    pub stream: u64,
    /// For observers.
    pub tag: CallTag,
}

/// A call that makes no sense.
#[derive(Clone, PartialEq, Debug)]
pub struct AdmissionError {
    /// The call.
    pub call: Call,
    /// Why.
    pub refusal: Refusal,
}

/// Why a call makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its peer or root is none of the ranks.
    UnknownRank {
        /// Who it is.
        rank: Rank,
        /// How many there are.
        ranks: u32,
    },
    /// Its buffers exceed the address space.
    ExceedsMemory,
    /// A buffer is null.
    Null(BufferRole),
}

/// Which buffer of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferRole {
    /// [`Buffers::send`].
    Send,
    /// [`Buffers::receive`].
    Receive,
}

impl fmt::Display for AdmissionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, refusal } = self;
        match refusal {
            Refusal::UnknownRank { rank, ranks } => {
                write!(f, "{call}: there is no rank {rank} among {ranks}")
            }
            Refusal::ExceedsMemory => write!(f, "{call}: the buffers exceed memory"),
            Refusal::Null(_) => write!(f, "{call}: a buffer is NULL"),
        }
    }
}

impl std::error::Error for AdmissionError {}

impl From<AdmissionError> for Error {
    fn from(error: AdmissionError) -> Self {
        Error::invalid_argument(error.to_string())
    }
}

impl Call {
    /// Whether input and output of `rank` share memory in the way the collective defines.
    pub fn is_in_place(&self, rank: Rank) -> bool {
        let bytes = block_bytes(self.count, self.data_type).unwrap_or(u64::MAX);
        let admitted = self.admitted(rank, bytes);
        admitted.shape().is_some_and(|shape| shape.placement.is_in_place())
    }

    /// The call on `rank` of `ranks`, if its arguments make sense.
    pub(crate) fn admit(&self, rank: Rank, ranks: u32) -> Result<AdmittedCall, AdmissionError> {
        match self.check(rank, ranks) {
            Ok(block_bytes) => Ok(self.admitted(rank, block_bytes)),
            Err(refusal) => Err(AdmissionError { call: *self, refusal }),
        }
    }

    /// Bytes of one block, if the arguments make sense.
    fn check(&self, rank: Rank, ranks: u32) -> Result<u64, Refusal> {
        if let Some(rank) = self.operation.peer().filter(|rank| rank.0 >= ranks) {
            return Err(Refusal::UnknownRank { rank, ranks });
        }
        let block = block_bytes(self.count, self.data_type).ok_or(Refusal::ExceedsMemory)?;
        let all = block.checked_mul(u64::from(ranks));
        if all.is_none_or(|bytes| bytes > i64::MAX as u64) {
            return Err(Refusal::ExceedsMemory);
        }
        let Blocks { input, output } = self.blocks(rank, ranks);
        let missing = |blocks: u64, address: u64| blocks != 0 && self.count != 0 && address == 0;
        if missing(input, self.buffers.send) {
            return Err(Refusal::Null(BufferRole::Send));
        }
        if missing(output, self.buffers.receive) {
            return Err(Refusal::Null(BufferRole::Receive));
        }
        Ok(block)
    }

    /// The call of `rank`, with blocks of so many bytes.
    fn admitted(&self, rank: Rank, block_bytes: u64) -> AdmittedCall {
        let Call { operation, data_type, count, buffers } = *self;
        let Buffers { send, receive, stream } = buffers;
        let transfer = |peer, way, address| {
            let transfer = Transfer { peer, way, address, bytes: block_bytes };
            let call = TransferCall { data_type, count, transfer, stream, tag: CallTag::default() };
            AdmittedCall(Admitted::Transfer(call))
        };
        let collective = |kind: CollectiveKind, combine: Option<Combine>| {
            let placement = placement(kind, rank, block_bytes, &buffers);
            let reduction = combine.map(Combine::reduction);
            let shape = CallShape { kind, placement, data_type, reduction, count };
            let scalar = combine.and_then(Combine::scalar);
            let call = CollectiveCall { shape, scalar, buffers, tag: CallTag::default() };
            AdmittedCall(Admitted::Collective(call))
        };
        match operation {
            Operation::AllReduce(combine) => collective(CollectiveKind::AllReduce, Some(combine)),
            Operation::AllGather => collective(CollectiveKind::AllGather, None),
            Operation::ReduceScatter(combine) => {
                collective(CollectiveKind::ReduceScatter, Some(combine))
            }
            Operation::AllToAll => collective(CollectiveKind::AllToAll, None),
            Operation::Broadcast(root) => collective(CollectiveKind::Broadcast(root), None),
            Operation::Reduce(root, combine) => {
                collective(CollectiveKind::Reduce(root), Some(combine))
            }
            Operation::Gather(root) => collective(CollectiveKind::Gather(root), None),
            Operation::Scatter(root) => collective(CollectiveKind::Scatter(root), None),
            Operation::Send(peer) => transfer(peer, Direction::Out, send),
            Operation::Receive(peer) => transfer(peer, Direction::In, receive),
        }
    }
}

/// Whether input and output of `rank` share memory in the way the collective defines. Where this
/// rank has only one of them, they do not.
fn placement(
    kind: CollectiveKind,
    rank: Rank,
    block_bytes: u64,
    buffers: &Buffers,
) -> CallPlacement {
    let Buffers { send, receive, stream: _ } = *buffers;
    let own = block_bytes.wrapping_mul(u64::from(rank.0));
    CallPlacement::from_in_place(match kind {
        CollectiveKind::AllReduce | CollectiveKind::AllToAll => send == receive,
        CollectiveKind::Broadcast(root) | CollectiveKind::Reduce(root) => {
            root == rank && send == receive
        }
        CollectiveKind::AllGather => send == receive.wrapping_add(own),
        CollectiveKind::Gather(root) => root == rank && send == receive.wrapping_add(own),
        CollectiveKind::ReduceScatter => receive == send.wrapping_add(own),
        CollectiveKind::Scatter(root) => root == rank && receive == send.wrapping_add(own),
    })
}

impl AdmittedCall {
    /// The same call, with a tag for observers.
    #[must_use]
    pub fn with_tag(mut self, tag: CallTag) -> Self {
        match &mut self.0 {
            Admitted::Collective(call) => call.tag = tag,
            Admitted::Transfer(call) => call.tag = tag,
        }
        self
    }

    /// On what its service depends; `None` for a send or a receive.
    pub fn shape(&self) -> Option<&CallShape> {
        match &self.0 {
            Admitted::Collective(call) => Some(&call.shape),
            Admitted::Transfer(_) => None,
        }
    }

    /// In which stream it goes.
    pub(crate) fn stream(&self) -> u64 {
        match &self.0 {
            Admitted::Collective(call) => call.buffers.stream,
            Admitted::Transfer(call) => call.stream,
        }
    }

    /// The send or receive, if it is one.
    pub(crate) fn transfer(&self) -> Option<&TransferCall> {
        match &self.0 {
            Admitted::Collective(_) => None,
            Admitted::Transfer(call) => Some(call),
        }
    }
}

#[cfg(test)]
impl AdmittedCall {
    /// `call`, whatever its addresses.
    pub(crate) fn unchecked(call: &Call, placement: CallPlacement) -> Self {
        let bytes = block_bytes(call.count, call.data_type).unwrap();
        let mut admitted = call.admitted(Rank(0), bytes);
        if let Admitted::Collective(collective) = &mut admitted.0 {
            collective.shape.placement = placement;
        }
        admitted
    }
}

impl TransferCall {
    /// What was asked.
    pub fn operation(&self) -> Operation {
        match self.transfer.way {
            Direction::Out => Operation::Send(self.transfer.peer),
            Direction::In => Operation::Receive(self.transfer.peer),
        }
    }
}

impl CollectiveCall {
    /// What was asked.
    pub fn operation(&self) -> Operation {
        let combine = || match self.scalar {
            Some(scalar) => Combine::Scaled(scalar),
            None => Combine::Plain(self.shape.reduction.unwrap_or(Reduction::Sum)),
        };
        match self.shape.kind {
            CollectiveKind::AllReduce => Operation::AllReduce(combine()),
            CollectiveKind::AllGather => Operation::AllGather,
            CollectiveKind::ReduceScatter => Operation::ReduceScatter(combine()),
            CollectiveKind::AllToAll => Operation::AllToAll,
            CollectiveKind::Broadcast(root) => Operation::Broadcast(root),
            CollectiveKind::Reduce(root) => Operation::Reduce(root, combine()),
            CollectiveKind::Gather(root) => Operation::Gather(root),
            CollectiveKind::Scatter(root) => Operation::Scatter(root),
        }
    }

    /// What `rank` of `ranks` reads and writes.
    pub fn blocks(&self, rank: Rank, ranks: u32) -> Blocks {
        Blocks::of(self.shape.kind, rank, ranks)
    }
}

impl fmt::Display for CollectiveCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shape: CallShape { data_type, count, .. }, buffers, .. } = *self;
        Call { operation: self.operation(), data_type, count, buffers }.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operation: Operation, send: u64, receive: u64) -> Call {
        let buffers = Buffers { send, receive, stream: 0 };
        Call { operation, data_type: DataType::F32, count: 4, buffers }
    }

    #[track_caller]
    fn check(operation: Operation, send: u64, receive: u64, placement: CallPlacement) {
        let admitted = call(operation, send, receive).admit(Rank(2), 3).unwrap();
        assert_eq!(admitted.shape().map(|shape| shape.placement), Some(placement));
        let Admitted::Collective(collective) = admitted.0 else { unreachable!() };
        assert_eq!(collective.operation(), operation);
    }

    #[test]
    fn in_place_is_where_the_collective_says() {
        use CallPlacement::{InPlace, OutOfPlace};
        let sum = Combine::Plain(Reduction::Sum);
        check(Operation::AllReduce(sum), 64, 64, InPlace);
        check(Operation::AllReduce(sum), 64, 128, OutOfPlace);
        check(Operation::AllGather, 96, 64, InPlace);
        check(Operation::AllGather, 64, 64, OutOfPlace);
        check(Operation::AllToAll, 64, 64, InPlace);
        check(Operation::ReduceScatter(sum), 64, 96, InPlace);
        check(Operation::Broadcast(Rank(2)), 64, 64, InPlace);
        check(Operation::Broadcast(Rank(0)), 64, 64, OutOfPlace);
        check(Operation::Reduce(Rank(2), sum), 64, 64, InPlace);
        check(Operation::Gather(Rank(2)), 96, 64, InPlace);
        check(Operation::Scatter(Rank(2)), 64, 96, InPlace);
        let scaled = Combine::Scaled(Scalar::Immediate(7));
        check(Operation::ReduceScatter(scaled), 64, 64, OutOfPlace);
        let send = call(Operation::Send(Rank(1)), 64, 0).admit(Rank(2), 3).unwrap();
        assert_eq!(send.shape(), None);
        let transfer = Transfer { peer: Rank(1), way: Direction::Out, address: 64, bytes: 16 };
        assert_eq!(send.transfer().map(|call| call.transfer), Some(transfer));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refusal = |call: Call| call.admit(Rank(2), 3).unwrap_err().refusal;
        let sum = Operation::AllReduce(Combine::Plain(Reduction::Sum));
        let unknown = Refusal::UnknownRank { rank: Rank(3), ranks: 3 };
        assert_eq!(refusal(call(Operation::Broadcast(Rank(3)), 64, 64)), unknown);
        assert_eq!(refusal(call(Operation::Send(Rank(3)), 64, 64)), unknown);
        let long = |count| Call { count, ..call(sum, 64, 64) };
        assert_eq!(refusal(long(u64::MAX / 2)), Refusal::ExceedsMemory);
        assert_eq!(refusal(long(i64::MAX as u64 / 8)), Refusal::ExceedsMemory);
        assert_eq!(refusal(call(sum, 0, 64)), Refusal::Null(BufferRole::Send));
        assert_eq!(refusal(call(sum, 64, 0)), Refusal::Null(BufferRole::Receive));
        // What a rank does not have may be anything.
        assert!(call(Operation::Broadcast(Rank(0)), 0, 64).admit(Rank(2), 3).is_ok());
        assert!(Call { count: 0, ..call(sum, 0, 0) }.admit(Rank(2), 3).is_ok());
    }
}
