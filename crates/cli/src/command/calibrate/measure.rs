//! Measures what a calibration looks at.

use std::time::Duration;

use clap::Parser;
use msccl_bench::tune;

use crate::args::{CalibrateArgs, Cli, Command, TuneArgs};
use crate::command::tune::measured;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// What is measured, and the part of the time that each has.
const COLLECTIVES: [&str; 3] = ["allreduce", "allgather", "reducescatter"];

/// All collectives of the usual algorithms, out of place and in halves, as `msccl tune` measures
/// them.
pub fn all(args: &CalibrateArgs, output: &mut Output) -> Result<Vec<tune::Data>> {
    let each = args.time / COLLECTIVES.len() as u32;
    COLLECTIVES.into_iter().map(|of| measured(&tune_args(of, each, args)?, None, output)).collect()
}

/// The arguments of such a run of `msccl tune`.
fn tune_args(collective: &str, time: Duration, args: &CalibrateArgs) -> Result<TuneArgs> {
    let seconds = time.as_secs().max(1).to_string();
    let words = ["msccl", "tune", collective, "--placement", "out", "-d", "half", "--time"];
    let mut words: Vec<&str> = words.into_iter().chain([seconds.as_str()]).collect();
    if let Some(library) = &args.library {
        words.extend(["--library", library]);
    }
    let cli = Cli::try_parse_from(words).map_err(|error| Failure::new(error.to_string()))?;
    match cli.command {
        Command::Tune(args) => Ok(*args),
        _ => Err(Failure::new("`msccl tune` is not at hand")),
    }
}
