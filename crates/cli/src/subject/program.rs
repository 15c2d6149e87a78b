//! Programs as the options request them.

use std::path::Path;
use std::sync::Arc;

use msccl_compiler::evaluate::{InstancesBy, Launch, algorithms};
use msccl_pages::program::{self, Program};
use msccl_syntax::{FileId, SourceMap};
use msccl_topology::cluster::counts::GpuCounts;
use msccl_topology::cluster::ranks::RankTopology;

use crate::args::{LaunchArgs, PlacementName};
use crate::diagnose::Warning;
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::loader::{FileSystem, canonical_name};

/// Evaluates the program in `input`. What is allowed but hardly meant goes to `warn`.
///
/// # Errors
///
/// Its diagnostics, with excerpts.
pub fn evaluated(
    input: Input,
    launch: &LaunchArgs,
    warn: &mut dyn FnMut(Warning),
) -> Result<Program> {
    let Input { name, text } = input;
    let mut sources = SourceMap::new();
    let canonical = canonical_name(Path::new(&name));
    let file = sources.add(canonical, text);
    let launch = requested(&sources, file, launch, warn)?;
    program::evaluated(name, sources, file, &FileSystem, &launch, warn)
}

/// What the options request of the compiler.
///
/// # Errors
///
/// `--collective` names one that no algorithm of the file implements, or there is no such cluster.
fn requested(
    sources: &SourceMap,
    file: FileId,
    args: &LaunchArgs,
    warn: &mut dyn FnMut(Warning),
) -> Result<Launch> {
    let LaunchArgs {
        define,
        ranks,
        per_node,
        algorithm,
        collective,
        instances,
        protocol,
        placement,
        cluster,
    } = args;
    let algorithm = match (algorithm, collective) {
        (None, Some(collective)) => Some(implementing(sources, file, collective)?),
        (named, _) => named.clone(),
    };
    let cluster = cluster.cluster_warning(warn)?;
    let gpus = cluster.as_ref().map(GpuCounts::of).unwrap_or_default();
    let ranks = ranks.or(gpus.all);
    Ok(Launch {
        algorithm,
        ranks,
        per_node: per_node.or(gpus.per_node_of(ranks)),
        topology: cluster.as_ref().map(|cluster| Arc::new(RankTopology::of(cluster))),
        params: define.iter().map(|setting| (setting.name.clone(), setting.value)).collect(),
        placement: placement.map(PlacementName::placement),
        protocol: *protocol,
        sizes: None,
        instances: *instances,
        instances_by: InstancesBy::Compiler,
        threads: None,
    })
}

/// The last algorithm of `file` that implements `collective`.
fn implementing(sources: &SourceMap, file: FileId, collective: &str) -> Result<String> {
    let found = algorithms(sources, file)
        .map_err(|diagnostics| Failure::diagnostics(sources, &diagnostics))?;
    let fitting = found.iter().rev().find(|algorithm| algorithm.collective == collective);
    fitting.map(|algorithm| algorithm.name.clone()).ok_or_else(|| {
        let mut offered: Vec<_> =
            found.iter().map(|algorithm| algorithm.collective.as_str()).collect();
        offered.dedup();
        Failure::new(format!(
            "{}: no algorithm here implements {collective}, only {}",
            sources.name(file),
            offered.join(", ")
        ))
    })
}
