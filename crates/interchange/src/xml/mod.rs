//! MSCCL XML, in the dialects of both runtimes; the format is described in `docs/XML.md`.
//!
//! [`write()`] and [`write_to`] turn an algorithm into XML and decide nothing; [`read`] and
//! [`read_bytes`] turn XML into an algorithm. `read(write(a, d)).algorithm == a` for every `a` that
//! `write` accepts.
//!
//! Three kinds of remark about a file are distinguished: a [`ReadError`] means that it is not MSCCL
//! XML at all; a [`Contradiction`] that it is, but says something that no interpreter runs right
//! and that an [`Algorithm`](msccl_ir::Algorithm) cannot hold; a warning that an interpreter would
//! stumble over the writing, not over the meaning.

mod collective;
mod contract;
mod hazard;
mod locus;
mod markup;
mod read;
mod row;
mod vocabulary;
mod write;
mod xsd;

pub use locus::Locus;
pub use read::{Contradiction, Demand, Places, Read, ReadError, read, read_bytes};
pub use write::{WriteError, write, write_to};
pub use xsd::schema;

use std::fmt;
use std::str::FromStr;

use msccl_ir::Target;

/// Which runtime's habits a file follows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dialect {
    /// The first runtime (NCCL 2.12 based) and the public Python toolkit.
    Msccl,
    /// The executor (NCCL 2.23 based) and RCCL.
    Executor,
}

impl Dialect {
    /// Both dialects.
    pub const ALL: [Dialect; 2] = [Dialect::Msccl, Dialect::Executor];

    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Msccl => "msccl",
            Dialect::Executor => "executor",
        }
    }

    /// The runtime that reads it, as messages call it.
    pub fn runtime(self) -> &'static str {
        match self {
            Dialect::Msccl => "the first MSCCL runtime",
            Dialect::Executor => "the MSCCL executor",
        }
    }

    /// The runtime that reads it, with its rules.
    pub fn target(self) -> Target {
        match self {
            Dialect::Msccl => Target::msccl(),
            Dialect::Executor => Target::executor(),
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|dialect| dialect.name() == text)
            .ok_or_else(|| format!("unknown dialect `{text}`; expected msccl or executor"))
    }
}
