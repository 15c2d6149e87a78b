//! The certificate of steps in a program's comments, checked from scratch.

use msccl_ir::Algorithm;
use msccl_synthesize::least_steps::StepCertificate;
use msccl_topology::cluster::Cluster;
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::verdict::words::counted;

/// A certificate that holds.
pub struct CertifiedSteps {
    certificate: StepCertificate,
    why: String,
}

/// For programs.
#[derive(Serialize)]
pub struct CertifiedStepsJson {
    steps: u32,
    /// No schedule takes fewer than these.
    at_least: u32,
    /// The most chunks that a link carries in one step.
    link_chunks: u32,
    least: bool,
    why: String,
}

impl CertifiedSteps {
    /// The certificate in `text`, the program of `algorithm`, on `cluster`; `None` if it has none.
    /// A certificate that does not hold is a failure.
    pub fn of(
        file: &str,
        text: &str,
        algorithm: &Algorithm,
        cluster: &Cluster,
    ) -> Option<Result<Self>> {
        let read = StepCertificate::read(text);
        let checked = read.and_then(|certificate| {
            let Some(certificate) = certificate else { return Ok(None) };
            certificate.check(algorithm, cluster)?;
            Ok(Some(certificate))
        });
        match checked {
            Ok(certificate) => {
                let certificate = certificate?;
                let why = certificate.why(cluster).unwrap_or_default();
                Some(Ok(Self { certificate, why }))
            }
            Err(error) => {
                let place = error.line().map(|line| (line, 1));
                Some(Err(Failure::at(file, place, &error)))
            }
        }
    }

    /// Says so.
    pub fn print(&self, output: &mut Output) {
        let Self { certificate, why } = self;
        let of = counted(certificate.steps.into(), "step");
        if certificate.is_least() {
            return output.line(format_args!("certified {of}: fewer are too few ({why}, checked)"));
        }
        output.line(format_args!(
            "certified {of}, the best that was found: at least {} are needed ({why}, checked)",
            certificate.bound.least
        ));
    }

    /// The object that stands for it in JSON.
    pub fn to_json(&self) -> CertifiedStepsJson {
        let Self { certificate, why } = self;
        CertifiedStepsJson {
            steps: certificate.steps,
            at_least: certificate.bound.least,
            link_chunks: certificate.link_chunks,
            least: certificate.is_least(),
            why: why.clone(),
        }
    }
}
