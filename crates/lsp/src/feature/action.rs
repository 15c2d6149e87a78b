//! Code actions: what the compiler's and the prover's hints suggest, as edits.

use std::collections::HashMap;
use std::ops::Range;

use lsp_types::{
    CodeAction, CodeActionKind, Diagnostic, NumberOrString, TextEdit, Uri, WorkspaceEdit,
};
use msccl_syntax::ast;
use serde::Deserialize;

use super::completion::import_edit;
use crate::workspace::Unit;

/// What a diagnostic carries for its actions.
#[derive(Deserialize, Default)]
struct Carried {
    message: String,
    hints: Vec<String>,
}

/// An edit of the text.
struct Repair {
    title: String,
    edit: TextEdit,
}

/// The actions for `diagnostics`, which are those of the text at hand.
pub fn actions(unit: &Unit, uri: &Uri, diagnostics: &[&Diagnostic]) -> Vec<CodeAction> {
    let mut actions = Vec::new();
    for diagnostic in diagnostics {
        let carried = diagnostic.data.clone().and_then(|data| serde_json::from_value(data).ok());
        let carried: Carried = carried.unwrap_or_default();
        for Repair { title, edit } in repairs(unit, diagnostic, &carried) {
            #[expect(clippy::mutable_key_type, reason = "the protocol's own type")]
            let changes = HashMap::from([(uri.clone(), vec![edit])]);
            actions.push(CodeAction {
                title,
                kind: Some(CodeActionKind::QUICKFIX),
                diagnostics: Some(vec![(*diagnostic).clone()]),
                edit: Some(WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() }),
                is_preferred: Some(true),
                ..CodeAction::default()
            });
        }
    }
    actions
}

fn repairs(unit: &Unit, diagnostic: &Diagnostic, carried: &Carried) -> Vec<Repair> {
    let offset = |position| unit.lines.offset(&unit.text, position);
    let bytes = offset(diagnostic.range.start)..offset(diagnostic.range.end);
    let mut found = Vec::new();
    found.extend(slip(unit, &bytes, &carried.message));
    for hint in &carried.hints {
        found.extend(by_hint(unit, &bytes, hint));
    }
    let is_proof = ["deadlock", "limits", "order"]
        .iter()
        .any(|code| diagnostic.code == Some(NumberOrString::String((*code).to_owned())));
    if is_proof {
        found.extend(without_clauses(unit, &bytes));
        found.extend(without_hints(unit, &bytes));
    }
    found
}

fn replace(unit: &Unit, bytes: Range<usize>, new: &str) -> Repair {
    let old = &unit.text[bytes.clone()];
    let title = match (old, new) {
        (old, "") => format!("remove `{old}`"),
        ("", new) => format!("write `{}`", new.trim()),
        (old, new) => format!("write `{}` for `{old}`", new.trim()),
    };
    Repair { title, edit: TextEdit { range: unit.range(bytes), new_text: new.to_owned() } }
}

/// Symbols of other languages, and what stands for them here.
const SYMBOLS: [(&str, &str); 9] = [
    ("&&", "and"),
    ("||", "or"),
    ("<>", "!="),
    (":=", "="),
    ("...", ".."),
    ("=>", ">="),
    (";", ""),
    ("!", "not "),
    ("\\", ""),
];

/// A symbol that the language lacks.
fn slip(unit: &Unit, bytes: &Range<usize>, message: &str) -> Option<Repair> {
    let symbol = message.strip_prefix("unexpected `")?.strip_suffix('`')?;
    let text = unit.text.get(bytes.clone())?;
    if symbol == "#" && text.starts_with('#') {
        return Some(replace(unit, bytes.start..bytes.start + 1, "//"));
    }
    let (symbol, new) = SYMBOLS.iter().find(|(known, _)| *known == symbol && *known == text)?;
    // Between binders a `;` is meant as a `,`.
    let line = unit.text[bytes.end..].split('\n').next().unwrap_or_default().trim();
    let ends_line = line.is_empty() || line.starts_with('}') || line.starts_with("//");
    (*symbol != ";" || ends_line).then(|| replace(unit, bytes.clone(), new))
}

fn by_hint(unit: &Unit, bytes: &Range<usize>, hint: &str) -> Option<Repair> {
    if let Some(near) = quoted(hint, "did you mean `", "`?") {
        return Some(replace(unit, last_word(unit, bytes)?, near));
    }
    if let Some(module) = quoted(hint, "`import ", "` at the top of the file brings it in") {
        let title = format!("import `{module}`");
        return Some(Repair { title, edit: import_edit(unit, module) });
    }
    if hint == "remove the `,` before it" {
        let comma = unit.text[..bytes.start].trim_end().strip_suffix(',')?.len();
        return Some(replace(unit, comma..comma + 1, ""));
    }
    let word = quoted(hint, "write `", "`")?;
    let is_word = |text: &str| !text.is_empty() && text.chars().all(|it| it.is_ascii_alphabetic());
    let is_plain = word == "else if" || word == "=" || is_word(word);
    let old = unit.text.get(bytes.clone())?;
    (is_plain && !old.contains(char::is_whitespace)).then(|| replace(unit, bytes.clone(), word))
}

/// What stands between two texts, if they are the whole of `text` with it.
fn quoted<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    text.strip_prefix(start)?.strip_suffix(end).filter(|inner| !inner.contains('`'))
}

/// The last word of a range: that which an import names, or the range itself.
fn last_word(unit: &Unit, bytes: &Range<usize>) -> Option<Range<usize>> {
    let text = unit.text.get(bytes.clone())?;
    let end = bytes.start + text.trim_end().len();
    let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let start = unit.text[..end].rfind(|it| !is_part(it)).map_or(0, |before| before + 1);
    let start = start.max(bytes.start);
    (start < end).then_some(start..end)
}

/// Clauses that make demands which are not met: `order`, at its place, and `interleaved`.
fn without_clauses(unit: &Unit, bytes: &Range<usize>) -> Vec<Repair> {
    let items = unit.tree.as_ref().map_or(&[][..], |tree| &tree.items);
    let mut found = Vec::new();
    for item in items {
        let ast::Item::Algorithm(item) = item else { continue };
        let whole = item.span.start as usize..item.span.end as usize;
        if !whole.contains(&bytes.start) {
            continue;
        }
        for clause in &item.clauses {
            let span = clause.span.start as usize..clause.span.end as usize;
            let is_meant = match &clause.kind {
                ast::ClauseKind::Order(_) => span == *bytes,
                ast::ClauseKind::Interleaved(_) => span != *bytes,
                ast::ClauseKind::InPlace
                | ast::ClauseKind::Protocol(_)
                | ast::ClauseKind::Instances(_)
                | ast::ClauseKind::Bytes(..)
                | ast::ClauseKind::Threads(_) => false,
            };
            if is_meant {
                found.push(removal(unit, span));
            }
        }
    }
    found
}

/// Leaves the placement of the statement at `bytes` to the compiler.
fn without_hints(unit: &Unit, bytes: &Range<usize>) -> Option<Repair> {
    let end = bytes.end;
    let statement = unit.text.get(bytes.clone())?;
    let on = statement.rfind(" on ")?;
    let title = "leave channel and thread block to the compiler".to_owned();
    let range = unit.range(bytes.start + on..end);
    (!statement[on..].contains('{'))
        .then(|| Repair { title, edit: TextEdit { range, new_text: String::new() } })
}

/// Removes a part of the text and the blanks before it.
fn removal(unit: &Unit, bytes: Range<usize>) -> Repair {
    let start = unit.text[..bytes.start].trim_end().len();
    let title = format!("remove `{}`", &unit.text[bytes.clone()]);
    Repair {
        title,
        edit: TextEdit { range: unit.range(start..bytes.end), new_text: String::new() },
    }
}
