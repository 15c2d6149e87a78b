//! What the traces of all ranks have in common.

use std::convert::Infallible;
use std::fmt;
use std::io;

use msccl_collective::Rank;
use msccl_ir::{Algorithm, Target, Violation};

use crate::call::{Call, Traced};
use crate::cut::Cut;
use crate::node;
use crate::pieces::each_piece;
use crate::rank::each_node;

/// Most nodes that the trace of one rank may have.
pub const MOST_NODES: u64 = 1 << 24;

/// How many bytes are handed to a writer at a time.
const WRITE_BYTES: usize = 1 << 16;

/// The traces of one call, one for each rank.
pub struct Traces<'a>(Traced<'a>);

/// Why there are no traces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Untraceable {
    /// The algorithm is malformed or exceeds the target.
    Invalid(Vec<Violation>),
    /// The call has no bytes.
    Empty,
    /// The rate is no positive number.
    Rate,
    /// A trace would be too long: a rank has so many nodes, or more.
    TooManyNodes {
        /// Whose trace.
        rank: Rank,
    },
    /// The format has no number for a message.
    TooLarge {
        /// What does not fit.
        what: &'static str,
    },
}

impl fmt::Display for Untraceable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(violations) => match violations.first() {
                Some(violation) => write!(f, "the algorithm is not valid: {violation}"),
                None => f.write_str("the algorithm is not valid"),
            },
            Self::Empty => f.write_str("expected a call of one byte or more, found 0 bytes"),
            Self::Rate => f.write_str("expected a rate above 0"),
            Self::TooManyNodes { rank } => write!(
                f,
                "the trace of {rank} has more than {MOST_NODES} nodes: a node for every message; \
                 trace a smaller call"
            ),
            Self::TooLarge { what } => {
                write!(f, "{what} do not fit the format; trace a smaller call")
            }
        }
    }
}

impl std::error::Error for Untraceable {}

impl<'a> Traces<'a> {
    /// The traces of `call` on links as `target` has them.
    ///
    /// # Errors
    ///
    /// The algorithm is not valid for the target, the call is empty, or a trace is too long for
    /// its format. An algorithm that deadlocks is not found out here: its traces deadlock as well.
    pub fn new(algorithm: &'a Algorithm, target: &Target, call: Call) -> Result<Self, Untraceable> {
        msccl_ir::validate(algorithm, target).map_err(Untraceable::Invalid)?;
        if call.bytes == 0 {
            return Err(Untraceable::Empty);
        }
        if call.tb_bytes_per_us.is_some_and(|rate| rate.is_nan() || rate <= 0.0) {
            return Err(Untraceable::Rate);
        }
        let cut = Cut::new(algorithm, target, call.bytes);
        let depth = u64::from(target.link(algorithm.protocol).depth);
        let channels = u64::from(algorithm.channel_count());
        let traces = Self(Traced { algorithm, call, cut, depth, channels });
        traces.check()?;
        Ok(traces)
    }

    /// Makes sure that all numbers have room in the format.
    fn check(&self) -> Result<(), Untraceable> {
        // A message has at most all chunks of all steps, and no step counts more than 2³² of them.
        let longest = self.0.cut.bytes(0).checked_mul(u64::from(u32::MAX));
        if longest.is_none_or(|bytes| i64::try_from(bytes).is_err()) {
            return Err(Untraceable::TooLarge { what: "lengths of messages" });
        }
        self.ranks().try_for_each(|rank| self.check_rank(rank))
    }

    /// Pieces of a round are counted first, so that a call that is far too large costs no time.
    fn check_rank(&self, rank: Rank) -> Result<(), Untraceable> {
        let too_many = Untraceable::TooManyNodes { rank };
        let blocks = &self.0.algorithm.ranks[rank.index()].thread_blocks;
        let steps = blocks.iter().flat_map(|block| &block.steps);
        let pieces = steps
            .map(|step| msccl_machine::pieces(step, self.0.cut.chunks_per_message).len() as u64);
        let pieces = pieces.sum::<u64>().checked_mul(self.0.cut.rounds);
        // A link has no more messages than its thread block has pieces.
        let tags = pieces.and_then(|pieces| pieces.checked_mul(2 * self.0.channels.max(1)));
        if pieces.is_none_or(|pieces| pieces > MOST_NODES) {
            return Err(too_many);
        }
        if tags.is_none_or(|tags| i32::try_from(tags).is_err()) {
            return Err(Untraceable::TooLarge { what: "tags of messages" });
        }
        let mut nodes = 0;
        let counted = each_piece(blocks, self.0.cut, self.0.depth, |piece| {
            nodes += piece.nodes();
            Ok::<(), Infallible>(())
        });
        let Ok(()) = counted;
        if nodes > MOST_NODES { Err(too_many) } else { Ok(()) }
    }

    /// All ranks, each with a trace.
    pub fn ranks(&self) -> impl ExactSizeIterator<Item = Rank> + use<> {
        self.0.algorithm.collective.all_ranks()
    }

    /// Writes the trace of `rank`, which must be one of [`Traces::ranks`], in pieces of some tens
    /// of KiB: `out` needs no buffer of its own.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_to(&self, rank: Rank, out: &mut impl io::Write) -> io::Result<()> {
        let mut buffer = Vec::with_capacity(2 * WRITE_BYTES);
        let bytes = self.0.call.bytes.to_string();
        let collective = self.0.algorithm.collective.to_string();
        let head = node::head(&[
            ("collective", self.0.algorithm.collective.name()),
            ("algorithm", &self.0.algorithm.name),
            ("of", &collective),
            ("bytes", &bytes),
        ]);
        head.append_to(&mut buffer);
        each_node(&self.0, rank, |node| {
            node.encode().append_to(&mut buffer);
            if buffer.len() < WRITE_BYTES {
                return Ok(());
            }
            out.write_all(&buffer)?;
            buffer.clear();
            Ok(())
        })?;
        out.write_all(&buffer)
    }
}

/// The name of the trace of `rank` in the set of that prefix, as ASTRA-sim looks for it.
pub fn file_name(prefix: &str, rank: Rank) -> String {
    format!("{prefix}.{}.et", rank.0)
}
