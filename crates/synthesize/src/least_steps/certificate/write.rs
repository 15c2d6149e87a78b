//! Certificates of steps as lines of comment.

use std::collections::BTreeMap;

use super::{MARK, StepCertificate};
use crate::least_steps::bound::StepReason;
use crate::least_steps::cnf::Literal;
use crate::least_steps::lrat::Lemma;

/// The longest line.
const COLUMNS: usize = 100;

/// A certificate, written.
pub struct CertificateLines {
    /// What is claimed.
    pub claims: Vec<String>,
    /// The proof, if there is one. It may be long; it follows the claims.
    pub proof: Vec<String>,
}

impl StepCertificate {
    /// The lines.
    pub fn lines(&self) -> CertificateLines {
        let Self { kind, ranks, link_chunks, steps, bound, timing } = self;
        let root = kind.root().map(|root| format!(" from rank {}", root.0)).unwrap_or_default();
        let mut lines = vec![
            format!(
                "{MARK} {}{root} over {ranks} ranks, at most {link_chunks} chunks on a link",
                kind.name()
            ),
            format!("{MARK} takes {steps}"),
        ];
        let mut peers: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for ((from, to), steps) in timing {
            let steps: Vec<String> = steps.iter().map(u32::to_string).collect();
            peers.entry(*from).or_default().push(format!("to {to} in {}", steps.join(" ")));
        }
        for (from, peers) in peers {
            lines.extend(wrapped(&format!("from {from}"), peers));
        }
        lines.push(format!("{MARK} at least {}", bound.least));
        let mut proof = Vec::new();
        match &bound.reason {
            StepReason::NoStep => lines.push(format!("{MARK} none")),
            StepReason::Growth => lines.push(format!("{MARK} growth")),
            StepReason::Cut(cut) => {
                let after =
                    |it: &Option<u32>| it.map_or_else(|| "-".to_owned(), |it| it.to_string());
                lines.extend(wrapped("cut", cut.inside_after.iter().map(after)));
            }
            StepReason::Proof(lemmas) => proof = wrapped("proof", lemmas.iter().flat_map(lemma)),
        }
        CertificateLines { claims: lines, proof }
    }
}

/// Literals, 0, hints from 1, 0.
fn lemma(lemma: &Lemma) -> impl Iterator<Item = String> {
    let literals = lemma.literals.iter().map(|literal: &Literal| i64::from(literal.number()));
    let hints = lemma.hints.iter().map(|hint| i64::from(*hint) + 1);
    let end = std::iter::once(0);
    literals.chain(end.clone()).chain(hints).chain(end).map(|number| number.to_string())
}

/// The parts, in lines of which each begins with `start`.
fn wrapped(start: &str, parts: impl IntoIterator<Item = String>) -> Vec<String> {
    let start = format!("{MARK} {start}");
    let mut lines = vec![start.clone()];
    for part in parts {
        let Some(line) = lines.last_mut() else { break };
        if line.len() + 1 + part.len() > COLUMNS && line.len() > start.len() {
            lines.push(format!("{start} {part}"));
        } else {
            line.push(' ');
            line.push_str(&part);
        }
    }
    lines
}
