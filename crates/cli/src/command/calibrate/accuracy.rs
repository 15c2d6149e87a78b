//! How near estimates come to measurements.
//!
//! Each algorithm is looked at under each protocol and kind of links, at sizes that are powers of
//! two, with the instances and threads with which it was fastest: as it would be tuned. The error
//! of a point is the larger of estimate and measurement by the smaller, less one.

use std::collections::BTreeMap;

use msccl_select::Hardware;
use msccl_simulate::model::{KernelKind, log_error};
use serde::Serialize;

use super::points::Point;
use crate::output::{Output, Paint};
use crate::table::{Align, Table};

/// Estimates beside measurements.
#[derive(Serialize)]
pub struct Accuracy {
    /// Those that the rates were fitted to.
    fitted: Errors,
    /// All others.
    held_out: Errors,
    /// Those of the others that were good enough for rounds of measurements.
    contenders: Errors,
    kernels: BTreeMap<&'static str, Errors>,
    algorithms: BTreeMap<String, Errors>,
    /// How much longer calls take if the estimate chooses than if measuring does: the geometric
    /// mean, and the most.
    choice_costs: f64,
    choice_costs_most: f64,
    points: Vec<PointJson>,
}

impl Accuracy {
    /// The points of algorithms that rates were not fitted to.
    pub fn held_out(&self) -> Vec<&PointJson> {
        self.points.iter().filter(|of| !of.fitted).collect()
    }
}

/// The errors of some points.
#[derive(Serialize, Clone, Copy)]
struct Errors {
    points: usize,
    /// The geometric mean.
    mean: f64,
    /// The part of the points with at most 0.2.
    within_a_fifth: f64,
    most: f64,
}

/// A point, for programs.
#[derive(Serialize)]
pub struct PointJson {
    algorithm: String,
    /// Whether rates were fitted to the algorithm.
    fitted: bool,
    pub protocol: &'static str,
    links: &'static str,
    bytes: u64,
    pub measured_us: f64,
    pub estimated_us: f64,
}

/// A point, with the logarithm of its estimate by its measurement.
struct Estimated<'a> {
    point: &'a Point,
    log: f64,
}

impl Estimated<'_> {
    fn estimated_us(&self) -> f64 {
        self.point.us * self.log.exp()
    }
}

/// How near estimates on `hardware` come.
pub fn of(points: &[Point], fitted: &[String], hardware: &Hardware) -> Accuracy {
    let powers = points.iter().filter(|of| of.bytes.is_power_of_two());
    let all = powers.filter_map(|point| {
        let log = log_error(&point.measured(), &hardware.cluster, &hardware.rates)?;
        Some(Estimated { point, log })
    });
    let all: Vec<Estimated<'_>> = all.collect();
    let best = best_of_each(&all);
    let is_fitted = |of: &Estimated<'_>| fitted.contains(&of.point.algorithm);
    let some = |keep: &dyn Fn(&Estimated<'_>) -> bool| {
        Errors::of(best.iter().filter(|of| keep(of)).map(|of| of.log))
    };
    let contends = |of: &&Estimated<'_>| of.point.contends && !is_fitted(of);
    let kernels = KernelKind::ALL.into_iter().map(|kind| {
        let errors = some(&|of| of.point.modelled.execution().kernel == kind && !is_fitted(of));
        (kind.name(), errors)
    });
    let names = best.iter().map(|of| of.point.algorithm.clone());
    let algorithms = names.map(|name| {
        let errors = some(&|of| of.point.algorithm == name);
        (name, errors)
    });
    let costs = choice_costs(&all);
    Accuracy {
        fitted: some(&is_fitted),
        held_out: some(&|of| !is_fitted(of)),
        contenders: Errors::of(all.iter().filter(contends).map(|of| of.log)),
        kernels: kernels.filter(|(_, errors)| errors.points > 0).collect(),
        algorithms: algorithms.collect(),
        choice_costs: (costs.iter().sum::<f64>() / costs.len().max(1) as f64).exp() - 1.0,
        choice_costs_most: costs.iter().copied().fold(0.0, f64::max).exp() - 1.0,
        points: best.iter().map(|of| PointJson::of(of, is_fitted(of))).collect(),
    }
}

/// Of each algorithm under each protocol, kind of links and size the fastest way.
fn best_of_each<'a, 'p>(all: &'a [Estimated<'p>]) -> Vec<&'a Estimated<'p>> {
    let mut best: BTreeMap<_, &Estimated<'p>> = BTreeMap::new();
    for of in all {
        let Point { algorithm, protocol, links, bytes, .. } = of.point;
        let entry = best.entry((algorithm, protocol.name(), links, bytes)).or_insert(of);
        if of.point.us < entry.point.us {
            *entry = of;
        }
    }
    best.into_values().collect()
}

/// By collective and size, the logarithm of what the estimate's choice takes by what the measured
/// choice does, which is made among those that contend.
fn choice_costs(all: &[Estimated<'_>]) -> Vec<f64> {
    let mut calls: BTreeMap<_, Vec<&Estimated<'_>>> = BTreeMap::new();
    for of in all {
        calls.entry((of.point.kind.name(), of.point.bytes)).or_default().push(of);
    }
    let cost = |of: Vec<&Estimated<'_>>| {
        let contending = of.iter().filter(|of| of.point.contends).map(|of| of.point.us);
        let least = contending.reduce(f64::min)?;
        let by_estimate = |one: &&&Estimated<'_>, other: &&&Estimated<'_>| {
            one.estimated_us().total_cmp(&other.estimated_us())
        };
        let chosen = of.iter().min_by(by_estimate)?;
        Some((chosen.point.us / least).ln().max(0.0))
    };
    calls.into_values().filter_map(cost).collect()
}

impl Errors {
    fn of(logs: impl Iterator<Item = f64>) -> Self {
        const FIFTH: f64 = 1.2;
        let errors: Vec<f64> = logs.map(f64::abs).collect();
        let points = errors.len();
        let near = errors.iter().filter(|error| **error <= FIFTH.ln()).count();
        let count = points.max(1) as f64;
        Self {
            points,
            mean: (errors.iter().sum::<f64>() / count).exp() - 1.0,
            within_a_fifth: near as f64 / count,
            most: errors.iter().copied().fold(0.0, f64::max).exp() - 1.0,
        }
    }
}

impl PointJson {
    fn of(of: &Estimated<'_>, fitted: bool) -> Self {
        let Point { algorithm, protocol, links, bytes, us, .. } = of.point;
        Self {
            algorithm: algorithm.clone(),
            fitted,
            protocol: protocol.name(),
            links: links.name(),
            bytes: *bytes,
            measured_us: *us,
            estimated_us: of.estimated_us(),
        }
    }
}

/// Prints the table.
pub fn print(found: &Accuracy, hardware: &Hardware, output: &mut Output) {
    output.line(format_args!("assumes {hardware}"));
    output.line("");
    let mut table = Table::new(&[
        ("", Align::Left),
        ("points", Align::Right),
        ("mean error", Align::Right),
        ("within 20 %", Align::Right),
        ("most", Align::Right),
    ]);
    let mut row = |name: &str, errors: &Errors| {
        let Errors { points, mean, within_a_fifth, most } = *errors;
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let cells = [percent(mean), percent(within_a_fifth), percent(most)];
        table.row([name.to_owned(), points.to_string()].into_iter().chain(cells));
    };
    row("fitted algorithms", &found.fitted);
    row("all others", &found.held_out);
    row("others that contend", &found.contenders);
    found.kernels.iter().for_each(|(name, errors)| row(&format!("  kernel {name}"), errors));
    found.algorithms.iter().for_each(|(name, errors)| row(&format!("  {name}"), errors));
    for (index, line) in table.lines().into_iter().enumerate() {
        let line = format!("  {line}");
        output.line(if index == 0 { output.paint(Paint::Dim, line) } else { line });
    }
    output.line("");
    output.line(format_args!(
        "choosing by estimate costs {:.1} % against choosing by measurement, at most {:.0} %",
        100.0 * found.choice_costs,
        100.0 * found.choice_costs_most
    ));
}
