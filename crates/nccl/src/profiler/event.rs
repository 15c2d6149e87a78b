//! Events as this library has them, before they take the form of a version of the interface.

use std::ffi::{CStr, c_int};

use super::layout::kind;

/// What a plugin gave an event; null if it does not follow it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventHandle(pub(super) usize);

impl EventHandle {
    /// Of an event that is not followed, or of none.
    pub const NONE: Self = Self(0);
}

/// A string that lives as long as the process, as plugins expect it.
pub type StaticText = &'static CStr;

/// An event that begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// From `ncclGroupStart`, or from a call alone, to the end of it.
    GroupApi { graph_captured: bool, depth: c_int },
    /// The call of a collective.
    CollApi(ApiCall),
    /// The call of a send or a receive.
    P2pApi(ApiCall),
    /// The hand-over of a collective, or of sends and receives together.
    KernelLaunch { stream: u64 },
    /// What is launched together.
    Group,
    /// A collective.
    Coll(Coll),
    /// A send or a receive.
    P2p(P2p),
    /// A thread block of a collective or of a transfer.
    KernelCh { channel: u8, timer_ns: u64 },
}

/// The arguments of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ApiCall {
    /// As NCCL names it: `AllReduce`.
    pub function: StaticText,
    pub count: usize,
    /// As NCCL names it: `ncclFloat32`.
    pub data_type: StaticText,
    pub element_bytes: usize,
    /// Of a send or a receive, the peer.
    pub root: c_int,
    pub send: u64,
    pub receive: u64,
    pub stream: u64,
    pub graph_captured: bool,
}

/// A collective, served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coll {
    pub call: ApiCall,
    /// Counted by function, from 0.
    pub sequence_number: u64,
    pub channels: u8,
    pub warps: u8,
    pub algorithm: StaticText,
    pub protocol: StaticText,
    /// Of [`Event::Group`]; in version 4 it is the parent.
    pub group: EventHandle,
}

/// A send or a receive, taken up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct P2p {
    pub call: ApiCall,
    pub channels: u8,
    /// Of [`Event::Group`]; in version 4 it is the parent.
    pub group: EventHandle,
}

impl Event {
    /// The bit of its kind.
    pub fn kind(&self) -> u64 {
        match self {
            Self::GroupApi { .. } => kind::GROUP_API,
            Self::CollApi(_) => kind::COLL_API,
            Self::P2pApi(_) => kind::P2P_API,
            Self::KernelLaunch { .. } => kind::KERNEL_LAUNCH,
            Self::Group => kind::GROUP,
            Self::Coll(_) => kind::COLL,
            Self::P2p(_) => kind::P2P,
            Self::KernelCh { .. } => kind::KERNEL_CH,
        }
    }

    /// The kinds for which it begins: its own, and those of which it is an ancestor.
    pub fn begins_for(&self) -> u64 {
        let proxies = kind::PROXY_OP | kind::PROXY_STEP | kind::NET_PLUGIN;
        let parts = proxies | kind::KERNEL_CH;
        match self {
            Self::GroupApi { .. } => {
                let calls = kind::COLL_API | kind::P2P_API | kind::KERNEL_LAUNCH;
                let tasks = kind::GROUP | kind::COLL | kind::P2P | kind::COPY_ENGINE;
                kind::GROUP_API | calls | tasks | parts
            }
            Self::CollApi(_) => kind::COLL_API | kind::COLL | kind::COPY_ENGINE | parts,
            Self::P2pApi(_) => kind::P2P_API | kind::P2P | parts,
            Self::KernelLaunch { .. } => kind::KERNEL_LAUNCH,
            Self::Group => kind::GROUP | kind::COLL | kind::P2P | parts,
            Self::Coll(_) => kind::COLL | parts,
            Self::P2p(_) => kind::P2P | parts,
            Self::KernelCh { .. } => kind::KERNEL_CH,
        }
    }
}

/// A change of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// `ncclGroupStart` is over.
    GroupStartEnds,
    /// `ncclGroupEnd` begins.
    GroupEndBegins,
    /// When a thread block ended.
    KernelChStops { timer_ns: u64 },
}
