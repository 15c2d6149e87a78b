//! Virtual memory (`cuMemCreate` and `cuMemMap`), which is lent piece by piece: what one handle stands for, mapped
//! from its beginning on. `docs/MEMORY.md`, section 6, says why a piece is never taken for another.

use std::os::fd::OwnedFd;

use msccl_gpu::{AddressRange, CaptureModeGuard, Context, DevicePtr, MemoryKind, VmmAllocation};

use super::known::Entry;

/// A piece that is in the ledger.
pub(super) struct LentPiece {
    pub entry: Entry,
    /// While it is held, no other memory has its number.
    pub _held: VmmAllocation,
}

/// A piece on its way into the ledger: other processes must have its descriptor before they read of it.
pub(super) struct Outgoing {
    pub entry: Entry,
    /// The driver's number of the piece, in this process.
    pub number: u64,
    /// For other processes, if there are any.
    pub descriptor: Option<OwnedFd>,
}

/// A piece as this process has mapped it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// The driver's number of it, in this process.
    pub number: u64,
    /// Where the mapped range begins.
    pub base: u64,
    pub length_bytes: usize,
}

impl Piece {
    /// The piece in which `address` lies, if that is virtual memory.
    pub fn at(context: &Context, address: u64) -> Option<Self> {
        // Somebody may be capturing; what happens here has nothing to do with that.
        let _relaxed = CaptureModeGuard::relaxed(context.device().driver()).ok()?;
        let number = VmmAllocation::mapped_at(context, DevicePtr(address), 0).ok()?.number();
        let AddressRange { base, length_bytes } = context.address_range(DevicePtr(address)).ok()?;
        Some(Self { number, base: base.0, length_bytes })
    }

    /// Holds it, with a descriptor for other processes where it `travels`; `None` if it cannot be lent. Of a range of
    /// several pieces only the first begins where the range does.
    pub fn hold(
        self,
        context: &Context,
        travels: bool,
    ) -> Option<(VmmAllocation, Option<OwnedFd>)> {
        let driver = context.device().driver();
        let _relaxed = CaptureModeGuard::relaxed(driver).ok()?;
        let Self { number, base, length_bytes } = self;
        let held = VmmAllocation::mapped_at(context, DevicePtr(base), length_bytes).ok()?;
        let info = driver.pointer_info(DevicePtr(base)).ok()??;
        let own = info.kind == MemoryKind::Device && info.device == context.device().ordinal();
        if held.number() != number || !own || travels && !info.descriptor {
            return None;
        }
        let descriptor = travels.then(|| held.export()).transpose().ok()?;
        Some((held, descriptor))
    }
}
