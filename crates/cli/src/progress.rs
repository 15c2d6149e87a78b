//! Progress on standard error: for long work, and only on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long work may take before it shows: quick work leaves no trace.
const PATIENCE: Duration = Duration::from_millis(400);

/// What the command is doing right now. Dropping it clears the line.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Shows `doing` after a moment, unless `--quiet` or standard error is no terminal.
    pub fn start(doing: impl Into<String>, quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_message(doing.into());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed:.dim}") {
            bar.set_style(style);
        }
        if !quiet {
            show_later(&bar);
        }
        Self { bar }
    }

    /// The next thing.
    pub fn now(&self, doing: impl Into<String>) {
        self.bar.set_message(doing.into());
    }
}

/// Lets `bar` appear once [`PATIENCE`] is over, if it is still of interest then.
fn show_later(bar: &ProgressBar) {
    let waiting = bar.downgrade();
    std::thread::spawn(move || {
        std::thread::sleep(PATIENCE);
        if let Some(bar) = waiting.upgrade().filter(|bar| !bar.is_finished()) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
            bar.enable_steady_tick(Duration::from_millis(100));
        }
    });
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
