//! What each module of a crate declares, imports and names.

use std::collections::{BTreeMap, BTreeSet};

use super::ModulePath;
use crate::rust_text::{Source, Token, behind_bracket, tokens};

/// A module as far as its uses of others go.
#[derive(Debug, Default)]
pub struct Module {
    /// Its file, from `src` on.
    pub file: String,
    /// The modules that it declares.
    pub children: BTreeSet<String>,
    /// The names that it imports or re-exports, with their paths as they are written.
    pub imports: BTreeMap<String, Vec<String>>,
    /// All paths in it that may lead to other modules.
    pub uses: Vec<Use>,
}

/// A path as it is written.
#[derive(Debug)]
pub struct Use {
    pub path: Vec<String>,
    pub line: usize,
}

/// The modules that the roots among `texts` declare, and those which these declare.
pub fn modules(texts: &BTreeMap<String, String>) -> BTreeMap<ModulePath, Module> {
    let mut reader = Reader { texts, modules: BTreeMap::new() };
    for root in ["lib.rs", "main.rs"] {
        reader.read_file(root, &[]);
    }
    reader.modules
}

struct Reader<'t> {
    texts: &'t BTreeMap<String, String>,
    modules: BTreeMap<ModulePath, Module>,
}

impl Reader<'_> {
    /// Reads the file of the module at `path`, if there is one: some are of another edition of the
    /// crate, or made while it is built.
    fn read_file(&mut self, file: &str, path: &[String]) {
        let Some(text) = self.texts.get(file) else { return };
        let code = Source::new(text).code;
        self.read_body(&tokens(&code), file, path);
    }

    fn read_body(&mut self, tokens: &[Token], file: &str, path: &[String]) {
        let module = self.modules.entry(path.to_vec()).or_default();
        file.clone_into(&mut module.file);
        let mut at = 0;
        while at < tokens.len() {
            at = self.read_at(tokens, at, file, path);
        }
    }

    /// Reads what begins at `at`, and gives the place behind it.
    fn read_at(&mut self, tokens: &[Token], at: usize, file: &str, path: &[String]) -> usize {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
        let module = self.modules.entry(path.to_vec()).or_default();
        match text(at) {
            "#" => behind_attribute(tokens, at),
            "mod" if text(at + 2) == ";" => {
                module.children.insert(text(at + 1).to_owned());
                self.read_child(text(at + 1), path);
                at + 3
            }
            "mod" if text(at + 2) == "{" => {
                module.children.insert(text(at + 1).to_owned());
                let end = behind_bracket(tokens, at + 2);
                self.read_body(&tokens[at + 3..end - 1], file, &inside(path, text(at + 1)));
                end
            }
            "use" if text(at + 1) != "<" => module.read_imports(tokens, at + 1),
            _ => module.read_path(tokens, at),
        }
    }

    fn read_child(&mut self, name: &str, path: &[String]) {
        let path = inside(path, name);
        let stem = path.join("/");
        self.read_file(&format!("{stem}.rs"), &path);
        self.read_file(&format!("{stem}/mod.rs"), &path);
    }
}

impl Module {
    /// Reads the declaration behind a `use`.
    fn read_imports(&mut self, tokens: &[Token], at: usize) -> usize {
        let mut found = Vec::new();
        let end = read_tree(tokens, at, &[], &mut found);
        for Import { name, place } in found {
            if let Some(name) = name {
                self.imports.insert(name, place.path.clone());
            }
            self.uses.push(place);
        }
        end
    }

    /// Reads the qualified path at `at`, if there is one.
    fn read_path(&mut self, tokens: &[Token], at: usize) -> usize {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
        let goes_on = at > 0 && ["::", "."].contains(&text(at - 1));
        if !tokens[at].is_name() || goes_on || text(at + 1) != "::" {
            return at + 1;
        }
        let (mut end, mut path) = (at + 1, vec![text(at).to_owned()]);
        while text(end) == "::" && tokens.get(end + 1).is_some_and(Token::is_name) {
            path.push(text(end + 1).to_owned());
            end += 2;
        }
        self.uses.push(Use { path, line: tokens[at].line });
        end
    }
}

/// What one branch of a `use` declaration imports; a glob has no name.
struct Import {
    name: Option<String>,
    place: Use,
}

/// Reads one branch of a `use` declaration, and gives the place behind it.
fn read_tree(tokens: &[Token], at: usize, before: &[String], found: &mut Vec<Import>) -> usize {
    let (mut at, mut path) = (at, before.to_vec());
    while let Some(token) = tokens.get(at) {
        match token.text {
            "::" => at += 1,
            "{" => return read_branches(tokens, at + 1, &path, found),
            "*" => {
                found.push(Import { name: None, place: Use { path, line: token.line } });
                return at + 1;
            }
            "as" => {
                let name = tokens.get(at + 1).map(|name| name.text.to_owned());
                found.push(Import { name, place: Use { path, line: token.line } });
                return at + 2;
            }
            "," | "}" | ";" => {
                let name = path.last().cloned();
                found.push(Import { name, place: Use { path, line: token.line } });
                return at;
            }
            // `{self, …}` is what stands before the braces.
            "self" if !path.is_empty() => at += 1,
            name => {
                path.push(name.to_owned());
                at += 1;
            }
        }
    }
    at
}

/// Reads branches up to the brace that closes them.
fn read_branches(tokens: &[Token], at: usize, path: &[String], found: &mut Vec<Import>) -> usize {
    let mut at = at;
    while let Some(token) = tokens.get(at) {
        match token.text {
            "}" => return at + 1,
            "," => at += 1,
            _ => at = read_tree(tokens, at, path, found),
        }
    }
    at
}

/// The place behind the attribute at `at`, and behind its item if that is for tests alone.
fn behind_attribute(tokens: &[Token], at: usize) -> usize {
    let is_inner = tokens.get(at + 1).is_some_and(|token| token.text == "!");
    let open = at + 1 + usize::from(is_inner);
    if tokens.get(open).is_none_or(|token| token.text != "[") {
        return at + 1;
    }
    let end = behind_bracket(tokens, open);
    match is_for_tests(&tokens[open..end]) {
        true if is_inner => tokens.len(),
        true => behind_item(tokens, end),
        false => end,
    }
}

fn is_for_tests(attribute: &[Token]) -> bool {
    let has = |word: &str| attribute.iter().any(|token| token.text == word);
    has("cfg") && has("test") && !has("not") && !has("any")
}

/// The place behind the item, statement, field or variant at `at`.
fn behind_item(tokens: &[Token], at: usize) -> usize {
    const WITH_BODY: [&str; 9] =
        ["fn", "mod", "impl", "struct", "enum", "trait", "union", "unsafe", "macro_rules"];
    let (mut at, mut ends_by_brace) = (at, false);
    while let Some(token) = tokens.get(at) {
        match token.text {
            ";" => return at + 1,
            "," if !ends_by_brace => return at + 1,
            "{" if ends_by_brace => return behind_bracket(tokens, at),
            "(" | "[" | "{" => at = behind_bracket(tokens, at),
            ")" | "]" | "}" => return at,
            word => {
                ends_by_brace |= WITH_BODY.contains(&word);
                at += 1;
            }
        }
    }
    at
}

fn inside(path: &[String], name: &str) -> ModulePath {
    path.iter().cloned().chain([name.to_owned()]).collect()
}
