//! What a machine is made of, as far as moving data goes: hosts, NUMA nodes, PCI switches, GPUs,
//! NICs, and the links between them.
//!
//! Three stages. A [`System`](system::System) is a description, as NCCL's topology files have it;
//! [`xml`] reads and writes it, [`detect`](detect::detect) finds it out. A [`Topology`] is made
//! from it: a graph that answers which [`Path`] joins two devices, which NICs are nearest to a GPU
//! and which GPUs NVLink connects. [`text`] shows it.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use msccl_topology::{GpuIndex, Node, PathType, Topology, xml};
//!
//! let file = r#"<system version="1">
//!   <cpu numaid="0" affinity="ff" arch="x86_64">
//!     <pci busid="0000:10:00.0" class="0x030200"><gpu dev="0" sm="90"/></pci>
//!     <pci busid="0000:20:00.0" class="0x030200"><gpu dev="1" sm="90"/></pci>
//!   </cpu>
//! </system>"#;
//! let topology = Topology::new(xml::read(file)?.system);
//! let [one, other] = [0, 1].map(|at| Node::Gpu(GpuIndex(at)));
//! assert_eq!(topology.path(one, other).map(|path| path.kind), Some(PathType::Phb));
//! # Ok(())
//! # }
//! ```
//!
//! Guarantees: the reader never panics, reads a bounded amount, and locates every complaint;
//! `read(write(system)) == system` for every description.
//!
//! Absent from this crate: files (callers pass [`detect::Files`]), NVML (callers say which NVLinks
//! there are), ranks' whereabouts, and any choice of schedule.

#![deny(unsafe_code)]

pub mod address;
pub mod bandwidth;
pub mod cluster;
pub mod detect;
mod graph;
mod path;
pub mod system;
pub mod text;
mod topology;
pub mod xml;

pub use graph::{GpuIndex, HostIndex, Link, NetIndex, Node};
pub use path::{Path, PathType};
pub use topology::{Place, Topology};
