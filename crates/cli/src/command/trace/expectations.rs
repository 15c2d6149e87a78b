//! What a run should reach: the prediction of the cost model for each shape of calls, and what the
//! links of the machine carry.

use std::collections::{BTreeMap, BTreeSet};

use msccl_collective::CallPlacement;
use msccl_plan::cut::Cut;
use msccl_registry::{Entry, Shape};
use msccl_select::{Hardware, Machine, ServiceSummary};
use msccl_simulate::model::{KernelKind, Row, Span};
use msccl_simulate::{route_gb_per_s, timeline};
use msccl_trace::predict::{PredictedStep, Prediction};
use msccl_trace::recording::{CallCut, Engine};
use msccl_trace::report::{Expectations, Subject, subjects};
use msccl_trace::timeline::Timeline;

use crate::args::{LaunchArgs, PlacementName, PredictArgs};
use crate::calibration::hardware;
use crate::estimate::{CallTerms, Estimator, ModelledCall};
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::output::Output;
use crate::size::ByteSize;
use crate::subject;
use crate::verdict::{self, Verdict};

/// What `timeline` should reach, as far as `args` request it. Shapes of which there is no
/// prediction are named.
///
/// # Errors
///
/// The machine or a program cannot be read.
pub fn expectations(
    args: &PredictArgs,
    timeline: &Timeline,
    output: &mut Output,
) -> Result<Expectations> {
    let PredictArgs { predict, program, machine } = args;
    if !predict && machine.topo.is_none() {
        return Ok(Expectations::default());
    }
    let (shape, executor) = (shape_of(timeline), executor(timeline));
    let hardware = match executor {
        Machine::Host if machine.topo.is_none() => {
            Hardware::supposed(executor, shape).ok_or_else(|| {
                Failure::new("there are too many ranks to suppose a machine for them")
            })?
        }
        Machine::Host | Machine::Gpus => {
            let cluster = machine.cluster(None, output)?;
            hardware(cluster, machine.calibration.as_deref(), shape)?
        }
    };
    let estimator = Estimator::on(executor, shape, hardware);
    let mut expectations = Expectations {
        link_gb_per_s: link_rates(shape.ranks, estimator.hardware()),
        predictions: Vec::new(),
    };
    if *predict {
        for subject in subjects(timeline) {
            let found = subject.and_then(|subject| {
                let found = prediction(&subject, program, &estimator, shape, output);
                let algorithm = subject.algorithm.unwrap_or(subject.collective);
                let said = |failure| {
                    output.note(format_args!("no prediction for {algorithm}: {failure}"));
                };
                found.map_err(said).ok()
            });
            expectations.predictions.push(found);
        }
    }
    Ok(expectations)
}

/// The communicator: its ranks, and how many there are on each host, if all have as many.
fn shape_of(timeline: &Timeline) -> Shape {
    let ranks = timeline.ranks.first().map_or(1, |rank| rank.header.ranks);
    let hosts: BTreeSet<_> = timeline.ranks.iter().map(|rank| &rank.header.host).collect();
    let hosts = hosts.len().max(1) as u32;
    let per_node = if ranks.is_multiple_of(hosts) { ranks / hosts } else { 1 };
    Shape { ranks, per_node }
}

/// What executes the calls.
fn executor(timeline: &Timeline) -> Machine {
    match timeline.ranks.first().map(|rank| &rank.header.engine) {
        Some(Engine::Host) => Machine::Host,
        Some(Engine::Gpu { .. }) | None => Machine::Gpus,
    }
}

/// What links carry, as kernels under Simple use them.
fn link_rates(ranks: u32, hardware: &Hardware) -> BTreeMap<(u32, u32), f64> {
    let Hardware { cluster, rates, source: _ } = hardware;
    let kernel = KernelKind::Simple;
    let wire = rates.kernel(kernel).wire * kernel.wire_bytes_per_byte();
    let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
    let rate = |(from, to): (u32, u32)| {
        let gb_per_s = route_gb_per_s(cluster, from as usize, to as usize)?;
        Some(((from, to), gb_per_s / wire))
    };
    pairs.filter(|(from, to)| from != to).filter_map(rate).collect()
}

/// The algorithm of a file, or a built-in one, proved for so many ranks and a placement.
fn proved(
    name: &str,
    shape: Shape,
    placement: PlacementName,
    output: &mut Output,
) -> Result<Entry> {
    let launch = LaunchArgs {
        ranks: Some(shape.ranks),
        per_node: Some(shape.per_node),
        placement: Some(placement),
        ..LaunchArgs::default()
    };
    let input = Input::read(name)?;
    let loaded = subject::load(input, &launch, None, &mut |warning| output.warn(warning))?;
    match verdict::judge(loaded) {
        Verdict::Proved(proved) => Ok(proved.entry()),
        Verdict::Refused(_) => {
            let text = format!("{name}: it is not proved; `msccl verify {name}` says why");
            Err(Failure::new(text))
        }
    }
}

/// What the model predicts for calls of one shape. Of `programs`, the one that was run serves.
///
/// # Errors
///
/// The algorithm is not known, not proved, or does not serve such calls.
fn prediction(
    subject: &Subject,
    programs: &[String],
    estimator: &Estimator,
    shape: Shape,
    output: &mut Output,
) -> Result<Prediction> {
    let Some(algorithm) = &subject.algorithm else {
        return Err(Failure::new("the model is about plans; this is none"));
    };
    let placement = match subject.placement.as_str() {
        "in place" => PlacementName::In,
        _ => PlacementName::Out,
    };
    let source = subject.source.as_deref().unwrap_or(algorithm);
    let last = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
    let named = programs.iter().find(|file| last(file) == last(source));
    let only = programs.first().filter(|_| programs.len() == 1);
    let built_in = msccl_registry::built_in_programs().contains_key(algorithm.as_str());
    let name = match named.or(only.filter(|_| !built_in)) {
        Some(file) => file.as_str(),
        None if built_in => algorithm,
        None => {
            return Err(Failure::new(format!(
                "expected a built-in algorithm or its program, {source}; --program names its \
                 program"
            )));
        }
    };
    let entry = proved(name, shape, placement, output)?;
    let terms = CallTerms {
        placement: Some(match placement {
            PlacementName::In => CallPlacement::InPlace,
            PlacementName::Out => CallPlacement::OutOfPlace,
        }),
        data_type: subject.data_type.parse().map_err(Failure::new)?,
        reduction: match &subject.reduction {
            Some(reduction) => reduction.parse().map_err(Failure::new)?,
            None => CallTerms::default().reduction,
        },
    };
    let size = ByteSize(subject.bytes);
    let ModelledCall { modelled, service } = estimator.model(&entry, &terms, size)?;
    // Steps are compared one by one, so the model must cut buffers as the run did.
    let cut =
        subject.cut.map_or(modelled.execution().cut, |of| cut_as(modelled.execution().cut, of));
    let (rounds, instances) = (cut.rounds, cut.instances);
    let (modelled, service) =
        (modelled.with_cut(cut), ServiceSummary { rounds, instances, ..service });
    let hardware = estimator.hardware();
    let about = timeline::Subject {
        name: algorithm.to_owned(),
        bytes: subject.bytes,
        assumptions: hardware.to_string(),
        service: service.to_string(),
    };
    let untimed = |error: msccl_simulate::model::Untimed| Failure::new(error.to_string());
    let workload = modelled.workload(hardware).map_err(untimed)?;
    let found = timeline::timeline(about, &workload, &hardware.rates, &hardware.cluster);
    let found = found.map_err(untimed)?;
    Ok(Prediction {
        assumptions: format!("{}; {}", found.assumptions, found.service),
        total_us: found.total_us,
        steps: found.rows.iter().flat_map(steps).collect(),
    })
}

/// `cut`, but as a run cut its buffers.
fn cut_as(cut: Cut, recorded: CallCut) -> Cut {
    let CallCut { chunk_bytes, part_bytes, slice_bytes, rounds, instances, chunks_per_message } =
        recorded;
    let block_bytes = cut.block_bytes;
    Cut { block_bytes, chunk_bytes, part_bytes, slice_bytes, rounds, instances, chunks_per_message }
}

fn steps(row: &Row) -> impl Iterator<Item = PredictedStep> {
    row.spans.iter().map(|span| {
        let Span { at, round, kind: _, wait_us, start_us, end_us, cause: _ } = *span;
        PredictedStep {
            rank: at.rank.0,
            thread_block: at.tb.0,
            step: at.step.0,
            round: round as u32,
            wait_us,
            begin_us: start_us,
            end_us,
        }
    })
}
