//! Blocks and statements.

use super::{Builder, Depth, Result, defect};
use crate::Diagnostic;
use crate::ast::{
    AssignOp, Binder, Binders, Block, ExprKind, Hint, HintKind, Pattern, Statement, StatementKind,
};
use crate::grammar::{Node, Rule};

/// What kind of definition a statement is part of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    /// A function or an algorithm: statements move data.
    Program,
    /// A collective: statements say what is given and what is promised.
    Collective,
}

impl Builder<'_> {
    /// A block; what does not build is left out and reported.
    pub(super) fn block(&mut self, node: Node<'_>, within: Within, depth: Depth) -> Result<Block> {
        let parts = self.parts(node);
        let span = parts.span;
        let depth = depth.deeper(1, span)?;
        let mut statements = Vec::new();
        for part in parts.nodes {
            if part.as_rule() == Rule::bad_statement {
                self.bad_statement(part, within, depth);
                continue;
            }
            match self.statement(part, within, depth) {
                Ok(statement) => statements.push(statement),
                Err(diagnostic) => self.report(diagnostic),
            }
        }
        Ok(Block { statements, span })
    }

    fn statement(&mut self, node: Node<'_>, within: Within, depth: Depth) -> Result<Statement> {
        let span = self.span(&node);
        self.check_place(&node, within)?;
        let kind = match node.as_rule() {
            Rule::binding => self.binding(node, depth),
            Rule::conditional => self.conditional(node, within, depth),
            Rule::loop_statement => self.loop_statement(node, within, depth),
            Rule::placed => self.placed(node, within, depth),
            Rule::scratch => self.scratch(node, depth),
            Rule::require => self.require(node, depth),
            Rule::given => self.given(node, depth),
            Rule::promise => self.promise(node, depth),
            Rule::assignment => self.assignment(node, depth),
            Rule::call_statement => self.call_statement(node, depth),
            _ => Err(defect(self.file, "an unknown statement")),
        }?;
        Ok(Statement { kind, span })
    }

    /// Refuses statements that move data in a collective, and promises elsewhere.
    fn check_place(&self, node: &Node<'_>, within: Within) -> Result<()> {
        let span = self.span(node);
        match (node.as_rule(), within) {
            (Rule::given | Rule::promise, Within::Program) => {
                let word = node.as_str().split_whitespace().next().unwrap_or_default();
                Err(Diagnostic::error(span, format!("`{word}` stands only in a collective"))
                    .hint("`collective name(…) { … }` states what is given and what is promised"))
            }
            (
                Rule::assignment | Rule::call_statement | Rule::scratch | Rule::placed,
                Within::Collective,
            ) => Err(Diagnostic::error(span, "a collective moves no data")
                .hint("it states what is `given` and what it will `promise`")),
            _ => Ok(()),
        }
    }

    fn binding(&self, node: Node<'_>, depth: Depth) -> Result<StatementKind> {
        let mut parts = self.parts(node);
        let name = self.name(&parts.next()?);
        let value = self.expr(parts.next()?, depth)?;
        Ok(StatementKind::Let { name, value })
    }

    /// `else if` nests to the right without recursion here: the branches are built in order, then
    /// folded from the last.
    fn conditional(
        &mut self,
        node: Node<'_>,
        within: Within,
        depth: Depth,
    ) -> Result<StatementKind> {
        let mut parts = self.parts(node);
        let mut branches = Vec::new();
        for (levels, branch) in parts.all(Rule::branch).enumerate() {
            let mut parts = self.parts(branch);
            let depth = depth.deeper(2 * levels, parts.span)?;
            let condition = self.expr(parts.next()?, depth)?;
            let then = self.block(parts.next()?, within, depth)?;
            branches.push((condition, then, parts.span));
        }
        let depth = depth.deeper(2 * branches.len(), parts.span)?;
        let last = parts.take(Rule::block).map(|block| self.block(block, within, depth));
        let mut otherwise = last.transpose()?;
        while let Some((condition, then, mut span)) = branches.pop() {
            if let Some(block) = &otherwise {
                span = span.to(block.span);
            }
            let kind = StatementKind::If { condition, then, otherwise };
            if branches.is_empty() {
                return Ok(kind);
            }
            otherwise = Some(Block { statements: vec![Statement { kind, span }], span });
        }
        Err(defect(self.file, "an empty conditional"))
    }

    fn loop_statement(
        &mut self,
        node: Node<'_>,
        within: Within,
        depth: Depth,
    ) -> Result<StatementKind> {
        let mut parts = self.parts(node);
        let binders = self.binders(parts.next()?, depth)?;
        let hints = self.hints(parts.take(Rule::hints), depth)?;
        let body = self.block(parts.next()?, within, depth)?;
        Ok(StatementKind::For { binders, hints, body })
    }

    fn placed(&mut self, node: Node<'_>, within: Within, depth: Depth) -> Result<StatementKind> {
        let mut parts = self.parts(node);
        let hints = self.hints(parts.take(Rule::hints), depth)?;
        let body = self.block(parts.next()?, within, depth)?;
        Ok(StatementKind::On { hints, body })
    }

    fn scratch(&self, node: Node<'_>, depth: Depth) -> Result<StatementKind> {
        let mut parts = self.parts(node);
        let name = self.name(&parts.next()?);
        let chunks = self.expr(parts.next()?, depth)?;
        Ok(StatementKind::Scratch { name, chunks })
    }

    fn require(&self, node: Node<'_>, depth: Depth) -> Result<StatementKind> {
        let mut parts = self.parts(node);
        let condition = self.expr(parts.next()?, depth)?;
        let message = parts.take(Rule::string).map(|text| self.string(&text)).transpose()?;
        Ok(StatementKind::Require { condition, message })
    }

    fn given(&self, node: Node<'_>, depth: Depth) -> Result<StatementKind> {
        let region = self.expr(self.parts(node).next()?, depth)?;
        Ok(StatementKind::Given { region })
    }

    fn promise(&self, node: Node<'_>, depth: Depth) -> Result<StatementKind> {
        let mut parts = self.parts(node);
        let place = self.operation(parts.next()?, depth)?;
        let value = self.expr(parts.next()?, depth)?;
        Ok(StatementKind::Promise { place, value })
    }

    fn assignment(&self, node: Node<'_>, depth: Depth) -> Result<StatementKind> {
        let mut parts = self.parts(node);
        let place = self.operation(parts.next()?, depth)?;
        let op = match parts.next()?.as_rule() {
            Rule::reduces => AssignOp::Reduce,
            _ => AssignOp::Copy,
        };
        let value = self.expr(parts.next()?, depth)?;
        let hints = self.hints(parts.take(Rule::hints), depth)?;
        Ok(StatementKind::Assign { place, op, value, hints })
    }

    fn call_statement(&self, node: Node<'_>, depth: Depth) -> Result<StatementKind> {
        let mut parts = self.parts(node);
        let ExprKind::Call { name, args } = self.call(parts.next()?, depth)? else {
            return Err(defect(self.file, "a call that is none"));
        };
        let hints = self.hints(parts.take(Rule::hints), depth)?;
        Ok(StatementKind::Call { name, args, hints })
    }

    /// `i in a, [x, y] in b if c`.
    pub(super) fn binders(&self, node: Node<'_>, depth: Depth) -> Result<Binders> {
        let mut parts = self.parts(node);
        let list = parts
            .all(Rule::binder)
            .map(|binder| self.binder(binder, depth))
            .collect::<Result<_>>()?;
        let filter = parts.take(Rule::expr).map(|filter| self.expr(filter, depth)).transpose()?;
        Ok(Binders { list, filter })
    }

    fn binder(&self, node: Node<'_>, depth: Depth) -> Result<Binder> {
        let mut parts = self.parts(node);
        let pattern = parts.next()?;
        let is_list = pattern.as_str().starts_with('[');
        let mut names = self.parts(pattern);
        let pattern = if is_list {
            Pattern::List(names.all(Rule::name).map(|name| self.name(&name)).collect())
        } else {
            Pattern::Name(self.name(&names.next()?))
        };
        Ok(Binder { pattern, domain: self.expr(parts.next()?, depth)? })
    }

    fn hints(&self, node: Option<Node<'_>>, depth: Depth) -> Result<Vec<Hint>> {
        let Some(node) = node else { return Ok(Vec::new()) };
        self.parts(node).nodes.map(|hint| self.hint(hint, depth)).collect()
    }

    fn hint(&self, node: Node<'_>, depth: Depth) -> Result<Hint> {
        let mut parts = self.parts(node);
        let kind = match parts.next()?.as_rule() {
            Rule::on_channel => HintKind::Channel,
            Rule::on_tb => HintKind::Tb,
            Rule::on_send_tb => HintKind::SendTb,
            Rule::on_receive_tb => HintKind::ReceiveTb,
            _ => return Err(defect(self.file, "an unknown hint")),
        };
        Ok(Hint { kind, value: self.expr(parts.next()?, depth)?, span: parts.span })
    }
}
