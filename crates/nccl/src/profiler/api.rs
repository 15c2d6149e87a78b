//! The events of the program's calls: of each call, and of the group that it is in.
//!
//! The event of a group begins with the first call of it, whose communicator has it; a call alone
//! is a group. It belongs to the thread, as groups do.

use std::cell::RefCell;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Weak};

use msccl_runtime::{Call, CallTag, Operation};

use super::event::{ApiCall, Change, Event, EventHandle};
use super::plugin::Plugin;
use super::rank::{MadeCall, RankProfile};
use super::texts;

/// The group that is open on a thread, of which a plugin knows.
struct OpenGroup {
    plugin: &'static Plugin,
    event: EventHandle,
    /// The calls in it.
    calls: Vec<(Weak<RankProfile>, CallTag)>,
}

thread_local! {
    /// Never dropped, as groups are not.
    static OPEN: ManuallyDrop<RefCell<Option<OpenGroup>>> = const {
        ManuallyDrop::new(RefCell::new(None))
    };
}

fn with_open<T>(body: impl FnOnce(&mut Option<OpenGroup>) -> T) -> T {
    OPEN.with(|open| body(&mut open.borrow_mut()))
}

/// Whether what a group gathered has begun when its end returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closing {
    /// It has, or never will.
    Settled,
    /// It goes on in the background.
    InProgress,
}

/// A call as the program makes it.
pub struct CallArguments<'a> {
    /// The call.
    pub call: &'a Call,
    /// How deep in groups, itself counted.
    pub depth: u32,
    /// Whether its stream is being captured.
    pub graph_captured: bool,
}

/// The program makes a call on the rank of `profile`; its tag.
pub fn call(profile: &Arc<RankProfile>, arguments: &CallArguments<'_>) -> CallTag {
    let CallArguments { call, depth, graph_captured } = *arguments;
    let group_api = group_of(profile, depth, graph_captured);
    let arguments = api_call(call, graph_captured);
    let event = match call.operation {
        Operation::Send(_) | Operation::Receive(_) => Event::P2pApi(arguments),
        Operation::AllReduce(_)
        | Operation::AllGather
        | Operation::ReduceScatter(_)
        | Operation::AllToAll
        | Operation::Broadcast(_)
        | Operation::Reduce(..)
        | Operation::Gather(_)
        | Operation::Scatter(_) => Event::CollApi(arguments),
    };
    let api = profile.start(&event, group_api);
    profile.plugin().stop(api);
    let tag = profile.made(MadeCall { call: arguments, api, group_api });
    with_open(|open| {
        if let Some(open) = open {
            open.calls.push((Arc::downgrade(profile), tag));
        }
    });
    tag
}

/// The event of the group that is open; it begins, if it has not.
fn group_of(profile: &RankProfile, depth: u32, graph_captured: bool) -> EventHandle {
    if let Some(event) = with_open(|open| open.as_ref().map(|open| open.event)) {
        return event;
    }
    let depth = c_int::try_from(depth).unwrap_or(c_int::MAX);
    let event = profile.start(&Event::GroupApi { graph_captured, depth }, EventHandle::NONE);
    let plugin = profile.plugin();
    plugin.change(event, Change::GroupStartEnds);
    with_open(|open| *open = Some(OpenGroup { plugin, event, calls: Vec::new() }));
    event
}

/// The outermost end of a group begins, on this thread.
pub fn group_end_begins() {
    let open = with_open(|open| open.as_ref().map(|open| (open.plugin, open.event)));
    if let Some((plugin, event)) = open {
        plugin.change(event, Change::GroupEndBegins);
    }
}

/// The outermost end of a group is over, on this thread.
pub fn group_end_stops(closing: Closing) {
    let Some(OpenGroup { plugin, event, calls }) = with_open(Option::take) else { return };
    plugin.stop(event);
    match closing {
        Closing::Settled => {
            let calls = calls.into_iter().filter_map(|(of, tag)| Some((of.upgrade()?, tag)));
            calls.for_each(|(profile, tag)| profile.forget(tag));
        }
        Closing::InProgress => {}
    }
}

fn api_call(call: &Call, graph_captured: bool) -> ApiCall {
    let Call { operation, data_type, count, buffers } = *call;
    let peer = match operation {
        Operation::Broadcast(rank)
        | Operation::Reduce(rank, _)
        | Operation::Gather(rank)
        | Operation::Scatter(rank)
        | Operation::Send(rank)
        | Operation::Receive(rank) => rank.0,
        Operation::AllReduce(_)
        | Operation::AllGather
        | Operation::ReduceScatter(_)
        | Operation::AllToAll => 0,
    };
    ApiCall {
        function: texts::function(&operation),
        count: usize::try_from(count).unwrap_or(usize::MAX),
        data_type: texts::data_type(data_type),
        element_bytes: data_type.size_bytes(),
        root: c_int::try_from(peer).unwrap_or(c_int::MAX),
        send: buffers.send,
        receive: buffers.receive,
        stream: buffers.stream,
        graph_captured,
    }
}
