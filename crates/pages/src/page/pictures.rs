//! The pictures of a page: chunks, thread blocks, time.

use std::fmt::Write;

use msccl_picture::Escaped;
use msccl_simulate::timeline::svg;

use super::PageRequest;
use crate::draw::layers::Layers;
use crate::draw::{self, RankFilter};
use crate::figures::timeline_of;
use crate::study::Study;
use crate::verdict::Verdict;

/// How large pictures may be; larger ones show few ranks, or are left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PictureLimits {
    /// Most boxes of a picture of chunks or of thread blocks.
    pub boxes: usize,
    /// Most steps of a timeline.
    pub steps: usize,
}

impl Default for PictureLimits {
    fn default() -> Self {
        Self { boxes: 1500, steps: 3000 }
    }
}

/// Puts the pictures that there are.
pub fn put(page: &mut String, study: &Study, request: &PageRequest) {
    let most = request.limits.boxes;
    if let Some((layers, note)) = chunks(study, most) {
        put_layers(page, "What moves where", &layers, note);
    }
    if let Some((layers, note)) = schedule(study, most) {
        put_layers(page, "Who does it", &layers, note);
    }
    if let Verdict::Proved(proved) = &study.verdict {
        page.push_str("<h2>When it happens</h2>\n");
        match timeline_of(proved, request.timeline, request.machine.clone()) {
            Ok(mut found) => {
                let steps = |rows: &[msccl_simulate::model::Row]| -> usize {
                    rows.iter().map(|row| row.spans.len()).sum()
                };
                let all = found.rows.len();
                while steps(&found.rows) > request.limits.steps && found.rows.len() > 1 {
                    found.rows.truncate(found.rows.len() / 2);
                }
                let shown = found.rows.len();
                let note = (shown < all).then(|| format!("{shown} of {all} thread blocks"));
                put_svg(page, "timeline", &svg(&found), note);
            }
            Err(failure) => {
                let _ = writeln!(page, "<p>{}</p>", Escaped(&failure.to_string()));
            }
        }
    }
}

/// A picture, and what it leaves out.
pub type Partial = (Layers, Option<String>);

/// The picture of chunks; of few ranks only, if all would be too many boxes.
pub fn chunks(study: &Study, most_boxes: usize) -> Option<Partial> {
    let dag = study.chunks.as_ref()?;
    let boxes = |filter: &RankFilter| dag.ops.iter().filter(|op| filter.shows(op.to.rank)).count();
    let (filter, note) = fitting(dag.collective.ranks, most_boxes, boxes)?;
    Some((draw::chunks::layers(dag, &filter), note))
}

/// The picture of thread blocks; of few ranks only, if all would be too many boxes.
pub fn schedule(study: &Study, most_boxes: usize) -> Option<Partial> {
    let algorithm = study.algorithm.as_ref()?;
    let boxes = |filter: &RankFilter| {
        let shown = algorithm.thread_blocks().filter(|(rank, ..)| filter.shows(*rank));
        shown.map(|(_, _, block)| block.steps.len()).sum()
    };
    let (filter, note) = fitting(algorithm.collective.ranks, most_boxes, boxes)?;
    let levels = draw::levels::levels(algorithm).ok()?;
    Some((draw::schedule::layers(algorithm, &levels, &filter), note))
}

/// The largest power of two of first ranks, or all ranks, with at most `most` boxes.
fn fitting(
    ranks: u32,
    most: usize,
    boxes: impl Fn(&RankFilter) -> usize,
) -> Option<(RankFilter, Option<String>)> {
    let all = RankFilter::default();
    if boxes(&all) <= most {
        return Some((all, None));
    }
    let first = |count: u32| RankFilter::new(&(0..count).collect::<Vec<_>>());
    let counts = (0..32).rev().map(|power| 1_u32 << power).filter(|count| *count < ranks);
    let mut fitting = counts.map(|count| (count, first(count)));
    let (count, filter) = fitting.find(|(_, filter)| boxes(filter) <= most)?;
    Some((filter, Some(format!("Only the first {count} of {ranks} ranks are shown."))))
}

fn put_layers(page: &mut String, heading: &str, layers: &Layers, note: Option<String>) {
    let _ = writeln!(page, "<h2>{heading}</h2>");
    put_svg(page, heading, &draw::svg::layers(layers), note);
}

fn put_svg(page: &mut String, label: &str, svg: &str, note: Option<String>) {
    if let Some(note) = note {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", Escaped(&note));
    }
    let _ = writeln!(
        page,
        "<div class=\"scroll picture\" tabindex=\"0\" role=\"img\" aria-label=\"{label}\">\
         {svg}</div>"
    );
}
