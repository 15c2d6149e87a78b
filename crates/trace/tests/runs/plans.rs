//! Plans of built-in algorithms.

use msccl_collective::{CallPlacement, CollectiveKind};
use msccl_plan::Plan;
use msccl_registry::{Entry, File, Registry, Shape};
use msccl_trace::recording::PlanDescription;
use msccl_trace::{PlanName, StepGrouping, describe};

/// The plan of each rank, described.
pub fn of_entry(entry: &Entry) -> Vec<PlanDescription> {
    let source = entry.source.as_ref().unwrap();
    let name = PlanName { id: 3, algorithm: &entry.name, source: Some(&source.name) };
    let plans = Plan::all(&entry.verified).unwrap();
    let of =
        |plan: &Plan| describe(name, plan.program(), StepGrouping::Bundles, |at| source.line(at));
    plans.iter().map(of).collect()
}

/// Those of a built-in all-reduce.
pub fn all_reduce(name: &str, ranks: u32) -> Vec<PlanDescription> {
    let registry = Registry::new(Shape { ranks, per_node: ranks }, &[]);
    let (kind, placement) = (CollectiveKind::AllReduce, CallPlacement::OutOfPlace);
    of_entry(&registry.built_in_named(kind, placement, name).unwrap())
}

/// Those of a program.
pub fn of_text(text: &str, shape: Shape) -> Vec<PlanDescription> {
    let file = File { name: "own.msccl".to_owned(), content: Ok(text.into()) };
    let registry = Registry::new(shape, &[file]);
    let entry = registry.loaded().first();
    of_entry(entry.unwrap_or_else(|| panic!("{:?}", registry.refused())))
}
