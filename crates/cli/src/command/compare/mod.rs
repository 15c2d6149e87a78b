//! `msccl compare`: how long algorithms take, what they put on links, and where each is best.

mod human;
mod json;
mod measure;
mod picture;

use msccl_bounds::{SwitchModel, bound};
use msccl_collective::{CallPlacement, CollectiveKind, Rank};
use msccl_pages::timeline::chain;
use msccl_registry::{Registry, Shape};
use msccl_select::Hardware;
use msccl_simulate::link_loads;
use msccl_verify::Verified;

use self::measure::{Measured, MeasuredTime};
use crate::args::{CompareArgs, Format, PlacementName};
use crate::artifact;
use crate::calibration::hardware;
use crate::collective;
use crate::estimate::{CallTerms, Estimator};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::loads::{Busiest, busiest_of_media};
use crate::output::Output;
use crate::progress::Progress;
use crate::size::ByteSize;
use crate::subject;
use crate::verdict::{self, Proved, Verdict};

/// Algorithms on a machine.
pub struct Comparison {
    hardware: Hardware,
    /// Where times were measured, if they are no estimates.
    measured_on: Option<String>,
    sizes: Vec<ByteSize>,
    /// For each size, what no schedule can beat, in µs, if there is such a bound.
    bounds_us: Vec<Option<f64>>,
    algorithms: Vec<Compared>,
}

/// One of the algorithms.
pub struct Compared {
    name: String,
    /// For each size, how long a call takes, or why that is unknown.
    times: Vec<std::result::Result<Time, String>>,
    /// The busiest link of each class, by bytes for its rate.
    loads: Vec<Busiest>,
    /// Messages in the longest chain of a call of the smallest size that is served.
    chain: Option<usize>,
}

/// How long a call takes.
pub struct Time {
    us: f64,
    /// How it runs.
    service: String,
    /// Thread blocks of the rank that has most, if it was estimated.
    blocks: Option<u32>,
}

/// Compares the algorithms.
pub fn compare(args: &CompareArgs, output: &mut Output) -> Result<Exit> {
    let mut sizes = args.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let progress = Progress::start("proving", output.is_quiet());
    let mut proved = Vec::new();
    for name in names(args) {
        match judged(&name, args, output)? {
            Verdict::Proved(of) => proved.push(*of),
            Verdict::Refused(refused) => {
                drop(progress);
                verdict::print(&Verdict::Refused(refused), output);
                return Ok(Exit::Refused);
            }
        }
    }
    let shape = shape(&proved)?;
    let cluster = args.launch.cluster.cluster(output)?;
    let calibration = args.launch.cluster.machine.calibration.as_deref();
    let estimator = Estimator::of_shape(shape, hardware(cluster, calibration, shape)?);
    let measured = match args.device {
        Some(device) => {
            progress.now("measuring");
            Some(measure::measured(device, &proved, &sizes, args, output)?)
        }
        None => None,
    };
    progress.now("estimating");
    let mut found = Comparison::of(proved, sizes, &estimator, args);
    if let Some(measured) = measured {
        found.replace_times(measured);
    }
    drop(progress);
    if let Some(path) = &args.svg {
        artifact::write_text(path, &picture::svg(&found))?;
    }
    match args.report.format {
        Format::Human => human::print(&found, output),
        Format::Json => output.json(&json::to_json(&found)),
    }
    Ok(Exit::Success)
}

/// What was named; a collective stands for the built-in algorithms for it.
fn names(args: &CompareArgs) -> Vec<String> {
    let ranks = args.launch.ranks.unwrap_or(8);
    let per_node = args.launch.per_node.unwrap_or(ranks).max(1);
    let of = |word: &String| {
        let kind = collective::named(word).map(|kind| collective::with_root(kind, Rank(0)));
        let Some(kind) = kind.and_then(|kind| CollectiveKind::of(&kind)) else {
            return vec![word.clone()];
        };
        let registry = Registry::new(Shape { ranks, per_node }, &[]);
        let names = registry.built_in_names(kind, CallPlacement::OutOfPlace);
        names.map(str::to_owned).collect()
    };
    args.algorithms.iter().flat_map(of).collect()
}

fn judged(name: &str, args: &CompareArgs, output: &mut Output) -> Result<Verdict> {
    let input = Input::read(name)?;
    let loaded = subject::load(input, &args.launch, None, &mut |warning| output.warn(warning))?;
    Ok(verdict::judge(loaded))
}

/// The ranks that all have in common.
fn shape(proved: &[Proved]) -> Result<Shape> {
    let ranks = |of: &Proved| of.verified.algorithm().collective.ranks;
    let Some(first) = proved.first() else {
        return Err(Failure::new("there is nothing to compare for so many ranks"));
    };
    if let Some(other) = proved.iter().find(|of| ranks(of) != ranks(first)) {
        return Err(Failure::new(format!(
            "expected algorithms for as many ranks each, found {} for {} and {} for {}; choose \
             --ranks",
            first.file,
            ranks(first),
            other.file,
            ranks(other)
        )));
    }
    let per_node = proved.iter().map(|of| of.per_node).min().unwrap_or(1);
    let fits = ranks(first).is_multiple_of(per_node);
    Ok(Shape { ranks: ranks(first), per_node: if fits { per_node } else { 1 } })
}

impl Comparison {
    fn of(
        proved: Vec<Proved>,
        sizes: Vec<ByteSize>,
        estimator: &Estimator,
        args: &CompareArgs,
    ) -> Self {
        let hardware = estimator.hardware().clone();
        let bounds_us = bounds_us(&proved, &sizes, &hardware);
        let placement = args.launch.placement.map(|of| match of {
            PlacementName::In => CallPlacement::InPlace,
            PlacementName::Out => CallPlacement::OutOfPlace,
        });
        let terms = CallTerms { placement, data_type: args.data_type, reduction: args.op };
        let of = |proved: Proved| Compared::of(proved, &sizes, estimator, &terms);
        let algorithms = proved.into_iter().map(of).collect();
        Self { hardware, measured_on: None, sizes, bounds_us, algorithms }
    }

    /// From now on times are those that were measured. Bounds are those of a machine that was
    /// described, not of the one that measured.
    fn replace_times(&mut self, measured: Measured) {
        let Measured { machine, times } = measured;
        self.measured_on = Some(machine);
        self.bounds_us.fill(None);
        for (of, times) in self.algorithms.iter_mut().zip(times) {
            let pairs = times.into_iter().zip(&of.times);
            let time = |(measured, estimated): (_, &std::result::Result<Time, String>)| {
                let blocks = estimated.as_ref().ok().and_then(|time| time.blocks);
                let with = |MeasuredTime { us, service }| Time { us, service, blocks };
                std::result::Result::map(measured, with)
            };
            of.times = pairs.map(time).collect();
        }
    }

    /// Which algorithm is best at each size, if any serves it.
    fn best(&self) -> Vec<Option<usize>> {
        let best = |size: usize| {
            let times = self.algorithms.iter().enumerate();
            let times = times.filter_map(|(at, of)| Some((at, of.times[size].as_ref().ok()?.us)));
            times.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(at, _)| at)
        };
        (0..self.sizes.len()).map(best).collect()
    }
}

impl Compared {
    fn of(proved: Proved, sizes: &[ByteSize], estimator: &Estimator, terms: &CallTerms) -> Self {
        let entry = proved.entry();
        let Proved { file: name, verified, one_instance: _, per_node: _, warnings: _ } = proved;
        let cluster = &estimator.hardware().cluster;
        let loads = link_loads(verified.algorithm(), cluster);
        let busiest = |loads| busiest_of_media(&loads, cluster, |it| it.place);
        // Where a message has no way, the times say so.
        let loads = loads.map(busiest).unwrap_or_default();
        let time = |size: &ByteSize| {
            let call = estimator.model(&entry, terms, *size).map_err(|error| error.to_string())?;
            let us = call.us(estimator.hardware()).map_err(|error| error.to_string())?;
            Ok(Time { us, service: call.service.to_string(), blocks: Some(call.service.blocks()) })
        };
        let times: Vec<_> = sizes.iter().map(time).collect();
        let smallest = sizes.iter().zip(&times).find(|(_, time)| time.is_ok());
        let chain = smallest.and_then(|(size, _)| chain(&entry, *size, estimator, terms));
        Self { name, times, loads, chain }
    }
}

/// What no schedule can beat on the machine, where all algorithms are for one collective that is
/// bounded, and the ranks are all its GPUs.
fn bounds_us(proved: &[Proved], sizes: &[ByteSize], hardware: &Hardware) -> Vec<Option<f64>> {
    let kinds = proved.iter().map(|of| CollectiveKind::of(&collective_of(&of.verified).kind));
    let kinds: Vec<_> = kinds.collect();
    let one =
        kinds.first().copied().flatten().filter(|one| kinds.iter().all(|of| *of == Some(*one)));
    let ranks = proved.first().map(|of| collective_of(&of.verified).ranks as usize);
    let whole = ranks == Some(hardware.cluster.gpus().count());
    let found = one.filter(|_| whole);
    let found = found.and_then(|kind| bound(&hardware.cluster, kind, SwitchModel::Forward).ok());
    sizes.iter().map(|size| found.as_ref().map(|of| of.seconds(size.0) * 1e6)).collect()
}

fn collective_of(verified: &Verified) -> &msccl_collective::Collective {
    &verified.algorithm().collective
}
