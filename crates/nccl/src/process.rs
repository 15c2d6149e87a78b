//! Which process this is: the one that something was made in, or a fork of it. An unsafe boundary:
//! memory that the kernel empties in a fork is had from it directly.
//!
//! A fork has a copy of everything its parent had in memory, but neither its threads nor a place of
//! its own among the ranks: whatever it did with what it found would be done in the name of its
//! parent. So what belongs to a process keeps its [`Process`], and is refused elsewhere.
//!
//! To find that out costs no call of the operating system where the kernel empties a page in forks
//! (Linux 4.14 and later), and one elsewhere. A fork that shares the memory of its parent (`vfork`)
//! counts as that.

#![expect(unsafe_code, reason = "maps memory that the kernel empties in a fork")]

use std::fmt;
use std::hint;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::fault::Fault;

/// A process that uses this library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process {
    /// How many forks lie between the first one that used the library and this; distinguishes
    /// processes where numbers cannot.
    forks: u32,
    /// What the operating system calls it.
    number: u32,
}

impl Process {
    /// The process that asks. Every call asks, so what usually happens is three loads.
    #[inline]
    pub fn current() -> Self {
        match MARK.get() {
            Some(Some(mark)) if mark.load(Ordering::Acquire) == FOUND => Self::known(),
            _ => Self::find(),
        }
    }

    #[cold]
    fn find() -> Self {
        match MARK.get_or_init(make_mark) {
            Some(mark) => find_out_once(mark),
            None if Self::known().number != std::process::id() => find_out(),
            None => Self::known(),
        }
    }

    /// Whether it is the fork of one that used the library.
    pub fn is_fork(self) -> bool {
        self.forks > 1
    }

    /// Makes sure that the process which asks is this one, the maker of `what`.
    ///
    /// # Errors
    ///
    /// It is a fork of it.
    #[inline]
    #[track_caller]
    pub fn check(self, operation: &str, what: &str) -> Result<(), Fault> {
        let current = Self::current();
        if current == self { Ok(()) } else { Err(self.refuse(current, operation, what)) }
    }

    #[cold]
    #[track_caller]
    fn refuse(self, current: Self, operation: &str, what: &str) -> Fault {
        Fault::usage(format!(
            "{operation} : this {what} was made by {self}; {current} is its fork and cannot use \
             it, but may make its own"
        ))
    }

    fn known() -> Self {
        let known = KNOWN.load(Ordering::Acquire);
        Self { forks: (known >> 32) as u32, number: known as u32 }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.number)
    }
}

/// The current process, as it was found out last, perhaps by a parent: forks in the upper half, the
/// number in the lower.
static KNOWN: AtomicU64 = AtomicU64::new(0);

/// Nobody has found out which process this is. The kernel makes every mark this one in a fork.
const UNKNOWN: u32 = 0;
/// A thread is about to.
const REGISTERING: u32 = 1;
/// [`KNOWN`] says which it is.
const FOUND: u32 = 2;

fn find_out_once(mark: &AtomicU32) -> Process {
    loop {
        match mark.load(Ordering::Acquire) {
            FOUND => return Process::known(),
            UNKNOWN => {
                let (order, failed) = (Ordering::Acquire, Ordering::Relaxed);
                if mark.compare_exchange(UNKNOWN, REGISTERING, order, failed).is_ok() {
                    find_out();
                    mark.store(FOUND, Ordering::Release);
                }
            }
            _ => hint::spin_loop(),
        }
    }
}

fn find_out() -> Process {
    let known = Process::known();
    let current = Process { forks: known.forks + 1, number: std::process::id() };
    let both = |of: Process| (u64::from(of.forks) << 32) | u64::from(of.number);
    // Where another thread was faster, it found the same.
    let _ = KNOWN.compare_exchange(both(known), both(current), Ordering::AcqRel, Ordering::Acquire);
    Process::known()
}

/// A word that the kernel makes zero in a fork; nothing if it cannot.
static MARK: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();

fn make_mark() -> Option<&'static AtomicU32> {
    // SAFETY: reads a number.
    let bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: asks for new memory wherever there is room.
    let page = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page is this function's alone.
    let is_emptied = unsafe { libc::madvise(page, bytes, libc::MADV_WIPEONFORK) } == 0;
    if !is_emptied {
        // SAFETY: nobody else knows of the page.
        unsafe { libc::munmap(page, bytes) };
        return None;
    }
    // SAFETY: a page is aligned for a word, zeros are a value, and it stays mapped as long as the
    // process lives.
    Some(unsafe { AtomicU32::from_ptr(page.cast()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Code;

    #[test]
    fn a_process_is_itself() {
        let current = Process::current();
        assert_eq!((current, current.is_fork()), (Process::current(), false));
        assert_eq!(current.to_string(), format!("process {}", std::process::id()));
        assert_eq!(current.check("AllReduce", "communicator"), Ok(()));
    }

    #[test]
    fn others_are_named() {
        let maker = Process { forks: 77, number: 123 };
        let fault = maker.check("AllReduce", "communicator").unwrap_err();
        let expected = format!(
            "AllReduce : this communicator was made by process 123; process {} is its fork and \
             cannot use it, but may \
             make its own",
            std::process::id()
        );
        assert_eq!((fault.code, fault.text), (Code::InvalidUsage, expected));
    }
}
