//! The certificate in a program's comments, checked from scratch.

use msccl_bounds::Bound;
use msccl_collective::CollectiveKind;
use msccl_ir::Algorithm;
use msccl_simulate::LinkLoads;
use msccl_synthesize::{Certificate, routed_cluster};
use msccl_topology::cluster::Cluster;
use num_rational::Ratio;
use serde::Serialize;

use crate::bound::words;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// A certificate that holds.
pub struct Certified {
    /// How many times the bound the busiest link takes.
    times_bound: Ratio<u128>,
    bound: Bound,
    witness: String,
}

/// For programs. Fractions are text.
#[derive(Serialize)]
pub struct CertifiedJson {
    seconds_per_byte: String,
    bound_seconds_per_byte: String,
    times_bound: f64,
    optimal: bool,
    witness: String,
}

impl Certified {
    /// The certificate in `text`, the program of `algorithm`, whose loads on `cluster` are
    /// `loads`; `None` if it has none. A certificate that does not hold is a failure.
    pub fn of(
        file: &str,
        text: &str,
        algorithm: &Algorithm,
        loads: &LinkLoads,
        cluster: &Cluster,
    ) -> Option<Result<Self>> {
        let read = Certificate::read(text, cluster);
        let checked = read.and_then(|certificate| {
            let Some(certificate) = certificate else { return Ok(None) };
            let ranks = algorithm.collective.ranks;
            match CollectiveKind::of(&algorithm.collective.kind) {
                Some(kind) => certificate.check(kind, ranks, loads, cluster)?,
                None => return Err(certificate.of_other_call(algorithm.collective.name())),
            }
            Ok(Some(certificate))
        });
        let certificate = match checked {
            Ok(certificate) => certificate?,
            Err(error) => {
                let place = error.line().map(|line| (line, 1));
                return Some(Err(Failure::at(file, place, &error)));
            }
        };
        let witness = words::witness_in_short(&routed_cluster(cluster), &certificate.bound);
        let times_bound = certificate.times_bound();
        Some(Ok(Self { times_bound, bound: certificate.bound, witness }))
    }

    fn is_optimal(&self) -> bool {
        self.times_bound == Ratio::from_integer(1)
    }

    /// Says so.
    pub fn print(&self, output: &mut Output) {
        let Self { times_bound, bound, witness } = self;
        let least = words::seconds_per_gb(bound.seconds_per_byte);
        let over = "over the routes of messages";
        if self.is_optimal() {
            output.line(format_args!(
                "certified optimal: no schedule {over} takes less than {least} ({witness}, checked)"
            ));
        } else {
            let times = words::to_f64(*times_bound);
            output.line(format_args!(
                "certified {times:.4} times the bound: no schedule {over} takes less than {least} \
                 ({witness}, checked)"
            ));
        }
    }

    /// The object that stands for it in JSON.
    pub fn to_json(&self) -> CertifiedJson {
        let Self { times_bound, bound, witness } = self;
        CertifiedJson {
            seconds_per_byte: (bound.seconds_per_byte * *times_bound).to_string(),
            bound_seconds_per_byte: bound.seconds_per_byte.to_string(),
            times_bound: words::to_f64(*times_bound),
            optimal: self.is_optimal(),
            witness: witness.clone(),
        }
    }
}
