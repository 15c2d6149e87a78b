//! What is measured: the collectives of nccl-tests, their buffers and their figures of merit.
//!
//! A *block* is the count that the call is given: what a rank contributes to one destination. With
//! `S` the size of the larger buffer in bytes, `t` the time and `n` ranks:
//!
//! | workload | blocks sent | blocks received | algorithm bandwidth | bus bandwidth |
//! |---|---|---|---|---|
//! | all-reduce | 1 | 1 | S/t | S/t · 2(n−1)/n |
//! | all-gather, gather | 1 | n | S/t | S/t · (n−1)/n |
//! | reduce-scatter, scatter | n | 1 | S/t | S/t · (n−1)/n |
//! | all-to-all | n | n | S/t | S/t · (n−1)/n |
//! | broadcast, reduce, send-receive | 1 | 1 | S/t | S/t |
//! | hypercube | 1 | n | S/t · (n−1)/n | the same |
//!
//! Bus bandwidth is what the busiest link must carry at least, so that it can be held against the
//! hardware's whatever the collective and the number of ranks.

use std::fmt;
use std::str::FromStr;

use msccl_collective::{CollectiveKind, Rank};
use serde::{Deserialize, Serialize};

use crate::placement::Placement;

/// A collective, or a pattern of sends and receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Workload {
    /// Everyone gets the reduction of all inputs.
    AllReduce,
    /// Everyone gets all inputs.
    AllGather,
    /// Everyone gets its block of the reduction.
    ReduceScatter,
    /// Everyone gets the root's input.
    Broadcast,
    /// The root gets the reduction.
    Reduce,
    /// Everyone gets its block of every input.
    AllToAll,
    /// Everyone sends to the next rank.
    SendRecv,
    /// The root gets all inputs.
    Gather,
    /// Everyone gets its block of the root's input.
    Scatter,
    /// All-gather by sends and receives along the edges of a cube.
    HyperCube,
}

/// The blocks of the largest buffers that a workload needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// In the input.
    pub input: u64,
    /// In the output.
    pub output: u64,
}

/// Gigabytes (10⁹) a second.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bandwidth {
    /// The size of the call by its time.
    pub algorithm_gb_s: f64,
    /// What the busiest link carries.
    pub bus_gb_s: f64,
}

/// How counts follow from sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// As nccl-tests: where a buffer has many blocks, each is a multiple of 16 bytes.
    Aligned,
    /// Every count is odd.
    Odd,
}

impl Workload {
    /// Every workload.
    pub const ALL: [Self; 10] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::Broadcast,
        Self::Reduce,
        Self::AllToAll,
        Self::SendRecv,
        Self::Gather,
        Self::Scatter,
        Self::HyperCube,
    ];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "allreduce",
            Self::AllGather => "allgather",
            Self::ReduceScatter => "reducescatter",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::AllToAll => "alltoall",
            Self::SendRecv => "sendrecv",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::HyperCube => "hypercube",
        }
    }

    /// Whether contributions are combined.
    pub fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce)
    }

    /// Whether one rank is special.
    pub fn has_root(self) -> bool {
        matches!(self, Self::Broadcast | Self::Reduce | Self::Gather | Self::Scatter)
    }

    /// Whether the result of calls in place is defined. The others are timed, and not checked.
    pub fn is_checked_in_place(self) -> bool {
        !matches!(self, Self::AllToAll | Self::SendRecv)
    }

    /// The placements in which results are checked.
    pub fn checked_placements(self) -> impl Iterator<Item = Placement> {
        let is_checked = move |placement: &Placement| match placement {
            Placement::OutOfPlace => true,
            Placement::InPlace => self.is_checked_in_place(),
        };
        Placement::BOTH.into_iter().filter(is_checked)
    }

    /// Whether `ranks` ranks can do it.
    pub fn suits(self, ranks: u32) -> bool {
        self != Self::HyperCube || ranks.is_power_of_two()
    }

    /// The blocks of the rank that has most.
    pub fn blocks(self, ranks: u32) -> Blocks {
        let (one, all) = (1, u64::from(ranks));
        let (input, output) = match self {
            Self::AllReduce | Self::Broadcast | Self::Reduce | Self::SendRecv => (one, one),
            Self::AllGather | Self::Gather | Self::HyperCube => (one, all),
            Self::ReduceScatter | Self::Scatter => (all, one),
            Self::AllToAll => (all, all),
        };
        Blocks { input, output }
    }

    /// In a call in place, the block of the common buffer at which the input of `rank` begins, and
    /// that at which its output does.
    pub fn place_in_common(self, rank: u32) -> (u64, u64) {
        let own = u64::from(rank);
        match self {
            Self::AllReduce | Self::Broadcast | Self::Reduce | Self::SendRecv | Self::AllToAll => {
                (0, 0)
            }
            Self::AllGather | Self::Gather | Self::HyperCube => (own, 0),
            Self::ReduceScatter | Self::Scatter => (0, own),
        }
    }

    /// Elements of a block in a call of `size_bytes`.
    pub fn count(self, size_bytes: u64, element_bytes: u64, ranks: u32, rounding: Rounding) -> u64 {
        let all = size_bytes / element_bytes;
        let count = all / self.widest(ranks);
        match rounding {
            Rounding::Odd => count | 1,
            Rounding::Aligned if self.widest(2) == 1 => count,
            Rounding::Aligned => count - count % (16 / element_bytes),
        }
    }

    /// Bytes of the larger buffer in a call of `count` elements a block.
    pub fn size_bytes(self, count: u64, element_bytes: u64, ranks: u32) -> u64 {
        count.saturating_mul(element_bytes).saturating_mul(self.widest(ranks))
    }

    /// What a call of `size_bytes` that takes `time_us` achieves; nothing in no time.
    pub fn bandwidth(self, size_bytes: u64, ranks: u32, time_us: f64) -> Bandwidth {
        if time_us <= 0.0 {
            return Bandwidth::default();
        }
        let speed = size_bytes as f64 / time_us / 1e3;
        let bus_gb_s = speed * self.collective().map_or(1.0, |kind| kind.bus_factor(ranks));
        let algorithm_gb_s = match self {
            Self::HyperCube => bus_gb_s,
            Self::AllReduce
            | Self::AllGather
            | Self::ReduceScatter
            | Self::Broadcast
            | Self::Reduce
            | Self::AllToAll
            | Self::SendRecv
            | Self::Gather
            | Self::Scatter => speed,
        };
        Bandwidth { algorithm_gb_s, bus_gb_s }
    }

    /// The collective that it does; its root, if it has one, is rank 0.
    fn collective(self) -> Option<CollectiveKind> {
        match self {
            Self::AllReduce => Some(CollectiveKind::AllReduce),
            Self::AllGather | Self::HyperCube => Some(CollectiveKind::AllGather),
            Self::ReduceScatter => Some(CollectiveKind::ReduceScatter),
            Self::Broadcast => Some(CollectiveKind::Broadcast(Rank(0))),
            Self::Reduce => Some(CollectiveKind::Reduce(Rank(0))),
            Self::AllToAll => Some(CollectiveKind::AllToAll),
            Self::Gather => Some(CollectiveKind::Gather(Rank(0))),
            Self::Scatter => Some(CollectiveKind::Scatter(Rank(0))),
            Self::SendRecv => None,
        }
    }

    fn widest(self, ranks: u32) -> u64 {
        let Blocks { input, output } = self.blocks(ranks.max(1));
        input.max(output)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Workload> for &'static str {
    fn from(workload: Workload) -> Self {
        workload.name()
    }
}

impl TryFrom<String> for Workload {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Workload {
    type Err = String;

    /// Accepts the names of nccl-tests' programs, too: `all_reduce`, `all_reduce_perf`,
    /// `./build/all_reduce_perf`.
    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.rsplit('/').next().unwrap_or(text);
        let plain = name.to_lowercase();
        let plain =
            plain.trim_end_matches("_mpi").trim_end_matches("_perf").replace(['_', '-'], "");
        let found = Self::ALL.into_iter().find(|workload| workload.name() == plain);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("unknown collective `{text}`; expected one of {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(workload: Workload, algorithm: f64, bus: f64) {
        let bandwidth = workload.bandwidth(8_000_000, 8, 1000.0);
        let Bandwidth { algorithm_gb_s, bus_gb_s } = bandwidth;
        assert!((algorithm_gb_s - algorithm).abs() < 1e-9, "{workload}: {bandwidth:?}");
        assert!((bus_gb_s - bus).abs() < 1e-9, "{workload}: {bandwidth:?}");
    }

    #[test]
    fn bandwidths_have_the_factors_that_the_field_uses() {
        check(Workload::AllReduce, 8.0, 14.0);
        check(Workload::AllGather, 8.0, 7.0);
        check(Workload::ReduceScatter, 8.0, 7.0);
        check(Workload::AllToAll, 8.0, 7.0);
        check(Workload::Gather, 8.0, 7.0);
        check(Workload::Scatter, 8.0, 7.0);
        check(Workload::Broadcast, 8.0, 8.0);
        check(Workload::Reduce, 8.0, 8.0);
        check(Workload::SendRecv, 8.0, 8.0);
        check(Workload::HyperCube, 7.0, 7.0);
        assert_eq!(Workload::AllReduce.bandwidth(8, 1, 0.0), Bandwidth::default());
    }

    #[test]
    fn counts_are_those_of_nccl_tests_or_odd() {
        let count = |workload: Workload, bytes, element, rounding| {
            workload.count(bytes, element, 8, rounding)
        };
        assert_eq!(count(Workload::AllReduce, 1003, 4, Rounding::Aligned), 250);
        assert_eq!(count(Workload::AllGather, 1024, 4, Rounding::Aligned), 32);
        assert_eq!(count(Workload::AllGather, 1000, 4, Rounding::Aligned), 28);
        assert_eq!(count(Workload::AllToAll, 100, 8, Rounding::Aligned), 0);
        assert_eq!(count(Workload::AllToAll, 1000, 1, Rounding::Aligned), 112);
        assert_eq!(count(Workload::AllGather, 1024, 4, Rounding::Odd), 33);
        assert_eq!(count(Workload::Broadcast, 0, 4, Rounding::Odd), 1);
        assert_eq!(Workload::AllGather.size_bytes(28, 4, 8), 896);
    }

    #[test]
    fn names_read_back_in_every_spelling() {
        for workload in Workload::ALL {
            assert_eq!(workload.name().parse(), Ok(workload));
        }
        assert_eq!("all_reduce_perf".parse(), Ok(Workload::AllReduce));
        assert_eq!("./build/all_gather_perf".parse(), Ok(Workload::AllGather));
        assert_eq!("all_reduce_perf_mpi".parse(), Ok(Workload::AllReduce));
        assert_eq!("AllToAll".parse(), Ok(Workload::AllToAll));
        assert!("allpeace".parse::<Workload>().unwrap_err().contains("hypercube"));
    }

    #[test]
    fn inputs_in_place_lie_where_the_collective_says() {
        assert_eq!(Workload::AllGather.place_in_common(3), (3, 0));
        assert_eq!(Workload::Scatter.place_in_common(3), (0, 3));
        assert_eq!(Workload::AllReduce.place_in_common(3), (0, 0));
    }
}
