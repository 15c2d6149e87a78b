//! The standard library: modules that every program can import by name.

/// The modules: name and text.
pub(super) const MODULES: &[(&str, &str)] = &[
    ("balanced", include_str!("../../std/balanced.msccl")),
    ("blocks", include_str!("../../std/blocks.msccl")),
    ("chain", include_str!("../../std/chain.msccl")),
    ("groups", include_str!("../../std/groups.msccl")),
    ("halving", include_str!("../../std/halving.msccl")),
    ("pairs", include_str!("../../std/pairs.msccl")),
    ("ring", include_str!("../../std/ring.msccl")),
    ("tree", include_str!("../../std/tree.msccl")),
];

/// A module of the standard library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StandardModule {
    /// What `import` calls it.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

impl StandardModule {
    /// Its name among the sources of a program.
    pub fn source_name(self) -> String {
        format!("std/{}.msccl", self.name)
    }
}

/// All modules of the standard library.
pub fn standard_modules() -> impl Iterator<Item = StandardModule> {
    MODULES.iter().map(|&(name, text)| StandardModule { name, text })
}

/// The module of that name.
pub fn standard_module(name: &str) -> Option<StandardModule> {
    standard_modules().find(|module| module.name == name)
}

/// The module of that name among the sources of a program ([`StandardModule::source_name`]).
pub fn standard_module_of(source_name: &str) -> Option<StandardModule> {
    standard_modules().find(|module| module.source_name() == source_name)
}

/// The module that defines a function or collective of this name.
pub(super) fn module_that_defines(name: &str) -> Option<&'static str> {
    let defines = |text: &str| {
        text.contains(&format!("fn {name}(")) || text.contains(&format!("collective {name}("))
    };
    MODULES.iter().find(|&&(_, text)| defines(text)).map(|&(module, _)| module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_a_module() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/std");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let modules: Vec<_> = MODULES.iter().map(|(name, _)| format!("{name}.msccl")).collect();
        assert_eq!(modules, files);
    }

    #[test]
    fn functions_are_found_by_module() {
        assert_eq!(module_that_defines("ring_allreduce"), Some("ring"));
        assert_eq!(module_that_defines("ring_allred"), None);
    }
}
