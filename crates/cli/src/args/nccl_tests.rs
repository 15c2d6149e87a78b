//! The options of nccl-tests that `msccl bench` takes so that its command lines work as they are.
//!
//! What they mean here is in [`crate::command::bench`]: done, mapped to an option of ours, or
//! without effect, which a note says.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use msccl_bench::Waiting;

use super::values;

/// Options of nccl-tests beside those that are ours as well.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "As in nccl-tests")]
pub struct NcclTestsArgs {
    /// Calls that are made at once, as a group
    #[arg(short = 'm', long = "agg_iters", value_name = "CALLS", default_value = "1")]
    #[arg(value_parser = values::count)]
    pub aggregated: u32,
    /// How often everything is measured; 0 goes on until it is ended
    #[arg(short = 'N', long = "run_cycles", value_name = "TIMES", default_value = "1")]
    #[arg(value_parser = values::number)]
    pub cycles: u32,
    /// Between timed calls: 0 wait for nobody, 1 for each call and the other ranks, 2 for each
    /// call, 3 as 1 without counting the wait for others
    #[arg(short = 'z', long = "blocking", value_name = "HOW", default_value = "0")]
    #[arg(value_parser = waiting)]
    pub waiting: Waiting,
    /// Begin buffers that many elements behind aligned addresses
    #[arg(short = 'u', long = "unalign", value_name = "ELEMENTS", conflicts_with = "offset")]
    #[arg(value_parser = values::number)]
    pub unalign: Option<u32>,
    /// 1: show how long the function takes to return, as --host-time
    #[arg(short = 'C', long = "report_cputime", value_name = "0/1", default_value = "0")]
    #[arg(value_parser = values::number)]
    pub cpu_time: u32,
    /// 1: put date and time (UTC) at the end of each row
    #[arg(short = 'S', long = "report_timestamps", value_name = "0/1", default_value = "0")]
    #[arg(value_parser = values::number)]
    pub timestamps: u32,
    /// Where to write all figures as JSON, as --json
    #[arg(short = 'J', long = "output_file", value_name = "FILE", conflicts_with = "json")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub output_file: Option<PathBuf>,
    /// Without effect: ranks always join at the same time
    #[arg(short = 'p', long = "parallel_init", value_name = "0/1", value_parser = values::number)]
    pub parallel_init: Option<u32>,
    /// Without effect: every rank has a stream of its own
    #[arg(short = 'y', long = "stream_null", value_name = "0/1", value_parser = values::number)]
    pub stream_null: Option<u32>,
    /// Without effect: memory is not measured
    #[arg(short = 'M', long = "memory", value_name = "0/1", value_parser = values::number)]
    pub memory: Option<u32>,
    /// Without effect: communicators have the library's own policy
    #[arg(short = 'x', long = "cta_policy", value_name = "HOW", value_parser = values::number)]
    pub cta_policy: Option<u32>,
    /// Without effect: the library's own functions are measured
    #[arg(short = 'D', long = "device_implementation", value_name = "N")]
    #[arg(value_parser = values::number)]
    pub device_implementation: Option<u32>,
    /// Without effect: as -D
    #[arg(short = 'V', long = "device_cta_count", value_name = "N", value_parser = values::number)]
    pub device_cta_count: Option<u32>,
    /// Without effect: --latency times every call alone
    #[arg(short = 'I', long = "per_iter_timing", value_name = "0/1")]
    #[arg(value_parser = values::number)]
    pub per_iter_timing: Option<u32>,
    /// Without effect: as -I
    #[arg(short = 'K', long = "per_iter_skip", value_name = "N", value_parser = values::number)]
    pub per_iter_skip: Option<u32>,
}

impl NcclTestsArgs {
    /// Whether rows end with date and time.
    pub fn timestamps(&self) -> bool {
        self.timestamps > 0
    }
}

fn waiting(text: &str) -> Result<Waiting, String> {
    match values::number(text)? {
        0 => Ok(Waiting::AtEnd),
        1 => Ok(Waiting::EachAndRanks),
        2 => Ok(Waiting::Each),
        3 => Ok(Waiting::EachAndRanksUntimed),
        other => Err(format!(
            "expected 0 (wait for nobody), 1 (for each call and the other ranks), 2 (for each \
             call) or 3 (as 1, wait for others not counted), found {other}"
        )),
    }
}
