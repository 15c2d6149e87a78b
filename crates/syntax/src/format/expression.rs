//! Expressions.

use super::Emitter;
use super::layout::Piece;
use crate::ast::BinaryOp;
use crate::grammar::{Node, Rule};
use crate::parse::binary;

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
                    _ => emitter.operation(part),
                }
            }
        });
    }

    fn operation(&mut self, node: Node<'_>) {
        let parts: Vec<_> = node.into_inner().collect();
        self.split(&parts);
    }

    /// Breaks a flat row of operands and operators at its weakest operators, if it has to be broken.
    fn split(&mut self, parts: &[Node<'_>]) {
        let weakest = parts.iter().filter_map(|part| Strength::of(part.as_rule())).min();
        let weakest = match weakest {
            None | Some(Strength::Range | Strength::Power) => {
                return parts.iter().for_each(|part| self.tight_part(part));
            }
            Some(weakest) => weakest,
        };
        let is_break = |part: &Node<'_>| Strength::of(part.as_rule()) == Some(weakest);
        let mut rows = parts.chunk_by(|_, next| !is_break(next));
        self.group(|emitter| {
            emitter.split(rows.next().unwrap_or_default());
            for row in rows {
                let Some((operator, operand)) = row.split_first() else { continue };
                emitter.continued(|emitter| {
                    emitter.word(operator);
                    emitter.split(operand);
                });
            }
        });
    }

    /// A row without blanks round its operators: a range, a power, or one operand.
    pub(super) fn tight(&mut self, node: Node<'_>) {
        node.into_inner().for_each(|part| self.tight_part(&part));
    }

    fn tight_part(&mut self, part: &Node<'_>) {
        match part.as_rule() {
            Rule::not => self.word(part),
            _ => self.primary(part.clone()),
        }
    }

    /// A name or a call, and what is indexed of it.
    pub(super) fn place(&mut self, node: Node<'_>) {
        node.into_inner().for_each(|part| self.primary(part));
    }

    /// An operand, or a token next to it.
    pub(super) fn primary(&mut self, node: Node<'_>) {
        match node.as_rule() {
            Rule::list => self.bracketed(node, Piece::Fill, Self::part),
            Rule::call | Rule::sum | Rule::comprehension | Rule::parenthesised | Rule::index => {
                self.bracketed(node, Piece::SoftSpace, Self::element);
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

fn is_open(rule: Rule) -> bool {
    matches!(rule, Rule::open_paren | Rule::open_call | Rule::open_bracket | Rule::open_index)
}

/// How strongly an infix operator binds, weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Or,
    And,
    Comparison,
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
    fn of(rule: Rule) -> Option<Self> {
        use BinaryOp::*;
        if rule == Rule::range {
            return Some(Self::Range);
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
