//! A plan as the text of a program. That of an exchange is written by `alltoall`, that of levels by
//! `levels`.

use std::collections::BTreeMap;
use std::fmt::Write;

use msccl_collective::CollectiveKind;

use crate::alltoall;
use crate::forest::{Forest, NestedTrees, Tree, TreeEdge, Trees};
use crate::layout::{BlockSpread, Layout, ONE_BLOCK, clauses};
use crate::levels;
use crate::plan::{Phase, Plan};

/// The program, without comments about what links carry.
pub fn program(plan: &Plan, layout: &Layout) -> String {
    let text = match &plan.phases[..] {
        [Phase::Exchange(exchange)] => alltoall::text(exchange, plan.ranks, layout),
        [Phase::Levels(levels)] => levels::text(levels, plan.kind, plan.ranks, layout),
        _ => Writer { plan, layout, directions: 0, trees: 0, out: String::new() }.written(),
    };
    // What is written here parses, so that the formatter has nothing to complain of.
    msccl_syntax::format(&text).unwrap_or(text)
}

struct Writer<'a> {
    plan: &'a Plan,
    layout: &'a Layout,
    /// Directions of the phases before this one: each has channels of its own.
    directions: u32,
    /// Trees of this phase so far.
    trees: u32,
    out: String,
}

/// Which functions a program needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Function {
    ReduceAlong,
    CopyAlong,
}

impl Writer<'_> {
    fn written(mut self) -> String {
        for phase in &self.plan.phases {
            for function in functions_of(phase) {
                self.line(&definition(*function, phase));
            }
        }
        let Plan { kind, ranks, chunks, .. } = self.plan;
        let (name, implements) = match kind {
            CollectiveKind::Broadcast(root) => {
                ("broadcast", format!("broadcast(root {}, chunks {chunks})", root.0))
            }
            CollectiveKind::Reduce(root) => {
                ("reduce", format!("reduce(root {}, chunks {chunks})", root.0))
            }
            // One block of an all-reduce is the whole buffer.
            CollectiveKind::AllReduce => {
                ("allreduce", format!("allreduce(chunks {})", chunks * ranks))
            }
            CollectiveKind::AllGather => ("allgather", format!("allgather(chunks {chunks})")),
            CollectiveKind::ReduceScatter => {
                ("reducescatter", format!("reducescatter(chunks {chunks})"))
            }
            CollectiveKind::AllToAll | CollectiveKind::Gather(_) | CollectiveKind::Scatter(_) => {
                ("other", kind.to_string())
            }
        };
        let clauses = clauses(self.layout);
        self.line(&format!(
            "algorithm {name}(ranks N = {ranks}) implements {implements} in place {clauses} {{"
        ));
        self.line(&format!("require N == {ranks}, \"these trees are for {ranks} ranks\""));
        for phase in &self.plan.phases {
            self.phase(phase);
        }
        self.line("}");
        self.out
    }

    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn phase(&mut self, phase: &Phase) {
        let (forest, title) = match phase {
            Phase::Reduce(forest) => (forest, "Sums go to the roots of trees."),
            Phase::Copy(forest) => (forest, "Data goes from the roots of trees."),
            Phase::Both(forest) => (forest, "Sums go to the roots of trees, and back from there."),
            // These are programs of their own.
            Phase::Exchange(_) | Phase::Levels(_) => return,
        };
        self.line("");
        self.line(&format!("// {title}"));
        self.line("// A tree is a list of parents, each with its children.");
        self.trees = 0;
        match &forest.trees {
            Trees::Listed(trees) => {
                for tree in trees {
                    self.tree(forest, tree, functions_of(phase));
                    self.trees += 1;
                }
            }
            Trees::Nested(nested) => self.nested(nested, functions_of(phase)),
        }
        self.directions += functions_of(phase).len() as u32;
    }

    /// Trees over nodes, then in nodes; sums go the other way.
    fn nested(&mut self, nested: &NestedTrees, functions: &[Function]) {
        let NestedTrees { nodes, per_node, across, within } = nested;
        self.line("// Over nodes, those of each root: its number, first chunk, chunks, tree");
        self.line(&format!("let across = {}", list_of(across)));
        self.line("// In every node, likewise");
        self.line(&format!("let within = {}", list_of(within)));
        let chunks = self.plan.chunks;
        let part =
            |first: &str| format!("let first = (node * {per_node} + local)*{chunks} + {first}\n");
        let spread = self.layout.spread;
        let all: usize = self.plan.phases.iter().map(|phase| functions_of(phase).len()).sum();
        for (direction, function) in (0..).zip(functions) {
            let name = function.name();
            let channel = |at: u32| match spread {
                BlockSpread::OneBlock => ONE_BLOCK.to_owned(),
                BlockSpread::Channels(channels) => {
                    let channels = channels.clamp(1, *per_node);
                    let of = 2 * (self.directions + direction) + at;
                    format!("on channel local % {channels} * {} + {of}", 2 * all)
                }
            };
            let over = format!(
                "for [node, from, count, tree] in across, local in 0..{per_node} {} {{\n{}\
                 {name}(tree, [n in 0..{nodes}: n * {per_node} + local], first..first+count)\n}}",
                channel(0),
                part("from"),
            );
            let inside = format!(
                "for n in 0..{nodes}, [local, from, count, tree] in within, node in 0..{nodes} \
                 {} {{\n{}{name}(tree, n * {per_node} .. (n + 1)*{per_node}, \
                 first..first+count)\n}}",
                channel(1),
                part("from"),
            );
            let ordered = match function {
                Function::ReduceAlong => [inside, over],
                Function::CopyAlong => [over, inside],
            };
            ordered.iter().for_each(|text| self.line(text));
        }
    }

    /// The hint for the trees of a direction of this phase.
    fn channel(&self, direction: u32) -> String {
        let BlockSpread::Channels(channels) = self.layout.spread else {
            return format!(" {ONE_BLOCK}");
        };
        let channels = channels.max(1);
        let all: usize = self.plan.phases.iter().map(|phase| functions_of(phase).len()).sum();
        if channels == 1 && all == 1 {
            return String::new();
        }
        let channel = self.trees % channels * all as u32 + self.directions + direction;
        format!(" on channel {channel}")
    }

    fn tree(&mut self, forest: &Forest, tree: &Tree, functions: &[Function]) {
        let first = self.first_chunk(tree);
        let part = format!("{first}..{}", first + tree.chunks);
        let list = list(tree);
        let height = tree.height();
        let edges = if height == 1 { "1 edge".to_owned() } else { format!("{height} edges") };
        self.line(&format!(
            "// Root {}: {} of {} chunks, over at most {edges}",
            tree.root, tree.chunks, forest.chunks
        ));
        match functions {
            [one] => {
                let hint = self.channel(0);
                self.line(&format!("{}({list}, {part}){hint}", one.name()));
            }
            several => {
                let name = format!("tree_{}_{}", tree.root, tree.first_chunk);
                self.line(&format!("let {name} = {list}"));
                for (direction, function) in (0..).zip(several) {
                    let hint = self.channel(direction);
                    self.line(&format!("{}({name}, {part}){hint}", function.name()));
                }
            }
        }
    }

    /// Of its chunks, in the whole buffer.
    fn first_chunk(&self, tree: &Tree) -> u32 {
        let Plan { kind, chunks, .. } = self.plan;
        match kind {
            CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllReduce
            | CollectiveKind::AllToAll => tree.root * chunks + tree.first_chunk,
            CollectiveKind::Broadcast(_)
            | CollectiveKind::Reduce(_)
            | CollectiveKind::Gather(_)
            | CollectiveKind::Scatter(_) => tree.first_chunk,
        }
    }
}

fn functions_of(phase: &Phase) -> &'static [Function] {
    match phase {
        Phase::Reduce(_) => &[Function::ReduceAlong],
        Phase::Copy(_) => &[Function::CopyAlong],
        Phase::Both(_) => &[Function::ReduceAlong, Function::CopyAlong],
        Phase::Exchange(_) | Phase::Levels(_) => &[],
    }
}

impl Function {
    fn name(self) -> &'static str {
        match self {
            Function::ReduceAlong => "reduce_along",
            Function::CopyAlong => "copy_along",
        }
    }
}

fn definition(function: Function, phase: &Phase) -> String {
    // Nested trees say which rank each of their numbers stands for.
    let (parameter, rank): (&str, fn(&str) -> String) = match phase.forest().map(|it| &it.trees) {
        Some(Trees::Nested(_)) => ("ranks, ", |of| format!("(ranks[{of}])")),
        Some(Trees::Listed(_)) | None => ("", str::to_owned),
    };
    let (parent, child) = (rank("parent"), rank("child"));
    match function {
        Function::ReduceAlong => format!(
            "// Every parent adds what its children have, so that the root gets the sum.
fn reduce_along(tree, {parameter}part) {{
    for [parent, children] in reverse(tree) {{
        input@{parent}[part] += sum(child in children: input@{child}[part])
    }}
}}
"
        ),
        Function::CopyAlong => format!(
            "// Every child gets what its parent has, so that all get what the root has.
fn copy_along(tree, {parameter}part) {{
    for [parent, children] in tree, child in children {{ \
             output@{child}[part] = output@{parent}[part] }}
}}
"
        ),
    }
}

/// `[[0, 0, 1, [[0, [1, 2]]]], …]`: root, first chunk, chunks, tree.
fn list_of(trees: &[Tree]) -> String {
    let one = |tree: &Tree| {
        let Tree { root, first_chunk, chunks, edges: _ } = tree;
        format!("[{root}, {first_chunk}, {chunks}, {}]", list(tree))
    };
    format!("[{}]", trees.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// `[[0, [1, 2]], [1, [3]]]`
fn list(tree: &Tree) -> String {
    let mut places: BTreeMap<u32, usize> = BTreeMap::new();
    let mut parents: Vec<(u32, Vec<u32>)> = Vec::new();
    for TreeEdge { parent, child } in &tree.edges {
        let at = *places.entry(*parent).or_insert_with(|| {
            parents.push((*parent, Vec::new()));
            parents.len() - 1
        });
        parents[at].1.push(*child);
    }
    let mut out = String::from("[");
    for (at, (parent, children)) in parents.iter().enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(out, "{separator}[{parent}, {children:?}]");
    }
    out.push(']');
    out
}
