//! A plugin, loaded: its functions, behind those of Rust. An unsafe boundary: plugins are
//! libraries in C.

#![expect(unsafe_code, reason = "loads a library and calls its functions")]

use std::error::Error;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use libloading::os::unix::Library;

use super::event::{ApiCall, Change, Coll, Event, EventHandle, P2p};
use super::layout::{
    CollApi, CollV4, CollV5, DescriptorV4, DescriptorV5, DetailsV4, DetailsV5, GroupApi, KernelCh,
    KernelLaunch, P2pApi, P2pV4, P2pV5, STATE_GROUP_END_START, STATE_GROUP_START_STOP,
    STATE_KERNEL_CH_STOP, StateArguments, TableV4, TableV5,
};
use super::logger;

/// A plugin. It stays loaded as long as the process lives, since it may have threads.
pub struct Plugin {
    interface: Interface,
    name: String,
}

/// By version of the interface.
enum Interface {
    V4(&'static TableV4),
    /// Version 6 has the same functions.
    V5(&'static TableV5),
}

// SAFETY: NCCL calls a plugin from any of its threads, so plugins are made for that; the tables are
// not changed.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

/// What a plugin gave a communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PluginContext(usize);

/// Whom a plugin is to follow.
pub struct Followed<'a> {
    pub communicator: u64,
    /// The name that the program gave the communicator; lives as long as it.
    pub name: Option<&'a CStr>,
    pub nodes: c_int,
    pub ranks: c_int,
    pub rank: c_int,
}

/// Which events plugins ask for, of all communicators: plugins keep the address, and write to it
/// when they like.
static MASK: AtomicI32 = AtomicI32::new(0);

/// The kinds of events that plugins want now.
pub fn mask() -> u64 {
    u64::from(MASK.load(Ordering::Relaxed).cast_unsigned())
}

impl Plugin {
    /// Loads the library `file`, which the loader looks for as always, or takes the program itself;
    /// the newest interface of it.
    ///
    /// # Errors
    ///
    /// It cannot be loaded, or has none of the interfaces; in words.
    pub fn load(file: Option<&str>) -> Result<Self, LoadError> {
        let load = |file| {
            // SAFETY: the user asks for the library, whose initialisers run.
            unsafe { Library::new(file) }
        };
        let loaded = file.map_or_else(|| Ok(Library::this()), load);
        let library = loaded.map_err(|error| {
            // What the loader says is the cause.
            let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            LoadError::Missing(cause)
        })?;
        let table = Self::find(&library).ok_or(LoadError::NoInterface)?;
        std::mem::forget(library);
        let (name, version) = match table {
            (Interface::V4(of), version) => (of.name, version),
            (Interface::V5(of), version) => (of.name, version),
        };
        // SAFETY: a plugin's name is a string of C, if it has one.
        let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy());
        let name = format!("{} (v{version})", name.as_deref().unwrap_or("without a name"));
        Ok(Self { interface: table.0, name })
    }

    /// The newest interface that `library` has, and its version.
    fn find(library: &Library) -> Option<(Interface, u32)> {
        let find = |symbol: &CStr| {
            // SAFETY: the symbol is data, of which only the address is taken here.
            let found = unsafe { library.get::<*const c_void>(symbol.to_bytes_with_nul()) };
            found.ok().map(|found| found.into_raw().cast_const()).filter(|table| !table.is_null())
        };
        // SAFETY: what has this name is such a table, and lives as long as the library.
        let v5 = |table: *const c_void| Interface::V5(unsafe { &*table.cast::<TableV5>() });
        // SAFETY: as above.
        let v4 = |table: *const c_void| Interface::V4(unsafe { &*table.cast::<TableV4>() });
        let newest = find(c"ncclProfiler_v6").map(|table| (v5(table), 6));
        newest
            .or_else(|| find(c"ncclProfiler_v5").map(|table| (v5(table), 5)))
            .or_else(|| find(c"ncclProfiler_v4").map(|table| (v4(table), 4)))
    }

    /// What it calls itself, with the version of its interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets it follow a rank of a communicator.
    ///
    /// # Errors
    ///
    /// It does not want to; the number that it returned.
    pub fn init(&self, followed: &Followed<'_>) -> Result<PluginContext, c_int> {
        let Followed { communicator, name, nodes, ranks, rank } = *followed;
        let (mut context, mask) = (ptr::null_mut(), MASK.as_ptr());
        let name = name.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: the arguments are those of the interface; the places live for the call, and the
        // mask for ever.
        let result = unsafe {
            match &self.interface {
                Interface::V4(TableV4 { init: Some(init), .. }) => {
                    let log = logger::LOGGER;
                    init(&raw mut context, mask, name, communicator, nodes, ranks, rank, log)
                }
                Interface::V5(TableV5 { init: Some(init), .. }) => {
                    let log = logger::LOGGER;
                    init(&raw mut context, communicator, mask, name, nodes, ranks, rank, log)
                }
                Interface::V4(_) | Interface::V5(_) => 0,
            }
        };
        if result == 0 { Ok(PluginContext(context as usize)) } else { Err(result) }
    }

    /// An event of `rank` begins, as part of `parent`, if the plugin wants it now.
    pub fn start(
        &self,
        context: PluginContext,
        event: &Event,
        (parent, rank): (EventHandle, c_int),
    ) -> EventHandle {
        if mask() & event.begins_for() == 0 {
            return EventHandle::NONE;
        }
        let context = context.0 as *mut c_void;
        let mut handle = ptr::null_mut();
        match &self.interface {
            Interface::V4(TableV4 { start_event: Some(start), .. }) => {
                let Some(mut descriptor) = descriptor_v4(event, parent, rank) else {
                    return EventHandle::NONE;
                };
                // SAFETY: the arguments are those of the interface, and live for the call.
                unsafe { start(context, &raw mut handle, &raw mut descriptor) };
            }
            Interface::V5(TableV5 { start_event: Some(start), .. }) => {
                let mut descriptor = descriptor_v5(event, parent, rank);
                // SAFETY: as above.
                unsafe { start(context, &raw mut handle, &raw mut descriptor) };
            }
            Interface::V4(_) | Interface::V5(_) => {}
        }
        EventHandle(handle as usize)
    }

    /// An event ends.
    pub fn stop(&self, event: EventHandle) {
        let (Interface::V4(TableV4 { stop_event: stop, .. })
        | Interface::V5(TableV5 { stop_event: stop, .. })) = &self.interface;
        if let (Some(stop), true) = (stop, event != EventHandle::NONE) {
            // SAFETY: the handle is one that the plugin gave, and that did not end before.
            unsafe { stop(event.0 as *mut c_void) };
        }
    }

    /// An event changes. Version 4 does not have those of groups.
    pub fn change(&self, event: EventHandle, change: Change) {
        let (Interface::V4(TableV4 { record_event_state: record, .. })
        | Interface::V5(TableV5 { record_event_state: record, .. })) = &self.interface;
        let (state, timer_ns) = match change {
            Change::GroupStartEnds => (STATE_GROUP_START_STOP, None),
            Change::GroupEndBegins => (STATE_GROUP_END_START, None),
            Change::KernelChStops { timer_ns } => (STATE_KERNEL_CH_STOP, Some(timer_ns)),
        };
        let is_known = timer_ns.is_some() || matches!(self.interface, Interface::V5(_));
        let mut arguments = timer_ns.map(|timer_ns| StateArguments { timer_ns });
        let arguments = arguments.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        if let (Some(record), true) = (record, is_known && event != EventHandle::NONE) {
            // SAFETY: the handle is one that the plugin gave, and that did not end before; changes
            // of groups have no arguments.
            unsafe { record(event.0 as *mut c_void, state, arguments) };
        }
    }

    /// The communicator of `context` ends.
    pub fn finalize(&self, context: PluginContext) {
        let (Interface::V4(TableV4 { finalize, .. }) | Interface::V5(TableV5 { finalize, .. })) =
            &self.interface;
        if let (Some(finalize), true) = (finalize, context.0 != 0) {
            // SAFETY: the context is one that the plugin gave, and that did not end before.
            unsafe { finalize(context.0 as *mut c_void) };
        }
    }
}

/// Why a plugin was not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// There is no such library; what the loader says.
    Missing(String),
    /// It has no interface that is known here.
    NoInterface,
}

fn descriptor_v5(event: &Event, parent: EventHandle, rank: c_int) -> DescriptorV5 {
    let mut details = DetailsV5 { all: [0; 11] };
    match *event {
        Event::GroupApi { graph_captured, depth } => {
            details.group_api = GroupApi { graph_captured, group_depth: depth };
        }
        Event::CollApi(ApiCall {
            function,
            count,
            data_type,
            root,
            stream,
            graph_captured,
            ..
        }) => {
            details.coll_api = CollApi {
                function: function.as_ptr(),
                count,
                data_type: data_type.as_ptr(),
                root,
                stream: stream as *mut c_void,
                graph_captured,
            };
        }
        Event::P2pApi(ApiCall { function, count, data_type, stream, graph_captured, .. }) => {
            details.p2p_api = P2pApi {
                function: function.as_ptr(),
                count,
                data_type: data_type.as_ptr(),
                stream: stream as *mut c_void,
                graph_captured,
            };
        }
        Event::KernelLaunch { stream } => {
            details.kernel_launch = KernelLaunch { stream: stream as *mut c_void };
        }
        Event::Group => {}
        Event::Coll(coll) => {
            details.coll = CollV5 { of_v4: coll_v4(&coll), parent_group: raw(coll.group) };
        }
        Event::P2p(p2p) => {
            details.p2p = P2pV5 { of_v4: p2p_v4(&p2p), parent_group: raw(p2p.group) };
        }
        Event::KernelCh { channel, timer_ns } => {
            details.kernel_ch = KernelCh { channel, timer_ns };
        }
    }
    DescriptorV5 { kind: event.kind(), parent: raw(parent), rank, details }
}

/// Nothing for events that version 4 does not have.
fn descriptor_v4(event: &Event, parent: EventHandle, rank: c_int) -> Option<DescriptorV4> {
    let mut details = DetailsV4 { all: [0; 10] };
    let parent = match *event {
        Event::GroupApi { .. }
        | Event::CollApi(_)
        | Event::P2pApi(_)
        | Event::KernelLaunch { .. } => return None,
        Event::Group => parent,
        Event::Coll(coll) => {
            details.coll = coll_v4(&coll);
            coll.group
        }
        Event::P2p(p2p) => {
            details.p2p = p2p_v4(&p2p);
            p2p.group
        }
        Event::KernelCh { channel, timer_ns } => {
            details.kernel_ch = KernelCh { channel, timer_ns };
            parent
        }
    };
    let kind = u8::try_from(event.kind()).ok()?;
    Some(DescriptorV4 { kind, parent: raw(parent), rank, details })
}

fn coll_v4(coll: &Coll) -> CollV4 {
    let Coll { call, sequence_number, channels, warps, algorithm, protocol, group: _ } = *coll;
    let ApiCall { function, count, data_type, root, send, receive, .. } = call;
    CollV4 {
        sequence_number,
        function: function.as_ptr(),
        send: send as *const c_void,
        receive: receive as *mut c_void,
        count,
        root,
        data_type: data_type.as_ptr(),
        channels,
        warps,
        algorithm: algorithm.as_ptr(),
        protocol: protocol.as_ptr(),
    }
}

fn p2p_v4(p2p: &P2p) -> P2pV4 {
    let P2p { call, channels, group: _ } = *p2p;
    let ApiCall { function, count, data_type, root, send, receive, .. } = call;
    let buffer = if send == 0 { receive } else { send };
    P2pV4 {
        function: function.as_ptr(),
        buffer: buffer as *mut c_void,
        data_type: data_type.as_ptr(),
        count,
        peer: root,
        channels,
    }
}

fn raw(handle: EventHandle) -> *mut c_void {
    handle.0 as *mut c_void
}
