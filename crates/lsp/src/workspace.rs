//! All files that are known: what is open, what that imports, programs of the editor's folders, the
//! standard library.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use lsp_types::{Location, Range, Uri};
use msccl_compiler::evaluate::{standard_module, standard_module_of, standard_modules};
use msccl_syntax::ast;

use crate::document::Document;
use crate::host::Host;
use crate::line_index::LineIndex;
use crate::mend;
use crate::names::{DefinitionKind, Meaning, Names, Use};
use crate::uri;

/// One file, understood as far as it can be.
pub struct Unit {
    /// Its name among the sources.
    pub name: Arc<str>,
    /// Its text.
    pub text: Arc<str>,
    /// Its lines.
    pub lines: Arc<LineIndex>,
    /// Its tree; that of what parses.
    pub tree: Option<ast::File>,
    /// What its names mean.
    pub names: Names,
    /// The names of the files that it imports; `None` for one that cannot be had.
    pub imports: Vec<Option<String>>,
}

/// A definition: the file and its number there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DefinitionPlace {
    /// The name of the file.
    pub file: Arc<str>,
    /// The number among its definitions.
    pub number: usize,
}

/// All files that are known.
pub struct Workspace {
    host: Arc<dyn Host>,
    /// The folders of the editor.
    pub folders: Vec<PathBuf>,
    /// The identifiers of open texts, by name: editors write them as they like.
    pub uris: HashMap<Arc<str>, Uri>,
    open: HashMap<Arc<str>, Document>,
    units: RefCell<HashMap<String, Arc<Unit>>>,
}

impl Workspace {
    /// Nothing but the standard library.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self {
            host,
            folders: Vec::new(),
            uris: HashMap::new(),
            open: HashMap::new(),
            units: RefCell::default(),
        }
    }

    /// The name of what an identifier is for.
    pub fn name(&self, uri: &Uri) -> Arc<str> {
        // Asking the file system takes long for something that every message does.
        if let Some((name, _)) = self.uris.iter().find(|(_, known)| *known == uri) {
            return Arc::clone(name);
        }
        let Some(path) = uri::path_of(uri) else { return uri.as_str().into() };
        let name = self.host.canonical_name(&path);
        let is_module = |module: &str| {
            let file = self.host.module_file(module);
            file.is_some_and(|file| self.host.canonical_name(&file) == name)
        };
        match standard_modules().find(|module| is_module(module.name)) {
            Some(module) => module.source_name().into(),
            None => name.into(),
        }
    }

    /// The identifier of the file of that name.
    pub fn uri(&self, name: &str) -> Option<Uri> {
        if let Some(known) = self.uris.get(name) {
            return Some(known.clone());
        }
        let path = match standard_module_of(name) {
            Some(module) => self.host.module_file(module.name)?,
            None => PathBuf::from(name),
        };
        uri::of_path(&path)
    }

    /// The open text of an identifier.
    pub fn document(&self, uri: &Uri) -> Option<&Document> {
        self.open.get(&self.name(uri))
    }

    /// Takes a version of an open text.
    pub fn set(&mut self, document: Document) {
        self.units.borrow_mut().remove(&*document.name);
        self.open.insert(Arc::clone(&document.name), document);
    }

    /// Forgets an open text.
    pub fn close(&mut self, name: &str) {
        self.units.borrow_mut().remove(name);
        self.open.remove(name);
        self.uris.remove(name);
    }

    /// Forgets what was read of files: they may have changed.
    pub fn forget_files(&self) {
        self.units.borrow_mut().retain(|name, _| self.open.contains_key(name.as_str()));
    }

    /// The texts that are open, by name.
    pub fn open_texts(&self) -> HashMap<Arc<str>, Arc<str>> {
        let texts = self.open.values();
        texts.map(|it| (Arc::clone(&it.name), Arc::clone(&it.text))).collect()
    }

    /// All open texts.
    pub fn documents(&self) -> impl Iterator<Item = &Document> {
        self.open.values()
    }

    /// The file of that name.
    pub fn unit(&self, name: &str) -> Option<Arc<Unit>> {
        if let Some(known) = self.units.borrow().get(name) {
            return Some(Arc::clone(known));
        }
        let text = self.text(name)?;
        let unit = Arc::new(self.understood(name, text));
        self.units.borrow_mut().insert(name.to_owned(), Arc::clone(&unit));
        Some(unit)
    }

    fn text(&self, name: &str) -> Option<Arc<str>> {
        if let Some(open) = self.open.get(name) {
            return Some(Arc::clone(&open.text));
        }
        if let Some(module) = standard_module_of(name) {
            return Some(module.text.into());
        }
        self.host.load("", name).ok().map(|(_, text)| text.into())
    }

    fn understood(&self, name: &str, text: Arc<str>) -> Unit {
        let tree = mend::tree(&text);
        let names = tree.as_ref().map(Names::of).unwrap_or_default();
        let imports = tree.as_ref().map_or(&[][..], |tree| &tree.imports);
        let imports = imports.iter().map(|import| self.imported(name, &import.what)).collect();
        let lines = Arc::new(LineIndex::new(&text));
        Unit { name: name.into(), text, lines, tree, names, imports }
    }

    /// The name of an imported file.
    pub fn imported(&self, importer: &str, what: &ast::ImportPath) -> Option<String> {
        match what {
            ast::ImportPath::Standard(module) => Some(standard_module(module)?.source_name()),
            ast::ImportPath::File(path) => {
                self.host.load(importer, path).ok().map(|(name, _)| name)
            }
        }
    }

    /// The definitions that `name` may mean in `unit`: its own, or else all that are imported.
    pub fn find(
        &self,
        unit: &Unit,
        name: &str,
        is_match: &dyn Fn(&DefinitionKind) -> bool,
    ) -> Vec<DefinitionPlace> {
        let mut seen = BTreeSet::new();
        self.find_unseen(unit, name, is_match, &mut seen)
    }

    fn find_unseen(
        &self,
        unit: &Unit,
        name: &str,
        is_match: &dyn Fn(&DefinitionKind) -> bool,
        seen: &mut BTreeSet<String>,
    ) -> Vec<DefinitionPlace> {
        if !seen.insert(unit.name.to_string()) {
            return Vec::new();
        }
        if let Some(number) = unit.names.item(name, is_match) {
            return vec![DefinitionPlace { file: Arc::clone(&unit.name), number }];
        }
        let imports = unit.imports.iter().flatten().filter_map(|import| self.unit(import));
        let imports: Vec<_> = imports.collect();
        imports.iter().flat_map(|unit| self.find_unseen(unit, name, is_match, seen)).collect()
    }

    /// The definitions that a use in `unit` may mean; none for what is built in.
    pub fn definitions(&self, unit: &Unit, used: &Use) -> Vec<DefinitionPlace> {
        let here = |number| DefinitionPlace { file: Arc::clone(&unit.name), number };
        match &used.meaning {
            Meaning::Local(number) => vec![here(*number)],
            Meaning::Function => self.find(unit, &used.name, &DefinitionKind::is_function),
            Meaning::Collective => self.find(unit, &used.name, &DefinitionKind::is_collective),
            Meaning::Label { collective } => {
                let found = self.find(unit, collective, &DefinitionKind::is_collective);
                let labels = found.into_iter().filter_map(|place| {
                    let unit = self.unit(&place.file)?;
                    let is_label = |kind: &DefinitionKind| {
                        matches!(kind, DefinitionKind::Label { collective: of } if of == collective)
                    };
                    let number = unit.names.item(&used.name, is_label)?;
                    Some(DefinitionPlace { file: place.file, number })
                });
                labels.collect()
            }
            Meaning::Buffer | Meaning::Unknown => Vec::new(),
        }
    }

    /// What is defined, or used, at a byte of a unit.
    pub fn at(&self, unit: &Unit, at: usize) -> Vec<DefinitionPlace> {
        if let Some(number) = unit.names.definition_at(at) {
            return vec![DefinitionPlace { file: Arc::clone(&unit.name), number }];
        }
        unit.names.use_at(at).map_or_else(Vec::new, |used| self.definitions(unit, used))
    }

    /// All files: what is open and imported, programs of the folders, the standard library.
    pub fn all(&self) -> Vec<Arc<Unit>> {
        let mut names: BTreeSet<String> = self.open.keys().map(|name| name.to_string()).collect();
        let programs = self.folders.iter().flat_map(|folder| self.host.programs(folder));
        names.extend(programs);
        names.extend(standard_modules().map(|module| module.source_name()));
        let mut unread: Vec<String> = names.iter().cloned().collect();
        let mut units = Vec::new();
        while let Some(name) = unread.pop() {
            let Some(unit) = self.unit(&name) else { continue };
            let fresh = unit.imports.iter().flatten().filter(|name| names.insert((*name).clone()));
            unread.extend(fresh.cloned().collect::<Vec<_>>());
            units.push(unit);
        }
        units.sort_by(|one, other| one.name.cmp(&other.name));
        units
    }

    /// The uses of a definition, in all files that can see it.
    pub fn uses(&self, definition: &DefinitionPlace) -> Vec<UsePlace> {
        let Some(home) = self.unit(&definition.file) else { return Vec::new() };
        let Some(defined) = home.names.definitions.get(definition.number) else {
            return Vec::new();
        };
        let is_seen_elsewhere = matches!(
            defined.kind,
            DefinitionKind::Function { .. }
                | DefinitionKind::Collective { .. }
                | DefinitionKind::Label { .. }
        );
        let units = if is_seen_elsewhere { self.all() } else { vec![Arc::clone(&home)] };
        let mut places = Vec::new();
        for unit in units {
            let uses = unit.names.uses.iter().filter(|it| it.name == defined.name);
            let uses = uses.filter(|used| self.definitions(&unit, used).contains(definition));
            let bytes: Vec<_> = uses.map(|used| used.bytes.clone()).collect();
            places
                .extend(bytes.into_iter().map(|bytes| UsePlace { unit: Arc::clone(&unit), bytes }));
        }
        places
    }

    /// A place for editors.
    pub fn location(&self, unit: &Unit, bytes: std::ops::Range<usize>) -> Option<Location> {
        Some(Location { uri: self.uri(&unit.name)?, range: unit.range(bytes) })
    }
}

/// Where a definition is used.
pub struct UsePlace {
    /// The file.
    pub unit: Arc<Unit>,
    /// The name.
    pub bytes: std::ops::Range<usize>,
}

impl Unit {
    /// The range of bytes.
    pub fn range(&self, bytes: std::ops::Range<usize>) -> Range {
        let position = |at| self.lines.position(&self.text, at);
        Range { start: position(bytes.start), end: position(bytes.end) }
    }
}
