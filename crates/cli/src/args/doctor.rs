//! `msccl doctor`

use clap::{Args, ValueHint};

use super::{ReportArgs, values};

const EXAMPLES: &str = "\
Examples:
  msccl doctor
  msccl doctor --python venv/bin/python
  msccl doctor --pid 4711

It looks at the driver, GPUs, networks, /dev/shm, limits, Python and its packages, the libraries
that programs would load, and variables. It changes nothing.
Exit codes: 0 nothing fails, 1 something fails.";

/// `msccl doctor`
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// The Python whose packages are looked at [default: python3 or python on the path]
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::ExecutablePath)]
    pub python: Option<String>,
    /// Also say which library this running process has loaded
    #[arg(long, value_name = "PID", value_parser = values::index)]
    pub pid: Option<u32>,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
}
