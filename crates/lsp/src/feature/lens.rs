//! Code lenses and inlay hints: offers and facts beside the heads of algorithms.

use lsp_types::{CodeLens, Command, InlayHint, InlayHintKind, InlayHintLabel, InlayHintTooltip};
use msccl_syntax::{Span, ast};
use serde_json::json;

use crate::judgement::{Judgement, Verdict};
use crate::launch::Settings;
use crate::workspace::Unit;

/// Proves an algorithm for so many ranks.
pub const PROVE: &str = "msccl.prove";

/// Draws its timeline.
pub const TIMELINE: &str = "msccl.timeline";

/// What is offered above each algorithm.
pub fn lenses(unit: &Unit, uri: &str, settings: &Settings) -> Vec<CodeLens> {
    let mut lenses = Vec::new();
    for item in algorithms(unit) {
        let name = &item.name.text;
        let range = unit.range(item.name.span.start as usize..item.name.span.end as usize);
        let mut offer = |title: String, command: &str, arguments| {
            let command =
                Command { title, command: command.to_owned(), arguments: Some(arguments) };
            lenses.push(CodeLens { range, command: Some(command), data: None });
        };
        for ranks in &settings.lens_ranks {
            let arguments = vec![json!(uri), json!(name), json!(ranks)];
            offer(format!("prove for {ranks} ranks"), PROVE, arguments);
        }
        offer("show timeline".to_owned(), TIMELINE, vec![json!(uri), json!(name)]);
    }
    lenses
}

fn algorithms(unit: &Unit) -> impl Iterator<Item = &ast::AlgorithmItem> {
    let items = unit.tree.as_ref().map_or(&[][..], |tree| &tree.items);
    items.iter().filter_map(|item| match item {
        ast::Item::Algorithm(item) => Some(item),
        ast::Item::Function(_) | ast::Item::Collective(_) => None,
    })
}

/// What is proved, at the end of the line with the algorithm's name.
pub fn inlay_hints(unit: &Unit, judgement: &Judgement) -> Vec<InlayHint> {
    let mut hints = Vec::new();
    for item in algorithms(unit) {
        let judged = judgement.algorithms.iter().filter(|it| it.launch.algorithm == item.name.text);
        let ranks_name = item.params.iter().find(|it| it.role == ast::ParamRole::Ranks);
        let ranks_name = ranks_name.map_or("N", |param| &param.name.text);
        let (mut labels, mut details) = (Vec::new(), Vec::new());
        for judged in judged {
            let (label, detail) = match &judged.verdict {
                Verdict::Open => continue,
                Verdict::Proved(proof) => (proof.in_short(ranks_name), proof.lines().join("\n")),
                Verdict::Refused { kind, message } => (format!("refused: {kind}"), message.clone()),
            };
            labels.push(label);
            details.push(detail);
        }
        if !labels.is_empty() {
            hints.push(hint(unit, item.name.span, labels.join(" | "), details.join("\n\n")));
        }
    }
    hints
}

fn hint(unit: &Unit, name: Span, label: String, detail: String) -> InlayHint {
    let start = name.end as usize;
    let line = unit.text[start..].split('\n').next().unwrap_or_default();
    let end = start + line.trim_end().len();
    InlayHint {
        position: unit.lines.position(&unit.text, end),
        label: InlayHintLabel::String(label),
        kind: Some(InlayHintKind::TYPE),
        text_edits: None,
        tooltip: Some(InlayHintTooltip::String(detail)),
        padding_left: Some(true),
        padding_right: None,
        data: None,
    }
}
