//! Algorithms that are already scheduled: what options can still say about them.

use msccl_collective::Placement;
use msccl_ir::Algorithm;
use msccl_pages::steps::{Steps, check_nodes};
use msccl_pages::subject::Subject;

use crate::args::LaunchArgs;
use crate::failure::{Failure, Result};

/// An algorithm as a file has it, adapted to the options.
pub fn adapted(mut steps: Steps, launch: &LaunchArgs) -> Result<Subject> {
    adapt(&mut steps.algorithm, launch)
        .map_err(|reason| Failure::new(format!("{}: {reason}", steps.file)))?;
    Ok(steps.on_nodes(launch.per_node))
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
    check_nodes(algorithm.collective.ranks, *per_node)?;
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
