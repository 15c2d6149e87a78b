//! What the compiler reads for a module.

use std::collections::BTreeMap;

use super::tokens::{self, Unreadable};
use super::{Read, hash};
use crate::Module;
use crate::recipe::{Architecture, COMPILER, options};

/// A text, and the name under which it is compiled or included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// The entry's name, or what stands behind `#include`.
    pub name: String,
    /// Its tokens.
    pub text: String,
}

/// All texts of which one module is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inputs {
    /// What is compiled.
    pub entry: Input,
    /// What is included, directly or not, in the order of first mention.
    pub headers: Vec<Input>,
}

impl Inputs {
    /// The hash of everything that decides what the compiler gives for `architecture`: its version,
    /// its options, and all texts.
    pub fn fingerprint(&self, architecture: Architecture) -> String {
        let mut text = format!("{COMPILER}\n{}\n", options(architecture).join("\n"));
        for Input { name, text: of_input } in [&self.entry].into_iter().chain(&self.headers) {
            text += &format!("{name} {}\n{of_input}", of_input.len());
        }
        hash(text.as_bytes())
    }
}

/// The files of which images are made; each is read once.
pub struct Sources<'a> {
    read: Read<'a>,
    /// By path below the folder of this package.
    canonical: BTreeMap<String, String>,
}

impl<'a> Sources<'a> {
    /// Those that `read` gives.
    pub fn new(read: Read<'a>) -> Self {
        Self { read, canonical: BTreeMap::new() }
    }

    /// What the compiler reads for `module`.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or split into tokens.
    pub fn of(&mut self, module: Module) -> Result<Inputs, String> {
        self.entry(&module.entry_name(), &module.entry())
    }

    /// What the compiler reads for the entry `text`, which is called `name`.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or split into tokens.
    pub fn entry(&mut self, name: &str, text: &str) -> Result<Inputs, String> {
        let text = tokens::canonical(text).map_err(|error| located(name, error))?;
        let mut names: Vec<String> = Vec::new();
        mention(&text, &mut names);
        let mut headers = Vec::new();
        while let Some(name) = names.get(headers.len()).cloned() {
            let text = self.canonical(&path_of(&name))?.to_owned();
            mention(&text, &mut names);
            headers.push(Input { name, text });
        }
        Ok(Inputs { entry: Input { name: name.to_owned(), text }, headers })
    }

    fn canonical(&mut self, path: &str) -> Result<&str, String> {
        if !self.canonical.contains_key(path) {
            let text = String::from_utf8((self.read)(path)?)
                .map_err(|error| format!("{path} is not UTF-8: {error}"))?;
            let tokens = tokens::canonical(&text).map_err(|error| located(path, error))?;
            self.canonical.insert(path.to_owned(), tokens);
        }
        Ok(&self.canonical[path])
    }
}

/// Adds what `text` includes to `names`, unless it stands there already.
fn mention(text: &str, names: &mut Vec<String>) {
    for name in tokens::included(text) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
}

/// The path below the folder of this package of what files of `device/` include as `name`.
pub fn path_of(name: &str) -> String {
    name.strip_prefix("../").map_or_else(|| format!("device/{name}"), str::to_owned)
}

fn located(path: &str, error: Unreadable) -> String {
    format!("{path}, {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXCHANGE: &str = "#include \"a.cuh\"\n#define MSCCL_EXCHANGE(name) void name();\n";

    fn inputs(a: &'static str) -> Result<Inputs, String> {
        let read = move |path: &str| match path {
            "device/exchange.cuh" => Ok(EXCHANGE.as_bytes().to_vec()),
            "device/a.cuh" => Ok(a.as_bytes().to_vec()),
            "include/b.h" => Ok(b"enum { B };".to_vec()),
            _ => Err(format!("there is no {path}")),
        };
        Sources::new(&read).of(Module::Exchange)
    }

    const A: &str = "#include \"../include/b.h\"\nconstexpr int a = 1;";

    #[test]
    fn all_that_is_included_counts() {
        let found = inputs(A).unwrap();
        let names: Vec<_> = found.headers.iter().map(|header| header.name.as_str()).collect();
        assert_eq!(names, ["exchange.cuh", "a.cuh", "../include/b.h"]);
        assert_eq!(found.entry.name, "exchange.cu");
        let missing = inputs("#include \"c.cuh\"").unwrap_err();
        assert_eq!(missing, "there is no device/c.cuh");
        let unreadable = inputs("a\n'").unwrap_err();
        assert!(unreadable.starts_with("device/a.cuh, line 2: "), "{unreadable}");
    }

    #[test]
    fn fingerprints_show_constants_and_options_but_no_comments() {
        let print = |a, architecture| inputs(a).unwrap().fingerprint(architecture);
        let (one, other) = (Architecture::Machine(80), Architecture::Portable(80));
        let commented = "// a\n#include \"../include/b.h\"\n\nconstexpr int a =\n  1; // one";
        assert_eq!(print(A, one), print(commented, one));
        assert_ne!(print(A, one), print(A, other));
        let changed = "#include \"../include/b.h\"\nconstexpr int a = 2;";
        assert_ne!(print(A, one), print(changed, one));
    }
}
