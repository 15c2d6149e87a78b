//! A plan as the text of a program.

use std::collections::BTreeMap;
use std::fmt::Write;

use msccl_collective::CollectiveKind;

use crate::forest::{Forest, Tree, TreeEdge};
use crate::plan::{Phase, Plan};

/// The program, without comments about what links carry.
pub fn program(plan: &Plan) -> String {
    let text = Writer { plan, out: String::new() }.written();
    // What is written here parses, so that the formatter has nothing to complain of.
    msccl_syntax::format(&text).unwrap_or(text)
}

struct Writer<'a> {
    plan: &'a Plan,
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
            for function in functions(phase) {
                self.line(definition(*function));
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
        self.line(&format!(
            "algorithm {name}(ranks N = {ranks}) implements {implements} in place {{"
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
        };
        self.line("");
        self.line(&format!("// {title}"));
        self.line("// A tree is a list of parents, each with its children.");
        for tree in &forest.trees {
            self.tree(forest, tree, functions(phase));
        }
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
            [one] => self.line(&format!("{}({list}, {part})", one.name())),
            several => {
                let name = format!("tree_{}_{}", tree.root, tree.first_chunk);
                self.line(&format!("let {name} = {list}"));
                for function in several {
                    self.line(&format!("{}({name}, {part})", function.name()));
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

fn functions(phase: &Phase) -> &'static [Function] {
    match phase {
        Phase::Reduce(_) => &[Function::ReduceAlong],
        Phase::Copy(_) => &[Function::CopyAlong],
        Phase::Both(_) => &[Function::ReduceAlong, Function::CopyAlong],
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

fn definition(function: Function) -> &'static str {
    match function {
        Function::ReduceAlong => {
            "// Every parent adds what its children have, so that the root gets the sum.
fn reduce_along(tree, part) {
    for [parent, children] in reverse(tree) {
        input@parent[part] += sum(child in children: input@child[part])
    }
}
"
        }
        Function::CopyAlong => {
            "// Every child gets what its parent has, so that all get what the root has.
fn copy_along(tree, part) {
    for [parent, children] in tree, child in children { output@child[part] = output@parent[part] }
}
"
        }
    }
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
