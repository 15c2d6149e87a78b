//! What a rank has posted: one collective, or one group of point-to-point calls.

use std::fmt;

use msccl_collective::{CallPlacement, DataType, Rank, Reduction};
use msccl_select::CallShape;

use crate::call::{Buffers, Call, CollectiveCall, Combine, Operation, Scalar, TransferCall};

/// A call as the shared state knows it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct PostedCall {
    /// Its place among all calls of its rank, counted from 1; means nothing to other ranks.
    pub sequence: u64,
    /// The call, without addresses, stream and scalar; of a group of transfers, the first.
    pub call: Call,
    /// Which kind of call.
    pub kind: PostedKind,
    /// A hash of what serves it, where that was set since the communicator was made; 0 otherwise.
    pub settings: u64,
}

/// The words of a record behind its guard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Contents {
    /// The place of the call among all calls of its rank.
    pub sequence: u64,
    /// What [`pack`] makes of the call.
    pub shape: u64,
    /// Its count.
    pub count: u64,
    /// The history up to this call.
    pub history: u64,
    /// Of a collective, its [settings](PostedCall::settings); of a group of transfers, how many
    /// they are; of a message, its place among those of its pair.
    pub extra: u64,
}

impl Contents {
    /// As they lie in a record.
    pub fn words(self) -> [u64; 5] {
        let Self { sequence, shape, count, history, extra } = self;
        [sequence, shape, count, history, extra]
    }

    /// What [`Contents::words`] gave.
    pub fn from_words(words: [u64; 5]) -> Self {
        let [sequence, shape, count, history, extra] = words;
        Self { sequence, shape, count, history, extra }
    }
}

/// Which kind of call was posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PostedKind {
    /// A collective.
    Collective {
        /// Its number among the collectives of the communicator, the same on all ranks.
        number: u64,
        /// Whether this rank calls it in place.
        placement: CallPlacement,
    },
    /// Point-to-point calls that go together.
    Transfers {
        /// How many.
        calls: u64,
    },
}

impl PostedCall {
    /// Its number, which all ranks share, if it is a collective.
    pub fn number(&self) -> Option<u64> {
        match self.kind {
            PostedKind::Collective { number, .. } => Some(number),
            PostedKind::Transfers { .. } => None,
        }
    }

    /// What all ranks must say alike of a collective. Whether a rank calls it in place is its own
    /// affair, and so are the scalars of a scaled sum.
    pub fn agreement(&self) -> String {
        match self.settings {
            0 => self.call.to_string(),
            pinned => format!("{} (pinned to choice {pinned:016x})", self.call),
        }
    }
}

impl fmt::Display for PostedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequence: _, call, kind, settings: _ } = self;
        match kind {
            PostedKind::Collective { number, placement: _ } => write!(f, "call {number}, {call}"),
            PostedKind::Transfers { calls: 0 | 1 } => write!(f, "{call}"),
            PostedKind::Transfers { calls: 2 } => write!(f, "{call} and one more transfer"),
            PostedKind::Transfers { calls } => write!(f, "{call} and {} more transfers", calls - 1),
        }
    }
}

const SCALED: u64 = 0xff;
const IN_PLACE: u64 = 1 << 24;

/// What all ranks must say alike of what [`pack`] gave for a collective.
pub(super) fn common(shape: u64) -> u64 {
    shape & !IN_PLACE
}

/// The data type of what [`pack`] gave.
pub(super) fn data_type(shape: u64) -> u64 {
    (shape >> 8) & 0xff
}

/// Operation, data type, reduction, placement and peer in one word.
pub(super) fn pack(operation: &Operation, data_type: DataType, placement: CallPlacement) -> u64 {
    let code = match operation {
        Operation::AllReduce(_) => 1,
        Operation::AllGather => 2,
        Operation::ReduceScatter(_) => 3,
        Operation::AllToAll => 4,
        Operation::Broadcast(_) => 5,
        Operation::Reduce(..) => 6,
        Operation::Gather(_) => 7,
        Operation::Scatter(_) => 8,
        Operation::Send(_) => 9,
        Operation::Receive(_) => 10,
    };
    let combine = match operation.combine() {
        None => 0,
        Some(Combine::Plain(reduction)) => reduction as u64 + 1,
        Some(Combine::Scaled(_)) => SCALED,
    };
    let peer = operation.peer().map_or(0, |rank| u64::from(rank.0));
    let in_place = if placement.is_in_place() { IN_PLACE } else { 0 };
    code | (data_type as u64) << 8 | combine << 16 | in_place | peer << 32
}

/// The same of a collective.
pub(super) fn pack_collective(call: &CollectiveCall) -> u64 {
    let CallShape { placement, data_type, .. } = call.shape;
    pack(&call.operation(), data_type, placement)
}

/// The same of a send or a receive.
pub(super) fn pack_transfer(call: &TransferCall) -> u64 {
    pack(&call.operation(), call.data_type, CallPlacement::OutOfPlace)
}

/// What [`pack`] packed; `None` if no call packs to that.
pub(super) fn unpack(word: u64, count: u64) -> Option<(Call, CallPlacement)> {
    let byte = |shift: u32| (word >> shift) & 0xff;
    let peer = Rank((word >> 32) as u32);
    let combine = || match byte(16) {
        SCALED => Some(Combine::Scaled(Scalar::Immediate(0))),
        code => {
            let reduction = Reduction::ALL.get((code as usize).checked_sub(1)?)?;
            Some(Combine::Plain(*reduction))
        }
    };
    let operation = match byte(0) {
        1 => Operation::AllReduce(combine()?),
        2 => Operation::AllGather,
        3 => Operation::ReduceScatter(combine()?),
        4 => Operation::AllToAll,
        5 => Operation::Broadcast(peer),
        6 => Operation::Reduce(peer, combine()?),
        7 => Operation::Gather(peer),
        8 => Operation::Scatter(peer),
        9 => Operation::Send(peer),
        10 => Operation::Receive(peer),
        _ => return None,
    };
    let data_type = *DataType::ALL.get(byte(8) as usize)?;
    let call = Call { operation, data_type, count, buffers: Buffers::default() };
    Some((call, CallPlacement::from_in_place(word & IN_PLACE != 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations() -> Vec<Operation> {
        let scaled = Combine::Scaled(Scalar::Immediate(0));
        let combines = Reduction::ALL.map(Combine::Plain).into_iter().chain([scaled]);
        let root = Rank(u32::MAX - 1);
        let reducing = combines.flat_map(|combine| {
            use Operation::*;
            [AllReduce(combine), ReduceScatter(combine), Reduce(root, combine)]
        });
        use Operation::*;
        let moving = [AllGather, AllToAll, Broadcast(root), Gather(root), Scatter(root)];
        reducing.chain(moving).chain([Send(root), Receive(root)]).collect()
    }

    #[test]
    fn every_call_comes_back() {
        for operation in operations() {
            for data_type in DataType::ALL {
                for placement in CallPlacement::ALL {
                    let call = Call { operation, data_type, count: 7, buffers: Buffers::default() };
                    let packed = pack(&operation, data_type, placement);
                    assert_eq!(unpack(packed, 7), Some((call, placement)));
                }
            }
        }
    }

    #[test]
    fn addresses_streams_and_scalars_are_left_out() {
        let operation = Operation::AllReduce(Combine::Scaled(Scalar::At(8)));
        let packed = pack(&operation, DataType::F32, CallPlacement::OutOfPlace);
        let (bare, _) = unpack(packed, 1).unwrap();
        assert_eq!(bare.operation, Operation::AllReduce(Combine::Scaled(Scalar::Immediate(0))));
        assert_eq!(bare.buffers, Buffers::default());
    }

    #[test]
    fn nonsense_is_no_call() {
        for word in [0, 11, 1, 1 | 6 << 16, 2 | 12 << 8] {
            assert_eq!(unpack(word, 1), None, "{word:#x}");
        }
    }
}
