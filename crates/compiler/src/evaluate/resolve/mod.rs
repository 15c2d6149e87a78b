//! Name resolution: from syntax trees to [`resolved`](super::resolved).
//!
//! Guarantees: every variable of the result is bound where it is used, every function called
//! exists, gets as many arguments as it takes, and stands where its kind may stand. What is refused
//! is reported and left out, and the rest is still looked at. Which statements may stand in a
//! collective and which outside is the grammar's affair.
//!
//! Functions have one space of names and collectives another; see [`names`].

mod expression;
mod items;
mod names;
mod scope;
mod statement;

use msccl_syntax::{Diagnostic, Span, ast};

use self::items::{Items, MAIN};
use self::scope::Scope;
use super::load::Loaded;
use super::report::{Refused, Report};
use super::resolved::{
    Algorithm, Body, Clause, ClauseKind, Collective, Frame, Function, Implements, Param, Program,
};

/// Resolves the algorithm called `chosen` of the first file, or that file's last one.
pub(super) fn resolve(
    files: &[Loaded],
    whole: Span,
    chosen: Option<&str>,
    report: &mut Report,
) -> Result<Program, Refused> {
    let items = Items::collect(files, report);
    let mut resolver =
        Resolver { items: &items, report, file: MAIN, scope: Scope::default(), sites: Vec::new() };
    let functions =
        items.functions.iter().map(|&(file, item)| resolver.in_file(file).function(item)).collect();
    let collectives = items.collectives.iter();
    let collectives =
        collectives.map(|&(file, item)| resolver.in_file(file).collective(item)).collect();
    let algorithm = items.algorithm(whole, chosen).map_err(|error| resolver.report.error(error))?;
    let resolver = resolver.in_file(MAIN);
    let algorithm = resolver.algorithm(algorithm);
    let sites = std::mem::take(&mut resolver.sites);
    Ok(Program { functions, collectives, algorithm, sites })
}

struct Resolver<'a> {
    items: &'a Items<'a>,
    report: &'a mut Report,
    /// The file whose names are in sight.
    file: usize,
    scope: Scope<'a>,
    sites: Vec<Span>,
}

impl<'a> Resolver<'a> {
    fn in_file(&mut self, file: usize) -> &mut Self {
        self.file = file;
        self
    }

    fn error(&mut self, diagnostic: Diagnostic) -> Refused {
        self.report.error(diagnostic)
    }

    fn function(&mut self, item: &'a ast::Function) -> Function {
        let params = self.enter(&item.params);
        let body = match &item.body {
            ast::FunctionBody::Value(value) => Body::Value(self.expr(value)),
            ast::FunctionBody::Block(block) => Body::Block(self.block(block)),
        };
        Function { frame: self.leave(params), body }
    }

    fn collective(&mut self, item: &'a ast::CollectiveItem) -> Collective {
        if let Some(param) = item.params.iter().find(|p| p.role == ast::ParamRole::PerNode) {
            let message = "only an algorithm's parameter can say how many ranks a node has";
            let hint = "leave the word `per_node` out, and use `per_node()` for its value";
            self.error(Diagnostic::error(param.span, message).hint(hint));
        }
        let params = self.enter(&item.params);
        let body = self.block(&item.body);
        Collective { name: item.name.text.clone(), frame: self.leave(params), body }
    }

    fn algorithm(&mut self, item: &'a ast::AlgorithmItem) -> Algorithm {
        let params = self.enter(&item.params);
        self.check_per_node(item);
        let implements = self.implements(&item.implements);
        let clauses = item.clauses.iter().map(|clause| self.clause(clause)).collect();
        self.check_clauses(&item.clauses);
        let body = self.block(&item.body);
        let name_span = item.name.span;
        let frame = self.leave(params);
        Algorithm { name: item.name.text.clone(), name_span, frame, implements, clauses, body }
    }

    /// Starts a frame. Defaults see the parameters before them.
    fn enter(&mut self, params: &'a [ast::Param]) -> Vec<Param> {
        self.scope = Scope::default();
        params.iter().map(|param| self.param(param)).collect()
    }

    fn leave(&mut self, params: Vec<Param>) -> Frame {
        Frame { params, locals: self.scope.most() }
    }

    fn param(&mut self, param: &'a ast::Param) -> Param {
        let ast::Param { role, name, default, span } = param;
        if self.scope.find(&name.text).is_some() {
            let message = format!("there are two parameters called `{}`", name.text);
            self.error(Diagnostic::error(name.span, message));
        }
        let default = default.as_ref().map(|default| self.expr(default));
        self.scope.bind(&name.text);
        Param { role: *role, name: name.text.clone(), default, span: *span }
    }

    fn check_per_node(&mut self, item: &ast::AlgorithmItem) {
        let mut per_node = item.params.iter().filter(|p| p.role == ast::ParamRole::PerNode);
        if let (Some(first), Some(second)) = (per_node.next(), per_node.next()) {
            let message = format!("`{}` is a second number of ranks of a node", second.name.text);
            let diagnostic =
                Diagnostic::error(second.span, message).label(first.span, "this is the first");
            self.error(diagnostic);
        }
    }

    fn implements(&mut self, implements: &'a ast::Implements) -> Implements {
        let ast::Implements { name, args, span } = implements;
        let args = args
            .iter()
            .map(|(label, value)| (label.text.clone(), label.span, self.expr(value)))
            .collect();
        let custom = self.items.collective(self.file, name).unwrap_or_else(|ambiguous| {
            self.error(ambiguous);
            None
        });
        Implements { name: name.text.clone(), custom, args, span: *span }
    }

    fn clause(&mut self, clause: &'a ast::Clause) -> Clause {
        let kind = match &clause.kind {
            ast::ClauseKind::InPlace => ClauseKind::InPlace,
            ast::ClauseKind::Protocol(name) => ClauseKind::Protocol(name.text.clone()),
            ast::ClauseKind::Instances(count) => ClauseKind::Instances(self.expr(count)),
            ast::ClauseKind::Interleaved(count) => ClauseKind::Interleaved(self.expr(count)),
            ast::ClauseKind::Bytes(from, to) => {
                let from = self.expr(from);
                ClauseKind::Bytes(from, to.as_ref().map(|to| self.expr(to)))
            }
            ast::ClauseKind::Threads(count) => ClauseKind::Threads(self.expr(count)),
            ast::ClauseKind::Order(name) => ClauseKind::Order(name.text.clone()),
        };
        Clause { kind, span: clause.span }
    }

    fn check_clauses(&mut self, clauses: &[ast::Clause]) {
        for (position, clause) in clauses.iter().enumerate() {
            let kind = std::mem::discriminant(&clause.kind);
            let earlier = clauses[..position]
                .iter()
                .find(|other| std::mem::discriminant(&other.kind) == kind);
            if let Some(earlier) = earlier {
                let diagnostic = Diagnostic::error(clause.span, "this clause is given twice")
                    .label(earlier.span, "first here");
                self.error(diagnostic);
            }
        }
    }
}
