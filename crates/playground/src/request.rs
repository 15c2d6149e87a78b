//! What can be asked.

use msccl_pages::steps::RuntimeName;
use serde::Deserialize;

/// A question.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Mistakes that show without a proof.
    Check {
        /// The file.
        source: Source,
    },
    /// A proof or a counterexample.
    Prove {
        /// The file.
        source: Source,
    },
    /// What moves where, as SVG.
    Chunks {
        /// The file.
        source: Source,
    },
    /// What thread blocks do, as SVG and as text.
    Schedule {
        /// The file.
        source: Source,
    },
    /// When steps run by the cost model, as SVG.
    Timeline {
        /// The file.
        source: Source,
        /// The size of the larger buffer; a usual one if not given.
        bytes: Option<u64>,
    },
    /// One run, event by event.
    Replay {
        /// The file.
        source: Source,
    },
    /// Times by the cost model, and what no schedule can beat.
    Figures {
        /// The file.
        source: Source,
    },
    /// Times of several, side by side.
    Compare {
        /// The files.
        sources: Vec<Source>,
    },
    /// MSCCL XML.
    Export {
        /// The file.
        source: Source,
        /// Whose.
        dialect: DialectName,
    },
    /// A program in the one canonical layout.
    Format {
        /// The program.
        text: String,
    },
    /// The page of `msccl report`.
    Page {
        /// The file.
        source: Source,
    },
    /// Examples, machines and words.
    Library,
}

/// A file, and which instance of it is meant. What is missing is as the file says.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its name in messages.
    pub name: String,
    /// Its text: a program, MSCCL XML, or the IR as JSON or text.
    pub text: String,
    /// Which algorithm of the program.
    #[serde(default)]
    pub algorithm: Option<String>,
    /// How many ranks.
    #[serde(default)]
    pub ranks: Option<u32>,
    /// How many of them share a node.
    #[serde(default)]
    pub per_node: Option<u32>,
    /// Parameters of the program.
    #[serde(default)]
    pub params: Vec<(String, i64)>,
    /// Copies of the program.
    #[serde(default)]
    pub instances: Option<u32>,
    /// What runs it.
    #[serde(default)]
    pub target: Option<RuntimeName>,
    /// The machine, by the name of a preset; one is supposed if not given.
    #[serde(default)]
    pub machine: Option<String>,
    /// How many of it.
    #[serde(default)]
    pub nodes: Option<u32>,
}

/// Whose XML.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DialectName {
    /// The first runtime's.
    Msccl,
    /// The executor's.
    Executor,
}
