//! Hover: what a name is, what a word means, what a statement moves.

use lsp_types::{Hover, HoverContents, MarkupContent, MarkupKind, Position};
use msccl_compiler::evaluate::standard_module_of;

use super::{moves, signature, vocabulary};
use crate::judgement::{Judged, Judgement, Verdict};
use crate::names::{DefinitionKind, Meaning};
use crate::token::{Token, TokenKind, tokens};
use crate::workspace::{DefinitionPlace, Unit, Workspace};

/// What is known of a position. `judgement` is that of the same text, if there is one yet.
pub fn hover(
    workspace: &Workspace,
    unit: &Unit,
    judgement: Option<&Judgement>,
    position: Position,
) -> Option<Hover> {
    let at = unit.lines.offset(&unit.text, position);
    let token = tokens(&unit.text).into_iter().find(|it| it.bytes.contains(&at))?;
    let mut parts = Vec::new();
    parts.extend(about_name(workspace, unit, judgement, at));
    if parts.is_empty() {
        parts.extend(about_word(unit, &token));
    }
    parts.extend(judgement.and_then(|judgement| about_statement(unit, judgement, at)));
    if parts.is_empty() {
        return None;
    }
    let value = parts.join("\n\n---\n\n");
    let contents = HoverContents::Markup(MarkupContent { kind: MarkupKind::Markdown, value });
    Some(Hover { contents, range: Some(unit.range(token.bytes)) })
}

fn code(text: &str) -> String {
    format!("```msccl\n{text}\n```")
}

fn about_name(
    workspace: &Workspace,
    unit: &Unit,
    judgement: Option<&Judgement>,
    at: usize,
) -> Option<String> {
    if let Some(place) = workspace.at(unit, at).first() {
        return about_definition(workspace, judgement, place);
    }
    let used = unit.names.use_at(at)?;
    match &used.meaning {
        Meaning::Function | Meaning::Collective => {
            let found = signature::of_name(workspace, unit, &used.name, used.meaning.clone())?;
            Some(format!("{}\n\n{}", code(&found.label), found.doc))
        }
        Meaning::Local(_) | Meaning::Label { .. } | Meaning::Buffer | Meaning::Unknown => None,
    }
}

fn about_definition(
    workspace: &Workspace,
    judgement: Option<&Judgement>,
    place: &DefinitionPlace,
) -> Option<String> {
    let home = workspace.unit(&place.file)?;
    let definition = home.names.definitions.get(place.number)?;
    let text = &home.text[definition.whole.clone()];
    let line = text.lines().next().unwrap_or_default().trim_end_matches([' ', '{', '\r']);
    let what = match &definition.kind {
        DefinitionKind::Function { params: _ } | DefinitionKind::Collective { labels: _ } => {
            let found = signature::of_definition(workspace, place)?;
            let from = standard_module_of(&place.file);
            let from = from.map(|it| format!("\n\nmodule `{}`", it.name)).unwrap_or_default();
            let is_function = definition.kind.is_function();
            let word = if is_function { "fn" } else { "collective" };
            return Some(format!(
                "{}\n\n{}{from}",
                code(&format!("{word} {}", found.label)),
                found.doc
            ));
        }
        DefinitionKind::Algorithm => {
            let verdicts = judgement.map_or(&[][..], |judgement| &judgement.algorithms);
            let verdicts = verdicts.iter().filter(|it| it.launch.algorithm == definition.name);
            let verdicts: Vec<_> = verdicts.map(verdict).collect();
            let doc =
                msccl_compiler::evaluate::comment_before(&home.text[..definition.whole.start]);
            return Some(format!("{}\n\n{doc}\n\n{}", code(line), verdicts.join("\n\n")));
        }
        DefinitionKind::Parameter => "parameter",
        DefinitionKind::Label { collective: _ } => "label of the collective",
        DefinitionKind::Let => "value",
        DefinitionKind::Binder => "binder",
        DefinitionKind::Scratch => "scratch buffer, on every rank",
    };
    Some(format!("{}\n\n{what}", code(line)))
}

/// What became of a launch, in Markdown.
fn verdict(judged: &Judged) -> String {
    let words = judged.launch.words();
    let with = if words.is_empty() { String::new() } else { format!(" ({words})") };
    match &judged.verdict {
        Verdict::Open => format!("not proved yet{with}"),
        Verdict::Proved(proof) => {
            let lines = proof.lines();
            let lines: Vec<_> = lines.iter().map(|line| format!("* {line}")).collect();
            format!("**proved** for {} ranks{with}\n\n{}", proof.ranks, lines.join("\n"))
        }
        Verdict::Refused { kind, message } => format!("**refused**{with}: {kind}: {message}"),
    }
}

fn about_word(unit: &Unit, token: &Token) -> Option<String> {
    let word = token.of(&unit.text);
    let meaning = match token.kind {
        TokenKind::Word => vocabulary::word(word)?,
        TokenKind::Comment | TokenKind::Text | TokenKind::Number | TokenKind::Symbol => {
            return None;
        }
    };
    Some(format!("`{word}`: {meaning}"))
}

fn about_statement(unit: &Unit, judgement: &Judgement, at: usize) -> Option<String> {
    let span = moves::statement_at(unit.tree.as_ref()?, at)?;
    judgement.algorithms.iter().find_map(|judged| {
        let dag = judged.moves.as_ref()?;
        let lines = moves::of_statement(dag, judgement.file, span);
        let (first, rest) = lines.split_first()?;
        let ranks = dag.collective.ranks;
        Some(format!("For {ranks} ranks: {first}\n\n{}", code(&rest.join("\n"))))
    })
}
