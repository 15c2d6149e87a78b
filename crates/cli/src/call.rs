//! The command as a function: what a program that has no terminal calls.
//!
//! What the command would write is returned. Everything else is as in a process of its own: files
//! are read and written, variables of the process count, and a panic becomes an exit code.

use clap::Parser;

use crate::args::Cli;
use crate::exit::Exit;
use crate::output::{Kept, Output};
use crate::{dispatch, guard, input};

/// A command line, and what stands for standard input.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Request {
    /// The arguments, without the name of the program.
    pub arguments: Vec<String>,
    /// What `-` reads; messages call it `<program>`. If not given, `-` reads standard input.
    pub text: Option<String>,
}

/// What became of it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CallOutput {
    /// The exit code: 0 in order, 1 refused, 2 bad usage or unreadable input, 101 a bug.
    pub exit: u8,
    /// What would stand on standard output. Bytes that are no UTF-8 are replaced.
    pub stdout: String,
    /// What would stand on standard error.
    pub stderr: String,
}

/// Does what `request` says.
pub fn call(request: &Request) -> CallOutput {
    let Request { arguments, text } = request;
    let words = ["msccl"].into_iter().chain(arguments.iter().map(String::as_str));
    let Cli { command, color: _, quiet } = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let mut output = Output::kept(quiet);
    let exit = input::with_text(text.as_deref(), || {
        guard::guard(|| dispatch(command, &mut output), || {})
    });
    let Kept { stdout, stderr } = output.into_kept();
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    CallOutput { exit: exit.code(), stdout, stderr }
}

/// Help, or what is wrong with the arguments.
fn usage(error: &clap::Error) -> CallOutput {
    let text = error.to_string();
    match error.use_stderr() {
        true => CallOutput { exit: Exit::Unusable.code(), stdout: String::new(), stderr: text },
        false => CallOutput { exit: Exit::Success.code(), stdout: text, stderr: String::new() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(arguments: &[&str], text: Option<&str>) -> CallOutput {
        let arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
        call(&Request { arguments, text: text.map(str::to_owned) })
    }

    #[test]
    fn streams_are_kept_apart() {
        let wrong = "algorithm x(ranks N = 2) implements allreduce(chunks N) {\n    nothing\n}\n";
        let CallOutput { exit, stdout, stderr } = answer(&["verify", "-"], Some(wrong));
        assert_eq!((exit, stdout.as_str()), (2, ""));
        assert!(stderr.contains("<program>:"), "{stderr}");
        let CallOutput { exit, stdout, stderr } = answer(&["verify", "--no-such"], None);
        assert_eq!((exit, stdout.as_str()), (2, ""));
        assert!(stderr.contains("--no-such"), "{stderr}");
        let CallOutput { exit, stdout, stderr } = answer(&["--help"], None);
        assert_eq!((exit, stderr.as_str()), (0, ""));
        assert!(stdout.contains("Usage: msccl"), "{stdout}");
    }

    #[test]
    fn a_text_stands_for_standard_input_in_one_call() {
        let ring = msccl_registry::built_in_programs()["allreduce/ring"];
        let proved = answer(&["verify", "-", "--ranks", "3"], Some(ring));
        assert!(proved.stdout.starts_with("proved   <program>: ring"), "{}", proved.stdout);
        assert_eq!(proved.exit, 0);
        assert_eq!(answer(&["fmt", "-"], Some(ring)).stdout, ring);
    }
}
