//! `msccl report`: one algorithm as a page.

use clap::{Args, ValueHint};

use super::{LaunchArgs, TargetName, file_written};
use crate::size::ByteSize;

const EXAMPLES: &str = "\
Examples:
  msccl report my.msccl --ranks 8 -o my.html
  msccl report theirs.xml -o theirs.html
  msccl report allreduce/ring --topo hgx-h100-8 -o ring.html

The page needs no network and no other file. Of a file that is not proved it has the
counterexample. Exit codes: 0 proved, 1 refused (the page is written all the same), 2 unreadable
files or bad usage.";

/// `msccl report`
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PageArgs {
    /// The program, or an algorithm in XML, JSON or text; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: String,
    /// Where to write; standard output if not given, or `-`
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: Option<String>,
    /// Sizes of the larger buffer, for estimates [default: 1KiB, 4KiB, 16KiB, …, 1GiB]
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    pub sizes: Vec<ByteSize>,
    /// Size of the larger buffer, for the timeline [default: 1MiB, or the nearest that is served]
    #[arg(long, value_name = "BYTES")]
    pub size: Option<ByteSize>,
    /// What will run it; for XML msccl if not given, otherwise native
    #[arg(long)]
    pub target: Option<TargetName>,
    /// Which instance of the program is meant.
    #[command(flatten)]
    pub launch: LaunchArgs,
}

impl PageArgs {
    /// The file to write, unless it is standard output.
    pub fn file_written(&self) -> Option<&str> {
        file_written(self.output.as_ref())
    }
}
