//! Which loaded files were slower than the best, at every size at which they were measured.

use std::collections::BTreeSet;

use msccl_collective::Placement as Serves;
use msccl_registry::built_in_programs;
use msccl_runtime::{Choice, Slower};

use super::data::{CandidateTimes, Data, TunePoint};
use super::decide::{by_point, decide};
use super::rule::Rule;

/// What `data` says of loaded files where something else is chosen by `rule`.
pub(super) fn slower(data: &Data, rule: &Rule) -> Vec<Slower> {
    let mut all = Vec::new();
    for placement in data.placements() {
        let points = data.points_of(placement);
        let decisions = decide(&points, rule);
        for (point, chosen) in points.iter().zip(by_point(&points, &decisions)) {
            let chosen = chosen.and_then(algorithm);
            all.extend(at_point(point, chosen.as_deref(), data.nodes));
        }
    }
    all
}

/// The loaded files that are slower at `point` than what is `chosen`.
fn at_point(point: &TunePoint, chosen: Option<&str>, nodes: u32) -> Vec<Slower> {
    let Some((_, least_us)) = point.ranking().first().copied() else { return Vec::new() };
    let names: BTreeSet<String> =
        point.trials.iter().filter_map(|trial| algorithm(&trial.choice)).collect();
    let is_loser = |name: &String| {
        !built_in_programs().contains_key(name.as_str()) && Some(name.as_str()) != chosen
    };
    let of = |name: String| {
        let own =
            point.trials.iter().filter(|trial| algorithm(&trial.choice).as_ref() == Some(&name));
        let us = own.filter_map(known_us).reduce(f64::min)?;
        let (ranks, nodes) = (u64::from(point.case.ranks), u64::from(nodes));
        let has_root = point.case.workload.has_root();
        let placement = if has_root { Serves::Both } else { point.placement.serves() };
        Some(Slower {
            collective: point.case.workload.name(),
            placement,
            ranks: ranks..=ranks,
            nodes: nodes..=nodes,
            bytes: point.case.size_bytes(),
            least_ns: in_ns(least_us),
            ns: in_ns(us),
            algorithm: name,
        })
    };
    names.into_iter().filter(is_loser).filter_map(of).collect()
}

/// What a candidate took in rounds, or else in the screening pass.
fn known_us(trial: &CandidateTimes) -> Option<f64> {
    trial.time_us().or(trial.screening_us.filter(|_| trial.fault.is_none()))
}

fn algorithm(choice: &str) -> Option<String> {
    choice.parse::<Choice>().ok().map(|choice| choice.algorithm)
}

fn in_ns(us: f64) -> u64 {
    (us * 1000.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::super::sample_data::{data, point};
    use super::*;

    fn found(data: &Data) -> Vec<String> {
        slower(data, &Rule::default()).iter().map(Slower::to_string).collect()
    }

    #[test]
    fn loaded_files_are_named_where_others_serve() {
        let mut data = data();
        data.points = vec![point(10, &[1.0, 2.0]), point(26, &[2.5, 2.0])];
        let expected = [
            "slower allreduce out 2 1KiB 1.000 2.000 b",
            "slower allreduce out 2 64MiB 2.000 2.500 a",
        ];
        assert_eq!(found(&data), expected);
        data.nodes = 2;
        assert_eq!(found(&data)[0], "slower allreduce out 2/2 1KiB 1.000 2.000 b");
    }

    #[test]
    fn built_in_algorithms_and_what_failed_are_left_out() {
        let mut data = data();
        data.points = vec![point(10, &[1.0, 2.0, 3.0])];
        data.points[0].trials[1].choice = "LL staged 4 512 allreduce/ring".to_owned();
        data.points[0].trials[2].fault = Some("wrong".to_owned());
        assert!(found(&data).is_empty());
    }
}
