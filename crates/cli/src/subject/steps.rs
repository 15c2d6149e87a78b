//! Algorithms that are already scheduled: what options can still say about them.

use msccl_collective::Placement;
use msccl_interchange::xml;
use msccl_ir::Algorithm;
use msccl_syntax::SourceMap;
use msccl_verify::FaultKind;

use super::{FileFault, KnownInvalid, Loaded, Provenance, Subject, XmlSource};
use crate::args::{LaunchArgs, TargetName};
use crate::diagnose::Warning;
use crate::failure::{Failure, Result};
use crate::input::Input;

/// Reads MSCCL XML; warnings about the writing go to `warn`.
pub fn from_xml(
    input: Input,
    launch: &LaunchArgs,
    target: Option<TargetName>,
    warn: &mut dyn FnMut(Warning),
) -> Result<Loaded> {
    let read = xml::read(&input.text)
        .map_err(|error| Failure::at(&input.name, Some((error.line(), error.column())), &error))?;
    let xml::Read { algorithm, dialect, contradictions, demands, warnings, places } = read;
    for message in warnings {
        warn(Warning::Whole { file: input.name.clone(), message });
    }
    let given = target;
    let target = given.unwrap_or(match dialect {
        xml::Dialect::Msccl => TargetName::Msccl,
        xml::Dialect::Executor => TargetName::Executor,
    });
    let contradictions = contradictions.into_iter().chain(unmet(demands, target, given.is_none()));
    let contradictions: Vec<_> = contradictions.collect();
    if contradictions.is_empty() {
        let rules = target.target().rules;
        let stalls = rules.stalls_between_nodes(&algorithm.collective.kind, algorithm.protocol);
        if stalls && launch.per_node.is_none() {
            warn(Warning::Whole {
                file: input.name.clone(),
                message: format!(
                    "taken for ranks of one node: between nodes {} carries no broadcast and no \
                     reduce under {}; `--per-node` says how many ranks share one",
                    rules.runtime, algorithm.protocol
                ),
            });
        }
        let mut sources = SourceMap::new();
        let file = sources.add(input.name.clone(), input.text);
        let provenance = Provenance::Xml(XmlSource { sources, file, places });
        return from_steps(input.name, algorithm, provenance, launch, target);
    }
    Ok(Err(Box::new(KnownInvalid {
        file: input.name,
        kind: FaultKind::Structure,
        fault: FileFault::Xml(contradictions),
        target: target.target(),
    })))
}

/// Why `target` does not load the file. Ours demands less than the others. Where this target was
/// not requested and the other runtime does not load the file either, why not is said as well.
fn unmet(demands: Vec<xml::Demand>, target: TargetName, asks_any: bool) -> Vec<xml::Contradiction> {
    let own = match target {
        TargetName::Msccl => xml::Dialect::Msccl,
        TargetName::Executor => xml::Dialect::Executor,
        TargetName::Native => return Vec::new(),
    };
    let (of_target, of_other): (Vec<_>, Vec<_>) =
        demands.into_iter().partition(|demand| demand.dialect == own);
    let others = of_other.into_iter().filter(|_| asks_any && !of_target.is_empty());
    let others: Vec<_> = others.collect();
    of_target.into_iter().chain(others).map(|demand| demand.reason).collect()
}

/// An algorithm as a file has it, adapted to the options.
pub fn from_steps(
    file: String,
    mut algorithm: Algorithm,
    provenance: Provenance,
    launch: &LaunchArgs,
    target: TargetName,
) -> Result<Loaded> {
    adapt(&mut algorithm, launch).map_err(|reason| Failure::new(format!("{file}: {reason}")))?;
    let per_node = launch.per_node.unwrap_or(algorithm.collective.ranks);
    let target = target.target().on_nodes(per_node);
    Ok(Ok(Subject { file, algorithm, per_node, provenance, target }))
}

/// Applies the options that make sense for an algorithm that is already scheduled.
fn adapt(algorithm: &mut Algorithm, launch: &LaunchArgs) -> std::result::Result<(), String> {
    let LaunchArgs {
        define,
        ranks,
        per_node,
        algorithm: name,
        collective,
        instances,
        protocol,
        placement,
        // What is scheduled does not ask; those who estimate do.
        cluster: _,
    } = launch;
    let for_programs = [
        ("--define", !define.is_empty()),
        ("--ranks", ranks.is_some_and(|ranks| ranks != algorithm.collective.ranks)),
        ("--algorithm", name.as_ref().is_some_and(|name| *name != algorithm.name)),
        ("--instances", instances.is_some()),
        ("--protocol", protocol.is_some_and(|protocol| protocol != algorithm.protocol)),
    ];
    if let Some((option, _)) = for_programs.into_iter().find(|(_, given)| *given) {
        return Err(format!(
            "this file holds a finished algorithm, which {option} cannot change; give it the \
             program instead"
        ));
    }
    let ranks = algorithm.collective.ranks;
    if let Some(per_node) = per_node.filter(|per_node| !ranks.is_multiple_of(*per_node)) {
        return Err(format!(
            "{ranks} ranks do not fill nodes of {per_node}; choose a divisor of {ranks}"
        ));
    }
    if let Some(name) = collective {
        crate::collective::claim(&mut algorithm.collective, name)?;
    }
    match placement.map(|placement| placement.placement()) {
        None => Ok(()),
        Some(requested)
            if algorithm.placement == requested || algorithm.placement == Placement::Both =>
        {
            algorithm.placement = requested;
            Ok(())
        }
        Some(requested) => {
            Err(format!("this algorithm runs {}, not {requested}", algorithm.placement))
        }
    }
}
