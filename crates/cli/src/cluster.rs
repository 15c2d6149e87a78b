//! The machine that the options `--topo`, `--nodes`, `--without` and `--slow` describe.
//!
//! What `--topo` says is the name of a preset, with `*4` behind it for four nodes, or `this` for
//! the machine at hand; otherwise a file, whose first character distinguishes an NCCL topology file
//! (`<`) from a text of ours. Links are taken away and slowed last, under the names that they have
//! after nodes are repeated.

use std::collections::HashSet;

use msccl_topology::cluster::presets::{PRESETS, Preset};
use msccl_topology::cluster::repeat::repeat;
use msccl_topology::cluster::{Cluster, degrade, format, from_topology};
use msccl_topology::{Topology, xml};

use crate::args::{ClusterArgs, LaunchArgs, MachineArgs};
use crate::diagnose::Warning;
use crate::failure::{Failure, Result};
use crate::input::{self, Content, Input};
use crate::nvlinks::{self, Detected};
use crate::output::Output;

impl ClusterArgs {
    /// The cluster, if `--topo` is given. What of a file is not used goes to `output`.
    ///
    /// # Errors
    ///
    /// There is no such preset, the file is no cluster, or the other options do not fit it.
    pub fn cluster(&self, output: &mut Output) -> Result<Option<Cluster>> {
        let ClusterArgs { machine, nodes } = self;
        machine.cluster(*nodes, output)
    }

    /// The same; what of a file is not used goes to `warn`.
    ///
    /// # Errors
    ///
    /// As [`ClusterArgs::cluster`].
    pub fn cluster_warning(&self, warn: &mut dyn FnMut(Warning)) -> Result<Option<Cluster>> {
        let ClusterArgs { machine, nodes } = self;
        machine.cluster_warning(*nodes, warn)
    }
}

impl MachineArgs {
    /// The cluster of so many `nodes`, if `--topo` is given.
    ///
    /// # Errors
    ///
    /// There is no such preset, the file is no cluster, or the other options do not fit it.
    pub fn cluster(&self, nodes: Option<u32>, output: &mut Output) -> Result<Option<Cluster>> {
        self.cluster_warning(nodes, &mut |warning| output.warn(warning))
    }

    fn cluster_warning(
        &self,
        nodes: Option<u32>,
        warn: &mut dyn FnMut(Warning),
    ) -> Result<Option<Cluster>> {
        let MachineArgs { topo, without, slow, calibration: _, known } = self;
        let Some(what) = topo else { return Ok(None) };
        if let Some(cluster) = known.get() {
            return Ok(Some(cluster.clone()));
        }
        let (single, count) = match what.as_str() {
            THIS => (of_this_machine(warn)?, None),
            _ => match Named::of(what)? {
                Some(Named { preset, count }) => (of_preset(preset)?, count),
                None => (of_file(what, warn)?, None),
            },
        };
        let count = match (count, nodes) {
            (Some(count), Some(nodes)) => {
                return Err(Failure::new(format!(
                    "expected one number of nodes, found {count} in --topo {what} and {nodes} in \
                     --nodes; leave one of them out"
                )));
            }
            (count, nodes) => count.or(nodes).unwrap_or(1),
        };
        let mut cluster =
            repeat(&single, count).map_err(|error| Failure::new(format!("{what}: {error}")))?;
        for links in without {
            cluster = degrade::without(&cluster, links)
                .map_err(|error| Failure::new(format!("--without: {error}")))?;
        }
        for part in slow {
            cluster = degrade::slow(&cluster, part)
                .map_err(|error| Failure::new(format!("--slow: {error}")))?;
        }
        Ok(Some(known.get_or_init(|| cluster).clone()))
    }
}

/// `launch` for a file of steps, with nodes as those of `cluster` if it does not say what they are.
pub fn steps_on(cluster: &Cluster, launch: &LaunchArgs) -> LaunchArgs {
    let gpus = cluster.gpus().count() as u32;
    let several = per_node(cluster).filter(|per_node| *per_node < gpus);
    LaunchArgs { per_node: launch.per_node.or(several), ..launch.clone() }
}

/// How many GPUs each node has, if all have as many, and their ranks are neighbours.
pub fn per_node(cluster: &Cluster) -> Option<u32> {
    let nodes: Vec<_> = cluster.gpus().map(|at| cluster.vertices()[at.index()].node).collect();
    let sizes: Vec<usize> = nodes.chunk_by(|one, other| one == other).map(<[_]>::len).collect();
    let different = nodes.iter().collect::<HashSet<_>>().len();
    let first = *sizes.first()?;
    let equal = different == sizes.len() && sizes.iter().all(|size| *size == first);
    equal.then_some(first as u32)
}

/// What `--topo` calls the machine at hand.
const THIS: &str = "this";

/// The machine at hand.
fn of_this_machine(warn: &mut dyn FnMut(Warning)) -> Result<Cluster> {
    let Detected { system, no_nvlinks } = nvlinks::detected();
    let cluster = from_topology::from_topology(&Topology::new(system));
    if cluster.gpus().next().is_none() {
        return Err(Failure::new(
            "--topo this: this machine has no GPU; name one, such as hgx-h100-8 (`msccl topo \
             --list`)",
        ));
    }
    if let Some(why) = no_nvlinks {
        let message = format!("NVLinks are not known: {why}; estimates are without them");
        warn(Warning::Whole { file: THIS.to_owned(), message });
    }
    Ok(cluster)
}

/// A preset, and how many of it.
#[derive(Debug)]
struct Named {
    preset: &'static Preset,
    count: Option<u32>,
}

impl Named {
    /// What `what` names; `None` if it is for a file.
    fn of(what: &str) -> Result<Option<Self>> {
        let (name, count) = match what.split_once('*') {
            Some((name, count)) => (name, Some(count)),
            None => (what, None),
        };
        let Some(preset) = PRESETS.iter().find(|preset| preset.name == name) else {
            let is_file = what.contains(['.', '/']) || what == input::STDIN;
            let is_file = is_file || input::open(what).is_ok();
            return if is_file { Ok(None) } else { Err(unknown(name)) };
        };
        let Some(count) = count else { return Ok(Some(Self { preset, count: None })) };
        let parsed = count.trim().parse().map_err(|_| {
            let expected = format!("expected a whole number of nodes behind `{name}*`");
            Failure::new(format!(
                "--topo: {expected}, found `{count}`; write for instance {name}*4"
            ))
        })?;
        Ok(Some(Self { preset, count: Some(parsed) }))
    }
}

/// The preset that `what` names, however many of it.
pub fn preset_of(what: &str) -> Option<&'static Preset> {
    Named::of(what).ok().flatten().map(|named| named.preset)
}

fn unknown(name: &str) -> Failure {
    let near = near(name);
    let names = near.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ");
    let kind = if near.len() < PRESETS.len() { "such as" } else { "one of" };
    Failure::new(format!(
        "--topo: expected the name of a machine, {kind} {names}, or a file, which has a `.` or a \
         `/` in its name, found `{name}`; `msccl topo --list` lists all names"
    ))
}

/// Presets with a part of `name`, or with its beginning; all if it is like none.
fn near(name: &str) -> Vec<&'static Preset> {
    /// Letters that say something.
    const LEAST: usize = 3;
    let name = name.to_lowercase();
    let parts = |text: &str| {
        let long = text.split(['-', '_', ' ']).filter(|part| part.len() >= LEAST);
        long.map(str::to_owned).collect::<Vec<_>>()
    };
    let named = parts(&name);
    let start: String = name.chars().take(LEAST).collect();
    let is_near = |preset: &&Preset| {
        let shares = parts(preset.name).iter().any(|part| named.contains(part));
        shares || (start.len() >= LEAST && preset.name.starts_with(&start))
    };
    let near: Vec<_> = PRESETS.iter().filter(is_near).collect();
    if near.is_empty() { PRESETS.iter().collect() } else { near }
}

fn of_preset(preset: &Preset) -> Result<Cluster> {
    format::parse(preset.text).map_err(|error| {
        let place = Some((error.line(), error.column()));
        Failure::at(preset.name, place, &error)
    })
}

fn of_file(path: &str, warn: &mut dyn FnMut(Warning)) -> Result<Cluster> {
    let input = Input::read(path)?;
    let Input { name, text } = &input;
    if input.content_by_looks() == Content::Xml {
        let read = xml::read(text)
            .map_err(|error| Failure::at(name, Some((error.line(), error.column())), &error))?;
        for note in &read.notes {
            warn(Warning::Whole { file: name.clone(), message: note.to_string() });
        }
        return Ok(from_topology::from_topology(&Topology::new(read.system)));
    }
    format::parse(text)
        .map_err(|error| Failure::at(name, Some((error.line(), error.column())), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_share_a_part_or_a_beginning() {
        let check = |name: &str, expected: &[&str]| {
            let found: Vec<_> = near(name).iter().map(|preset| preset.name).collect();
            assert_eq!(found, expected, "{name}");
        };
        check("ndv6", &["ndv2", "ndv4", "ndv5"]);
        check("MI300X", &["mi300x-8"]);
        check("dgx_a100", &["dgx-a100", "dgx1-v100", "dgx-2"]);
        assert_eq!(near("moon").len(), PRESETS.len());
        assert_eq!(near("").len(), PRESETS.len());
    }

    #[test]
    fn counts_stand_behind_names() {
        let count = |what: &str| Named::of(what).unwrap().unwrap().count;
        assert_eq!((count("ndv5"), count("ndv5*4")), (None, Some(4)));
        let error = Named::of("ndv5*x").unwrap_err().to_string();
        assert!(error.contains("expected a whole number of nodes behind `ndv5*`"), "{error}");
        assert!(Named::of("some.cluster").unwrap().is_none());
        assert!(Named::of("moon").is_err());
    }
}
