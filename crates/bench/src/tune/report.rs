//! What was measured and what was chosen, for people: a line for every size, and one for every
//! candidate there.

use super::candidates::counterparts;
use super::columns::{aligned, behind, none};
use super::comparison;
use super::data::{Data, TunePoint};
use super::decide::{Decision, by_point, decide, why};
use super::rule::Rule;
use crate::placement::Placement;

/// The columns.
const HEADS: [&str; 14] = [
    ">size (B)",
    "<chosen",
    ">blocks",
    ">us",
    ">busbw (GB/s)",
    "<why",
    ">other links",
    "<next best",
    ">behind",
    "<without this table",
    ">behind",
    ">baseline us",
    ">baseline/us",
    ">us/floor",
];

/// The lines: for each placement a table of what is chosen by `rule` and one of all candidates;
/// then what is out, and what failed. "Behind" is how much longer than the chosen one something
/// takes, and so is "other links": the same candidate with the best of the other kinds of links; a
/// ratio of more than 1 in `baseline/us` means that ours is faster.
pub fn report(data: &Data, rule: &Rule) -> Vec<String> {
    let mut lines = Vec::new();
    for placement in data.placements() {
        lines.extend(placement_lines(data, rule, placement));
    }
    let faults = data.faults();
    lines.extend(faults.iter().map(|(choice, why)| format!("OUT     {choice}: {why}")));
    lines.extend(data.failures.iter().map(|failure| format!("FAILED  {failure}")));
    lines
}

fn placement_lines(data: &Data, rule: &Rule, placement: Placement) -> Vec<String> {
    let points = data.points_of(placement);
    let decisions = decide(&points, rule);
    let chosen = by_point(&points, &decisions);
    let Some(case) = points.first().map(|point| &point.case) else { return Vec::new() };
    let calls = if data.graph { "graphs" } else { "calls" };
    let redop = case.redop_name().map(|redop| format!(" {redop}")).unwrap_or_default();
    let title = format!(
        "{}, {}{redop}, {} ranks, {}, {calls}, {}",
        case.workload,
        case.element,
        case.ranks,
        placement.name(),
        data.machine
    );
    let rows = points.iter().zip(&chosen).map(|(point, chosen)| cells(data, rule, point, *chosen));
    let mut lines = vec![title, rule.in_words()];
    lines.extend(aligned(HEADS, &rows.collect::<Vec<_>>()));
    lines.push(summary(&points, &decisions, data));
    lines.push(String::new());
    lines.extend(comparison::lines(data, rule, &points, &chosen));
    lines.push(String::new());
    lines
}

/// The cells of a size for which nothing is chosen.
fn empty_cells(point: &TunePoint) -> [String; 14] {
    let why = if point.ranking().is_empty() {
        "nothing was measured"
    } else {
        "nothing has so few thread blocks"
    };
    std::array::from_fn(|column| match HEADS[column] {
        ">size (B)" => point.case.size_bytes().to_string(),
        "<why" => why.to_owned(),
        _ => none(),
    })
}

/// The cells of a size.
fn cells(data: &Data, rule: &Rule, point: &TunePoint, chosen: Option<&str>) -> [String; 14] {
    let timed = |choice: &str| {
        let trial = point.trial(choice)?;
        Some((trial, trial.time_us()?))
    };
    let time_of = |choice: &str| timed(choice).map(|(_, us)| us);
    let Some((trial, us)) = chosen.and_then(timed) else { return empty_cells(point) };
    let chosen = &trial.choice;
    let others_us = counterparts(chosen).into_iter().filter_map(|other| time_of(&other));
    let other_us = others_us.reduce(f64::min);
    let ranking = point.ranking();
    let next = ranking.iter().find(|(trial, _)| trial.choice != *chosen);
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
    let baseline_us = point.baseline_time_us();
    let floor_us = data.floor.map(|floor| floor.time_us(&point.case));
    [
        point.case.size_bytes().to_string(),
        chosen.clone(),
        trial.blocks.map_or_else(none, |blocks| blocks.to_string()),
        format!("{us:.2}"),
        format!("{:.2}", point.case.bandwidth(us).bus_gb_s),
        why(point, rule, chosen),
        other_us.map_or_else(none, |other| behind(other, us)),
        next,
        next_behind,
        present,
        present_behind,
        baseline_us.map_or_else(none, |baseline| format!("{baseline:.2}")),
        baseline_us.map_or_else(none, |baseline| format!("{:.2}", baseline / us)),
        floor_us.map_or_else(none, |floor| format!("{:.2}", us / floor)),
    ]
}

/// In geometric means over the sizes: what the choices gain, and how they compare.
fn summary(points: &[&TunePoint], decisions: &[Decision], data: &Data) -> String {
    let (mut present, mut baseline) = (Vec::new(), Vec::new());
    for Decision { choice, first, last } in decisions {
        for point in &points[*first..=*last] {
            let time_of = |choice: &str| point.trial(choice)?.time_us();
            let Some(us) = time_of(choice) else { continue };
            present.extend(point.present.as_deref().and_then(time_of).map(|them| them / us));
            baseline.extend(point.baseline_time_us().map(|them| them / us));
        }
    }
    let mut text = format!("{} rows for {} sizes", decisions.len(), points.len());
    if let Some(mean) = geometric_mean(&present) {
        text += &format!("; without them calls take {mean:.2} times as long");
    }
    if let (Some(mean), Some(name)) = (geometric_mean(&baseline), &data.baseline) {
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
        assert_snapshot!(report(&data(), &Rule::default()).join("\n"), @r"
        allreduce, float sum, 2 ranks, out-of-place, calls, 2 × <GPU>
        Within 3.0% of the fastest, that with the fewest thread blocks.
        size (B)  chosen             blocks    us  busbw (GB/s)  why      next best           behind  without this table   behind  baseline us  baseline/us  us/floor
            1024  LL staged 4 512 a       8  1.00          1.02  fastest  LL staged 4 512 b  +100.0%  LL staged 4 512 b   +100.0%         5.00         5.00      1.66
            2048  LL staged 4 512 a       8  1.00          2.05  fastest  LL staged 4 512 b  +100.0%  LL staged 4 512 b   +100.0%         5.00         5.00      1.42
            4096  LL staged 4 512 c       8  1.00          4.10  fastest  LL staged 4 512 b  +100.0%  LL staged 4 512 b   +100.0%         5.00         5.00      1.10
            8192  LL staged 4 512 c       8  1.50          5.46  fastest  LL staged 4 512 b   +33.3%  LL staged 4 512 b    +33.3%         5.00         3.33      1.14
        2 rows for 4 sizes; without them calls take 1.81 times as long; nccl takes 4.52 times as long

        size (B)            candidate             blocks  SMs at most    us  busbw (GB/s)  behind the fastest
            1024  floor     what the wires allow       -            -  0.60          1.70              -39.8%
            1024  chosen    LL staged 4 512 a          8            8  1.00          1.02               +0.0%
            1024            LL staged 4 512 b          8            8  2.00          0.51             +100.0%
            1024            LL staged 4 512 c          8            8  3.00          0.34             +200.0%
            1024  baseline  nccl                       -            -  5.00          0.20             +400.0%
            2048  floor     what the wires allow       -            -  0.70          2.91              -29.5%
            2048  chosen    LL staged 4 512 a          8            8  1.00          2.05               +0.0%
            2048            LL staged 4 512 b          8            8  2.00          1.02             +100.0%
            2048            LL staged 4 512 c          8            8  3.00          0.68             +200.0%
            2048  baseline  nccl                       -            -  5.00          0.41             +400.0%
            4096  floor     what the wires allow       -            -  0.91          4.50               -9.0%
            4096  chosen    LL staged 4 512 c          8            8  1.00          4.10               +0.0%
            4096            LL staged 4 512 b          8            8  2.00          2.05             +100.0%
            4096            LL staged 4 512 a          8            8  3.00          1.37             +200.0%
            4096  baseline  nccl                       -            -  5.00          0.82             +400.0%
            8192  floor     what the wires allow       -            -  1.32          6.21              -12.1%
            8192  chosen    LL staged 4 512 c          8            8  1.50          5.46               +0.0%
            8192            LL staged 4 512 b          8            8  2.00          4.10              +33.3%
            8192            LL staged 4 512 a          8            8  3.00          2.73             +100.0%
            8192  baseline  nccl                       -            -  5.00          1.64             +233.3%
        ");
    }

    #[test]
    fn sizes_without_a_choice_say_why() {
        let mut data = data();
        data.points[1].trials.clear();
        let lines = report(&data, &Rule::default());
        let line = |lines: &[String], size: &str| {
            let of_size = |line: &&String| line.trim_start().starts_with(size);
            lines.iter().find(of_size).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(line(&lines, "2048 ").starts_with("2048 - - - - nothing was measured - -"));
        let rule = Rule { blocks_max: Some(4), ..Rule::default() };
        let found = line(&report(&data, &rule), "1024 ");
        assert_eq!(found, "1024 nothing has so few thread blocks");
    }

    #[test]
    fn what_is_out_is_said_and_columns_without_content_are_not() {
        let mut data = data();
        (data.baseline, data.floor) = (None, None);
        data.points.iter_mut().for_each(|point| point.baseline_us.clear());
        data.points[0].trials[0].fault = Some("2 elements are wrong".to_owned());
        data.failures.push("msccl is out: it died".to_owned());
        assert_snapshot!(report(&data, &Rule::default()).join("\n"), @r"
        allreduce, float sum, 2 ranks, out-of-place, calls, 2 × <GPU>
        Within 3.0% of the fastest, that with the fewest thread blocks.
        size (B)  chosen             blocks    us  busbw (GB/s)  why      next best           behind  without this table   behind
            1024  LL staged 4 512 b       8  2.00          0.51  fastest  LL staged 4 512 c   +50.0%  the same                  -
            2048  LL staged 4 512 a       8  1.00          2.05  fastest  LL staged 4 512 b  +100.0%  LL staged 4 512 b   +100.0%
            4096  LL staged 4 512 c       8  1.00          4.10  fastest  LL staged 4 512 b  +100.0%  LL staged 4 512 b   +100.0%
            8192  LL staged 4 512 c       8  1.50          5.46  fastest  LL staged 4 512 b   +33.3%  LL staged 4 512 b    +33.3%
        3 rows for 4 sizes; without them calls take 1.52 times as long

        size (B)          candidate          blocks  SMs at most    us  busbw (GB/s)  behind the fastest
            1024  chosen  LL staged 4 512 b       8            8  2.00          0.51               +0.0%
            1024          LL staged 4 512 c       8            8  3.00          0.34              +50.0%
            2048  chosen  LL staged 4 512 a       8            8  1.00          2.05               +0.0%
            2048          LL staged 4 512 b       8            8  2.00          1.02             +100.0%
            2048          LL staged 4 512 c       8            8  3.00          0.68             +200.0%
            4096  chosen  LL staged 4 512 c       8            8  1.00          4.10               +0.0%
            4096          LL staged 4 512 b       8            8  2.00          2.05             +100.0%
            4096          LL staged 4 512 a       8            8  3.00          1.37             +200.0%
            8192  chosen  LL staged 4 512 c       8            8  1.50          5.46               +0.0%
            8192          LL staged 4 512 b       8            8  2.00          4.10              +33.3%
            8192          LL staged 4 512 a       8            8  3.00          2.73             +100.0%

        OUT     LL staged 4 512 a: 2 elements are wrong
        FAILED  msccl is out: it died
        ");
    }
}
