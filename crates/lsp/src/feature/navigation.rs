//! Definitions and references.

use lsp_types::{DocumentHighlight, Location, Position};
use msccl_syntax::ast;

use crate::workspace::{DefinitionPlace, Unit, Workspace};

/// Where the name at a position is defined; of an import, the file that it brings in.
pub fn definitions(workspace: &Workspace, unit: &Unit, position: Position) -> Vec<Location> {
    let at = unit.lines.offset(&unit.text, position);
    if let Some(file) = imported(workspace, unit, at) {
        return workspace.location(&file, 0..0).into_iter().collect();
    }
    let places = workspace.at(unit, at);
    places.iter().filter_map(|place| location(workspace, place)).collect()
}

/// The file that the import at a byte brings in.
fn imported(workspace: &Workspace, unit: &Unit, at: usize) -> Option<std::sync::Arc<Unit>> {
    let imports = unit.tree.as_ref()?.imports.iter();
    let here = |import: &&ast::Import| {
        let ast::Import { what: _, span } = import;
        span.start as usize <= at && at <= span.end as usize
    };
    let import = imports.into_iter().find(here)?;
    workspace.unit(&workspace.imported(&unit.name, &import.what)?)
}

fn location(workspace: &Workspace, place: &DefinitionPlace) -> Option<Location> {
    let unit = workspace.unit(&place.file)?;
    let definition = unit.names.definitions.get(place.number)?;
    workspace.location(&unit, definition.bytes.clone())
}

/// Whether definitions count among references.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Declarations {
    /// They do.
    Included,
    /// They do not.
    LeftOut,
}

/// Where the name at a position is used.
pub fn references(
    workspace: &Workspace,
    unit: &Unit,
    position: Position,
    declarations: Declarations,
) -> Vec<Location> {
    let at = unit.lines.offset(&unit.text, position);
    let mut found = Vec::new();
    for place in workspace.at(unit, at) {
        if declarations == Declarations::Included {
            found.extend(location(workspace, &place));
        }
        let uses = workspace.uses(&place).into_iter();
        found.extend(uses.filter_map(|used| workspace.location(&used.unit, used.bytes)));
    }
    found
}

/// The same within the file.
pub fn highlights(
    workspace: &Workspace,
    unit: &Unit,
    position: Position,
) -> Vec<DocumentHighlight> {
    let own = workspace.uri(&unit.name);
    let all = references(workspace, unit, position, Declarations::Included).into_iter();
    let own = all.filter(|location| Some(&location.uri) == own.as_ref());
    own.map(|location| DocumentHighlight { range: location.range, kind: None }).collect()
}
