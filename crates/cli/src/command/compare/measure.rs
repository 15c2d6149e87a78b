//! Times that are measured instead of estimated: `--device`.
//!
//! Each algorithm is a library of its own in one benchmark ([`msccl_bench::run`]) that serves with
//! nothing else: what was proved lies in a file that `MSCCL_XML_FILES` and `MSCCL_ALGO` name, and a
//! built-in one is named by `MSCCL_ALGO`. They take turns at every size. Protocol, links and
//! instances are those that the library chooses for it.

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use msccl_bench::{
    Average, Case, ElementType, LibraryReport, LibraryUnderTest, Machine, Method, Outcome,
    Placement, Plan, Redop, RequestedAlgorithms, Rounding, Row, RunObserver, SessionObserver,
    Sizes, Step, Sweep, Waiting, Workload,
};
use msccl_collective::CollectiveKind;
use msccl_environment::variable;

use super::collective_of;
use crate::args::{CompareArgs, DeviceName, PlacementName};
use crate::artifact;
use crate::command::bench::plan as bench;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::size::ByteSize;
use crate::verdict::Proved;

/// Calls in a row, each of which counts; as graphs, launches of so many.
const CALLS: u32 = 20;
/// How often each call is measured, algorithms taking turns; the median counts.
const REPEATS: u32 = 5;

/// What was measured.
pub struct Measured {
    /// Where, in words.
    pub machine: String,
    /// For each algorithm and size a time, or why there is none.
    pub times: Vec<Vec<std::result::Result<MeasuredTime, String>>>,
}

/// What a call took.
pub struct MeasuredTime {
    /// On its slowest rank, in µs.
    pub us: f64,
    /// How it ran.
    pub service: String,
}

/// Measures calls of `sizes` with each of `proved`.
///
/// # Errors
///
/// There is no library or no such device, or the algorithms are not for one collective that
/// benchmarks know.
pub fn measured(
    device: DeviceName,
    proved: &[Proved],
    sizes: &[ByteSize],
    args: &CompareArgs,
    output: &mut Output,
) -> Result<Measured> {
    let workload = workload(proved)?;
    let ranks = proved.first().map_or(0, |of| collective_of(&of.verified).ranks);
    let machine = bench::machine(device, None)?;
    if let Machine::Host { reason: Some(reason) } = &machine {
        output.warn(format_args!("measuring on host memory: {reason}"));
    }
    let folder = Folder::new()?;
    let library = bench::libraries(args.library.as_ref(), &[], &[])?;
    let library = library.into_iter().next();
    let library = library.ok_or_else(|| Failure::new("there is no library to measure with"))?;
    let libraries = proved.iter().enumerate();
    let libraries = libraries.map(|(number, of)| pinned(&library, of, number, &folder));
    let words = machine.in_words(ranks);
    let plan = Plan {
        libraries: libraries.collect::<Result<_>>()?,
        cases: sizes.iter().filter_map(|size| case(*size, workload, ranks, args)).collect(),
        ranks,
        method: method(&machine),
        machine,
        ranks_per_process: None,
        repeats: REPEATS,
        orders: 1,
        cycles: Some(1),
        timeout: args.timeout,
        worker: bench::worker()?,
    };
    let report = msccl_bench::run(&plan, &mut MeasurementReporter { output });
    let placement = placement(args);
    let of = |number: usize| {
        let (library, requested) = (&report.libraries[number], &plan.libraries[number].requested);
        let time = |size: &ByteSize| {
            let row = row(&report.rows, *size, workload, ranks, args);
            time(row.and_then(|row| row.outcomes(placement).get(number)), library, requested)
        };
        sizes.iter().map(time).collect()
    };
    let times = (0..proved.len()).map(of).collect();
    Ok(Measured { machine: words, times })
}

/// The collective that all of them are for.
fn workload(proved: &[Proved]) -> Result<Workload> {
    let kind = |of: &Proved| CollectiveKind::of(&collective_of(&of.verified).kind);
    let first = proved.first().and_then(kind);
    if let Some(other) = proved.iter().find(|of| kind(of) != first) {
        let file = &other.file;
        let text = format!(
            "expected algorithms for one collective, as all are measured in the same calls; \
             {file} is for another"
        );
        return Err(Failure::new(text));
    }
    let workload = first.and_then(|kind| kind.name().parse().ok());
    workload.ok_or_else(|| {
        Failure::new(
            "expected algorithms for a collective that NCCL has, found others: they have no call \
             that could be measured",
        )
    })
}

/// The library, made to serve with this algorithm alone.
fn pinned(
    library: &LibraryUnderTest,
    proved: &Proved,
    number: usize,
    folder: &Folder,
) -> Result<LibraryUnderTest> {
    let mut own = LibraryUnderTest { name: proved.file.clone(), ..library.clone() };
    let is_built_in = !Path::new(&proved.file).exists()
        && msccl_registry::built_in_programs().contains_key(proved.file.as_str());
    let name = match is_built_in {
        true => proved.file.clone(),
        false => {
            let file = folder.write(number, proved)?;
            let file = file.to_string_lossy().into_owned();
            own.environment.push((variable::XML_FILES.name.into(), OsString::from(&file)));
            file
        }
    };
    own.environment.push((variable::ALGO.name.into(), OsString::from(&name)));
    own.requested.name = Some(name);
    Ok(own)
}

fn method(machine: &Machine) -> Method {
    Method {
        iterations: CALLS,
        aggregated: 1,
        waiting: Waiting::AtEnd,
        warmup: 5,
        checks: 1,
        // There are no graphs on the host.
        graph_launches: machine.gpus().map_or(0, |_| CALLS),
        one_shot: false,
    }
}

/// A call of so many bytes; none, if that is less than an element for each block.
fn case(size: ByteSize, workload: Workload, ranks: u32, args: &CompareArgs) -> Option<Case> {
    let sweep = Sweep {
        workload,
        ranks,
        sizes: Sizes { min_bytes: size.0, max_bytes: size.0, step: Step::Add(0) },
        rounding: Rounding::Aligned,
        offset_bytes: None,
        elements: vec![ElementType(args.data_type)],
        redops: vec![Redop::Plain(args.op)],
        roots: vec![0],
    };
    sweep.cases().into_iter().next().filter(|case| case.count > 0)
}

/// What was measured for calls of so many bytes.
fn row<'a>(
    rows: &'a [Row],
    size: ByteSize,
    workload: Workload,
    ranks: u32,
    args: &CompareArgs,
) -> Option<&'a Row> {
    let case = case(size, workload, ranks, args)?;
    rows.iter().find(|row| row.case == case)
}

fn placement(args: &CompareArgs) -> Placement {
    match args.launch.placement {
        Some(PlacementName::In) => Placement::InPlace,
        Some(PlacementName::Out) | None => Placement::OutOfPlace,
    }
}

/// A time, if it is that of what was requested of `library`.
fn time(
    outcome: Option<&Outcome>,
    library: &LibraryReport,
    requested: &RequestedAlgorithms,
) -> std::result::Result<MeasuredTime, String> {
    let measurement = match outcome {
        Some(Outcome::Measured(measurement)) => measurement,
        Some(Outcome::Refused(reason)) => return Err(reason.clone()),
        Some(Outcome::Out) | None => {
            let loss = library.loss.clone();
            return Err(loss.unwrap_or_else(|| "it was not measured".to_owned()));
        }
    };
    if let Some(wrong) = measurement.first_wrong() {
        return Err(wrong.to_owned());
    }
    let served = measurement.served_by.as_ref();
    let served = served.ok_or("the library does not say what served")?;
    if requested.name.as_deref() != Some(&*served.algorithm) {
        return Err(format!("it does not serve such calls; {} does", served.algorithm));
    }
    Ok(MeasuredTime { us: measurement.time_us(Average::Max), service: served.variant.clone() })
}

/// A folder for the proved algorithms, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("msccl-compare-{}", std::process::id()));
        // Nobody else can have prepared what lies in it.
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| Failure::new(format!("cannot make {}: {error}", path.display())))?;
        Ok(Self(path))
    }

    /// Writes what was proved as JSON; where.
    fn write(&self, number: usize, proved: &Proved) -> Result<PathBuf> {
        let name = Path::new(&proved.file).file_stem().unwrap_or_default().to_string_lossy();
        let path = self.0.join(format!("{number}-{name}.json"));
        let text = msccl_interchange::json::write(proved.verified.algorithm());
        artifact::write_text(&path, &text)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nobody needs what is left.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Says what goes wrong.
struct MeasurementReporter<'a> {
    output: &'a mut Output,
}

impl SessionObserver for MeasurementReporter<'_> {
    fn line(&mut self, library: &str, rank: u32, line: &str) {
        self.output.note(format_args!("{library} r{rank}: {line}"));
    }

    fn lost(&mut self, library: &str, reason: &str) {
        self.output.error(format_args!("{library} is out: {reason}"));
    }
}

impl RunObserver for MeasurementReporter<'_> {
    fn begin(&mut self, _libraries: &[LibraryReport]) {}

    fn row(&mut self, _row: &Row) {}
}
