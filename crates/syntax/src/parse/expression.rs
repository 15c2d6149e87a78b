//! Expressions: conditionals, literals, lists, calls. Operators are in `operation.rs`.

use super::{Builder, Depth, Result, defect};
use crate::Diagnostic;
use crate::ast::{Expr, ExprKind};
use crate::grammar::{Node, Rule};

impl Builder<'_> {
    /// `if a then b else if c then d else e` is a flat row of operations; it is folded from the
    /// last, so that a long chain needs no recursion here.
    pub(super) fn expr(&self, node: Node<'_>, depth: Depth) -> Result<Expr> {
        let depth = depth.deeper(1, self.span(&node))?;
        let (mut ifs, mut operations) = (Vec::new(), Vec::new());
        for part in node.into_inner() {
            match part.as_rule() {
                Rule::kw_if => ifs.push(self.span(&part)),
                Rule::operation => {
                    let depth = depth.deeper(ifs.len(), self.span(&part))?;
                    operations.push(self.operation(part, depth)?);
                }
                _ => {}
            }
        }
        let mut result =
            operations.pop().ok_or_else(|| defect(self.file, "an empty expression"))?;
        while let (Some(then), Some(condition)) = (operations.pop(), operations.pop()) {
            let span = ifs.pop().unwrap_or(condition.span).to(result.span);
            let [condition, then, otherwise] = [condition, then, result].map(Box::new);
            result = Expr { kind: ExprKind::If { condition, then, otherwise }, span };
        }
        Ok(result)
    }

    /// What an operator joins.
    pub(super) fn primary(&self, node: Node<'_>, depth: Depth) -> Result<Expr> {
        let span = self.span(&node);
        let kind = match node.as_rule() {
            Rule::int => self.int(&node)?,
            Rule::bool => ExprKind::Bool(node.as_str() == "true"),
            Rule::string => ExprKind::Str(self.string(&node)?),
            Rule::name | Rule::buffer => ExprKind::Name(node.as_str().to_string()),
            Rule::call => self.call(node, depth)?,
            Rule::sum => self.sum(node, depth)?,
            Rule::comprehension => self.comprehension(node, depth)?,
            Rule::list => ExprKind::List(self.exprs(node, depth)?),
            Rule::parenthesised => self.expr(self.parts(node).next()?, depth)?.kind,
            _ => return Err(defect(self.file, "an unknown expression")),
        };
        Ok(Expr { kind, span })
    }

    fn exprs(&self, node: Node<'_>, depth: Depth) -> Result<Vec<Expr>> {
        self.parts(node).nodes.map(|part| self.expr(part, depth)).collect()
    }

    /// `name(args)`.
    pub(super) fn call(&self, node: Node<'_>, depth: Depth) -> Result<ExprKind> {
        let mut parts = self.parts(node);
        let name = self.name(&parts.next()?);
        let args = parts.nodes.map(|part| self.expr(part, depth)).collect::<Result<_>>()?;
        Ok(ExprKind::Call { name, args })
    }

    fn sum(&self, node: Node<'_>, depth: Depth) -> Result<ExprKind> {
        let mut parts = self.parts(node);
        let binders = Box::new(self.binders(parts.next()?, depth)?);
        let term = Box::new(self.expr(parts.next()?, depth)?);
        Ok(ExprKind::Sum { binders, term })
    }

    fn comprehension(&self, node: Node<'_>, depth: Depth) -> Result<ExprKind> {
        let mut parts = self.parts(node);
        let binders = Box::new(self.binders(parts.next()?, depth)?);
        let element = Box::new(self.expr(parts.next()?, depth)?);
        Ok(ExprKind::Comprehension { binders, element })
    }

    fn int(&self, node: &Node<'_>) -> Result<ExprKind> {
        let text = node.as_str();
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit: i64 = match &text[digits.len()..] {
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => 1,
        };
        let value = digits.replace('_', "").parse::<i64>().ok();
        match value.and_then(|value| value.checked_mul(unit)) {
            Some(value) => Ok(ExprKind::Int(value)),
            None => Err(Diagnostic::error(self.span(node), "this integer is too large")
                .hint(format!("integers have 64 bits; the largest is {}", i64::MAX))),
        }
    }

    /// The text between the quotes, escapes resolved.
    pub(super) fn string(&self, node: &Node<'_>) -> Result<String> {
        let quoted = node.as_str();
        let inner = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        let mut text = String::with_capacity(inner.len());
        let mut characters = inner.chars();
        while let Some(character) = characters.next() {
            match character {
                '\\' => text.push(self.escape(node, characters.next().unwrap_or('\\'))?),
                plain => text.push(plain),
            }
        }
        Ok(text)
    }

    fn escape(&self, node: &Node<'_>, escaped: char) -> Result<char> {
        match escaped {
            'n' => Ok('\n'),
            't' => Ok('\t'),
            '"' | '\\' => Ok(escaped),
            _ => {
                let message = format!("unknown escape `\\{escaped}`");
                Err(Diagnostic::error(self.span(node), message)
                    .hint("the escapes are `\\n`, `\\t`, `\\\"` and `\\\\`"))
            }
        }
    }
}
