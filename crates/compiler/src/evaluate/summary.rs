//! What a file offers: its algorithms, for lists and for help.

use msccl_syntax::ast::{AlgorithmItem, Item, ParamRole};
use msccl_syntax::{Diagnostic, FileId, SourceMap, Span};

/// An algorithm of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlgorithmSummary {
    /// Its name.
    pub name: String,
    /// The collective it implements.
    pub collective: String,
    /// Its parameters, in order.
    pub params: Vec<ParamSummary>,
    /// The comment before it, without the slashes; may be empty.
    pub doc: String,
    /// Where its name stands.
    pub span: Span,
}

/// A parameter of an algorithm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParamSummary {
    /// Its name.
    pub name: String,
    /// Which fact about the launch it stands for.
    pub role: ParamRole,
    /// Its default, as written.
    pub default: Option<String>,
}

/// The algorithms that `file` itself defines, in order. Nothing is imported or evaluated.
pub fn algorithms(
    sources: &SourceMap,
    file: FileId,
) -> Result<Vec<AlgorithmSummary>, Vec<Diagnostic>> {
    let parsed = msccl_syntax::parse(sources, file)?;
    let text = sources.text(file);
    let summaries = parsed.items.iter().filter_map(|item| match item {
        Item::Algorithm(item) => Some(summary(item, text)),
        Item::Function(_) | Item::Collective(_) => None,
    });
    Ok(summaries.collect())
}

fn summary(item: &AlgorithmItem, text: &str) -> AlgorithmSummary {
    let written = |span: Span| text.get(span.start as usize..span.end as usize).unwrap_or("");
    let params = item.params.iter().map(|param| ParamSummary {
        name: param.name.text.clone(),
        role: param.role,
        default: param.default.as_ref().map(|default| written(default.span).to_owned()),
    });
    AlgorithmSummary {
        name: item.name.text.clone(),
        collective: item.implements.name.text.clone(),
        params: params.collect(),
        doc: comment_before(text.get(..item.span.start as usize).unwrap_or("")),
        span: item.name.span,
    }
}

/// The comment lines at the end of `text`, without a blank line between or after.
pub fn comment_before(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in text.lines().rev() {
        match line.trim().strip_prefix("//") {
            Some(comment) => lines.push(comment.strip_prefix(' ').unwrap_or(comment)),
            None => break,
        }
    }
    lines.reverse();
    lines.join("\n")
}
