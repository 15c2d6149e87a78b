//! What a caller asks of a communicator: one collective, or one half of a point-to-point exchange.
//!
//! Counts are those of the NCCL C API: the elements of one block, which is what one rank
//! contributes to one destination (see [`crate::oracle`] for the sizes that follow from it).
//!
//! Addresses are numbers here, and a promise: whoever submits a call vouches that its buffers are
//! memory of the rank's place, as long as the call says, that they live until the call is done (and
//! as long as graphs that captured it), and that nobody else uses them in conflict meanwhile. It is
//! what the C API demands of its callers.

mod shape;

use std::fmt;

use msccl_collective::{DataType, Rank, Reduction};
use msccl_registry::CollectiveKind;

use crate::error::Error;
pub(crate) use shape::CallShape;

/// One call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Call {
    /// What is asked.
    pub operation: Operation,
    /// The type of every element.
    pub data_type: DataType,
    /// Elements of one block.
    pub count: u64,
    /// Where the input lies; for [`Operation::Send`], what is sent. Read only where the operation
    /// has an input on this rank.
    pub send: u64,
    /// Where the output goes; for [`Operation::Receive`], where the message goes.
    pub receive: u64,
    /// In which stream, as the caller has it: a `cudaStream_t`. Ranks on the host ignore it.
    pub stream: u64,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Operation {
    /// Everyone gets the combination of all inputs.
    AllReduce(Combine),
    /// Everyone gets all inputs.
    AllGather,
    /// Everyone gets its block of the combination of all inputs.
    ReduceScatter(Combine),
    /// Everyone gets from everyone the block meant for it.
    AllToAll,
    /// Everyone gets the root's input.
    Broadcast(Rank),
    /// The root gets the combination of all inputs.
    Reduce(Rank, Combine),
    /// The root gets all inputs.
    Gather(Rank),
    /// Everyone gets its block of the root's input.
    Scatter(Rank),
    /// Sends to that rank, which must receive.
    Send(Rank),
    /// Receives from that rank, which must send.
    Receive(Rank),
}

/// How contributions combine.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Combine {
    /// As they are.
    Plain(Reduction),
    /// Summed, each multiplied before by its rank's scalar.
    Scaled(Scalar),
}

/// A scalar of the data type of its call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scalar {
    /// Its bits, in the low bytes.
    Immediate(u64),
    /// Where it lies when the call is executed.
    At(u64),
}

impl Combine {
    /// The reduction of what was scaled before, if it was.
    pub(crate) fn reduction(self) -> Reduction {
        match self {
            Combine::Plain(reduction) => reduction,
            Combine::Scaled(_) => Reduction::Sum,
        }
    }
}

impl Operation {
    /// The collective; `None` for point-to-point.
    pub fn wanted(&self) -> Option<CollectiveKind> {
        Some(match *self {
            Operation::AllReduce(_) => CollectiveKind::AllReduce,
            Operation::AllGather => CollectiveKind::AllGather,
            Operation::ReduceScatter(_) => CollectiveKind::ReduceScatter,
            Operation::AllToAll => CollectiveKind::AllToAll,
            Operation::Broadcast(root) => CollectiveKind::Broadcast(root),
            Operation::Reduce(root, _) => CollectiveKind::Reduce(root),
            Operation::Gather(root) => CollectiveKind::Gather(root),
            Operation::Scatter(root) => CollectiveKind::Scatter(root),
            Operation::Send(_) | Operation::Receive(_) => return None,
        })
    }

    /// How contributions combine, where they do.
    pub fn combine(&self) -> Option<Combine> {
        match *self {
            Operation::AllReduce(combine)
            | Operation::ReduceScatter(combine)
            | Operation::Reduce(_, combine) => Some(combine),
            Operation::AllGather
            | Operation::AllToAll
            | Operation::Broadcast(_)
            | Operation::Gather(_)
            | Operation::Scatter(_)
            | Operation::Send(_)
            | Operation::Receive(_) => None,
        }
    }

    /// The same with contributions combined in another way, where they are.
    pub(crate) fn combined(&self, combine: Combine) -> Self {
        match *self {
            Operation::AllReduce(_) => Operation::AllReduce(combine),
            Operation::ReduceScatter(_) => Operation::ReduceScatter(combine),
            Operation::Reduce(root, _) => Operation::Reduce(root, combine),
            other @ (Operation::AllGather
            | Operation::AllToAll
            | Operation::Broadcast(_)
            | Operation::Gather(_)
            | Operation::Scatter(_)
            | Operation::Send(_)
            | Operation::Receive(_)) => other,
        }
    }

    /// The field's name for it.
    pub fn name(&self) -> &'static str {
        match (self, self.wanted()) {
            (_, Some(wanted)) => wanted.name(),
            (Operation::Send(_), None) => "send",
            (_, None) => "receive",
        }
    }

    /// The other rank of a point-to-point operation, or the root of a collective.
    pub fn peer(&self) -> Option<Rank> {
        match *self {
            Operation::Broadcast(rank)
            | Operation::Reduce(rank, _)
            | Operation::Gather(rank)
            | Operation::Scatter(rank)
            | Operation::Send(rank)
            | Operation::Receive(rank) => Some(rank),
            Operation::AllReduce(_)
            | Operation::AllGather
            | Operation::ReduceScatter(_)
            | Operation::AllToAll => None,
        }
    }
}

/// A call that names its algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamedAlgorithmCall {
    /// Whether input and output share memory, in the way the collective defines.
    pub in_place: bool,
    /// The type of every element.
    pub data_type: DataType,
    /// How contributions combine, where they do.
    pub reduction: Reduction,
    /// Elements of one block.
    pub count: u64,
    /// Where the input lies.
    pub send: u64,
    /// Where the output goes.
    pub receive: u64,
    /// In which stream; ranks on the host ignore it.
    pub stream: u64,
}

/// Blocks of the input and of the output on one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// Blocks read.
    pub input: u64,
    /// Blocks written.
    pub output: u64,
}

impl Call {
    /// Bytes of one block.
    ///
    /// # Errors
    ///
    /// They exceed 64 bits.
    pub fn block_bytes(&self) -> Result<u64, Error> {
        let bytes = self.count.checked_mul(self.data_type.size_bytes() as u64);
        bytes.ok_or_else(|| Error::invalid_argument(format!("{self}: the buffers exceed memory")))
    }

    /// What `rank` of `ranks` reads and writes.
    pub fn blocks(&self, rank: Rank, ranks: u32) -> Blocks {
        let (one, all) = (1, u64::from(ranks));
        let at = |root: Rank, blocks: u64| if root == rank { blocks } else { 0 };
        let (input, output) = match self.operation {
            Operation::AllReduce(_) => (one, one),
            Operation::AllGather => (one, all),
            Operation::ReduceScatter(_) => (all, one),
            Operation::AllToAll => (all, all),
            Operation::Broadcast(root) => (at(root, one), one),
            Operation::Reduce(root, _) => (one, at(root, one)),
            Operation::Gather(root) => (one, at(root, all)),
            Operation::Scatter(root) => (at(root, all), one),
            Operation::Send(_) => (one, 0),
            Operation::Receive(_) => (0, one),
        };
        Blocks { input, output }
    }

    /// Whether input and output of `rank` share memory in the way the collective defines. Where this
    /// rank has only one of them, they do not.
    #[inline]
    pub fn is_in_place(&self, rank: Rank) -> bool {
        let own = || self.block_bytes().map(|bytes| bytes.wrapping_mul(u64::from(rank.0)));
        let at_own = |whole: u64, part: u64| own().is_ok_and(|own| part == whole.wrapping_add(own));
        match self.operation {
            Operation::AllReduce(_) | Operation::AllToAll => self.send == self.receive,
            Operation::Broadcast(root) | Operation::Reduce(root, _) => {
                root == rank && self.send == self.receive
            }
            Operation::AllGather => at_own(self.receive, self.send),
            Operation::Gather(root) => root == rank && at_own(self.receive, self.send),
            Operation::ReduceScatter(_) => at_own(self.send, self.receive),
            Operation::Scatter(root) => root == rank && at_own(self.send, self.receive),
            Operation::Send(_) | Operation::Receive(_) => false,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { operation, data_type, count, send: _, receive: _, stream: _ } = self;
        write!(f, "{} of {count} {data_type}", operation.name())?;
        match operation.combine() {
            Some(Combine::Plain(reduction)) => write!(f, " {reduction}")?,
            Some(Combine::Scaled(_)) => f.write_str(" scaled sum")?,
            None => {}
        }
        match operation.peer() {
            Some(rank) if matches!(operation, Operation::Receive(_)) => write!(f, " from {rank}"),
            Some(rank) if operation.wanted().is_none() => write!(f, " to {rank}"),
            Some(rank) => write!(f, " root {rank}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operation: Operation, send: u64, receive: u64) -> Call {
        Call { operation, data_type: DataType::F32, count: 4, send, receive, stream: 0 }
    }

    fn check(operation: Operation, send: u64, receive: u64, in_place: bool) {
        let call = call(operation, send, receive);
        assert_eq!(call.is_in_place(Rank(2)), in_place, "{call} {send} {receive}");
    }

    #[test]
    fn in_place_is_where_the_collective_says() {
        let sum = Combine::Plain(Reduction::Sum);
        check(Operation::AllReduce(sum), 64, 64, true);
        check(Operation::AllReduce(sum), 64, 128, false);
        check(Operation::AllGather, 96, 64, true);
        check(Operation::AllGather, 64, 64, false);
        check(Operation::ReduceScatter(sum), 64, 96, true);
        check(Operation::Broadcast(Rank(2)), 64, 64, true);
        check(Operation::Broadcast(Rank(0)), 64, 64, false);
        check(Operation::Gather(Rank(2)), 96, 64, true);
        check(Operation::Scatter(Rank(2)), 64, 96, true);
        check(Operation::Send(Rank(2)), 64, 64, false);
    }

    #[test]
    fn calls_print_what_matters() {
        let text = call(Operation::Reduce(Rank(1), Combine::Plain(Reduction::Max)), 0, 0);
        assert_eq!(text.to_string(), "reduce of 4 f32 max root r1");
        let text = call(Operation::Receive(Rank(3)), 0, 0);
        assert_eq!(text.to_string(), "receive of 4 f32 from r3");
    }
}
