//! Plans of built-in algorithms are described so that both ends of links agree, and with lines.

use std::collections::BTreeMap;

use msccl_collective::{CallPlacement, CollectiveKind};
use msccl_registry::{Registry, Shape};
use msccl_trace::recording::StepShape;

use crate::plans;

#[test]
fn built_in_plans_have_lines_and_paired_messages() {
    let registry = Registry::new(Shape { ranks: 4, per_node: 4 }, &[]);
    for kind in [CollectiveKind::AllReduce, CollectiveKind::AllGather] {
        for entry in registry.built_in(kind, CallPlacement::OutOfPlace) {
            let mut messages = BTreeMap::<_, [usize; 2]>::new();
            for (rank, plan) in (0..).zip(plans::of_entry(&entry)) {
                for block in &plan.thread_blocks {
                    let mut next = 0;
                    for step in &block.steps {
                        assert_eq!(step.index, next, "{}", entry.name);
                        next += step.bundled;
                        assert!(step.line.is_some_and(|line| line > 1), "{} {step:?}", entry.name);
                        for &send in &step.sends {
                            let end = block.sends[send as usize];
                            messages.entry((rank, end.peer, end.number)).or_default()[0] += 1;
                        }
                        for &receive in &step.receives {
                            let end = block.receives[receive as usize];
                            messages.entry((end.peer, rank, end.number)).or_default()[1] += 1;
                        }
                    }
                }
            }
            assert!(messages.values().all(|[sent, received]| sent == received), "{}", entry.name);
        }
    }
}

#[test]
fn steps_have_shapes_and_texts() {
    let plans = plans::all_reduce("allreduce/ring", 3);
    assert_eq!(plans[0].source.as_deref(), Some("allreduce/ring"));
    let steps = plans.iter().flat_map(|plan| &plan.thread_blocks).flat_map(|block| &block.steps);
    let shapes: Vec<StepShape> = steps.clone().map(|step| step.shape).collect();
    assert!(shapes.contains(&StepShape::RecvReduceSend), "{shapes:?}");
    assert!(steps.clone().any(|step| step.text == "r2 + i[1] -> o[1], r1"), "{:?}", {
        steps.map(|step| step.text.clone()).collect::<Vec<_>>()
    });
}
