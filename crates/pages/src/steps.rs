//! Algorithms that are already scheduled, read from a file.

use msccl_interchange::{json, xml};
use msccl_ir::{Algorithm, Target, text};
use msccl_syntax::SourceMap;
use msccl_verify::FaultKind;
use serde::Deserialize;

use crate::diagnose::Warning;
use crate::failure::{Failure, Result};
use crate::subject::{FileFault, KnownInvalid, Provenance, Subject, XmlSource};

/// Who runs an algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeName {
    /// The first runtime that read MSCCL XML.
    Msccl,
    /// The executor, which reads it today.
    Executor,
    /// Our own runtime.
    Native,
}

impl RuntimeName {
    /// Its limits.
    pub fn target(self) -> Target {
        match self {
            RuntimeName::Msccl => Target::msccl(),
            RuntimeName::Executor => Target::executor(),
            RuntimeName::Native => Target::native(),
        }
    }
}

/// What a file of steps holds.
pub struct Steps {
    /// The file, as messages show it.
    pub file: String,
    /// The algorithm, as it stands there.
    pub algorithm: Algorithm,
    /// Where its steps stand.
    pub provenance: Provenance,
    /// Who runs it.
    pub runtime: RuntimeName,
}

impl Steps {
    /// The algorithm on nodes of so many ranks, all on one if not given.
    pub fn on_nodes(self, per_node: Option<u32>) -> Subject {
        let Steps { file, algorithm, provenance, runtime } = self;
        let per_node = per_node.unwrap_or(algorithm.collective.ranks);
        let target = runtime.target().on_nodes(per_node);
        Subject { file, algorithm, one_instance: None, per_node, provenance, target }
    }
}

/// Whether `ranks` fill nodes of `per_node`, if so many are asked for.
///
/// # Errors
///
/// They do not; what to ask for instead.
pub fn check_nodes(ranks: u32, per_node: Option<u32>) -> std::result::Result<(), String> {
    match per_node.filter(|per_node| !ranks.is_multiple_of(*per_node)) {
        None => Ok(()),
        Some(per_node) => Err(format!(
            "{ranks} ranks do not fill nodes of {per_node}; choose a divisor of {ranks}"
        )),
    }
}

/// A file of steps, or why the verifier need not look at it.
pub type StepsRead = std::result::Result<Steps, Box<KnownInvalid>>;

/// Whether somebody said which ranks share a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nodes {
    /// Somebody did.
    Given,
    /// All ranks are taken to be on one node.
    Supposed,
}

/// Reads MSCCL XML for `runtime`, or for the one whose dialect it is; warnings about the writing
/// go to `warn`.
///
/// # Errors
///
/// It is no MSCCL XML.
pub fn from_xml(
    name: String,
    content: String,
    runtime: Option<RuntimeName>,
    nodes: Nodes,
    warn: &mut dyn FnMut(Warning),
) -> Result<StepsRead> {
    let read = xml::read(&content)
        .map_err(|error| Failure::at(&name, Some((error.line(), error.column())), &error))?;
    let xml::Read { algorithm, dialect, contradictions, demands, warnings, places } = read;
    for message in warnings {
        warn(Warning::Whole { file: name.clone(), message });
    }
    let given = runtime;
    let runtime = given.unwrap_or(match dialect {
        xml::Dialect::Msccl => RuntimeName::Msccl,
        xml::Dialect::Executor => RuntimeName::Executor,
    });
    let contradictions = contradictions.into_iter().chain(unmet(demands, runtime, given.is_none()));
    let contradictions: Vec<_> = contradictions.collect();
    if !contradictions.is_empty() {
        let fault = FileFault::Xml(contradictions);
        let (kind, target) = (FaultKind::Structure, runtime.target());
        return Ok(Err(Box::new(KnownInvalid { file: name, kind, fault, target })));
    }
    if nodes == Nodes::Supposed {
        warn_of_stalls(&name, &algorithm, runtime, warn);
    }
    let mut sources = SourceMap::new();
    let file = sources.add(name.clone(), content);
    let provenance = Provenance::Xml(XmlSource { sources, file, places });
    Ok(Ok(Steps { file: name, algorithm, provenance, runtime }))
}

/// Warns where the runtime carries nothing between nodes.
fn warn_of_stalls(
    name: &str,
    algorithm: &Algorithm,
    runtime: RuntimeName,
    warn: &mut dyn FnMut(Warning),
) {
    let rules = runtime.target().rules;
    if !rules.stalls_between_nodes(&algorithm.collective.kind, algorithm.protocol) {
        return;
    }
    let message = format!(
        "taken for ranks of one node: between nodes {} carries no broadcast and no reduce under \
         {}; `--per-node` says how many ranks share one",
        rules.runtime, algorithm.protocol
    );
    warn(Warning::Whole { file: name.to_owned(), message });
}

/// Reads the IR as JSON.
///
/// # Errors
///
/// It is none.
pub fn from_json(name: String, content: &str, runtime: Option<RuntimeName>) -> Result<Steps> {
    let algorithm = json::read(content)
        .map_err(|error| Failure::at(&name, error.line().zip(error.column()), &error))?;
    Ok(of_algorithm(name, algorithm, runtime))
}

/// Reads the IR as text.
///
/// # Errors
///
/// It is none.
pub fn from_text(name: String, content: &str, runtime: Option<RuntimeName>) -> Result<Steps> {
    let algorithm = text::parse(content)
        .map_err(|error| Failure::at(&name, Some((error.line, error.column)), &error))?;
    Ok(of_algorithm(name, algorithm, runtime))
}

fn of_algorithm(file: String, algorithm: Algorithm, runtime: Option<RuntimeName>) -> Steps {
    let runtime = runtime.unwrap_or(RuntimeName::Native);
    Steps { file, algorithm, provenance: Provenance::Steps, runtime }
}

/// Why `runtime` does not load the file. Ours demands less than the others. Where this runtime was
/// not requested and the other runtime does not load the file either, why not is said as well.
fn unmet(
    demands: Vec<xml::Demand>,
    runtime: RuntimeName,
    asks_any: bool,
) -> Vec<xml::Contradiction> {
    let own = match runtime {
        RuntimeName::Msccl => xml::Dialect::Msccl,
        RuntimeName::Executor => xml::Dialect::Executor,
        RuntimeName::Native => return Vec::new(),
    };
    let (of_target, of_other): (Vec<_>, Vec<_>) =
        demands.into_iter().partition(|demand| demand.dialect == own);
    let others = of_other.into_iter().filter(|_| asks_any && !of_target.is_empty());
    let others: Vec<_> = others.collect();
    of_target.into_iter().chain(others).map(|demand| demand.reason).collect()
}
