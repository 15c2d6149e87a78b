//! Expressions, binders and patterns.

use msccl_syntax::{Diagnostic, Span, ast};

use super::super::builtin;
use super::super::nearest::nearest;
use super::super::resolved::{Binder, Binders, Expr, ExprKind, Pattern};
use super::Resolver;

impl<'a> Resolver<'a> {
    pub(super) fn expr(&mut self, expr: &'a ast::Expr) -> Expr {
        Expr { kind: self.expr_kind(expr), span: expr.span }
    }

    fn expr_kind(&mut self, expr: &'a ast::Expr) -> ExprKind {
        match &expr.kind {
            ast::ExprKind::Int(value) => ExprKind::Int(*value),
            ast::ExprKind::Bool(value) => ExprKind::Bool(*value),
            ast::ExprKind::Str(text) => ExprKind::Str(text.as_str().into()),
            ast::ExprKind::Name(name) => self.name(name, expr.span),
            ast::ExprKind::List(items) => {
                ExprKind::List(items.iter().map(|item| self.expr(item)).collect())
            }
            ast::ExprKind::Comprehension { binders, element } => {
                ExprKind::Comprehension(self.over(binders, element))
            }
            ast::ExprKind::Sum { binders, term } => ExprKind::Sum(self.over(binders, term)),
            ast::ExprKind::Call { name, args } => self.call_value(name, args),
            ast::ExprKind::Index { base, index } => ExprKind::Index(self.pair(base, index)),
            ast::ExprKind::At { buffer, rank } => ExprKind::At(self.pair(buffer, rank)),
            ast::ExprKind::Range { from, to, step: None } => ExprKind::Range(self.pair(from, to)),
            ast::ExprKind::Range { from, to, step: Some(step) } => {
                let (from, to) = (self.expr(from), self.expr(to));
                ExprKind::Stepped(Box::new((from, to, self.expr(step))))
            }
            ast::ExprKind::Unary(op, operand) => {
                let operand = Box::new(self.expr(operand));
                match op {
                    ast::UnaryOp::Negate => ExprKind::Negate(operand),
                    ast::UnaryOp::Not => ExprKind::Not(operand),
                }
            }
            ast::ExprKind::Binary(op, left, right) => ExprKind::Binary(*op, self.pair(left, right)),
            ast::ExprKind::If { condition, then, otherwise } => {
                let condition = self.expr(condition);
                let then = self.expr(then);
                ExprKind::If(Box::new((condition, then, self.expr(otherwise))))
            }
        }
    }

    fn pair(&mut self, first: &'a ast::Expr, second: &'a ast::Expr) -> Box<(Expr, Expr)> {
        let first = self.expr(first);
        Box::new((first, self.expr(second)))
    }

    fn name(&mut self, name: &str, span: Span) -> ExprKind {
        match name {
            "input" => return ExprKind::Input,
            "output" => return ExprKind::Output,
            _ => {}
        }
        if let Some(local) = self.scope.find(name) {
            return ExprKind::Local(local);
        }
        let diagnostic = Diagnostic::error(span, format!("nothing here is called `{name}`"));
        let is_function = self.items.is_function(self.file, name) || builtin::find(name).is_some();
        let diagnostic = if is_function {
            diagnostic.hint(format!("`{name}` is a function; call it: `{name}(…)`"))
        } else if let Some(near) = nearest(name, self.names_in_sight()) {
            diagnostic.hint(format!("did you mean `{near}`?"))
        } else {
            diagnostic
        };
        self.error(diagnostic);
        ExprKind::Broken
    }

    fn names_in_sight(&self) -> impl Iterator<Item = &str> {
        self.scope.names().iter().copied().chain(["input", "output"])
    }

    /// Something said for each round of binders: a list's element, a sum's term.
    fn over(&mut self, binders: &'a ast::Binders, body: &'a ast::Expr) -> Box<(Binders, Expr)> {
        let mark = self.scope.mark();
        let binders = self.binders(binders);
        let body = self.expr(body);
        self.scope.release(mark);
        Box::new((binders, body))
    }

    /// Binds the names; each domain sees the names before it, the filter all of them.
    pub(super) fn binders(&mut self, binders: &'a ast::Binders) -> Binders {
        let list = binders.list.iter().map(|binder| self.binder(binder)).collect();
        let filter = binders.filter.as_ref().map(|filter| self.expr(filter));
        Binders { list, filter }
    }

    fn binder(&mut self, binder: &'a ast::Binder) -> Binder {
        let domain = self.expr(&binder.domain);
        let span = domain.span;
        let pattern = match &binder.pattern {
            ast::Pattern::Name(name) => Pattern::One(self.scope.bind(&name.text)),
            ast::Pattern::List(names) => {
                Pattern::List(names.iter().map(|name| self.scope.bind(&name.text)).collect())
            }
        };
        Binder { pattern, domain, span }
    }
}
