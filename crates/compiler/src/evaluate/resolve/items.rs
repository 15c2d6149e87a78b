//! The functions, collectives and algorithms of all files.

use msccl_syntax::{Diagnostic, Span, ast};
use rustc_hash::FxHashMap;

use super::super::builtin;
use super::super::head::STANDARD;
use super::super::report::Report;
use super::super::resolved::FunctionId;
use super::scope::nearest;

/// All items, by number and by name.
pub(super) struct Items<'a> {
    pub functions: Vec<&'a ast::Function>,
    pub collectives: Vec<&'a ast::CollectiveItem>,
    algorithms: Vec<&'a ast::AlgorithmItem>,
    function_names: FxHashMap<&'a str, u32>,
    collective_names: FxHashMap<&'a str, u32>,
}

impl<'a> Items<'a> {
    /// Functions and collectives of all files, algorithms of the first.
    pub fn collect(files: &'a [ast::File], report: &mut Report) -> Self {
        let mut items = Self {
            functions: Vec::new(),
            collectives: Vec::new(),
            algorithms: Vec::new(),
            function_names: FxHashMap::default(),
            collective_names: FxHashMap::default(),
        };
        for (position, file) in files.iter().enumerate() {
            for item in &file.items {
                match item {
                    ast::Item::Function(function) => items.add_function(function, report),
                    ast::Item::Collective(item) => items.add_collective(item, report),
                    ast::Item::Algorithm(item) if position == 0 => {
                        items.add_algorithm(item, report)
                    }
                    ast::Item::Algorithm(_) => {}
                }
            }
        }
        items
    }

    fn add_function(&mut self, function: &'a ast::Function, report: &mut Report) {
        let name = &function.name;
        if builtin::find(&name.text).is_some() {
            report.error(taken(name, "function", "is built in"));
        }
        if let Some(&first) = self.function_names.get(name.text.as_str()) {
            report.error(twice("function", &self.functions[first as usize].name, name));
            return;
        }
        self.function_names.insert(&name.text, self.functions.len() as u32);
        self.functions.push(function);
    }

    fn add_collective(&mut self, item: &'a ast::CollectiveItem, report: &mut Report) {
        let name = &item.name;
        if STANDARD.contains(&name.text.as_str()) {
            report.error(taken(name, "collective", "is a standard collective"));
        }
        if let Some(&first) = self.collective_names.get(name.text.as_str()) {
            report.error(twice("collective", &self.collectives[first as usize].name, name));
            return;
        }
        self.collective_names.insert(&name.text, self.collectives.len() as u32);
        self.collectives.push(item);
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

    pub fn function(&self, name: &str) -> Option<(FunctionId, &'a ast::Function)> {
        let number = *self.function_names.get(name)?;
        Some((FunctionId(number), self.functions[number as usize]))
    }

    pub fn collective(&self, name: &str) -> Option<u32> {
        self.collective_names.get(name).copied()
    }

    pub fn function_names(&self) -> impl Iterator<Item = &'a str> {
        self.functions.iter().map(|function| function.name.text.as_str())
    }

    /// The algorithm called `wanted`, or the last one.
    pub fn algorithm(
        &self,
        whole: Span,
        wanted: Option<&str>,
    ) -> Result<&'a ast::AlgorithmItem, Diagnostic> {
        let Some(last) = self.algorithms.last() else {
            let start = Span { end: whole.start, ..whole };
            return Err(Diagnostic::error(start, "this file defines no algorithm").hint(
                "an algorithm begins `algorithm name(ranks N) implements allreduce(…) { … }`",
            ));
        };
        let Some(wanted) = wanted else { return Ok(last) };
        let found = self.algorithms.iter().find(|item| item.name.text == wanted);
        found.copied().ok_or_else(|| self.unknown_algorithm(wanted, last.name.span))
    }

    fn unknown_algorithm(&self, wanted: &str, place: Span) -> Diagnostic {
        let names = || self.algorithms.iter().map(|item| item.name.text.as_str());
        let diagnostic = Diagnostic::error(place, format!("there is no algorithm `{wanted}` here"));
        let list: Vec<_> = names().map(|name| format!("`{name}`")).collect();
        match nearest(wanted, names()) {
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
