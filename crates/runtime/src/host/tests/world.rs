//! Ranks as threads, each with its group, and calls for them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use msccl_collective::{CallPlacement, DataType, Rank as RankId, Reduction};
use msccl_fabric::{Abort, Group, JoinRequest, Settings, UniqueId};
use msccl_plan::cut::Cut;
use msccl_plan::exchange::Transfer;
use msccl_plan::{Alias, Direction, Plan, Program};
use msccl_registry::Entry;
use msccl_select::{
    Decision, KernelClass, Links, Offers, PlacementFallback, Prepared, Threads, Wiring,
};

use crate::call::Buffers;
use crate::engine::{CallRequest, DecidedCall, Engine};
use crate::error::Error;
use crate::host::HostRank;
use crate::nodes::Nodes;

/// A rank under test.
pub struct TestRank {
    pub me: RankId,
    pub rank: HostRank,
    pub abort: Abort,
    /// Kept, since a rank that leaves its group is missed by others.
    pub group: Arc<Group>,
}

fn settings() -> Settings {
    let limit = Duration::from_secs(60);
    Settings { operation_timeout: Some(limit), join_timeout: limit, ..Settings::default() }
}

/// What brings ranks together.
pub fn meeting_point() -> UniqueId {
    UniqueId::create(&settings()).unwrap()
}

/// Joins as rank `index` of `ranks`.
pub fn join(id: UniqueId, index: u32, ranks: u32) -> TestRank {
    let me = RankId(index);
    let join_request = JoinRequest { rank: me, ranks, facts: Vec::new(), description: Vec::new() };
    let group = Arc::new(Group::join(&[id], &join_request, &settings()).unwrap());
    let abort = Abort::new();
    let fabric = Settings { abort: abort.clone(), ..settings() };
    let settings = crate::Settings { fabric, ..crate::Settings::default() };
    let rank = HostRank::join(&group, &Nodes::of(&group), &settings).unwrap();
    TestRank { me, rank, abort, group }
}

/// Runs `live` on `ranks` threads, each as one rank of one group; answers by rank.
pub fn run<T: Send>(ranks: u32, live: impl Fn(TestRank) -> T + Sync) -> Vec<T> {
    let id = meeting_point();
    let thread = |index| live(join(id, index, ranks));
    thread::scope(|scope| {
        let thread = &thread;
        let threads: Vec<_> = (0..ranks).map(|index| scope.spawn(move || thread(index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Every rank's part of `entry`.
pub fn prepare(entry: &Entry) -> Vec<Arc<Prepared>> {
    let plans = Plan::all(&entry.verified).unwrap();
    let prepared = plans.into_iter().map(|plan| {
        let wiring = Wiring::of(plan.program());
        let (name, fingerprint) = (entry.name.clone(), entry.fingerprint);
        let (offers, computes, source) = (Offers::Regions, true, None);
        let steps = 1;
        Arc::new(Prepared { name, fingerprint, plan, offers, wiring, computes, steps, source })
    });
    prepared.collect()
}

/// The buffers of one rank in one call.
pub struct RankBuffers {
    buffers: Vec<Vec<u8>>,
    pub send: u64,
    pub receive: u64,
    /// Which buffer holds the output, and from where on.
    output: (usize, usize),
}

impl RankBuffers {
    /// For `program` on blocks of `block_bytes` bytes, with `input` in place.
    pub fn new(program: &Program, input: &[u8], block_bytes: usize, in_place: bool) -> Self {
        let blocks = |chunks: u32| (chunks / program.geometry.block_chunks) as usize;
        let output_bytes = blocks(program.geometry.output_chunks) * block_bytes;
        let own = program.rank.index() * block_bytes;
        let alias = if in_place { program.alias } else { Alias::None };
        let (mut buffers, input_at, output_at) = match alias {
            Alias::None => (vec![input.to_vec(), vec![0xee; output_bytes]], (0, 0), (1, 0)),
            Alias::Same => (vec![vec![0xee; output_bytes.max(input.len())]], (0, 0), (0, 0)),
            Alias::InputInOutput => (vec![vec![0xee; output_bytes]], (0, own), (0, 0)),
            Alias::OutputInInput => (vec![vec![0xee; input.len()]], (0, 0), (0, own)),
        };
        buffers[input_at.0][input_at.1..input_at.1 + input.len()].copy_from_slice(input);
        let send = address(&mut buffers[input_at.0]) + input_at.1 as u64;
        let receive = address(&mut buffers[output_at.0]) + output_at.1 as u64;
        Self { buffers, send, receive, output: output_at }
    }

    /// What lies where the output goes.
    pub fn output(&self) -> &[u8] {
        &self.buffers[self.output.0][self.output.1..]
    }
}

/// Where `bytes` lies, for a call.
pub fn address(bytes: &mut [u8]) -> u64 {
    bytes.as_mut_ptr().expose_provenance() as u64
}

/// What a call is about, on all ranks alike.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub data_type: DataType,
    pub reduction: Reduction,
    pub count: usize,
    pub instances: u32,
    pub number: u64,
}

/// Runs a collective.
pub fn collective(
    place: &TestRank,
    prepared: &Arc<Prepared>,
    shape: Shape,
    memory: &RankBuffers,
) -> Result<(), Error> {
    let Shape { data_type, reduction, count, instances, number } = shape;
    let program = prepared.plan.program();
    let slot_bytes = u64::from(place.rank.capacity().simple.slot_bytes);
    let (elements, element_bytes) = (count as u64, data_type.size_bytes() as u64);
    let simple = msccl_collective::Protocol::Simple;
    let cut = Cut::within(program, elements, element_bytes, instances, simple, slot_bytes);
    let decision = Decision {
        prepared: prepared.clone(),
        protocol: simple,
        links: Links::Staged,
        exact: false,
        threads: Threads { aligned: 32, unaligned: 32 },
        cut: cut.unwrap(),
        kernel: KernelClass::Interpreter,
        engine_work: None,
        fallback: PlacementFallback::None,
        averages: false,
        passed_over: Vec::new(),
    };
    let buffers = Buffers { send: memory.send, receive: memory.receive, stream: 0 };
    let (decision, placement) = (&decision, CallPlacement::OutOfPlace);
    let bytes = elements * element_bytes;
    let request = CallRequest { collective: "custom", placement, count: elements, bytes };
    place.rank.collective(&DecidedCall { decision, data_type, reduction, buffers, number, request })
}

/// A transfer of all of `bytes`.
pub fn transfer(peer: u32, way: Direction, bytes: &mut [u8]) -> Transfer {
    Transfer { peer: RankId(peer), way, address: address(bytes), bytes: bytes.len() as u64 }
}
