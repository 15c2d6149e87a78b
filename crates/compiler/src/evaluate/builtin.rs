//! The built-in functions.

/// A built-in function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Builtin {
    Len,
    Min,
    Max,
    Abs,
    Log2,
    CeilLog2,
    IsPowerOfTwo,
    Gcd,
    Reverse,
    Position,
    Contains,
    BitReverse,
    Count,
    Node,
    Local,
    Rail,
    Nodes,
    PerNode,
    Neighbours,
    RankAt,
    Nic,
    Nics,
    Switch,
    Switches,
    Numa,
    Numas,
    Linked,
    Width,
}

/// Every built-in function with its name and its parameters.
pub(super) const BUILTINS: &[(Builtin, &str, &[&str])] = &[
    (Builtin::Len, "len", &["list"]),
    (Builtin::Min, "min", &["a", "b"]),
    (Builtin::Max, "max", &["a", "b"]),
    (Builtin::Abs, "abs", &["a"]),
    (Builtin::Log2, "log2", &["n"]),
    (Builtin::CeilLog2, "ceil_log2", &["n"]),
    (Builtin::IsPowerOfTwo, "is_power_of_two", &["n"]),
    (Builtin::Gcd, "gcd", &["a", "b"]),
    (Builtin::Reverse, "reverse", &["list"]),
    (Builtin::Position, "position", &["list", "x"]),
    (Builtin::Contains, "contains", &["list", "x"]),
    (Builtin::BitReverse, "bit_reverse", &["x", "bits"]),
    (Builtin::Count, "count", &["region"]),
    (Builtin::Node, "node", &["rank"]),
    (Builtin::Local, "local", &["rank"]),
    (Builtin::Rail, "rail", &["rank"]),
    (Builtin::Nodes, "nodes", &[]),
    (Builtin::PerNode, "per_node", &[]),
    (Builtin::Neighbours, "neighbours", &["rank"]),
    (Builtin::RankAt, "rank_at", &["node", "local"]),
    (Builtin::Nic, "nic", &["rank"]),
    (Builtin::Nics, "nics", &[]),
    (Builtin::Switch, "switch", &["rank"]),
    (Builtin::Switches, "switches", &[]),
    (Builtin::Numa, "numa", &["rank"]),
    (Builtin::Numas, "numas", &[]),
    (Builtin::Linked, "linked", &["from", "to"]),
    (Builtin::Width, "width", &["from", "to"]),
];

/// The built-in function of that name, and its parameters.
pub(super) fn find(name: &str) -> Option<(Builtin, &'static [&'static str])> {
    let found = BUILTINS.iter().find(|&&(_, known, _)| known == name);
    found.map(|&(builtin, _, params)| (builtin, params))
}

/// A built-in function, for editors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BuiltinSummary {
    /// Its name.
    pub name: &'static str,
    /// Its parameters, in order.
    pub params: &'static [&'static str],
}

/// All built-in functions.
pub fn builtins() -> impl Iterator<Item = BuiltinSummary> {
    BUILTINS.iter().map(|&(_, name, params)| BuiltinSummary { name, params })
}
