//! Around every call from C: panics stay inside, failures become numbers.
//!
//! What a panic says is for whoever mends this library, and reaches the user in a fault's text,
//! never as Rust prints it. The hook that sees to that is that of the Rust runtime inside this
//! shared library; the caller's, if it is written in Rust too, has its own. Where this crate is
//! linked into a Rust program instead, panics of other threads than this library's go to the hook
//! that was there before.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;
use std::thread;

use crate::abi::{Code, Outcome};
use crate::fault::Fault;
use crate::{group, log};

/// Runs the body of the function `name` and gives C its number. A failure is logged, kept for
/// `ncclGetLastError`, and ends the group that is open on this thread, if there is one.
pub fn answer<T: Into<Outcome>>(name: &str, body: impl FnOnce() -> Result<T, Fault>) -> Code {
    match contain(body) {
        Ok(outcome) => outcome.into().into(),
        Err(fault) => {
            log::warn(name, &fault);
            group::latch(&fault);
            fault.code
        }
    }
}

/// Runs `body`; a panic in it becomes a fault of this library.
pub fn contain<T>(body: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    keep_panics_quiet();
    // What a panic leaves behind half done is a communicator's, which the fault then fails.
    let contained = || catch_unwind(AssertUnwindSafe(body));
    // One look for the thread's own, which costs more in a shared library than the rest.
    let ended = CONTAINED.with(|depth| {
        let outside = depth.replace(depth.get() + 1);
        let ended = contained();
        depth.set(outside);
        ended
    });
    ended.unwrap_or_else(|payload| {
        let text = PANIC.take().unwrap_or_else(|| said(&*payload));
        Err(Fault::internal(format!("this library has a fault: {text}; please report it")))
    })
}

thread_local! {
    /// How many calls of [`contain`] this thread is in.
    static CONTAINED: Cell<u32> = const { Cell::new(0) };
    /// What the panic that [`contain`] is about to catch said, and where it was.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// What a panic with `payload` said.
fn said(payload: &dyn Any) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no text".to_owned())
}

/// From now on panics of this library's threads, and those that [`contain`] catches, print nothing.
fn keep_panics_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| match CONTAINED.try_with(Cell::get) {
            Ok(depth) if depth > 0 => {
                // Where the thread ends, nobody is left who could be informed of more than `said`.
                let _ = PANIC.try_with(|kept| kept.replace(Some(described(panic))));
            }
            Ok(_) | Err(_) if is_ours() => {
                let text =
                    format!("this library has a fault: {}; please report it", described(panic));
                log::warn_at(log::NO_DEVICE, "background", &text);
            }
            Ok(_) | Err(_) => before(panic),
        }));
    });
}

/// What a panic said, and where.
fn described(panic: &PanicHookInfo<'_>) -> String {
    let text = said(panic.payload());
    panic
        .location()
        .map_or_else(|| text.clone(), |at| format!("{text} ({}:{})", at.file(), at.line()))
}

/// Whether the calling thread is one of this library's.
fn is_ours() -> bool {
    let thread = thread::current();
    let name = thread.name().unwrap_or_default();
    ["msccl-", "nccl-"].iter().any(|ours| name.starts_with(ours))
}

/// Runs a body that gives C a value other than a number of success or failure; `otherwise` is
/// what C gets if there is none.
pub fn value<T>(name: &str, otherwise: T, body: impl FnOnce() -> Result<T, Fault>) -> T {
    contain(body).unwrap_or_else(|fault| {
        log::warn(name, &fault);
        otherwise
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::last_error;

    #[test]
    fn panics_stay_inside() {
        let _alone = log::tests::alone();
        let code = answer("Test", || -> Result<(), Fault> { panic!("number {}", 7) });
        assert_eq!(code, Code::InternalError);
        assert!(last_error::get().contains("number 7"), "{}", last_error::get());
        assert_eq!(answer("Test", || Ok(Outcome::InProgress)), Code::InProgress);
        assert_eq!(value("Test", -1, || Err(Fault::usage("no"))), -1);
    }
}
