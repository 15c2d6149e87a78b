//! From a machine to a proved schedule and its loads.

use msccl_collective::CollectiveKind;
use msccl_compiler::compile;
use msccl_compiler::evaluate::{Launch, NoFiles};
use msccl_ir::{Algorithm, Target};
use msccl_simulate::link_loads;
use msccl_syntax::SourceMap;
use msccl_synthesize::{Certificate, Layout, Options, Plan, annotated, plan, program};
use msccl_topology::cluster::Cluster;
use num_rational::Ratio;

/// A plan whose program is proved, and whose certificate was read again and holds.
pub struct Proved {
    pub plan: Plan,
    /// What the busiest link of the proved schedule takes for a byte of the call.
    pub seconds_per_byte: Ratio<u128>,
}

impl Proved {
    pub fn of(cluster: &Cluster, kind: CollectiveKind, options: &Options) -> Self {
        Self::of_plan(
            plan(cluster, kind, options).unwrap_or_else(|error| panic!("{error}")),
            cluster,
        )
    }

    pub fn of_plan(plan: Plan, cluster: &Cluster) -> Self {
        Self::of_layout(plan, &Layout::default(), cluster)
    }

    pub fn of_layout(plan: Plan, layout: &Layout, cluster: &Cluster) -> Self {
        let kind = plan.kind;
        let text = program(&plan, layout);
        let loads = link_loads(&proved(&text), cluster).unwrap();
        let ranks = cluster.gpus().count() as u32;
        let bound = plan.bound.clone();
        let certificate = Certificate::new(ranks, &loads, cluster, bound).unwrap();
        let text = annotated(&text, &plan, &loads, &certificate, cluster);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert_eq!(msccl_syntax::format(&text).unwrap(), text);
        let read = Certificate::read(&text, cluster).unwrap().unwrap();
        assert_eq!(read, certificate);
        read.check(kind, ranks, &loads, cluster).unwrap();
        Self { plan, seconds_per_byte: read.seconds_per_byte }
    }

    pub fn times_bound(&self) -> Ratio<u128> {
        self.seconds_per_byte / self.plan.bound.seconds_per_byte
    }
}

fn proved(text: &str) -> Algorithm {
    let mut sources = SourceMap::new();
    let file = sources.add("synthesised.msccl", text);
    let target = Target::native();
    let compiled = compile(&mut sources, file, &NoFiles, &Launch::default(), &target)
        .unwrap_or_else(|found| panic!("{text}\n{}", sources.render_all(&found)));
    let verified = msccl_verify::verify(compiled.schedule.algorithm, &target);
    verified.unwrap_or_else(|refusal| panic!("{text}\n{refusal}")).into_algorithm()
}
