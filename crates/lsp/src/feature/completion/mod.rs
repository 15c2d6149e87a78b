//! Completion. What fits is found by tokens, since the text rarely parses while a word is written.

mod context;

use lsp_types::{
    CompletionItem, CompletionItemKind, Documentation, InsertTextFormat, Position, TextEdit,
};
use msccl_compiler::evaluate::{builtins, comment_before, standard_modules};

use super::vocabulary::{self, Entry};
use crate::names::{DefinitionKind, Meaning};
use crate::workspace::{Unit, Workspace};
use context::{Context, Expected};

use super::signature;

/// What may be written at a position.
pub fn complete(workspace: &Workspace, unit: &Unit, position: Position) -> Vec<CompletionItem> {
    let at = unit.lines.offset(&unit.text, position);
    let Context { expected, locals } = Context::of(&unit.text[..at]);
    match expected {
        Expected::Nothing => Vec::new(),
        Expected::Launch => launch_words(),
        Expected::Item => words(&vocabulary::ITEMS),
        Expected::Module => modules(),
        Expected::Parameter => words(&vocabulary::CONTEXTUAL).into_iter().filter(is_role).collect(),
        Expected::Implements => vec![keyword(&entry_of("implements"))],
        Expected::Collective => collectives(workspace, unit),
        Expected::Label { collective } => labels(workspace, unit, &collective),
        Expected::Clause => words(&vocabulary::CLAUSES),
        Expected::Protocol => words(&vocabulary::PROTOCOLS),
        Expected::Order => words(&vocabulary::ORDERS),
        Expected::Place => vec![plain("place", CompletionItemKind::KEYWORD)],
        Expected::Hint => words(&vocabulary::CONTEXTUAL).into_iter().filter(is_hint).collect(),
        Expected::Code => code(workspace, unit, &locals),
    }
}

fn entry_of(word: &'static str) -> Entry {
    Entry { word, meaning: vocabulary::word(word).unwrap_or_default() }
}

fn is_role(item: &CompletionItem) -> bool {
    ["ranks", "per_node"].contains(&&*item.label)
}

fn is_hint(item: &CompletionItem) -> bool {
    ["channel", "tb", "send tb", "receive tb"].contains(&&*item.label)
}

fn plain(label: &str, kind: CompletionItemKind) -> CompletionItem {
    CompletionItem { label: label.to_owned(), kind: Some(kind), ..CompletionItem::default() }
}

fn keyword(entry: &Entry) -> CompletionItem {
    let Entry { word, meaning } = entry;
    let documentation = Some(Documentation::String((*meaning).to_owned()));
    CompletionItem { documentation, ..plain(word, CompletionItemKind::KEYWORD) }
}

fn words(entries: &[Entry]) -> Vec<CompletionItem> {
    entries.iter().map(keyword).collect()
}

/// The names of a comment that asks for launches.
fn launch_words() -> Vec<CompletionItem> {
    let names = ["ranks", "per_node", "topo", "target"];
    names.into_iter().map(|name| plain(name, CompletionItemKind::PROPERTY)).collect()
}

fn modules() -> Vec<CompletionItem> {
    let item = |name: &str, text: &str| {
        let doc = text.lines().map_while(|line| line.strip_prefix("//"));
        let doc: Vec<_> = doc.map(str::trim).collect();
        CompletionItem {
            documentation: Some(Documentation::String(doc.join("\n"))),
            ..plain(name, CompletionItemKind::MODULE)
        }
    };
    standard_modules().map(|module| item(module.name, module.text)).collect()
}

fn collectives(workspace: &Workspace, unit: &Unit) -> Vec<CompletionItem> {
    let with_call = |mut item: CompletionItem| {
        item.kind = Some(CompletionItemKind::INTERFACE);
        item.insert_text = Some(format!("{}($0)", item.label));
        item.insert_text_format = Some(InsertTextFormat::SNIPPET);
        item
    };
    let standard = words(&vocabulary::COLLECTIVES).into_iter();
    let own = visible(workspace, unit, &DefinitionKind::is_collective);
    let own = own.into_iter().map(|name| plain(&name, CompletionItemKind::INTERFACE));
    standard.chain(own).map(with_call).collect()
}

fn labels(workspace: &Workspace, unit: &Unit, collective: &str) -> Vec<CompletionItem> {
    let found = signature::of_name(workspace, unit, collective, Meaning::Collective);
    let params = found.map(|it| it.params).unwrap_or_default();
    // The labels of standard collectives come with their defaults.
    let name = |param: &String| param.split(' ').next().unwrap_or_default().to_owned();
    params.iter().map(|it| plain(&name(it), CompletionItemKind::PROPERTY)).collect()
}

/// The names of definitions that a file sees.
fn visible(
    workspace: &Workspace,
    unit: &Unit,
    is_match: &dyn Fn(&DefinitionKind) -> bool,
) -> Vec<String> {
    let mut names = Vec::new();
    let mut seen = vec![unit.name.to_string()];
    let mut unread: Vec<_> = unit.imports.iter().flatten().cloned().collect();
    let own = |unit: &Unit, names: &mut Vec<String>| {
        let definitions = unit.names.definitions.iter().filter(|it| is_match(&it.kind));
        names.extend(definitions.map(|it| it.name.clone()));
    };
    own(unit, &mut names);
    while let Some(name) = unread.pop() {
        if seen.contains(&name) {
            continue;
        }
        if let Some(unit) = workspace.unit(&name) {
            own(&unit, &mut names);
            unread.extend(unit.imports.iter().flatten().cloned());
        }
        seen.push(name);
    }
    names.sort();
    names.dedup();
    names
}

/// What may stand in a block.
fn code(workspace: &Workspace, unit: &Unit, locals: &[String]) -> Vec<CompletionItem> {
    let mut items: Vec<_> =
        locals.iter().map(|name| plain(name, CompletionItemKind::VARIABLE)).collect();
    let functions = visible(workspace, unit, &DefinitionKind::is_function);
    for name in &functions {
        items.extend(function(workspace, unit, name));
    }
    for builtin in builtins() {
        items.extend(function(workspace, unit, builtin.name));
    }
    items.extend(words(&vocabulary::EXPRESSIONS));
    items.extend(words(&vocabulary::STATEMENTS));
    items.extend(importable(unit, &functions));
    items
}

fn function(workspace: &Workspace, unit: &Unit, name: &str) -> Option<CompletionItem> {
    let found = signature::of_name(workspace, unit, name, Meaning::Function)?;
    Some(CompletionItem {
        detail: Some(found.label),
        documentation: Some(Documentation::String(found.doc)),
        ..call(name, &found.params)
    })
}

/// A call with places for its arguments.
fn call(name: &str, params: &[String]) -> CompletionItem {
    let places = params.iter().enumerate();
    let places: Vec<_> = places.map(|(at, name)| format!("${{{}:{name}}}", at + 1)).collect();
    CompletionItem {
        insert_text: Some(format!("{name}({})", places.join(", "))),
        insert_text_format: Some(InsertTextFormat::SNIPPET),
        ..plain(name, CompletionItemKind::FUNCTION)
    }
}

/// Functions of the standard library that an import would bring in.
fn importable(unit: &Unit, known: &[String]) -> Vec<CompletionItem> {
    let mut items = Vec::new();
    for module in standard_modules() {
        for line in module.text.lines().filter_map(|line| line.strip_prefix("fn ")) {
            let Some((name, rest)) = line.split_once('(') else { continue };
            if known.iter().any(|known| known == name) || module.source_name() == *unit.name {
                continue;
            }
            let params = rest.split(')').next().unwrap_or_default();
            let params: Vec<_> = params.split(", ").map(str::to_owned).collect();
            let before = module.text.find(&format!("fn {name}(")).unwrap_or(0);
            items.push(CompletionItem {
                detail: Some(format!("import {}", module.name)),
                documentation: Some(Documentation::String(comment_before(&module.text[..before]))),
                additional_text_edits: Some(vec![import_edit(unit, module.name)]),
                sort_text: Some(format!("~{name}")),
                ..call(name, &params)
            });
        }
    }
    items
}

/// The edit that imports a module: after the last import, or above the first definition.
pub fn import_edit(unit: &Unit, module: &str) -> TextEdit {
    let imports = unit.tree.as_ref().map_or(&[][..], |tree| &tree.imports);
    let ending = if unit.text.contains("\r\n") { "\r\n" } else { "\n" };
    if let Some(last) = imports.last() {
        let end = last.span.end as usize;
        let new_text = format!("{ending}import {module}");
        return TextEdit { range: unit.range(end..end), new_text };
    }
    let first = unit.names.definitions.iter().map(|it| it.whole.start).min().unwrap_or(0);
    let mut start = unit.text[..first].rfind('\n').map_or(0, |newline| newline + 1);
    // The comment of a definition stays with it.
    while let Some(line) = unit.text[..start].strip_suffix('\n') {
        let begin = line.rfind('\n').map_or(0, |newline| newline + 1);
        if !line[begin..].trim_start().starts_with("//") {
            break;
        }
        start = begin;
    }
    let new_text = format!("import {module}{ending}{ending}");
    TextEdit { range: unit.range(start..start), new_text }
}
