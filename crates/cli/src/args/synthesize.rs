//! `msccl synthesize`

use std::time::Duration;

use clap::{Args, ValueHint};
use msccl_collective::CollectiveKind;

use super::{ClusterArgs, ReportArgs, values};
use crate::collective;
use crate::size::ByteSize;

const EXAMPLES: &str = "\
Examples:
  msccl synthesize allgather --topo dgx1-v100 --without 'pci*' -o mine.msccl
  msccl synthesize allreduce --topo docs/examples/clusters/pairs.cluster --size 256M -o mine.msccl
  msccl synthesize allgather --from forest.xml --topo hgx-h100-8 -o mine.msccl
  msccl synthesize allgather --topo dgx1-v100 --without 'pci*' --fewest-steps -o small.msccl
  msccl verify mine.msccl --topo docs/examples/clusters/pairs.cluster

The program is compiled and proved before it is written. Its comments say what links carry, and its
certificate what no schedule can beat; `msccl verify --topo` checks the certificate from scratch.";

/// `msccl synthesize`
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct SynthesizeArgs {
    /// allgather, reducescatter, allreduce, alltoall, broadcast or reduce
    #[arg(value_parser = kind)]
    pub collective: CollectiveKind,
    /// The root of collectives that have one
    #[arg(long, value_name = "RANK", default_value = "0", value_parser = values::index)]
    pub root: u32,
    /// How many ranks; the machine must have as many GPUs [default: as many as it has]
    #[arg(long, value_name = "N", value_parser = values::ranks)]
    pub ranks: Option<u32>,
    /// The most chunks of a block; more share links more finely, and make smaller messages
    #[arg(long, value_name = "K", default_value = "16", value_parser = values::count)]
    pub chunks: u32,
    /// Instead of a search, take the trees in this file, XML as ForestColl writes it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
        conflicts_with_all = ["chunks", "exact", "time_limit"])]
    pub from: Option<String>,
    /// Come as near to the bound as the chunks allow, up to 1024 if --chunks says nothing else; not
    /// only within half a percent
    #[arg(long)]
    pub exact: bool,
    /// For small calls: take the fewest steps, in each of which a rank sends at most one block to
    /// each other rank; a certificate says that fewer are too few, or the best that was found
    #[arg(long, conflicts_with_all = ["chunks", "exact"])]
    pub fewest_steps: bool,
    /// The most blocks that a link carries in one step
    #[arg(long, value_name = "K", default_value = "1", requires = "fewest_steps",
        value_parser = values::count)]
    pub link_chunks: u32,
    /// Choose among trees and levels, and lay out (protocol, thread blocks, instances), what is
    /// fastest for calls of this size, by estimate; for several sizes, a program for each range
    #[arg(long, value_name = "BYTES", value_delimiter = ',',
        value_parser = some_bytes)]
    pub size: Vec<ByteSize>,
    /// The most thread blocks of a rank, if a size is given
    #[arg(long, value_name = "N", requires = "size", value_parser = values::count)]
    pub thread_blocks: Option<u32>,
    /// After so many seconds the best so far must do
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = values::seconds)]
    pub time_limit: Duration,
    /// The file to write; standard output if none is named
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<String>,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
    /// For which machine.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// The size of a call that moves something.
fn some_bytes(text: &str) -> Result<ByteSize, String> {
    match text.parse()? {
        ByteSize(0) => Err(format!("expected a size of 1 byte or more, found `{text}`")),
        size => Ok(size),
    }
}

/// A collective by its name; its root is rank 0.
fn kind(text: &str) -> Result<CollectiveKind, String> {
    let named = collective::named(text);
    named.as_ref().and_then(CollectiveKind::of).ok_or_else(|| {
        format!("expected a collective (one of {}), found `{text}`", collective::names())
    })
}
