//! Standard output and standard error: the only module that writes to either, or keeps what would
//! be written, for a program that calls the command.
//!
//! What was requested goes to standard output, everything else (notes, progress, errors) to
//! standard error. A reader that closes the pipe early is no error: what follows is dropped. Any
//! other failure to write is remembered and reported at the end.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use serde::Serialize;

use crate::args::ColorChoice;
use crate::failure::Failure;
pub use crate::paint::Paint;
use crate::paint::painted;

/// Both streams, and how to write to them.
pub struct Output {
    stdout: Sink,
    stdout_colored: bool,
    stderr_colored: bool,
    quiet: bool,
    diverted: bool,
    /// Whether another process of the launch says all that there is to say.
    muted: bool,
    /// What would go to standard error, if it is kept.
    kept_errors: Option<String>,
}

/// Standard output. Writing to it succeeds always; once it has really failed, it does nothing.
struct Sink {
    stdout: BufWriter<Destination>,
    failed: Option<io::Error>,
}

/// Where standard output goes.
enum Destination {
    Process(Stdout),
    Kept(Vec<u8>),
}

impl Write for Destination {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Destination::Process(stdout) => stdout.write(data),
            Destination::Kept(kept) => kept.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Destination::Process(stdout) => stdout.flush(),
            Destination::Kept(kept) => kept.flush(),
        }
    }
}

/// What a command has said, if that is kept.
#[derive(Default)]
pub struct Kept {
    /// To standard output.
    pub stdout: Vec<u8>,
    /// To standard error.
    pub stderr: String,
}

impl Output {
    /// The process's streams. Without an explicit choice, colors are for terminals, and only if the
    /// environment does not say `NO_COLOR`.
    pub fn new(color: ColorChoice, quiet: bool) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colored = |is_terminal: bool| match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => is_terminal && !refused,
        };
        Self {
            stdout_colored: colored(io::stdout().is_terminal()),
            stderr_colored: colored(io::stderr().is_terminal()),
            stdout: Sink::to(Destination::Process(io::stdout())),
            quiet,
            diverted: false,
            muted: false,
            kept_errors: None,
        }
    }

    /// Streams that are kept instead of written, without colors.
    pub fn kept(quiet: bool) -> Self {
        Self {
            stdout_colored: false,
            stderr_colored: false,
            stdout: Sink::to(Destination::Kept(Vec::new())),
            quiet,
            diverted: false,
            muted: false,
            kept_errors: Some(String::new()),
        }
    }

    /// Says nothing, from now on, unless this process `speaks` for all of its launch.
    pub fn speak_only_if(&mut self, speaks: bool) {
        self.muted = !speaks;
    }

    /// From now on reports go to standard error, because standard output holds what was made.
    pub fn divert_reports(&mut self) {
        self.diverted = true;
    }

    /// `text`, painted if reports show colors.
    pub fn paint(&self, paint: Paint, text: impl fmt::Display) -> String {
        let colored = if self.diverted { self.stderr_colored } else { self.stdout_colored };
        paint.on(colored, &text)
    }

    /// `text`, painted if standard error shows colors.
    pub fn paint_for_stderr(&self, paint: Paint, text: &str) -> String {
        paint.on(self.stderr_colored, &text)
    }

    /// Whether to say only what was requested, and show no progress.
    pub fn is_quiet(&self) -> bool {
        self.quiet || self.muted || self.kept_errors.is_some()
    }

    /// A line of a report.
    pub fn line(&mut self, text: impl fmt::Display) {
        if self.diverted {
            return self.complain(text);
        }
        if self.muted {
            return;
        }
        let _ = writeln!(self.stdout, "{text}");
    }

    /// A line of a report that `--quiet` leaves out.
    pub fn detail(&mut self, text: impl fmt::Display) {
        if !self.quiet {
            self.line(text);
        }
    }

    /// Standard output, for what was made. Failures are reported at the end, by [`Output::finish`].
    pub fn made(&mut self) -> &mut impl Write {
        &mut self.stdout
    }

    /// `value` as indented JSON: a report for programs.
    pub fn json(&mut self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.line(text),
            Err(error) => self.error(error),
        }
    }

    /// One object as itself, several as an array.
    pub fn json_one_or_many(&mut self, values: &[impl Serialize]) {
        match values {
            [only] => self.json(only),
            many => self.json(&many),
        }
    }

    /// A line on standard error that `--quiet` leaves out.
    pub fn note(&mut self, text: impl fmt::Display) {
        if !self.quiet {
            self.complain(text);
        }
    }

    /// `note: …` on standard error, which `--quiet` leaves out.
    pub fn warn(&mut self, text: impl fmt::Display) {
        let head = Paint::Warn.on(self.stderr_colored, &"note:");
        self.note(format_args!("{head} {text}"));
    }

    /// `error: …` on standard error.
    pub fn error(&mut self, text: impl fmt::Display) {
        let head = Paint::Bad.on(self.stderr_colored, &"error:");
        self.complain(format_args!("{head} {text}"));
    }

    /// A line on standard error, whatever happens.
    pub fn complain(&mut self, text: impl fmt::Display) {
        if self.muted {
            return;
        }
        if let Some(kept) = &mut self.kept_errors {
            let _ = fmt::Write::write_fmt(kept, format_args!("{text}\n"));
            return;
        }
        // Lines meant to be read in order must appear in order.
        let _ = self.stdout.flush();
        last_words(&text.to_string());
    }

    /// What was kept.
    pub fn into_kept(mut self) -> Kept {
        let _ = self.stdout.flush();
        let stdout = match self.stdout.stdout.into_parts().0 {
            Destination::Process(_) => Vec::new(),
            Destination::Kept(kept) => kept,
        };
        Kept { stdout, stderr: self.kept_errors.unwrap_or_default() }
    }

    /// Why nothing could be said, on standard error.
    pub fn failure(&mut self, failure: &Failure) {
        match failure {
            Failure::Message(message) => self.error(message),
            Failure::Diagnostics { rendered, located: _ } => {
                let painted = painted(rendered, |tone, text| self.paint_for_stderr(tone, text));
                self.complain(painted);
            }
        }
    }

    /// Empties the buffer.
    ///
    /// # Errors
    ///
    /// The first failure to write, unless it is that nobody reads any more.
    pub fn finish(mut self) -> io::Result<()> {
        let _ = self.stdout.flush();
        let Sink { stdout, failed } = self.stdout;
        let Some(error) = failed else { return Ok(()) };
        // What is still buffered would be tried once more on drop.
        let _ = stdout.into_parts();
        if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) }
    }
}

impl Sink {
    fn to(destination: Destination) -> Self {
        Self { stdout: BufWriter::with_capacity(1 << 16, destination), failed: None }
    }

    fn attempt(&mut self, write: impl FnOnce(&mut BufWriter<Destination>) -> io::Result<()>) {
        if self.failed.is_none() {
            self.failed = write(&mut self.stdout).err();
        }
    }
}

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.attempt(|stdout| stdout.write_all(data));
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(BufWriter::flush);
        Ok(())
    }
}

/// A line on standard error for when no [`Output`] is at hand. If that fails, nothing can be
/// reported.
pub fn last_words(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
