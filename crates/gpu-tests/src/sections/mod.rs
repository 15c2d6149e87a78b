//! The sections: what is tested, one subject per module.

mod abort;
mod averages;
mod built_ins;
mod checking;
mod combined;
mod copy_engines;
mod counts;
mod crossed;
mod cycles;
mod data_types;
mod direct;
mod dmabuf;
mod endings;
mod exhausted;
mod failure_containment;
mod graphs;
mod groups;
mod hosts;
mod inter_node;
mod interpretation_cost;
mod launch_order;
mod links;
mod many_ranks;
mod one_sided;
mod order;
mod point_to_point;
mod processes;
mod programs;
mod scaled;
mod soak;
mod specialised;
mod splits;
mod suspension;
mod synthesised;

use std::path::PathBuf;
use std::process::ExitCode;

use msccl_collective::{CollectiveKind, Rank};
use msccl_runtime::{BufferPlaces, Communicator, Overrides, Settings, Window, WindowMemory};

use crate::Trouble;
use crate::args::Args;
use crate::case::{Case, Numbers};
use crate::machine::Machine;
use crate::runner::Runner;
use crate::tally::Tally;
use crate::world::{World, settings};

/// What this process does as one rank; it says what went wrong.
pub fn as_rank(args: &Args, rank: u32) -> ExitCode {
    match args.task.as_deref() {
        Some(task) if task.starts_with(failure_containment::TASK) => {
            failure_containment::as_rank(args, rank, task)
        }
        _ => processes::as_rank(args, rank),
    }
}

/// What sections are given.
pub struct Bench {
    /// Where ranks run.
    pub machine: Machine,
    /// How many ranks.
    pub ranks: u32,
    /// Whether to be done soon.
    pub quick: bool,
    /// What random cases follow from.
    pub seed: u64,
    /// How long the soak runs, if somebody said so.
    pub seconds: Option<u64>,
    /// The scene with which it begins.
    pub scene: u64,
    /// Where specialised kernels lie, if there are any.
    pub cubins: Option<PathBuf>,
}

/// Something that can be tested by itself.
pub struct Section {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it tests.
    pub about: &'static str,
    /// Does it.
    pub run: fn(&Bench, &mut Tally),
}

/// All sections, in the order in which they make sense to read when something fails.
pub const SECTIONS: &[Section] = &[
    counts::SECTION,
    data_types::SECTION,
    built_ins::SECTION,
    programs::RANDOM,
    programs::LOADED,
    synthesised::SECTION,
    point_to_point::SECTION,
    scaled::SECTION,
    averages::SECTION,
    order::SECTION,
    groups::SECTION,
    crossed::SECTION,
    launch_order::SECTION,
    graphs::SECTION,
    suspension::SECTION,
    one_sided::SECTION,
    copy_engines::SECTION,
    combined::SECTION,
    links::SECTION,
    direct::SECTION,
    soak::SECTION,
    many_ranks::SECTION,
    hosts::SECTION,
    hosts::rdma::SECTION,
    hosts::faults::SECTION,
    hosts::pair::SECTION,
    inter_node::SECTION,
    processes::SECTION,
    splits::SECTION,
    checking::SECTION,
    abort::SECTION,
    endings::SECTION,
    failure_containment::SECTION,
    dmabuf::SECTION,
    exhausted::SECTION,
    specialised::SECTION,
    interpretation_cost::SECTION,
    cycles::CYCLES,
    cycles::CALLS,
];

impl Bench {
    /// `full`, or its first `quick` if time is short.
    fn some<'a, T>(&self, full: &'a [T], quick: usize) -> &'a [T] {
        if self.quick { &full[..quick.min(full.len())] } else { full }
    }

    /// `full`, or `quick` if time is short.
    fn number(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }

    /// `case` as number `number` of several, with numbers of its own whose sums are rounded.
    fn rounded(&self, case: Case, number: usize) -> Case {
        Case { numbers: Numbers::Rounded, seed: self.seed + number as u64, ..case }
    }

    /// A runner of the usual number of ranks.
    fn runner(&self, settings: Settings, name: impl Into<String>) -> Runner<'_> {
        Runner::new(&self.machine, self.ranks, settings, name)
    }

    /// Whether there are copy engines between ranks; otherwise `tally` has why not. A rank that is
    /// alone has nothing to do, as `alone` says.
    fn has_copy_engines(&self, tally: &mut Tally, alone: &str) -> bool {
        if !self.machine.has_gpus() {
            tally.skip("there are no copy engines on the host");
        } else if self.ranks < 2 {
            tally.skip(alone);
        }
        self.machine.has_gpus() && self.ranks >= 2
    }

    /// A world of the usual number of ranks, with these overrides; otherwise `tally` has why not.
    fn world_with(&self, tally: &mut Tally, overrides: Overrides) -> Option<World> {
        let join = || self.world(&Settings { overrides, ..settings() });
        tally.need(|| "ranks".to_owned(), join)
    }

    /// A world of the usual number of ranks.
    fn world(&self, settings: &Settings) -> Result<World, Trouble> {
        World::join(&self.machine, self.ranks, settings)
    }
}

/// A window over memory of a rank, in which outputs lie at the same place as those of all others,
/// which open theirs together.
fn open_window(communicator: &Communicator, address: u64, bytes: usize) -> Result<Window, Trouble> {
    let places = BufferPlaces::Same;
    let memory = WindowMemory { address, bytes: bytes as u64, shared: None, places };
    Ok(communicator.open_window(&memory)?)
}

/// Every collective; those with a root with the last rank as root.
fn every_collective(ranks: u32) -> [CollectiveKind; 8] {
    CollectiveKind::all(Rank(ranks - 1))
}

/// Whether contributions are combined.
fn combines(kind: CollectiveKind) -> bool {
    matches!(
        kind,
        CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::Reduce(_)
    )
}

/// Whether calls in place mean something: there is no all-to-all in place in the C API.
fn placements(kind: CollectiveKind) -> &'static [bool] {
    if kind == CollectiveKind::AllToAll { &[false] } else { &[false, true] }
}
