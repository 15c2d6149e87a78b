//! One rank: its memory, its kernels, and launches of them. A door for `unsafe`: it launches
//! kernels.

use std::sync::atomic::Ordering;

use msccl_collective::Protocol;
use msccl_gpu::{
    Context, DeviceBuffer, Event, Function, Image, Launch as Shape, Module, PinnedBuffer, Stream,
};
use msccl_kernels::Module as Kernels;
use msccl_kernels::recipe::Architecture;
use msccl_kernels::specialised::{self, Case};
use msccl_plan::Plan;
use msccl_plan::cut::Cut;
use msccl_plan::launch::{CONTROL_RELEASE, Control, Launch, Progress};

use super::layout::Lie;
use super::{Built, KernelVersion};
use crate::Trouble;

/// Bytes before the progress entries.
const PROGRESS_BYTES: usize = 128;
/// Where the notice lies that kernels leave for those behind them.
const NOTICE: usize = 64;

const _: () = assert!(size_of::<Control>() <= NOTICE && NOTICE < PROGRESS_BYTES);
const _: () = assert!(size_of::<Progress>() == 32);

/// A rank: its memory, and the kernels that it may run.
pub struct Rank {
    /// Where its launches go.
    pub stream: Stream,
    /// Before and after what is timed.
    pub events: [Event; 2],
    /// Shipped, rebuilt, with the plan known, with the call known.
    pub functions: [Function; 4],
    launch: Launch,
    /// Thread blocks of the grid.
    pub blocks: u32,
    /// Input and output, and what lies around them.
    pub memory: DeviceBuffer,
    control: PinnedBuffer,
    /// What only kernels touch.
    _others: [DeviceBuffer; 3],
    _wire_memory: DeviceBuffer,
}

impl Rank {
    /// The rank of `plan` on the GPU of `context`; `links` is the table of wire ends in its
    /// `wire_memory`.
    pub fn new(
        context: Context,
        case: &Case,
        plan: &Plan,
        built: &Built,
        wire_memory: DeviceBuffer,
        links: u64,
    ) -> Result<Self, Trouble> {
        let launch = case.launch(plan).ok_or("the call cannot be cut")?;
        let blocks = launch.instances * launch.tb_count;
        let words: Vec<_> = plan.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        let plan_words = DeviceBuffer::new(&context, words.len())?;
        plan_words.span().write(&words)?;
        let signals = DeviceBuffer::zeroed(&context, 8 * blocks as usize)?;
        let scratch_chunks = plan.program().geometry.scratch_chunks;
        let scratch = cut(case, plan)?.scratch_bytes(scratch_chunks).ok_or("too much scratch")?;
        let scratch = DeviceBuffer::zeroed(&context, scratch.max(16) as usize)?;
        let control = PinnedBuffer::new(&context, PROGRESS_BYTES + 32 * blocks as usize)?;
        let lie = Lie::of(case, plan.program());
        let memory = DeviceBuffer::zeroed(&context, lie.bytes as usize)?;
        let launch = Launch {
            plan: plan_words.ptr().0,
            links,
            input: memory.ptr().0 + lie.input,
            output: memory.ptr().0 + lie.output,
            scratch: scratch.ptr().0,
            signals: signals.ptr().0,
            signals_end: signals.ptr().0 + 8 * u64::from(blocks),
            control: control.ptr().0,
            progress: control.ptr().offset(PROGRESS_BYTES).0,
            // In the same memory: such kernels are few, and none begins after one that gave up.
            notice: control.ptr().offset(NOTICE).0,
            ..launch
        };
        let functions = functions(&context, case, plan.program().rank.index(), built)?;
        let events = [Event::timing(&context)?, Event::timing(&context)?];
        Ok(Self {
            stream: Stream::new(&context)?,
            events,
            functions,
            launch,
            blocks,
            memory,
            control,
            _others: [plan_words, signals, scratch],
            _wire_memory: wire_memory,
        })
    }

    /// Launches the kernel that `kind` says, once.
    pub fn launch(&self, kind: KernelVersion, case: &Case) -> Result<(), Trouble> {
        let [shipped, rebuilt, plan_known, call_known] = &self.functions;
        let (function, uses_pdl) = match kind {
            KernelVersion::Shipped => (shipped, false),
            KernelVersion::Rebuilt => (rebuilt, false),
            KernelVersion::Early => (rebuilt, true),
            KernelVersion::Plan => (plan_known, false),
            KernelVersion::Call => (call_known, false),
        };
        let record = &self.launch;
        let start = std::ptr::from_ref(record).cast::<u8>();
        // SAFETY: the record is of integers without padding, which its definition asserts.
        let bytes = unsafe { std::slice::from_raw_parts(start, size_of::<Launch>()) };
        let grid = [record.tb_count, record.instances, 1];
        let shape = Shape::linear(1, case.threads);
        let shape = Shape { grid, own_memory_domain: true, uses_pdl, ..shape };
        // SAFETY: the record is what both kernels declare; all its addresses are of this test bed,
        // which waits for its kernels before it ends.
        unsafe { function.launch(self.stream.borrow(), &shape, bytes)? };
        Ok(())
    }

    /// The number of its GPU.
    pub fn gpu(&self) -> u32 {
        self.stream.borrow().context().device().ordinal()
    }

    /// Ends all waits of its kernels.
    pub fn abort(&self) {
        if let Some(word) = self.control.words32().first() {
            word.store(CONTROL_RELEASE, Ordering::SeqCst);
        }
    }

    /// What its thread blocks wait for, as they say.
    pub fn describe(&self) -> String {
        let words = self.control.words32().iter().skip(PROGRESS_BYTES / 4);
        let words: Vec<_> = words.map(|word| word.load(Ordering::Acquire)).collect();
        let entries = words.chunks(8).enumerate().filter(|(_, entry)| entry[0] != 0);
        let entries: Vec<_> = entries.map(|(block, entry)| format!("{block}: {entry:?}")).collect();
        entries.join(", ")
    }
}

/// What `rank` may run, in the order of [`Rank::functions`].
fn functions(
    context: &Context,
    case: &Case,
    rank: usize,
    built: &Built,
) -> Result<[Function; 4], Trouble> {
    let [plan_known, call_known] = &built.specialised;
    Ok([
        shipped(context, case)?,
        load(context, &built.interpreter)?.function(specialised::INTERPRETER)?,
        load(context, plan_known)?.function(&specialised::kernel(rank))?,
        load(context, call_known)?.function(&specialised::kernel(rank))?,
    ])
}

fn cut(case: &Case, plan: &Plan) -> Result<Cut, Trouble> {
    let (element, slot) = (case.data_type.size_bytes(), case.wires().slot_bytes);
    let (program, instances) = (plan.program(), case.instances);
    let cut =
        Cut::within(program, case.count, element as u64, instances, case.protocol, slot.into());
    cut.ok_or_else(|| "the call cannot be cut".into())
}

fn load(context: &Context, cubin: &[u8]) -> Result<Module, Trouble> {
    // SAFETY: the file is as the compiler wrote it, whole.
    Ok(Module::load(context, unsafe { Image::binary(cubin) })?)
}

/// The interpreter, as it is shipped.
fn shipped(context: &Context, case: &Case) -> Result<Function, Trouble> {
    let module = match case.protocol {
        Protocol::Simple => Kernels::Simple,
        Protocol::Ll => Kernels::Ll,
        Protocol::Ll128 => Kernels::Ll128,
    };
    let capability = context.device().compute_capability()?;
    let image = msccl_kernels::image(module, capability.major, capability.minor);
    let image = image.ok_or("this GPU is too old")?;
    if !matches!(image.architecture, Architecture::Machine(90)) {
        return Err("specialised kernels are built for compute capability 9.0".into());
    }
    let bytes = image.bytes().map_err(|error| error.to_string())?;
    Ok(load(context, &bytes)?.function(&module.kernel(case.data_type.name()))?)
}
