//! `msccl calibrate`: rates of the GPUs at hand.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::{ReportArgs, values};

const EXAMPLES: &str = "\
Examples:
  msccl calibrate -o mine.calibration
  msccl compare a.msccl b.msccl --ranks 8 --calibration mine.calibration
  msccl tune allreduce --data all.json -o site.tuning
  msccl calibrate --from all.json -o mine.calibration
  msccl calibrate --from all.json --check mine.calibration

Measures three algorithms in all ways in which they run, on all GPUs, and fits the rates of the cost
model to them; that takes two minutes. With --from it takes what `msccl tune --data` wrote instead.
It then says how far estimates are from what was measured, of the algorithms that were looked at and
of all others in the data.";

/// `msccl calibrate`
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CalibrateArgs {
    /// Where to write the calibration; it is only checked if not given
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Measure nothing; take the measurements of such files, which `msccl tune --data` writes
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath)]
    pub from: Vec<String>,
    /// Fit nothing; say how far estimates by this calibration are from what was measured
    #[arg(long, value_name = "FILE", conflicts_with = "output", value_hint = ValueHint::FilePath)]
    pub check: Option<String>,
    /// What to look at
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    #[arg(default_value = "allreduce/ring_interleaved,allgather/allpairs,reducescatter/one_block")]
    pub algorithms: Vec<String>,
    /// Draw estimates over measurements of the other algorithms into this file
    #[arg(long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub svg: Option<String>,
    /// Seconds that measuring may take
    #[arg(long, value_name = "SECONDS", default_value = "105", value_parser = values::seconds)]
    pub time: Duration,
    /// The library to measure; ours if not given (MSCCL_LIBRARY, or libnccl.so.2 beside msccl)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub library: Option<String>,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
}
