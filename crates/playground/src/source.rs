//! From a text to an algorithm and what is known of it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use msccl_compiler::evaluate::{InstancesBy, Launch, NoFiles, algorithms};
use msccl_pages::content::Content;
use msccl_pages::diagnose::{Located, Warning};
use msccl_pages::failure::{Failure, Result};
use msccl_pages::machine::named;
use msccl_pages::program::evaluated;
use msccl_pages::repair::renames;
use msccl_pages::steps::{Nodes, RuntimeName, check_nodes, from_json, from_text, from_xml};
use msccl_pages::study::Study;
use msccl_pages::timeline::EstimateMachine;
use msccl_syntax::ast::ParamRole;
use msccl_syntax::{FileId, SourceMap};
use msccl_topology::cluster::Cluster;
use msccl_topology::cluster::counts::GpuCounts;
use msccl_topology::cluster::ranks::RankTopology;
use serde_json::{Value, json};

use crate::request::Source;

/// Most ranks of a program here: more take longer than somebody waits for an answer.
const MOST_RANKS: u32 = 1024;

/// A file that could be read.
pub struct Studied {
    /// What is known of it.
    pub study: Study,
    /// What reading it gave.
    pub warnings: Vec<Warning>,
}

thread_local! {
    /// The file of the last question: the next one is most often about the same.
    static LAST: RefCell<Option<(Source, Rc<Studied>)>> = const { RefCell::new(None) };
}

/// Compiles or reads `source`, and has it judged.
///
/// # Errors
///
/// It cannot be understood.
pub fn studied(source: &Source) -> Result<Rc<Studied>> {
    let known = LAST.with_borrow(|last| {
        let known = last.as_ref().filter(|(of, _)| of == source);
        known.map(|(_, studied)| Rc::clone(studied))
    });
    if let Some(known) = known {
        return Ok(known);
    }
    let mut warnings = Vec::new();
    let study = study(source, &mut |warning| warnings.push(warning))?;
    let studied = Rc::new(Studied { study, warnings });
    LAST.set(Some((source.clone(), Rc::clone(&studied))));
    Ok(studied)
}

fn study(source: &Source, warn: &mut dyn FnMut(Warning)) -> Result<Study> {
    let Source { name, text, per_node, target: runtime, .. } = source;
    let runtime = *runtime;
    let steps = match Content::of(text) {
        Content::Program => {
            let mut sources = SourceMap::new();
            let file = sources.add(name.clone(), text.clone());
            let launch = launch(source)?;
            let program = evaluated(name.clone(), sources, file, &NoFiles, &launch, warn)?;
            let target = runtime.unwrap_or(RuntimeName::Native).target();
            return Ok(Study::of_program(text.clone(), name.clone(), program, target));
        }
        Content::Xml => {
            let nodes = if per_node.is_some() { Nodes::Given } else { Nodes::Supposed };
            match from_xml(name.clone(), text.clone(), runtime, nodes, warn)? {
                Ok(steps) => steps,
                Err(invalid) => return Ok(Study::of_steps(text.clone(), Err(invalid))),
            }
        }
        Content::Json => from_json(name.clone(), text, runtime)?,
        Content::Text => from_text(name.clone(), text, runtime)?,
    };
    check_nodes(steps.algorithm.collective.ranks, *per_node).map_err(Failure::new)?;
    Ok(Study::of_steps(text.clone(), Ok(steps.on_nodes(*per_node))))
}

/// The machine of `source`, if one is named.
///
/// # Errors
///
/// There is no such machine.
pub fn cluster(source: &Source) -> Result<Option<Cluster>> {
    let nodes = source.nodes.unwrap_or(1);
    source.machine.as_deref().map(|name| named(name, nodes)).transpose()
}

/// The machine of estimates.
///
/// # Errors
///
/// There is no such machine.
pub fn machine(source: &Source) -> Result<EstimateMachine> {
    Ok(EstimateMachine { cluster: cluster(source)?, calibration: None })
}

fn launch(source: &Source) -> Result<Launch> {
    let cluster = cluster(source)?;
    let gpus = cluster.as_ref().map(GpuCounts::of).unwrap_or_default();
    let ranks = source.ranks.or(gpus.all);
    if let Some(many) = ranks.filter(|ranks| *ranks > MOST_RANKS) {
        return Err(Failure::new(format!(
            "expected at most {MOST_RANKS} ranks on a page, found {many}; the command has no such \
             limit"
        )));
    }
    Ok(Launch {
        algorithm: source.algorithm.clone(),
        ranks,
        per_node: source.per_node.or(gpus.per_node_of(ranks)),
        topology: cluster.as_ref().map(|cluster| Arc::new(RankTopology::of(cluster))),
        params: source.params.clone(),
        placement: None,
        protocol: None,
        sizes: None,
        instances: source.instances,
        instances_by: InstancesBy::Compiler,
        threads: None,
    })
}

/// What a text is, and the mistakes in it that show without a proof.
pub fn check(source: &Source) -> Value {
    let content = Content::of(&source.text);
    let mut diagnostics = Vec::new();
    let mut algorithms = Vec::new();
    if content == Content::Program {
        let mut sources = SourceMap::new();
        let file = sources.add(source.name.clone(), source.text.clone());
        algorithms = declared(&sources, file);
        let launch = launch(source);
        let warn = &mut |warning: Warning| diagnostics.push(warning.into_located());
        let checked = launch.and_then(|launch| {
            evaluated(source.name.clone(), sources, file, &NoFiles, &launch, warn)
        });
        if let Err(failure) = checked {
            diagnostics.extend(located(source, failure));
        }
    }
    let repairs = renames(&source.text, &source.name, &diagnostics);
    json!({
        "kind": kind(content), "diagnostics": diagnostics, "algorithms": algorithms,
        "repairs": repairs,
    })
}

/// The algorithms of a program, each with its parameters; none while it cannot be parsed.
fn declared(sources: &SourceMap, file: FileId) -> Vec<Value> {
    let found = algorithms(sources, file).unwrap_or_default();
    let all = found.iter().map(|algorithm| {
        let params = algorithm.params.iter().map(|param| {
            let role = match param.role {
                ParamRole::Plain => "plain",
                ParamRole::Ranks => "ranks",
                ParamRole::PerNode => "per_node",
            };
            json!({ "name": param.name, "default": param.default, "role": role })
        });
        json!({
            "name": algorithm.name, "collective": algorithm.collective,
            "params": params.collect::<Vec<_>>(), "doc": algorithm.doc,
        })
    });
    all.collect()
}

/// A failure as places in the text.
pub fn located(source: &Source, failure: Failure) -> Vec<Located> {
    match failure {
        Failure::Message(message) => vec![Located::of_file(&source.name, message)],
        Failure::Diagnostics { rendered: _, located } => located,
    }
}

/// The name of a format.
pub fn kind(content: Content) -> &'static str {
    match content {
        Content::Program => "program",
        Content::Xml => "xml",
        Content::Json => "json",
        Content::Text => "text",
    }
}
