//! The standard library: modules that every program can import by name.

/// The modules: name and text.
pub(super) const MODULES: &[(&str, &str)] = &[
    ("blocks", include_str!("../../std/blocks.msccl")),
    ("chain", include_str!("../../std/chain.msccl")),
    ("groups", include_str!("../../std/groups.msccl")),
    ("halving", include_str!("../../std/halving.msccl")),
    ("pairs", include_str!("../../std/pairs.msccl")),
    ("ring", include_str!("../../std/ring.msccl")),
    ("tree", include_str!("../../std/tree.msccl")),
];

/// The text of a module.
pub(super) fn module(name: &str) -> Option<&'static str> {
    MODULES.iter().find(|&&(known, _)| known == name).map(|&(_, text)| text)
}

/// The module that defines a function or collective of this name.
pub(super) fn module_that_defines(name: &str) -> Option<&'static str> {
    let defines = |text: &str| {
        text.contains(&format!("fn {name}(")) || text.contains(&format!("collective {name}("))
    };
    MODULES.iter().find(|&&(_, text)| defines(text)).map(|&(module, _)| module)
}
