//! Operations that make or end communicators. In a group each runs on a thread of its own.

use std::os::fd::AsFd;
use std::sync::Arc;

use msccl_collective::Rank;
use msccl_fabric::{Abort, UniqueId};
use msccl_runtime::{BufferPlaces, Communicator, Settings, SharedPart, WindowMemory};

use crate::abi::{Address, CommHandle, Out};
use crate::comm::registrations::RegisteredBuffer;
use crate::comm::{Comm, complete, handles};
use crate::fault::Fault;
use crate::guard::contain;
use crate::one_sided::OneSidedCall;
use crate::{memory, place, session, trace_switch};

/// One operation.
pub enum CommunicatorTask {
    /// Ranks meet.
    Join(Join),
    /// A communicator is made from another one.
    Derive(Derive),
    /// Memory is given up.
    Suspend(Suspension),
    /// What was given up comes back.
    Resume(Suspension),
    /// Ranks show one another memory.
    OpenWindow(OpenWindow),
    /// A one-sided transfer.
    OneSided(OneSided),
    /// Everything submitted is done, and no more calls will come.
    Finalize(Arc<Comm>, CommHandle),
    /// The communicator goes when everything submitted is done.
    Destroy(Arc<Comm>, CommHandle),
    /// The communicator, aborted already, goes.
    Release(Arc<Comm>, CommHandle),
}

/// A communicator that gives up memory, or gets it back.
pub struct Suspension {
    /// The communicator.
    pub comm: Arc<Comm>,
    /// Its handle.
    pub handle: CommHandle,
}

/// Ranks show one another memory.
pub struct OpenWindow {
    /// Their communicator.
    pub comm: Arc<Comm>,
    /// Under which this rank has registered its memory; zero, if it has none.
    pub handle: Address,
    /// The memory.
    pub buffer: RegisteredBuffer,
    /// Where C keeps the handle; becomes null if it fails.
    pub window: Out<Address>,
}

/// A one-sided transfer.
pub struct OneSided {
    /// The function that asks for it.
    pub name: &'static str,
    /// On what.
    pub comm: Arc<Comm>,
    /// What.
    pub call: OneSidedCall,
    /// In which stream.
    pub stream: u64,
}

/// How ranks find one another.
pub enum Meeting {
    /// By ids that all have.
    Ids(Vec<UniqueId>),
    /// As ranks of a communicator that grows; one of them has the id by which new ranks come.
    Grown(Arc<Comm>, Option<UniqueId>),
}

/// Ranks meet.
pub struct Join {
    /// The communicator, which C knows by its handle already.
    pub comm: Arc<Comm>,
    /// Its handle.
    pub handle: CommHandle,
    /// Where C keeps the handle; becomes null if it fails.
    pub place: Out<CommHandle>,
    /// How they find one another.
    pub meeting: Meeting,
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
    /// What it becomes.
    pub comm: Box<Comm>,
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
            CommunicatorTask::Destroy(..) | CommunicatorTask::Release(..) => None,
            _ => Some(self.comm()),
        }
    }

    /// The communicator that it is about; of one that is derived, the other one.
    fn comm(&self) -> &Arc<Comm> {
        match self {
            CommunicatorTask::Join(Join { comm, .. })
            | CommunicatorTask::Derive(Derive { parent: comm, .. })
            | CommunicatorTask::Suspend(Suspension { comm, .. })
            | CommunicatorTask::Resume(Suspension { comm, .. })
            | CommunicatorTask::OpenWindow(OpenWindow { comm, .. })
            | CommunicatorTask::OneSided(OneSided { comm, .. })
            | CommunicatorTask::Finalize(comm, _)
            | CommunicatorTask::Destroy(comm, _)
            | CommunicatorTask::Release(comm, _) => comm,
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
            CommunicatorTask::Join(_)
            | CommunicatorTask::Derive(_)
            | CommunicatorTask::Suspend(_)
            | CommunicatorTask::Resume(_)
            | CommunicatorTask::OpenWindow(_)
            | CommunicatorTask::OneSided(_) => false,
            CommunicatorTask::Finalize(..)
            | CommunicatorTask::Destroy(..)
            | CommunicatorTask::Release(..) => true,
        }
    }

    /// Whether a communicator comes of it.
    pub fn makes_communicator(&self) -> bool {
        matches!(self, CommunicatorTask::Join(_) | CommunicatorTask::Derive(_))
    }

    /// The communicator on which it comes after those of its group that came before it, if it must.
    pub fn is_ordered_on(&self) -> Option<&Arc<Comm>> {
        (!self.is_end() && !self.makes_communicator()).then(|| self.comm())
    }

    /// Does it; whoever records a graph meanwhile is not disturbed.
    pub fn run(self) -> Result<(), Fault> {
        let _beside = place::beside_captures(&self.comm().place);
        match self {
            CommunicatorTask::Join(join) => join.run(),
            CommunicatorTask::Derive(derive) => derive.run(),
            CommunicatorTask::Suspend(Suspension { comm, handle }) => {
                let suspended = contain(|| Ok(comm.taken_up()?.suspend()?));
                suspended.map_err(|fault| fault.during("CommSuspend"))?;
                comm.log_life(handle, "ncclCommSuspend", "Suspend COMPLETE");
                Ok(())
            }
            CommunicatorTask::Resume(Suspension { comm, handle }) => {
                let resumed = contain(|| Ok(comm.taken_up()?.resume()?));
                resumed.map_err(|fault| fault.during("CommResume"))?;
                comm.log_life(handle, "ncclCommResume", "Resume COMPLETE");
                Ok(())
            }
            CommunicatorTask::OpenWindow(open) => open.run(),
            CommunicatorTask::OneSided(OneSided { name, comm, call, stream }) => {
                contain(|| call.run(&comm.taken_up()?, stream)).map_err(|fault| fault.during(name))
            }
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
            CommunicatorTask::Derive(_)
            | CommunicatorTask::Suspend(_)
            | CommunicatorTask::Resume(_)
            | CommunicatorTask::OneSided(_)
            | CommunicatorTask::Finalize(..) => {}
            CommunicatorTask::OpenWindow(open) => open.give_back(),
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
        let Self { comm, handle, place, meeting, rank, ranks, settings } = self;
        let joined = contain(|| meeting.join(rank, ranks, &settings));
        let name = meeting.operation();
        match joined {
            Ok(communicator) => {
                session::remember(&settings.unmet);
                comm.meet(communicator);
                trace_switch::listen();
                comm.log_life(handle, name, "Init COMPLETE");
                Ok(())
            }
            Err(fault) => {
                meeting.failed();
                // A caller who polls still has the handle, and must abort it.
                if comm.config.blocking {
                    place.publish(CommHandle::default());
                    // Somebody may have aborted it meanwhile.
                    let _ = handles::give_back(handle, name);
                }
                Err(fault.during(name.trim_start_matches("nccl")))
            }
        }
    }
}

impl OpenWindow {
    fn run(self) -> Result<(), Fault> {
        let RegisteredBuffer { address, bytes } = self.buffer;
        let span = memory::shared(address, bytes);
        let shared = span.as_ref().map(|span| SharedPart {
            descriptor: span.descriptor.as_fd(),
            offset_bytes: span.offset_bytes as u64,
            length_bytes: span.length_bytes as u64,
        });
        let (address, bytes) = (address as u64, bytes as u64);
        let bytes = if self.handle == 0 { 0 } else { bytes };
        // Whoever registers so promises that buffers of a collective lie alike.
        let places = BufferPlaces::Same;
        let memory = WindowMemory { address, bytes, shared, places };
        let opened = contain(|| Ok(self.comm.taken_up()?.open_window(&memory)?));
        match opened {
            Ok(window) => {
                self.comm.registrations.set_window(self.handle, window);
                Ok(())
            }
            Err(fault) => {
                self.give_back();
                Err(fault.during("CommWindowRegister"))
            }
        }
    }

    fn give_back(self) {
        self.window.set(0);
        self.comm.registrations.remove(self.handle);
    }
}

impl Meeting {
    fn operation(&self) -> &'static str {
        match self {
            Meeting::Ids(_) => "ncclCommInitRank",
            Meeting::Grown(..) => "ncclCommGrow",
        }
    }

    fn join(&self, rank: Rank, ranks: u32, settings: &Settings) -> Result<Communicator, Fault> {
        match self {
            Meeting::Ids(ids) => Ok(Communicator::join(ids, rank, ranks, settings)?),
            Meeting::Grown(parent, id) => {
                parent.set_deriving(Some(settings.fabric.abort.clone()));
                let made =
                    parent.taken_up().and_then(|of| Ok(of.grow(*id, ranks, Some(settings))?));
                parent.set_deriving(None);
                if made.is_ok() {
                    parent.forget_growth_id();
                }
                made
            }
        }
    }

    /// The communicator was not made.
    fn failed(&self) {
        match self {
            Meeting::Ids(ids) => {
                session::not_made(&ids.iter().map(UniqueId::to_bytes).collect::<Vec<_>>());
            }
            Meeting::Grown(..) => {}
        }
    }
}

impl Derive {
    fn run(self) -> Result<(), Fault> {
        let Self { parent, members, place, comm, settings } = self;
        let abort = Abort::new();
        let settings = complete(settings, &comm, abort.clone());
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
        let comm = Arc::new(comm.met(abort, communicator));
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
