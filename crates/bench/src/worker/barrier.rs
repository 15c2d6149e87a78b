//! A barrier between processes: one word of shared memory that only grows.
//!
//! It is as fast as processes can be brought together, since what follows is timed: no system call
//! while the others come soon. It has no end but theirs: whoever started the processes ends those
//! that wait for one that died.

use std::hint;
use std::sync::atomic::Ordering;
use std::thread;

use msccl_fabric::SharedMemory;

/// Bytes of shared memory that a barrier needs.
pub(crate) const BARRIER_BYTES: usize = 4096;

/// How often to look before the processor is offered to others, who may need it to arrive.
const LOOKS: u32 = 2000;

/// One rank's side of the barrier.
pub(crate) struct Barrier {
    memory: SharedMemory,
    ranks: u64,
    passed: u64,
}

impl Barrier {
    /// The barrier of `ranks` ranks in `memory`, zeroed by whoever made it.
    pub(crate) fn new(memory: SharedMemory, ranks: u32) -> Self {
        Self { memory, ranks: ranks.into(), passed: 0 }
    }

    /// Returns when every rank has called it as often as this one.
    pub(crate) fn wait(&mut self) {
        // The memory has a page.
        let Some(arrivals) = self.memory.word(0) else { return };
        self.passed += 1;
        let all = self.passed * self.ranks;
        arrivals.fetch_add(1, Ordering::AcqRel);
        let mut looks = 0;
        while arrivals.load(Ordering::Acquire) < all {
            looks += 1;
            if looks < LOOKS { hint::spin_loop() } else { thread::yield_now() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn nobody_passes_before_all_have_come() {
        let memory = SharedMemory::create(BARRIER_BYTES).unwrap();
        let arrived = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                let copy = memory.as_fd().try_clone_to_owned().unwrap();
                let copy = SharedMemory::open(copy, BARRIER_BYTES).unwrap();
                scope.spawn(|| {
                    let mut barrier = Barrier::new(copy, 3);
                    for round in 1..=50 {
                        arrived.fetch_add(1, Ordering::Relaxed);
                        barrier.wait();
                        assert!(arrived.load(Ordering::Relaxed) >= 3 * round);
                    }
                });
            }
        });
    }
}
