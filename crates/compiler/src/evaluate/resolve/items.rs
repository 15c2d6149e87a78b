//! The functions, collectives and algorithms of all files.

use msccl_collective::CollectiveKind;
use msccl_syntax::{Diagnostic, Span, ast};

use super::super::builtin;
use super::super::load::Loaded;
use super::super::nearest::nearest;
use super::super::report::Report;
use super::super::resolved::FunctionId;
use super::names::Names;

/// The file whose algorithm is compiled.
pub(super) const MAIN: usize = 0;

/// All items, by number and by name; each with the file it stands in.
pub(super) struct Items<'a> {
    pub functions: Vec<(usize, &'a ast::Function)>,
    pub collectives: Vec<(usize, &'a ast::CollectiveItem)>,
    algorithms: Vec<&'a ast::AlgorithmItem>,
    function_names: Names<'a>,
    collective_names: Names<'a>,
}

impl<'a> Items<'a> {
    /// Functions and collectives of all files, algorithms of the first.
    pub fn collect(files: &'a [Loaded], report: &mut Report) -> Self {
        let mut items = Self {
            functions: Vec::new(),
            collectives: Vec::new(),
            algorithms: Vec::new(),
            function_names: Names::new(files.len()),
            collective_names: Names::new(files.len()),
        };
        for (file, Loaded { file: ast::File { items: list, .. }, .. }) in files.iter().enumerate() {
            for item in list {
                match item {
                    ast::Item::Function(item) => items.add_function(file, item, report),
                    ast::Item::Collective(item) => items.add_collective(file, item, report),
                    ast::Item::Algorithm(item) if file == MAIN => items.add_algorithm(item, report),
                    ast::Item::Algorithm(_) => {}
                }
            }
        }
        // Every file but the first stands after those that it imports.
        for file in (1..files.len()).chain([MAIN]) {
            items.function_names.import(file, &files[file].imports);
            items.collective_names.import(file, &files[file].imports);
        }
        items
    }

    fn add_function(&mut self, file: usize, function: &'a ast::Function, report: &mut Report) {
        let name = &function.name;
        if builtin::find(&name.text).is_some() {
            report.error(taken(name, "function", "is built in"));
        }
        match self.function_names.define(file, &name.text, self.functions.len() as u32) {
            Ok(()) => self.functions.push((file, function)),
            Err(first) => {
                let (_, first) = self.functions[first as usize];
                report.error(twice("function", &first.name, name));
            }
        }
    }

    fn add_collective(&mut self, file: usize, item: &'a ast::CollectiveItem, report: &mut Report) {
        let name = &item.name;
        if name.text.parse::<CollectiveKind>().is_ok() {
            report.error(taken(name, "collective", "is a standard collective"));
        }
        match self.collective_names.define(file, &name.text, self.collectives.len() as u32) {
            Ok(()) => self.collectives.push((file, item)),
            Err(first) => {
                let (_, first) = self.collectives[first as usize];
                report.error(twice("collective", &first.name, name));
            }
        }
    }

    fn add_algorithm(&mut self, item: &'a ast::AlgorithmItem, report: &mut Report) {
        let same = self.algorithms.iter().find(|other| other.name.text == item.name.text);
        match same {
            Some(first) => {
                report.error(twice("algorithm", &first.name, &item.name));
            }
            None => self.algorithms.push(item),
        }
    }

    /// The function that a name means in a file; an error if there are several.
    pub fn function(
        &self,
        file: usize,
        name: &ast::Name,
    ) -> Result<Option<(FunctionId, &'a ast::Function)>, Diagnostic> {
        let item = |number: u32| self.functions[number as usize].1;
        match *self.function_names.find(file, &name.text) {
            [] => Ok(None),
            [only] => Ok(Some((FunctionId(only), item(only)))),
            [one, other, ..] => {
                Err(ambiguous("function", name, &item(one).name, &item(other).name))
            }
        }
    }

    pub fn is_function(&self, file: usize, name: &str) -> bool {
        !self.function_names.find(file, name).is_empty()
    }

    /// The custom collective that a name means in a file; an error if there are several.
    pub fn collective(&self, file: usize, name: &ast::Name) -> Result<Option<u32>, Diagnostic> {
        let item = |number: u32| self.collectives[number as usize].1;
        match *self.collective_names.find(file, &name.text) {
            [] => Ok(None),
            [only] => Ok(Some(only)),
            [one, other, ..] => {
                Err(ambiguous("collective", name, &item(one).name, &item(other).name))
            }
        }
    }

    /// The names of all functions seen in a file.
    pub fn function_names(&self, file: usize) -> impl Iterator<Item = &'a str> {
        self.function_names.of_file(file)
    }

    /// The algorithm called `chosen`, or the last one.
    pub fn algorithm(
        &self,
        whole: Span,
        chosen: Option<&str>,
    ) -> Result<&'a ast::AlgorithmItem, Diagnostic> {
        let Some(last) = self.algorithms.last() else {
            let start = Span { end: whole.start, ..whole };
            return Err(Diagnostic::error(start, "this file defines no algorithm").hint(
                "an algorithm begins `algorithm name(ranks N) implements allreduce(…) { … }`",
            ));
        };
        let Some(chosen) = chosen else { return Ok(last) };
        let found = self.algorithms.iter().find(|item| item.name.text == chosen);
        found.copied().ok_or_else(|| self.unknown_algorithm(chosen, last.name.span))
    }

    fn unknown_algorithm(&self, chosen: &str, place: Span) -> Diagnostic {
        let names = || self.algorithms.iter().map(|item| item.name.text.as_str());
        let diagnostic = Diagnostic::error(place, format!("there is no algorithm `{chosen}` here"));
        let list: Vec<_> = names().map(|name| format!("`{name}`")).collect();
        match nearest(chosen, names()) {
            Some(name) => diagnostic.hint(format!("did you mean `{name}`?")),
            None => diagnostic.hint(format!("this file defines {}", list.join(", "))),
        }
    }
}

fn taken(name: &ast::Name, what: &str, why: &str) -> Diagnostic {
    let message = format!("the name `{}` {why}", name.text);
    Diagnostic::error(name.span, message).hint(format!("give the {what} another name"))
}

fn twice(what: &str, first: &ast::Name, second: &ast::Name) -> Diagnostic {
    Diagnostic::error(second.span, format!("the {what} `{}` is defined twice", second.text))
        .saying("again here")
        .label(first.span, "first here")
}

fn ambiguous(what: &str, used: &ast::Name, one: &ast::Name, other: &ast::Name) -> Diagnostic {
    let message = format!("two imported files define a {what} `{}`", used.text);
    Diagnostic::error(used.span, message)
        .label(one.span, "one is here")
        .label(other.span, "the other is here")
        .hint("rename one, or define it in this file: that hides both")
}
