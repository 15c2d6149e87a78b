//! From measurements to a tuning table.

use std::ops::RangeInclusive;

use msccl_collective::Placement as Serves;
use msccl_runtime::{Choice, Row, Slower, Tuning};

use super::data::{Data, TunePoint};
use super::decide::{Decision, decide};
use super::rule::Rule;
use super::slower::slower;
use crate::placement::Placement;

/// Up to here latency decides, and from here on bandwidth: what is best at such a size is best
/// beyond it, so that a table which begins or ends there is open.
const SMALL_BYTES: u64 = 4 << 10;
const LARGE_BYTES: u64 = 64 << 20;

/// The table of what is best by `rule` of what was measured in `data`, called `name`. Rows of
/// `kept` for other calls stay, behind the new ones: the same collective on as many ranks and in
/// the same placement is replaced. Loaded files that lost are in the table, too.
///
/// Nothing measured, no rows, not even kept ones.
///
/// Between two measured sizes the choice of the larger one serves.
pub fn table(data: &Data, rule: &Rule, kept: Option<&Tuning>, name: &str) -> Tuning {
    let mut rows = new_rows(data, rule);
    let replaced = rows.clone();
    let stays = |row: &&Row| !are_replaced(row, &replaced);
    if rows.is_empty() {
        return Tuning::of(name, &data.machine, rows);
    }
    rows.extend(kept.iter().flat_map(|kept| kept.rows()).filter(stays).cloned());
    // Estimates are no reason to pass anything over.
    let mut slower = if data.assumes.is_some() { Vec::new() } else { slower(data, rule) };
    let measured = |old: &&Slower| replaced.iter().any(|row| old.shape() == row.shape());
    let kept = kept.iter().flat_map(|kept| kept.slower());
    slower.extend(kept.filter(|old| !measured(old)).cloned());
    Tuning::of(name, &data.machine, rows).with_slower(slower)
}

/// The lines above a table, as remarks: where it comes from, by which rule, and the rows of `kept`,
/// and what is out.
pub fn remarks(data: &Data, rule: &Rule, kept: Option<&Tuning>) -> String {
    let Data { machine, date, command, graph, assumes, .. } = data;
    let calls = if *graph { "calls launched as graphs" } else { "calls made one by one" };
    let rule = rule.in_words();
    let mut text = match assumes {
        Some(assumed) => format!("# Estimated on {date}, measured nowhere; assumes {assumed}:\n"),
        None => format!("# Measured on {date} with {calls}, on {machine}:\n"),
    };
    text += &format!("#   {command}\n# {rule}\n");
    if let Some(kept) = kept {
        let (name, machine) = (kept.name(), kept.machine());
        text += &format!("# Rows for other calls are those of {name}, made for {machine}.\n");
    }
    for (choice, why) in data.faults() {
        text += &format!("# Out: {choice}: {why}\n");
    }
    for failure in &data.failures {
        text += &format!("# Not whole: {failure}\n");
    }
    // What libraries say may have several lines.
    let lines = text.lines().map(|line| match line.strip_prefix('#') {
        Some(_) => format!("{line}\n"),
        None => format!("# {line}\n"),
    });
    lines.collect()
}

/// Both placements in one, where they decide alike or where only the root would know.
fn new_rows(data: &Data, rule: &Rule) -> Vec<Row> {
    let of = |placement| rows_of(data, placement, rule);
    let [out_of_place, in_place] = Placement::BOTH.map(of);
    let both = |rows: &[Row]| -> Vec<Row> {
        rows.iter().cloned().map(|row| Row { placement: Serves::Both, ..row }).collect()
    };
    let has_root = data.points.iter().any(|point| point.case.workload.has_root());
    if has_root || both(&out_of_place) == both(&in_place) {
        let any = if out_of_place.is_empty() { in_place } else { out_of_place };
        return both(&any);
    }
    [out_of_place, in_place].concat()
}

/// The rows of one placement. Each begins where the first does, since those before it decide first:
/// where one does not serve a call, the next one is tried. Only where nothing could be chosen the
/// next one begins behind.
fn rows_of(data: &Data, placement: Placement, rule: &Rule) -> Vec<Row> {
    let points = &data.points_of(placement)[..];
    let size = |at: usize| points.get(at).map_or(0, |point| point.case.size_bytes());
    let mut low = if size(0) > SMALL_BYTES { size(0) } else { 0 };
    let mut next = 0;
    let mut rows = Vec::new();
    for decision in decide(points, rule) {
        if decision.first > next {
            low = size(decision.first - 1) + 1;
        }
        next = decision.last + 1;
        let is_open = next == points.len() && size(decision.last) >= LARGE_BYTES;
        let high = if is_open { u64::MAX } else { size(decision.last) };
        rows.extend(row(data, points, &decision, low..=high));
    }
    rows
}

/// `None` if there are no such points, or the choice is no choice.
fn row(
    data: &Data,
    points: &[&TunePoint],
    decision: &Decision,
    bytes: RangeInclusive<u64>,
) -> Option<Row> {
    let Decision { choice, first, last: _ } = decision;
    let (point, choice) = (points.get(*first)?, choice.parse::<Choice>().ok()?);
    let placement = point.placement.serves();
    let (ranks, collective) = (u64::from(point.case.ranks), point.case.workload.name());
    let (nodes, guessed) = (u64::from(data.nodes), data.assumes.is_some());
    let (ranks, nodes) = (ranks..=ranks, nodes..=nodes);
    Some(Row { line: 0, collective, placement, ranks, guessed, nodes, bytes, choice })
}

/// Whether all calls of `old` belong to `new` rows: the same collective and numbers of ranks and
/// nodes, and each placement that it serves.
fn are_replaced(old: &Row, new: &[Row]) -> bool {
    let of = |serves: fn(Serves) -> bool| {
        let same = |row: &&Row| row.shape() == old.shape();
        let has = new.iter().filter(same).any(|row| serves(row.placement));
        has || !serves(old.placement)
    };
    of(Serves::serves_in_place) && of(Serves::serves_out_of_place)
}

#[cfg(test)]
mod tests {
    use super::super::sample_data::{data, point};
    use super::*;

    fn rows(data: &Data, kept: Option<&str>) -> Vec<String> {
        let kept = kept.map(|rows| format!("msccl-tuning 1\nmachine old\n{rows}\n"));
        let kept = kept.map(|text| Tuning::parse("kept", text.as_bytes()).unwrap());
        let rule = Rule::default();
        let table = table(data, &rule, kept.as_ref(), "new");
        let text = remarks(data, &rule, kept.as_ref()) + &table.to_string();
        let read = Tuning::parse("new", text.as_bytes()).unwrap();
        assert_eq!(read.to_string(), table.to_string());
        let is_row = |line: &&str| !line.starts_with('#') && !line.starts_with("slower");
        let lines = text.lines().filter(is_row).skip(2);
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn sizes_that_follow_one_another_share_a_row() {
        let expected = [
            "allreduce out 2 ..2KiB LL staged 4 512 a",
            "allreduce out 2 ..8KiB LL staged 4 512 c",
        ];
        assert_eq!(rows(&data(), None), expected);
    }

    #[test]
    fn tables_are_open_where_nothing_changes_any_more() {
        let mut data = data();
        data.points = vec![point(20, &[1.0, 2.0, 3.0]), point(26, &[3.0, 2.0, 1.0])];
        let expected =
            ["allreduce out 2 1MiB LL staged 4 512 a", "allreduce out 2 1MiB.. LL staged 4 512 c"];
        assert_eq!(rows(&data, None), expected);
    }

    #[test]
    fn sizes_without_a_choice_are_left_out() {
        let mut data = data();
        data.points[1].trials.clear();
        let expected = [
            "allreduce out 2 ..1KiB LL staged 4 512 a",
            "allreduce out 2 2049..8KiB LL staged 4 512 c",
        ];
        assert_eq!(rows(&data, None), expected);
    }

    #[test]
    fn placements_that_decide_alike_share_rows() {
        let mut data = data();
        let in_place = data.points.clone().into_iter();
        let in_place = in_place.map(|point| TunePoint { placement: Placement::InPlace, ..point });
        data.points.extend(in_place);
        let both = [
            "allreduce any 2 ..2KiB LL staged 4 512 a",
            "allreduce any 2 ..8KiB LL staged 4 512 c",
        ];
        assert_eq!(rows(&data, None), both);
        data.points[4].trials.remove(0);
        let found = rows(&data, None);
        assert_eq!(found.len(), 5, "{found:?}");
        assert_eq!(found[2], "allreduce in 2 ..1KiB LL staged 4 512 b");
    }

    #[test]
    fn rows_for_other_calls_stay_behind() {
        let kept = "allreduce any 4 ..2KiB LL 1 512 x\n\
                    allreduce in 2 any LL 1 512 y\n\
                    allreduce out 2 any LL 1 512 gone\n\
                    allreduce any 2..8 any LL 1 512 z\n\
                    allgather out 2 any LL 1 512 w";
        let found = rows(&data(), Some(kept));
        let last: String = found.iter().filter_map(|row| row.chars().last()).collect();
        assert_eq!(last, "acxyzw", "{found:?}");
        // Rows for both placements stay unless both were measured.
        let kept = Some("allreduce any 2 any LL 1 512 x");
        assert_eq!(rows(&data(), kept).len(), 3);
        let mut both = data();
        both.points
            .push(TunePoint { placement: Placement::InPlace, ..point(10, &[0.0, 0.0, 1.0]) });
        assert_eq!(rows(&both, kept).len(), 3);
    }

    #[test]
    fn what_is_out_is_a_remark() {
        let mut data = data();
        data.points[0].trials[0].fault = Some("wrong\nallreduce any".to_owned());
        data.failures = vec!["nccl is out".to_owned()];
        let kept = Tuning::of("old.tuning", "an old machine", Vec::new());
        let text = remarks(&data, &Rule::default(), Some(&kept));
        assert!(text.contains(
            "\n# Rows for other calls are those of old.tuning, made for an old machine.\n"
        ));
        assert!(text.contains(
            "# Out: LL staged 4 512 a: wrong\n# allreduce any\n# Not whole: nccl is out"
        ));
        assert!(
            text.starts_with("# Measured on 2026-11-21 with calls made one by one, on 2 × <GPU>:")
        );
    }
}
