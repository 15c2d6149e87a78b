//! Which machine a command reckons with.
//!
//! `crate::cluster` makes a cluster of these options, by methods of these structs.

use std::cell::OnceCell;

use clap::Args;
use msccl_topology::cluster::Cluster;

use super::values;

/// A machine, and of how many nodes. Commands that have other options for nodes flatten
/// [`MachineArgs`] instead, and give it the number.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Machine")]
pub struct ClusterArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// That many of it, joined by its networks
    #[arg(long, value_name = "M", requires = "topo", value_parser = values::count)]
    pub nodes: Option<u32>,
}

/// A machine, whole or degraded.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Machine")]
pub struct MachineArgs {
    /// The machine: a name such as hgx-h100-8 or ndv5*4 (`msccl topo --list`), `this` for the one
    /// at hand, a file that ends in .cluster, or a topology file of NCCL's
    #[arg(long, value_name = "WHAT")]
    pub topo: Option<String>,
    /// Without these links: gpu2-gpu3, or nic1 for all of a NIC; may be given several times
    #[arg(long, value_name = "LINKS", requires = "topo")]
    pub without: Vec<String>,
    /// With these links at a part of their rate, such as nic1=0.5; may be given several times
    #[arg(long, value_name = "LINKS=PART", requires = "topo")]
    pub slow: Vec<String>,
    /// With GPUs whose rates `msccl calibrate` found [default: those that ship]
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<String>,
    /// The machine, once it was read: a file is read, and what of it is not used is said, once.
    #[arg(skip)]
    pub known: OnceCell<Cluster>,
}
