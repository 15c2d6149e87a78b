//! What a bound says: a time per byte, and what shows that no schedule takes less.

use std::collections::BTreeSet;
use std::fmt;

use msccl_collective::{CollectiveKind, Rank};
use msccl_topology::cluster::{Cluster, VertexIndex};
use num_rational::Ratio;

/// Bytes in a megabyte, in which the rates of a cluster are given.
pub(crate) const BYTES_PER_MEGABYTE: u128 = 1_000_000;

/// Some vertices of a cluster.
pub type VertexSet = BTreeSet<VertexIndex>;

/// No schedule for `kind` takes less than `seconds_per_byte` of a call's largest buffer.
///
/// ```
/// use msccl_bounds::{Bound, SwitchModel, Theorem, VertexSet, Witness};
/// use msccl_collective::CollectiveKind;
/// use num_rational::Ratio;
///
/// let bound = Bound {
///     kind: CollectiveKind::AllGather,
///     switches: SwitchModel::Forward,
///     seconds_per_byte: Ratio::new(1, 50_000_000_000),
///     witness: Witness::Cut { inside: VertexSet::new() },
/// };
/// assert_eq!(bound.theorem(), Theorem::Cut);
/// assert_eq!(bound.seconds(1_000_000_000), 0.02);
/// assert_eq!(bound.gb_per_s(), 50.0);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    /// The collective that is bounded.
    pub kind: CollectiveKind,
    /// What the switches of the cluster are supposed to do.
    pub switches: SwitchModel,
    /// The least time for a byte; the page of the crate says which bytes count.
    pub seconds_per_byte: Ratio<u128>,
    /// What shows it.
    pub witness: Witness,
}

/// What vertices other than GPUs do with data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SwitchModel {
    /// They pass each message on to one place, as switches do without NVLink multicast and SHARP.
    Forward,
    /// They may also copy and reduce data.
    Compute,
}

/// What a bound rests on, in a form that can be checked without a search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Witness {
    /// [`Theorem::Cut`]: the vertices on one side; the links that leave them count.
    Cut {
        /// The side that the links leave.
        inside: VertexSet,
    },
    /// [`Theorem::Partition`]: disjoint groups of vertices that hold all GPUs.
    Partition {
        /// The groups; each has a GPU.
        groups: Vec<VertexSet>,
    },
    /// [`Theorem::Lengths`]: how long each link is said to be.
    Lengths {
        /// By the place of the link in [`Cluster::links`](msccl_topology::cluster::Cluster::links).
        links: Vec<u32>,
    },
    /// [`Theorem::Routes`]: what must cross, and how long each link is said to be.
    Routes {
        /// Cuts and partitions.
        crossings: Vec<Crossing>,
        /// By the place of the link in [`Cluster::links`](msccl_topology::cluster::Cluster::links).
        links: Vec<u32>,
    },
}

/// The links of the message from one rank to another, by the rank of the sender, then by that of
/// the receiver: their places in [`Cluster::links`](msccl_topology::cluster::Cluster::links).
/// `None` where no message goes.
pub type Routes = [Vec<Option<Vec<usize>>>];

/// A cut or a partition that counts so many times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Crossing {
    /// How often it counts.
    pub weight: u32,
    /// One group is a cut, which data leaves; several are a partition, as in
    /// [`Theorem::Partition`]. Vertices other than GPUs do not matter.
    pub groups: Vec<VertexSet>,
}

/// Why a witness shows its bound. `N` is the number of GPUs, `M` the bytes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Theorem {
    /// What must leave a set of vertices `S` takes at least its bytes divided by the rate of the
    /// links that leave `S`. With `a` GPUs inside and `b` outside, both at least one, these bytes
    /// are
    ///
    /// | collective | bytes that leave `S` |
    /// |---|---|
    /// | all-gather | `a/N · M`: the blocks from inside |
    /// | reduce-scatter | `b/N · M`: a part of each sum that stays outside |
    /// | all-reduce | `M`: a part of each sum |
    /// | broadcast | `M`, if the root is inside |
    /// | reduce | `M`, if the root is outside |
    /// | gather | `a/N · M`, if the root is outside |
    /// | scatter | `b/N · M`, if the root is inside |
    /// | all-to-all | `a·b/N · M` |
    ///
    /// It supposes only that data cannot be compressed. Switches may copy and reduce.
    Cut,
    /// For all-reduce, where switches only forward. Let disjoint groups of vertices hold all GPUs,
    /// `k` groups with one GPU or more each. Then `2(k − 1) · M` bytes leave groups.
    ///
    /// Proof, for one element. Order the messages between groups by arrival. Let `m` be the one
    /// that first makes a group know the contributions of all `k` groups. Every other group has
    /// sent by then, which makes `k − 1` messages. After `m`, each of the other `k − 1` groups
    /// lacks a contribution and must receive. Every such message leaves the group of its sender.
    ///
    /// It supposes that each message carries values of single elements, such as partial sums, and
    /// that it has one sender and one receiver: no coding over elements, no multicast, no reduction
    /// in the network. With single GPUs as groups on one switch it gives the well-known
    /// `2(N − 1)/N`.
    Partition,
    /// For all-to-all. With any lengths of links, the block from `s` to `t` of `M/N` bytes takes
    /// `distance(s, t)` times its bytes, and all links together offer `Σ rate · length` a second.
    /// So the call takes at least `M/N · Σ distance(s, t)` divided by that.
    ///
    /// It supposes that blocks travel as they are: no coding over blocks.
    Lengths,
    /// For messages that take given routes. Let cuts and partitions have weights, and links
    /// lengths, so that every route is as long as the weights of all that its message crosses,
    /// together, or longer. Then the call takes at least `Σ weight · bytes` divided by
    /// `Σ rate · length`, where `bytes` must cross by [`Theorem::Cut`] or [`Theorem::Partition`].
    ///
    /// Proof. Both theorems hold for what messages carry from GPU to GPU: `bytes` or more. So
    /// messages carry `Σ weight · bytes` or more, if a byte counts with the weights of all that its
    /// message crosses. It counts with no more than the length of its route. The links carry
    /// each byte over its whole route, and offer `Σ rate · length` a second.
    ///
    /// Where routes share links in ways that no cut of the cluster shows, the best of these bounds
    /// is the optimum of trees over the routes, by duality of linear programs.
    Routes,
}

/// Why there is no bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BoundError {
    /// One GPU has nothing to send.
    TooFewGpus {
        /// How many there are.
        found: usize,
    },
    /// The root is not a rank of the cluster.
    NoSuchRoot {
        /// The root of the collective.
        root: Rank,
        /// How many ranks there are.
        ranks: usize,
    },
    /// Data cannot get from one GPU to another, so no schedule ends.
    NoPath {
        /// The name of the GPU that has the data.
        from: String,
        /// The name of the GPU that needs it.
        to: String,
    },
}

impl Bound {
    /// What shows that it holds.
    pub fn theorem(&self) -> Theorem {
        match self.witness {
            Witness::Cut { .. } => Theorem::Cut,
            Witness::Partition { .. } => Theorem::Partition,
            Witness::Lengths { .. } => Theorem::Lengths,
            Witness::Routes { .. } => Theorem::Routes,
        }
    }

    /// The least time of a call of so many bytes, rounded; latency aside.
    pub fn seconds(&self, bytes: u64) -> f64 {
        let (numerator, denominator) = self.parts();
        bytes as f64 * numerator / denominator
    }

    /// The most gigabytes (10^9) of a call in a second, rounded: its algorithm bandwidth.
    pub fn gb_per_s(&self) -> f64 {
        let (numerator, denominator) = self.parts();
        denominator / numerator / 1e9
    }

    fn parts(&self) -> (f64, f64) {
        (*self.seconds_per_byte.numer() as f64, *self.seconds_per_byte.denom() as f64)
    }
}

impl BoundError {
    /// Two vertices of `cluster`, by name.
    pub(crate) fn no_path(cluster: &Cluster, from: usize, to: usize) -> Self {
        let name = |at: usize| cluster.vertices()[at].name.clone();
        BoundError::NoPath { from: name(from), to: name(to) }
    }
}

impl fmt::Display for BoundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BoundError::TooFewGpus { found } => {
                write!(f, "expected a cluster of at least 2 GPUs, found {found}")
            }
            BoundError::NoSuchRoot { root, ranks } => {
                write!(f, "expected a root below {ranks}, the number of GPUs, found {}", root.0)
            }
            BoundError::NoPath { from, to } => write!(
                f,
                "expected a path from `{from}` to `{to}`, found none; \
                 add links with a rate above 0 that lead there"
            ),
        }
    }
}

impl std::error::Error for BoundError {}
