//! A collective without a communicator: wires, memory and launches of all ranks from one thread. A
//! door for `unsafe`: it launches graphs of kernels.

mod layout;
mod rank;

use std::thread;
use std::time::{Duration, Instant};

use msccl_gpu::{CaptureMode, Context, DeviceBuffer, GraphExec};
use msccl_kernels::specialised::Case;
use msccl_plan::Plan;
use msccl_runtime::PlaceOfRank;

use crate::Trouble;
use crate::machine::Machine;
use crate::random::Random;
use crate::values::rounded;
use layout::MemoryLayout;
use rank::Rank;

/// How long a call may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// Which kernel runs.
#[derive(Clone, Copy, Debug)]
pub enum KernelVersion {
    /// The interpreter, as it is shipped.
    Shipped,
    /// The interpreter of the sources from which the specialised kernels were made.
    Rebuilt,
    /// The same, which starts before the kernel before it has ended.
    Early,
    /// The specialised kernel that knows the plan.
    Plan,
    /// The specialised kernel that knows the plan and the call.
    Call,
}

impl KernelVersion {
    /// Every kind, the one that knows most last.
    pub const ALL: [KernelVersion; 5] = [
        KernelVersion::Shipped,
        KernelVersion::Rebuilt,
        KernelVersion::Early,
        KernelVersion::Plan,
        KernelVersion::Call,
    ];
}

/// What was built for a case, as the compiler wrote it.
pub struct Built {
    /// The specialised kernels that know the plan, and those that know the call too.
    pub specialised: [Vec<u8>; 2],
    /// The interpreter.
    pub interpreter: Vec<u8>,
}

/// All ranks of one case.
pub struct TestBed {
    case: Case,
    ranks: Vec<Rank>,
}

impl TestBed {
    /// The ranks of `case`, each on its GPU, with the kernels of `built`.
    pub fn new(
        machine: &Machine,
        case: &Case,
        plans: &[Plan],
        built: &Built,
    ) -> Result<Self, Trouble> {
        let contexts = contexts(machine, case.ranks)?;
        let layout = MemoryLayout { ranks: u64::from(case.ranks), shape: case.wires() };
        let memories = contexts.iter().map(|context| DeviceBuffer::zeroed(context, layout.bytes()));
        let memories = memories.collect::<Result<Vec<_>, _>>()?;
        let addresses: Vec<_> = memories.iter().map(|memory| memory.ptr().0).collect();
        let mut ranks = Vec::new();
        for (at, (context, memory)) in contexts.into_iter().zip(memories).enumerate() {
            let first = layout.end(false, 0, 0) as usize;
            memory
                .span()
                .slice(first..layout.bytes())?
                .write(&layout.ends(at as u64, &addresses))?;
            let links = memory.ptr().0 + layout.end(false, 0, 0);
            ranks.push(Rank::new(context, case, &plans[at], built, memory, links)?);
        }
        Ok(Self { case: case.clone(), ranks })
    }

    /// Whether all thread blocks of ranks that share a GPU run there at once, whichever kernel they
    /// run; with those of the next call, which may be let in early.
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

    /// What is in the memory of all ranks after one call on inputs that follow from `seed`, each
    /// rank with the kernel that `kind` says.
    pub fn results(
        &self,
        seed: u64,
        kind: impl Fn(usize) -> KernelVersion,
    ) -> Result<Vec<Vec<u8>>, Trouble> {
        for (at, rank) in self.ranks.iter().enumerate() {
            let mut random = Random::new(seed ^ (at as u64) << 32);
            let size = self.case.data_type.size_bytes();
            let bytes =
                rounded(self.case.data_type, rank.memory.length_bytes() / size, &mut random);
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
    pub fn graphs(&self, kind: KernelVersion, calls: u64) -> Result<Vec<GraphExec>, Trouble> {
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

    /// How long the graphs take, in microseconds. They run twice, and the second time counts: while
    /// they run first the ranks fall into step, and the host gets ahead of the GPUs.
    pub fn time(&self, graphs: &[GraphExec]) -> Result<f64, Trouble> {
        for event in [0, 1] {
            for (rank, graph) in self.ranks.iter().zip(graphs) {
                let stream = rank.stream.borrow();
                // SAFETY: the graph's launches are of this test bed, which waits for them before it
                // ends.
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
                    println!("  {}: no end after {PATIENCE:?}; {}", self.case, self.describe());
                    self.ranks.iter().for_each(Rank::abort);
                }
                thread::sleep(Duration::from_micros(50));
            }
        }
        if late { Err("the call did not end by itself".into()) } else { Ok(()) }
    }

    /// What thread blocks wait for, as they say.
    fn describe(&self) -> String {
        let of = |(at, rank): (usize, &Rank)| format!("r{at} {}", rank.describe());
        self.ranks.iter().enumerate().map(of).collect::<Vec<_>>().join("; ")
    }
}

impl Drop for TestBed {
    /// Kernels may still use what is about to be freed.
    fn drop(&mut self) {
        self.ranks.iter().for_each(Rank::abort);
        for rank in &self.ranks {
            // A failed device has no kernels.
            let _ = rank.stream.borrow().synchronize();
        }
    }
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
