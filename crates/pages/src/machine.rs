//! Machines by name.

use msccl_topology::cluster::Cluster;
use msccl_topology::cluster::presets::preset;
use msccl_topology::cluster::repeat::repeat;

use crate::failure::{Failure, Result};

/// `nodes` of the machine that is known as `name`.
///
/// # Errors
///
/// There is none of that name, or so many do not fit together.
pub fn named(name: &str, nodes: u32) -> Result<Cluster> {
    let single = preset(name).ok_or_else(|| Failure::new(format!("no machine is named {name}")))?;
    repeat(&single, nodes).map_err(|error| Failure::new(format!("{name}: {error}")))
}
