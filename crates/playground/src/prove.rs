//! A proof or a counterexample, in words and for drawing.

use msccl_pages::content::Content;
use msccl_pages::diagnose::Warning;
use msccl_pages::failure::Failure;
use msccl_pages::page::facts;
use msccl_pages::repair::{renames, repairs};
use msccl_pages::verdict::{Proved, Refused, Verdict, words};
use serde_json::{Value, json};

use crate::request::Source;
use crate::source::{kind, located, studied};

/// Most events of a counterexample that are listed.
const MOST_EVENTS: usize = 100;

/// Compiles `source`, and asks the verifier.
///
/// # Errors
///
/// None: what cannot be understood is an answer as well.
pub fn prove(source: &Source) -> Result<Value, Failure> {
    let kind = kind(Content::of(&source.text));
    let studied = match studied(source) {
        Ok(studied) => studied,
        Err(failure) => {
            let error = failure.to_string();
            let diagnostics = located(source, failure);
            let repairs = renames(&source.text, &source.name, &diagnostics);
            return Ok(json!({
                "kind": kind, "unreadable": error, "diagnostics": diagnostics, "repairs": repairs,
            }));
        }
    };
    let study = &studied.study;
    let diagnostics = match &study.verdict {
        Verdict::Proved(_) => &[][..],
        Verdict::Refused(refused) => &refused.diagnostics,
    };
    let warnings = studied.warnings.iter().chain(study.verdict.warnings());
    let warnings: Vec<_> = warnings.cloned().map(Warning::into_located).collect();
    let title = study.algorithm.as_ref().map(words::subject);
    Ok(json!({
        "kind": kind,
        "title": title,
        "ranks": study.algorithm.as_ref().map(|algorithm| algorithm.collective.ranks),
        "target": study.target.to_string(),
        "verdict": study.verdict.to_json(),
        "lines": lines(&study.verdict),
        "diagnostics": diagnostics,
        "warnings": warnings,
        "facts": facts(study),
        "repairs": repairs(study),
    }))
}

/// What the verdict rests on, line by line.
fn lines(verdict: &Verdict) -> Vec<String> {
    match verdict {
        Verdict::Proved(proved) => proof(proved),
        Verdict::Refused(refused) => counterexample(refused),
    }
}

fn proof(proved: &Proved) -> Vec<String> {
    let (algorithm, target) = (proved.verified.algorithm(), proved.verified.target());
    let facts = proved.verified.facts();
    let depth = words::depth(algorithm, target, facts);
    let scope = words::scope(algorithm, target, facts);
    let order = words::order(facts);
    [words::size(algorithm), depth, scope].into_iter().chain(order).collect()
}

fn counterexample(refused: &Refused) -> Vec<String> {
    words::shortened(&refused.events, MOST_EVENTS).collect()
}
