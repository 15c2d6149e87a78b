//! `msccl bound`

use clap::{Args, ValueEnum};
use msccl_collective::CollectiveKind;

use super::{ClusterArgs, ReportArgs, values};
use crate::collective;
use crate::size::ByteSize;

const EXAMPLES: &str = "\
Examples:
  msccl bound allreduce --topo ndv4*2
  msccl bound alltoall --topo docs/examples/clusters/rails.cluster --size 64K,1M,256M
  msccl bound broadcast --root 3 --topo dgx1-v100 --without gpu0-gpu3

A bound is exact, and its witness is checked apart from the search. S stands for the bytes of the
call's largest buffer. Kernels, protocols and reductions cost nothing here.";

/// `msccl bound`
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct BoundArgs {
    /// The collective, under its own name or nccl-tests'
    #[arg(value_parser = kind)]
    pub collective: CollectiveKind,
    /// The root of collectives that have one
    #[arg(long, value_name = "RANK", default_value = "0", value_parser = values::index)]
    pub root: u32,
    /// Size of the larger buffer; may be given several times
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    pub size: Vec<ByteSize>,
    /// What switches do with data: `compute` is for NVLink multicast, SHARP and the like
    #[arg(long, default_value = "forward")]
    pub switches: SwitchesName,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
    /// On which machine.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// What switches do with data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SwitchesName {
    /// They pass each message on to one place.
    Forward,
    /// They also copy and add.
    Compute,
}

/// A collective by its name; its root is rank 0.
fn kind(text: &str) -> Result<CollectiveKind, String> {
    let named = collective::named(text);
    named.as_ref().and_then(CollectiveKind::of).ok_or_else(|| {
        format!("expected a collective (one of {}), found `{text}`", collective::names())
    })
}
