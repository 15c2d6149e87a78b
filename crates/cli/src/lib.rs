//! The `msccl` command, as all of a process, [`main()`], and as a function of one, [`call()`].
//!
//! ```
//! use msccl_cli::{Request, call};
//!
//! let arguments = ["verify", "allreduce/ring", "--ranks", "4"].map(str::to_owned).into();
//! let answer = call(&Request { arguments, text: None });
//! assert_eq!((answer.exit, answer.stderr.as_str()), (0, ""));
//! assert!(answer.stdout.starts_with("proved   allreduce/ring: ring, allreduce over 4 ranks"));
//! ```
//!
//! Reading order: `args` is the command line; `command` has one file per subcommand; they
//! share `subject` (a file becomes an algorithm), `verdict` (a proof or a refusal becomes a
//! report) and `draw` (pictures). `output` alone writes to the terminal, `input` and
//! `loader` alone read files, except those that variables name: `msccl_environment` reads them as
//! for the library.
//!
//! Absent from this crate: any step between a program and a running algorithm. All of that belongs
//! to the libraries, which in turn know neither files, nor the environment, nor the terminal.

#![deny(unsafe_code)]

mod args;
mod artifact;
mod calibration;
mod call;
mod certified;
mod certified_steps;
mod clock;
mod cluster;
mod collective;
mod command;
mod exit;
mod guard;
mod input;
mod launch;
mod loader;
mod loads;
mod nvlinks;
mod output;
mod own_library;
mod paint;
mod progress;
mod subject;
mod table;
mod verdict;

use std::process::ExitCode;

use clap::Parser;
use msccl_pages::{bound, diagnose, draw, estimate, failure, order, size};

use args::{Cli, Command, Format};
pub use call::{CallOutput, Request, call};
use exit::Exit;
use output::Output;

/// Does what the command line of this process says.
pub fn main() -> ExitCode {
    let Cli { command, color, quiet } = Cli::parse();
    let mut output = Output::new(color, quiet);
    let exit = guard::guard(|| dispatch(command, &mut output), guard::ask_for_report);
    match output.finish() {
        Ok(()) => exit.into(),
        Err(error) => guard::cannot_write(&error).into(),
    }
}

fn dispatch(command: Command, output: &mut Output) -> Exit {
    let report = command.report();
    let done = match command {
        Command::Compile(args) => command::compile::compile(&args, output),
        Command::Verify(args) => command::verify::verify(&args, output),
        Command::Run(args) => command::run::run(&args, output),
        Command::Show(args) => command::show::show(&args, output),
        Command::Fmt(args) => command::fmt::fmt(&args, output),
        Command::Check(args) => command::check::check(&args, output),
        Command::List(args) => command::list::list(&args, output),
        Command::Calibrate(args) => command::calibrate::calibrate(&args, output),
        Command::Compare(args) => command::compare::compare(&args, output),
        Command::Explain(args) => command::explain::explain(&args, output),
        Command::Specialise(args) => command::specialise::specialise(&args, output),
        Command::Topo(args) => command::topo::topo(&args, output),
        Command::Bound(args) => command::bound::bound(&args, output),
        Command::Bench(args) => command::bench::bench(&args, output),
        Command::Tune(args) => command::tune::tune(&args, output),
        Command::Trace(args) => command::trace::trace(&args, output),
        Command::Doctor(args) => command::doctor::doctor(&args, output),
        Command::Launch(args) => command::preload::preload(&args),
        Command::Manual(args) => command::manual::manual(&args),
        Command::Synthesize(args) => command::synthesize::synthesize(&args, output),
        Command::Lsp(args) => command::lsp::lsp(&args),
        Command::Report(args) => command::report::report(&args, output),
        Command::BenchWorker => command::bench::worker(),
        Command::Completions(args) => command::completions::completions(&args, output),
    };
    done.unwrap_or_else(|failure| {
        match report {
            Some((Format::Json, file)) => output.json(&failure.to_json(&file)),
            _ => output.failure(&failure),
        }
        Exit::Unusable
    })
}
