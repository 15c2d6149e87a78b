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
    /// Prints how long every check took.
    #[arg(long, alias = "tell")]
    pub verbose: bool,
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
    /// Specialised kernels, as `cargo xtask specialise FOLDER` makes them, for the section
    /// `interpretation-cost`.
    #[arg(long, value_name = "FOLDER")]
    pub cubins: Option<PathBuf>,
    /// Specialised kernels in all sections, compiled when they are first needed.
    #[arg(long, alias = "special")]
    pub specialised: bool,
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
        let named = |names: &[String]| names.iter().any(|name| section.contains(today(name)));
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }

    /// How long nothing may happen before the program gives up.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.patience)
    }
}

/// What a section of an earlier name is called today.
fn today(name: &str) -> &str {
    match name {
        "far" => "inter-node",
        "turns" => "launch-order",
        "special" => "specialised",
        "canary" => "failure-containment",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_selected_by_parts_of_their_names_and_by_earlier_ones() {
        let args =
            |arguments: &[&str]| Args::parse_from([&["msccl-gpu-tests"], arguments].concat());
        assert!(args(&[]).selects("inter-node"));
        for name in ["inter", "inter-node", "far"] {
            assert!(args(&["--only", name]).selects("inter-node"), "{name}");
            assert!(!args(&["--skip", name]).selects("inter-node"), "{name}");
            assert!(!args(&["--only", name]).selects("launch-order"), "{name}");
        }
        for (earlier, name) in [
            ("turns", "launch-order"),
            ("special", "specialised"),
            ("canary", "failure-containment"),
        ] {
            assert!(args(&["--only", earlier]).selects(name), "{earlier}");
        }
        assert!(args(&["--tell", "--special"]).verbose);
    }
}
