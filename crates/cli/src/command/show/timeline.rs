//! When every step runs, by the cost model.

use msccl_collective::{Rank, SizeRange, TbIndex};
use msccl_registry::{Entry, Shape};
use msccl_simulate::model::{Cause, Row, Span, Untimed};
use msccl_simulate::timeline::{self, Busiest, Timeline, svg, text};
use msccl_topology::cluster::Cluster;
use serde_json::{Value, json};

use crate::args::Picture;
use crate::draw::RankFilter;
use crate::estimate::{CallTerms, Estimator, ModelledCall, hardware};
use crate::failure::{Failure, Result};
use crate::size::ByteSize;
use crate::subject::Subject;
use crate::verdict::Proved;

/// The size of a call, if none is requested and the algorithm serves it.
const USUAL_SIZE: ByteSize = ByteSize(1 << 20);

/// The machine of an estimate, as far as it is given.
#[derive(Default)]
pub struct EstimateMachine<'a> {
    /// What its GPUs and links are.
    pub cluster: Option<Cluster>,
    /// The file with the rates of its GPUs.
    pub calibration: Option<&'a str>,
}

/// The timeline of a call of `size` on `machine`, or on what is supposed of so many ranks.
///
/// # Errors
///
/// The algorithm is not proved, does not serve such a call, or the form is not one for timelines.
pub fn render(
    subject: &Subject,
    machine: EstimateMachine<'_>,
    size: Option<ByteSize>,
    picture: Picture,
    filter: &RankFilter,
) -> Result<String> {
    let SizeRange { min_bytes, max_bytes } = subject.algorithm.sizes;
    let nearest = USUAL_SIZE.0.min(max_bytes.unwrap_or(u64::MAX)).max(min_bytes);
    let size = size.unwrap_or(ByteSize(nearest));
    let mut found = of_subject(subject, machine, size)?;
    found.rows.retain(|row| filter.shows(row.rank));
    match picture {
        Picture::Text => Ok(text(&found)),
        Picture::Svg => Ok(svg(&found)),
        Picture::Json => Ok(format!("{:#}\n", to_json(&found))),
        Picture::Dot => {
            Err(Failure::new("a timeline is no graph; choose --format text, svg or json"))
        }
    }
}

/// The timeline of a call of `size`.
fn of_subject(subject: &Subject, machine: EstimateMachine<'_>, size: ByteSize) -> Result<Timeline> {
    let Subject { file, algorithm, per_node, provenance: _, target } = subject;
    let verified = msccl_verify::verify(algorithm.clone(), target).map_err(|_| {
        Failure::new(format!("{file}: it is not proved; `msccl verify {file}` says why"))
    })?;
    timeline_of(Entry::new(file, true, verified), *per_node, machine, size)
}

/// The timeline of a call of `size` on what is supposed of so many ranks.
///
/// # Errors
///
/// The algorithm does not serve such a call.
pub fn of_verified(proved: &Proved, size: ByteSize) -> Result<Timeline> {
    let entry = Entry::new(&proved.file, true, proved.verified.clone());
    timeline_of(entry, proved.per_node, EstimateMachine::default(), size)
}

fn timeline_of(
    entry: Entry,
    per_node: u32,
    machine: EstimateMachine<'_>,
    size: ByteSize,
) -> Result<Timeline> {
    let algorithm = entry.verified.algorithm();
    let ranks = algorithm.collective.ranks;
    let per_node = Some(per_node).filter(|of| ranks.is_multiple_of(*of)).unwrap_or(1);
    let shape = Shape { ranks, per_node };
    let estimator =
        Estimator::of_shape(shape, hardware(machine.cluster, machine.calibration, shape)?);
    let ModelledCall { modelled, service } =
        estimator.model(&entry, &CallTerms::default(), size)?;
    let hardware = estimator.hardware();
    let about = timeline::Subject {
        name: algorithm.name.clone(),
        bytes: size.0,
        assumptions: hardware.to_string(),
        service: service.to_string(),
    };
    let untimed = |error: Untimed| Failure::new(format!("{}: {error}", entry.name));
    let workload = modelled.workload(hardware).map_err(untimed)?;
    timeline::timeline(about, &workload, &hardware.rates, &hardware.cluster).map_err(untimed)
}

fn to_json(found: &Timeline) -> Value {
    let Timeline {
        name,
        bytes,
        assumptions,
        service,
        rows,
        rounds,
        shown_rounds,
        shown_us,
        total_us,
        critical,
        busiest,
    } = found;
    let rows: Vec<_> = rows
        .iter()
        .map(|Row { rank, tb, channel, spans }| {
            let spans: Vec<_> = spans.iter().map(span).collect();
            json!({ "rank": rank.0, "tb": tb.0, "channel": channel.0, "spans": spans })
        })
        .collect();
    let critical: Vec<_> = critical.iter().map(critical_step).collect();
    let busiest =
        busiest.as_ref().map(|Busiest { link, share }| json!({ "link": link, "share": share }));
    json!({
        "name": name, "bytes": bytes, "assumptions": assumptions, "service": service,
        "rounds": rounds, "shown_rounds": shown_rounds, "shown_us": shown_us,
        "total_us": total_us, "rows": rows, "critical": critical, "busiest_link": busiest,
    })
}

fn span(span: &Span) -> Value {
    let Span { at, round, kind, wait_us, start_us, end_us, cause } = span;
    let (waited_for, by) = waited_for(cause);
    let by = by.map(|(rank, tb)| json!({ "rank": rank.0, "tb": tb.0 }));
    json!({
        "step": at.step.0, "round": round, "kind": kind.abbreviation(), "wait_us": wait_us,
        "start_us": start_us, "end_us": end_us, "waited_for": waited_for, "by": by,
    })
}

fn critical_step(step: &Span) -> Value {
    let Span { at, round, kind: _, wait_us: _, start_us, end_us, cause } = step;
    let (waited_for, _) = waited_for(cause);
    json!({
        "rank": at.rank.0, "tb": at.tb.0, "step": at.step.0, "round": round,
        "start_us": start_us, "end_us": end_us, "waited_for": waited_for,
    })
}

/// What a step waited for last, and by which thread block it came.
fn waited_for(cause: &Cause) -> (&'static str, Option<(Rank, TbIndex)>) {
    match *cause {
        Cause::Program => ("program", None),
        Cause::Step(of) => ("step", Some(of)),
        Cause::Message(of) => ("message", Some(of)),
        Cause::Room(of) => ("room", Some(of)),
    }
}
