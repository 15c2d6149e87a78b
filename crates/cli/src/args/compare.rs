//! `msccl compare`: algorithms side by side.

use std::time::Duration;

use clap::{Args, ValueHint};
use msccl_collective::{DataType, Reduction};

use super::bench::NamedPath;
use super::{DeviceName, LaunchArgs, ReportArgs, values};
use crate::size::ByteSize;

const EXAMPLES: &str = "\
Examples:
  msccl compare mine.msccl theirs.xml allreduce/ring --ranks 8 --sizes 64K,1M,256M
  msccl compare a.msccl b.msccl --topo pairs.cluster --without nic1 --svg all.svg
  msccl compare allreduce --ranks 8
  msccl compare mine.msccl allreduce/ring --ranks 4 --device auto

A collective stands for all built-in algorithms for it. Times are estimates of the cost model, as
the library would run each algorithm if it were the only one; with --device they are measured so.
Exit codes: 0 all could be compared, 1 one is not proved, 2 unreadable files or bad usage.";

/// `msccl compare`
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// Programs, algorithms in XML, JSON or text, names of built-in ones, or a collective
    #[arg(required = true, value_name = "ALGORITHM", value_hint = ValueHint::FilePath)]
    pub algorithms: Vec<String>,
    /// Sizes of the larger buffer
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    #[arg(default_value = "1K,16K,256K,4M,64M,1G")]
    pub sizes: Vec<ByteSize>,
    /// Type of the elements
    #[arg(long = "type", value_name = "TYPE", default_value = "f32")]
    pub data_type: DataType,
    /// How contributions are combined
    #[arg(long, value_name = "OP", default_value = "sum")]
    pub op: Reduction,
    /// Measure instead of estimating, where buffers lie so
    #[arg(long, value_name = "WHERE")]
    pub device: Option<DeviceName>,
    /// The library to measure with; ours if not given (MSCCL_LIBRARY, or libnccl.so.2 beside msccl)
    #[arg(long, value_name = "PATH", requires = "device", value_hint = ValueHint::FilePath)]
    pub library: Option<NamedPath>,
    /// Seconds after which joining, or a measurement, is given up
    #[arg(short = 'T', long, value_name = "SECONDS", default_value = "120")]
    #[arg(value_parser = values::seconds)]
    pub timeout: Duration,
    /// Draw time over size into this file
    #[arg(long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub svg: Option<String>,
    /// Which instances of the programs are meant.
    #[command(flatten)]
    pub launch: LaunchArgs,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
}
