//! `msccl explain`: a collective, a size and files, in any order.

use std::str::FromStr;

use clap::Args;
use msccl_collective::{DataType, Kind, Reduction};

use super::{MachineArgs, NodesArgs, PlaceName, ReportArgs, values};
use crate::collective;
use crate::size::ByteSize;

const EXAMPLES: &str = "\
Examples:
  msccl explain allreduce 1M --ranks 8
  msccl explain allreduce 1M --ranks 16 --per-node 8
  msccl explain allreduce --ranks 4 mine.msccl theirs.xml
  msccl explain allreduce 1M --ranks 8 --topo hgx-h200-8
  msccl explain

Without a size it answers for all sizes from 1 KiB to 1 GiB that are powers of two, without a
collective for all. With --topo it estimates the time of what could serve. Like the library it
loads files from MSCCL_XML_FILES and MSCCL_ALGO_DIR, after those given. It follows MSCCL_ALGO,
MSCCL_ORDER, MSCCL_PROTO, MSCCL_DIRECT, MSCCL_INSTANCES, MSCCL_THREADS and MSCCL_TUNING, which
NCCL_CONF_FILE may set as well. Multiprocessors (SMs) are those that calls can keep busy.
Exit codes: 0 everything could be used, 1 a file is refused, 2 unreadable files or bad usage.";

/// `msccl explain`
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
#[command(override_usage = "msccl explain [OPTIONS] [COLLECTIVE] [SIZE] [FILES]...")]
pub struct ExplainArgs {
    /// A collective, under its own name or nccl-tests'; the size of its larger buffer; algorithms
    /// to load, in any format
    #[arg(value_name = "COLLECTIVE|SIZE|FILE")]
    pub words: Vec<Word>,
    /// Number of ranks
    #[arg(long, value_name = "N", default_value = "8")]
    #[arg(value_parser = values::ranks)]
    pub ranks: u32,
    #[command(flatten)]
    pub nodes: NodesArgs,
    /// What times are estimated on, if they are.
    #[command(flatten)]
    pub machine: MachineArgs,
    /// For calls whose input and output share memory
    #[arg(long)]
    pub in_place: bool,
    /// Type of the elements
    #[arg(long = "type", value_name = "TYPE", default_value = "f32")]
    pub data_type: DataType,
    /// How contributions are combined
    #[arg(long, value_name = "OP", default_value = "sum")]
    pub op: Reduction,
    /// The root of collectives that have one
    #[arg(long, value_name = "RANK", default_value = "0", value_parser = values::index)]
    pub root: u32,
    /// Where ranks run [default: as MSCCL_DEVICE says, otherwise cuda]
    #[arg(long)]
    pub device: Option<PlaceName>,
    /// A table of what is best for which size [default: what MSCCL_TUNING says]
    #[arg(long, value_name = "FILE")]
    pub tuning: Option<String>,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// One of the things that are distinguished by their form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    /// A collective; if it has a root, rank 0 stands for it.
    Collective(Kind),
    /// Size of the larger buffer.
    Size(ByteSize),
    /// A file to load.
    File(String),
}

impl FromStr for Word {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Word::of(text).ok_or_else(|| {
            let names = collective::names();
            format!("expected a collective ({names}), a size such as 64KiB, or {A_FILE}")
        })
    }
}

/// How a file is distinguished from other words.
const A_FILE: &str = "a file, which has a `.` or a `/` in its name";

impl Word {
    /// Which of them `text` looks like.
    fn of(text: &str) -> Option<Self> {
        if let Some(kind) = collective::named(text) {
            return Some(Word::Collective(kind));
        }
        if let Ok(size) = text.parse() {
            return Some(Word::Size(size));
        }
        let is_file = text == "-" || text.contains(['.', '/']);
        is_file.then(|| Word::File(text.to_owned()))
    }

    /// A word where a size makes no sense.
    pub fn unsized_from(text: &str) -> Result<Self, String> {
        Word::of(text).ok_or_else(|| {
            let names = collective::names();
            format!("expected a collective ({names}) or {A_FILE}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_distinguished() {
        let check = |text: &str, expected: Word| assert_eq!(text.parse(), Ok(expected));
        for name in ["allreduce", "all_reduce", "all-reduce", "AllReduce", "all_reduce_perf"] {
            check(name, Word::Collective(Kind::AllReduce));
        }
        check("1M", Word::Size(ByteSize(1 << 20)));
        check("4096", Word::Size(ByteSize(4096)));
        check("1.5M", Word::Size(ByteSize(3 << 19)));
        for file in ["mine.xml", "./allreduce", "algos/1M", "-", "./1.5M"] {
            check(file, Word::File(file.to_owned()));
        }
        let error = "alreduce".parse::<Word>().unwrap_err();
        assert!(error.contains("allreduce, allgather"), "{error}");
    }
}
