//! `msccl topo`

use clap::{Args, ValueHint};

use super::{ClusterArgs, ReportArgs};

/// `msccl topo`
#[derive(Args, Debug)]
pub struct TopoArgs {
    /// A topology file, as NCCL_TOPO_DUMP_FILE makes them; this machine if not given
    #[arg(value_hint = ValueHint::FilePath, conflicts_with = "topo")]
    pub file: Option<String>,
    /// List the machines that have names
    #[arg(long, conflicts_with_all = ["file", "topo", "svg"])]
    pub list: bool,
    /// Which machine instead of a file or this one.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Draw it into this file
    #[arg(long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub svg: Option<String>,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
}
