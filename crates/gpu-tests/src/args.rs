//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Tests communicators on GPUs: every result is compared, bit for bit, with that of the host
/// executor or of the plain reference.
///
/// Exit code 0: all is well, or there is no GPU; 1: something is wrong; 3: something stood still.
#[derive(Clone, Parser, Debug)]
#[command(name = "msccl-gpu-tests", version)]
pub struct Args {
    /// Lists the sections and ends.
    #[arg(long)]
    pub list: bool,
    /// Runs only sections whose name contains this; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Leaves out sections whose name contains this; may be given several times.
    #[arg(long, value_name = "NAME")]
    pub skip: Vec<String>,
    /// Tells of every check how long it took.
    #[arg(long)]
    pub tell: bool,
    /// Fewer cases of each kind: under a minute.
    #[arg(long)]
    pub quick: bool,
    /// How many ranks; they share GPUs where these are fewer.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=32))]
    pub ranks: u32,
    /// Where ranks run.
    #[arg(long, value_enum, default_value_t = Device::Gpu)]
    pub device: Device,
    /// What random cases follow from.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How long `soak` runs, in seconds [default: 5, quick 2].
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<u64>,
    /// The scene with which `soak` begins, to repeat one that failed.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub scene: u64,
    /// Special kernels, as `cargo xtask specialise FOLDER` makes them, for the section
    /// `specialised`.
    #[arg(long, value_name = "FOLDER")]
    pub cubins: Option<PathBuf>,
    /// Special kernels in all sections, compiled when they are first needed.
    #[arg(long)]
    pub special: bool,
    /// The run-time compiler [default: what MSCCL_NVRTC says, or wherever it is found].
    #[arg(long, value_name = "LIBRARY")]
    pub nvrtc: Option<String>,
    /// Runs as one rank, started by the section `processes`.
    #[arg(long, hide = true)]
    pub as_rank: Option<u32>,
    /// The communicator that the rank joins.
    #[arg(long, hide = true)]
    pub id: Option<String>,
    /// What the rank does.
    #[arg(long, hide = true)]
    pub task: Option<String>,
    /// How long nothing may happen before the program gives up, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub patience: u64,
}

/// Where ranks run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub enum Device {
    /// On GPUs.
    Gpu,
    /// On host threads.
    Host,
}

impl Args {
    /// Whether the section of that name is to run.
    pub fn selects(&self, section: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| section.contains(name.as_str()));
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }

    /// How long nothing may happen before the program gives up.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.patience)
    }
}
