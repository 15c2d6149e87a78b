//! Binding: a plan in the memory of the GPU. Its links need none: a kernel finds their ends by rank
//! and number.
//!
//! What was bound stays bound until the communicator ends, because a graph may hold it. How much
//! that is depends on how many algorithms serve in how many variants, not on the number of calls.

use std::sync::Arc;
use std::time::Duration;

use msccl_collective::{DataType, Protocol};
use msccl_gpu::{CaptureModeGuard, Context, PinnedBuffer, Upload};
use msccl_plan::launch::{self, Launch};
use msccl_plan::{LowLatencyPlan, OperandPlacement};
use msccl_registry::Fingerprint;
use msccl_select::Prepared;
use rustc_hash::FxHashMap;

use super::specialised::{LaunchableKernel, SpecialisedKernels};
use crate::engine::Waiting;
use crate::error::Error;
use crate::settings::Settings;

/// A plan in the memory of the GPU.
pub(super) struct CudaBoundPlan {
    /// Its number among those of the communicator.
    pub number: u32,
    pub prepared: Arc<Prepared>,
    /// What every launch of it has in common.
    pub launch: Launch,
    /// Whether peers may store to or load from the input, and the output.
    pub exports_buffers: [bool; 2],
    /// What the alignment of its operands depends on.
    pub operands: OperandPlacement,
    /// What low-latency kernels need of it, if they can run it.
    pub low_latency: Option<LowLatencyPlan>,
    /// Kernels for this plan alone.
    specialised: Option<Arc<[Arc<LaunchableKernel>]>>,
    /// Keeps the words.
    _words: PlanWords,
}

impl CudaBoundPlan {
    /// Thread blocks of one instance.
    pub fn blocks(&self) -> u32 {
        self.prepared.plan.program().thread_blocks.len() as u32
    }

    /// The kernel for this plan alone, under `protocol`, that computes with `data_type`, if there
    /// is one.
    pub fn specialised(
        &self,
        protocol: Protocol,
        data_type: DataType,
    ) -> Option<&LaunchableKernel> {
        let mut specialised = self.specialised.iter().flat_map(|all| all.iter());
        let found = specialised.find(|of| of.protocol == protocol && of.data_type == data_type);
        found.map(|found| &**found)
    }
}

/// How long a call waits for the words of its plan to arrive in the memory of the GPU.
const PATIENCE: Duration = Duration::from_millis(200);

/// Where the words of plans are to lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PlanPlace {
    /// In the memory of the GPU.
    Device,
    /// On the host, where ranks share a GPU: a copy may wait behind a kernel of another rank, which
    /// may be waiting for this one.
    Host,
}

/// The words of a plan, where kernels find them.
pub(super) enum PlanWords {
    /// In the memory of the GPU.
    Device(Upload),
    /// In memory of the host, which takes kernels a little longer.
    Host(PinnedBuffer),
    /// There, too, since they did not arrive in time.
    Late(Upload),
}

impl PlanWords {
    /// The `words` of a plan, at `place`; on the host, too, if they do not arrive on the GPU soon:
    /// a copy may wait behind a kernel of another communicator that has failed.
    pub fn new(context: &Context, words: &[u32], place: PlanPlace) -> Result<Self, Error> {
        // Somebody may be capturing; what happens here has nothing to do with that.
        let _relaxed = CaptureModeGuard::relaxed(context.device().driver())?;
        if place == PlanPlace::Host {
            return Ok(Self::Host(PinnedBuffer::of_words(context, words)?));
        }
        let mut upload = Upload::begin(context, words)?;
        match upload.ends_within(PATIENCE)? {
            true => Ok(Self::Device(upload)),
            false => Ok(Self::Late(upload)),
        }
    }

    fn address(&self) -> u64 {
        match self {
            Self::Device(upload) => upload.target().ptr().0,
            Self::Host(buffer) => buffer.ptr().0,
            Self::Late(upload) => upload.source().ptr().0,
        }
    }
}

/// Everything that is bound.
pub(super) struct CudaBindings {
    /// Whether kernels find all operands of a small call before its first step.
    at_once: bool,
    specialised: SpecialisedKernels,
    known: FxHashMap<Fingerprint, Arc<CudaBoundPlan>>,
    in_order: Vec<Arc<CudaBoundPlan>>,
}

impl CudaBindings {
    pub fn new(settings: &Settings) -> Self {
        let at_once = settings.at_once;
        let (specialised, known) = (SpecialisedKernels::default(), FxHashMap::default());
        Self { at_once, specialised, known, in_order: Vec::new() }
    }

    /// What is bound from now on has `specialised`.
    pub fn specialise(&mut self, specialised: SpecialisedKernels) {
        self.specialised = specialised;
    }

    /// The binding of `prepared`, if it is bound.
    pub fn find(&self, prepared: &Prepared) -> Option<Arc<CudaBoundPlan>> {
        self.known.get(&prepared.fingerprint).cloned()
    }

    /// Binds `prepared`, of whose plan `words` are those.
    pub fn bind(&mut self, prepared: &Arc<Prepared>, words: PlanWords) -> Arc<CudaBoundPlan> {
        let launch = Launch { plan: words.address(), ..Launch::default() };
        let launch = launch.with_plan(&prepared.plan);
        let bound = Arc::new(CudaBoundPlan {
            number: self.in_order.len() as u32,
            prepared: prepared.clone(),
            launch: if self.at_once { launch } else { launch.step_by_step() },
            exports_buffers: prepared.exports_buffers(),
            operands: OperandPlacement::of(&prepared.plan),
            low_latency: LowLatencyPlan::of(&prepared.plan),
            specialised: self.specialised.get(&prepared.fingerprint).cloned(),
            _words: words,
        });
        self.known.insert(prepared.fingerprint, bound.clone());
        self.in_order.push(bound.clone());
        bound
    }

    /// The binding of that number.
    pub fn by_number(&self, number: u32) -> Option<&Arc<CudaBoundPlan>> {
        self.in_order.get(number as usize)
    }
}

impl CudaBoundPlan {
    /// In words, what thread block `block` of the grid waits for, as its progress entry says.
    pub fn waiting(&self, block: u32, call: u64, entry: &launch::Progress) -> Waiting {
        let program = self.prepared.plan.program();
        let tb = block % self.blocks().max(1);
        let of_tb = program.thread_blocks.get(tb as usize);
        let link = |number: u32| {
            let block = of_tb?;
            let ends = block.receives.iter().chain(&block.sends);
            Some((*ends.clone().nth(number as usize)?, block.channel))
        };
        let number = entry.number;
        let (peer, what) = match (entry.kind, link(entry.subject)) {
            (launch::WAITING_MESSAGE, Some((peer, channel))) => {
                (Some(peer), format!("message {number} from {peer} on {channel}"))
            }
            (launch::WAITING_ROOM, Some((peer, channel))) => {
                (Some(peer), format!("room for message {number} to {peer} on {channel}"))
            }
            (launch::WAITING_OFFER, Some((peer, channel))) => {
                (Some(peer), format!("the start of {peer}, to store into its memory on {channel}"))
            }
            (launch::WAITING_ACK, Some((peer, channel))) => {
                (Some(peer), format!("{peer} to have loaded what it was sent on {channel}"))
            }
            (launch::WAITING_SIGNAL, _) => (None, format!("tb{} s{number}", entry.subject)),
            _ => (None, "something unknown".to_owned()),
        };
        let instance = match block / self.blocks().max(1) {
            0 => String::new(),
            instance => format!(" instance {instance}"),
        };
        let (step, round) = (entry.step, entry.round);
        let text = format!("tb{tb}{instance} s{step} waits for {what} (round {round})");
        Waiting { call, peer, text }
    }
}
