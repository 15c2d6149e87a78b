//! How ranks are spread over nodes.

use clap::Args;

use super::values;

/// Of which number, the command says; all on one node unless one of these is given.
#[derive(Args, Clone, Copy, Debug)]
pub struct NodesArgs {
    /// Ranks on one node; ranks are numbered node by node [default: all]
    #[arg(long, value_name = "G")]
    #[arg(value_parser = values::count)]
    pub per_node: Option<u32>,
    /// Number of nodes, instead of the ranks on one
    #[arg(long, value_name = "M", conflicts_with = "per_node")]
    #[arg(value_parser = values::count)]
    pub nodes: Option<u32>,
}
