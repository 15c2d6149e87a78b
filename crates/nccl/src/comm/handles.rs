//! The handles that C has, and what they stand for.
//!
//! A handle is the address of a [`Shell`], which this table owns. A number is looked up before
//! anything is read, so that no handle, however wrong, leads to a crash: one that was never given
//! out or was given back is refused, and one whose shell was overwritten is recognised by the
//! shell's two magic words. The last shells that were given back are kept for a while, lest a stale
//! handle meet a new communicator at the same address.
//!
//! Calls come again and again with the same handles. So every thread keeps what it has looked up
//! last, and takes it from there as long as the table has not changed: threads that make calls
//! touch nothing that another one writes.
//!
//! A fork has a copy of the table. It finds there what its parent's handles stand for, so that its
//! errors can say whose they are, and never takes them out, so that nothing of the parent's ends.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::thread;
use std::time::Duration;

use msccl_runtime::Communicator;
use rustc_hash::FxHashMap;

use super::Comm;
use crate::abi::CommHandle;
use crate::fault::Fault;
use crate::process::Process;

/// What stands at both ends of a shell.
const MAGIC: u64 = u64::from_le_bytes(*b"ncclcomm");

/// How many shells are kept after they were given back.
const KEPT: usize = 256;

/// How often a fork looks whether the table is free, a millisecond apart.
const FORK_LOOKS: u32 = 1000;

/// How many communicators a thread keeps at hand.
const CACHED: usize = 8;

/// What a handle points to: nothing that C may look at, with a mark at either end.
#[repr(C)]
struct Shell {
    start: AtomicU64,
    middle: [u64; 6],
    end: AtomicU64,
}

impl Shell {
    fn new() -> Arc<Self> {
        Arc::new(Self { start: AtomicU64::new(MAGIC), middle: [0; 6], end: AtomicU64::new(MAGIC) })
    }

    fn is_intact(&self) -> bool {
        let whole = |mark: &AtomicU64| mark.load(Ordering::Relaxed) == MAGIC;
        whole(&self.start) && whole(&self.end)
    }
}

#[derive(Default)]
struct Table {
    live: FxHashMap<usize, (Arc<Shell>, Arc<Comm>)>,
    given_back: VecDeque<Arc<Shell>>,
}

static TABLE: RwLock<Option<Table>> = RwLock::new(None);

/// How often the table was changed; written by whoever has locked it.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// The table, unless this is a fork whose parent was changing it at that moment: nobody would ever
/// be done with that.
fn read(operation: &str) -> Result<RwLockReadGuard<'static, Option<Table>>, Fault> {
    if !Process::current().is_fork() {
        return Ok(TABLE.read().unwrap_or_else(PoisonError::into_inner));
    }
    for _ in 0..FORK_LOOKS {
        match TABLE.try_read() {
            Ok(table) => return Ok(table),
            Err(TryLockError::Poisoned(table)) => return Ok(table.into_inner()),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
        }
    }
    let text = "this process was forked while another thread made or ended a communicator, and \
        cannot use any";
    Err(Fault::usage(format!("{operation} : {text}")))
}

fn change<T>(body: impl FnOnce(&mut Table) -> T) -> T {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    CHANGES.fetch_add(1, Ordering::Release);
    body(table.get_or_insert_default())
}

/// What a thread has looked up.
struct Found {
    handle: usize,
    /// How often the table had been changed by then.
    changes: u64,
    shell: Arc<Shell>,
    comm: Arc<Comm>,
}

thread_local! {
    static FOUND: RefCell<[Option<Found>; CACHED]> =
        const { RefCell::new([const { None }; CACHED]) };
}

/// Where a thread keeps what `handle` stands for; a shell is a line of the cache long.
fn cache_index(handle: usize) -> usize {
    handle / size_of::<Shell>() % CACHED
}

/// A handle for `comm`.
pub fn enrol(comm: Arc<Comm>) -> CommHandle {
    let shell = Shell::new();
    let handle = CommHandle(Arc::as_ptr(&shell).addr());
    change(|table| table.live.insert(handle.0, (shell, comm)));
    handle
}

/// What `handle`, an argument of `operation`, stands for.
///
/// # Errors
///
/// It is null, corrupted, or stands for nothing; or this is a fork of the process that it was given
/// to.
pub fn find(handle: CommHandle, operation: &str) -> Result<Arc<Comm>, Fault> {
    if handle.0 == 0 {
        return Err(Fault::null(operation, "comm"));
    }
    // The calling thread may be ending, and what it had at hand be gone.
    let at_hand = FOUND.try_with(|found| at_hand(&found.borrow(), handle)).ok().flatten();
    let comm = at_hand.map_or_else(|| look_up(handle, operation), Ok)?;
    comm.maker.check(operation, "communicator")?;
    Ok(comm)
}

/// A communicator that takes calls.
pub struct ReadyComm {
    /// What the handle stands for.
    pub comm: Arc<Comm>,
    /// The runtime's.
    pub communicator: Communicator,
}

/// What `handle`, an argument of `operation`, stands for, if it takes calls.
///
/// # Errors
///
/// There is no such communicator ([`find`]), or it takes no calls ([`Comm::ready`]).
pub fn find_ready(handle: CommHandle, operation: &str) -> Result<ReadyComm, Fault> {
    let comm = find(handle, operation)?;
    let communicator = comm.ready().map_err(|fault| fault.during(operation))?;
    Ok(ReadyComm { comm, communicator })
}

/// The communicator with which `window`, an argument of `operation`, is registered.
///
/// # Errors
///
/// There is none; or this is a fork of the process that registered it.
pub fn with_window(window: usize, operation: &str) -> Result<Arc<Comm>, Fault> {
    let table = read(operation)?;
    let comms = table.iter().flat_map(|table| table.live.values());
    let found = comms.map(|(_, comm)| comm).find(|of| of.registrations.find(window).is_some());
    let comm = found.ok_or_else(|| {
        Fault::argument(format!("{operation} : {window:#x} is no window of a communicator"))
    })?;
    comm.maker.check(operation, "window")?;
    Ok(Arc::clone(comm))
}

fn at_hand(found: &[Option<Found>; CACHED], handle: CommHandle) -> Option<Arc<Comm>> {
    let found = found[cache_index(handle.0)].as_ref()?;
    let is_it = found.handle == handle.0
        && found.changes == CHANGES.load(Ordering::Acquire)
        && found.shell.is_intact();
    is_it.then(|| Arc::clone(&found.comm))
}

fn look_up(handle: CommHandle, operation: &str) -> Result<Arc<Comm>, Fault> {
    let table = read(operation)?;
    let known = table.as_ref().and_then(|table| table.live.get(&handle.0));
    let (shell, comm) = match known {
        Some((shell, comm)) if shell.is_intact() => (Arc::clone(shell), Arc::clone(comm)),
        Some(_) => return Err(Fault::argument("Error: corrupted comm object detected")),
        None => return Err(unknown(operation)),
    };
    // Nobody changes the table meanwhile.
    let changes = CHANGES.load(Ordering::Acquire);
    drop(table);
    let found = Found { handle: handle.0, changes, shell, comm: Arc::clone(&comm) };
    // What was there before may end a communicator, which takes its time and may look up others.
    let before = FOUND.try_with(|all| all.borrow_mut()[cache_index(handle.0)].replace(found));
    drop(before);
    Ok(comm)
}

/// Takes `handle` back: from now on it stands for nothing. Its shell may be corrupted.
///
/// # Errors
///
/// It stands for nothing already; or this is a fork of the process that it was given to.
pub fn give_back(handle: CommHandle, operation: &str) -> Result<Arc<Comm>, Fault> {
    change(|table| {
        let (_, comm) = table.live.get(&handle.0).ok_or_else(|| unknown(operation))?;
        comm.maker.check(operation, "communicator")?;
        let (shell, comm) = table.live.remove(&handle.0).ok_or_else(|| unknown(operation))?;
        table.given_back.push_back(shell);
        if table.given_back.len() > KEPT {
            table.given_back.pop_front();
        }
        Ok(comm)
    })
}

fn unknown(operation: &str) -> Fault {
    let text = "the communicator was destroyed before, or is none of this library's";
    Fault::argument(format!("{operation} : {text}"))
}

#[cfg(test)]
mod tests {
    use msccl_runtime::PlaceOfRank;

    use super::*;
    use crate::comm::config::Config;
    use crate::requests::Requests;

    fn comm() -> Arc<Comm> {
        Arc::new(Comm::joining(Config::usual(&Requests::default()), PlaceOfRank::Host, None))
    }

    fn refusal(handle: CommHandle) -> String {
        find(handle, "AllReduce").map(|_| ()).unwrap_err().text
    }

    #[test]
    fn handles_are_found_until_they_are_given_back() {
        let (first, second) = (comm(), comm());
        let (one, two) = (enrol(Arc::clone(&first)), enrol(Arc::clone(&second)));
        assert!(Arc::ptr_eq(&find(one, "AllReduce").unwrap(), &first));
        assert!(Arc::ptr_eq(&give_back(one, "CommDestroy").unwrap(), &first));
        assert!(refusal(one).contains("destroyed before"));
        assert!(give_back(one, "CommDestroy").is_err());
        assert!(Arc::ptr_eq(&find(two, "AllReduce").unwrap(), &second));
        give_back(two, "CommDestroy").unwrap();
    }

    #[test]
    fn wrong_handles_are_refused_unread() {
        assert_eq!(refusal(CommHandle(0)), "AllReduce : comm argument is NULL");
        assert!(refusal(CommHandle(0xdead_beef)).contains("none of this library's"));
    }

    #[test]
    fn corruption_is_noticed() {
        for is_at_hand in [false, true] {
            let handle = enrol(comm());
            if is_at_hand {
                find(handle, "AllReduce").unwrap();
            }
            let table = TABLE.read().unwrap();
            table.as_ref().unwrap().live[&handle.0].0.end.store(0, Ordering::Relaxed);
            drop(table);
            assert_eq!(refusal(handle), "Error: corrupted comm object detected");
            give_back(handle, "CommAbort").unwrap();
        }
    }

    #[test]
    fn a_new_handle_is_not_one_of_the_last_given_back() {
        let old: Vec<_> = (0..8).map(|_| enrol(comm())).collect();
        for handle in &old {
            give_back(*handle, "CommDestroy").unwrap();
        }
        let new = enrol(comm());
        assert!(!old.contains(&new));
        give_back(new, "CommDestroy").unwrap();
    }
}
