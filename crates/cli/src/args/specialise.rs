//! `msccl specialise`: collectives and files, for whom.

use std::str::FromStr;

use clap::Args;

use super::{NodesArgs, Word, values};

const EXAMPLES: &str = "\
Examples:
  msccl specialise --ranks 8
  msccl specialise allreduce --ranks 2 --arch sm_90
  MSCCL_KERNEL_CACHE=/shared/kernels msccl specialise --ranks 16 --per-node 8 mine.msccl

Each specialised kernel is made for one algorithm, and serves its small calls faster than an
interpreter does. The kernels go to the folder of MSCCL_KERNEL_CACHE, where the library finds them
(MSCCL_SPECIALISED=1, the default). The run-time compiler is NVIDIA's (MSCCL_NVRTC). Jobs must load
the same files and use the same tuning table.
Exit codes: 0 all are there, 1 some could not be compiled, or a file is refused, 2 bad usage.";

/// `msccl specialise`
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
#[command(override_usage = "msccl specialise [OPTIONS] --ranks <N> [COLLECTIVES|FILES]...")]
pub struct SpecialiseArgs {
    /// Collectives without a root, all of them if none is named; algorithms that jobs will load, in
    /// any format
    #[arg(value_name = "COLLECTIVE|FILE", value_parser = Word::unsized_from)]
    pub words: Vec<Word>,
    /// Number of ranks
    #[arg(long, value_name = "N")]
    #[arg(value_parser = values::ranks)]
    pub ranks: u32,
    #[command(flatten)]
    pub nodes: NodesArgs,
    /// Only the kernels of that rank
    #[arg(long, value_name = "RANK", value_parser = values::index)]
    pub rank: Option<u32>,
    /// The architecture of the GPUs
    #[arg(long, value_name = "NAME", default_value = "sm_90")]
    pub arch: Capability,
    /// The tuning table that jobs will use [default: what MSCCL_TUNING says]
    #[arg(long, value_name = "FILE")]
    pub tuning: Option<String>,
}

/// `sm_90`: a compute capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capability(pub u32);

impl FromStr for Capability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix("sm_").and_then(|number| number.parse().ok());
        let known = number.filter(|number| (70..1000).contains(number));
        let wrong = || format!("expected an architecture from sm_70 on, found `{text}`");
        known.map(Self).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_have_numbers() {
        assert_eq!("sm_90".parse(), Ok(Capability(90)));
        assert_eq!("sm_120".parse(), Ok(Capability(120)));
        for wrong in ["90", "sm_", "sm_60", "compute_90", "sm_90a"] {
            assert!(wrong.parse::<Capability>().is_err(), "{wrong}");
        }
    }
}
