//! Operators: from the grammar's flat list to a tree, by precedence.

use pest::pratt_parser::{Assoc, ConstPrattParser, Op};

use super::{Builder, Depth, Result, defect};
use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::grammar::{Node, Rule};
use crate::{Diagnostic, Span};

/// From weakest to strongest, as the table in `docs/LANGUAGE.md`; `true` starts a level.
static PRECEDENCE: ConstPrattParser<Rule, 25> = ConstPrattParser::new_const([
    (Op::infix(Rule::or, Assoc::Left), true),
    (Op::infix(Rule::and, Assoc::Left), true),
    (Op::prefix(Rule::not), true),
    (Op::infix(Rule::equal, Assoc::Left), true),
    (Op::infix(Rule::not_equal, Assoc::Left), false),
    (Op::infix(Rule::less, Assoc::Left), false),
    (Op::infix(Rule::less_equal, Assoc::Left), false),
    (Op::infix(Rule::greater, Assoc::Left), false),
    (Op::infix(Rule::greater_equal, Assoc::Left), false),
    (Op::infix(Rule::range, Assoc::Left), true),
    (Op::infix(Rule::by, Assoc::Left), false),
    (Op::infix(Rule::bit_or, Assoc::Left), true),
    (Op::infix(Rule::bit_xor, Assoc::Left), true),
    (Op::infix(Rule::bit_and, Assoc::Left), true),
    (Op::infix(Rule::shift_left, Assoc::Left), true),
    (Op::infix(Rule::shift_right, Assoc::Left), false),
    (Op::infix(Rule::add, Assoc::Left), true),
    (Op::infix(Rule::subtract, Assoc::Left), false),
    (Op::infix(Rule::multiply, Assoc::Left), true),
    (Op::infix(Rule::divide, Assoc::Left), false),
    (Op::infix(Rule::remainder, Assoc::Left), false),
    (Op::prefix(Rule::negate), true),
    (Op::infix(Rule::power, Assoc::Right), true),
    (Op::postfix(Rule::index), true),
    (Op::postfix(Rule::at), false),
]);

impl Builder<'_> {
    /// A flat list of operands and operators; also a `bound` or a `place`.
    pub(super) fn operation(&self, node: Node<'_>, depth: Depth) -> Result<Expr> {
        let flat: Vec<_> = node.clone().into_inner().collect();
        let operators = flat.iter().filter(|part| is_operator(part.as_rule())).count();
        let depth = depth.deeper(operators, self.span(&node))?;
        self.refuse_chains(&flat)?;
        PRECEDENCE
            .map_primary(|primary| self.primary(primary, depth))
            .map_prefix(|operator, operand| self.prefix(&operator, operand?))
            .map_postfix(|operand, operator| self.postfix(operand?, operator, depth))
            .map_infix(|left, operator, right| self.infix(left?, &operator, right?))
            .parse(flat.into_iter())
    }

    fn prefix(&self, operator: &Node<'_>, operand: Expr) -> Result<Expr> {
        let op = if operator.as_rule() == Rule::not { UnaryOp::Not } else { UnaryOp::Negate };
        let span = self.span(operator).to(operand.span);
        Ok(Expr { kind: ExprKind::Unary(op, Box::new(operand)), span })
    }

    fn postfix(&self, operand: Expr, operator: Node<'_>, depth: Depth) -> Result<Expr> {
        let rule = operator.as_rule();
        let mut parts = self.parts(operator);
        let span = operand.span.to(parts.span);
        let base = Box::new(operand);
        let argument = parts.next()?;
        let kind = match rule {
            Rule::index => ExprKind::Index { base, index: Box::new(self.expr(argument, depth)?) },
            _ => ExprKind::At { buffer: base, rank: Box::new(self.primary(argument, depth)?) },
        };
        Ok(Expr { kind, span })
    }

    fn infix(&self, left: Expr, operator: &Node<'_>, right: Expr) -> Result<Expr> {
        let span = left.span.to(right.span);
        let (left, right) = (Box::new(left), Box::new(right));
        let kind = match operator.as_rule() {
            Rule::range => ExprKind::Range { from: left, to: right, step: None },
            Rule::by => self.stepped(left.kind, right)?,
            rule => match binary(rule) {
                Some(op) => ExprKind::Binary(op, left, right),
                None => return Err(defect(self.file, "an unknown operator")),
            },
        };
        Ok(Expr { kind, span })
    }

    /// A range with a step; that it is a range is known.
    fn stepped(&self, range: ExprKind, step: Box<Expr>) -> Result<ExprKind> {
        match range {
            ExprKind::Range { from, to, step: None } => {
                Ok(ExprKind::Range { from, to, step: Some(step) })
            }
            _ => Err(defect(self.file, "a step without a range")),
        }
    }

    /// Comparisons, ranges and steps do not chain: `a < b < c` and `a..b..c` mean nothing. A step
    /// belongs to the range just before it.
    fn refuse_chains(&self, flat: &[Node<'_>]) -> Result<()> {
        let (mut comparison, mut range, mut step) = (None, None, None);
        for part in flat {
            let span = || self.span(part);
            match Chain::of(part.as_rule()) {
                Chain::Restarts => (comparison, range, step) = (None, None, None),
                Chain::Compares => {
                    if let Some(first) = comparison.replace(span()) {
                        return Err(
                            chained("comparisons", first, span()).hint("write `a < b and b < c`")
                        );
                    }
                    (range, step) = (None, None);
                }
                Chain::Spans => {
                    if let Some(first) = range.replace(span()) {
                        return Err(chained("ranges", first, span()));
                    }
                }
                Chain::Steps => {
                    if range.is_none() {
                        let message = "`by` follows a range";
                        return Err(Diagnostic::error(span(), message).hint("write `a..b by s`"));
                    }
                    if let Some(first) = step.replace(span()) {
                        return Err(chained("steps", first, span()));
                    }
                }
                Chain::Binds => {}
            }
        }
        Ok(())
    }
}

fn chained(what: &str, first: Span, second: Span) -> Diagnostic {
    Diagnostic::error(second, format!("{what} do not chain")).label(first, "the first is here")
}

/// What an operator does to a row of comparisons or ranges.
enum Chain {
    /// Is weaker than both.
    Restarts,
    /// Is a comparison.
    Compares,
    /// Is a range.
    Spans,
    /// Is the step of a range.
    Steps,
    /// Is stronger than both, or no operator.
    Binds,
}

impl Chain {
    fn of(rule: Rule) -> Self {
        match rule {
            Rule::or | Rule::and | Rule::not => Self::Restarts,
            Rule::range => Self::Spans,
            Rule::by => Self::Steps,
            _ => match binary(rule) {
                Some(op) if is_comparison(op) => Self::Compares,
                _ => Self::Binds,
            },
        }
    }
}

fn is_comparison(op: BinaryOp) -> bool {
    use BinaryOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    matches!(op, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
}

fn is_operator(rule: Rule) -> bool {
    let others = [Rule::not, Rule::negate, Rule::range, Rule::by, Rule::index, Rule::at];
    binary(rule).is_some() || others.contains(&rule)
}

/// The operator of an infix token, except for those of ranges, which have a node of their own.
pub(crate) fn binary(rule: Rule) -> Option<BinaryOp> {
    Some(match rule {
        Rule::or => BinaryOp::Or,
        Rule::and => BinaryOp::And,
        Rule::equal => BinaryOp::Equal,
        Rule::not_equal => BinaryOp::NotEqual,
        Rule::less => BinaryOp::Less,
        Rule::less_equal => BinaryOp::LessEqual,
        Rule::greater => BinaryOp::Greater,
        Rule::greater_equal => BinaryOp::GreaterEqual,
        Rule::bit_or => BinaryOp::BitOr,
        Rule::bit_xor => BinaryOp::BitXor,
        Rule::bit_and => BinaryOp::BitAnd,
        Rule::shift_left => BinaryOp::ShiftLeft,
        Rule::shift_right => BinaryOp::ShiftRight,
        Rule::add => BinaryOp::Add,
        Rule::subtract => BinaryOp::Subtract,
        Rule::multiply => BinaryOp::Multiply,
        Rule::divide => BinaryOp::Divide,
        Rule::remainder => BinaryOp::Remainder,
        Rule::power => BinaryOp::Power,
        _ => return None,
    })
}
