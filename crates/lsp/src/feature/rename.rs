//! Renaming: every use of a definition, in all files that see it.
//!
//! A new name is taken only if every name means afterwards what it meant before: the texts with the
//! edits applied are looked at once more.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use lsp_types::{Position, TextEdit, Uri, WorkspaceEdit};
use msccl_collective::CollectiveKind;
use msccl_compiler::evaluate::{builtins, standard_module_of};

use crate::mend;
use crate::names::{Meaning, Names};
use crate::token::is_name;
use crate::workspace::{Unit, Workspace};

/// The name at a position that can be renamed.
///
/// # Errors
///
/// There is none, or it is not the user's to rename.
pub fn renamed_at(
    workspace: &Workspace,
    unit: &Unit,
    position: Position,
) -> Result<Range<usize>, String> {
    let at = unit.lines.offset(&unit.text, position);
    let places = workspace.at(unit, at);
    let Some(place) = places.first() else { return Err(NOTHING.to_owned()) };
    if standard_module_of(&place.file).is_some() {
        return Err("this belongs to the standard library; it keeps its name".to_owned());
    }
    let names = &unit.names;
    let definition = names.definition_at(at).map(|it| names.definitions[it].bytes.clone());
    let used = names.use_at(at).map(|it| it.bytes.clone());
    definition.or(used).ok_or_else(|| NOTHING.to_owned())
}

const NOTHING: &str = "put the cursor on a name that a program defines";

/// The edits that rename what is at a position.
///
/// # Errors
///
/// It cannot be renamed, the new name is none, or it would change what names mean.
pub fn rename(
    workspace: &Workspace,
    unit: &Unit,
    position: Position,
    new: &str,
) -> Result<WorkspaceEdit, String> {
    renamed_at(workspace, unit, position)?;
    if !is_name(new) {
        return Err(format!("expected a name (a-z, A-Z, 0-9 and `_`, no keyword), found `{new}`"));
    }
    let at = unit.lines.offset(&unit.text, position);
    let mut edits: Vec<FileEdits> = Vec::new();
    for place in workspace.at(unit, at) {
        let Some(home) = workspace.unit(&place.file) else { continue };
        let definition = &home.names.definitions[place.number];
        let is_item = definition.kind.is_function() || definition.kind.is_collective();
        check_free(workspace, &home, new, is_item)?;
        add(&mut edits, &home, definition.bytes.clone());
        workspace.uses(&place).into_iter().for_each(|it| add(&mut edits, &it.unit, it.bytes));
    }
    for file in &edits {
        check_meanings(file, new)?;
    }
    let changes = edits.iter().filter_map(|file| {
        let edit = |bytes: &Range<usize>| TextEdit {
            range: file.unit.range(bytes.clone()),
            new_text: new.to_owned(),
        };
        Some((workspace.uri(&file.unit.name)?, file.places.iter().map(edit).collect()))
    });
    #[expect(clippy::mutable_key_type, reason = "the protocol's own type")]
    let changes: HashMap<Uri, Vec<TextEdit>> = changes.collect();
    Ok(WorkspaceEdit { changes: Some(changes), ..WorkspaceEdit::default() })
}

/// What is renamed in one file.
struct FileEdits {
    unit: Arc<Unit>,
    places: Vec<Range<usize>>,
}

fn add(edits: &mut Vec<FileEdits>, unit: &Arc<Unit>, bytes: Range<usize>) {
    match edits.iter_mut().find(|file| file.unit.name == unit.name) {
        Some(file) if file.places.contains(&bytes) => {}
        Some(file) => file.places.push(bytes),
        None => edits.push(FileEdits { unit: Arc::clone(unit), places: vec![bytes] }),
    }
}

/// Items share their names with what is built in and what other files define.
fn check_free(workspace: &Workspace, home: &Unit, new: &str, is_item: bool) -> Result<(), String> {
    if !is_item {
        return Ok(());
    }
    if builtins().any(|it| it.name == new) || new.parse::<CollectiveKind>().is_ok() {
        return Err(format!("`{new}` is built in; choose another name"));
    }
    let is_item = |kind: &crate::names::DefinitionKind| kind.is_function() || kind.is_collective();
    match workspace.find(home, new, &is_item).first() {
        Some(other) => Err(format!("`{new}` is defined already, in {}", other.file)),
        None => Ok(()),
    }
}

/// Makes sure that names mean in the new text what they meant in the old.
fn check_meanings(file: &FileEdits, new: &str) -> Result<(), String> {
    let FileEdits { unit, places } = file;
    let mut places = places.clone();
    places.sort_by_key(|bytes| bytes.start);
    let mut text = unit.text.to_string();
    for bytes in places.iter().rev() {
        text.replace_range(bytes.clone(), new);
    }
    let after = mend::tree(&text).as_ref().map(Names::of).unwrap_or_default();
    if shape(&unit.names) == shape(&after) {
        return Ok(());
    }
    Err(format!("`{new}` would mean something else in {}; choose another name", unit.name))
}

/// Which uses belong to which definitions, without names and places.
fn shape(names: &Names) -> Vec<Option<usize>> {
    let meaning = |meaning: &Meaning| match meaning {
        Meaning::Local(number) => Some(*number),
        Meaning::Function
        | Meaning::Collective
        | Meaning::Label { .. }
        | Meaning::Buffer
        | Meaning::Unknown => None,
    };
    names.uses.iter().map(|used| meaning(&used.meaning)).collect()
}
