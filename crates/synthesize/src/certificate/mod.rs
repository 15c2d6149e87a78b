//! What a program claims about its speed, in comments of it that anybody can check.
//!
//! ```text
//! // certificate: allgather over 8 ranks
//! // certificate: takes 7/960000000000 s/byte
//! // certificate: bound 7/960000000000 s/byte
//! // certificate: cut all but gpu0
//! ```
//!
//! * `takes`: what the busiest link of the proved schedule takes for a byte of the call's largest
//!   buffer, as an exact fraction.
//! * `bound`: what no schedule takes less than whose messages take the routes of the cluster.
//! * Its witness: `cut` with the vertices on the side that data leaves; `group` for each group of a
//!   partition; or `length` for each link with a length, by its place in the cluster. `all but`
//!   stands for all other vertices, and a line `and` continues the one before it.
//! * A witness about routes has several cuts and partitions, each after a line `weight`, and then
//!   lengths.
//!
//! [`Certificate::check`] counts the loads' time again, adds up the rates of the witness, and
//! believes nothing. It takes a shortest-path search from each GPU, for the routes, and time linear
//! in the size of the cluster and of the certificate.

mod error;
mod lines;
mod read;
mod write;

use msccl_bounds::{Bound, VertexSet, check_over_routes};
use msccl_collective::CollectiveKind;
use msccl_simulate::{LinkLoads, all_routes};
use msccl_topology::cluster::Cluster;
use num_rational::Ratio;

use crate::network::{BYTES_PER_MEGABYTE, routed_cluster};

pub use error::CertificateError;
pub(crate) use lines::{Line, LineReader, marked};
pub(crate) use read::call;

/// What stands before every line of a certificate.
const MARK: &str = "// certificate:";

/// What a program claims.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    /// Over how many ranks.
    pub ranks: u32,
    /// What the busiest link takes for a byte.
    pub seconds_per_byte: Ratio<u128>,
    /// What no schedule over the routes can beat, with its witness.
    pub bound: Bound,
}

impl Certificate {
    /// That of a proved schedule with these `loads` on `cluster`; `None` if it sends nothing.
    pub fn new(ranks: u32, loads: &LinkLoads, cluster: &Cluster, bound: Bound) -> Option<Self> {
        Some(Self { ranks, seconds_per_byte: seconds_per_byte(loads, cluster)?, bound })
    }

    /// Whether `text` has lines of a certificate.
    pub fn is_in(text: &str) -> bool {
        text.lines().any(|line| line.trim_start().starts_with(MARK))
    }

    /// How many times the bound the busiest link takes.
    pub fn times_bound(&self) -> Ratio<u128> {
        self.seconds_per_byte / self.bound.seconds_per_byte
    }

    /// That the certificate is not about `found`.
    pub fn of_other_call(&self, found: &str) -> CertificateError {
        let claimed = format!("{} over {} ranks", self.bound.kind, self.ranks);
        CertificateError::OtherCall { claimed, found: found.to_owned() }
    }

    /// Whether all of it is true of a schedule for `kind` over so many `ranks`, with these `loads`
    /// on `cluster`.
    ///
    /// # Errors
    ///
    /// The first claim that is not true.
    pub fn check(
        &self,
        kind: CollectiveKind,
        ranks: u32,
        loads: &LinkLoads,
        cluster: &Cluster,
    ) -> Result<(), CertificateError> {
        let gpus = cluster.gpus().count();
        if self.bound.kind != kind || self.ranks != ranks || ranks as usize != gpus {
            let found = format!("{kind} over {ranks} ranks on {gpus} GPUs");
            return Err(self.of_other_call(&found));
        }
        let counted = seconds_per_byte(loads, cluster).unwrap_or_default();
        if counted != self.seconds_per_byte {
            return Err(CertificateError::OtherTime { claimed: self.seconds_per_byte, counted });
        }
        check_over_routes(&routed_cluster(cluster), &all_routes(cluster), &self.bound)
            .map_err(CertificateError::Witness)
    }
}

/// What the busiest link takes for a byte of the call; `None` if nothing is sent.
fn seconds_per_byte(loads: &LinkLoads, cluster: &Cluster) -> Option<Ratio<u128>> {
    let LinkLoads { chunks, chunks_of_call } = loads;
    let links = chunks.iter().zip(cluster.links());
    let busy = links.filter(|(chunks, link)| **chunks > 0 && link.rate.mb_per_s() > 0);
    let time = busy.map(|(chunks, link)| {
        let rate = u128::from(link.rate.mb_per_s()) * BYTES_PER_MEGABYTE;
        Ratio::new(u128::from(*chunks), u128::from((*chunks_of_call).max(1)) * rate)
    });
    time.max()
}

/// The word with which lines of a witness begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WitnessWord {
    Cut,
    Group,
    Length,
    /// Of the cut or partition that follows.
    Weight,
}

impl WitnessWord {
    const ALL: [Self; 4] =
        [WitnessWord::Cut, WitnessWord::Group, WitnessWord::Length, WitnessWord::Weight];

    /// What stands before a cut, if there is one group, or a partition.
    fn of_groups(groups: &[VertexSet]) -> Self {
        if groups.len() == 1 { WitnessWord::Cut } else { WitnessWord::Group }
    }

    fn text(self) -> &'static str {
        match self {
            WitnessWord::Cut => "cut",
            WitnessWord::Group => "group",
            WitnessWord::Length => "length",
            WitnessWord::Weight => "weight",
        }
    }
}

#[cfg(test)]
mod tests;
