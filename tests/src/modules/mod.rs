//! The graph of the modules of a crate, read from its sources, and the circles in it.
//!
//! A module uses another if a path in it names the other, or something that is re-exported from it:
//! `use` declarations and qualified paths count alike. What is compiled for tests alone does not
//! count. The children of one folder are compared with each other: a module inside `a` that uses a
//! module inside `b` makes `a` use `b`. What a parent and its children use of each other is free.

mod circle;
mod parse;
mod resolve;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use crate::source_tree::files;
use parse::Module;

/// The names of a module and those around it, from the root of the crate on.
pub type ModulePath = Vec<String>;

/// The modules of a crate.
#[derive(Debug)]
pub struct Modules(BTreeMap<ModulePath, Module>);

/// Where one module uses another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The child of the folder that uses another.
    pub user: String,
    /// The child that is used.
    pub used: String,
    /// The file, from `src` on.
    pub file: String,
    /// The line, from 1 on.
    pub line: usize,
}

/// Modules of one folder of which each uses the next, and the last the first.
#[derive(Debug, PartialEq, Eq)]
pub struct Circle {
    /// The folder; empty for the root of the crate.
    pub folder: ModulePath,
    /// One use for each step of the circle.
    pub edges: Vec<Edge>,
}

impl Modules {
    /// Reads the modules of the crate whose package is in `folder`.
    ///
    /// # Panics
    ///
    /// A file cannot be read.
    pub fn read(folder: &Path) -> Self {
        let source = folder.join("src");
        let read = |file: &Path| {
            let text = fs::read_to_string(file);
            text.unwrap_or_else(|why| panic!("{}: {why}", file.display()))
        };
        let texts = files(&source, &["rs"]).into_iter().map(|file| {
            let name = file.strip_prefix(&source).unwrap_or(&file);
            (name.to_string_lossy().into_owned(), read(&file))
        });
        Self::from_texts(&texts.collect())
    }

    /// Reads the modules that `lib.rs` and `main.rs` declare, and those which these declare.
    /// `texts` has the files by their names from `src` on.
    pub fn from_texts(texts: &BTreeMap<String, String>) -> Self {
        Self(parse::modules(texts))
    }

    /// The uses between the children of each folder, the first of each kind.
    pub fn edges(&self) -> BTreeMap<ModulePath, Vec<Edge>> {
        let mut edges = BTreeMap::<ModulePath, BTreeMap<(String, String), Edge>>::new();
        for (path, module) in &self.0 {
            for place in &module.uses {
                for used in self.used(path, &place.path) {
                    let Some((folder, user, used)) = siblings(path, &used) else { continue };
                    let (file, line) = (module.file.clone(), place.line);
                    let edge = Edge { user: user.clone(), used: used.clone(), file, line };
                    edges.entry(folder).or_default().entry((user, used)).or_insert(edge);
                }
            }
        }
        edges.into_iter().map(|(folder, all)| (folder, all.into_values().collect())).collect()
    }

    /// The shortest circle of each folder that has one.
    pub fn circles(&self) -> Vec<Circle> {
        let edges = self.edges().into_iter();
        let shortest = edges.map(|(folder, all)| (folder, circle::shortest(&all)));
        shortest.filter_map(|(folder, edges)| Some(Circle { folder, edges: edges? })).collect()
    }

    /// Whether `file`, by its name from `src` on, is compiled outside of tests.
    pub fn has_file(&self, file: &str) -> bool {
        self.0.values().any(|module| module.file == file)
    }

    /// Whether the crate has no module but its root.
    pub fn is_trivial(&self) -> bool {
        self.0.len() <= 1
    }
}

/// The folder in which `user` and `used` part, and its child on either side; none if one of them is
/// around the other.
fn siblings(user: &[String], used: &[String]) -> Option<(ModulePath, String, String)> {
    let shared = user.iter().zip(used).take_while(|(one, other)| one == other).count();
    Some((user[..shared].to_vec(), user.get(shared)?.clone(), used.get(shared)?.clone()))
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.join("/");
        writeln!(f, "modules of `src/{folder}` use each other in a circle:")?;
        for Edge { user, used, file, line } in &self.edges {
            writeln!(f, "  {user} uses {used} (src/{file}:{line})")?;
        }
        Ok(())
    }
}
