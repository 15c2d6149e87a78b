//! The command line.
//!
//! Nothing here does anything. Options that several commands share stand in structs of their own:
//! [`LaunchArgs`] says which instance of a program is meant, [`ReportArgs`] how to report.

mod bench;
mod bound;
mod calibrate;
mod cluster;
mod compare;
mod doctor;
mod explain;
mod launch;
mod nccl_tests;
mod nodes;
mod preload;
mod report;
mod specialise;
mod synthesize;
mod topo;
mod trace;
mod tune;
mod values;

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use msccl_collective::{DataType, Reduction};

pub use bench::{BenchArgs, DeviceName, NamedPath, Scoped, ScopedRegistration};
pub use bound::{BoundArgs, SwitchesName};
pub use calibrate::CalibrateArgs;
pub use cluster::{ClusterArgs, MachineArgs};
pub use compare::CompareArgs;
pub use doctor::DoctorArgs;
pub use explain::{ExplainArgs, Word};
pub use launch::{LaunchArgs, Setting};
pub use nccl_tests::NcclTestsArgs;
pub use nodes::NodesArgs;
pub use preload::PreloadArgs;
pub use report::PageArgs;
pub use specialise::SpecialiseArgs;
pub use synthesize::SynthesizeArgs;
pub use topo::TopoArgs;
pub use trace::{
    PredictArgs, RecordingArgs, TraceAction, TraceArgs, TraceCompareArgs, TraceConvertArgs,
    TraceReportArgs, TraceStartArgs, TraceStopArgs,
};
pub use tune::TuneArgs;
pub use values::{
    ColorChoice, DialectName, Drawing, Emit, Format, Picture, PlaceName, PlacementName, RunDevice,
    Stage, TargetName,
};

use crate::size::{ByteSize, SizeSpan};

const EXAMPLES: &str = "\
Examples:
  msccl run dsl-examples/allreduce/ring.msccl
  msccl verify my.msccl --ranks 16
  msccl verify theirs.xml
  msccl compile my.msccl -D C=4 -o my.xml
  msccl show my.msccl --stage timeline --size 1MiB

Exit codes: 0 proved or in order, 1 refused or wrong, 2 bad usage or unreadable input.";

const LIST_EXAMPLES: &str = "\
Examples:
  msccl list --collective alltoall
  msccl list --collective allreduce --order --ranks 8
  msccl list allreduce/ring > mine.msccl
  msccl run allreduce/ring --ranks 4

Built-in programs are known by their names to every command that reads a program.";

/// Collective algorithms: write, prove, run.
#[derive(Parser, Debug)]
#[command(name = "msccl", version, about, after_help = EXAMPLES, disable_help_subcommand = true)]
#[command(propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// When to use colors; the variable NO_COLOR is respected
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
    /// Say only what was requested
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Compile a program, prove the result, and write it as XML, JSON or text
    Compile(CompileArgs),
    /// Prove an algorithm, or show how it goes wrong
    Verify(VerifyArgs),
    /// Compile, prove, run on host threads or GPUs, and check the result
    Run(RunArgs),
    /// Show a program after any stage of the compiler, as text or picture
    Show(ShowArgs),
    /// Write everything known of one algorithm as a page
    Report(PageArgs),
    /// Lay programs out in the one canonical form
    Fmt(FmtArgs),
    /// Look for mistakes in programs, for editors
    Check(CheckArgs),
    /// Serve an editor: diagnostics and proofs while one types, over standard input and output
    Lsp(LspArgs),
    /// List the examples and the modules of the standard library
    List(ListArgs),
    /// Say which algorithm would serve a call, and why not another
    Explain(ExplainArgs),
    /// Compare algorithms: time by estimate, what links carry, where each is best
    Compare(CompareArgs),
    /// Compile specialised kernels into the cache, ahead of the jobs that use them; needs no GPU
    Specialise(SpecialiseArgs),
    /// Show how GPUs and NICs are joined, here or on any machine
    Topo(TopoArgs),
    /// Show how fast a collective can be at best on a machine, and why
    Bound(BoundArgs),
    /// Write a program for a machine, proved, as fast as any can be there
    Synthesize(SynthesizeArgs),
    /// Measure and check libraries with the NCCL interface, side by side
    Bench(Box<BenchArgs>),
    /// Fit the rates of the cost model to the GPUs here, or say how near estimates come
    Calibrate(CalibrateArgs),
    /// Measure which algorithm serves which size best here, and write a tuning table
    Tune(Box<TuneArgs>),
    /// Show what a real run did: what holds calls up, and where
    Trace(TraceArgs),
    /// Say what will work on this machine, what will be slow, and why
    Doctor(DoctorArgs),
    /// Run a program with this library in the place of NCCL
    Launch(PreloadArgs),
    /// Ranks of a benchmark
    #[command(hide = true)]
    BenchWorker,
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Write pages of the manual
    #[command(hide = true)]
    Manual(ManualArgs),
}

impl Command {
    /// For whom it reports, and about which file; `None` if it always reports to people.
    pub fn report(&self) -> Option<(Format, String)> {
        let (report, file) = match self {
            Command::Compile(args) => (args.report, args.file.as_str()),
            Command::Verify(args) => (args.report, ""),
            Command::Run(args) => (args.report, args.file.as_str()),
            Command::Fmt(args) => (args.report, ""),
            Command::Check(args) => (args.report, ""),
            Command::List(args) => (args.report, args.dir.as_deref().unwrap_or("list")),
            Command::Compare(args) => (args.report, ""),
            Command::Calibrate(args) => (args.report, ""),
            Command::Explain(args) => (args.report, ""),
            Command::Bound(args) => (args.report, ""),
            Command::Doctor(args) => (args.report, ""),
            Command::Synthesize(args) => (args.report, ""),
            Command::Topo(args) => (args.report, args.file.as_deref().unwrap_or_default()),
            Command::Trace(TraceArgs { action: TraceAction::Report(args) }) => (args.report, ""),
            Command::Trace(TraceArgs { action: TraceAction::Compare(args) }) => (args.report, ""),
            Command::Show(_)
            | Command::Lsp(_)
            | Command::Report(_)
            | Command::Trace(TraceArgs {
                action: TraceAction::Convert(_) | TraceAction::Start(_) | TraceAction::Stop(_),
            })
            | Command::Specialise(_)
            | Command::Bench(_)
            | Command::Tune(_)
            | Command::BenchWorker
            | Command::Launch(_)
            | Command::Manual(_)
            | Command::Completions(_) => return None,
        };
        Some((report.format, file.to_owned()))
    }
}

/// `msccl compile`
#[derive(Args, Debug)]
pub struct CompileArgs {
    /// The program, or an algorithm in XML, JSON or text; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: String,
    /// Where to write; standard output if not given, or `-`. Traces are OUT.0.et, OUT.1.et, …
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: Option<String>,
    /// What to write [default: what the extension of OUT says, otherwise xml]
    #[arg(long, value_name = "WHAT")]
    pub emit: Option<Emit>,
    /// Size of the larger buffer, for traces, which hold for one size
    #[arg(long, value_name = "BYTES")]
    pub size: Option<ByteSize>,
    /// What a thread block copies or reduces, for traces, in GB/s for each operand [default:
    /// that takes no time]
    #[arg(long, value_name = "GB/S", value_parser = values::gb_per_s)]
    pub tb_rate: Option<f64>,
    /// Which runtime's XML to write
    #[arg(long, default_value = "msccl")]
    pub dialect: DialectName,
    /// What will run it [default: what the dialect says for xml, otherwise native]
    #[arg(long)]
    pub target: Option<TargetName>,
    /// Write without a proof
    #[arg(long)]
    pub no_verify: bool,
    /// Which instance of the program is meant.
    #[command(flatten)]
    pub launch: LaunchArgs,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
}

impl CompileArgs {
    /// The file to write, unless it is standard output.
    pub fn file_written(&self) -> Option<&str> {
        file_written(self.output.as_ref())
    }
}

fn file_written(output: Option<&String>) -> Option<&str> {
    output.map(String::as_str).filter(|path| *path != "-")
}

/// `msccl verify`
#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// Programs, or algorithms in XML, JSON or text; `-` is standard input
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<String>,
    /// What will run it; for XML msccl if not given, otherwise native
    #[arg(long)]
    pub target: Option<TargetName>,
    /// Only calls of these sizes, such as ..8MiB or 64KiB..1MiB
    #[arg(long, value_name = "RANGE")]
    pub size: Option<SizeSpan>,
    /// Which instance of the program is meant.
    #[command(flatten)]
    pub launch: LaunchArgs,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// `msccl run`
#[derive(Args, Debug)]
pub struct RunArgs {
    /// The program, or an algorithm in XML, JSON or text; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: String,
    /// Size of the larger buffer; may be given several times [default: 1KiB,64KiB,4MiB,
    /// as far as they are served; otherwise the smallest that is]
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    pub size: Vec<ByteSize>,
    /// Elements of one block instead of a size; may be given several times
    #[arg(long, value_name = "ELEMENTS", value_delimiter = ',', conflicts_with = "size")]
    pub count: Vec<u64>,
    /// Type of the elements
    #[arg(long = "type", value_name = "TYPE", default_value = "f32")]
    pub data_type: DataType,
    /// How contributions are combined
    #[arg(long, value_name = "OP", default_value = "sum")]
    pub op: Reduction,
    /// Runs of each size [default: 10, or as many as fit into a second]
    #[arg(short = 'n', long, value_parser = values::count)]
    pub iterations: Option<u32>,
    /// What runs it; on GPUs --protocol and --instances are followed where they can be
    #[arg(long, default_value = "host")]
    pub device: RunDevice,
    /// The GPUs to use, by number, in the order in which ranks are dealt to them [default: all]
    #[arg(long, value_name = "GPUS", value_delimiter = ',', value_parser = values::index)]
    pub gpus: Vec<u32>,
    /// Seconds after which one run is given up
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = values::seconds)]
    pub timeout: Duration,
    /// Worker threads on the host; as many as there are processors if not given
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub threads: Option<u32>,
    /// What it is compiled for
    #[arg(long)]
    pub target: Option<TargetName>,
    /// Which instance of the program is meant.
    #[command(flatten)]
    pub launch: LaunchArgs,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// `msccl show`
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// The program, or an algorithm in XML, JSON or text; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: String,
    /// After which stage
    #[arg(long, default_value = "schedule")]
    pub stage: Stage,
    /// As what [default: what the extension of OUT says, otherwise text]. Not every stage has
    /// every form
    #[arg(long)]
    pub format: Option<Picture>,
    /// Where to write; standard output if not given, or `-`
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: Option<String>,
    /// Only these ranks
    #[arg(long, value_name = "RANK", value_delimiter = ',', value_parser = values::index)]
    pub rank: Vec<u32>,
    /// Size of the larger buffer, for the timeline [default: 1MiB, or the nearest that is served]
    #[arg(long, value_name = "BYTES")]
    pub size: Option<ByteSize>,
    /// What will run it; for XML msccl if not given, otherwise native
    #[arg(long)]
    pub target: Option<TargetName>,
    /// Which instance of the program is meant.
    #[command(flatten)]
    pub launch: LaunchArgs,
}

impl ShowArgs {
    /// The file to write, unless it is standard output.
    pub fn file_written(&self) -> Option<&str> {
        file_written(self.output.as_ref())
    }
}

/// `msccl fmt`
#[derive(Args, Debug)]
pub struct FmtArgs {
    /// Programs to lay out in place; `-` is standard input, written to standard output
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<String>,
    /// Change nothing; fail if something would change
    #[arg(long)]
    pub check: bool,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// `msccl check`
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// Programs, or algorithms in XML, JSON or text; `-` is standard input
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<String>,
    /// What will run them; for XML msccl if not given, otherwise native
    #[arg(long)]
    pub target: Option<TargetName>,
    /// Which instance of the program is meant.
    #[command(flatten)]
    pub launch: LaunchArgs,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// `msccl lsp`
#[derive(Args, Debug)]
pub struct LspArgs {
    /// The only way that there is; editors may say so
    #[arg(long, hide = true)]
    pub stdio: bool,
}

/// `msccl list`
#[derive(Args, Debug)]
#[command(after_help = LIST_EXAMPLES)]
pub struct ListArgs {
    /// A built-in program or a module of the standard library, to print its text
    #[arg(conflicts_with_all = ["dir", "collective", "order"])]
    pub name: Option<String>,
    /// Where to look for programs [default: dsl-examples; where there is none, those built in]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub dir: Option<String>,
    /// Only algorithms for this collective
    #[arg(long, value_name = "NAME")]
    pub collective: Option<String>,
    /// Prove all of them, and say in which order each adds
    #[arg(long)]
    pub order: bool,
    /// Number of ranks for --order [default: what each program says]
    #[arg(long, value_name = "N", requires = "order", value_parser = values::ranks)]
    pub ranks: Option<u32>,
    /// Ranks on one node for --order [default: what each program says]
    #[arg(long, value_name = "G", requires = "order", value_parser = values::ranks)]
    pub per_node: Option<u32>,
    /// How to report.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// `msccl completions`
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// `msccl manual`
#[derive(Args, Debug)]
pub struct ManualArgs {
    /// Where to write them
    #[arg(value_hint = ValueHint::DirPath)]
    pub folder: String,
}

/// How to report.
#[derive(Args, Clone, Copy, Debug)]
pub struct ReportArgs {
    /// For people or for programs
    #[arg(long, default_value = "human")]
    pub format: Format,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
