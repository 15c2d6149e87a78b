//! Recordings of runs that never were: a plan is executed in imagined time, with faults.
//!
//! Moves take a fixed time and one for each byte; nothing is shared. Messages arrive a latency
//! after the move that sends them, and links hold a bounded number. What a fault delays, delays
//! what waits for it, as on a machine. Every rank has a clock of its own.

mod execution;
mod writer;

use msccl_trace::recording::{CallCut, PlanDescription};

pub use execution::{Execution, TrueSpan};

/// A run.
#[derive(Clone, Debug)]
pub struct ImaginedRun {
    /// The plan of each rank.
    pub plans: Vec<PlanDescription>,
    /// How the calls cut their buffers.
    pub cut: CallCut,
    /// Bytes of the larger buffer.
    pub bytes: u64,
    /// How many calls there are, one after the other.
    pub calls: u32,
    /// How many messages a link holds.
    pub depth: usize,
    /// What is wrong.
    pub faults: Vec<PlantedFault>,
    /// By rank, its clock; the last one is that of all others.
    pub clocks: Vec<ImaginedClock>,
}

/// Something that is wrong with a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PlantedFault {
    /// A rank begins these calls later.
    LateRank {
        /// The rank.
        rank: u32,
        /// The first call.
        first: u32,
        /// The last call.
        last: u32,
        /// By how much.
        late_ns: f64,
    },
    /// A thread block, in all instances, moves more slowly by a factor.
    SlowBlock {
        /// Its rank.
        rank: u32,
        /// Which one.
        thread_block: u32,
        /// The factor.
        factor: f64,
    },
    /// A link is carried at a pace.
    SlowLink {
        /// The rank that sends.
        from: u32,
        /// The rank that receives.
        to: u32,
        /// The pace.
        bytes_per_ns: f64,
    },
}

/// The clock of a rank.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ImaginedClock {
    /// The number of its host.
    pub host: u32,
    /// The number of its GPU on the host, if ranks may share one.
    pub gpu: Option<u32>,
    /// By how much the UNIX time of the host is wrong.
    pub host_error_ns: f64,
    /// What the device's clock shows more than the host's when the run begins.
    pub offset_ns: f64,
    /// By how much the device's clock runs faster than the host's.
    pub drift: f64,
    /// The shortest round trip of a reading; 0 for a rank whose device is the host.
    pub round_trip_ns: f64,
}

impl ImaginedClock {
    /// The clock of a host's threads.
    pub fn exact() -> Self {
        Self {
            host: 0,
            gpu: None,
            host_error_ns: 0.0,
            offset_ns: 0.0,
            drift: 0.0,
            round_trip_ns: 0.0,
        }
    }
}

impl ImaginedRun {
    /// Ten calls without faults, each with one round, one instance, and `bytes` bytes in `chunks`
    /// chunks.
    pub fn new(plans: Vec<PlanDescription>, bytes: u64, chunks: u64) -> Self {
        let chunk_bytes = bytes / chunks;
        let cut = CallCut {
            chunk_bytes,
            part_bytes: chunk_bytes,
            slice_bytes: chunk_bytes,
            rounds: 1,
            instances: 1,
            chunks_per_message: 1,
        };
        let clocks = vec![ImaginedClock::exact()];
        Self { plans, cut, bytes, calls: 10, depth: 4, faults: Vec::new(), clocks }
    }

    /// The same with parts of `instances` instances and slices of `rounds` rounds.
    pub fn cut_into(mut self, instances: u32, rounds: u32) -> Self {
        self.cut.part_bytes = self.cut.chunk_bytes / u64::from(instances);
        self.cut.slice_bytes = self.cut.part_bytes / u64::from(rounds);
        (self.cut.instances, self.cut.rounds) = (instances, rounds);
        self
    }

    /// The same with faults.
    pub fn with(mut self, faults: impl IntoIterator<Item = PlantedFault>) -> Self {
        self.faults.extend(faults);
        self
    }

    /// What happens.
    ///
    /// # Panics
    ///
    /// The plans do not fit together.
    pub fn execute(&self) -> Execution {
        execution::execute(self)
    }

    /// The files of all ranks.
    ///
    /// # Panics
    ///
    /// As [`ImaginedRun::execute`].
    pub fn record(&self) -> Vec<Vec<u8>> {
        writer::write(self, &self.execute())
    }

    /// The clock of a rank.
    pub fn clock(&self, rank: usize) -> ImaginedClock {
        let last = self.clocks.last().copied().unwrap_or_else(ImaginedClock::exact);
        self.clocks.get(rank).copied().unwrap_or(last)
    }
}
