//! `msccl tune`: what to measure, for how long, and where to put it.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueHint};
use msccl_bench::{ElementType, Redop, Workload, tune};

use super::bench::{DeviceName, NamedPath, Scoped};
use super::{ClusterArgs, PlacementName, values};
use crate::collective;
use crate::size::ByteSize;

const EXAMPLES: &str = "\
Examples:
  msccl tune allreduce -o site.tuning
  msccl tune allgather -b 4K -e 64M --ranks 4 --time 60 --keep site.tuning -o site.tuning
  msccl tune allreduce --against /path/to/libnccl.so.2 --floor 6,450 --data all.json --svg all.svg
  msccl tune --from all.json -o site.tuning
  msccl tune allreduce --estimate --topo hgx-h200-8*4 -o guess.tuning
  msccl tune --from all.json --margin 5 --blocks-at-most 32 -o frugal.tuning
  MSCCL_TUNING=site.tuning my_program

Tries the algorithms that the library has and those that MSCCL_XML_FILES and MSCCL_ALGO_DIR name,
each with all protocols, links, instances and threads that fit. Of those within the margin of the
fastest, the one with the fewest thread blocks is chosen. Every result that counts is compared in
full; a candidate that is wrong once is out, and is reported. Exit codes: 0 all right, 1 something
was wrong or failed, 2 bad usage.";

/// `msccl tune`
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TuneArgs {
    /// What to tune: allreduce, allgather, reducescatter, alltoall, broadcast, reduce, gather or
    /// scatter
    #[arg(required_unless_present = "from", conflicts_with = "from", value_parser = collective)]
    pub collective: Option<Workload>,

    /// Where to write the table; standard output if not given
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// A table whose rows for other calls stay; it may be the one that is written
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub keep: Option<String>,
    /// Where to write all measurements
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub data: Option<PathBuf>,
    /// Measure nothing; take the measurements of such a file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub from: Option<String>,
    /// Measure nothing; estimate by the cost model, for the machine of --topo or one like HGX H200
    #[arg(long, conflicts_with_all = ["from", "against", "time", "eager", "device", "gpus"])]
    pub estimate: bool,
    /// For estimates: the ranks on one node [default: the GPUs of a node of --topo, or all]
    #[arg(long, value_name = "G", requires = "estimate", value_parser = values::ranks)]
    pub per_node: Option<u32>,
    /// The machine of estimates.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Where to draw time over size
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// The least time that the wires allow: that of the smallest call in µs, and what a link
    /// carries in GB/s
    #[arg(long, value_name = "US,GBPS", value_parser = floor)]
    pub floor: Option<tune::Floor>,

    /// How much longer than the fastest a candidate with fewer thread blocks may take, in percent
    #[arg(long, value_name = "PERCENT", default_value = "3", value_parser = margin)]
    pub margin: f64,
    /// Choose nothing with more thread blocks, each of which takes up a multiprocessor
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub blocks_at_most: Option<u32>,

    /// Smallest size
    #[arg(short = 'b', long = "minbytes", value_name = "BYTES", default_value = "1K")]
    pub min: ByteSize,
    /// Largest size [default: 1G, on the host 1M]
    #[arg(short = 'e', long = "maxbytes", value_name = "BYTES")]
    pub max: Option<ByteSize>,
    /// Factor from one size to the next
    #[arg(short = 'f', long = "stepfactor", value_name = "FACTOR", default_value = "2")]
    #[arg(value_parser = clap::value_parser!(u64).range(2..))]
    pub factor: u64,
    /// Whether input and output share memory [default: both]
    #[arg(long, value_name = "WHERE")]
    pub placement: Option<PlacementName>,
    /// Type of the elements
    #[arg(short = 'd', long = "datatype", value_name = "TYPE", default_value = "float")]
    pub element: ElementType,
    /// How contributions are combined
    #[arg(long, value_name = "OP", default_value = "sum")]
    pub op: Redop,
    /// The root of collectives that have one
    #[arg(short = 'r', long, value_name = "RANK", default_value = "0")]
    #[arg(value_parser = values::index)]
    pub root: u32,
    /// Seconds that measuring may take, joining apart; one round of every size is always made
    #[arg(long, value_name = "SECONDS", default_value = "180", value_parser = values::seconds)]
    pub time: Duration,
    /// Make calls one by one instead of launching them as CUDA graphs; always so on the host
    #[arg(long)]
    pub eager: bool,

    /// The library to tune; ours if not given (MSCCL_LIBRARY, or libnccl.so.2 beside msccl)
    #[arg(long, value_name = "[NAME=]PATH", value_hint = ValueHint::FilePath)]
    pub library: Option<NamedPath>,
    /// Another library to measure beside it
    #[arg(long, value_name = "[NAME=]PATH", value_hint = ValueHint::FilePath)]
    pub against: Option<NamedPath>,
    /// Set a variable for both libraries, or for the one of that name; may be given several times
    #[arg(long, value_name = "[NAME:]KEY=VALUE")]
    pub env: Vec<Scoped>,
    /// GPUs to use; all if not given
    #[arg(short = 'g', long = "ngpus", value_name = "GPUS", value_parser = values::count)]
    pub gpus: Option<u32>,
    /// Ranks; as many as GPUs if not given, on the host 4. Several can share a GPU
    #[arg(long, value_name = "N", value_parser = values::ranks)]
    pub ranks: Option<u32>,
    /// Ranks in one process, each on a thread of its own; if not given, those that share a GPU
    #[arg(short = 't', long = "nthreads", value_name = "N")]
    #[arg(value_parser = values::count)]
    pub threads: Option<u32>,
    /// Where buffers lie [default: as MSCCL_DEVICE says, otherwise auto]
    #[arg(long)]
    pub device: Option<DeviceName>,
    /// Seconds after which joining, or a measurement, is given up
    #[arg(short = 'T', long, value_name = "SECONDS", default_value = "120")]
    #[arg(value_parser = values::seconds)]
    pub timeout: Duration,
}

/// What can be tuned; what is made of transfers is distinguished later.
fn collective(text: &str) -> Result<Workload, String> {
    text.parse().map_err(|_| format!("expected one of {}", collective::names()))
}

/// A share in percent.
fn margin(text: &str) -> Result<f64, String> {
    let percent = f64::from_str(text).ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| format!("expected percent from 0 to 100, found `{text}`"))
}

/// `6,450`: µs and GB/s.
fn floor(text: &str) -> Result<tune::Floor, String> {
    let wrong = || format!("expected a latency in µs and GB/s, such as 6,450, found `{text}`");
    let (latency, speed) = text.split_once(',').ok_or_else(wrong)?;
    let number = |text: &str| {
        let number = f64::from_str(text.trim()).ok();
        number.filter(|number| number.is_finite() && *number >= 0.0).ok_or_else(wrong)
    };
    let (latency_us, bus_gb_s) = (number(latency)?, number(speed)?);
    if bus_gb_s > 0.0 { Ok(tune::Floor { latency_us, bus_gb_s }) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn margins_are_percent() {
        assert_eq!((margin("3"), margin("0.5")), (Ok(3.0), Ok(0.5)));
        assert!(["-1", "101", "nan", "few"].into_iter().all(|text| margin(text).is_err()));
    }

    #[test]
    fn floors_are_two_numbers() {
        let read = |text: &str| floor(text).map(|of| (of.latency_us, of.bus_gb_s));
        assert_eq!(read("6,450"), Ok((6.0, 450.0)));
        assert_eq!(read("0, 0.5"), Ok((0.0, 0.5)));
        for text in ["6", "6,0", "-1,2", "inf,1", "a,b", ""] {
            assert!(read(text).unwrap_err().contains("such as 6,450"), "{text}");
        }
    }
}
