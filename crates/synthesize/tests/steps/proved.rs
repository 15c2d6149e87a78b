//! From a machine to a proved program whose certificate of steps was read again and holds.

use std::time::Duration;

use msccl_collective::{CollectiveKind, Protocol};
use msccl_compiler::compile;
use msccl_compiler::evaluate::{Launch, NoFiles};
use msccl_ir::{Algorithm, Target};
use msccl_syntax::SourceMap;
use msccl_synthesize::least_steps::{StepCertificate, StepOptions, StepPlan, fewest_steps};
use msccl_topology::cluster::Cluster;

/// For machines that have much to do beside.
pub const PATIENT: StepOptions = StepOptions { link_chunks: 1, time: Duration::from_secs(3600) };

/// A plan whose program is proved, and whose certificate holds.
pub struct Proved {
    pub plan: StepPlan,
    pub algorithm: Algorithm,
    pub certificate: StepCertificate,
    /// The program with its certificate.
    pub text: String,
}

impl Proved {
    pub fn of(cluster: &Cluster, kind: CollectiveKind, options: &StepOptions) -> Self {
        let plan = fewest_steps(cluster, kind, options).unwrap_or_else(|error| panic!("{error}"));
        let program = plan.program(Protocol::Simple);
        let certificate = StepCertificate::new(&plan, &proved(&program));
        let certificate = certificate.unwrap_or_else(|error| panic!("{program}\n{error}"));
        let text = plan.annotated(&program, &certificate, cluster);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert_eq!(msccl_syntax::format(&text).unwrap(), text);
        let algorithm = proved(&text);
        let read = StepCertificate::read(&text).unwrap().unwrap();
        assert_eq!(read, certificate);
        read.check(&algorithm, cluster).unwrap_or_else(|error| panic!("{text}\n{error}"));
        Self { plan, algorithm, certificate, text }
    }
}

pub fn proved(text: &str) -> Algorithm {
    let mut sources = SourceMap::new();
    let file = sources.add("steps.msccl", text);
    let target = Target::native();
    let compiled = compile(&mut sources, file, &NoFiles, &Launch::default(), &target)
        .unwrap_or_else(|found| panic!("{text}\n{}", sources.render_all(&found)));
    let verified = msccl_verify::verify(compiled.schedule.algorithm, &target);
    verified.unwrap_or_else(|refusal| panic!("{text}\n{refusal}")).into_algorithm()
}
