//! When every step runs, by the cost model.

use msccl_collective::{Rank, TbIndex};
use msccl_pages::timeline::{EstimateMachine, of_entry, usual_size};
use msccl_simulate::model::{Cause, Row, Span};
use msccl_simulate::timeline::{Busiest, Timeline, svg, text};
use serde_json::{Value, json};

use crate::args::Picture;
use crate::draw::RankFilter;
use crate::failure::{Failure, Result};
use crate::size::ByteSize;
use crate::subject::Subject;
use crate::verdict;

/// The timeline of a call of `size` on `machine`, or on what is supposed of so many ranks.
///
/// # Errors
///
/// The algorithm is not proved, does not serve such a call, or the form is not one for timelines.
pub fn render(
    subject: &Subject,
    machine: EstimateMachine,
    size: Option<ByteSize>,
    picture: Picture,
    filter: &RankFilter,
) -> Result<String> {
    let size = size.unwrap_or_else(|| usual_size(&subject.algorithm));
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
fn of_subject(subject: &Subject, machine: EstimateMachine, size: ByteSize) -> Result<Timeline> {
    let Subject { file, algorithm, one_instance, per_node, provenance: _, target } = subject;
    let verified = msccl_verify::verify(algorithm.clone(), target).map_err(|_| {
        Failure::new(format!("{file}: it is not proved; `msccl verify {file}` says why"))
    })?;
    of_entry(&verdict::entry(file, verified, one_instance.clone()), *per_node, machine, size)
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
