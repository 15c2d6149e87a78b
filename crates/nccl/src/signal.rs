//! SIGUSR1 asks for a report of who waits for whom. An unsafe boundary: signal handlers are the
//! operating system's.
//!
//! The handler only counts the request, which is all that a handler may safely do; a watcher of the
//! runtime prints the hang report. A program that has a handler of its own, or ignores the signal,
//! keeps it that way.

#![expect(unsafe_code, reason = "installs a signal handler")]

use std::sync::Once;

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
