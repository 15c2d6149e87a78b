//! What was measured and what was chosen, for people: a line for every size.

use super::data::{Data, Point};
use super::decide::{Decision, decide};
use super::field::counterparts;
use crate::case::Placement;

/// The columns; `Left` cells are words.
const COLUMNS: [&str; 12] = [
    ">size (B)",
    "<chosen",
    ">us",
    ">busbw (GB/s)",
    ">other links",
    "<next best",
    ">behind",
    "<without this table",
    ">behind",
    ">rival us",
    ">rival/us",
    ">us/floor",
];

/// The lines: a table for each placement, what is out, and what failed. "Behind" is how much longer than
/// the chosen one something takes, and so is "other links": the same way with those
/// other links that do best; a ratio of more than 1 in `rival/us` means that ours is faster.
pub fn report(data: &Data) -> Vec<String> {
    let mut lines = Vec::new();
    for placement in data.placements() {
        lines.extend(placement_lines(data, placement));
    }
    let faults = data.faults();
    lines.extend(faults.iter().map(|(choice, why)| format!("OUT     {choice}: {why}")));
    lines.extend(data.failures.iter().map(|failure| format!("FAILED  {failure}")));
    lines
}

fn placement_lines(data: &Data, placement: Placement) -> Vec<String> {
    let points = data.points_of(placement);
    let decisions = decide(&points);
    let Some(case) = points.first().map(|point| &point.case) else { return Vec::new() };
    let calls = if data.graph { "graphs" } else { "calls" };
    let redop = case.redop_name().map(|redop| format!(" {redop}")).unwrap_or_default();
    let mut lines = vec![format!(
        "{}, {}{redop}, {} ranks, {}, {calls}, {}",
        case.workload,
        case.element,
        case.ranks,
        placement.name(),
        data.machine
    )];
    let cells = points.iter().enumerate().map(|(at, point)| {
        let of = |decision: &&Decision| (decision.first..=decision.last).contains(&at);
        cells(data, point, decisions.iter().find(of).map(|decision| decision.choice.as_str()))
    });
    lines.extend(aligned(&cells.collect::<Vec<_>>()));
    lines.push(summary(&points, &decisions, data));
    lines
}

/// The cells of a size.
fn cells(data: &Data, point: &Point, chosen: Option<&str>) -> [String; 12] {
    let none = || "-".to_owned();
    let size = point.case.size_bytes().to_string();
    let time_of = |choice: &str| point.trial(choice).and_then(|trial| trial.time_us());
    let Some((chosen, us)) = chosen.and_then(|choice| Some((choice, time_of(choice)?))) else {
        let mut cells = std::array::from_fn(|_| none());
        cells[0] = size;
        return cells;
    };
    let others_us = counterparts(chosen).into_iter().filter_map(|other| time_of(&other));
    let other_us = others_us.reduce(f64::min);
    let ranking = point.ranking();
    let next = ranking.iter().find(|(trial, _)| trial.choice != chosen);
    let (next, next_behind) = match next {
        Some((trial, next_us)) => (trial.choice.clone(), behind(*next_us, us)),
        None => (none(), none()),
    };
    let (present, present_behind) = match &point.present {
        Some(present) if present == chosen => ("the same".to_owned(), none()),
        Some(present) => {
            let present_us = time_of(present);
            (present.clone(), present_us.map_or_else(none, |them| behind(them, us)))
        }
        None => (none(), none()),
    };
    let rival_us = point.rival_time_us();
    let floor_us = data.floor.map(|floor| floor.time_us(&point.case));
    [
        size,
        chosen.to_owned(),
        format!("{us:.2}"),
        format!("{:.2}", point.case.bandwidth(us).bus_gb_s),
        other_us.map_or_else(none, |other| behind(other, us)),
        next,
        next_behind,
        present,
        present_behind,
        rival_us.map_or_else(none, |rival| format!("{rival:.2}")),
        rival_us.map_or_else(none, |rival| format!("{:.2}", rival / us)),
        floor_us.map_or_else(none, |floor| format!("{:.2}", us / floor)),
    ]
}

/// How much longer `them_us` is than `us`.
fn behind(them_us: f64, us: f64) -> String {
    format!("{:+.1}%", 100.0 * (them_us / us - 1.0))
}

/// Head and rows as lines; columns in which no row has anything are left out.
fn aligned(rows: &[[String; 12]]) -> Vec<String> {
    let shown = |column: &usize| rows.iter().any(|row| row[*column] != "-");
    let columns: Vec<usize> = (0..COLUMNS.len()).filter(shown).collect();
    let head = COLUMNS.map(|column| column[1..].to_owned());
    let lines: Vec<_> = [&head].into_iter().chain(rows).collect();
    let width =
        |column: usize| lines.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let line = |row: &[String; 12]| {
        let cell = |&column: &usize| match COLUMNS[column].starts_with('<') {
            true => format!("{:<1$}", row[column], width(column)),
            false => format!("{:>1$}", row[column], width(column)),
        };
        columns.iter().map(cell).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(|row| line(row)).collect()
}

/// In geometric means over the sizes: what the choices gain, and where they stand.
fn summary(points: &[&Point], decisions: &[Decision], data: &Data) -> String {
    let (mut present, mut rival) = (Vec::new(), Vec::new());
    for Decision { choice, first, last } in decisions {
        for point in &points[*first..=*last] {
            let time_of = |choice: &str| point.trial(choice)?.time_us();
            let Some(us) = time_of(choice) else { continue };
            present.extend(point.present.as_deref().and_then(time_of).map(|them| them / us));
            rival.extend(point.rival_time_us().map(|them| them / us));
        }
    }
    let mut text = format!("{} rows for {} sizes", decisions.len(), points.len());
    if let Some(mean) = geometric_mean(&present) {
        text += &format!("; without them calls take {mean:.2} times as long");
    }
    if let (Some(mean), Some(name)) = (geometric_mean(&rival), &data.rival) {
        text += &format!("; {name} takes {mean:.2} times as long");
    }
    text
}

fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (logarithms / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::super::sample_data::data;
    use super::*;

    #[test]
    fn every_size_has_its_line() {
        assert_snapshot!(report(&data()).join("\n"), @r"
        allreduce, float sum, 2 ranks, out-of-place, calls, 2 × <GPU>
        size (B)  chosen               us  busbw (GB/s)  next best           behind  without this table   behind  rival us  rival/us  us/floor
            1024  LL staged 4 512 a  1.00          1.02  LL staged 4 512 b  +100.0%  LL staged 4 512 b   +100.0%      5.00      5.00      1.66
            2048  LL staged 4 512 a  1.00          2.05  LL staged 4 512 b  +100.0%  LL staged 4 512 b   +100.0%      5.00      5.00      1.42
            4096  LL staged 4 512 c  1.00          4.10  LL staged 4 512 b  +100.0%  LL staged 4 512 b   +100.0%      5.00      5.00      1.10
            8192  LL staged 4 512 c  1.50          5.46  LL staged 4 512 b   +33.3%  LL staged 4 512 b    +33.3%      5.00      3.33      1.14
        2 rows for 4 sizes; without them calls take 1.81 times as long; nccl takes 4.52 times as long
        ");
    }

    #[test]
    fn what_is_out_is_said_and_columns_without_content_are_not() {
        let mut data = data();
        (data.rival, data.floor) = (None, None);
        data.points.iter_mut().for_each(|point| point.rival_us.clear());
        data.points[0].trials[0].fault = Some("2 elements are wrong".to_owned());
        data.failures.push("msccl is out: it died".to_owned());
        assert_snapshot!(report(&data).join("\n"), @r"
        allreduce, float sum, 2 ranks, out-of-place, calls, 2 × <GPU>
        size (B)  chosen               us  busbw (GB/s)  next best           behind  without this table   behind
            1024  LL staged 4 512 b  2.00          0.51  LL staged 4 512 c   +50.0%  the same                  -
            2048  LL staged 4 512 a  1.00          2.05  LL staged 4 512 b  +100.0%  LL staged 4 512 b   +100.0%
            4096  LL staged 4 512 c  1.00          4.10  LL staged 4 512 b  +100.0%  LL staged 4 512 b   +100.0%
            8192  LL staged 4 512 c  1.50          5.46  LL staged 4 512 b   +33.3%  LL staged 4 512 b    +33.3%
        3 rows for 4 sizes; without them calls take 1.52 times as long
        OUT     LL staged 4 512 a: 2 elements are wrong
        FAILED  msccl is out: it died
        ");
    }
}
