//! Verdicts for programs.
//!
//! The keys are a promise: `verdict`, `fault`, `message` and `sound_up_to_bytes` are always there.

use msccl_ir::StepRef;
use serde::Serialize;

use super::{Counts, Proved, Refused, Site, Verdict};
use crate::order::AdditionOrdersJson;

/// A verdict as JSON.
#[derive(Serialize)]
pub struct VerdictJson<'a> {
    file: &'a str,
    verdict: &'static str,
    fault: Option<&'static str>,
    message: String,
    sound_up_to_bytes: Option<u64>,
    at: Vec<SiteJson>,
    #[serde(rename = "story")]
    events: &'a [String],
    others: &'a [String],
    target: &'a str,
    facts: Option<FactsJson<'a>>,
}

/// A place of a fault; what is not known is missing.
#[derive(Serialize)]
struct SiteJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tb: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
}

/// What is known about a proved algorithm.
#[derive(Serialize)]
struct FactsJson<'a> {
    name: &'a str,
    collective: &'a str,
    ranks: u32,
    chunks: u32,
    placement: &'static str,
    protocol: &'static str,
    min_bytes: u64,
    max_bytes: Option<u64>,
    steps: usize,
    thread_blocks: usize,
    links: usize,
    channels: u32,
    link_depth: u32,
    least_link_depth: u32,
    messages: u64,
    result_promised: bool,
    same_on_every_rank: bool,
    /// `null` if nothing is added.
    addition_orders: Option<AdditionOrdersJson>,
    overwrites_input: bool,
    serves_any_count: bool,
}

impl Verdict {
    /// The object that stands for it in JSON.
    pub fn to_json(&self) -> VerdictJson<'_> {
        match self {
            Verdict::Proved(proved) => proved.to_json(),
            Verdict::Refused(refused) => refused.to_json(),
        }
    }
}

impl Proved {
    fn to_json(&self) -> VerdictJson<'_> {
        let Proved { file, verified, one_instance: _, per_node: _, warnings: _ } = self;
        let (algorithm, target) = (verified.algorithm(), verified.target());
        let facts = verified.facts();
        let Counts { steps, thread_blocks, links, channels } = Counts::of(algorithm);
        let sizes = target.rules.call_sizes(&algorithm.collective, algorithm.sizes);
        VerdictJson {
            file,
            verdict: "proved",
            fault: None,
            message: format!("{} is proved", super::words::subject(algorithm)),
            sound_up_to_bytes: sizes.max_bytes,
            at: Vec::new(),
            events: &[],
            others: &[],
            target: target.name,
            facts: Some(FactsJson {
                name: &algorithm.name,
                collective: algorithm.collective.name(),
                ranks: algorithm.collective.ranks,
                chunks: algorithm.collective.chunks,
                placement: algorithm.placement.name(),
                protocol: algorithm.protocol.name(),
                min_bytes: sizes.min_bytes,
                max_bytes: sizes.max_bytes,
                steps,
                thread_blocks,
                links,
                channels,
                link_depth: target.link(algorithm.protocol).depth,
                least_link_depth: facts.least_link_depth,
                messages: facts.messages,
                result_promised: facts.result_promised,
                same_on_every_rank: facts.same_on_every_rank,
                addition_orders: AdditionOrdersJson::of(&facts.addition_orders),
                overwrites_input: facts.overwrites_input,
                serves_any_count: facts.serves_any_count,
            }),
        }
    }
}

impl Refused {
    fn to_json(&self) -> VerdictJson<'_> {
        let Refused {
            file,
            target,
            kind,
            message,
            at,
            events,
            excerpt: _,
            diagnostics: _,
            sound_up_to_bytes,
            others,
        } = self;
        VerdictJson {
            file,
            verdict: "refused",
            fault: Some(kind.name()),
            message: message.clone(),
            sound_up_to_bytes: *sound_up_to_bytes,
            at: at.iter().map(SiteJson::of).collect(),
            events,
            others,
            target: target.name,
            facts: None,
        }
    }
}

impl SiteJson {
    fn of(site: &Site) -> Self {
        let Site { step, source } = site;
        let place = |part: fn(&StepRef) -> u32| step.as_ref().map(part);
        let (file, line, column) = match source {
            Some((file, line, column)) => (Some(file.clone()), Some(*line), Some(*column)),
            None => (None, None, None),
        };
        Self {
            rank: place(|at| at.rank.0),
            tb: place(|at| at.tb.0),
            step: place(|at| at.step.0),
            file,
            line,
            column,
        }
    }
}
