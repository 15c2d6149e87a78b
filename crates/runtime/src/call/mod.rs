//! What a caller asks of a communicator: one collective, or one half of a point-to-point exchange.
//!
//! Counts are those of the NCCL C API: the elements of one block, which is what one rank
//! contributes to one destination (see [`crate::oracle`] for the sizes that follow from it).
//!
//! Addresses are numbers here, and a promise: whoever submits a call vouches that its buffers are
//! memory of the rank's place, as long as the call says, that they live until the call is done (and
//! as long as graphs that captured it), and that nobody else uses them in conflict meanwhile. It is
//! what the C API demands of its callers.

mod admission;

use std::fmt;

use msccl_collective::{CallPlacement, CollectiveKind, DataType, Rank, Reduction};

pub use admission::{AdmissionError, AdmittedCall, BufferRole, CallTag, Refusal};
pub(crate) use admission::{Admitted, CollectiveCall, TransferCall};

/// One call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Call {
    /// What is asked.
    pub operation: Operation,
    /// The type of every element.
    pub data_type: DataType,
    /// Elements of one block.
    pub count: u64,
    /// What it works on.
    pub buffers: Buffers,
}

/// What a call works on, as addresses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Buffers {
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

    /// What contributions are multiplied by, if they are.
    fn scalar(self) -> Option<Scalar> {
        match self {
            Combine::Plain(_) => None,
            Combine::Scaled(scalar) => Some(scalar),
        }
    }
}

impl Operation {
    /// The collective; `None` for point-to-point.
    pub fn kind(&self) -> Option<CollectiveKind> {
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

    /// The field's name for it.
    pub fn name(&self) -> &'static str {
        match (self, self.kind()) {
            (_, Some(kind)) => kind.name(),
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
    pub placement: CallPlacement,
    /// The type of every element.
    pub data_type: DataType,
    /// How contributions combine, where they do.
    pub reduction: Reduction,
    /// Elements of one block.
    pub count: u64,
    /// What it works on.
    pub buffers: Buffers,
}

/// Blocks of the input and of the output on one rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// Blocks read.
    pub input: u64,
    /// Blocks written.
    pub output: u64,
}

impl Blocks {
    /// What `rank` of `ranks` reads and writes in a collective.
    pub(crate) fn of(kind: CollectiveKind, rank: Rank, ranks: u32) -> Self {
        let (one, all) = (1, u64::from(ranks));
        let at = |root: Rank, blocks: u64| if root == rank { blocks } else { 0 };
        let (input, output) = match kind {
            CollectiveKind::AllReduce => (one, one),
            CollectiveKind::AllGather => (one, all),
            CollectiveKind::ReduceScatter => (all, one),
            CollectiveKind::AllToAll => (all, all),
            CollectiveKind::Broadcast(root) => (at(root, one), one),
            CollectiveKind::Reduce(root) => (one, at(root, one)),
            CollectiveKind::Gather(root) => (one, at(root, all)),
            CollectiveKind::Scatter(root) => (at(root, all), one),
        };
        Self { input, output }
    }
}

impl Call {
    /// What `rank` of `ranks` reads and writes.
    pub fn blocks(&self, rank: Rank, ranks: u32) -> Blocks {
        match (self.operation, self.operation.kind()) {
            (_, Some(kind)) => Blocks::of(kind, rank, ranks),
            (Operation::Send(_), None) => Blocks { input: 1, output: 0 },
            (_, None) => Blocks { input: 0, output: 1 },
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { operation, data_type, count, buffers: _ } = self;
        write!(f, "{} of {count} {data_type}", operation.name())?;
        match operation.combine() {
            Some(Combine::Plain(reduction)) => write!(f, " {reduction}")?,
            Some(Combine::Scaled(_)) => f.write_str(" scaled sum")?,
            None => {}
        }
        match operation.peer() {
            Some(rank) if matches!(operation, Operation::Receive(_)) => write!(f, " from {rank}"),
            Some(rank) if operation.kind().is_none() => write!(f, " to {rank}"),
            Some(rank) => write!(f, " root {rank}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_print_what_matters() {
        let call = |operation| {
            let (data_type, buffers) = (DataType::F32, Buffers::default());
            Call { operation, data_type, count: 4, buffers }.to_string()
        };
        let reduce = Operation::Reduce(Rank(1), Combine::Plain(Reduction::Max));
        assert_eq!(call(reduce), "reduce of 4 f32 max root r1");
        assert_eq!(call(Operation::Receive(Rank(3))), "receive of 4 f32 from r3");
    }
}
