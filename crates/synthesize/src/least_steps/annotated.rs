//! A program with what it is for, what it reaches, and the certificate of that, as comments.

use msccl_topology::cluster::Cluster;

use super::certificate::{CertificateLines, StepCertificate};
use super::plan::StepPlan;
use crate::comments::wrapped;

impl StepPlan {
    /// `program`, with comments before it and its `certificate`; a proof stands at the end.
    pub fn annotated(
        &self,
        program: &str,
        certificate: &StepCertificate,
        cluster: &Cluster,
    ) -> String {
        let mut lines = self.title();
        lines.push(String::new());
        lines.extend(self.claim(certificate.why(cluster)));
        let comments = lines.iter().map(|line| format!("// {line}").trim_end().to_owned());
        let CertificateLines { claims, proof } = certificate.lines();
        let mut all: Vec<String> = comments.chain(["//".to_owned()]).chain(claims).collect();
        all.extend([String::new(), program.to_owned()]);
        if !proof.is_empty() {
            all.extend(proof);
            all.push(String::new());
        }
        all.join("\n")
    }

    fn title(&self) -> Vec<String> {
        let Self { kind, ranks, cluster, link_chunks, .. } = self;
        wrapped(&format!(
            "{} over {ranks} ranks for {cluster}. Written by `msccl synthesize --fewest-steps`: {} \
             messages in {} steps. In a step, a rank sends at most one chunk to each other rank, \
             and a link carries at most {link_chunks}.",
            kind.name(),
            self.message_count(),
            self.steps()
        ))
    }

    fn claim(&self, why: Option<String>) -> Vec<String> {
        let why = why.unwrap_or_default();
        if self.is_least() {
            return wrapped(&format!("Fewer steps are too few: {why}."));
        }
        wrapped(&format!(
            "The best that was found before the search was given up. At least {} steps are needed: \
             {why}.",
            self.bound.least
        ))
    }
}
