//! `msccl topo`: how GPUs and NICs are joined.

mod machine;

use msccl_topology::{Topology, text, xml};
use serde::Serialize;

use crate::args::{Format, TopoArgs};
use crate::artifact;
use crate::draw;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::nvlinks;
use crate::output::Output;

/// Shows the topology of a file or of this machine, or a machine that is described.
pub fn topo(args: &TopoArgs, output: &mut Output) -> Result<Exit> {
    if args.list {
        machine::list(args.report.format, output);
        return Ok(Exit::Success);
    }
    if let Some(cluster) = args.cluster.cluster(output)? {
        machine::show(args, &cluster, output)?;
        return Ok(Exit::Success);
    }
    let mut no_nvlinks = None;
    let xml::Read { system, notes } = match &args.file {
        Some(file) => read(file)?,
        None => {
            let detected = nvlinks::detected();
            no_nvlinks = detected.no_nvlinks;
            xml::Read { system: detected.system, notes: Vec::new() }
        }
    };
    for note in &notes {
        let file = args.file.as_deref().unwrap_or_default();
        output.warn(format_args!("{file}, {note}"));
    }
    let topology = Topology::new(system);
    if let Some(path) = &args.svg {
        let picture = draw::svg::layers(&draw::topology::layers(&topology));
        artifact::write_text(path, &picture)?;
    }
    match args.report.format {
        Format::Json => output.json(&Report::of(&topology, &notes)),
        Format::Human => print(&topology, output),
    }
    if let Some(why) = no_nvlinks {
        output.warn(format_args!(
            "NVLinks are not known: {why}; a file made by NCCL_TOPO_DUMP_FILE has them"
        ));
    }
    Ok(Exit::Success)
}

fn read(file: &str) -> Result<xml::Read> {
    let Input { name, text } = Input::read(file)?;
    xml::read(&text).map_err(|error| {
        let place = Some((error.line(), error.column()));
        Failure::at(&name, place, &error)
    })
}

fn print(topology: &Topology, output: &mut Output) {
    text::tree(topology).lines().for_each(|line| output.line(line));
    output.line("");
    text::matrix(topology).lines().for_each(|line| output.line(line.trim_end()));
}

/// A topology, for programs.
#[derive(Serialize)]
struct Report {
    hosts: usize,
    /// What rows and columns of `paths` stand for.
    devices: Vec<String>,
    paths: Vec<Vec<PathReport>>,
    /// What of the file is not used, or not as it stands there.
    notes: Vec<String>,
    /// The whole description, as a topology file.
    xml: String,
}

/// A path, for programs.
#[derive(Serialize)]
struct PathReport {
    #[serde(rename = "type")]
    kind: &'static str,
    gb_per_s: f64,
}

impl Report {
    fn of(topology: &Topology, notes: &[xml::Note]) -> Self {
        let (nodes, devices): (Vec<_>, Vec<_>) = text::ends(topology).into_iter().unzip();
        let row = |from| {
            let paths = topology.paths(from, &nodes).into_iter();
            let one = |path: msccl_topology::Path| PathReport {
                kind: path.kind.name(),
                gb_per_s: path.bandwidth.gb_per_s(),
            };
            paths.map(one).collect()
        };
        let paths = nodes.iter().copied().map(row).collect();
        let notes = notes.iter().map(ToString::to_string).collect();
        let xml = xml::write(topology.system());
        Self { hosts: topology.hosts(), devices, paths, notes, xml }
    }
}
