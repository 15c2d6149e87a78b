//! Statements and hints.

use msccl_syntax::{Diagnostic, Span, ast};

use super::super::builtin;
use super::super::nearest::nearest;
use super::super::resolved::{
    Block, Expr, ExprKind, FunctionId, Hint, Site, Statement, StatementKind,
};
use super::super::standard;
use super::Resolver;

impl<'a> Resolver<'a> {
    pub(super) fn block(&mut self, block: &'a ast::Block) -> Block {
        let mark = self.scope.mark();
        let statements = block.statements.iter().filter_map(|statement| {
            let kind = self.statement(statement)?;
            Some(Statement { kind, span: statement.span })
        });
        let statements = statements.collect();
        self.scope.release(mark);
        statements
    }

    fn statement(&mut self, statement: &'a ast::Statement) -> Option<StatementKind> {
        Some(match &statement.kind {
            ast::StatementKind::Let { name, value } => {
                let value = self.expr(value);
                StatementKind::Let { local: self.scope.bind(&name.text), value }
            }
            ast::StatementKind::If { condition, then, otherwise } => StatementKind::If {
                condition: self.expr(condition),
                then: self.block(then),
                otherwise: otherwise.as_ref().map_or_else(Vec::new, |block| self.block(block)),
            },
            ast::StatementKind::For { binders, hints, body } => {
                let mark = self.scope.mark();
                let binders = self.binders(binders);
                let (hints, body) = (self.hints(hints), self.block(body));
                self.scope.release(mark);
                StatementKind::For { binders, hints, body }
            }
            ast::StatementKind::On { hints, body } => {
                StatementKind::On { hints: self.hints(hints), body: self.block(body) }
            }
            ast::StatementKind::Scratch { name, chunks } => {
                let chunks = self.expr(chunks);
                let local = self.scope.bind(&name.text);
                StatementKind::Scratch { local, name: name.text.as_str().into(), chunks }
            }
            ast::StatementKind::Assign { place, op, value, hints } => StatementKind::Assign {
                site: self.site(statement.span),
                place: self.expr(place),
                op: *op,
                value: self.expr(value),
                hints: self.hints(hints),
            },
            ast::StatementKind::Call { name, args, hints } => {
                return self.call_statement(statement.span, name, args, hints);
            }
            ast::StatementKind::Require { condition, message } => {
                StatementKind::Require { condition: self.expr(condition), message: message.clone() }
            }
            ast::StatementKind::Given { region } => {
                StatementKind::Given { region: self.expr(region) }
            }
            ast::StatementKind::Promise { place, value } => {
                StatementKind::Promise { place: self.expr(place), value: self.expr(value) }
            }
        })
    }

    fn site(&mut self, span: Span) -> Site {
        self.sites.push(span);
        Site(self.sites.len() as u32 - 1)
    }

    pub(super) fn hints(&mut self, hints: &'a [ast::Hint]) -> Vec<Hint> {
        let resolve = |hint: &'a ast::Hint| Hint { kind: hint.kind, value: self.expr(&hint.value) };
        hints.iter().map(resolve).collect()
    }

    fn call_statement(
        &mut self,
        span: Span,
        name: &'a ast::Name,
        args: &'a [ast::Expr],
        hints: &'a [ast::Hint],
    ) -> Option<StatementKind> {
        let args: Vec<Expr> = args.iter().map(|arg| self.expr(arg)).collect();
        let hints = self.hints(hints);
        let function = self.callee(name, args.len(), Callee::Block)?;
        Some(StatementKind::Call { site: self.site(span), function, args, hints })
    }

    /// The value of a call: of a built-in or of a function of the program.
    pub(super) fn call_value(&mut self, name: &'a ast::Name, args: &'a [ast::Expr]) -> ExprKind {
        let resolved: Vec<Expr> = args.iter().map(|arg| self.expr(arg)).collect();
        if let Some((builtin, params)) = builtin::find(&name.text) {
            if params.len() == args.len() {
                return ExprKind::Builtin(builtin, resolved);
            }
            let signature = format!("{}({})", name.text, params.join(", "));
            self.error(wrong_number(name, args.len(), params.len(), params.len(), &signature));
            return ExprKind::Broken;
        }
        match self.callee(name, args.len(), Callee::Value) {
            Some(function) => ExprKind::Call(function, resolved),
            None => ExprKind::Broken,
        }
    }

    /// The function called, if it exists, is of the kind expected and takes so many arguments.
    fn callee(&mut self, name: &ast::Name, args: usize, expected: Callee) -> Option<FunctionId> {
        let (id, function) = match self.items.function(self.file, name) {
            Ok(Some(found)) => found,
            Ok(None) => {
                let diagnostic = self.unknown_function(name);
                self.error(diagnostic);
                return None;
            }
            Err(ambiguous) => {
                self.error(ambiguous);
                return None;
            }
        };
        let fault = match (&function.body, expected) {
            (ast::FunctionBody::Value(_), Callee::Block) => Some("is a value, which moves nothing"),
            (ast::FunctionBody::Block(_), Callee::Value) => Some("moves data and has no value"),
            (ast::FunctionBody::Value(_), Callee::Value)
            | (ast::FunctionBody::Block(_), Callee::Block) => None,
        };
        if let Some(fault) = fault {
            let diagnostic = Diagnostic::error(name.span, format!("`{}` {fault}", name.text))
                .label(function.name.span, "defined here");
            self.error(diagnostic);
            return None;
        }
        let most = function.params.len();
        let least = function.params.iter().rposition(|param| param.default.is_none());
        let least = least.map_or(0, |last| last + 1);
        if args < least || args > most {
            let params: Vec<_> = function.params.iter().map(|p| p.name.text.as_str()).collect();
            let signature = format!("{}({})", name.text, params.join(", "));
            let diagnostic = wrong_number(name, args, least, most, &signature)
                .label(function.name.span, "defined here");
            self.error(diagnostic);
            return None;
        }
        Some(id)
    }

    fn unknown_function(&self, name: &ast::Name) -> Diagnostic {
        if builtin::find(&name.text).is_some() {
            let message = format!("`{}` is a value, which moves nothing", name.text);
            return Diagnostic::error(name.span, message).hint("a statement moves data");
        }
        let diagnostic =
            Diagnostic::error(name.span, format!("there is no function `{}`", name.text));
        let builtins = builtin::BUILTINS.iter().map(|&(_, known, _)| known);
        if let Some((_, hint)) = FOREIGN.iter().find(|&&(foreign, _)| foreign == name.text) {
            return diagnostic.hint(*hint);
        }
        if let Some(module) = standard::module_that_defines(&name.text) {
            return diagnostic
                .hint(format!("`import {module}` at the top of the file brings it in"));
        }
        match nearest(&name.text, self.items.function_names(self.file).chain(builtins)) {
            Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
            None => diagnostic.hint(format!("define it: `fn {}(…) = …`", name.text)),
        }
    }
}

/// Functions of other languages, and what stands for them here.
const FOREIGN: &[(&str, &str)] = &[
    ("range", "write `0..n`, up to and without n, or `a..b by s`"),
    ("chunk", "a chunk is a place: `input@rank[index]`, or `input@rank[a..b]` for several"),
    ("copy", "write `destination = source`"),
    ("reduce", "write `destination += source`"),
    ("create_scratch", "write `scratch name[chunks]`"),
    ("enumerate", "write `for i in 0..len(list)`, and `list[i]`"),
    ("zip", "write `for i in 0..len(a)`, and `a[i]`, `b[i]`"),
    ("reversed", "write `reverse(list)`"),
    ("pow", "write `a ** b`"),
    ("XML", "`msccl compile` writes the XML"),
    ("Check", "every program is checked; `msccl verify` proves it"),
];

/// What a call is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Callee {
    Value,
    Block,
}

fn wrong_number(
    name: &ast::Name,
    found: usize,
    least: usize,
    most: usize,
    signature: &str,
) -> Diagnostic {
    let takes = if least == most { format!("{most}") } else { format!("{least} to {most}") };
    let plural = if takes == "1" { "" } else { "s" };
    let message = format!("`{}` takes {takes} argument{plural}, not {found}", name.text);
    Diagnostic::error(name.span, message).hint(format!("it is `{signature}`"))
}
