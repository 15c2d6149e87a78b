//! How much shared memory thread blocks take: so much that [`launch::BLOCKS_EACH`] fit on a multiprocessor, and no more.
//!
//! A multiprocessor divides its memory into shared memory and cache when it is idle, for the kernel that comes, and while
//! thread blocks run there it is not divided anew. The driver divides it for as many blocks of that kernel as would fit,
//! which depends on their registers and threads. So a kernel that needs more finds no room there, however much lies idle;
//! and as long as a kernel waits for room, none that was launched after it begins, in whatever stream
//! (`docs/results/2026-11-23-h200.md`, "A soak that stood still"). If the first one waits for a peer, and that peer for a
//! kernel that cannot begin, ranks wait for ever.
//!
//! # Guarantees
//!
//! For all kernels that wait for peers multiprocessors are divided alike, whatever their threads, and where two blocks of
//! one of them fit, so do two of any.
//!
//! Not those of programs: they end by themselves.

use msccl_gpu::{Device, Error};
use msccl_plan::launch;

/// What a thread block takes is a multiple of this, unless its code declares more.
const GRANULE_BYTES: u32 = 1024;

/// The shared memory of a thread block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Footprint {
    /// The least that it takes of a multiprocessor.
    least_bytes: u32,
    /// What the driver takes of that.
    reserved_bytes: u32,
}

impl Footprint {
    /// On `device`.
    pub fn of(device: Device) -> Result<Self, Error> {
        let all_bytes = device.shared_bytes_per_multiprocessor()?;
        let reserved_bytes = device.reserved_shared_bytes_per_block()?;
        Ok(Self::new(all_bytes, reserved_bytes))
    }

    /// Where a multiprocessor has `all_bytes`.
    fn new(all_bytes: u32, reserved_bytes: u32) -> Self {
        let too_many = launch::BLOCKS_EACH + 1;
        let least_bytes = (all_bytes / too_many + 1).next_multiple_of(GRANULE_BYTES);
        Self { least_bytes, reserved_bytes }
    }

    /// The dynamic shared memory of a kernel whose code declares `static_bytes`.
    pub fn dynamic_bytes(self, static_bytes: u32) -> u32 {
        self.least_bytes.saturating_sub(self.reserved_bytes + static_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How multiprocessors of some compute capability can be divided: KiB of shared memory (CUDA Programming Guide,
    /// "Compute Capabilities").
    const HOPPER: [u32; 9] = [8, 16, 32, 64, 100, 132, 164, 196, 228];
    const DIVISIONS: [&[u32]; 4] =
        [&[8, 16, 32, 64, 96], &[8, 16, 32, 64, 100, 132, 164], &[8, 16, 32, 64, 100], &HOPPER];

    /// What the code of interpreters, of kernels for small calls, of special kernels and of exchanges declares.
    const STATIC_BYTES: [u32; 4] = [39_680, 6_032, 1_024, 384];

    fn division(all: &[u32], bytes: u32) -> Option<u32> {
        all.iter().copied().find(|division| division << 10 >= bytes)
    }

    #[test]
    fn multiprocessors_are_divided_alike_for_all_kernels() {
        for all in DIVISIONS {
            let all_bytes = all[all.len() - 1] << 10;
            let footprint = Footprint::new(all_bytes, 1024);
            let taken = |of: u32| footprint.dynamic_bytes(of) + of + 1024;
            for of in STATIC_BYTES {
                assert_eq!(all_bytes / taken(of), launch::BLOCKS_EACH, "{all:?} {of}");
            }
            let divided = STATIC_BYTES.map(|of| division(all, launch::BLOCKS_EACH * taken(of)));
            assert!(divided.iter().all(|of| of.is_some() && *of == divided[0]), "{divided:?}");
        }
    }

    #[test]
    fn exchanges_have_their_stage_within_the_same_division() {
        let footprint = Footprint::new(228 << 10, 1024);
        let least = footprint.dynamic_bytes(384);
        assert!(least < launch::STAGE_BYTES, "a kernel takes {least} bytes for a stage");
        let staged = launch::BLOCKS_EACH * (launch::STAGE_BYTES + 384 + 1024);
        assert_eq!(division(&HOPPER, staged), Some(164));
        assert_eq!(division(&HOPPER, launch::BLOCKS_EACH * footprint.least_bytes), Some(164));
    }
}
