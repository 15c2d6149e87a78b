//! Machines that are described rather than found: presets, files of ours, clusters of NCCL's files.

use msccl_topology::cluster::draw::draw;
use msccl_topology::cluster::presets::{Figure, PRESETS, Preset};
use msccl_topology::cluster::{Cluster, format};
use serde::Serialize;

use crate::args::{Format, TopoArgs};
use crate::artifact;
use crate::bound::words;
use crate::cluster;
use crate::draw::cluster::picture;
use crate::failure::Result;
use crate::output::Output;
use crate::table::{Align, Table};

/// Shows `cluster`, and what the figures of a preset are based on.
pub fn show(args: &TopoArgs, cluster: &Cluster, output: &mut Output) -> Result<()> {
    if let Some(path) = &args.svg {
        artifact::write_text(path, &picture(cluster))?;
    }
    let preset = args.cluster.machine.topo.as_deref().and_then(cluster::preset_of);
    match args.report.format {
        Format::Json => output.json(&ClusterJson::of(cluster, preset)),
        Format::Human => {
            draw(cluster).lines().for_each(|line| output.line(line));
            preset.iter().for_each(|preset| print_figures(preset, output));
        }
    }
    Ok(())
}

/// Lists all presets.
pub fn list(format: Format, output: &mut Output) {
    match format {
        Format::Json => {
            let all = PRESETS.iter().filter_map(|preset| Some((preset, preset.cluster()?)));
            let all: Vec<_> = all.map(|(preset, it)| PresetJson::of(preset, &it)).collect();
            output.json(&all);
        }
        Format::Human => {
            let columns = [("name", Align::Left), ("GPUs", Align::Right), ("", Align::Left)];
            let mut table = Table::new(&columns);
            for preset in PRESETS {
                let gpus = preset.cluster().map_or(0, |cluster| cluster.gpus().count());
                let cells = [preset.name.to_owned(), gpus.to_string()];
                table.row(cells.into_iter().chain([preset.description().to_owned()]));
            }
            table.lines().into_iter().for_each(|line| output.line(line));
            output.detail("");
            output.detail(
                "--topo NAME draws one and says where its figures are from; NAME*4 is four",
            );
        }
    }
}

fn print_figures(preset: &Preset, output: &mut Output) {
    let columns = [("links", Align::Left), ("rate", Align::Right)];
    let mut table =
        Table::new(&[&columns[..], &[("basis", Align::Left), ("", Align::Left)]].concat());
    for figure in preset.figures {
        let FigureJson { medium, gb_per_s, basis, source } = FigureJson::of(figure);
        table.row([medium.to_owned(), format!("{gb_per_s} GB/s"), basis, source.to_owned()]);
    }
    output.detail("");
    table.lines().into_iter().for_each(|line| output.detail(line));
}

/// A preset, for programs.
#[derive(Serialize)]
struct PresetJson {
    name: &'static str,
    gpus: usize,
    description: &'static str,
    figures: Vec<FigureJson>,
}

/// What a rate of a preset is based on.
#[derive(Serialize)]
struct FigureJson {
    medium: &'static str,
    gb_per_s: f64,
    basis: String,
    source: &'static str,
}

/// A cluster, for programs.
#[derive(Serialize)]
struct ClusterJson {
    name: String,
    vertices: Vec<VertexJson>,
    links: Vec<LinkJson>,
    /// The whole cluster, as a text of ours.
    text: String,
    figures: Vec<FigureJson>,
}

#[derive(Serialize)]
struct VertexJson {
    name: String,
    kind: &'static str,
    node: Option<u32>,
}

/// A link, in one direction.
#[derive(Serialize)]
struct LinkJson {
    from: String,
    to: String,
    medium: &'static str,
    gb_per_s: f64,
    latency_us: f64,
}

impl PresetJson {
    fn of(preset: &Preset, cluster: &Cluster) -> Self {
        let Preset { name, text: _, figures } = preset;
        Self {
            name,
            gpus: cluster.gpus().count(),
            description: preset.description(),
            figures: figures.iter().map(FigureJson::of).collect(),
        }
    }
}

impl FigureJson {
    fn of(figure: &Figure) -> Self {
        let Figure { medium, mb_per_s, basis, source } = *figure;
        let gb_per_s = f64::from(mb_per_s) / 1e3;
        Self { medium: medium.name(), gb_per_s, basis: basis.to_string(), source }
    }
}

impl ClusterJson {
    fn of(cluster: &Cluster, preset: Option<&Preset>) -> Self {
        let vertices = cluster.vertices().iter().map(|vertex| VertexJson {
            name: vertex.name.clone(),
            kind: vertex.kind.name(),
            node: vertex.node,
        });
        let name = |at| words::name(cluster, at).to_owned();
        let links = cluster.links().iter().map(|link| LinkJson {
            from: name(link.from),
            to: name(link.to),
            medium: link.medium.name(),
            gb_per_s: link.rate.gb_per_s(),
            latency_us: f64::from(link.latency_ns) / 1e3,
        });
        Self {
            name: cluster.name().to_owned(),
            vertices: vertices.collect(),
            links: links.collect(),
            text: format::print(cluster),
            figures: preset.map_or(&[][..], |it| it.figures).iter().map(FigureJson::of).collect(),
        }
    }
}
