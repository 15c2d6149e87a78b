//! An algorithm and where it came from: what every reader of a file makes of it.
//!
//! Three things can be wrong, and they are distinguished: a file cannot be read or understood
//! ([`Failure`]); it can, but the algorithm that it describes is already known to be wrong
//! ([`KnownInvalid`]); or nothing is known yet, and [`crate::verdict`] calls the verifier.

use msccl_collective::SizeRange;
use msccl_compiler::chunk::{ChunkDag, OrderClaim};
use msccl_compiler::schedule::Origins;
use msccl_interchange::xml::{Contradiction, Places};
use msccl_ir::{Algorithm, StepRef, Target};
use msccl_syntax::{Diagnostic, FileId, SourceMap, Span};
use msccl_verify::FaultKind;

use crate::failure::{Failure, Result};
use crate::size::range_in_words;

/// An algorithm and where it came from.
pub struct Subject {
    /// The file, as messages show it.
    pub file: String,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// One instance of the program, if it requests several: engines make these themselves.
    pub one_instance: Option<ChunkDag>,
    /// Ranks on one node, for estimates of time.
    pub per_node: u32,
    /// Where it came from.
    pub provenance: Provenance,
    /// What will run it.
    pub target: Target,
}

impl Subject {
    /// Restricts the algorithm to calls of these sizes.
    ///
    /// # Errors
    ///
    /// It serves none of them.
    pub fn narrow(&mut self, requested: SizeRange) -> Result<()> {
        let served = self.algorithm.sizes;
        let ends = [served.max_bytes, requested.max_bytes].into_iter().flatten();
        let narrowed = SizeRange {
            min_bytes: served.min_bytes.max(requested.min_bytes),
            max_bytes: ends.min(),
        };
        if narrowed.max_bytes.is_some_and(|max| max < narrowed.min_bytes) {
            let (requested, served) = (range_in_words(requested), range_in_words(served));
            let message = format!(
                "{}: expected sizes within those that it serves ({served}), found {requested}",
                self.file
            );
            return Err(Failure::new(message));
        }
        self.algorithm.sizes = narrowed;
        Ok(())
    }
}

/// Where an algorithm came from.
pub enum Provenance {
    /// A program: its texts, and the statement behind every step.
    Program {
        /// The texts.
        sources: SourceMap,
        /// The statement behind every step.
        origins: Origins,
        /// The order in which it claims to add.
        claim: Option<OrderClaim>,
    },
    /// A file of XML: its text, and where its steps stand.
    Xml(XmlSource),
    /// Another file of steps.
    Steps,
}

impl Provenance {
    /// The order in which the algorithm claims to add.
    pub fn order_claim(&self) -> Option<OrderClaim> {
        match self {
            Provenance::Program { sources: _, origins: _, claim } => *claim,
            Provenance::Xml(_) | Provenance::Steps => None,
        }
    }
}

/// A file of XML, as it was read.
pub struct XmlSource {
    /// The text.
    pub sources: SourceMap,
    /// The text among the sources.
    pub file: FileId,
    /// Where its steps stand.
    pub places: Places,
}

impl XmlSource {
    /// The beginning of the `<step>` element.
    pub fn span(&self, step: StepRef) -> Option<Span> {
        let start = self.places.of(step)?;
        let end = start + "<step".len();
        let byte = |offset: usize| u32::try_from(offset).ok();
        Some(Span { file: self.file, start: byte(start)?, end: byte(end)? })
    }
}

/// An algorithm known to be wrong before the verifier looks at it.
pub struct KnownInvalid {
    /// The file, as messages show it.
    pub file: String,
    /// What is wrong.
    pub kind: FaultKind,
    /// Where that shows.
    pub fault: FileFault,
    /// What would have run it.
    pub target: Target,
}

/// What is wrong with an algorithm, by its own file.
pub enum FileFault {
    /// The program breaks its promise, or does not fit the target.
    Program(SourceMap, Vec<Diagnostic>),
    /// The XML contradicts itself.
    Xml(Vec<Contradiction>),
}

/// An algorithm, or why the verifier need not look at it.
pub type Loaded = std::result::Result<Subject, Box<KnownInvalid>>;
