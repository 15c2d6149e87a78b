//! How candidates compare at every size: a line for every one that took part in rounds, for the
//! other library and for the floor of the wires.

use msccl_runtime::multiprocessors;

use super::columns::{aligned, behind, none};
use super::data::{Data, TunePoint};
use super::rule::Rule;

const HEADS: [&str; 8] = [
    ">size (B)",
    "<",
    "<candidate",
    ">blocks",
    ">SMs at most",
    ">us",
    ">busbw (GB/s)",
    ">behind the fastest",
];

/// The lines for `points`, of which each is served by one of `chosen`, if by any. Fastest first.
pub(super) fn lines(
    data: &Data,
    rule: &Rule,
    points: &[&TunePoint],
    chosen: &[Option<&str>],
) -> Vec<String> {
    let rows = points.iter().zip(chosen).flat_map(|(point, chosen)| {
        let mut rows = of_point(data, rule, point, *chosen);
        rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        rows.into_iter().map(|(_, row)| row)
    });
    aligned(HEADS, &rows.collect::<Vec<_>>())
}

/// The rows of a size with their times in µs.
fn of_point(
    data: &Data,
    rule: &Rule,
    point: &TunePoint,
    chosen: Option<&str>,
) -> Vec<(f64, [String; 8])> {
    let ranking = point.ranking();
    let fastest_us = ranking.first().map(|(_, us)| *us);
    let size = point.case.size_bytes().to_string();
    let row = |word: &str, name: &str, blocks: Option<u32>, us: f64| {
        let row = [
            size.clone(),
            word.to_owned(),
            name.to_owned(),
            blocks.map_or_else(none, |blocks| blocks.to_string()),
            blocks.map_or_else(none, |blocks| multiprocessors(blocks).to_string()),
            format!("{us:.2}"),
            format!("{:.2}", point.case.bandwidth(us).bus_gb_s),
            fastest_us.map_or_else(none, |fastest_us| behind(us, fastest_us)),
        ];
        (us, row)
    };
    let candidates = ranking.iter().map(|(trial, us)| {
        let is_chosen = chosen == Some(trial.choice.as_str());
        let word = match (is_chosen, rule.allows(trial.blocks)) {
            (true, _) => "chosen",
            (false, true) => "",
            (false, false) => "too many blocks",
        };
        row(word, &trial.choice, trial.blocks, *us)
    });
    let baseline = point.baseline_time_us().zip(data.baseline.as_ref());
    let baseline = baseline.map(|(us, name)| row("baseline", name, None, us));
    let floor = data.floor.map(|floor| floor.time_us(&point.case));
    let floor = floor.map(|us| row("floor", "what the wires allow", None, us));
    candidates.chain(baseline).chain(floor).collect()
}
