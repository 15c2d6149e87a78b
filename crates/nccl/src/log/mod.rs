//! Lines for people, in the shape that NCCL's users and their scripts know.
//!
//! `NCCL_DEBUG` says how much is said, `NCCL_DEBUG_SUBSYS` about what, `NCCL_DEBUG_FILE` where;
//! they are read when something is first said, and again after `ncclResetDebugInit`. Every line
//! goes out in one write. What a user requests and does not get is written to standard error.
//! Warnings are kept for `ncclGetLastError` whether or not they are shown; a hang
//! report is always shown, since somebody requested it or is stuck.

mod clock;
mod filter;
mod line;
mod scope;
mod sink;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use msccl_environment::{self as environment, ValueError, variable};

use crate::fault::Fault;
use crate::last_error;

pub use filter::{Filter, Subsystem};
pub use scope::Scope;

use line::Line;
use sink::Sink;
pub use sink::expand;

/// What is said, and where it goes.
#[derive(Debug)]
struct Output {
    filter: Filter,
    sink: Mutex<Sink>,
    /// What is wrong with the variables that concern the log.
    value_errors: Vec<ValueError>,
}

static OUTPUT: RwLock<Option<Arc<Output>>> = RwLock::new(None);

/// What is enabled, for the path of every call; zero until the environment was read.
static ENABLED: AtomicU32 = AtomicU32::new(0);

/// What stands in front of the line of nobody's device.
pub const NO_DEVICE: i32 = -1;

fn output() -> Arc<Output> {
    if let Some(output) = &*OUTPUT.read().unwrap_or_else(PoisonError::into_inner) {
        return Arc::clone(output);
    }
    let (filter, mut value_errors) = Filter::read(&environment::lookup);
    let file = environment::lookup(variable::DEBUG_FILE.name);
    let (sink, value_error) = file.map_or((Sink::Stdout, None), |name| Sink::open(&name));
    value_errors.extend(value_error);
    let output = Arc::new(Output { filter, sink: Mutex::new(sink), value_errors });
    let mut slot = OUTPUT.write().unwrap_or_else(PoisonError::into_inner);
    ENABLED.store(output.filter.to_bits(), Ordering::Relaxed);
    Arc::clone(slot.get_or_insert(output))
}

/// What is wrong with the variables that concern the log.
pub fn value_errors() -> Vec<ValueError> {
    output().value_errors.clone()
}

/// Reads the environment again when something is said next.
pub fn reset() {
    let mut slot = OUTPUT.write().unwrap_or_else(PoisonError::into_inner);
    ENABLED.store(0, Ordering::Relaxed);
    *slot = None;
}

/// Whether a line about `subsystem` would be shown.
pub fn is_enabled(subsystem: Subsystem) -> bool {
    match ENABLED.load(Ordering::Relaxed) {
        0 => output().filter.is_enabled(subsystem),
        bits => Filter::bits_enable(bits, subsystem),
    }
}

/// Says `text` about `subsystem`, if somebody wants to know.
pub fn info(subsystem: Subsystem, device: i32, text: fmt::Arguments<'_>) {
    if is_enabled(subsystem) {
        output().write(&Line { device }.info(text));
    }
}

/// Logs the version, wherever anything is logged.
pub fn banner(text: &str) {
    let output = output();
    if output.filter.shows_version() {
        output.write(text);
    }
}

/// Warns of a call that failed.
pub fn warn(function: &str, fault: &Fault) {
    let place = format!("{}:{} ({function})", short(fault.at.file()), fault.at.line());
    warn_at(NO_DEVICE, &place, &fault.text);
}

/// Warns of something that is no call's failure.
pub fn warn_of_environment(text: &str) {
    warn_at(NO_DEVICE, "environment", text);
}

/// Warns of `text`, noticed at `place`.
pub fn warn_at(device: i32, place: &str, text: &str) {
    last_error::set(text);
    let output = output();
    if output.filter.shows_warnings() {
        output.write(&Line { device }.warning(place, text));
    }
}

/// Writes a line to standard error whatever `NCCL_DEBUG` says: what the user requested and does not
/// get. A log in a file, if it has warnings, has it too.
pub fn report(device: i32, text: &str) {
    last_error::set(text);
    let line = Line { device }.report(text);
    sink::to_stderr(&line);
    let output = output();
    if output.filter.shows_warnings() {
        output.sink.lock().unwrap_or_else(PoisonError::into_inner).write_if_file(&line);
    }
}

/// Shows `text` to whoever is there, whatever `NCCL_DEBUG` says.
pub fn show(device: i32, text: &str) {
    let output = output();
    let text = Line { device }.report(text);
    if output.filter.shows_warnings() { output.write(&text) } else { sink::to_stderr(&text) }
}

impl Output {
    fn write(&self, text: &str) {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner).write(text);
    }
}

/// The last two parts of a path in this library's sources.
fn short(file: &str) -> &str {
    file.rsplit_once("src/").map_or(file, |(_, rest)| rest)
}

#[cfg(test)]
pub mod tests {
    use std::sync::MutexGuard;

    use super::*;

    /// There is one log and one last error: tests that look at them come one by one.
    pub fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn warnings_are_kept_even_if_they_are_not_shown() {
        let _alone = alone();
        warn("AllReduce", &Fault::argument("the count is odd"));
        assert_eq!(last_error::get(), "the count is odd");
        assert_eq!(short("crates/nccl/src/exports/group.rs"), "exports/group.rs");
    }
}
