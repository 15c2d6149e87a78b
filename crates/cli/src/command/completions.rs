//! `msccl completions`: a script that teaches a shell the command line.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::Output;

/// Prints the script.
pub fn completions(args: &CompletionsArgs, output: &mut Output) -> Result<Exit> {
    clap_complete::generate(args.shell, &mut Cli::command(), "msccl", output.made());
    Ok(Exit::Success)
}
