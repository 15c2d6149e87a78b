//! What a plugin learns of one rank of one communicator.

use std::ffi::{CStr, CString, c_int};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use msccl_runtime::{
    BlockSpan, CallTag, ObservedCollective, ObservedPlace, ObservedRank, ObservedTransfer,
    ObservedTransfers,
};
use rustc_hash::FxHashMap;

use super::event::{ApiCall, Change, Coll, Event, EventHandle, P2p};
use super::layout::kind;
use super::plugin::{self, Followed, Plugin, PluginContext};
use super::texts;
use crate::launched::LaunchedCalls;
use crate::session;

/// Channels that plugins have room for; NCCL has no more. Further thread blocks are left out.
const CHANNELS_MAX: u32 = 64;

/// Threads of a warp.
const WARP: u32 = 32;

/// A rank that a plugin follows.
pub struct RankProfile {
    plugin: &'static Plugin,
    device: i32,
    /// Plugins keep the pointer to it.
    name: Option<CString>,
    /// Nothing before the ranks have met, and if the plugin does not want this communicator.
    membership: OnceLock<Option<Membership>>,
    tags: AtomicU64,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct Membership {
    context: PluginContext,
    rank: c_int,
    place: ObservedPlace,
    wants_blocks: bool,
}

#[derive(Default)]
struct State {
    /// Calls that the program has made and that have not begun.
    made: FxHashMap<CallTag, MadeCall>,
    /// Collectives so far, by function.
    sequence_numbers: FxHashMap<&'static CStr, u64>,
    running: Option<Running>,
    /// Calls whose thread blocks are still to be reported.
    launched: LaunchedCalls<ReportedTasks>,
}

/// A call that the program has made.
#[derive(Clone, Copy)]
pub struct MadeCall {
    /// Its arguments.
    pub call: ApiCall,
    /// The event of the call.
    pub api: EventHandle,
    /// That of its group.
    pub group_api: EventHandle,
}

/// What was handed over and is not over.
struct Running {
    launch: EventHandle,
    group: EventHandle,
    tasks: Vec<EventHandle>,
}

/// The tasks of a call, and how many of its thread blocks report.
struct ReportedTasks {
    tasks: Vec<Task>,
    /// Thread blocks that are still to be reported.
    blocks: u32,
}

/// A collective, or a transfer.
#[derive(Clone, Copy)]
struct Task {
    event: EventHandle,
    blocks: TaskBlocks,
}

/// Which thread blocks of a launch belong to a task.
#[derive(Clone, Copy)]
enum TaskBlocks {
    All,
    One(u32),
}

impl RankProfile {
    /// For a communicator on `device` to which the program gave `name`.
    pub fn new(plugin: &'static Plugin, device: i32, name: Option<&str>) -> Self {
        Self {
            plugin,
            device,
            name: name.map(texts::c_text),
            membership: OnceLock::new(),
            tags: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }

    /// The ranks have met.
    pub fn joined(&self, rank: &ObservedRank<'_>) {
        let ObservedRank { communicator, rank, ranks, nodes, host: _, place } = *rank;
        let of = |number: u32| c_int::try_from(number).unwrap_or(c_int::MAX);
        let followed = Followed {
            communicator,
            name: self.name.as_deref(),
            nodes: of(nodes),
            ranks: of(ranks),
            rank: of(rank.0),
        };
        let membership = match self.plugin.init(&followed) {
            Ok(context) => {
                let wants_blocks = plugin::mask() & kind::KERNEL_CH != 0;
                Some(Membership { context, rank: of(rank.0), place, wants_blocks })
            }
            Err(code) => {
                let name = self.plugin.name();
                let text = format!(
                    "profiler plugin {name} does not follow communicators: its init returned \
                     {code}, expected 0; calls go on"
                );
                session::say_once(self.device, &text);
                None
            }
        };
        // The ranks of a communicator meet once.
        let _ = self.membership.set(membership);
    }

    /// Whether the plugin wants to know of thread blocks.
    pub fn wants_blocks(&self) -> bool {
        self.membership().is_some_and(|membership| membership.wants_blocks)
    }

    /// An event of this rank begins.
    pub fn start(&self, event: &Event, parent: EventHandle) -> EventHandle {
        let Some(Membership { context, rank, .. }) = self.membership() else {
            return EventHandle::NONE;
        };
        self.plugin.start(context, event, (parent, rank))
    }

    /// The plugin.
    pub fn plugin(&self) -> &'static Plugin {
        self.plugin
    }

    /// The program has made `call`, which begins later; by the tag it is known then.
    pub fn made(&self, call: MadeCall) -> CallTag {
        let tag = CallTag(self.tags.fetch_add(1, Ordering::Relaxed) + 1);
        self.state().made.insert(tag, call);
        tag
    }

    /// If the call of `tag` has not begun, it never will.
    pub fn forget(&self, tag: CallTag) {
        self.state().made.remove(&tag);
    }

    /// A collective begins.
    pub fn collective_begins(&self, observed: &ObservedCollective<'_>) {
        let mut state = self.state();
        let Some(made) = state.made.remove(&observed.tag) else { return };
        let group = self.launch(&mut state, &made);
        let number = state.sequence_numbers.entry(made.call.function).or_default();
        let sequence_number = *number;
        *number += 1;
        let coll = Coll {
            call: as_moved(made.call),
            sequence_number,
            channels: channels(observed.thread_blocks),
            warps: u8::try_from((observed.threads / WARP).max(1)).unwrap_or(u8::MAX),
            algorithm: texts::algorithm(observed.algorithm),
            protocol: texts::protocol(observed.protocol),
            group,
        };
        let event = self.start(&Event::Coll(coll), made.api);
        let task = Task { event, blocks: TaskBlocks::All };
        self.run(&mut state, observed.number, vec![task], Some(observed.thread_blocks));
    }

    /// The sends and receives of a group begin.
    pub fn transfers_begin(&self, observed: &ObservedTransfers<'_>) {
        let mut state = self.state();
        let made = |transfer: &ObservedTransfer| Some((*transfer, *state.made.get(&transfer.tag)?));
        let made: Vec<_> = observed.transfers.iter().filter_map(made).collect();
        let Some((_, first)) = made.first() else { return };
        let group = self.launch(&mut state, first);
        let mut tracks: Vec<_> = observed.transfers.iter().map(|of| (of.peer, of.way)).collect();
        tracks.sort_unstable();
        tracks.dedup();
        let tasks = made.iter().map(|(transfer, made)| {
            state.made.remove(&transfer.tag);
            let p2p = P2p { call: made.call, channels: 1, group };
            let event = self.start(&Event::P2p(p2p), made.api);
            let track = tracks.binary_search(&(transfer.peer, transfer.way)).unwrap_or_default();
            Task { event, blocks: TaskBlocks::One(track as u32) }
        });
        let tasks = tasks.collect();
        // Thread blocks of a GPU are counted otherwise, and anew in each launch of a call.
        let is_counted = self.membership().is_some_and(|of| of.place == ObservedPlace::Host);
        let blocks = is_counted.then_some(tracks.len() as u32);
        self.run(&mut state, observed.number, tasks, blocks);
    }

    /// What began last is over.
    pub fn ends(&self) {
        let Some(Running { launch, group, tasks }) = self.state().running.take() else { return };
        tasks.into_iter().chain([group, launch]).for_each(|event| self.plugin.stop(event));
    }

    /// A thread block has ended.
    pub fn block(&self, span: &BlockSpan) {
        let BlockSpan { call, block, begin_ns, end_ns, waiting_ns: _, moving_ns: _ } = *span;
        let mut state = self.state();
        let Some(launched) = state.launched.get_mut(call) else { return };
        launched.blocks = launched.blocks.saturating_sub(1);
        for task in launched.tasks.iter().filter(|task| task.has(block)) {
            self.kernel_ch(task, block, (begin_ns, end_ns));
        }
        if launched.blocks == 0 {
            state.launched.remove(call);
        }
    }

    fn kernel_ch(&self, task: &Task, block: u32, (begin_ns, end_ns): (u64, u64)) {
        let channel = match task.blocks {
            TaskBlocks::All => block,
            TaskBlocks::One(_) => 0,
        };
        if channel >= CHANNELS_MAX {
            return;
        }
        let event = Event::KernelCh { channel: channel as u8, timer_ns: begin_ns };
        let event = self.start(&event, task.event);
        self.plugin.change(event, Change::KernelChStops { timer_ns: end_ns });
        self.plugin.stop(event);
    }

    /// What is handed over begins; the event of its group.
    fn launch(&self, state: &mut State, made: &MadeCall) -> EventHandle {
        let event = Event::KernelLaunch { stream: made.call.stream };
        let launch = self.start(&event, made.group_api);
        let group = self.start(&Event::Group, EventHandle::NONE);
        state.running = Some(Running { launch, group, tasks: Vec::new() });
        group
    }

    /// `tasks` of call `number` have begun, of so many thread blocks that say when they end.
    fn run(&self, state: &mut State, number: u64, tasks: Vec<Task>, blocks: Option<u32>) {
        if let Some(running) = &mut state.running {
            running.tasks = tasks.iter().map(|task| task.event).collect();
        }
        if let Some(blocks) = blocks.filter(|_| self.wants_blocks()) {
            state.launched.push(number, ReportedTasks { tasks, blocks });
        }
    }

    fn membership(&self) -> Option<Membership> {
        self.membership.get().copied().flatten()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RankProfile {
    fn drop(&mut self) {
        if let Some(membership) = self.membership() {
            self.plugin.finalize(membership.context);
        }
    }
}

impl Task {
    fn has(&self, block: u32) -> bool {
        match self.blocks {
            TaskBlocks::All => true,
            TaskBlocks::One(own) => own == block,
        }
    }
}

fn channels(thread_blocks: u32) -> u8 {
    thread_blocks.min(CHANNELS_MAX) as u8
}

/// NCCL moves what is not added as bytes, and says so of these two functions.
fn as_moved(call: ApiCall) -> ApiCall {
    let moves_bytes = call.function == c"AllGather" || call.function == c"Broadcast";
    if !moves_bytes {
        return call;
    }
    let count = call.count.saturating_mul(call.element_bytes);
    ApiCall { count, data_type: c"ncclInt8", ..call }
}
