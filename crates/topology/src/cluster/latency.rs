//! How long the first byte takes, where nothing states it.
//!
//! NCCL's figures are those of `src/graph/tuning.cc` for its protocol LL round a ring: 0.6 µs by
//! NVLink, 1.0 µs by PCI, 2.7 µs by a network, from GPU to GPU. They are shared out among the links
//! of such a path.

/// NVLink from GPU to GPU. Published: NCCL's figure for NVLink.
pub const NVLINK_NS: u32 = 600;

/// NVLink between a GPU and a switch. Measured: a flag takes 0.74 µs from GPU to GPU, by an
/// NVSwitch between eight H200s.
pub const NVSWITCH_NS: u32 = 370;

/// xGMI from GPU to GPU. Assumed: as NVLink.
pub const XGMI_NS: u32 = 600;

/// A PCI link. Published: NCCL's figure for PCI, half of it for each of two links.
pub const PCI_NS: u32 = 500;

/// Between processors. Assumed: as a PCI link.
pub const SOCKET_NS: u32 = 500;

/// Between a NIC and its network. Published: NCCL's figure for networks, less two PCI links at
/// either end, half of it for each of two cables.
pub const CABLE_NS: u32 = 350;
