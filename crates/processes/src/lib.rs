//! Ranks as processes, for tests: a test binary runs itself once for each rank.
//!
//! One test of the binary is the entry of a rank. Without the variables that its caller sets it
//! does nothing and passes; with them it runs as a rank, and ends with [`answer`]. Its caller
//! starts it with [`itself`] and reads the answer with [`result`].
//!
//! What goes wrong is a panic, as everywhere in tests.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// What stands before an answer.
const MARK: &str = "result: ";

/// A command that runs the test `name` of this binary, and no other.
pub fn itself(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    playing(&mut command, name);
    command
}

/// Lets `command`, which runs this binary somewhere, run its test `name`, and no other.
pub fn playing<'a>(command: &'a mut Command, name: &str) -> &'a mut Command {
    command.args([name, "--exact", "--nocapture"]).stdout(Stdio::piped())
}

/// Says to whoever has started this process how it went, in one line.
#[allow(clippy::print_stdout, reason = "it is how test processes speak")]
pub fn answer(how: &str) {
    // The test harness has begun a line.
    println!("\n{MARK}{}", how.replace('\n', "|"));
}

/// Waits for the end of `child`, which must be a good one, and gives its answer.
///
/// # Panics
///
/// It failed, or said nothing.
#[track_caller]
pub fn result(mut child: Child) -> String {
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}: {output}");
    results(&output).next().unwrap().to_owned()
}

/// The answers in `output`, of one process or of several that share a pipe: there what one says may
/// stand behind half a line of another's test harness.
pub fn results(output: &str) -> impl Iterator<Item = &str> {
    let marked = output.lines().filter_map(|line| line.rsplit_once(MARK));
    // `test result: ok` is the harness's.
    marked.filter(|(before, _)| !before.ends_with("test ")).map(|(_, answer)| answer)
}

/// Reads lines of `child` until one contains `part`.
///
/// # Panics
///
/// It ended before.
#[track_caller]
pub fn await_line(child: &mut Child, part: &str) {
    let mut output = BufReader::new(child.stdout.as_mut().unwrap());
    let mut line = String::new();
    while !line.contains(part) {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "it ended without saying `{part}`");
    }
}
