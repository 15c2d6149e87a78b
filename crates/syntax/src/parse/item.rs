//! Files and definitions.

use super::statement::Within;
use super::{Builder, Depth, Parts, Result, defect};
use crate::Diagnostic;
use crate::ast::{
    AlgorithmItem, Clause, ClauseKind, CollectiveItem, File, Function, FunctionBody, Implements,
    Import, ImportPath, Item, Name, Param, ParamRole,
};
use crate::grammar::{Node, Rule};

/// Where trees start to be deep.
const TOP: Depth = Depth(0);

impl Builder<'_> {
    /// A whole file; what does not build is left out and reported.
    pub(super) fn file(&mut self, node: Node<'_>) -> File {
        let mut file = File { imports: Vec::new(), items: Vec::new() };
        for part in self.parts(node).nodes {
            if let Err(diagnostic) = self.file_part(part, &mut file) {
                self.report(diagnostic);
            }
        }
        file
    }

    fn file_part(&mut self, node: Node<'_>, file: &mut File) -> Result<()> {
        match node.as_rule() {
            Rule::import => file.imports.push(self.import(node, file)?),
            Rule::function => file.items.push(Item::Function(self.function(node)?)),
            Rule::collective => file.items.push(Item::Collective(self.collective(node)?)),
            Rule::algorithm => file.items.push(Item::Algorithm(self.algorithm(node)?)),
            Rule::bad_item => self.bad_item(node),
            _ => return Err(defect(self.file, "an unknown item")),
        }
        Ok(())
    }

    fn import(&self, node: Node<'_>, file: &File) -> Result<Import> {
        let mut parts = self.parts(node);
        let span = parts.span;
        if !file.items.is_empty() {
            return Err(Diagnostic::error(span, "expected a definition, found an import")
                .hint("imports stand at the top of the file"));
        }
        let what = parts.next()?;
        let what = match what.as_rule() {
            Rule::string => ImportPath::File(self.string(&what)?),
            _ => ImportPath::Standard(what.as_str().to_string()),
        };
        Ok(Import { what, span })
    }

    fn function(&mut self, node: Node<'_>) -> Result<Function> {
        let mut parts = self.parts(node);
        let span = parts.span;
        let name = self.name(&parts.next()?);
        let params = self.params(parts.next()?)?;
        if let Some(param) = params.iter().find(|param| param.role != ParamRole::Plain) {
            let message = "a function's parameters are plain values";
            return Err(Diagnostic::error(param.span, message)
                .hint(format!("write `{}` alone", param.name.text)));
        }
        let body = parts.next()?;
        let body = match body.as_rule() {
            Rule::block => FunctionBody::Block(self.block(body, Within::Program, TOP)?),
            _ => FunctionBody::Value(self.expr(body, TOP)?),
        };
        Ok(Function { name, params, body, span })
    }

    fn collective(&mut self, node: Node<'_>) -> Result<CollectiveItem> {
        let mut parts = self.parts(node);
        let span = parts.span;
        let name = self.name(&parts.next()?);
        let params = self.params(parts.next()?)?;
        refuse_second_rank_count(&params)?;
        let body = self.block(parts.next()?, Within::Collective, TOP)?;
        Ok(CollectiveItem { name, params, body, span })
    }

    fn algorithm(&mut self, node: Node<'_>) -> Result<AlgorithmItem> {
        let mut parts = self.parts(node);
        let span = parts.span;
        let name = self.name(&parts.next()?);
        let params = self.params(parts.next()?)?;
        require_rank_count(&name, &params)?;
        let implements = self.implements(parts.next()?)?;
        let clauses =
            parts.all(Rule::clause).map(|clause| self.clause(clause)).collect::<Result<_>>()?;
        let body = self.block(parts.next()?, Within::Program, TOP)?;
        Ok(AlgorithmItem { name, params, implements, clauses, body, span })
    }

    fn params(&self, node: Node<'_>) -> Result<Vec<Param>> {
        self.parts(node).nodes.map(|param| self.param(param)).collect()
    }

    fn param(&self, node: Node<'_>) -> Result<Param> {
        let mut parts = self.parts(node);
        let span = parts.span;
        let role = match (parts.take(Rule::word_ranks), parts.take(Rule::word_per_node)) {
            (Some(_), _) => ParamRole::Ranks,
            (None, Some(_)) => ParamRole::PerNode,
            (None, None) => ParamRole::Plain,
        };
        let name = self.name(&parts.next()?);
        let default = parts.take(Rule::expr).map(|value| self.expr(value, TOP)).transpose()?;
        Ok(Param { role, name, default, span })
    }

    fn implements(&self, node: Node<'_>) -> Result<Implements> {
        let mut parts = self.parts(node);
        let span = parts.span;
        let name = self.name(&parts.next()?);
        let args = parts.nodes.map(|labelled| self.labelled(labelled)).collect::<Result<_>>()?;
        Ok(Implements { name, args, span })
    }

    fn labelled(&self, node: Node<'_>) -> Result<(Name, crate::ast::Expr)> {
        let mut parts = self.parts(node);
        let label = self.name(&parts.next()?);
        Ok((label, self.expr(parts.next()?, TOP)?))
    }

    fn clause(&self, node: Node<'_>) -> Result<Clause> {
        let mut parts = self.parts(node);
        let span = parts.span;
        let clause = parts.next()?;
        let rule = clause.as_rule();
        let mut parts = self.parts(clause);
        let kind = match rule {
            Rule::in_place => ClauseKind::InPlace,
            Rule::protocol => ClauseKind::Protocol(self.name(&parts.next()?)),
            Rule::instances => ClauseKind::Instances(self.expr(parts.next()?, TOP)?),
            Rule::interleaved => ClauseKind::Interleaved(self.expr(parts.next()?, TOP)?),
            Rule::bytes => self.bytes(parts)?,
            Rule::threads => ClauseKind::Threads(self.expr(parts.next()?, TOP)?),
            Rule::order => ClauseKind::Order(self.name(&parts.next()?)),
            _ => return Err(defect(self.file, "an unknown clause")),
        };
        Ok(Clause { kind, span })
    }

    fn bytes(&self, mut parts: Parts<'_>) -> Result<ClauseKind> {
        let from = self.operation(parts.next()?, TOP)?;
        let to = parts.take(Rule::bound).map(|bound| self.operation(bound, TOP)).transpose()?;
        Ok(ClauseKind::Bytes(from, to))
    }
}

fn refuse_second_rank_count(params: &[Param]) -> Result<()> {
    let mut rank_counts = params.iter().filter(|param| param.role == ParamRole::Ranks);
    match (rank_counts.next(), rank_counts.next()) {
        (Some(first), Some(second)) => {
            let message = format!("`{}` is a second number of ranks", second.name.text);
            Err(Diagnostic::error(second.span, message)
                .label(first.span, "this is the first")
                .hint("only one parameter is introduced by `ranks`"))
        }
        _ => Ok(()),
    }
}

fn require_rank_count(name: &Name, params: &[Param]) -> Result<()> {
    refuse_second_rank_count(params)?;
    if params.iter().any(|param| param.role == ParamRole::Ranks) {
        return Ok(());
    }
    let message =
        format!("algorithm `{}` does not say which parameter counts its ranks", name.text);
    let hint = format!("write `algorithm {}(ranks N = 8, …)`", name.text);
    Err(Diagnostic::error(name.span, message).hint(hint))
}
