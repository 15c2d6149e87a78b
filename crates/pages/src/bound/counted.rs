//! The links whose rates a witness adds up.

use msccl_bounds::Witness;
use msccl_topology::cluster::{Cluster, ClusterLink};

/// Whether each link of `cluster` counts in `witness`, by its place; `None` if all links count,
/// each with a length.
pub fn counted_links(cluster: &Cluster, witness: &Witness) -> Option<Vec<bool>> {
    let groups = match witness {
        Witness::Cut { inside } => std::slice::from_ref(inside),
        Witness::Partition { groups } => groups,
        Witness::Lengths { links: _ } | Witness::Routes { crossings: _, links: _ } => return None,
    };
    let mut group_of = vec![None; cluster.vertices().len()];
    for (group, members) in groups.iter().enumerate() {
        members.iter().for_each(|member| group_of[member.index()] = Some(group));
    }
    let leaves = |link: &ClusterLink| {
        let from = group_of[link.from.index()];
        from.is_some() && from != group_of[link.to.index()]
    };
    Some(cluster.links().iter().map(leaves).collect())
}
