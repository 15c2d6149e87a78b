//! The communicator of a soak whose memory lies in windows of all ranks, so that copy engines carry
//! its calls: by a table that says so for all of them, or as a policy that leaves small reductions
//! to kernels. The seed decides.

use msccl_collective::{DataType, Reduction};
use msccl_runtime::{
    Buffers, Call, Combine, CtaPolicy, Operation, Overrides, Settings, Tuning, Window,
};

use crate::Trouble;
use crate::sections::open_window;
use crate::world::RankWorker;

/// The least memory at first: a reduction of so much is carried under the policy, too.
pub const FIRST_BYTES: usize = 16 << 20;

/// Rows for all that copy engines can carry.
const ROWS: &[u8] = b"msccl-tuning 2
machine any

allreduce     any any any Simple copy-engine 1 256 allreduce/two_shot
reducescatter any any any Simple copy-engine 1 256 reducescatter/direct
allgather     any any any Simple copy-engine 1 256 allgather/allpairs
alltoall      any any any Simple copy-engine 1 256 alltoall/allpairs
broadcast     any any any Simple copy-engine 1 256 broadcast/direct
scatter       any any any Simple copy-engine 1 256 scatter/direct
";

/// `settings` with copy engines.
pub fn settings(settings: &Settings, seed: u64) -> Result<Settings, Trouble> {
    if seed.is_multiple_of(2) {
        let overrides = Overrides { cta_policy: CtaPolicy::Zero, ..settings.overrides.clone() };
        return Ok(Settings { overrides, ..settings.clone() });
    }
    let tuning = Some(Tuning::parse("rows for copy engines", ROWS)?);
    Ok(Settings { tuning, ..settings.clone() })
}

/// An open window over all memory of a rank.
pub struct ShownWindow {
    address: u64,
    bytes: usize,
    /// Open as long as this lives.
    _window: Window,
}

impl ShownWindow {
    /// Over the memory of `worker`; all ranks open theirs together.
    pub fn open(worker: &RankWorker) -> Result<Self, Trouble> {
        let (address, bytes) = (worker.memory.address(), worker.memory.length_bytes());
        let window = open_window(&worker.communicator, address, bytes)?;
        Ok(Self { address, bytes, _window: window })
    }

    /// Whether that is all memory of `worker` still.
    pub fn shows(&self, worker: &RankWorker) -> bool {
        let Self { address, bytes, _window: _ } = self;
        [*address, *bytes as u64] == [worker.memory.address(), worker.memory.length_bytes() as u64]
    }
}

/// A reduction of all memory of `worker`: the first one may make an inbox, which no call can while
/// a graph is captured.
pub fn reduce_once(worker: &RankWorker) -> Result<(), Trouble> {
    let (receive, count) = (worker.memory.address(), worker.memory.length_bytes() as u64);
    let operation = Operation::AllReduce(Combine::Plain(Reduction::Max));
    let buffers = Buffers { send: receive, receive, stream: worker.stream() };
    worker.submit(&[Call { operation, data_type: DataType::U8, count, buffers }])?;
    worker.wait()
}
