//! `msccl topo`

use clap::{Args, ValueHint};

use super::ReportArgs;

/// `msccl topo`
#[derive(Args, Debug)]
pub struct TopoArgs {
    /// A topology file, as NCCL_TOPO_DUMP_FILE makes them; this machine if not given
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<String>,
    /// Draw it into this file
    #[arg(long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub svg: Option<String>,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
}
