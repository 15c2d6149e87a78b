//! Rates from measurements: those with which estimates come nearest to measured times.
//!
//! The fit is least squares of the logarithms of estimated by measured times, robust to outliers
//! (Huber's loss). Slow ways to make a call count less than the fastest one. A weak pull leads
//! towards the rates that it starts from: what no measurement shows stays as it was. It is stronger
//! for the latency of a message, which was measured by itself: calls of one message only show its
//! sum with what a launch takes.
//!
//! Kernels are fitted one by one, since no call runs two kinds. Each fit is a Levenberg–Marquardt
//! descent over the logarithms of the rates, then a search along single rates, which also passes
//! the kinks that the model has.

use std::collections::BTreeMap;

use msccl_topology::cluster::Cluster;

use super::engine::estimate;
use super::rates::{KernelKind, KernelRates, Rates};
use super::workload::{Execution, Workload};

/// A call that was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured<'a> {
    /// The programs of all ranks.
    pub programs: &'a [msccl_plan::Program],
    /// How it ran.
    pub execution: Execution,
    /// From one such call to the next in a graph, in µs.
    pub us: f64,
}

/// How hard a fit tries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Most measurements of a kind of kernel that it looks at.
    pub points: usize,
    /// Steps of the descent.
    pub steps: u32,
    /// Searches along all rates.
    pub sweeps: u32,
}

impl Default for Effort {
    fn default() -> Self {
        Self { points: 400, steps: 25, sweeps: 10 }
    }
}

/// Errors beyond this (of the logarithm) count linearly.
const OUTLIER: f64 = 0.1;

/// Weight of the pull towards the first rates, for each measurement.
const PULL: f64 = 1e-4;

/// How many times that weight the pull on the latency of a message has.
const LATENCY_PULL: f64 = 150.0;

/// The weight of a measurement is this power of the least time of a way to make the same call, by
/// its own.
const WEIGHT_POWER: f64 = 0.2;

/// How much rates change to see what follows.
const NUDGE: f64 = 0.02;

/// The rates that suit `measured` best, from `start` on; kernels that nobody measured keep theirs.
pub fn fit(measured: &[Measured<'_>], cluster: &Cluster, start: &Rates, effort: Effort) -> Rates {
    let mut rates = start.clone();
    for kind in KernelKind::ALL {
        let of_kind = measured.iter().filter(|of| of.execution.kernel == kind);
        let of_kind: Vec<&Measured<'_>> = of_kind.collect();
        let every = of_kind.len().div_ceil(effort.points.max(1)).max(1);
        let points: Vec<&Measured<'_>> = of_kind.into_iter().step_by(every).collect();
        if !points.is_empty() {
            let mut fit = Fit::new(points, cluster, rates, kind);
            fit.descend(effort.steps);
            fit.search(effort.sweeps);
            rates = fit.rates;
        }
    }
    rates
}

/// The logarithm of what is estimated by what was measured; nothing if there is no estimate.
pub fn log_error(measured: &Measured<'_>, cluster: &Cluster, rates: &Rates) -> Option<f64> {
    let Measured { programs, execution, us } = measured;
    let workload = Workload::new(programs, cluster, rates, *execution).ok()?;
    let found = estimate(&workload, rates).ok()?;
    Some((found.total_us / us).ln())
}

struct Fit<'a> {
    points: Vec<&'a Measured<'a>>,
    weights: Vec<f64>,
    cluster: &'a Cluster,
    kind: KernelKind,
    /// The logarithms of the first rates.
    start: Vec<f64>,
    rates: Rates,
    errors: Vec<f64>,
    loss: f64,
}

impl<'a> Fit<'a> {
    fn new(
        points: Vec<&'a Measured<'a>>,
        cluster: &'a Cluster,
        mut rates: Rates,
        kind: KernelKind,
    ) -> Self {
        let own = rates.kernel_mut(kind).parameters_mut();
        let start = own.map(|of| of.max(f64::MIN_POSITIVE).ln()).to_vec();
        let (errors, loss) = (Vec::new(), f64::INFINITY);
        let weights = weights(&points);
        let mut fit = Self { points, weights, cluster, kind, start, rates, errors, loss };
        (fit.errors, fit.loss) = fit.tried(&fit.rates.clone());
        fit
    }

    /// The errors with these rates, and their loss.
    fn tried(&self, rates: &Rates) -> (Vec<f64>, f64) {
        let of = |point: &&Measured<'_>| log_error(point, self.cluster, rates).unwrap_or(10.0);
        let errors: Vec<f64> = self.points.iter().map(of).collect();
        let huber = |error: &f64| match error.abs() {
            small if small < OUTLIER => small * small / 2.0,
            large => OUTLIER * (large - OUTLIER / 2.0),
        };
        let offsets = self.offsets(rates);
        let pulls = offsets.iter().enumerate().map(|(at, of)| self.pull(at) * of * of / 2.0);
        let losses = errors.iter().map(huber).zip(&self.weights).map(|(of, weight)| of * weight);
        let loss = losses.chain(pulls).sum();
        (errors, loss)
    }

    /// The weight of the pull on rate number `at`.
    fn pull(&self, at: usize) -> f64 {
        let pull = PULL * self.points.len() as f64;
        if at == KernelRates::LATENCY { LATENCY_PULL * pull } else { pull }
    }

    /// How far the logarithms of rates are from the first ones.
    fn offsets(&self, rates: &Rates) -> Vec<f64> {
        let mut rates = rates.clone();
        let now = rates.kernel_mut(self.kind).parameters_mut();
        let pairs = now.into_iter().zip(&self.start);
        pairs.map(|(now, start)| now.max(f64::MIN_POSITIVE).ln() - start).collect()
    }

    /// The rates with number `at` multiplied by e to the `by`.
    fn moved(&self, by: &[(usize, f64)]) -> Rates {
        let mut rates = self.rates.clone();
        let kernel = rates.kernel_mut(self.kind);
        for &(at, by) in by {
            if let Some(of) = kernel.parameters_mut().into_iter().nth(at) {
                *of *= by.exp();
            }
        }
        kernel.keep_sensible();
        rates
    }

    /// Takes these rates if they are better.
    fn take(&mut self, rates: Rates) -> bool {
        let (errors, loss) = self.tried(&rates);
        let better = loss < self.loss;
        if better {
            (self.rates, self.errors, self.loss) = (rates, errors, loss);
        }
        better
    }

    fn descend(&mut self, steps: u32) {
        let mut damping = 1e-2;
        for _ in 0..steps {
            let slopes: Vec<Vec<f64>> = (0..self.start.len()).map(|at| self.slope(at)).collect();
            let mut improved = false;
            for _ in 0..6 {
                let step = solve(self.equations(&slopes, damping));
                let by = step.iter().map(|by| by.clamp(-1.0, 1.0)).enumerate();
                improved = self.take(self.moved(&by.collect::<Vec<_>>()));
                damping = if improved { f64::max(damping * 0.3, 1e-6) } else { damping * 5.0 };
                if improved {
                    break;
                }
            }
            if !improved {
                break;
            }
        }
    }

    /// How all errors change with the logarithm of rate number `at`.
    fn slope(&self, at: usize) -> Vec<f64> {
        let (errors, _) = self.tried(&self.moved(&[(at, NUDGE)]));
        errors.iter().zip(&self.errors).map(|(after, before)| (after - before) / NUDGE).collect()
    }

    /// The normal equations of the next step, with their right side as last column.
    fn equations(&self, slopes: &[Vec<f64>], damping: f64) -> Vec<Vec<f64>> {
        let inlier = |error: f64| (OUTLIER / error.abs()).min(1.0);
        let weights = self.errors.iter().zip(&self.weights);
        let weights: Vec<f64> = weights.map(|(error, of)| inlier(*error) * of).collect();
        let product = |one: &[f64], other: &[f64]| -> f64 {
            let pairs = one.iter().zip(other).zip(&weights);
            pairs.map(|((one, other), weight)| one * other * weight).sum()
        };
        let offsets = self.offsets(&self.rates);
        let row = |at: usize| {
            let mut row: Vec<f64> = slopes.iter().map(|of| product(&slopes[at], of)).collect();
            row[at] += self.pull(at);
            row[at] += damping * (row[at] + 1e-2);
            row.push(-product(&slopes[at], &self.errors) - self.pull(at) * offsets[at]);
            row
        };
        (0..slopes.len()).map(row).collect()
    }

    fn search(&mut self, sweeps: u32) {
        let mut strides = vec![0.3_f64; self.start.len()];
        for _ in 0..sweeps {
            for (at, stride) in strides.iter_mut().enumerate() {
                let by = *stride;
                let found =
                    self.take(self.moved(&[(at, by)])) || self.take(self.moved(&[(at, -by)]));
                *stride = if found { (by * 1.5).min(1.5) } else { (by * 0.5).max(0.01) };
            }
        }
    }
}

/// What each measurement counts.
fn weights(points: &[&Measured<'_>]) -> Vec<f64> {
    // The same call of the same algorithm.
    let call = |of: &Measured<'_>| (of.programs.as_ptr() as usize, of.execution.cut.block_bytes);
    let mut least_us = BTreeMap::new();
    for point in points {
        let least: &mut f64 = least_us.entry(call(point)).or_insert(point.us);
        *least = least.min(point.us);
    }
    let weight = |of: &&Measured<'_>| {
        least_us.get(&call(of)).map_or(1.0, |least| (least / of.us).powf(WEIGHT_POWER))
    };
    points.iter().map(weight).collect()
}

/// Solves linear equations, right sides in the last column, by elimination with pivots; unknowns
/// that nothing says anything about are 0.
fn solve(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    const NOTHING: f64 = 1e-14;
    let count = rows.len();
    for at in 0..count {
        let largest = (at..count)
            .max_by(|&one, &other| rows[one][at].abs().total_cmp(&rows[other][at].abs()));
        rows.swap(at, largest.unwrap_or(at));
        if rows[at][at].abs() < NOTHING {
            continue;
        }
        let pivot = rows[at].clone();
        let others = rows.iter_mut().enumerate().filter(|(number, _)| *number != at);
        for (_, row) in others {
            let factor = row[at] / pivot[at];
            row.iter_mut().zip(&pivot).for_each(|(to, from)| *to -= factor * from);
        }
    }
    let unknown = |at: usize| match rows[at][at] {
        small if small.abs() < NOTHING => 0.0,
        pivot => rows[at][count] / pivot,
    };
    (0..count).map(unknown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latency_is_found_among_the_rates() {
        let mut rates = Rates::assumed();
        let kernel = rates.kernel_mut(KernelKind::Simple);
        *kernel.parameters_mut()[KernelRates::LATENCY] = 1234.5;
        assert_eq!(kernel.latency_ns, 1234.5);
    }

    #[test]
    fn equations_are_solved() {
        let rows = vec![vec![0.0, 2.0, 4.0], vec![3.0, 1.0, 5.0]];
        assert_eq!(solve(rows), [1.0, 2.0]);
        assert_eq!(solve(vec![vec![0.0, 0.0]]), [0.0]);
    }
}
