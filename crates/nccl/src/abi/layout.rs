//! Structures that cross the C ABI, laid out as C has them.

use std::ffi::{c_char, c_int, c_uint};
use std::mem::{offset_of, size_of};

use super::constant::UNDEFINED;

/// A `ncclUniqueId`, which C passes by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueIdBytes(pub [u8; 128]);

const _: () = assert!(size_of::<UniqueIdBytes>() == 128);

/// The fields of a `ncclConfig_t` that 2.30.7 knows. Callers built with other versions have fewer
/// or more; [`super::ConfigPointer`] reads what they have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are named as in the C header, which explains them")]
pub struct ConfigFields {
    pub size: usize,
    pub magic: c_uint,
    pub version: c_uint,
    pub blocking: c_int,
    pub cga_cluster_size: c_int,
    pub min_ctas: c_int,
    pub max_ctas: c_int,
    pub net_name: *const c_char,
    pub split_share: c_int,
    pub traffic_class: c_int,
    pub comm_name: *const c_char,
    pub collnet_enable: c_int,
    pub cta_policy: c_int,
    pub shrink_share: c_int,
    pub nvls_ctas: c_int,
    pub channels_per_net_peer: c_int,
    pub nvlink_centric_sched: c_int,
    pub graph_usage_mode: c_int,
    pub num_rma_ctx: c_int,
    pub max_p2p_peers: c_int,
    pub graph_stream_ordering: c_int,
}

/// What a caller's initialiser writes into [`ConfigFields::magic`] and
/// [`PropertiesFields::magic`].
pub const API_MAGIC: c_uint = 0xcafe_beef;

const _: () = {
    assert!(size_of::<ConfigFields>() == 96);
    assert!(offset_of!(ConfigFields, magic) == 8);
    assert!(offset_of!(ConfigFields, version) == 12);
    assert!(offset_of!(ConfigFields, blocking) == 16);
    assert!(offset_of!(ConfigFields, cga_cluster_size) == 20);
    assert!(offset_of!(ConfigFields, min_ctas) == 24);
    assert!(offset_of!(ConfigFields, max_ctas) == 28);
    assert!(offset_of!(ConfigFields, net_name) == 32);
    assert!(offset_of!(ConfigFields, split_share) == 40);
    assert!(offset_of!(ConfigFields, traffic_class) == 44);
    assert!(offset_of!(ConfigFields, comm_name) == 48);
    assert!(offset_of!(ConfigFields, collnet_enable) == 56);
    assert!(offset_of!(ConfigFields, cta_policy) == 60);
    assert!(offset_of!(ConfigFields, shrink_share) == 64);
    assert!(offset_of!(ConfigFields, nvls_ctas) == 68);
    assert!(offset_of!(ConfigFields, channels_per_net_peer) == 72);
    assert!(offset_of!(ConfigFields, nvlink_centric_sched) == 76);
    assert!(offset_of!(ConfigFields, graph_usage_mode) == 80);
    assert!(offset_of!(ConfigFields, num_rma_ctx) == 84);
    assert!(offset_of!(ConfigFields, max_p2p_peers) == 88);
    assert!(offset_of!(ConfigFields, graph_stream_ordering) == 92);
};

impl ConfigFields {
    /// Nothing is said.
    pub const UNDEFINED: Self = Self {
        size: size_of::<Self>(),
        magic: API_MAGIC,
        version: super::VERSION as c_uint,
        blocking: UNDEFINED,
        cga_cluster_size: UNDEFINED,
        min_ctas: UNDEFINED,
        max_ctas: UNDEFINED,
        net_name: std::ptr::null(),
        split_share: UNDEFINED,
        traffic_class: UNDEFINED,
        comm_name: std::ptr::null(),
        collnet_enable: UNDEFINED,
        cta_policy: UNDEFINED,
        shrink_share: UNDEFINED,
        nvls_ctas: UNDEFINED,
        channels_per_net_peer: UNDEFINED,
        nvlink_centric_sched: UNDEFINED,
        graph_usage_mode: UNDEFINED,
        num_rma_ctx: UNDEFINED,
        max_p2p_peers: UNDEFINED,
        graph_stream_ordering: UNDEFINED,
    };
}

/// A `ncclSimInfo_t`.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct SimulationInfo {
    /// Its size as the caller knows it.
    pub size: usize,
    /// What the caller's initialiser writes.
    pub magic: c_uint,
    /// The version that the caller was built with.
    pub version: c_uint,
    /// The answer, in microseconds.
    pub estimated_time_us: f32,
}

/// What a caller's initialiser writes into [`SimulationInfo::magic`].
pub const SIMULATION_MAGIC: c_uint = 0x7468_5283;

const _: () = {
    assert!(size_of::<SimulationInfo>() == 24);
    assert!(offset_of!(SimulationInfo, estimated_time_us) == 16);
};

/// The fields of a `ncclCommProperties_t` that 2.30.7 knows, the same since 2.29.7. The version of
/// 2.29.2 and 2.29.3 ends with a type of one byte where [`PropertiesFields::gin_type`] has its
/// first padding; [`super::PropertiesPointer`] writes what the caller has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are named as in the C header, which explains them")]
pub struct PropertiesFields {
    pub size: usize,
    pub magic: c_uint,
    pub version: c_uint,
    pub rank: c_int,
    pub ranks: c_int,
    pub cuda_device: c_int,
    pub nvml_device: c_int,
    pub device_api_support: bool,
    pub multimem_support: bool,
    pub gin_type: c_int,
    pub lsa_teams: c_int,
    pub host_rma_support: bool,
    pub railed_gin_type: c_int,
}

const _: () = {
    assert!(size_of::<PropertiesFields>() == 56);
    assert!(offset_of!(PropertiesFields, rank) == 16);
    assert!(offset_of!(PropertiesFields, device_api_support) == 32);
    assert!(offset_of!(PropertiesFields, multimem_support) == 33);
    assert!(offset_of!(PropertiesFields, gin_type) == 36);
    assert!(offset_of!(PropertiesFields, lsa_teams) == 40);
    assert!(offset_of!(PropertiesFields, host_rma_support) == 44);
    assert!(offset_of!(PropertiesFields, railed_gin_type) == 48);
};

/// A `ncclWaitSignalDesc_t`: how many signals of a peer a rank waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are named as in the C header, which explains them")]
pub struct SignalWait {
    pub operations: c_int,
    pub peer: c_int,
    pub signal: c_int,
    pub context: c_int,
}

const _: () = assert!(size_of::<SignalWait>() == 16);

/// A `ncclTeam_t`, which C passes and returns by value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Team {
    /// Ranks of the team.
    pub ranks: c_int,
    /// This rank in it.
    pub rank: c_int,
    /// How far apart its members stand in the communicator.
    pub stride: c_int,
}

const _: () = assert!(size_of::<Team>() == 12);
