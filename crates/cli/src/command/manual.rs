//! `msccl manual`: pages of the manual, made of the command line's own definition.

use std::fs;
use std::path::Path;

use clap::CommandFactory;

use crate::args::{Cli, ManualArgs};
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Writes a page for the command and one for each subcommand.
pub fn manual(args: &ManualArgs) -> Result<Exit> {
    let ManualArgs { folder } = args;
    let failed = |error| Failure::new(format!("cannot write pages into {folder}: {error}"));
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), Path::new(folder)).map_err(failed)?;
    Ok(Exit::Success)
}
