//! `msccl specialise`: specialised kernels, compiled into the cache.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use msccl_collective::{CollectiveKind, DataType, Protocol, Rank};
use msccl_registry::{File, Registry};
use msccl_runtime::{
    Event, Made, Origin, SpecialisedKernel, compile_specialised, specialised_kernels,
};

use super::explain::{file, preferences, shape, tuning};
use crate::args::{SpecialiseArgs, Word};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::progress::Progress;
use crate::table::{Align, Table};
use crate::verdict::words::counted;

/// Compiles what the cache lacks.
pub fn specialise(args: &SpecialiseArgs, output: &mut Output) -> Result<Exit> {
    let (kinds, mut files) = words(&args.words)?;
    let preferences = preferences(output);
    files.extend(preferences.files());
    let tuning = tuning(args.tuning.as_deref(), &preferences, output)?;
    let special = preferences.specialised();
    let Some(cache) = &special.cache else {
        return Err(Failure::new(
            "MSCCL_KERNEL_CACHE is not set; set it to the folder of the kernel cache",
        ));
    };
    let progress = Progress::start("proving", output.is_quiet());
    let registry = Arc::new(Registry::new(shape(args.ranks, &args.nodes)?, &files));
    registry.refused().iter().for_each(|refused| output.warn(refused));
    registry.warnings().iter().for_each(|warning| output.warn(warning));
    let of_rank = |rank| {
        let (overrides, small) = (&preferences.overrides, preferences.low_latency());
        specialised_kernels(&registry, Rank(rank), &kinds, overrides, tuning.as_ref(), small)
    };
    let kernels: Vec<_> = ranks(args)?.flat_map(of_rank).collect();
    let remarks = Mutex::new(Vec::new());
    let log = |event: Event| remarks.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    let done = AtomicUsize::new(0);
    let each = |_: &SpecialisedKernel, _: &Made| {
        let done = 1 + done.fetch_add(1, Ordering::Relaxed);
        progress.now(format!("{done} of {}", counted(kernels.len() as u64, "specialised kernel")));
    };
    let started = Instant::now();
    let made = compile_specialised(&kernels, args.arch.0, &special, &log, &each);
    let took = started.elapsed();
    drop(progress);
    for remark in remarks.into_inner().unwrap_or_default() {
        if matches!(remark, Event::Unspecialised(_)) {
            output.warn(remark);
        }
    }
    if made.iter().any(|made| made.code.is_ok()) {
        print(&kernels, &made, output);
    }
    let all = made.iter().all(|made| made.code.is_ok());
    let summary = KernelRow::of(made.iter());
    output.line(format_args!("{summary} in {}, {:.1} s", cache.place(), took.as_secs_f64()));
    Ok(if all && registry.refused().is_empty() { Exit::Success } else { Exit::Refused })
}

/// The collectives and the files that are named.
fn words(words: &[Word]) -> Result<(Vec<CollectiveKind>, Vec<File>)> {
    let (mut kinds, mut files) = (Vec::new(), Vec::new());
    for word in words {
        match word {
            Word::File(path) => files.push(file(path)),
            Word::Size(size) => {
                return Err(Failure::new(format!(
                    "expected no size, found {size}: specialised kernels serve all sizes"
                )));
            }
            Word::Collective(kind) => {
                let of =
                    CollectiveKind::of(kind).filter(|of| CollectiveKind::WITHOUT_ROOT.contains(of));
                kinds.push(of.ok_or_else(|| {
                    Failure::new(
                        "expected a collective without a root: only those have specialised kernels",
                    )
                })?);
            }
        }
    }
    if kinds.is_empty() {
        kinds = CollectiveKind::WITHOUT_ROOT.to_vec();
    }
    Ok((kinds, files))
}

/// The ranks whose kernels are requested.
fn ranks(args: &SpecialiseArgs) -> Result<std::ops::Range<u32>> {
    match args.rank {
        None => Ok(0..args.ranks),
        Some(rank) if rank < args.ranks => Ok(rank..rank + 1),
        Some(rank) => {
            let last = Rank(args.ranks - 1);
            Err(Failure::new(format!("there is no rank {}; they are r0 to {last}", Rank(rank))))
        }
    }
}

/// What became of some kernels.
#[derive(Default)]
struct KernelRow {
    kernels: usize,
    compiled: usize,
    failed: usize,
    bytes: usize,
    /// All together.
    took: Duration,
}

impl KernelRow {
    fn of<'a>(made: impl Iterator<Item = &'a Made>) -> Self {
        let mut row = Self::default();
        for Made { code, origin } in made {
            row.kernels += 1;
            row.failed += usize::from(code.is_err());
            row.bytes += code.as_ref().map_or(0, Vec::len);
            if let Origin::Compiler { took } = origin {
                row.compiled += usize::from(code.is_ok());
                row.took += *took;
            }
        }
        row
    }
}

impl std::fmt::Display for KernelRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kernels, compiled, failed, bytes, took: _ } = self;
        let failed = match failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let kernels = counted(*kernels as u64, "specialised kernel");
        write!(f, "{kernels}: {compiled} compiled{failed}, {} KiB", bytes >> 10)
    }
}

/// A line for every algorithm, protocol and type, all ranks together.
fn print(kernels: &[SpecialisedKernel], made: &[Made], output: &mut Output) {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&Made>> = BTreeMap::new();
    for (of, made) in kernels.iter().zip(made) {
        let (protocol, data_type) =
            (Protocol::name(of.kernel.protocol), DataType::name(of.kernel.data_type));
        groups.entry((&of.algorithm, protocol, data_type)).or_default().push(made);
    }
    let columns = ["kernels", "compiled", "s each", "KiB each"].map(|name| (name, Align::Right));
    let names = ["algorithm", "protocol", "type"].map(|name| (name, Align::Left));
    let mut table = Table::new(&[&names[..], &columns[..]].concat());
    for ((algorithm, protocol, data_type), made) in groups {
        let KernelRow { kernels, compiled, failed: _, bytes, took } =
            KernelRow::of(made.into_iter());
        let each = took.as_secs_f64() / compiled.max(1) as f64;
        let seconds = if compiled == 0 { String::new() } else { format!("{each:.1}") };
        let names = [algorithm, protocol, data_type].map(str::to_owned);
        let [algorithm, protocol, data_type] = names;
        let (number, size) = (kernels.to_string(), ((bytes >> 10) / kernels).to_string());
        table.row([algorithm, protocol, data_type, number, compiled.to_string(), seconds, size]);
    }
    for line in table.lines() {
        output.detail(line);
    }
}
