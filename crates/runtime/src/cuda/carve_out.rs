//! How much shared memory thread blocks take, and how multiprocessors are to be divided for them.
//!
//! A multiprocessor divides its memory into shared memory and cache when it is idle, for the kernel
//! that comes, and while thread blocks run there it is not divided anew. What a kernel gets that
//! does not say what it prefers depends on its registers and threads. One that needs more finds no
//! room there, however much lies idle; and as long as a kernel waits for room, none that was
//! launched after it begins, in whatever stream (`docs/results/2026-11-23-h200.md`, "A soak that
//! stood still"). If the first one waits for a peer, and that peer for a kernel that cannot begin,
//! ranks wait for ever.
//!
//! # Guarantees
//!
//! Multiprocessors are divided alike for all kernels that wait for peers, so that
//! [`launch::BLOCKS_EACH`] blocks of any of them have room side by side. That is no more than they
//! need, because the rest is cache, through which loads come.
//!
//! Not those of programs: they end by themselves.

use msccl_gpu::{Device, Error};
use msccl_plan::launch;

/// How kernels that wait for peers are laid out on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CarveOut {
    /// Whether thread blocks may have a stage for bulk copies.
    pub has_stage: bool,
    /// How much of the shared memory that a multiprocessor may have kernels prefer it to have.
    pub preference_percent: u32,
}

impl CarveOut {
    /// On `device`.
    pub fn of(device: Device) -> Result<Self, Error> {
        let has_bulk_copies = device.compute_capability()?.major >= 9;
        let all_bytes = device.shared_bytes_per_multiprocessor()?;
        Ok(Self::new(all_bytes, device.reserved_shared_bytes_per_block()?, has_bulk_copies))
    }

    /// Where a multiprocessor may have `all_bytes`, of which the driver takes `reserved_bytes` for
    /// every block.
    fn new(all_bytes: u32, reserved_bytes: u32, has_bulk_copies: bool) -> Self {
        let needed = |share_bytes| launch::BLOCKS_EACH * (share_bytes + reserved_bytes);
        let has_stage = has_bulk_copies && needed(launch::SHARE_BYTES_BULK) <= all_bytes;
        let widest = if has_stage { launch::SHARE_BYTES_BULK } else { launch::SHARE_BYTES };
        // The driver takes the next larger division; rounded up, that could be one too large.
        let preference_percent = (needed(widest) * 100 / all_bytes.max(1)).min(100);
        Self { has_stage, preference_percent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How multiprocessors of some compute capability can be divided: KiB of shared memory (CUDA
    /// Programming Guide, "Compute Capabilities").
    const AMPERE: [u32; 7] = [8, 16, 32, 64, 100, 132, 164];
    const HOPPER: [u32; 9] = [8, 16, 32, 64, 100, 132, 164, 196, 228];
    const DIVISIONS: [&[u32]; 4] = [&[8, 16, 32, 64, 96], &AMPERE, &[8, 16, 32, 64, 100], &HOPPER];

    /// The division for blocks that take `bytes`, as measured: the next one that has what is
    /// preferred, and as many blocks as fit into that.
    fn division_kib(all: &[u32], percent: u32, bytes: u32) -> Option<u32> {
        let preferred = (all[all.len() - 1] << 10) / 100 * percent;
        let needed = preferred.max((preferred / bytes).max(1) * bytes);
        all.iter().copied().find(|division| division << 10 >= needed)
    }

    fn on(all: &[u32], has_bulk_copies: bool) -> CarveOut {
        CarveOut::new(all[all.len() - 1] << 10, 1024, has_bulk_copies)
    }

    #[test]
    fn multiprocessors_are_divided_alike_for_all_kernels_and_two_of_any_fit() {
        for (all, has_bulk_copies) in DIVISIONS.iter().flat_map(|all| [(all, false), (all, true)]) {
            let CarveOut { has_stage, preference_percent } = on(all, has_bulk_copies);
            let staged = has_stage.then_some(launch::SHARE_BYTES_BULK);
            let shares = [Some(launch::SHARE_BYTES), staged].into_iter().flatten();
            let taken: Vec<u32> = shares.map(|share| share + 1024).collect();
            let divided: Vec<_> =
                taken.iter().map(|bytes| division_kib(all, preference_percent, *bytes)).collect();
            assert!(divided.iter().all(|of| of.is_some() && *of == divided[0]), "{divided:?}");
            let widest = taken.iter().max().copied();
            assert!(divided[0].map(|kib| kib << 10) >= widest.map(|of| launch::BLOCKS_EACH * of));
        }
    }

    #[test]
    fn what_is_not_needed_is_cache() {
        let division = |all: &[u32], has_bulk_copies| {
            let percent = on(all, has_bulk_copies).preference_percent;
            division_kib(all, percent, launch::SHARE_BYTES + 1024)
        };
        assert_eq!(division(&HOPPER, true), Some(132));
        assert_eq!(division(&AMPERE, false), Some(100));
    }

    #[test]
    fn a_stage_is_for_devices_where_two_of_them_fit() {
        assert!(on(&HOPPER, true).has_stage);
        assert!(!on(&HOPPER, false).has_stage);
        // Compute capability 12.0.
        assert!(!on(&[8, 16, 32, 64, 100], true).has_stage);
    }

    #[test]
    fn a_multiprocessor_too_small_for_two_gives_what_it_has() {
        // Compute capability 7.5.
        assert_eq!(on(&[32, 64], false).preference_percent, 100);
    }
}
