//! Measurements of `msccl tune` as the cost model sees them.

use std::sync::Arc;

use msccl_bench::{ElementType, Placement, tune};
use msccl_collective::{CallPlacement, CollectiveKind, Protocol, Rank, Reduction};
use msccl_registry::{Registry, Shape};
use msccl_select::{CallShape, Choice, Links, Machine, Modelled, Overrides, Selector};
use msccl_simulate::model::Measured;

use crate::collective;
use crate::failure::{Failure, Result};

/// A call that was measured.
pub struct Point {
    /// Of which collective.
    pub kind: CollectiveKind,
    /// Bytes of the larger buffer.
    pub bytes: u64,
    pub algorithm: String,
    pub protocol: Protocol,
    pub links: Links,
    /// What ran, and how.
    pub modelled: Modelled,
    /// How long it took: the median of rounds, or what it took at first sight.
    pub us: f64,
    /// Whether it was good enough to be measured in rounds.
    pub contends: bool,
}

impl Point {
    /// As the fit takes it.
    pub fn measured(&self) -> Measured<'_> {
        let Self { modelled, us, .. } = self;
        Measured { programs: modelled.programs(), execution: modelled.execution(), us: *us }
    }
}

/// All calls of which a time is known.
///
/// # Errors
///
/// There are none, or they are of different numbers of ranks.
pub fn of(data: &[tune::Data]) -> Result<Vec<Point>> {
    let cases = || data.iter().flat_map(|data| &data.points).map(|point| &point.case);
    let Some(ranks) = cases().map(|case| case.ranks).next() else {
        return Err(Failure::new("expected measurements, found none"));
    };
    if let Some(other) = cases().find(|case| case.ranks != ranks) {
        return Err(Failure::new(format!(
            "expected measurements of as many ranks each, found {ranks} and {}",
            other.ranks
        )));
    }
    let registry = Arc::new(Registry::new(Shape { ranks, per_node: ranks }, &[]));
    let overrides = Overrides::default();
    let selector = Selector::nominal(Machine::Gpus, &registry, Rank(0), &overrides, None, true);
    let known = Known { registry, selector };
    let points = data.iter().flat_map(|data| &data.points);
    Ok(points.flat_map(|point| known.points(point)).collect())
}

struct Known {
    registry: Arc<Registry>,
    selector: Selector,
}

impl Known {
    fn points(&self, point: &tune::TunePoint) -> Vec<Point> {
        let Some(request) = request(point) else { return Vec::new() };
        let trials = point.trials.iter().filter(|trial| trial.fault.is_none());
        trials.filter_map(|trial| self.point(trial, &request)).collect()
    }

    fn point(&self, trial: &tune::CandidateTimes, request: &CallShape) -> Option<Point> {
        let us = time_us(trial)?;
        let choice: Choice = trial.choice.parse().ok()?;
        let entry =
            self.registry.built_in_named(request.kind, request.placement, &choice.algorithm)?;
        self.selector.pin(Some(choice.clone()));
        let (decision, _) = self.selector.choose(request).ok()?;
        Some(Point {
            kind: request.kind,
            bytes: request.bytes(self.registry.shape().ranks),
            algorithm: choice.algorithm,
            protocol: decision.protocol,
            links: decision.links,
            modelled: self.selector.modelled(&entry, &decision).ok()?,
            us,
            contends: !trial.rounds_us.is_empty(),
        })
    }
}

/// The call, if it is one of the library.
fn request(point: &tune::TunePoint) -> Option<CallShape> {
    let case = &point.case;
    let kind = collective::named(&case.workload.to_string())?;
    let kind = CollectiveKind::of(&collective::with_root(kind, Rank(case.root)))?;
    let ElementType(data_type) = case.element;
    let reduces = matches!(
        kind,
        CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::Reduce(_)
    );
    let placement = CallPlacement::from_in_place(point.placement == Placement::InPlace);
    let reduction = reduces.then_some(Reduction::Sum);
    Some(CallShape { kind, placement, data_type, reduction, count: case.count })
}

fn time_us(trial: &tune::CandidateTimes) -> Option<f64> {
    let mut rounds = trial.rounds_us.clone();
    rounds.sort_by(f64::total_cmp);
    rounds.get(rounds.len() / 2).copied().or(trial.screening_us)
}
