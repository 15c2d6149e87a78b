//! Trees that others found, as a plan.

use msccl_collective::CollectiveKind;
use msccl_synthesize::{ForestCollTrees, Plan, plan_of_trees};
use msccl_topology::cluster::Cluster;

use super::not_found;
use crate::failure::{Failure, Result};
use crate::input::Input;

/// The plan of the trees in the file `path`.
///
/// # Errors
///
/// The file has no such trees, for this machine and `kind`.
pub fn plan_from(path: &str, kind: CollectiveKind, cluster: &Cluster) -> Result<Plan> {
    let Input { name, text } = Input::read(path)?;
    let vertices = cluster.vertices();
    let gpus: Vec<&str> = cluster.gpus().map(|gpu| &*vertices[gpu.index()].name).collect();
    let trees = ForestCollTrees::read(&text, &gpus)
        .map_err(|error| Failure::at(&name, Some(error.place()), &error))?;
    plan_of_trees(cluster, kind, &trees).map_err(not_found(kind, cluster))
}
