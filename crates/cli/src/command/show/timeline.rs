//! When every step runs on an ideal host, as the simulator estimates it.

use msccl_collective::SizeRange;
use msccl_simulate::timeline::{CostModel, Row, Span, Timeline, svg, text, timeline};
use serde_json::json;

use crate::args::Picture;
use crate::draw::RankFilter;
use crate::size::ByteSize;
use crate::subject::Subject;

/// The size of a call, if none is requested and the algorithm serves it.
const USUAL_SIZE: ByteSize = ByteSize(1 << 20);

/// The timeline of a call of `size` on nodes whose ranks share a switch.
///
/// # Errors
///
/// The algorithm never ends, or the form is not one for timelines.
pub fn render(
    subject: &Subject,
    size: Option<ByteSize>,
    picture: Picture,
    filter: &RankFilter,
) -> Result<String, String> {
    let Subject { file, algorithm, per_node, provenance: _, target } = subject;
    let cost = CostModel::nvswitch(algorithm.protocol).on_nodes(*per_node);
    let SizeRange { min_bytes, max_bytes } = algorithm.sizes;
    let nearest = USUAL_SIZE.0.min(max_bytes.unwrap_or(u64::MAX)).max(min_bytes);
    let estimate = timeline(algorithm, target, &cost, size.map_or(nearest, |size| size.0));
    let mut estimate = estimate.map_err(|error| format!("{file}: {error}"))?;
    estimate.rows.retain(|row| filter.shows(row.rank));
    match picture {
        Picture::Text => Ok(text(&estimate)),
        Picture::Svg => Ok(svg(&estimate)),
        Picture::Json => Ok(to_json(&estimate)),
        Picture::Dot => Err("a timeline is no graph; choose --format text, svg or json".to_owned()),
    }
}

fn to_json(estimate: &Timeline) -> String {
    let Timeline { name, bytes, nodes, rows, rounds, total_us } = estimate;
    let rows: Vec<_> = rows
        .iter()
        .map(|Row { rank, tb, channel, spans }| {
            let spans: Vec<_> = spans.iter().map(span).collect();
            json!({ "rank": rank.0, "tb": tb.0, "channel": channel.0, "spans": spans })
        })
        .collect();
    let all = json!({
        "name": name, "bytes": bytes, "nodes": nodes,
        "rounds": rounds, "total_us": total_us, "rows": rows,
    });
    format!("{all:#}\n")
}

fn span(span: &Span) -> serde_json::Value {
    let Span { at, round, kind, start_us, end_us } = span;
    json!({
        "step": at.step.0, "round": round, "kind": kind.abbreviation(),
        "start_us": start_us, "end_us": end_us,
    })
}
