//! The net below everything: a panic is a bug of ours, and says so.

use std::io;
use std::panic::{self, AssertUnwindSafe};

use crate::exit::Exit;
use crate::output::last_words;

/// Runs `command`; after a panic, whose message the default hook has printed, `ask` is called and
/// the exit is [`Exit::Bug`].
pub fn guard(command: impl FnOnce() -> Exit, ask: impl FnOnce()) -> Exit {
    // Nothing that the command worked on is used again after a panic, except the output, whose
    // state is whole between any two writes.
    panic::catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|_| {
        ask();
        Exit::Bug
    })
}

/// Asks for a report, below the message of the panic.
pub fn ask_for_report() {
    last_words(
        "\nThis is a bug in msccl, not in your input. Please report the lines above, together with \
         the command line and the file that led to them.",
    );
}

/// Says that standard output failed.
pub fn cannot_write(error: &io::Error) -> Exit {
    last_words(&format!("error: cannot write to standard output: {error}"));
    Exit::Unusable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_bugs() {
        let mut called = false;
        assert_eq!(guard(|| panic!("on purpose"), || called = true), Exit::Bug);
        assert!(called);
        assert_eq!(guard(|| Exit::Refused, ask_for_report), Exit::Refused);
    }
}
