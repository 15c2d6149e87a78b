//! `msccl bench`: nccl-tests' options under their own names, and ours.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use msccl_bench::{
    Average, DeviceSelection, ElementType, Factor, Redop, Registration, Step, Workload,
};

use super::{NcclTestsArgs, values};
use crate::size::ByteSize;

const EXAMPLES: &str = "\
Examples:
  msccl bench allreduce
  msccl bench allreduce --against /path/to/libnccl.so.2 -G 10 --svg allreduce.svg
  msccl bench allgather -b 1K -e 1M --latency -d half
  msccl bench allreduce --against nccl=NCCL --against symmetric=NCCL -R symmetric:2
  msccl bench allreduce -d all -o all --odd -e 1M
  msccl bench allreduce -b 1K -f 7/5 --odd --offset 4 -G 10 --repeat 3 --next-power --at-most 1.1
  msccl bench allreduce,allgather,alltoall -b 1K -G 10 --repeat 3 --against nccl=NCCL --at-least 1
  msccl bench alltoall --ranks 8 --device host -e 64K
  msccl bench all_reduce_perf -b 8 -e 64MB -f 2 -g 8 -n 50 -w 10 -c 1 -z 0

Command lines of nccl-tests work as they are, the name of the program first. What an option does not
do here is said in one line when it is given.

Columns are those of nccl-tests; ratios are times of the other library by ours, so that more than 1
means that ours is faster. Exit codes: 0 everything right, 1 wrong results or a library that failed,
2 bad usage.";

/// `msccl bench`
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, disable_version_flag = true, infer_long_args = true)]
pub struct BenchArgs {
    /// What to measure: allreduce, allgather, reducescatter, broadcast, reduce, alltoall, sendrecv,
    /// gather, scatter or hypercube; several with commas; nccl-tests' names are understood, too
    #[arg(value_name = "COLLECTIVES")]
    pub collective: Collectives,

    /// The library to measure; ours if not given (MSCCL_LIBRARY, or libnccl.so.2 beside msccl)
    #[arg(long, value_name = "[NAME=]PATH", value_hint = ValueHint::FilePath)]
    pub library: Option<NamedPath>,
    /// Another library to measure in turns with it; may be given several times
    #[arg(long, value_name = "[NAME=]PATH", value_hint = ValueHint::FilePath)]
    pub against: Vec<NamedPath>,
    /// Set a variable for all libraries, or for the one of that name; may be given several times
    #[arg(long, value_name = "[NAME:]KEY=VALUE")]
    pub env: Vec<Scoped>,

    /// How the buffers of all libraries, or of the one of that name, are registered: 0 not at all,
    /// 1 each rank registers its own, 2 symmetric windows; may be given several times, the last one
    /// for a library counts. Registered buffers are allocated by the library [default: 0]
    #[arg(short = 'R', long = "local_register", value_name = "[NAME:]HOW")]
    pub register: Vec<ScopedRegistration>,

    /// Smallest size
    #[arg(short = 'b', long = "minbytes", value_name = "BYTES", default_value = "8")]
    pub min: ByteSize,
    /// Largest size [default: 1G, on the host 1M]
    #[arg(short = 'e', long = "maxbytes", value_name = "BYTES")]
    pub max: Option<ByteSize>,
    /// Factor from one size to the next, such as 2, 1.4 or 7/5 [default: 2]
    #[arg(short = 'f', long = "stepfactor", value_name = "FACTOR")]
    pub factor: Option<Factor>,
    /// Increment from one size to the next, unless there is a factor of more than 1
    #[arg(short = 'i', long = "stepbytes", value_name = "BYTES")]
    pub step: Option<ByteSize>,
    /// Make every count odd, and buffers unaligned
    #[arg(long)]
    pub odd: bool,
    /// Let the buffers of every call begin that many bytes behind aligned addresses, a multiple of
    /// the elements' size; if not given, calls lie one right behind the other
    #[arg(long, value_name = "BYTES")]
    pub offset: Option<u64>,
    /// Measure the next larger power of two of every size, too, aligned and at aligned addresses,
    /// and compare
    #[arg(long)]
    pub next_power: bool,
    /// Fail if a call takes more than that many times as long as the next larger power of two
    #[arg(long, value_name = "RATIO", requires = "next_power", value_parser = values::ratio)]
    pub at_most: Option<f64>,
    /// Fail if another library takes less than that many times as long as the first
    #[arg(long, value_name = "RATIO", requires = "against", value_parser = values::ratio)]
    pub at_least: Option<f64>,
    /// Compare bits instead of measuring: make calls of all sizes with the same values, in and out
    /// of place, at several offsets, and by every algorithm that may serve them; count the elements
    /// that have other bits than in the first call; fail if there are any
    #[arg(long, conflicts_with_all = ["next_power", "latency", "host_time", "svg"])]
    pub invariant: bool,
    /// Types: float, half, bfloat16, int8, …; several with commas, or all
    #[arg(short = 'd', long = "datatype", value_name = "TYPES", default_value = "float")]
    pub types: Several<ElementType>,
    /// Reductions: sum, prod, max, min, avg, mulsum; several with commas, or all
    #[arg(short = 'o', long = "op", value_name = "OPS", default_value = "sum")]
    pub ops: Several<Redop>,
    /// Root ranks; several with commas, or all
    #[arg(short = 'r', long = "root", value_name = "RANKS", default_value = "0")]
    pub roots: Several<u32>,

    /// Calls that are timed [default: 20, with --latency 200]
    #[arg(short = 'n', long = "iters", value_parser = values::count)]
    pub iterations: Option<u32>,
    /// How often each call is measured, libraries in turns; the median counts
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = values::count)]
    pub repeat: u32,
    /// How often all is measured, each time in new processes of which those of another library are
    /// the first; the median counts
    #[arg(
        long,
        value_name = "TIMES",
        default_value = "1",
        value_parser = values::count,
        conflicts_with = "cycles"
    )]
    pub orders: u32,
    /// Calls before those
    #[arg(short = 'w', long = "warmup_iters", value_name = "CALLS", default_value = "5")]
    pub warmup: u32,
    /// Calls whose whole result is checked; 0 checks nothing
    #[arg(short = 'c', long = "check", value_name = "CALLS", default_value = "1")]
    pub checks: u32,
    /// Capture the calls in a CUDA graph and launch it that often; 0 uses none
    #[arg(short = 'G', long = "cudagraph", value_name = "LAUNCHES", default_value = "0")]
    pub graph: u32,
    /// Time every call alone, from a common start to its end, instead of many in a row; the time is
    /// the median
    #[arg(long)]
    pub latency: bool,
    /// Show how long the function takes to return
    #[arg(long)]
    pub host_time: bool,
    /// How times of ranks become one: 0 rank 0, 1 mean, 2 min, 3 max
    #[arg(short = 'a', long = "average", value_name = "HOW", default_value = "1")]
    pub average: Average,

    /// GPUs to use, with -t times as many; all if not given. On the host, ranks
    #[arg(short = 'g', long = "ngpus", value_name = "GPUS", value_parser = values::count)]
    pub gpus: Option<u32>,
    /// Ranks; as many as GPUs if not given, on the host 4. Several can share a GPU
    #[arg(long, value_name = "N", value_parser = values::ranks)]
    pub ranks: Option<u32>,
    /// Ranks in one process, each on a thread of its own; if not given, those that share a GPU
    #[arg(short = 't', long = "nthreads", value_name = "N")]
    #[arg(value_parser = values::count)]
    pub threads: Option<u32>,
    /// Where buffers lie
    #[arg(long, default_value = "auto")]
    pub device: DeviceName,
    /// Seconds after which joining, or a measurement, is given up; 0 waits
    #[arg(short = 'T', long, value_name = "SECONDS", default_value = "120")]
    #[arg(value_parser = values::timeout)]
    pub timeout: Duration,

    /// Where to write all figures as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Where to draw bandwidth and time over size
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,

    /// Options of nccl-tests that are not listed above.
    #[command(flatten)]
    pub of_nccl_tests: NcclTestsArgs,
}

impl BenchArgs {
    /// Where to write JSON.
    pub fn json_file(&self) -> Option<&PathBuf> {
        self.json.as_ref().or(self.of_nccl_tests.output_file.as_ref())
    }

    /// Whether to show how long the function takes to return.
    pub fn shows_host_time(&self) -> bool {
        self.host_time || self.of_nccl_tests.cpu_time > 0
    }

    /// From one size to the next: by the factor if it is more than 1, otherwise by the increment.
    pub fn growth(&self) -> Step {
        match (self.factor, self.step) {
            (None, None) => Step::Factor(Factor::whole(2)),
            (Some(factor), None) => Step::Factor(factor),
            (Some(factor), Some(_)) if factor.grows() => Step::Factor(factor),
            (_, Some(step)) => Step::Add(step.0),
        }
    }
}

/// Where buffers lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DeviceName {
    /// On GPUs if there are any, otherwise on the host.
    Auto,
    /// On GPUs.
    Cuda,
    /// On the host, which our library alone can do.
    Host,
}

impl DeviceName {
    /// The selection.
    pub fn selection(self) -> DeviceSelection {
        match self {
            DeviceName::Auto => DeviceSelection::Whatever,
            DeviceName::Cuda => DeviceSelection::Gpus,
            DeviceName::Host => DeviceSelection::Host,
        }
    }
}

/// One collective after another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Collectives(pub Vec<Workload>);

impl FromStr for Collectives {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = text.split(',').map(|name| name.trim().parse());
        names.collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Collectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|workload| workload.name()).collect();
        f.write_str(&names.join(", "))
    }
}

/// Some values, or all there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Several<T> {
    /// All there are.
    All,
    /// These.
    These(Vec<T>),
}

impl<T: Clone> Several<T> {
    /// The values, where `all` are all there are.
    pub fn of(&self, all: impl IntoIterator<Item = T>) -> Vec<T> {
        match self {
            Several::All => all.into_iter().collect(),
            Several::These(these) => these.clone(),
        }
    }
}

impl<T: FromStr<Err: ToString>> FromStr for Several<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("all") {
            return Ok(Several::All);
        }
        let these = text.split(',').map(|name| name.trim().parse::<T>());
        these.collect::<Result<_, _>>().map(Several::These).map_err(|error| error.to_string())
    }
}

/// `name=path` or a path alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedPath {
    /// What reports call it, if that was said.
    pub name: Option<String>,
    /// Where it is.
    pub path: PathBuf,
}

impl FromStr for NamedPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = text.split_once('=').filter(|(name, _)| !name.contains('/'));
        let (name, path) = named.map_or((None, text), |(name, path)| (Some(name), path));
        if path.is_empty() || name == Some("") {
            return Err(format!("expected PATH or NAME=PATH, found `{text}`"));
        }
        Ok(Self { name: name.map(str::to_owned), path: path.into() })
    }
}

/// `key=value`, for all libraries or for one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scoped {
    /// The library's name, if it is for one alone.
    pub library: Option<String>,
    /// The variable.
    pub key: String,
    /// Its value.
    pub value: String,
}

impl FromStr for Scoped {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected KEY=VALUE or NAME:KEY=VALUE, found `{text}`");
        let (place, value) = text.split_once('=').ok_or_else(wrong)?;
        let (library, key) = match place.split_once(':') {
            Some((library, key)) => (Some(library.to_owned()), key),
            None => (None, place),
        };
        if key.is_empty() || library.as_deref() == Some("") {
            return Err(wrong());
        }
        Ok(Self { library, key: key.to_owned(), value: value.to_owned() })
    }
}

/// How buffers are registered, for all libraries or for one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScopedRegistration {
    /// The library's name, if it is for one alone.
    pub library: Option<String>,
    /// How they are registered.
    pub registration: Registration,
}

impl FromStr for ScopedRegistration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (library, how) = match text.split_once(':') {
            Some(("", _)) => return Err(format!("expected HOW or NAME:HOW, found `{text}`")),
            Some((library, how)) => (Some(library.to_owned()), how),
            None => (None, text),
        };
        Ok(Self { library, registration: how.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_may_have_names() {
        let named = |text: &str| text.parse::<NamedPath>().map(|it| (it.name, it.path));
        let name = Some("old".to_owned());
        assert_eq!(named("old=/lib/a.so"), Ok((name, "/lib/a.so".into())));
        assert_eq!(named("/x=y/a.so"), Ok((None, "/x=y/a.so".into())));
        assert!(named("=a").is_err() && named("a=").is_err() && named("").is_err());
    }

    #[test]
    fn variables_are_for_all_or_for_one() {
        let scoped = |text: &str| text.parse::<Scoped>().map(|it| (it.library, it.key, it.value));
        let owned = str::to_owned;
        assert_eq!(scoped("A=b=c:d"), Ok((None, owned("A"), owned("b=c:d"))));
        assert_eq!(scoped("nccl:A="), Ok((Some(owned("nccl")), owned("A"), owned(""))));
        assert!(scoped("A").is_err() && scoped(":A=b").is_err() && scoped("nccl:=b").is_err());
    }

    #[test]
    fn buffers_are_registered_for_all_or_for_one() {
        let scoped =
            |text: &str| text.parse::<ScopedRegistration>().map(|it| (it.library, it.registration));
        assert_eq!(scoped("1"), Ok((None, Registration::Local)));
        assert_eq!(scoped("nccl-R2:2"), Ok((Some("nccl-R2".to_owned()), Registration::Symmetric)));
        assert!(scoped("nccl:3").is_err() && scoped(":1").is_err() && scoped("").is_err());
    }

    #[test]
    fn several_are_some_or_all() {
        assert_eq!("0, 3".parse(), Ok(Several::These(vec![0_u32, 3])));
        assert_eq!("ALL".parse::<Several<u32>>().map(|all| all.of(0..3)), Ok(vec![0, 1, 2]));
        assert!("float,f17".parse::<Several<ElementType>>().is_err());
    }
}
