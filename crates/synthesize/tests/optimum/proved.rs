//! From a machine to a proved schedule and its loads.

use std::time::Instant;

use msccl_bounds::{SwitchModel, bound, check};
use msccl_collective::CollectiveKind;
use msccl_compiler::compile;
use msccl_compiler::evaluate::{Launch, NoFiles};
use msccl_ir::Target;
use msccl_simulate::{LinkLoads, link_loads};
use msccl_syntax::SourceMap;
use msccl_synthesize::{Options, Plan, plan, program, routed_cluster};
use msccl_topology::cluster::Cluster;
use num_rational::Ratio;

/// A plan whose program is proved.
pub struct Proved {
    pub plan: Plan,
    /// Of the proved schedule.
    pub loads: LinkLoads,
    /// What its busiest link takes for a byte of the call.
    pub seconds_per_byte: Ratio<u128>,
    pub search_s: f64,
}

impl Proved {
    pub fn of(cluster: &Cluster, kind: CollectiveKind, options: &Options) -> Self {
        let start = Instant::now();
        let plan = plan(cluster, kind, options).unwrap_or_else(|error| panic!("{error}"));
        let search_s = start.elapsed().as_secs_f64();
        check(&routed_cluster(cluster), &plan.bound).unwrap();
        let text = program(&plan);
        let loads = link_loads(&proved(&text), cluster).unwrap();
        let links = loads.chunks.iter().zip(cluster.links()).filter(|(chunks, _)| **chunks > 0);
        let times = links.map(|(chunks, link)| {
            let rate = u128::from(link.rate.mb_per_s()) * 1_000_000;
            Ratio::new(u128::from(*chunks), u128::from(loads.chunks_of_call) * rate)
        });
        let seconds_per_byte = times.max().unwrap();
        Self { plan, loads, seconds_per_byte, search_s }
    }

    pub fn times_bound(&self) -> f64 {
        let times = self.seconds_per_byte / self.plan.bound.seconds_per_byte;
        *times.numer() as f64 / *times.denom() as f64
    }
}

fn proved(text: &str) -> msccl_ir::Algorithm {
    let mut sources = SourceMap::new();
    let file = sources.add("synthesised.msccl", text);
    let launch = Launch::default();
    let target = Target::native();
    let compiled = compile(&mut sources, file, &NoFiles, &launch, &target)
        .unwrap_or_else(|found| panic!("{text}\n{}", sources.render_all(&found)));
    let algorithm = compiled.schedule.algorithm;
    msccl_verify::verify(algorithm, &target).unwrap_or_else(|refusal| panic!("{text}\n{refusal}")).into_algorithm()
}

#[allow(unused)]
fn unrestricted(cluster: &Cluster, kind: CollectiveKind) -> Ratio<u128> {
    bound(cluster, kind, SwitchModel::Forward).unwrap().seconds_per_byte
}
