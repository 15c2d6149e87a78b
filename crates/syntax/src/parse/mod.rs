//! From text to tree: scan, match the grammar, build.
//!
//! [`parse`] returns a tree or at least one diagnostic, never both. The scan bounds what the later
//! stages meet; the grammar always matches a scanned text, with error nodes where it does not
//! parse; building turns nodes into the tree, error nodes into diagnostics, and checks what a
//! grammar cannot say: depth, sizes of integers, which statements a collective may hold.

mod expected;
mod expression;
mod hint;
mod item;
mod operation;
mod recover;
mod statement;

pub(crate) use operation::binary;

use pest::Parser;

use crate::grammar::{Grammar, Node, Rule, is_mark};
use crate::limits::MAX_DEPTH;
use crate::scan::{Scan, scan};
use crate::{Diagnostic, FileId, SourceMap, Span, ast};

/// A tree, or the first thing that is wrong with it.
type Result<T> = std::result::Result<T, Diagnostic>;

/// Errors beyond this many are not reported.
const MAX_DIAGNOSTICS: usize = 50;

/// Parses one file of a source map.
pub fn parse(sources: &SourceMap, file: FileId) -> std::result::Result<ast::File, Vec<Diagnostic>> {
    let scan = scan(file, sources.text(file))?;
    let root = root(file, &scan.text).map_err(|diagnostic| vec![diagnostic])?;
    build(file, &scan, root)
}

/// The node of the whole file.
pub(crate) fn root(file: FileId, text: &str) -> Result<Node<'_>> {
    match Grammar::parse(Rule::file, text) {
        Ok(mut pairs) => pairs.next().ok_or_else(|| defect(file, "an empty match")),
        Err(error) => Err(defect(file, &error.variant.message())),
    }
}

/// The tree of a file's node.
pub(crate) fn build(
    file: FileId,
    scan: &Scan<'_>,
    root: Node<'_>,
) -> std::result::Result<ast::File, Vec<Diagnostic>> {
    let mut builder = Builder { file, scan, diagnostics: Vec::new() };
    let tree = builder.file(root);
    let mut diagnostics = recover::without_echoes(scan, builder.diagnostics);
    if diagnostics.is_empty() {
        return Ok(tree);
    }
    diagnostics.truncate(MAX_DIAGNOSTICS);
    Err(diagnostics)
}

/// Builds the tree of one file. Methods that may fail do so with one diagnostic; blocks and files
/// collect the diagnostics of their parts.
struct Builder<'t> {
    file: FileId,
    scan: &'t Scan<'t>,
    diagnostics: Vec<Diagnostic>,
}

/// How deep the node being built lies. See [`MAX_DEPTH`].
#[derive(Clone, Copy)]
struct Depth(usize);

impl Depth {
    /// That of a node `levels` deeper.
    fn deeper(self, levels: usize, span: Span) -> Result<Depth> {
        let depth = self.0 + levels;
        if depth <= MAX_DEPTH {
            return Ok(Depth(depth));
        }
        let message = format!("this nests more than {MAX_DEPTH} levels deep");
        Err(Diagnostic::error(span, message)
            .saying("every operator in a row counts as one level")
            .hint("name parts with `let`, or write a long sum as `sum(…)`"))
    }
}

impl Builder<'_> {
    /// Keeps a diagnostic, unless there are many already.
    fn report(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < MAX_DIAGNOSTICS {
            self.diagnostics.push(diagnostic);
        }
    }

    /// The span of a node, without the blanks and comments that pest may put at its end.
    fn span(&self, node: &Node<'_>) -> Span {
        let start = node.as_span().start();
        let mut last = node.clone();
        while let Some(child) = last.clone().into_inner().next_back() {
            last = child;
        }
        Span { file: self.file, start: start as u32, end: last.as_span().end() as u32 }
    }

    fn name(&self, node: &Node<'_>) -> ast::Name {
        ast::Name { text: node.as_str().to_string(), span: self.span(node) }
    }

    fn parts<'i>(&self, node: Node<'i>) -> Parts<'i> {
        let span = self.span(&node);
        let nodes: Vec<_> = node.into_inner().filter(|part| !is_mark(part.as_rule())).collect();
        Parts { span, nodes: nodes.into_iter().peekable() }
    }
}

/// The parts of a node that mean something: no keywords, no punctuation.
struct Parts<'i> {
    span: Span,
    nodes: std::iter::Peekable<std::vec::IntoIter<Node<'i>>>,
}

impl<'i> Parts<'i> {
    /// The next part, which the grammar says is there.
    fn next(&mut self) -> Result<Node<'i>> {
        self.nodes.next().ok_or_else(|| defect(self.span.file, "a missing part"))
    }

    /// The next part, if it is of that rule.
    fn take(&mut self, rule: Rule) -> Option<Node<'i>> {
        self.nodes.next_if(|node| node.as_rule() == rule)
    }

    /// All further parts of that rule.
    fn all(&mut self, rule: Rule) -> impl Iterator<Item = Node<'i>> {
        std::iter::from_fn(move || self.take(rule))
    }
}

/// The grammar and the builder disagree. No input leads here; better a message than a panic.
fn defect(file: FileId, what: &str) -> Diagnostic {
    let message = format!("the parser met {what}; this is a defect of the parser");
    Diagnostic::error(Span { file, start: 0, end: 0 }, message)
}
