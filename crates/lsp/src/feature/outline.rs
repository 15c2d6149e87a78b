//! Document symbols and folding.

use std::ops::Range;

use lsp_types::{DocumentSymbol, FoldingRange, FoldingRangeKind, SymbolKind};
use msccl_syntax::{Span, ast};

use crate::token::{TokenKind, tokens};
use crate::workspace::Unit;

/// The definitions of a file, with their parameters and buffers.
pub fn symbols(unit: &Unit) -> Vec<DocumentSymbol> {
    let Some(tree) = &unit.tree else { return Vec::new() };
    let symbols = tree.items.iter().map(|item| match item {
        ast::Item::Function(item) => {
            let detail = parameters(&item.params);
            let children = params(unit, &item.params);
            symbol(unit, &item.name, item.span, SymbolKind::FUNCTION, detail, children)
        }
        ast::Item::Collective(item) => {
            let detail = parameters(&item.params);
            let children = params(unit, &item.params);
            symbol(unit, &item.name, item.span, SymbolKind::INTERFACE, detail, children)
        }
        ast::Item::Algorithm(item) => {
            let detail = format!("implements {}", item.implements.name.text);
            let mut children = params(unit, &item.params);
            children.extend(scratch(unit, &item.body));
            symbol(unit, &item.name, item.span, SymbolKind::CLASS, detail, children)
        }
    });
    symbols.collect()
}

fn parameters(params: &[ast::Param]) -> String {
    let names: Vec<_> = params.iter().map(|param| param.name.text.as_str()).collect();
    format!("({})", names.join(", "))
}

fn params(unit: &Unit, params: &[ast::Param]) -> Vec<DocumentSymbol> {
    let kind = SymbolKind::VARIABLE;
    let detail = |param: &ast::Param| match param.role {
        ast::ParamRole::Ranks => "ranks".to_owned(),
        ast::ParamRole::PerNode => "per_node".to_owned(),
        ast::ParamRole::Plain => String::new(),
    };
    let one = |it: &ast::Param| symbol(unit, &it.name, it.span, kind, detail(it), Vec::new());
    params.iter().map(one).collect()
}

/// The scratch buffers of a block, also of blocks in it.
fn scratch(unit: &Unit, block: &ast::Block) -> Vec<DocumentSymbol> {
    let mut found = Vec::new();
    for statement in &block.statements {
        match &statement.kind {
            ast::StatementKind::Scratch { name, chunks: _ } => {
                let detail = "scratch".to_owned();
                let kind = SymbolKind::ARRAY;
                found.push(symbol(unit, name, statement.span, kind, detail, Vec::new()));
            }
            ast::StatementKind::For { body, .. } | ast::StatementKind::On { body, .. } => {
                found.extend(scratch(unit, body));
            }
            ast::StatementKind::If { condition: _, then, otherwise } => {
                found.extend(scratch(unit, then));
                found.extend(otherwise.iter().flat_map(|block| scratch(unit, block)));
            }
            ast::StatementKind::Let { .. }
            | ast::StatementKind::Assign { .. }
            | ast::StatementKind::Call { .. }
            | ast::StatementKind::Require { .. }
            | ast::StatementKind::Given { .. }
            | ast::StatementKind::Promise { .. } => {}
        }
    }
    found
}

fn symbol(
    unit: &Unit,
    name: &ast::Name,
    whole: Span,
    kind: SymbolKind,
    detail: String,
    children: Vec<DocumentSymbol>,
) -> DocumentSymbol {
    let range = |span: Span| unit.range(span.start as usize..span.end as usize);
    #[expect(deprecated, reason = "the field has to be filled")]
    DocumentSymbol {
        name: name.text.clone(),
        detail: Some(detail).filter(|detail| !detail.is_empty()),
        kind,
        tags: None,
        deprecated: None,
        range: range(whole),
        selection_range: range(name.span),
        children: Some(children).filter(|children| !children.is_empty()),
    }
}

/// Blocks and brackets of several lines, and comments of several lines, whether the text parses or
/// not.
pub fn folds(unit: &Unit) -> Vec<FoldingRange> {
    let text = &*unit.text;
    let mut folds = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut comment: Option<Range<u32>> = None;
    let line = |at: usize| unit.lines.position(text, at).line;
    for token in tokens(text) {
        let here = line(token.bytes.start);
        if token.kind == TokenKind::Comment {
            comment = Some(match comment {
                Some(run) if run.end + 1 == here => run.start..here,
                earlier => {
                    folds.extend(earlier.and_then(|it| fold(it, FoldingRangeKind::Comment)));
                    here..here
                }
            });
            continue;
        }
        match token.of(text) {
            "{" | "(" | "[" => open.push(token.bytes.start),
            "}" | ")" | "]" => {
                let lines = open.pop().map(|start| line(start)..here.saturating_sub(1));
                folds.extend(lines.and_then(|it| fold(it, FoldingRangeKind::Region)));
            }
            _ => {}
        }
    }
    folds.extend(comment.and_then(|it| fold(it, FoldingRangeKind::Comment)));
    folds.sort_by_key(|fold| (fold.start_line, fold.end_line));
    folds.dedup_by_key(|fold| (fold.start_line, fold.end_line));
    folds
}

fn fold(lines: Range<u32>, kind: FoldingRangeKind) -> Option<FoldingRange> {
    (lines.start < lines.end).then_some(FoldingRange {
        start_line: lines.start,
        start_character: None,
        end_line: lines.end,
        end_character: None,
        kind: Some(kind),
        collapsed_text: None,
    })
}
