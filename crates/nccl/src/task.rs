//! Operations that make or end communicators. In a group each runs on a thread of its own.

use std::sync::Arc;

use msccl_collective::Rank;
use msccl_fabric::{Abort, UniqueId};
use msccl_runtime::{Communicator, PlaceOfRank, Settings};

use crate::abi::{CommHandle, Out};
use crate::comm::config::Config;
use crate::comm::{Comm, complete, handles};
use crate::fault::Fault;
use crate::guard::contain;
use crate::{place, session};

/// One operation.
pub enum CommunicatorTask {
    /// Ranks meet.
    Join(Join),
    /// A communicator is made from another one.
    Derive(Derive),
    /// Everything submitted is done, and no more calls will come.
    Finalize(Arc<Comm>, CommHandle),
    /// The communicator goes when everything submitted is done.
    Destroy(Arc<Comm>, CommHandle),
    /// The communicator, aborted already, goes.
    Release(Arc<Comm>, CommHandle),
}

/// Ranks meet.
pub struct Join {
    /// The communicator, which C knows by its handle already.
    pub comm: Arc<Comm>,
    /// Its handle.
    pub handle: CommHandle,
    /// Where C keeps the handle; becomes null if it fails.
    pub place: Out<CommHandle>,
    /// By which they find one another.
    pub ids: Vec<UniqueId>,
    /// This rank.
    pub rank: Rank,
    /// All ranks.
    pub ranks: u32,
    /// How.
    pub settings: Settings,
}

/// A communicator is made from another one.
pub struct Derive {
    /// The other one.
    pub parent: Arc<Comm>,
    /// Which ranks it has.
    pub members: Members,
    /// Where C wants its handle, which it has seen as null.
    pub place: Out<CommHandle>,
    /// How it behaves.
    pub config: Config,
    /// How it is made.
    pub settings: Settings,
}

/// Which ranks a communicator takes over from another one.
pub enum Members {
    /// Those of one color, in order of their keys.
    Color(Option<u32>, i32),
    /// All but these; and whether the other one is aborted first.
    Without(Vec<Rank>, bool),
}

impl CommunicatorTask {
    /// The communicator that C can ask how far it is, if there is one.
    pub fn concerns(&self) -> Option<&Arc<Comm>> {
        match self {
            CommunicatorTask::Join(join) => Some(&join.comm),
            CommunicatorTask::Derive(derive) => Some(&derive.parent),
            CommunicatorTask::Finalize(comm, _) => Some(comm),
            CommunicatorTask::Destroy(..) | CommunicatorTask::Release(..) => None,
        }
    }

    /// Where its rank runs.
    fn place(&self) -> &PlaceOfRank {
        match self {
            CommunicatorTask::Join(Join { comm, .. })
            | CommunicatorTask::Derive(Derive { parent: comm, .. })
            | CommunicatorTask::Finalize(comm, _)
            | CommunicatorTask::Destroy(comm, _)
            | CommunicatorTask::Release(comm, _) => &comm.place,
        }
    }

    /// Whether the caller waits until it is done; `None` if that is as the rest of its group has
    /// it.
    pub fn is_blocking(&self) -> Option<bool> {
        self.concerns().map(|comm| comm.config.blocking)
    }

    /// Whether it ends a communicator, and so comes after the calls of its group.
    pub fn is_end(&self) -> bool {
        match self {
            CommunicatorTask::Join(_) | CommunicatorTask::Derive(_) => false,
            CommunicatorTask::Finalize(..)
            | CommunicatorTask::Destroy(..)
            | CommunicatorTask::Release(..) => true,
        }
    }

    /// Does it; whoever records a graph meanwhile is not disturbed.
    pub fn run(self) -> Result<(), Fault> {
        let _beside = place::beside_captures(self.place());
        match self {
            CommunicatorTask::Join(join) => join.run(),
            CommunicatorTask::Derive(derive) => derive.run(),
            CommunicatorTask::Finalize(comm, handle) => {
                contain(|| comm.finish())?;
                comm.log_life(handle, "ncclCommFinalize", "Finalize COMPLETE");
                Ok(())
            }
            CommunicatorTask::Destroy(comm, handle) => destroy(&comm, handle),
            CommunicatorTask::Release(comm, handle) => {
                comm.wait_idle();
                comm.log_life(handle, "ncclCommAbort", "Abort COMPLETE");
                contain(|| {
                    comm.release();
                    Ok(())
                })
            }
        }
    }

    /// Does not do it, unless it frees something.
    pub fn cancel(self) {
        match self {
            CommunicatorTask::Join(Join { handle, place, .. }) => {
                place.publish(CommHandle::default());
                // It is in the table, since it has not been given to anyone else to give back.
                let _ = handles::give_back(handle, "CommInitRank");
            }
            CommunicatorTask::Derive(_) | CommunicatorTask::Finalize(..) => {}
            CommunicatorTask::Destroy(..) | CommunicatorTask::Release(..) => {
                let _ = self.run();
            }
        }
    }
}

/// Waits for what was submitted, and frees. That the communicator has failed was said before, and
/// is no reason to fail again.
fn destroy(comm: &Comm, handle: CommHandle) -> Result<(), Fault> {
    let finished = contain(|| comm.finish());
    let what = if finished.is_ok() { "Destroy COMPLETE" } else { "Destroy after failure" };
    comm.log_life(handle, "ncclCommDestroy", what);
    contain(|| {
        comm.release();
        Ok(())
    })
}

impl Join {
    fn run(self) -> Result<(), Fault> {
        let Self { comm, handle, place, ids, rank, ranks, settings } = self;
        let joined = contain(|| Ok(Communicator::join(&ids, rank, ranks, &settings)?));
        match joined {
            Ok(communicator) => {
                session::remember(&settings.unmet);
                comm.meet(communicator);
                comm.log_life(handle, "ncclCommInitRank", "Init COMPLETE");
                Ok(())
            }
            Err(fault) => {
                session::not_made(&ids.iter().map(UniqueId::to_bytes).collect::<Vec<_>>());
                // A caller who polls still has the handle, and must abort it.
                if comm.config.blocking {
                    place.publish(CommHandle::default());
                    // Somebody may have aborted it meanwhile.
                    let _ = handles::give_back(handle, "CommInitRank");
                }
                Err(fault.during("CommInitRank"))
            }
        }
    }
}

impl Derive {
    fn run(self) -> Result<(), Fault> {
        let Self { parent, members, place, config, settings } = self;
        let abort = Abort::new();
        let settings = complete(settings, &config, &parent.place, abort.clone());
        let name = members.operation();
        parent.set_deriving(Some(abort.clone()));
        let made = contain(|| members.make(&parent.taken_up()?, &settings));
        let made = made.map_err(|fault| fault.during(name));
        let Ok(Some(communicator)) = made else {
            parent.set_deriving(None);
            return made.map(|_| ());
        };
        // Which rank is the first one is known only now.
        if communicator.rank() == Rank(0) {
            session::say(&settings.unmet);
        } else {
            session::remember(&settings.unmet);
        }
        let comm = Comm::met(config, parent.place.clone(), abort, communicator);
        let comm = Arc::new(comm);
        let handle = handles::enrol(Arc::clone(&comm));
        comm.log_life(handle, name, "Init COMPLETE");
        if parent.derived(|| place.publish(handle)) {
            return Ok(());
        }
        // Nobody would get it, and its peers might wait for its calls.
        comm.abort("its parent was aborted when it was made");
        let _ = handles::give_back(handle, name);
        comm.release();
        Err(Fault::usage("the communicator was aborted").during(name))
    }
}

impl Members {
    fn operation(&self) -> &'static str {
        match self {
            Members::Color(..) => "ncclCommSplit",
            Members::Without(..) => "ncclCommShrink",
        }
    }

    fn make(
        &self,
        parent: &Communicator,
        settings: &Settings,
    ) -> Result<Option<Communicator>, Fault> {
        match self {
            Members::Color(color, key) => Ok(parent.split(*color, *key, Some(settings))?),
            Members::Without(exclude, abort) => {
                Ok(Some(parent.shrink(exclude, *abort, Some(settings))?))
            }
        }
    }
}
