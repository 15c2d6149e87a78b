//! A collective without a communicator: wires, memory and launches of all ranks from one thread. A door for
//! `unsafe`: it launches kernels.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::Protocol;
use msccl_gpu::{
    CaptureMode, Context, DeviceBuffer, Event, Function, GraphExec, Image, Launch as Shape, Module,
    PinnedBuffer, Stream,
};
use msccl_kernels::recipe::{Architecture, Module as Kernels};
use msccl_kernels::special::{self, Case};
use msccl_plan::cut::Cut;
use msccl_plan::exchange::WireShape;
use msccl_plan::launch::{Control, Launch, Progress};
use msccl_plan::{Alias, Plan, Program};
use msccl_runtime::PlaceOfRank;

use crate::Trouble;
use crate::dice::Dice;
use crate::machine::Machine;
use crate::values::rounded;

/// How long a call may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes before the progress entries.
const PROGRESS_BYTES: usize = 128;
const _: () = assert!(size_of::<Control>() <= PROGRESS_BYTES && size_of::<Progress>() == 32);

/// What buffers begin at a multiple of.
const ALIGNMENT: u64 = 256;

/// Bytes of a `msccl_wire_end`, and from its start to `seen`.
const END_BYTES: u64 = 32;
const SEEN: u64 = 16;

/// Which kernel runs.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The interpreter, as it is shipped.
    Shipped,
    /// The interpreter of the sources from which the special kernels were made.
    Rebuilt,
    /// The same, which starts before the kernel before it has ended.
    Early,
    /// The special kernel that knows the plan.
    Plan,
    /// The special kernel that knows the plan and the call.
    Call,
}

impl Kind {
    /// Every kind, the one that knows most last.
    pub const ALL: [Kind; 5] = [Kind::Shipped, Kind::Rebuilt, Kind::Early, Kind::Plan, Kind::Call];
}

/// What was built for a case, as the compiler wrote it.
pub struct Built {
    /// The special kernels that know the plan, and those that know the call too.
    pub special: [Vec<u8>; 2],
    /// The interpreter.
    pub interpreter: Vec<u8>,
}

/// All ranks of one case.
pub struct Rig {
    case: Case,
    ranks: Vec<Rank>,
}

struct Rank {
    stream: Stream,
    events: [Event; 2],
    /// Shipped, rebuilt, with the plan known, with the call known.
    functions: [Function; 4],
    launch: Launch,
    blocks: u32,
    /// Input and output, and what lies around them.
    memory: DeviceBuffer,
    control: PinnedBuffer,
    /// What only kernels touch.
    _others: [DeviceBuffer; 3],
    _arena: DeviceBuffer,
}

/// Where wires lie in the arena of a rank: rings of slots, then the table of ends.
#[derive(Clone, Copy)]
struct Layout {
    ranks: u64,
    shape: WireShape,
}

impl Layout {
    fn ring(&self, peer: u64, wire: u64) -> u64 {
        let WireShape { wires, depth, slot_bytes } = self.shape;
        (peer * u64::from(wires) + wire) * u64::from(depth) * u64::from(slot_bytes)
    }

    fn end(&self, out: bool, peer: u64, wire: u64) -> u64 {
        let row = u64::from(out) * self.ranks + peer;
        self.ring(self.ranks, 0) + END_BYTES * (row * u64::from(self.shape.wires) + wire)
    }

    fn bytes(&self) -> usize {
        self.end(true, self.ranks, 0) as usize
    }

    /// The ends of rank `me`, in the order of its table, where `arenas` are those of all ranks.
    fn ends(&self, me: u64, arenas: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for out in [false, true] {
            for peer in 0..self.ranks {
                for wire in 0..u64::from(self.shape.wires) {
                    let (receiver, sender) = if out { (peer, me) } else { (me, peer) };
                    let slots = arenas[receiver as usize] + self.ring(sender, wire);
                    let far = arenas[peer as usize] + self.end(!out, me, wire) + SEEN;
                    bytes.extend([slots, far, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
                }
            }
        }
        bytes
    }
}

impl Rig {
    /// The ranks of `case`, each on its GPU, with the kernels of `built`.
    pub fn new(
        machine: &Machine,
        case: &Case,
        plans: &[Plan],
        built: &Built,
    ) -> Result<Self, Trouble> {
        let contexts = contexts(machine, case.ranks)?;
        let layout = Layout { ranks: u64::from(case.ranks), shape: case.wires() };
        let arenas = contexts.iter().map(|context| DeviceBuffer::zeroed(context, layout.bytes()));
        let arenas = arenas.collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<_> = arenas.iter().map(|arena| arena.ptr().0).collect();
        let mut ranks = Vec::new();
        for (at, (context, arena)) in contexts.into_iter().zip(arenas).enumerate() {
            let first = layout.end(false, 0, 0) as usize;
            arena
                .span()
                .slice(first..layout.bytes())?
                .write(&layout.ends(at as u64, &addresses))?;
            let links = arena.ptr().0 + layout.end(false, 0, 0);
            ranks.push(Rank::new(context, case, &plans[at], built, arena, links)?);
        }
        Ok(Self { case: case.clone(), ranks })
    }

    /// Whether all thread blocks of ranks that share a GPU run there at once, whichever kernel they run; with those
    /// of the next call, which may be let in early.
    pub fn fits(&self) -> Result<bool, Trouble> {
        for rank in &self.ranks {
            let gpu = rank.gpu();
            let sharing = match self.ranks.iter().filter(|other| other.gpu() == gpu).count() as u32
            {
                // The next call's wait for none but those before them, which are all there.
                1 => 1,
                sharing => 2 * sharing,
            };
            for function in &rank.functions {
                if function.co_resident_blocks(self.case.threads, 0)? < sharing * rank.blocks {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// What is in the memory of all ranks after one call on inputs that follow from `seed`, each rank with
    /// the kernel that `kind` says.
    pub fn results(
        &self,
        seed: u64,
        kind: impl Fn(usize) -> Kind,
    ) -> Result<Vec<Vec<u8>>, Trouble> {
        for (at, rank) in self.ranks.iter().enumerate() {
            let mut dice = Dice::new(seed ^ (at as u64) << 32);
            let size = self.case.data_type.size_bytes();
            let bytes = rounded(self.case.data_type, rank.memory.length_bytes() / size, &mut dice);
            rank.memory.span().slice(0..bytes.len())?.write(&bytes)?;
        }
        for (at, rank) in self.ranks.iter().enumerate() {
            rank.launch(kind(at), &self.case)?;
        }
        self.wait()?;
        let read = |rank: &Rank| {
            let mut bytes = vec![0; rank.memory.length_bytes()];
            rank.memory.span().read(&mut bytes)?;
            Ok(bytes)
        };
        self.ranks.iter().map(read).collect()
    }

    /// A graph of `calls` calls for every rank.
    pub fn graphs(&self, kind: Kind, calls: u64) -> Result<Vec<GraphExec>, Trouble> {
        let capture = |rank: &Rank| {
            let stream = rank.stream.borrow();
            stream.begin_capture(CaptureMode::ThreadLocal)?;
            let launched = (0..calls).try_for_each(|_| rank.launch(kind, &self.case));
            let graph = stream.end_capture();
            launched?;
            Ok(graph?.instantiate()?)
        };
        self.ranks.iter().map(capture).collect()
    }

    /// How long the graphs take, in microseconds. They run twice, and the second time counts: while they run first the
    /// ranks fall into step, and the host gets ahead of the GPUs.
    pub fn time(&self, graphs: &[GraphExec]) -> Result<f64, Trouble> {
        for event in [0, 1] {
            for (rank, graph) in self.ranks.iter().zip(graphs) {
                let stream = rank.stream.borrow();
                // SAFETY: the graph's launches are of this rig, which waits for them before it ends.
                unsafe { graph.launch(stream)? };
                rank.events[event].record(stream)?;
            }
        }
        self.wait()?;
        let mut least = f64::INFINITY;
        for Rank { events: [start, end], .. } in &self.ranks {
            least = least.min(end.elapsed_us(start)?);
        }
        Ok(least)
    }

    /// Waits until all ranks are done; gives up when that takes too long.
    fn wait(&self) -> Result<(), Trouble> {
        let (start, mut late) = (Instant::now(), false);
        for rank in &self.ranks {
            while !rank.stream.borrow().is_idle()? {
                if start.elapsed() > PATIENCE && !late {
                    late = true;
                    println!("  {}: no end after {PATIENCE:?}; {}", self.case, self.story());
                    self.ranks.iter().for_each(Rank::abort);
                }
                thread::sleep(Duration::from_micros(50));
            }
        }
        if late { Err("the call did not end by itself".into()) } else { Ok(()) }
    }

    /// What thread blocks wait for, as they say.
    fn story(&self) -> String {
        let of = |(at, rank): (usize, &Rank)| {
            let words = rank.control.words32().iter().skip(PROGRESS_BYTES / 4);
            let words: Vec<_> = words.map(|word| word.load(Ordering::Acquire)).collect();
            let entries = words.chunks(8).enumerate().filter(|(_, entry)| entry[0] != 0);
            let entries: Vec<_> =
                entries.map(|(block, entry)| format!("{block}: {entry:?}")).collect();
            format!("r{at} {}", entries.join(", "))
        };
        self.ranks.iter().enumerate().map(of).collect::<Vec<_>>().join("; ")
    }
}

impl Drop for Rig {
    /// Kernels may still use what is about to be freed.
    fn drop(&mut self) {
        self.ranks.iter().for_each(Rank::abort);
        for rank in &self.ranks {
            // A failed device has no kernels.
            let _ = rank.stream.borrow().synchronize();
        }
    }
}

impl Rank {
    fn new(
        context: Context,
        case: &Case,
        plan: &Plan,
        built: &Built,
        arena: DeviceBuffer,
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
            ..launch
        };
        let rank = plan.program().rank.index();
        let [plan_known, call_known] = &built.special;
        let functions = [
            shipped(&context, case)?,
            load(&context, &built.interpreter)?.function(special::INTERPRETER)?,
            load(&context, plan_known)?.function(&special::kernel(rank))?,
            load(&context, call_known)?.function(&special::kernel(rank))?,
        ];
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
            _arena: arena,
        })
    }

    fn launch(&self, kind: Kind, case: &Case) -> Result<(), Trouble> {
        let [shipped, rebuilt, plan_known, call_known] = &self.functions;
        let (function, starts_early) = match kind {
            Kind::Shipped => (shipped, false),
            Kind::Rebuilt => (rebuilt, false),
            Kind::Early => (rebuilt, true),
            Kind::Plan => (plan_known, false),
            Kind::Call => (call_known, false),
        };
        let record = &self.launch;
        let start = std::ptr::from_ref(record).cast::<u8>();
        // SAFETY: the record is of integers without padding, which its definition asserts.
        let bytes = unsafe { std::slice::from_raw_parts(start, size_of::<Launch>()) };
        let grid = [record.tb_count, record.instances, 1];
        let shape = Shape::linear(1, case.threads);
        let shape = Shape { grid, own_memory_domain: true, starts_early, ..shape };
        // SAFETY: the record is what both kernels declare; all its addresses are of this rig, which waits
        // for its kernels before it ends.
        unsafe { function.launch(self.stream.borrow(), &shape, bytes)? };
        Ok(())
    }

    fn gpu(&self) -> u32 {
        self.stream.borrow().context().device().ordinal()
    }

    fn abort(&self) {
        if let Some(word) = self.control.words32().first() {
            word.store(1, Ordering::SeqCst);
        }
    }
}

/// Where a rank's buffers lie in its memory.
struct Lie {
    input: u64,
    output: u64,
    bytes: u64,
}

impl Lie {
    fn of(case: &Case, program: &Program) -> Self {
        let block = case.block_bytes();
        let bytes = |chunks: u32| u64::from(chunks / program.geometry.block_chunks) * block;
        let read = bytes(program.geometry.input_chunks);
        let written = bytes(program.geometry.output_chunks);
        let own = u64::from(program.rank.0) * block;
        let (input, output) = match (case.in_place, program.alias) {
            (true, Alias::Same) => (0, 0),
            (true, Alias::InputInOutput) => (own, 0),
            (true, Alias::OutputInInput) => (0, own),
            (true, Alias::None) | (false, _) => (0, read.next_multiple_of(ALIGNMENT) + ALIGNMENT),
        };
        let bytes = (input + read).max(output + written).next_multiple_of(ALIGNMENT) + ALIGNMENT;
        Self { input, output, bytes }
    }
}

fn cut(case: &Case, plan: &Plan) -> Result<Cut, Trouble> {
    let (element, slot) = (case.data_type.size_bytes(), case.wires().slot_bytes);
    let (program, instances) = (plan.program(), case.instances);
    let cut =
        Cut::within(program, case.count, element as u64, instances, case.protocol, slot.into());
    cut.ok_or_else(|| "the call cannot be cut".into())
}

/// The contexts of all ranks, each with access to the memory of all others.
fn contexts(machine: &Machine, ranks: u32) -> Result<Vec<Context>, Trouble> {
    let of = |rank| match machine.place(rank) {
        PlaceOfRank::Gpu(context) => Ok(context),
        PlaceOfRank::Host => Err(Trouble::from("there are no kernels on the host")),
    };
    let contexts = (0..ranks).map(of).collect::<Result<Vec<_>, _>>()?;
    for one in &contexts {
        for other in &contexts {
            if one.device().ordinal() != other.device().ordinal() {
                one.enable_peer_access(other)?;
            }
        }
    }
    Ok(contexts)
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
        return Err("special kernels are built for compute capability 9.0".into());
    }
    let bytes = image.bytes().map_err(|error| error.to_string())?;
    Ok(load(context, &bytes)?.function(&module.kernel(case.data_type.name()))?)
}
