//! To which modules a path leads.

use super::{ModulePath, Modules};

/// Imports that lead to imports of the same name would be followed for ever.
const MOST_IMPORTS: u32 = 16;

impl Modules {
    /// The modules that `path`, written in `module`, names, and those from which what it names is
    /// re-exported. None if it leads to another crate, or starts with a name of this place alone.
    pub(super) fn used(&self, module: &[String], path: &[String]) -> Vec<ModulePath> {
        let mut used = Vec::new();
        self.follow(module, path, MOST_IMPORTS, &mut used);
        used
    }

    fn follow(&self, module: &[String], path: &[String], left: u32, used: &mut Vec<ModulePath>) {
        let Some(Start { mut at, rest }) = self.start(module, path) else { return };
        for (index, name) in rest.iter().enumerate() {
            let Some(here) = self.0.get(&at) else { break };
            if here.children.contains(name) {
                at.push(name.clone());
            } else if let (Some(import), Some(left)) = (here.imports.get(name), left.checked_sub(1))
            {
                let path: Vec<String> = import.iter().chain(&rest[index + 1..]).cloned().collect();
                self.follow(&at, &path, left, used);
                break;
            } else {
                break;
            }
        }
        used.push(at);
    }

    /// Where a path written in `module` starts, and what is left of it then.
    fn start<'p>(&self, module: &[String], path: &'p [String]) -> Option<Start<'p>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(Start { at: Vec::new(), rest }),
            "self" => Some(Start { at: module.to_vec(), rest }),
            "super" => {
                let (_, parent) = module.split_last()?;
                if rest.first().is_some_and(|next| next == "super") {
                    return self.start(parent, rest);
                }
                Some(Start { at: parent.to_vec(), rest })
            }
            name => {
                let here = self.0.get(module)?;
                let is_known = here.children.contains(name) || here.imports.contains_key(name);
                is_known.then(|| Start { at: module.to_vec(), rest: path })
            }
        }
    }
}

struct Start<'p> {
    at: ModulePath,
    rest: &'p [String],
}
