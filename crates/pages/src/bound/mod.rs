//! How fast a collective can be at best on a cluster: the bounds, checked, and how they are said.
//!
//! [`Limits`] holds both bounds and whether the one of bandwidth is known to be the best possible.
//! [`counted`] finds the links that a witness is about; [`words`] says witnesses and fractions to
//! people, [`json`] to programs.

pub mod counted;
pub mod json;
pub mod words;

use msccl_bounds::{
    Bound, LatencyBound, Optimum, SwitchModel, bound, check, check_latency, latency, optimum,
};
use msccl_collective::CollectiveKind;
use msccl_topology::cluster::{Cluster, ClusterLink, VertexIndex};

use crate::failure::{Failure, Result};

/// What no schedule of a collective can beat on a cluster.
pub struct Limits {
    /// Of large calls; its witness has been checked.
    pub bound: Bound,
    /// Whether a larger bound may hold.
    pub optimum: Optimum,
    /// Of small calls; its witness has been checked.
    pub latency: LatencyBound,
}

/// Which of the two bounds says more about a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// The bytes.
    Bandwidth,
    /// The way.
    Latency,
}

/// A call takes at least so long, by one of the bounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LeastTime {
    /// The time.
    pub us: f64,
    /// The bound that says so.
    pub by: Limit,
}

impl Limits {
    /// The limits of `kind` on `cluster`.
    ///
    /// # Errors
    ///
    /// The cluster has fewer than two GPUs, not the root, or no way between some of them.
    pub fn of(cluster: &Cluster, kind: CollectiveKind, switches: SwitchModel) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(format!("no bound on {}: {error}", title(cluster)))
        };
        let found = bound(cluster, kind, switches).map_err(|error| failed(&error))?;
        check(cluster, &found).map_err(|error| failed(&error))?;
        let latency = latency(cluster, kind).map_err(|error| failed(&error))?;
        check_latency(cluster, &latency).map_err(|error| failed(&error))?;
        let optimum = optimum(cluster, &found);
        Ok(Self { bound: found, optimum, latency })
    }

    /// The least time of a call of so many bytes.
    pub fn least_time(&self, bytes: u64) -> LeastTime {
        let bandwidth_us = self.bound.seconds(bytes) * 1e6;
        let latency_us = self.latency.nanoseconds as f64 / 1e3;
        if bandwidth_us >= latency_us {
            LeastTime { us: bandwidth_us, by: Limit::Bandwidth }
        } else {
            LeastTime { us: latency_us, by: Limit::Latency }
        }
    }

    /// The vertices of the shortest way that the bound of latency is about.
    pub fn latency_way(&self, cluster: &Cluster) -> Vec<VertexIndex> {
        let LatencyBound { kind: _, nanoseconds: _, from, to, distances_ns } = &self.latency;
        let mut way = vec![*to];
        let mut at = *to;
        // Links without latency may lead in a circle.
        while at != *from && way.len() <= cluster.vertices().len() {
            let leads_here = |link: &&ClusterLink| {
                let start = distances_ns[link.from.index()] + u64::from(link.latency_ns);
                link.to == at && link.rate.mb_per_s() > 0 && start == distances_ns[at.index()]
            };
            let before = cluster.links().iter().filter(leads_here);
            let Some(link) = before.min_by_key(|link| distances_ns[link.from.index()]) else {
                break;
            };
            at = link.from;
            way.push(at);
        }
        way.reverse();
        way
    }
}

impl Limit {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Bandwidth => "bandwidth",
            Limit::Latency => "latency",
        }
    }
}

/// What messages call a cluster.
pub fn title(cluster: &Cluster) -> &str {
    if cluster.name().is_empty() { "the cluster" } else { cluster.name() }
}
