//! SIGUSR1 asks for a report of who waits for whom; SIGUSR2, where the user wants that, lets
//! recordings begin and end. An unsafe boundary: signal handlers are the operating system's.
//!
//! A handler only counts the request, or writes a byte, which is all that a handler may safely do;
//! threads do the rest. A program that has a handler of its own, or ignores the signal, keeps it
//! that way.

#![expect(unsafe_code, reason = "installs a signal handler")]

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::pipe::{PipeFlags, pipe_with};

/// Watches for the signal, once, if nobody else does.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if is_free(libc::SIGUSR1) {
            install(libc::SIGUSR1, ask);
        }
    });
}

extern "C" fn ask(_: libc::c_int) {
    msccl_runtime::request_report();
}

/// The end of a pipe that SIGUSR2 writes to; a descriptor for the life of the process.
static TRACE_PIPE: AtomicI32 = AtomicI32::new(-1);

/// What gives a byte for each SIGUSR2 from now on; nothing if somebody else handles it, or there is
/// no room for a pipe. To be called once.
pub fn trace_signals() -> Option<File> {
    if !is_free(libc::SIGUSR2) {
        return None;
    }
    let (signals, to): (OwnedFd, OwnedFd) =
        pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
    rustix::io::ioctl_fionbio(&signals, false).ok()?;
    TRACE_PIPE.store(to.as_raw_fd(), Ordering::Relaxed);
    std::mem::forget(to);
    install(libc::SIGUSR2, begin_or_end);
    Some(signals.into())
}

extern "C" fn begin_or_end(_: libc::c_int) {
    // SAFETY: `write` may be called by a handler; the descriptor stays open, and a byte is read.
    // A full pipe has requests enough.
    unsafe { libc::write(TRACE_PIPE.load(Ordering::Relaxed), [0_u8].as_ptr().cast(), 1) };
}

/// Whether `signal` still does what it does by default.
fn is_free(signal: libc::c_int) -> bool {
    // SAFETY: a `sigaction` is integers, for all of which zeros are a value.
    let mut found: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; the pointer is to a local of the right type.
    let status = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut found) };
    status == 0 && found.sa_sigaction == libc::SIG_DFL
}

fn install(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    // Calls of the program that the signal meets go on.
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler is async-signal-safe: it adds to an atomic number. Failure leaves the
    // signal as it was.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since a process has one handler.
    #[test]
    fn the_handler_is_installed_once_and_survives_the_signal() {
        assert!(is_free(libc::SIGUSR1));
        watch();
        assert!(!is_free(libc::SIGUSR1));
        // SAFETY: raises a signal that has a handler.
        assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
        watch();
    }
}
