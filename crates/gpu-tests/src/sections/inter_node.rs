//! Slots in GPU memory for links between pretended hosts. No network card has a part in it: the
//! proxy copies, as it does where RDMA fails. Everything else is as with network cards: what
//! kernels write and read, and who counts what.

use std::sync::{Arc, Mutex, PoisonError};

use msccl_collective::DataType;
use msccl_gpu::{Context, RemoteWrites};
use msccl_proxy::{Event, Log};
use msccl_runtime::{InterNodeFifo, Settings};

use super::point_to_point::{Message, exchange};
use super::{Bench, Section, every_collective, placements};
use crate::Trouble;
use crate::case::Case;
use crate::hosts::Hosts;
use crate::machine::Machine;
use crate::runner::Runner;
use crate::tally::Tally;
use crate::world::settings;

/// The section.
pub const SECTION: Section = Section {
    name: "inter-node",
    about: "links between 2 to 4 pretended hosts with slots in GPU memory: collectives and sends",
    run,
};

/// Ranks, and the hosts that they are spread over.
const SHAPES: &[(u32, u32)] = &[(2, 2), (4, 2), (3, 3), (8, 4)];

/// Elements of a block.
const COUNTS: &[usize] = &[1003, 150_001, 1, 1 << 20];

fn run(bench: &Bench, tally: &mut Tally) {
    let Machine::Gpus(gpus) = &bench.machine else {
        return tally.skip("only GPUs have memory of their own");
    };
    tally.check(|| "writes of other devices".to_owned(), || sees_writes(&gpus[0]));
    for &(ranks, hosts) in bench.some(SHAPES, 2) {
        for (inter_node_fifo, place) in
            [(InterNodeFifo::Gpu, "GPU memory"), (InterNodeFifo::Host, "host memory")]
        {
            lie_in(bench, (ranks, hosts), inter_node_fifo, place, tally);
        }
    }
}

/// Every collective and some sends, with `inter_node_fifo`, which means slots in `place`.
fn lie_in(
    bench: &Bench,
    (ranks, hosts): (u32, u32),
    inter_node_fifo: InterNodeFifo,
    place: &str,
    tally: &mut Tally,
) {
    let log = Arc::new(SlotLog::default());
    let mut settings = Settings { inter_node_fifo, ..settings() };
    settings.proxy.log = log.clone();
    let name = format!("{ranks} ranks on {hosts} hosts, slots in {place}");
    let mut runner = Runner::new(&bench.machine, ranks, settings, name.clone())
        .on_hosts(Hosts::pretended(hosts));
    let mut cases = Vec::new();
    for kind in every_collective(ranks) {
        for &in_place in placements(kind) {
            for &count in bench.some(COUNTS, 2) {
                let data_type = if count % 2 == 0 { DataType::F32 } else { DataType::F16 };
                cases.push(Case { count, in_place, data_type, ..Case::of(kind) });
            }
        }
    }
    runner.run(cases, "", tally);
    for &bytes in bench.some(&[100_003, 0, 5_000_001], 1) {
        let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
        let messages: Vec<_> = pairs.map(|(from, to)| Message { from, to, bytes }).collect();
        let Some(world) = runner.world(tally) else { return };
        tally.check(|| format!("{name}: sends of {bytes} B"), || exchange(world, &messages));
    }
    tally.check(|| name.clone(), || log.only(place));
}

/// Where slots lie, as the proxies of all ranks log.
#[derive(Default)]
struct SlotLog(Mutex<Vec<String>>);

impl Log for SlotLog {
    fn event(&self, event: &Event) {
        if let Event::Connected { slots, .. } = event {
            let slots = slots.clone().unwrap_or_else(|| "an unnamed place".to_owned());
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(slots);
        }
    }
}

impl SlotLog {
    /// There are slots, and all of them lie in `place`.
    fn only(&self, place: &str) -> Result<(), Trouble> {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match log.iter().find(|slots| !slots.starts_with(place)) {
            Some(slots) => Err(format!("slots lie in {slots}, expected {place}").into()),
            None if log.is_empty() => Err("no links between hosts were made".into()),
            None => Ok(()),
        }
    }
}

/// The driver's answers, and a flush, which must work where it is needed.
fn sees_writes(gpu: &Context) -> Result<(), Trouble> {
    match gpu.device().remote_writes()? {
        RemoteWrites::Ordered | RemoteWrites::Unordered => Ok(()),
        RemoteWrites::Flushed => Ok(gpu.flush_remote_writes()?),
    }
}
