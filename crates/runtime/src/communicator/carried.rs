//! Collectives whose outputs all lie in windows at the same place, so that copy engines can carry
//! them: every rank knows where those of its peers lie, without a word.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use msccl_select::{CallShape, Combined, Decision, EngineWork};

use super::Communicator;
use super::window::Parts;
use crate::call::CollectiveCall;
use crate::engine::{SIGNAL_BYTES, ShownMemory};
use crate::error::{Error, ErrorKind};
use crate::event::Event;

/// The windows of a rank in which all ranks have the buffers of a collective at the same place, by
/// where they begin, and their number.
#[derive(Default)]
pub(crate) struct AlignedWindows {
    open: Mutex<BTreeMap<(u64, u64), Arc<AlignedWindow>>>,
    /// Of which calls was logged what carries them, or why copy engines do not.
    logged: Mutex<HashSet<(CallShape, Option<Unaligned>)>>,
}

/// One of them.
struct AlignedWindow {
    number: u64,
    own: ShownMemory,
    /// Gone when the window is closed.
    parts: Weak<Parts>,
    addresses: OnceLock<Result<RankAddresses, Unaligned>>,
}

/// Where a rank reaches what all ranks show.
struct RankAddresses {
    /// By rank: where it begins.
    starts: Vec<u64>,
    /// How much all of them show.
    bytes: u64,
}

/// Why copy engines cannot carry a call with such an output.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Unaligned {
    NoWindow,
    Smaller,
    Unreachable,
    Permanent,
}

impl fmt::Display for Unaligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoWindow => {
                "its output lies in no window that all ranks have registered as symmetric \
                 (`ncclCommWindowRegister`)"
            }
            Self::Smaller => "its output goes past the end of the window of another rank",
            Self::Unreachable => "some rank cannot map the window of another one",
            Self::Permanent => {
                "the window of a rank lies in memory that its peers cannot be kept from after a \
                 failure; memory of `ncclMemAlloc` can be"
            }
        })
    }
}

/// A collective that copy engines can carry.
pub(super) struct Carried {
    /// How.
    pub decision: Arc<Decision>,
    /// Of a reduction: who has the parts of its result.
    pub combined: Option<Combined>,
    /// By rank: where its output begins, as this rank reaches it.
    pub outputs: Vec<u64>,
    /// The same of the signals of its blocks, if they lie in a window, too.
    pub signals: Option<Vec<u64>>,
}

impl AlignedWindows {
    /// Window `number` shows `own` memory of this rank.
    pub(super) fn open(&self, number: u64, own: ShownMemory, parts: &Arc<Parts>) {
        let (parts, addresses) = (Arc::downgrade(parts), OnceLock::new());
        let window = Arc::new(AlignedWindow { number, own, parts, addresses });
        let mut windows = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        windows.retain(|_, window| window.parts.strong_count() > 0);
        windows.insert((own.address, number), window);
    }

    /// The last open window that begins before `address`, if as much as `bytes` from there on lie
    /// inside.
    fn find(&self, address: u64, bytes: u64) -> Option<Arc<AlignedWindow>> {
        let windows = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let before = windows.range(..=(address, u64::MAX)).rev();
        let mut open = before.map(|(_, window)| window).filter(|of| of.parts.strong_count() > 0);
        let window = open.next()?;
        let end = address.checked_sub(window.own.address)?.checked_add(bytes)?;
        (end <= window.own.bytes).then(|| window.clone())
    }
}

impl Communicator {
    /// How copy engines carry `call`, if they are to, and its output lies in a window as that of
    /// every other rank must.
    pub(super) fn carried(
        &self,
        call: &CollectiveCall,
        signals: u64,
    ) -> Result<Option<Carried>, Error> {
        let inner = &self.inner;
        if !inner.selector.may_carry(&call.shape) {
            return Ok(None);
        }
        let Some(decision) = inner.selector.choose_carried(&call.shape) else {
            return Ok(None);
        };
        let (receive, blocks) = (call.buffers.receive, call.blocks(self.rank(), self.ranks()));
        let bytes = blocks.output * call.shape.block_bytes();
        let combined = match decision.engine_work.as_deref() {
            Some(EngineWork::Reduction { combined, blocks: _ }) => Some(*combined),
            Some(EngineWork::Copies(_)) | None => None,
        };
        // Signals of the blocks of a result are set in its end.
        if combined.is_some() && signals != 0 {
            return Ok(None);
        }
        let outputs = match combined {
            Some(_) if !inner.engine.has_inboxes()? => Err(Unaligned::Unreachable),
            // Peers write to no output.
            Some(Combined::Own) => Ok(Vec::new()),
            Some(Combined::All) | None => self.aligned(receive, bytes)?,
        };
        self.log_carried(call, &decision, outputs.as_ref().err().copied());
        let Ok(outputs) = outputs else { return Ok(None) };
        let signals = match signals {
            0 => None,
            address => self.aligned(address, SIGNAL_BYTES * blocks.output)?.ok(),
        };
        Ok(Some(Carried { decision, combined, outputs, signals }))
    }

    /// Logs once of each shape of call what carries it, and once why copy engines do not.
    fn log_carried(&self, call: &CollectiveCall, decision: &Decision, why_not: Option<Unaligned>) {
        let mut logged = self.inner.windows.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if !logged.insert((call.shape, why_not)) {
            return;
        }
        match why_not {
            None => self.log_decision(call, decision),
            // Nobody asked for it.
            Some(_) if !self.inner.selector.user_asks_for_copy_engines() => {}
            Some(why) => self.inner.log(&Event::PassedOver {
                call: self.described(call),
                reason: format!("copy engines do not carry it: {why}"),
            }),
        }
    }

    /// By rank: where this rank reaches what lies where `bytes` bytes from `address` on lie here,
    /// if all ranks have that in a window.
    fn aligned(&self, address: u64, bytes: u64) -> Result<Result<Vec<u64>, Unaligned>, Error> {
        let Some(window) = self.inner.windows.find(address, bytes) else {
            return Ok(Err(Unaligned::NoWindow));
        };
        let addresses = match self.addresses_in(&window)? {
            Ok(addresses) => addresses,
            Err(why) => return Ok(Err(*why)),
        };
        let offset = address - window.own.address;
        let is_shown = offset + bytes <= addresses.bytes;
        let starts = || addresses.starts.iter().map(|start| start + offset).collect();
        Ok(is_shown.then(starts).ok_or(Unaligned::Smaller))
    }

    /// Where this rank reaches what all ranks show in `window`. Waits, the first time, until all
    /// ranks have opened it.
    fn addresses_in<'a>(
        &self,
        window: &'a AlignedWindow,
    ) -> Result<&'a Result<RankAddresses, Unaligned>, Error> {
        if let Some(addresses) = window.addresses.get() {
            return Ok(addresses);
        }
        let found = self.find_all(window)?.ok_or(Unaligned::Unreachable);
        let found = found.and_then(|found| RankAddresses::of(&found));
        Ok(window.addresses.get_or_init(|| found))
    }

    /// What every rank shows in `window`, by rank; nothing, if some rank shows nothing, or cannot
    /// map what another one shows. All ranks find the same.
    fn find_all(&self, window: &AlignedWindow) -> Result<Option<Vec<ShownMemory>>, Error> {
        let parts = window.parts.upgrade();
        let Some(Parts::Gpu(shown)) = parts.as_deref() else { return Ok(None) };
        let ranks = self.inner.shared_state.ranks();
        let found = ranks.map(|rank| match rank == self.rank() {
            true => Ok(window.own),
            false => self.shown_by(shown, rank, window.number),
        });
        let found = found.collect::<Result<Vec<_>, Error>>();
        match found {
            Ok(found) => Ok(self.inner.engine.all_have_mapped(&found)?.then_some(found)),
            Err(error) if error.kind() == ErrorKind::InvalidUsage => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl RankAddresses {
    fn of(shown: &[ShownMemory]) -> Result<Self, Unaligned> {
        let bytes = shown.iter().map(|of| of.bytes).min().ok_or(Unaligned::Unreachable)?;
        if !shown.iter().all(|of| of.export.is_some_and(|export| export.is_detachable)) {
            return Err(Unaligned::Permanent);
        }
        Ok(Self { starts: shown.iter().map(|of| of.address).collect(), bytes })
    }
}
