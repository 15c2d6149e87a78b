//! From a cluster to its text.

use std::collections::HashMap;
use std::fmt;

use super::super::group::{Direction, Group, Joint, LinkFacts, Pairing, groups};
use super::super::nodes::EqualNodes;
use super::super::pattern::{common, split_number, stem};
use super::super::{Cluster, ClusterLink, Vertex, VertexIndex};
use super::declare::Numbering;
use super::quantity::Thousandths;

/// The text of `cluster`, from which [`parse`](super::parse) makes it again.
pub fn print(cluster: &Cluster) -> String {
    let title: String = cluster.name.chars().filter(|it| *it != '"' && !it.is_control()).collect();
    let head = if title.is_empty() { String::new() } else { format!("cluster \"{title}\"\n\n") };
    head + &lines(cluster).to_string()
}

/// A cluster as lines.
#[derive(Default)]
pub(in super::super) struct Lines {
    all: Vec<Line>,
}

/// A line of a text.
enum Line {
    /// What is no link.
    Plain { depth: usize, text: String },
    /// Links.
    Link { depth: usize, ends: String, facts: String },
}

/// Longest left side of a link that others are aligned with.
const MOST_ALIGNED: usize = 48;

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |line: &Line| match line {
            Line::Plain { .. } => None,
            Line::Link { depth, ends, facts: _ } => Some(INDENT * depth + ends.len()),
        };
        let width = self.all.iter().filter_map(width).filter(|it| *it <= MOST_ALIGNED).max();
        let width = width.unwrap_or(0);
        for line in &self.all {
            match line {
                Line::Plain { depth, text } => writeln!(f, "{:1$}{text}", "", INDENT * depth)?,
                Line::Link { depth, ends, facts } => {
                    let ends = format!("{:1$}{ends}", "", INDENT * depth);
                    writeln!(f, "{ends:<width$}  {facts}")?;
                }
            }
        }
        Ok(())
    }
}

/// Spaces before a statement of a node.
const INDENT: usize = 4;

/// The statements of `cluster`; of equal nodes, those of one.
pub(in super::super) fn lines(cluster: &Cluster) -> Lines {
    let mut out = Lines::default();
    let Some(equal) = EqualNodes::of(cluster) else {
        out.parts(cluster);
        return out;
    };
    let EqualNodes { count, one, lead, lead_links } = &equal;
    let (before, inside) = one.vertices.split_at(*lead);
    let (links_before, links_inside) = one.links.split_at(*lead_links);
    let mut numbering = Numbering::default();
    out.declarations(0, before, &mut numbering);
    out.links(0, links_before, before);
    out.plain(0, format!("node * {count} {{"));
    out.declarations(1, inside, &mut Numbering::default());
    out.links(1, links_inside, &one.vertices);
    out.plain(0, "}".to_owned());
    let (vertices, links) = equal.rest(cluster);
    let inside = cluster.vertices.iter().filter(|vertex| vertex.node.is_some());
    inside.for_each(|vertex| numbering.add(&vertex.name));
    out.declarations(0, vertices, &mut numbering);
    out.links(0, links, &cluster.vertices);
    out
}

impl Lines {
    fn plain(&mut self, depth: usize, text: String) {
        self.all.push(Line::Plain { depth, text });
    }

    /// Vertices in their order; links of a node with itself and with what is there already in its
    /// block, as far as the order of links permits.
    fn parts(&mut self, cluster: &Cluster) {
        let (mut rest, mut links) = (cluster.vertices.as_slice(), cluster.links.as_slice());
        let (mut numbering, mut next_node) = (Numbering::default(), 0);
        while let Some(first) = rest.first() {
            let size = rest.iter().take_while(|vertex| vertex.node == first.node).count();
            let (here, after) = rest.split_at(size);
            rest = after;
            let Some(node) = first.node else {
                self.declarations(0, here, &mut numbering);
                continue;
            };
            let number = if node == next_node { String::new() } else { format!(" {node}") };
            next_node = next_node.max(node.saturating_add(1));
            self.plain(0, format!("node{number} {{"));
            self.declarations(1, here, &mut numbering);
            let done = cluster.vertices.len() - after.len();
            let of_node = |link: &&ClusterLink| {
                let ends = [link.from, link.to].map(VertexIndex::index);
                ends.iter().all(|end| *end < done) && ends.iter().any(|end| *end >= done - size)
            };
            let (inside, outside) = links.split_at(links.iter().take_while(of_node).count());
            self.links(1, inside, cluster.vertices.get(..done).unwrap_or_default());
            self.plain(0, "}".to_owned());
            links = outside;
        }
        self.links(0, links, &cluster.vertices);
    }

    /// Vertices of one node, or of none.
    fn declarations(&mut self, depth: usize, vertices: &[Vertex], numbering: &mut Numbering) {
        for same in vertices.chunk_by(|one, other| one.kind == other.kind) {
            let Some(first) = same.first() else { continue };
            let mut text = first.kind.name().to_owned();
            let mut rest = same;
            while let Some(vertex) = rest.first() {
                let count = counted(rest, numbering);
                let base = split_number(&vertex.name).map(|(base, _)| base);
                let is_all = count > 1 && base == Some(first.kind.name()) && count == same.len();
                let (added, taken) = match base {
                    Some(_) if is_all => (format!(" * {count}"), count),
                    Some(base) if count > 1 => (format!(" {base} * {count}"), count),
                    Some(_) | None => (format!(" {}", vertex.name), 1),
                };
                text.push_str(&added);
                let (here, after) = rest.split_at(taken);
                here.iter().for_each(|vertex| numbering.add(&vertex.name));
                rest = after;
            }
            self.plain(depth, text);
        }
    }

    /// Links between vertices of which `known` have been added.
    fn links(&mut self, depth: usize, links: &[ClusterLink], known: &[Vertex]) {
        let names = Names::new(known);
        let joints = Joint::of_all(links);
        for group in groups(&joints, |list| names.is_short(list)) {
            let Group { left, right, pairing, direction, facts } = group;
            let sign = match direction {
                Direction::Both => "-",
                Direction::There => ">",
            };
            let pairwise = match pairing {
                Pairing::Each => "",
                Pairing::Pairwise => " pairwise",
            };
            let ends = format!("{} {sign} {}{pairwise}", names.list(&left), names.list(&right));
            self.all.push(Line::Link { depth, ends, facts: describe(facts) });
        }
    }
}

/// How many of `vertices`, from the first on, `BASE * COUNT` adds.
fn counted(vertices: &[Vertex], numbering: &Numbering) -> usize {
    let Some((base, first)) = vertices.first().and_then(|it| split_number(&it.name)) else {
        return 0;
    };
    let fits =
        |(number, vertex): &(u32, &Vertex)| split_number(&vertex.name) == Some((base, *number));
    let count = (first..).zip(vertices).take_while(fits).count();
    if numbering.next(base) == first { count } else { 0 }
}

fn describe(facts: LinkFacts) -> String {
    let LinkFacts { medium, rate, latency_ns } = facts;
    let latency = match latency_ns {
        0 => String::new(),
        _ => format!("  {} us", Thousandths(latency_ns)),
    };
    format!("{medium} {} GB/s{latency}", Thousandths(rate.mb_per_s()))
}

/// The names of the vertices that have been added.
struct Names<'a> {
    vertices: &'a [Vertex],
    /// By the text before the first number, so that few are compared.
    alike: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> Names<'a> {
    fn new(vertices: &'a [Vertex]) -> Self {
        let mut alike: HashMap<&str, Vec<&str>> = HashMap::new();
        for vertex in vertices {
            alike.entry(stem(&vertex.name)).or_default().push(&vertex.name);
        }
        Self { vertices, alike }
    }

    fn of(&self, list: &[VertexIndex]) -> Vec<&'a str> {
        let name = |at: &VertexIndex| self.vertices.get(at.index()).map(|it| it.name.as_str());
        list.iter().filter_map(name).collect()
    }

    /// Whether a pattern spells the list at a glance: all of a name, or at least three in a row.
    fn is_short(&self, list: &[VertexIndex]) -> bool {
        let pattern = self.common(&self.of(list));
        pattern.is_some_and(|pattern| list.len() > 2 || !pattern.contains('['))
    }

    fn common(&self, names: &[&str]) -> Option<String> {
        common(names, self.alike.get(stem(names.first()?))?)
    }

    /// The names of `list`, each stretch of them that a pattern spells as that pattern.
    fn list(&self, list: &[VertexIndex]) -> String {
        let names = self.of(list);
        let mut out = Vec::new();
        for part in names.chunk_by(|one, other| shape(one) == shape(other)) {
            match self.common(part) {
                Some(pattern) => out.push(pattern),
                None => out.extend(part.iter().map(|name| (*name).to_owned())),
            }
        }
        out.join(" ")
    }
}

/// The name without its numbers.
fn shape(name: &str) -> String {
    name.chars().filter(|it| !it.is_ascii_digit()).collect()
}
