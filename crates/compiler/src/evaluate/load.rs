//! Imports: from a file to all the files it reaches.
//!
//! Every file is read once, however often it is imported. Import cycles are refused; files that
//! cannot be read or parsed are reported and left out, so that the rest is still looked at.

use msccl_syntax::{Diagnostic, FileId, SourceMap, Span, ast};

use super::nearest::nearest;
use super::report::{Refused, Report};
use super::standard::{self, standard_module};

/// Reads imported files.
pub trait Loader {
    /// The file that `importer` means by `path`: a name that is the same however the file is
    /// reached, and its text. The error says why it cannot be had.
    fn load(&self, importer: &str, path: &str) -> Result<(String, String), String>;
}

/// A loader without files: only the standard library can be imported.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Loader for NoFiles {
    fn load(&self, _importer: &str, _path: &str) -> Result<(String, String), String> {
        Err("files cannot be imported here, only modules of the standard library".to_owned())
    }
}

/// Longest chain of imports.
const MAX_CHAIN: usize = 64;

/// A file, and which of the others it imports.
pub(super) struct Loaded {
    pub file: ast::File,
    /// By position in the list of all files.
    pub imports: Vec<usize>,
}

/// The file and all it imports, directly or not. The file itself is first; of the others, each
/// stands after those that it imports.
pub(super) fn load(
    sources: &mut SourceMap,
    file: FileId,
    loader: &dyn Loader,
    report: &mut Report,
) -> Vec<Loaded> {
    let mut loading = Loading { sources, loader, report, open: Vec::new(), files: Vec::new() };
    loading.file(file);
    let mut files = loading.files;
    files.sort_by_key(|&(id, ..)| id != file);
    let ids: Vec<_> = files.iter().map(|&(id, ..)| id).collect();
    let position = |expected: FileId| ids.iter().position(|&id| id == expected);
    let loaded = |(_, file, imports): (FileId, ast::File, Vec<FileId>)| Loaded {
        file,
        imports: imports.into_iter().filter_map(position).collect(),
    };
    files.into_iter().map(loaded).collect()
}

struct Loading<'a> {
    sources: &'a mut SourceMap,
    loader: &'a dyn Loader,
    report: &'a mut Report,
    /// The chain of files whose imports are being read.
    open: Vec<FileId>,
    /// The files read, each with those that it imports.
    files: Vec<(FileId, ast::File, Vec<FileId>)>,
}

impl Loading<'_> {
    fn file(&mut self, id: FileId) {
        let file = match msccl_syntax::parse(self.sources, id) {
            Ok(file) => file,
            Err(diagnostics) => return self.report.extend(diagnostics),
        };
        self.open.push(id);
        let imports = file.imports.iter().filter_map(|import| self.import(id, import).ok());
        let imports = imports.collect();
        self.open.pop();
        self.files.push((id, file, imports));
    }

    /// The file that an import names; it is read if it is not yet.
    fn import(&mut self, importer: FileId, import: &ast::Import) -> Result<FileId, Refused> {
        if self.open.len() >= MAX_CHAIN {
            let message = format!("this is the end of a chain of {MAX_CHAIN} imports");
            return Err(self.report.error(Diagnostic::error(import.span, message)));
        }
        let (name, text) = self.read(importer, import)?;
        let Some(known) = self.sources.find(&name) else {
            let new = self.sources.add(name, text);
            self.file(new);
            return Ok(new);
        };
        if self.open.contains(&known) {
            return Err(self.cycle(known, import.span));
        }
        if !self.files.iter().any(|&(id, ..)| id == known) {
            self.file(known);
        }
        Ok(known)
    }

    fn read(
        &mut self,
        importer: FileId,
        import: &ast::Import,
    ) -> Result<(String, String), Refused> {
        let read = match &import.what {
            ast::ImportPath::Standard(module) => standard_module(module)
                .map(|found| (found.source_name(), found.text.to_owned()))
                .ok_or_else(|| unknown_module(module, import.span)),
            ast::ImportPath::File(path) => {
                self.loader.load(self.sources.name(importer), path).map_err(|reason| {
                    let message = format!("cannot import \"{path}\": {reason}");
                    Diagnostic::error(import.span, message)
                })
            }
        };
        read.map_err(|diagnostic| self.report.error(diagnostic))
    }

    fn cycle(&mut self, first: FileId, span: Span) -> Refused {
        let from = self.open.iter().position(|&open| open == first).unwrap_or(0);
        let chain = self.open[from..].iter().chain([&first]);
        let names: Vec<_> = chain.map(|&file| self.sources.name(file)).collect();
        let diagnostic = Diagnostic::error(span, "this import closes a cycle")
            .saying(names.join(" → "))
            .hint("move what both files need into a third, and import that from both");
        self.report.error(diagnostic)
    }
}

fn unknown_module(module: &str, span: Span) -> Diagnostic {
    let known: Vec<_> = standard::MODULES.iter().map(|&(name, _)| name).collect();
    let diagnostic =
        Diagnostic::error(span, format!("the standard library has no module `{module}`"));
    let diagnostic = match nearest(module, known.iter().copied()) {
        Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
        None => diagnostic,
    };
    diagnostic.hint(format!(
        "its modules are {}; a file is imported as `import \"{module}.msccl\"`",
        known.join(", ")
    ))
}
