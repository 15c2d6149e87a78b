//! A communicator as C sees it: one rank's, behind a handle.
//!
//! A [`Comm`] exists before its ranks have met ([`Phase::Joining`]) and after its runtime
//! communicator is gone, for as long as some thread is in one of its calls; the handle
//! ([`handles`]) may be gone earlier. That is what makes it safe to abort from another thread.
//!
//! Guarantees: a call sees the communicator in one phase; the first failure is kept; an abort
//! reaches whatever is under way, a join too.

pub mod config;
pub mod handles;
mod lines;
pub mod operators;
pub mod registrations;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use msccl_fabric::{Abort, UniqueId};
use msccl_runtime::{Communicator, PlaceOfRank, Settings};

use crate::abi::Code;
use crate::fault::{Fault, code_of};
use crate::log::Scope;
use crate::observation::Observation;
use crate::place;
use crate::process::Process;

use config::Config;
use operators::Operators;
use registrations::Registrations;

/// One rank's communicator.
pub struct Comm {
    /// How it behaves.
    pub config: Config,
    /// Where its rank runs.
    pub place: PlaceOfRank,
    /// Operators that the caller made.
    pub operators: Operators,
    /// Buffers and windows that the caller registered.
    pub registrations: Registrations,
    /// The process that made it, and alone may use it.
    pub maker: Process,
    /// Who follows its calls, if anybody does.
    pub observation: Option<Arc<Observation>>,
    calls: AtomicU64,
    abort: Abort,
    /// By which new ranks come, until it has grown.
    growth_id: Mutex<Option<UniqueId>>,
    life: Mutex<Life>,
    changed: Condvar,
}

struct Life {
    phase: Phase,
    /// Operations that go on in the background.
    pending: u32,
    /// Those of them that were under way when it was revoked, and so may fail.
    forgiven: u32,
    /// What an operation in the background failed with.
    failure: Option<Fault>,
    /// Ends the making of a communicator from this one.
    deriving: Option<Abort>,
    communicator: Option<Communicator>,
}

/// How far a communicator has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Its ranks have not met.
    Joining,
    /// It takes calls.
    Ready,
    /// The caller said that no more calls will come.
    Finalized,
    /// The caller took it back: it can be split, shrunk and destroyed.
    Revoked,
    /// It is destroyed or aborted.
    Gone,
}

impl Life {
    fn member(&self) -> Result<&Communicator, Fault> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => self.survivor(),
        }
    }

    fn survivor(&self) -> Result<&Communicator, Fault> {
        let idle = self.communicator.as_ref().filter(|_| self.pending == 0);
        idle.ok_or_else(|| Fault::argument(TOO_EARLY))
    }
}

/// NCCL's text for a call that comes too early.
const TOO_EARLY: &str =
    "Attempt to use communicator before the previous operation returned ncclSuccess";

impl Comm {
    /// A communicator whose ranks have not met.
    pub fn joining(
        config: Config,
        place: PlaceOfRank,
        observation: Option<Arc<Observation>>,
    ) -> Self {
        Self {
            observation,
            config,
            place,
            operators: Operators::default(),
            registrations: Registrations::default(),
            maker: Process::current(),
            calls: AtomicU64::new(0),
            abort: Abort::new(),
            growth_id: Mutex::default(),
            life: Mutex::new(Life {
                phase: Phase::Joining,
                pending: 0,
                forgiven: 0,
                failure: None,
                deriving: None,
                communicator: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// It has met: what a split gives. `abort` is what its settings had.
    pub fn met(self, abort: Abort, communicator: Communicator) -> Self {
        let comm = Self { abort, ..self };
        comm.meet(communicator);
        comm
    }

    /// `settings` for this communicator's join: its abort ends them, and they log to its log.
    pub fn settings(&self, settings: Settings) -> Settings {
        complete(settings, self, self.abort.clone())
    }

    /// What it says goes to the log under its device.
    pub fn scope(&self) -> Scope {
        Scope { device: self.device() }
    }

    /// The number of its device; see [`place::number`].
    pub fn device(&self) -> i32 {
        place::number(&self.place)
    }

    /// Its ranks have met.
    pub fn meet(&self, communicator: Communicator) {
        let mut life = self.life();
        if life.phase == Phase::Gone {
            communicator.abort("it was aborted while its ranks met");
            return;
        }
        life.phase = Phase::Ready;
        life.communicator = Some(communicator);
    }

    /// The runtime's communicator, for a call.
    ///
    /// # Errors
    ///
    /// It does not take calls now, or has failed.
    pub fn ready(&self) -> Result<Communicator, Fault> {
        let life = self.life();
        let communicator = life.member()?;
        match life.phase {
            Phase::Ready => {}
            Phase::Joining => return Err(Fault::argument(TOO_EARLY)),
            Phase::Finalized => return Err(Fault::usage("the communicator was finalized")),
            Phase::Revoked => return Err(Fault::usage("the communicator was revoked")),
            Phase::Gone => return Err(Fault::argument("the communicator was destroyed")),
        }
        communicator.error().map_or_else(|| Ok(communicator.clone()), |error| Err(error.into()))
    }

    /// The runtime's communicator, for what is legal whatever its calls have come to: queries and
    /// splitting.
    ///
    /// # Errors
    ///
    /// Its ranks have not met, or an operation in the background goes on or has failed.
    pub fn member(&self) -> Result<Communicator, Fault> {
        self.life().member().cloned()
    }

    /// The runtime's communicator, for what is legal even after a failure in the background:
    /// shrinking.
    ///
    /// # Errors
    ///
    /// Its ranks have not met, or an operation goes on in the background.
    pub fn survivor(&self) -> Result<Communicator, Fault> {
        self.life().survivor().cloned()
    }

    /// The runtime's communicator, for what was checked when it was taken up.
    ///
    /// # Errors
    ///
    /// It is gone by now.
    pub fn taken_up(&self) -> Result<Communicator, Fault> {
        let communicator = self.life().communicator.clone();
        communicator.ok_or_else(|| Fault::usage("the communicator is gone"))
    }

    /// A communicator is being made from this one, and `abort` ends that; nothing once it is made.
    pub fn set_deriving(&self, abort: Option<Abort>) {
        let mut life = self.life();
        if let (Phase::Gone, Some(abort)) = (life.phase, &abort) {
            abort.raise("its parent is gone");
        }
        life.deriving = abort;
    }

    /// A communicator was made from this one: `publish` gives it to the caller, unless this one is
    /// gone. Whoever ends this one therefore knows whether there is another one to be ended.
    pub fn derived(&self, publish: impl FnOnce()) -> bool {
        let mut life = self.life();
        life.deriving = None;
        let is_there = life.phase != Phase::Gone;
        if is_there {
            publish();
        }
        is_there
    }

    /// An id by which new ranks come, made by `make`.
    ///
    /// # Errors
    ///
    /// There is one that has not been used, or none can be made.
    pub fn make_growth_id(
        &self,
        make: impl FnOnce() -> Result<UniqueId, Fault>,
    ) -> Result<UniqueId, Fault> {
        let mut growth_id = self.growth_id.lock().unwrap_or_else(PoisonError::into_inner);
        if growth_id.is_some() {
            let text = "an id was made before, and the communicator has not grown since";
            return Err(Fault::usage(text));
        }
        Ok(*growth_id.insert(make()?))
    }

    /// The id by which new ranks come, if one was made here.
    pub fn growth_id(&self) -> Option<UniqueId> {
        *self.growth_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has grown: the id that was made for that is used up.
    pub fn forget_growth_id(&self) {
        *self.growth_id.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What `ncclCommGetAsyncError` answers.
    pub fn asynchronous(&self) -> Code {
        let life = self.life();
        if let Some(failure) = &life.failure {
            return failure.code;
        }
        if life.pending > 0 || life.phase == Phase::Joining {
            return Code::InProgress;
        }
        if life.phase == Phase::Revoked {
            return Code::Success;
        }
        let error = life.communicator.as_ref().and_then(Communicator::error);
        error.map_or(Code::Success, |error| code_of(&error))
    }

    /// An operation goes on in the background.
    pub fn begin(&self) {
        self.life().pending += 1;
    }

    /// An operation in the background has ended.
    pub fn end(&self, result: Result<(), Fault>) {
        let mut life = self.life();
        life.pending = life.pending.saturating_sub(1);
        // Others begin when none of these is left.
        let is_forgiven = life.forgiven > 0;
        life.forgiven = life.forgiven.saturating_sub(1);
        if let Err(fault) = result
            && !is_forgiven
        {
            life.failure.get_or_insert(fault);
        }
        drop(life);
        self.changed.notify_all();
    }

    /// Makes sure that nothing goes on in the background.
    ///
    /// # Errors
    ///
    /// Something does.
    pub fn idle(&self) -> Result<(), Fault> {
        match self.life().pending {
            0 => Ok(()),
            _ => Err(Fault::argument(TOO_EARLY)),
        }
    }

    /// Waits until nothing goes on in the background.
    pub fn wait_idle(&self) {
        let mut life = self.life();
        while life.pending > 0 {
            life = self.changed.wait(life).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// No more calls will come.
    pub fn finalize(&self) -> Result<(), Fault> {
        let mut life = self.life();
        match life.phase {
            Phase::Ready if life.pending == 0 => life.phase = Phase::Finalized,
            Phase::Ready | Phase::Joining => return Err(Fault::argument(TOO_EARLY)),
            Phase::Finalized => return Err(Fault::argument("it was finalized before")),
            Phase::Revoked | Phase::Gone => {
                return Err(Fault::argument("it was revoked or destroyed before"));
            }
        }
        Ok(())
    }

    /// The caller takes it back: what is under way gives up, and what has failed is forgotten,
    /// since it can be split and shrunk all the same.
    ///
    /// # Errors
    ///
    /// Its ranks have not met; it was finalized, revoked or destroyed before; or its device fails.
    pub fn revoke(&self, reason: &str) -> Result<(), Fault> {
        let mut life = self.life();
        match (life.phase, life.communicator.clone()) {
            (Phase::Ready, Some(communicator)) => {
                life.phase = Phase::Revoked;
                (life.failure, life.forgiven) = (None, life.pending);
                drop(life);
                Ok(communicator.revoke(reason)?)
            }
            (Phase::Joining | Phase::Ready, _) => Err(Fault::argument(TOO_EARLY)),
            (Phase::Finalized | Phase::Revoked | Phase::Gone, _) => {
                Err(Fault::argument("it was finalized, revoked or destroyed before"))
            }
        }
    }

    /// Makes everything under way give up, and the communicator go. Does not wait.
    pub fn abort(&self, reason: &str) {
        let communicator = {
            let mut life = self.life();
            life.phase = Phase::Gone;
            if let Some(deriving) = &life.deriving {
                deriving.raise(reason);
            }
            life.communicator.clone()
        };
        if let Some(communicator) = communicator {
            // First, as it may have a hang report to print and needs its peers for that.
            communicator.abort(reason);
        }
        self.abort.raise(reason);
    }

    /// Whether it is destroyed or aborted.
    pub fn is_gone(&self) -> bool {
        self.phase() == Phase::Gone
    }

    /// Gives up the runtime's communicator, which frees what it holds when no call is left in it.
    pub fn release(&self) {
        let communicator = {
            let mut life = self.life();
            life.phase = Phase::Gone;
            life.communicator.take()
        };
        drop(communicator);
    }

    /// Waits until everything submitted is done.
    ///
    /// # Errors
    ///
    /// The communicator has failed.
    pub fn finish(&self) -> Result<(), Fault> {
        let communicator = self.life().communicator.clone();
        Ok(communicator.map_or(Ok(()), |communicator| communicator.finish())?)
    }

    fn phase(&self) -> Phase {
        self.life().phase
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `settings` completed by what one communicator knows.
pub fn complete(settings: Settings, comm: &Comm, abort: Abort) -> Settings {
    let Comm { config, place, observation, .. } = comm;
    let scope = Scope { device: place::number(place) };
    let mut settings = settings;
    settings.observer = observation.clone().map(|observation| observation as _);
    settings.fabric.abort = abort;
    settings.fabric.log = scope.for_fabric();
    settings.proxy.log = scope.for_proxy();
    settings.proxy.processors = place::processors(place);
    settings.proxy.rdma = config.rdma(settings.proxy.rdma);
    settings.log = scope.for_runtime();
    settings.place = place.clone();
    settings.overrides.blocks_max = config.ctas_max;
    settings.overrides.cta_policy = config.cta_policy;
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::Requests;

    fn comm() -> Comm {
        Comm::joining(Config::usual(&Requests::default()), PlaceOfRank::Host, None)
    }

    #[test]
    fn before_its_ranks_have_met_it_takes_no_calls() {
        let comm = comm();
        assert_eq!(comm.asynchronous(), Code::InProgress);
        assert_eq!(comm.ready().unwrap_err().text, TOO_EARLY);
        assert_eq!(comm.finalize().unwrap_err().code, Code::InvalidArgument);
        assert_eq!(comm.device(), -1);
    }

    #[test]
    fn the_first_failure_in_the_background_is_kept() {
        let comm = comm();
        comm.begin();
        comm.begin();
        comm.end(Err(Fault::new(Code::RemoteError, "first")));
        comm.end(Err(Fault::new(Code::SystemError, "second")));
        comm.wait_idle();
        assert_eq!(comm.asynchronous(), Code::RemoteError);
        assert_eq!(comm.member().unwrap_err().text, "first");
    }

    #[test]
    fn an_abort_reaches_the_join() {
        let comm = comm();
        let settings = comm.settings(Settings::default());
        comm.abort("enough");
        assert_eq!(settings.fabric.abort.reason(), Some("enough"));
        assert!(comm.is_gone());
    }
}
