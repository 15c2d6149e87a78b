//! A barrier between processes: one word of shared memory that only grows, or, where ranks live on
//! several hosts, messages.
//!
//! It is as fast as processes can be brought together, since what follows is timed: no system call
//! while the others come soon. It has no timeout: the process that started the workers ends those
//! that wait for one that died.

use std::hint;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use msccl_collective::Rank;
use msccl_fabric::{Group, JoinRequest, Settings, SharedMemory, UniqueId};

use crate::error::Error;

/// Bytes of shared memory that a barrier needs.
pub(crate) const BARRIER_BYTES: usize = 4096;

/// How often to look before the processor is offered to others, who may need it to arrive.
const LOOKS: u32 = 2000;

/// How long ranks of a launch wait for one another to come.
const MEETING_TIMEOUT: Duration = Duration::from_secs(60);

/// The tag of the descriptor of shared memory.
const MEMORY_TAG: u64 = 1;

/// One rank's side of the barrier.
pub(crate) struct Barrier(BarrierKind);

enum BarrierKind {
    /// Over memory that all ranks share; arrivals are counted.
    Memory { memory: SharedMemory, ranks: u64, passed: u64 },
    /// Over the network: ranks of several hosts begin within its latency.
    Network(Group),
}

impl Barrier {
    /// The barrier of `ranks` ranks in `memory`, which is zero at first.
    pub(crate) fn new(memory: SharedMemory, ranks: u32) -> Self {
        Self(BarrierKind::Memory { memory, ranks: ranks.into(), passed: 0 })
    }

    /// The barrier of ranks that meet by `id`: in memory that rank 0 makes if all can share it.
    pub(crate) fn meet(id: UniqueId, rank: u32, ranks: u32) -> Result<Self, Error> {
        let settings = Settings { join_timeout: MEETING_TIMEOUT, ..Settings::default() };
        let (facts, description) = (vec![], vec![]);
        let newcomer = JoinRequest { rank: Rank(rank), ranks, facts, description };
        let group = Group::join(&[id], &newcomer, &settings)?;
        let first = group.peer(Rank(0));
        let shared = group.peers().all(|peer| first.is_some_and(|it| it.shares_descriptors(peer)));
        if !shared {
            return Ok(Self(BarrierKind::Network(group)));
        }
        let memory = share_memory(&group)?;
        // Whoever leaves early takes its descriptors along.
        group.barrier()?;
        Ok(Self::new(memory, ranks))
    }

    /// Returns when every rank has called it as often as this one.
    pub(crate) fn wait(&mut self) -> Result<(), Error> {
        match &mut self.0 {
            BarrierKind::Network(group) => Ok(group.barrier()?),
            BarrierKind::Memory { memory, ranks, passed } => {
                *passed += 1;
                wait_in(memory, *passed * *ranks);
                Ok(())
            }
        }
    }
}

/// Counts this arrival in `memory` and waits for all of `arrivals`.
fn wait_in(memory: &SharedMemory, arrivals: u64) {
    // The memory has a page.
    let Some(word) = memory.word(0) else { return };
    word.fetch_add(1, Ordering::AcqRel);
    let mut looks = 0;
    while word.load(Ordering::Acquire) < arrivals {
        looks += 1;
        if looks < LOOKS { hint::spin_loop() } else { thread::yield_now() }
    }
}

/// Memory that rank 0 of `group` makes and all others map.
fn share_memory(group: &Group) -> Result<SharedMemory, Error> {
    if group.rank() != Rank(0) {
        let descriptor = group.receive_fd(Rank(0), MEMORY_TAG)?;
        return Ok(SharedMemory::open(descriptor, BARRIER_BYTES)?);
    }
    let memory = SharedMemory::create(BARRIER_BYTES)?;
    for peer in group.peers().skip(1) {
        group.send_fd(peer.rank, MEMORY_TAG, memory.descriptor()?)?;
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn nobody_passes_before_all_have_come() {
        let memory = SharedMemory::create(BARRIER_BYTES).unwrap();
        let arrived = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                let copy = memory.descriptor().unwrap().try_clone_to_owned().unwrap();
                let copy = SharedMemory::open(copy, BARRIER_BYTES).unwrap();
                scope.spawn(|| {
                    let mut barrier = Barrier::new(copy, 3);
                    for round in 1..=50 {
                        arrived.fetch_add(1, Ordering::Relaxed);
                        barrier.wait().unwrap();
                        assert!(arrived.load(Ordering::Relaxed) >= 3 * round);
                    }
                });
            }
        });
    }

    #[test]
    fn ranks_of_several_processes_meet_by_an_id() {
        let settings = Settings::default();
        let id = UniqueId::create(&settings).unwrap();
        let arrived = AtomicU32::new(0);
        thread::scope(|scope| {
            for rank in 0..3 {
                let arrived = &arrived;
                scope.spawn(move || {
                    let mut barrier = Barrier::meet(id, rank, 3).unwrap();
                    assert!(matches!(barrier.0, BarrierKind::Memory { .. }));
                    for round in 1..=20 {
                        arrived.fetch_add(1, Ordering::Relaxed);
                        barrier.wait().unwrap();
                        assert!(arrived.load(Ordering::Relaxed) >= 3 * round);
                    }
                });
            }
        });
    }
}
