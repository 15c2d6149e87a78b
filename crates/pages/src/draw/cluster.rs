//! A cluster as a picture: a band for each node, with its GPUs left, then switches, NICs and
//! networks; a curve for each link, or for both directions of one, wider the faster it is.

use std::collections::HashMap;

use msccl_topology::cluster::{Cluster, ClusterLink, Medium, Vertex, VertexIndex, VertexKind};

use super::svg::{Area, CHARACTER, Curve, MARGIN, Svg, TITLE};
use crate::bound::{title, words};

const BOX_HEIGHT: f64 = 18.0;
const BOX_GAP: f64 = 6.0;
const COLUMN_GAP: f64 = 90.0;
const BAND_GAP: f64 = 10.0;
/// How far curves between boxes of one column go to the side, for each box between them.
const SIDE_STEP: f64 = 12.0;
const MOST_SIDE: f64 = 70.0;

/// The picture of `cluster`.
pub fn picture(cluster: &Cluster) -> String {
    let layout = ClusterLayout::of(cluster);
    let mut svg = Svg::default();
    svg.text(MARGIN, MARGIN + 12.0, "title", title(cluster));
    layout.bands.iter().for_each(|(area, _)| svg.band(*area));
    for (area, name) in &layout.bands {
        svg.text(area.x + 4.0, area.y + 13.0, "row", name);
    }
    for edge in edges(cluster) {
        svg.curve(&layout.curve(cluster, &edge));
    }
    for (vertex, area) in cluster.vertices().iter().zip(&layout.areas) {
        svg.area(*area, color(vertex.kind), &format!("{}, {}", vertex.kind, vertex.name));
        svg.text(area.x + 5.0, area.y + 13.0, "", &vertex.name);
    }
    svg.document(layout.width, layout.height)
}

/// Where everything lies.
struct ClusterLayout {
    /// By vertex.
    areas: Vec<Area>,
    /// The background of each node, and its name.
    bands: Vec<(Area, String)>,
    width: f64,
    height: f64,
}

impl ClusterLayout {
    fn of(cluster: &Cluster) -> Self {
        let vertices = cluster.vertices();
        let longest = vertices.iter().map(|it| it.name.chars().count()).max().unwrap_or(0);
        let box_width = longest as f64 * CHARACTER + 10.0;
        let left = MARGIN + MOST_SIDE;
        let width = left + 4.0 * box_width + 3.0 * COLUMN_GAP + MARGIN;
        let mut nodes: Vec<Option<u32>> = vertices.iter().map(|it| it.node).collect();
        // What is in no node comes last.
        nodes.sort_by_key(|node| (node.is_none(), *node));
        nodes.dedup();
        let mut areas =
            vec![Area { x: 0.0, y: 0.0, width: box_width, height: BOX_HEIGHT }; vertices.len()];
        let (mut bands, mut top) = (Vec::new(), MARGIN + TITLE);
        for node in nodes {
            let mut taken = [0_u32; 4];
            for (vertex, area) in vertices.iter().zip(&mut areas).filter(|(it, _)| it.node == node)
            {
                let column = column(vertex);
                area.x = left + column as f64 * (box_width + COLUMN_GAP);
                area.y = top + 18.0 + f64::from(taken[column]) * (BOX_HEIGHT + BOX_GAP);
                taken[column] += 1;
            }
            let rows = f64::from(taken.into_iter().max().unwrap_or(0));
            let height = 18.0 + rows * (BOX_HEIGHT + BOX_GAP);
            let name =
                node.map_or_else(|| "between nodes".to_owned(), |node| format!("node {node}"));
            let band = Area { x: MARGIN, y: top, width: width - 2.0 * MARGIN, height };
            bands.push((band, name));
            top += height + BAND_GAP;
        }
        Self { areas, bands, width, height: top + MARGIN }
    }

    fn curve(&self, cluster: &Cluster, edge: &Edge) -> Curve {
        let Edge { link, both } = edge;
        let ends = [link.from, link.to].map(|end| self.areas[end.index()]);
        let [from, to] = if ends[0].x <= ends[1].x { ends } else { [ends[1], ends[0]] };
        let middle = |area: Area| area.y + area.height / 2.0;
        let names = [link.from, link.to].map(|end| words::name(cluster, end));
        let sign = if *both { "-" } else { ">" };
        let rate = words::rate(link.rate);
        let latency_us = f64::from(link.latency_ns) / 1e3;
        let detail =
            format!("{} {sign} {}: {} {rate}, {latency_us} us", names[0], names[1], link.medium);
        let same_column = from.x == to.x;
        let apart = (from.y - to.y).abs() / (BOX_HEIGHT + BOX_GAP);
        let side = if same_column { -(SIDE_STEP * apart).min(MOST_SIDE) } else { COLUMN_GAP / 2.0 };
        let start = if same_column { from.x } else { from.x + from.width };
        Curve {
            from: (start, middle(from)),
            to: (to.x, middle(to)),
            bends: if same_column { (side, side) } else { (side, -side) },
            color: medium_color(link.medium),
            width: (1.0 + (link.rate.gb_per_s() / 12.5).max(1.0).log2() / 2.0).min(4.0),
            detail,
        }
    }
}

/// A link, or two in opposite directions that are alike.
struct Edge {
    link: ClusterLink,
    both: bool,
}

fn edges(cluster: &Cluster) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::new();
    let mut single: HashMap<(VertexIndex, VertexIndex, Medium, u32, u32), Vec<usize>> =
        HashMap::new();
    for link in cluster.links() {
        let ClusterLink { from, to, rate, latency_ns, medium } = *link;
        let rate = rate.mb_per_s();
        let back = single.get_mut(&(to, from, medium, rate, latency_ns)).and_then(Vec::pop);
        if let Some(at) = back {
            edges[at].both = true;
            continue;
        }
        single.entry((from, to, medium, rate, latency_ns)).or_default().push(edges.len());
        edges.push(Edge { link: *link, both: false });
    }
    edges
}

fn column(vertex: &Vertex) -> usize {
    match vertex.kind {
        VertexKind::Gpu => 0,
        VertexKind::Switch => 1,
        VertexKind::Nic => 2,
        VertexKind::Network => 3,
    }
}

fn color(kind: VertexKind) -> &'static str {
    match kind {
        VertexKind::Gpu => "#d3efd7",
        VertexKind::Switch => "#dbe7f5",
        VertexKind::Nic => "#fbe3b8",
        VertexKind::Network => "#e5daf3",
    }
}

fn medium_color(medium: Medium) -> &'static str {
    match medium {
        Medium::NvLink => "#4f9d5d",
        Medium::Xgmi => "#b0572f",
        Medium::Pci => "#4a6fa5",
        Medium::Socket => "#8a8a8a",
        Medium::Cable => "#8459a8",
    }
}
