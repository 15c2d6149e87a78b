//! `msccl trace`: what a real run did.

use clap::{Args, Subcommand, ValueHint};

use super::{MachineArgs, ReportArgs};

const EXAMPLES: &str = "\
Examples:
  msccl trace report traces
  msccl trace report traces --html report.html --predict --topo hgx-h100-8
  msccl trace report traces --program mine.msccl --predict
  msccl trace convert traces --perfetto run.pftrace
  msccl trace convert traces --chrome both.json --merge pytorch.json
  msccl trace compare before after
  msccl trace start traces --pid 1234 --pid 1235 --seconds 2

MSCCL_TRACE makes recordings, one for each rank and communicator (docs/TRACING.md).";

/// `msccl trace`
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct TraceArgs {
    /// What to do with recordings.
    #[command(subcommand)]
    pub action: TraceAction,
}

/// What to do with recordings.
#[derive(Subcommand, Debug)]
pub enum TraceAction {
    /// Say what holds calls up: a rank, a thread block, a link, a line
    Report(TraceReportArgs),
    /// Write the timeline for Perfetto or Chrome
    Convert(TraceConvertArgs),
    /// Compare runs
    Compare(TraceCompareArgs),
    /// Let running processes record from now on
    Start(TraceStartArgs),
    /// Let running processes record no longer
    Stop(TraceStopArgs),
}

/// `msccl trace start`
#[derive(Args, Debug)]
pub struct TraceStartArgs {
    /// The folder of the recordings, which is made if it does not exist
    #[arg(value_hint = ValueHint::DirPath)]
    pub folder: String,
    /// Number of a process; may be given several times
    #[arg(long, required = true, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<f64>,
}

/// `msccl trace stop`
#[derive(Args, Debug)]
pub struct TraceStopArgs {
    /// Number of a process; may be given several times
    #[arg(long, required = true, value_name = "PID")]
    pub pid: Vec<u32>,
}

/// Which recordings are meant.
#[derive(Args, Debug)]
pub struct RecordingArgs {
    /// Recordings, or folders of them
    #[arg(required = true, value_name = "FILE|FOLDER", value_hint = ValueHint::AnyPath)]
    pub recordings: Vec<String>,
    /// Only the communicator whose id or name this is
    #[arg(long, value_name = "NAME")]
    pub communicator: Option<String>,
}

/// What a run should reach.
#[derive(Args, Debug)]
pub struct PredictArgs {
    /// Put the prediction of the cost model beside what was measured
    #[arg(long)]
    pub predict: bool,
    /// The program of an algorithm that is not built in; may be given several times
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "predict")]
    pub program: Vec<String>,
    /// On which machine.
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// `msccl trace report`
#[derive(Args, Debug)]
pub struct TraceReportArgs {
    /// Which recordings are meant.
    #[command(flatten)]
    pub recordings: RecordingArgs,
    /// Write the report as a page, with the timeline drawn
    #[arg(long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub html: Option<String>,
    /// Compare with the recordings of another run, which came before
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::AnyPath)]
    pub against: Option<String>,
    /// What the run should reach.
    #[command(flatten)]
    pub predict: PredictArgs,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// `msccl trace convert`
#[derive(Args, Debug)]
pub struct TraceConvertArgs {
    /// Which recordings are meant.
    #[command(flatten)]
    pub recordings: RecordingArgs,
    /// Write a trace for ui.perfetto.dev
    #[arg(long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    #[arg(required_unless_present = "chrome")]
    pub perfetto: Option<String>,
    /// Write a profile as JSON, for chrome://tracing
    #[arg(long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub chrome: Option<String>,
    /// Put a profile of PyTorch into the file of --chrome, too
    #[arg(long, value_name = "PROFILE", value_hint = ValueHint::FilePath, requires = "chrome")]
    pub merge: Option<String>,
    /// What the run should reach.
    #[command(flatten)]
    pub predict: PredictArgs,
}

/// `msccl trace compare`
#[derive(Args, Debug)]
pub struct TraceCompareArgs {
    /// The recordings or the folders of the runs; each is compared with the first
    #[arg(
        required = true,
        num_args = 2..,
        value_name = "FILE|FOLDER",
        value_hint = ValueHint::AnyPath
    )]
    pub runs: Vec<String>,
    /// Only the communicator whose id or name this is
    #[arg(long, value_name = "NAME")]
    pub communicator: Option<String>,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
}
