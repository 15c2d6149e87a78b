//! The net below everything: a panic is a bug of ours, and says so.

use std::panic::{self, AssertUnwindSafe};

use crate::exit::Exit;

/// Runs `command`; a panic becomes [`Exit::Bug`], with a request to report it below the message of
/// the panic itself. `complain` writes a line to standard error.
pub fn guard(command: impl FnOnce() -> Exit, complain: impl FnOnce(&str)) -> Exit {
    // The command is not used again after a panic, so no broken state can be seen.
    panic::catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|_| {
        complain(
            "\nThis is a bug in msccl, not in your input. Please report the lines above together \
             with the command line and the file that led to it.",
        );
        Exit::Bug
    })
}
