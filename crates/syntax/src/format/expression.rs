//! Expressions.

use super::Emitter;
use super::layout::Piece;
use crate::ast::BinaryOp;
use crate::grammar::{Node, Rule};
use crate::parse::binary;

/// How the operators of a row stand to their operands; what is in brackets is a row of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spacing {
    /// Spaces round them.
    Wide,
    /// None.
    Hugging,
}

impl Emitter<'_> {
    /// `if a then b else c`, or one operation.
    pub(super) fn expr(&mut self, node: Node<'_>) {
        self.group(|emitter| {
            for part in node.into_inner() {
                match part.as_rule() {
                    Rule::kw_then | Rule::kw_else => {
                        emitter.continued(|emitter| emitter.word(&part));
                    }
                    Rule::kw_if => emitter.word(&part),
                    _ => emitter.operation(part, Spacing::Wide),
                }
            }
        });
    }

    /// What follows `=`: on the next line if it does not fit, unless it is one pair of brackets.
    pub(super) fn value(&mut self, node: Node<'_>) {
        if is_bracketed(&node) {
            self.push(Piece::Space);
            return self.expr(node);
        }
        self.group(|emitter| emitter.continued(|emitter| emitter.expr(node)));
    }

    /// A flat row of operands and operators; also a bound of a `bytes` clause.
    pub(super) fn operation(&mut self, node: Node<'_>, spacing: Spacing) {
        let parts: Vec<_> = node.into_inner().collect();
        self.row(&parts, spacing);
    }

    /// A row is broken at its weakest operators, if it has to be.
    fn row(&mut self, parts: &[Node<'_>], spacing: Spacing) {
        let hugs = |weakest| match weakest {
            Strength::Or | Strength::And | Strength::Comparison | Strength::Step => false,
            Strength::Range => is_tight_range(parts),
            Strength::Power => true,
            Strength::Product if parts.iter().any(is_remainder) => false,
            _ => spacing == Spacing::Hugging,
        };
        match Strength::weakest(parts) {
            Some(weakest) if !hugs(weakest) => self.broken_at(weakest, parts),
            _ => self.unbroken(parts),
        }
    }

    fn unbroken(&mut self, parts: &[Node<'_>]) {
        for part in parts {
            match part.as_rule() {
                Rule::not => self.word(part),
                _ => self.primary(part.clone()),
            }
        }
    }

    /// Products in a sum or a range hug, unless they have a `%`: `r*K + c`, `r*K .. (r + 1)*K`.
    fn broken_at(&mut self, weakest: Strength, parts: &[Node<'_>]) {
        let is_break = |part: &Node<'_>| Strength::of(part.as_rule()) == Some(weakest);
        let spacing = |row: &[Node<'_>]| match (weakest, Strength::weakest(row)) {
            (Strength::Sum | Strength::Range, Some(Strength::Product)) => Spacing::Hugging,
            _ => Spacing::Wide,
        };
        let mut rows = parts.chunk_by(|_, next| !is_break(next));
        self.group(|emitter| {
            let first = rows.next().unwrap_or_default();
            emitter.row(first, spacing(first));
            for row in rows {
                let Some((operator, operand)) = row.split_first() else { continue };
                emitter.continued(|emitter| {
                    emitter.word(operator);
                    emitter.row(operand, spacing(operand));
                });
            }
        });
    }

    /// A name or a call, and what is indexed of it.
    pub(super) fn place(&mut self, node: Node<'_>) {
        node.into_inner().for_each(|part| self.primary(part));
    }

    /// An operand, or a token next to it.
    pub(super) fn primary(&mut self, node: Node<'_>) {
        match node.as_rule() {
            Rule::list => self.bracketed(node, Piece::Fill, Self::part),
            Rule::call | Rule::sum | Rule::comprehension | Rule::index | Rule::parenthesised => {
                self.bracketed(node, Piece::SoftSpace, Self::element)
            }
            Rule::at => node.into_inner().for_each(|part| self.primary(part)),
            _ => self.tokens(&node),
        }
    }

    fn element(&mut self, part: Node<'_>) {
        match part.as_rule() {
            Rule::binders => self.binders(part),
            Rule::colon => {
                self.token(&part);
                self.push(Piece::SoftSpace);
            }
            _ => self.part(part),
        }
    }

    /// What stands in brackets, after the name before them. If it is broken, it stands on lines of
    /// its own, one step indented.
    pub(super) fn bracketed(
        &mut self,
        node: Node<'_>,
        separator: Piece<'static>,
        element: impl Fn(&mut Self, Node<'_>),
    ) {
        let parts: Vec<_> = node.into_inner().collect();
        let is_empty = parts.len() >= 2 && is_open(parts[parts.len() - 2].as_rule());
        self.group(|emitter| {
            for part in parts {
                match part.as_rule() {
                    rule if is_open(rule) => {
                        emitter.token(&part);
                        emitter.push(Piece::Indent);
                        emitter.soft_unless(is_empty);
                    }
                    Rule::close_paren | Rule::close_bracket => {
                        emitter.comments_before(part.as_span().start());
                        emitter.push(Piece::Dedent);
                        emitter.soft_unless(is_empty);
                        emitter.token(&part);
                    }
                    Rule::comma => {
                        emitter.token(&part);
                        emitter.push(separator);
                    }
                    Rule::name | Rule::kw_sum => emitter.token(&part),
                    _ => element(emitter, part),
                }
            }
        });
    }

    fn soft_unless(&mut self, is_empty: bool) {
        if !is_empty {
            self.push(Piece::Soft);
        }
    }
}

/// Whether an expression is one pair of brackets, with a name before it perhaps.
fn is_bracketed(expr: &Node<'_>) -> bool {
    use Rule::{call, comprehension, list, parenthesised, sum};
    let operations = expr.clone().into_inner();
    let mut parts = operations.clone().flat_map(|operation| operation.into_inner());
    let is_one = operations.len() == 1 && parts.clone().count() == 1;
    let bracketed = [call, comprehension, list, parenthesised, sum];
    is_one && parts.next().is_some_and(|part| bracketed.contains(&part.as_rule()))
}

/// Whether the bounds of a range are so simple that `..` still stands out among them: at most two
/// operators, and no brackets with a blank in them.
fn is_tight_range(parts: &[Node<'_>]) -> bool {
    let is_operator = |part: &&Node<'_>| binary(part.as_rule()).is_some();
    parts
        .split(|part| part.as_rule() == Rule::range)
        .all(|bound| bound.iter().filter(is_operator).count() <= 2)
        && !parts.iter().any(is_remainder)
        && !parts.iter().flat_map(|part| part.clone().into_inner().flatten()).any(is_spaced)
}

fn is_remainder(part: &Node<'_>) -> bool {
    part.as_rule() == Rule::remainder
}

/// Whether a token in brackets stands next to a blank.
fn is_spaced(token: Node<'_>) -> bool {
    match token.as_rule() {
        Rule::comma | Rule::colon | Rule::kw_if | Rule::by | Rule::not => true,
        rule => binary(rule).is_some_and(|operator| operator != BinaryOp::Power),
    }
}

fn is_open(rule: Rule) -> bool {
    matches!(rule, Rule::open_paren | Rule::open_call | Rule::open_bracket | Rule::open_index)
}

/// How strongly an infix operator binds, weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Or,
    And,
    Comparison,
    Step,
    Range,
    BitOr,
    BitXor,
    BitAnd,
    Shift,
    Sum,
    Product,
    Power,
}

impl Strength {
    /// That of the operator at which a row of operands and operators falls apart.
    fn weakest(row: &[Node<'_>]) -> Option<Self> {
        row.iter().filter_map(|part| Self::of(part.as_rule())).min()
    }

    fn of(rule: Rule) -> Option<Self> {
        use BinaryOp::*;
        match rule {
            Rule::by => return Some(Self::Step),
            Rule::range => return Some(Self::Range),
            _ => {}
        }
        Some(match binary(rule)? {
            Or => Self::Or,
            And => Self::And,
            Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual => Self::Comparison,
            BitOr => Self::BitOr,
            BitXor => Self::BitXor,
            BitAnd => Self::BitAnd,
            ShiftLeft | ShiftRight => Self::Shift,
            Add | Subtract => Self::Sum,
            Multiply | Divide | Remainder => Self::Product,
            Power => Self::Power,
        })
    }
}
