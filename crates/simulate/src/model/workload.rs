//! What there is to do: the steps of all ranks, with what each needs, takes and uses.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use msccl_collective::{Channel, Rank, StepIndex, TbIndex};
use msccl_ir::{StepKind, StepRef};
use msccl_plan::cut::Cut;
use msccl_plan::{Delivery, Direction, Operand, Program, Step, ThreadBlock};
use msccl_topology::cluster::{Cluster, Medium};

use super::rates::{KernelKind, KernelRates, Rates};
use super::sharing::Use;
use crate::routes::Routes;

/// How the runtime runs a call.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Execution {
    /// Which kernel, under which protocol and links.
    pub kernel: KernelKind,
    /// Threads of a block.
    pub threads: u32,
    /// How buffers are cut into instances and rounds.
    pub cut: Cut,
    /// Messages that a link holds.
    pub depth: u32,
}

/// The steps of all ranks in a call, on a cluster.
pub struct Workload {
    pub(super) blocks: Vec<Block>,
    pub(super) links: Vec<Link>,
    /// The rates of all resources, in bytes/ns: the links of the cluster, then the memories of the
    /// GPUs.
    pub(super) capacity: Vec<f64>,
    /// How many of these are links.
    pub(super) cluster_links: usize,
    pub(super) execution: Execution,
    /// Whether ranks must learn that peers have loaded from their buffers.
    pub(super) acknowledges: bool,
    /// Thread blocks of the rank that has most, in all instances.
    pub(super) blocks_of_rank: u32,
}

/// A thread block of one instance.
pub(super) struct Block {
    /// The group of its instance.
    pub group: u32,
    pub rank: Rank,
    pub tb: TbIndex,
    pub channel: Channel,
    pub ops: Vec<Op>,
}

/// A step, or several that run as one.
pub(super) struct Op {
    /// The last of its steps.
    pub at: StepRef,
    pub kind: StepKind,
    /// Which steps of which thread blocks must have ended.
    pub waits: Vec<(usize, usize)>,
    pub receives: Vec<usize>,
    pub sends: Vec<usize>,
    /// Chunks in every operand.
    pub count: u32,
    /// Whether it reads buffers of its rank.
    pub loads: bool,
    /// What a byte of a chunk takes in the thread block, in ns; 0 if nothing is moved.
    pub byte_ns: f64,
    /// What a byte of a chunk takes of links and memories, in all instances.
    pub uses: Vec<Use>,
}

/// A link between two thread blocks.
pub(super) struct Link {
    pub sender: usize,
    pub receiver: usize,
    /// Of all links of the cluster on the way, in ns.
    pub path_ns: f64,
    /// What a proxy carries over links of the cluster, where they lead to another node.
    pub network: Option<Vec<Use>>,
}

/// Why a call has no estimate on a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WorkloadError {
    /// The cluster has fewer GPUs than the algorithm has ranks.
    TooFewGpus {
        /// Of the algorithm.
        ranks: usize,
        /// Of the cluster.
        gpus: usize,
    },
    /// Nothing leads from one GPU to another, between which a message goes.
    Unreachable {
        /// Who sends.
        from: Rank,
        /// Who should receive.
        to: Rank,
    },
    /// A link has one end only.
    Unpaired,
}

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewGpus { ranks, gpus } => write!(
                f,
                "expected a cluster of at least {ranks} GPUs, one for each rank, found {gpus}; \
                 describe more nodes"
            ),
            Self::Unreachable { from, to } => write!(
                f,
                "{from} sends to {to}, and nothing in the cluster leads from one to the other"
            ),
            Self::Unpaired => f.write_str("a link has one end only"),
        }
    }
}

impl std::error::Error for WorkloadError {}

/// Instances that run at the same time are alike, but not in step: while some send, others
/// receive. So many groups of them show that, where there are rounds in which they can part.
const GROUPS_MAX: u32 = 3;

/// A link as both ranks name it.
type LinkName = (Rank, Rank, Channel);

impl Workload {
    /// How often the program runs.
    pub fn rounds(&self) -> u32 {
        self.execution.cut.rounds
    }

    /// What `programs`, one for each rank, do on the GPUs of `cluster`.
    ///
    /// # Errors
    ///
    /// The cluster has too few GPUs, or does not join two that exchange messages.
    pub fn new(
        programs: &[Program],
        cluster: &Cluster,
        rates: &Rates,
        execution: Execution,
    ) -> Result<Self, WorkloadError> {
        let paths = Paths::of(programs, cluster)?;
        let ranks = programs.len();
        let links_rate = cluster.links().iter().map(|link| link.rate.gb_per_s());
        let memories = (0..ranks).map(|_| rates.memory_bytes_per_ns);
        let Cut { chunk_bytes, part_bytes, instances, .. } = execution.cut;
        let busy = u32::try_from(chunk_bytes.div_ceil(part_bytes.max(1))).unwrap_or(u32::MAX);
        let busy = busy.clamp(1, instances.max(1));
        let groups = if execution.cut.rounds > 1 { busy.min(GROUPS_MAX) } else { 1 };
        let acknowledging = |program: &Program| {
            let mut deliveries = program.thread_blocks.iter().flat_map(|of| &of.deliveries);
            deliveries.any(|of| *of == Delivery::Pull { acknowledgement: true })
        };
        let is_direct = execution.kernel == KernelKind::Direct;
        let blocks_of = |program: &Program| program.thread_blocks.len() as u32 * instances;
        let mut workload = Self {
            blocks: Vec::new(),
            links: Vec::new(),
            capacity: links_rate.chain(memories).collect(),
            cluster_links: cluster.links().len(),
            execution,
            acknowledges: is_direct && programs.iter().any(acknowledging),
            blocks_of_rank: programs.iter().map(blocks_of).max().unwrap_or(0),
        };
        let share = f64::from(busy) / f64::from(groups);
        let of_kernel = rates.kernel(execution.kernel);
        for group in 0..groups {
            let mut build = Build::of(programs, cluster, of_kernel, &workload, share);
            for program in programs {
                build.add_links(program, &paths, &mut workload)?;
            }
            for program in programs {
                build.add_blocks(program, group, &mut workload);
            }
        }
        Ok(workload)
    }
}

/// The links of the cluster from each rank to each that it sends to.
struct Paths(BTreeMap<(Rank, Rank), Vec<usize>>);

impl Paths {
    fn of(programs: &[Program], cluster: &Cluster) -> Result<Self, WorkloadError> {
        let routes = Routes::of(cluster);
        let (ranks, gpus) = (programs.len(), routes.gpus());
        if gpus < ranks {
            return Err(WorkloadError::TooFewGpus { ranks, gpus });
        }
        let mut paths = BTreeMap::new();
        for program in programs {
            let from = routes.from(program.rank.index());
            for to in program.thread_blocks.iter().flat_map(|block| block.sends.iter().copied()) {
                if let Entry::Vacant(path) = paths.entry((program.rank, to)) {
                    let unreachable = WorkloadError::Unreachable { from: program.rank, to };
                    path.insert(from.to(to.index()).ok_or(unreachable)?);
                }
            }
        }
        Ok(Self(paths))
    }
}

/// What is known while a workload is made.
struct Build<'a> {
    cluster: &'a Cluster,
    rates: &'a KernelRates,
    is_direct: bool,
    wire: f64,
    /// Instances of the group.
    instances: f64,
    movers: u32,
    /// The number of the first link.
    first_link: usize,
    /// By rank, the number of its first thread block.
    first_block: Vec<usize>,
    numbers: BTreeMap<LinkName, usize>,
    /// By link: what a byte takes of the links of the cluster; nothing where a proxy carries it.
    routes: Vec<Vec<Use>>,
    receivers: BTreeMap<LinkName, usize>,
}

impl<'a> Build<'a> {
    fn of(
        programs: &[Program],
        cluster: &'a Cluster,
        rates: &'a KernelRates,
        workload: &Workload,
        instances: f64,
    ) -> Self {
        let Execution { kernel, threads, .. } = workload.execution;
        let mut first_block = Vec::new();
        let mut receivers = BTreeMap::new();
        let mut next = workload.blocks.len();
        let first_link = workload.links.len();
        for program in programs {
            first_block.push(next);
            for end in program.link_ends().filter(|end| end.direction == Direction::In) {
                let receiver = next + end.tb.index();
                receivers.insert((end.peer, program.rank, end.channel), receiver);
            }
            next += program.thread_blocks.len();
        }
        Self {
            cluster,
            rates,
            is_direct: kernel == KernelKind::Direct,
            wire: kernel.wire_bytes_per_byte() * rates.wire,
            instances,
            first_link,
            movers: kernel.movers(threads),
            first_block,
            numbers: BTreeMap::new(),
            routes: Vec::new(),
            receivers,
        }
    }

    /// The links that `program` sends by.
    fn add_links(
        &mut self,
        program: &Program,
        paths: &Paths,
        workload: &mut Workload,
    ) -> Result<(), WorkloadError> {
        let first = self.first_block[program.rank.index()];
        for end in program.link_ends().filter(|end| end.direction == Direction::Out) {
            let name = (program.rank, end.peer, end.channel);
            let receiver = *self.receivers.get(&name).ok_or(WorkloadError::Unpaired)?;
            let path = paths.0.get(&(program.rank, end.peer));
            let route = path.ok_or(WorkloadError::Unpaired)?;
            let links = || route.iter().map(|&link| &self.cluster.links()[link]);
            let path_ns = links().map(|link| f64::from(link.latency_ns)).sum();
            let is_remote = links().any(|link| link.medium == Medium::Cable);
            let uses = |weight: f64| -> Vec<Use> {
                route.iter().map(|&link| Use { resource: link as u32, weight }).collect()
            };
            let network = is_remote.then(|| uses(self.instances));
            self.numbers.insert(name, workload.links.len());
            let sender = first + end.tb.index();
            workload.links.push(Link { sender, receiver, path_ns, network });
            let staged = if is_remote { Vec::new() } else { uses(self.instances * self.wire) };
            self.routes.push(staged);
        }
        Ok(())
    }

    fn add_blocks(&self, program: &Program, group: u32, workload: &mut Workload) {
        let bundle_of: Vec<Vec<usize>> = program.thread_blocks.iter().map(bundle_numbers).collect();
        let memory = self.cluster.links().len();
        for (tb, block) in program.thread_blocks.iter().enumerate() {
            let ops = block.bundles().scan(0, |next, steps| {
                let last = *next + steps.len() - 1;
                *next = last + 1;
                let at = StepRef {
                    rank: program.rank,
                    tb: TbIndex::from(tb),
                    step: StepIndex::from(last),
                };
                Some(self.op(at, steps, block, &bundle_of, memory))
            });
            let ops = ops.collect();
            let (rank, channel) = (program.rank, block.channel);
            workload.blocks.push(Block { group, rank, tb: TbIndex::from(tb), channel, ops });
        }
    }

    fn op(
        &self,
        at: StepRef,
        steps: &[Step],
        block: &ThreadBlock,
        bundle_of: &[Vec<usize>],
        memory: usize,
    ) -> Op {
        let kind = steps.last().map_or(StepKind::Nop, |step| step.kind);
        let count = steps.iter().map(|step| step.count).max().unwrap_or(0);
        let first = self.first_block[at.rank.index()];
        let wait = |wait: &msccl_ir::Wait| {
            let of = wait.tb.index();
            Some((first + of, *bundle_of.get(of)?.get(wait.step.index())?))
        };
        let mut op = Op {
            at,
            kind,
            waits: steps.iter().flat_map(|step| &step.waits).filter_map(wait).collect(),
            receives: Vec::new(),
            sends: Vec::new(),
            count,
            loads: false,
            byte_ns: 0.0,
            uses: Vec::new(),
        };
        for step in steps {
            self.add_step(&mut op, step, block, memory);
        }
        if steps.len() > 1 {
            op.byte_ns *= self.rates.bundle;
        }
        op
    }

    /// What a step needs and takes, as `docs/MEMORY.md` lists the accesses of its two ends.
    fn add_step(&self, op: &mut Op, step: &Step, block: &ThreadBlock, memory: usize) {
        let rank = op.at.rank;
        let delivery = |link: u32| match self.is_direct {
            true => block.delivery(link),
            false => Delivery::Staged,
        };
        let incoming =
            |link: u32| self.numbers.get(&(block.receives[link as usize], rank, block.channel));
        let outgoing = |link: u32| {
            let peer = block.sends[link as usize - block.receives.len()];
            self.numbers.get(&(rank, peer, block.channel))
        };
        let mut cost = StepCost::default();
        let mut lies_there = false;
        for source in &step.sources {
            match *source {
                Operand::Local(_) => cost.loads += 1.0,
                Operand::Link(link) => {
                    let Some(&number) = incoming(link) else { continue };
                    op.receives.push(number);
                    match delivery(link) {
                        Delivery::Staged => cost.receives += 1.0,
                        Delivery::Push => lies_there = true,
                        Delivery::Pull { .. } => cost.pull(&self.routes[number - self.first_link]),
                    }
                }
            }
        }
        for destination in &step.destinations {
            match *destination {
                Operand::Local(_) => cost.stores += 1.0,
                Operand::Link(link) => {
                    let Some(&number) = outgoing(link) else { continue };
                    op.sends.push(number);
                    if !matches!(delivery(link), Delivery::Pull { .. }) {
                        cost.send(&self.routes[number - self.first_link]);
                    }
                }
            }
        }
        if lies_there {
            // It lies at the first local destination, and is loaded from there for the others.
            cost.stores = (cost.stores - 1.0).max(0.0);
            cost.loads += if cost.stores + cost.sends > 0.0 { 1.0 } else { 0.0 };
        }
        cost.add_to(op, self, memory + rank.index());
    }
}

/// By step of a block, the number of the bundle that it is in.
fn bundle_numbers(block: &ThreadBlock) -> Vec<usize> {
    let bundles = block.bundles().enumerate();
    bundles.flat_map(|(number, steps)| steps.iter().map(move |_| number)).collect()
}

/// How often a step touches every byte, and by which links.
#[derive(Default)]
struct StepCost {
    loads: f64,
    receives: f64,
    stores: f64,
    sends: f64,
    pulls: f64,
    uses: Vec<Use>,
}

impl StepCost {
    fn send(&mut self, route: &[Use]) {
        self.sends += 1.0;
        self.uses.extend_from_slice(route);
    }

    fn pull(&mut self, route: &[Use]) {
        self.pulls += 1.0;
        self.uses.extend_from_slice(route);
    }

    fn add_to(self, op: &mut Op, build: &Build<'_>, memory: usize) {
        let Self { loads, receives, mut stores, sends, pulls, uses } = self;
        let moves = stores + sends > 0.0;
        // A step that sends what peers load themselves has nothing to do with its sources.
        let (loads, receives) = if moves { (loads, receives) } else { (0.0, 0.0) };
        if !moves {
            stores = 0.0;
        }
        let KernelRates { load, receive, store, send, pull, reduce, .. } = build.rates;
        let combines = if moves { (loads + receives + pulls - 1.0).max(0.0) } else { 0.0 };
        op.loads |= loads > 0.0;
        let parts = [
            (loads, load),
            (receives, receive),
            (pulls, pull),
            (combines, reduce),
            (stores, store),
            (sends, send),
        ];
        op.byte_ns += parts.map(|(times, cost)| times * cost.ns(build.movers)).iter().sum::<f64>();
        op.uses.extend(uses);
        let weight = (loads + receives + stores) * build.instances;
        if weight > 0.0 {
            op.uses.push(Use { resource: memory as u32, weight });
        }
    }
}
