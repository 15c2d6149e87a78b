//! Virtual memory (`cuMemCreate` and `cuMemMap`), which is lent piece by piece: what one handle stands for, mapped
//! from its beginning on. `docs/MEMORY.md`, section 6, says why a piece is never taken for another, and what must not be
//! asked of a driver, or done, while the caller may be unmapping.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use msccl_gpu::{
    AddressRange, CaptureModeGuard, Context, DevicePtr, MemoryKind, VmmAllocation, VmmMapping,
};

use super::is_at;
use super::known::Entry;

/// Whether the driver gives every mapping an id of its own, found out once. Not if that cannot be found out now.
pub(super) fn can_be_told_apart(context: &Context) -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    if let Some(can) = CAN.get() {
        return *can;
    }
    // Somebody may be capturing; what happens here has nothing to do with that.
    let _relaxed = CaptureModeGuard::relaxed(context.device().driver());
    VmmMapping::have_ids(context).is_ok_and(|can| *CAN.get_or_init(|| can))
}

/// A piece on its way into the ledger: who is to map it must have its descriptor before it reads of it.
pub(super) struct Outgoing {
    /// The driver's id of the piece where it is mapped.
    pub id: u64,
    pub entry: Entry,
    /// For whoever maps it, if anybody does.
    pub descriptor: Option<OwnedFd>,
}

/// A piece as this process has mapped it.
pub(super) struct Piece {
    /// Where the mapped range begins.
    pub base: u64,
    pub length_bytes: usize,
    /// For whoever maps it, if anybody does.
    pub descriptor: Option<OwnedFd>,
}

impl Piece {
    /// The piece in which `address` lies, of which `id` is the id, if it is virtual memory that can be lent, with a descriptor if
    /// it is `mapped` by others. The caller must be using the memory, so that nobody unmaps it meanwhile.
    pub fn at(context: &Context, address: DevicePtr, id: u64, mapped: bool) -> Option<Self> {
        let driver = context.device().driver();
        // Somebody may be capturing; what happens here has nothing to do with that.
        let _relaxed = CaptureModeGuard::relaxed(driver).ok()?;
        let there = VmmAllocation::mapped_at(context, address, 0).ok()?;
        let AddressRange { base, length_bytes } = context.address_range(address).ok()?;
        // Where a range has several pieces, only the first begins where the range does, and nobody may be using that one.
        if !is_at(context, base, id) {
            return None;
        }
        let first = VmmAllocation::mapped_at(context, base, length_bytes).ok()?;
        let info = driver.pointer_info(base).ok()??;
        let own = info.kind == MemoryKind::Device && info.device == context.device().ordinal();
        if first.number() != there.number() || !own || mapped && !info.descriptor {
            return None;
        }
        let descriptor = mapped.then(|| first.export()).transpose().ok()?;
        Some(Self { base: base.0, length_bytes, descriptor })
    }
}
