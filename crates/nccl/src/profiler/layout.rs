//! The structures between NCCL and its profiler plugins, versions 4 to 6 of the interface.
//!
//! Where fields lie is that of NCCL 2.27 (version 4), 2.28 (5), 2.29 and 2.30 (6). Version 6 adds
//! events of copy engines, which do not come from here, to version 5; so one descriptor serves
//! both. Strings live as long as the process: plugins keep the pointers.

use std::ffi::{c_char, c_int, c_ulong, c_void};

/// What a plugin gives an event, and gets back.
pub type RawHandle = *mut c_void;

/// What NCCL's functions and a plugin's return; zero is success.
pub type RawResult = c_int;

/// `ncclDebugLogger_t` after its fixed arguments takes those that the format names.
pub type Logger = unsafe extern "C" fn();

/// The level of a line of a plugin.
pub const LEVEL_WARN: c_int = 2;
/// The level of a line of a plugin.
pub const LEVEL_INFO: c_int = 3;

/// Subsystems of a line of a plugin.
pub type LogFlags = c_ulong;

/// Kinds of events, as bits of a mask.
pub mod kind {
    /// Calls that are launched together.
    pub const GROUP: u64 = 1 << 0;
    /// A collective.
    pub const COLL: u64 = 1 << 1;
    /// A send or a receive.
    pub const P2P: u64 = 1 << 2;
    /// A proxy's part of a call.
    pub const PROXY_OP: u64 = 1 << 3;
    /// A message of it.
    pub const PROXY_STEP: u64 = 1 << 4;
    /// A channel of a kernel.
    pub const KERNEL_CH: u64 = 1 << 6;
    /// Of network plugins.
    pub const NET_PLUGIN: u64 = 1 << 7;
    /// From `ncclGroupStart` to the end of `ncclGroupEnd`.
    pub const GROUP_API: u64 = 1 << 8;
    /// The call of a collective by the program.
    pub const COLL_API: u64 = 1 << 9;
    /// The call of a send or a receive by the program.
    pub const P2P_API: u64 = 1 << 10;
    /// The launch of a kernel.
    pub const KERNEL_LAUNCH: u64 = 1 << 11;
    /// A collective of copy engines, and its parts.
    pub const COPY_ENGINE: u64 = 7 << 12;
}

/// The end of a channel of a kernel is known.
pub const STATE_KERNEL_CH_STOP: c_int = 22;
/// `ncclGroupStart` has returned.
pub const STATE_GROUP_START_STOP: c_int = 23;
/// `ncclGroupEnd` was called.
pub const STATE_GROUP_END_START: c_int = 24;

/// The table of functions, by the types of `init` and of events.
#[repr(C)]
pub struct FunctionTable<Init, Descriptor> {
    pub name: *const c_char,
    pub init: Option<Init>,
    pub start_event:
        Option<unsafe extern "C" fn(RawHandle, *mut RawHandle, *mut Descriptor) -> RawResult>,
    pub stop_event: Option<unsafe extern "C" fn(RawHandle) -> RawResult>,
    pub record_event_state:
        Option<unsafe extern "C" fn(RawHandle, c_int, *mut StateArguments) -> RawResult>,
    pub finalize: Option<unsafe extern "C" fn(RawHandle) -> RawResult>,
}

/// That of versions 5 and 6.
pub type TableV5 = FunctionTable<InitV5, DescriptorV5>;

/// That of version 4.
pub type TableV4 = FunctionTable<InitV4, DescriptorV4>;

/// `init` of versions 5 and 6.
pub type InitV5 = unsafe extern "C" fn(
    *mut RawHandle,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
    Logger,
) -> RawResult;

/// `init` of version 4, which has another order of arguments.
pub type InitV4 = unsafe extern "C" fn(
    *mut RawHandle,
    *mut c_int,
    *const c_char,
    u64,
    c_int,
    c_int,
    c_int,
    Logger,
) -> RawResult;

/// What a plugin learns of an event, versions 5 and 6.
#[repr(C)]
pub struct DescriptorV5 {
    pub kind: u64,
    pub parent: RawHandle,
    pub rank: c_int,
    pub details: DetailsV5,
}

/// By kind.
#[repr(C)]
pub union DetailsV5 {
    pub group_api: GroupApi,
    pub coll_api: CollApi,
    pub p2p_api: P2pApi,
    pub kernel_launch: KernelLaunch,
    pub coll: CollV5,
    pub p2p: P2pV5,
    pub kernel_ch: KernelCh,
    /// The length of the longest, that of a collective of copy engines. First, all of it is zero.
    pub all: [u64; 11],
}

/// What a plugin learns of an event, version 4.
#[repr(C)]
pub struct DescriptorV4 {
    pub kind: u8,
    pub parent: RawHandle,
    pub rank: c_int,
    pub details: DetailsV4,
}

/// By kind.
#[repr(C)]
pub union DetailsV4 {
    pub coll: CollV4,
    pub p2p: P2pV4,
    pub kernel_ch: KernelCh,
    /// First, all of it is zero.
    pub all: [u64; 10],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct GroupApi {
    pub graph_captured: bool,
    pub group_depth: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct CollApi {
    pub function: *const c_char,
    pub count: usize,
    pub data_type: *const c_char,
    pub root: c_int,
    pub stream: *mut c_void,
    pub graph_captured: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct P2pApi {
    pub function: *const c_char,
    pub count: usize,
    pub data_type: *const c_char,
    pub stream: *mut c_void,
    pub graph_captured: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelLaunch {
    pub stream: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct CollV4 {
    pub sequence_number: u64,
    pub function: *const c_char,
    pub send: *const c_void,
    pub receive: *mut c_void,
    pub count: usize,
    pub root: c_int,
    pub data_type: *const c_char,
    pub channels: u8,
    pub warps: u8,
    pub algorithm: *const c_char,
    pub protocol: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct CollV5 {
    pub of_v4: CollV4,
    pub parent_group: RawHandle,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct P2pV4 {
    pub function: *const c_char,
    pub buffer: *mut c_void,
    pub data_type: *const c_char,
    pub count: usize,
    pub peer: c_int,
    pub channels: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct P2pV5 {
    pub of_v4: P2pV4,
    pub parent_group: RawHandle,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelCh {
    pub channel: u8,
    pub timer_ns: u64,
}

/// What a plugin learns of a change of an event.
#[repr(C)]
pub union StateArguments {
    /// Of a channel of a kernel.
    pub timer_ns: u64,
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// On 64-bit machines, which alone have GPUs; the plugin of the tests has the C side.
    #[test]
    fn fields_lie_where_plugins_look() {
        assert_eq!(offset_of!(DescriptorV5, details), 24);
        assert_eq!(offset_of!(DescriptorV4, details), 24);
        assert_eq!(offset_of!(CollV4, protocol), 72);
        assert_eq!(offset_of!(CollV5, parent_group), 80);
        assert_eq!(offset_of!(P2pV5, parent_group), 40);
        assert_eq!(offset_of!(CollApi, graph_captured), 40);
        assert_eq!((size_of::<DetailsV5>(), size_of::<DetailsV4>()), (88, 80));
    }
}
