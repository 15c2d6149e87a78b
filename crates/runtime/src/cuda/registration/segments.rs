//! Virtual memory (`cuMemCreate` and `cuMemMap`), which is exported segment by segment: what one
//! handle stands for, mapped from its beginning on. `docs/MEMORY.md`, section 6, says why a segment
//! is never taken for another, and what must not be asked of a driver, or done, while the caller
//! may be unmapping.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use msccl_gpu::{
    AddressRange, CaptureModeGuard, Context, DevicePtr, MemoryKind, VmmAllocation, VmmMapping,
};

use super::is_at;

/// Whether the driver gives every mapping an id of its own, found out once. Not if that cannot be
/// found out now.
pub(super) fn have_distinct_ids(context: &Context) -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    if let Some(can) = CAN.get() {
        return *can;
    }
    // Somebody may be capturing; what happens here has nothing to do with that.
    let _relaxed = CaptureModeGuard::relaxed(context.device().driver());
    VmmMapping::have_ids(context).is_ok_and(|can| *CAN.get_or_init(|| can))
}

/// A segment as this process has mapped it.
pub(super) struct ImportedSegment {
    /// Where the mapped range begins.
    pub base: u64,
    pub length_bytes: usize,
    /// For whoever maps it, if anybody does.
    pub descriptor: Option<OwnedFd>,
}

impl ImportedSegment {
    /// The segment in which `address` lies, of which `id` is the id, if it is virtual memory that
    /// can be exported, with a descriptor if it is `mapped` by others. The caller must be using the
    /// memory, so that nobody unmaps it meanwhile.
    pub fn at(context: &Context, address: DevicePtr, id: u64, mapped: bool) -> Option<Self> {
        let driver = context.device().driver();
        // Somebody may be capturing; what happens here has nothing to do with that.
        let _relaxed = CaptureModeGuard::relaxed(driver).ok()?;
        let there = VmmAllocation::mapped_at(context, address, 0).ok()?;
        let AddressRange { base, length_bytes } = context.address_range(address).ok()?;
        // Where a range has several segments, only the first begins where the range does, and
        // nobody may be using that one.
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
