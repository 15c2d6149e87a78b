//! Statements to ops.

use std::rc::Rc;

use msccl_syntax::ast::{AssignOp, HintKind};
use msccl_syntax::{Diagnostic, Span};

use super::budget::MAX_HINT;
use super::interpreter::{Interpreter, Terms, World};
use super::report::Refused;
use super::resolved::{Block, Body, Expr, FunctionId, Hint, Local, Site, Statement, StatementKind};
use super::value::Value;
use crate::chunk::{Hints, MAX_CHUNKS, Refusal, Region};

impl<'a> Interpreter<'a> {
    /// Runs a block. One refused statement does not keep the next from being looked at; only what
    /// stops the evaluator is passed on.
    pub(super) fn block(&mut self, block: &'a Block) -> Result<(), Refused> {
        for statement in block {
            if self.statement(statement).is_err() {
                self.tainted = true;
            }
            if self.stopped {
                return Err(Refused);
            }
        }
        Ok(())
    }

    fn statement(&mut self, statement: &'a Statement) -> Result<(), Refused> {
        let span = statement.span;
        match &statement.kind {
            StatementKind::Let { local, value } => {
                let value = self.value(value);
                self.bind(*local, value.as_ref().map_or(Value::Poison, Value::clone));
                value.map(|_| ())
            }
            StatementKind::If { condition, then, otherwise } => {
                let chosen = if self.bool(condition)? { then } else { otherwise };
                self.deeper(span, |this| this.block(chosen))
            }
            StatementKind::For { binders, hints, body } => self.deeper(span, |this| {
                this.each(binders, span, &mut |this| this.on(hints, |this| this.block(body)))
            }),
            StatementKind::On { hints, body } => {
                self.deeper(span, |this| this.on(hints, |this| this.block(body)))
            }
            StatementKind::Scratch { local, name, chunks } => self.scratch(*local, name, chunks),
            StatementKind::Assign { site, place, op, value, hints } => {
                self.round(span)?;
                self.on(hints, |this| this.assign(*site, place, *op, value, span))
            }
            StatementKind::Call { site, function, args, hints } => self.deeper(span, |this| {
                this.on(hints, |this| this.call_block(*site, *function, args, span))
            }),
            StatementKind::Require { condition, message } => {
                self.require(condition, message.as_deref())
            }
            StatementKind::Given { region } => self.given(region, span),
            StatementKind::Promise { place, value } => self.promise(place, value, span),
        }
    }

    fn require(&mut self, condition: &'a Expr, message: Option<&str>) -> Result<(), Refused> {
        if self.bool(condition)? {
            return Ok(());
        }
        let message = match message {
            Some(message) => format!("a requirement does not hold: {message}"),
            None => "a requirement does not hold".to_owned(),
        };
        Err(self.stop(Diagnostic::error(condition.span, message)))
    }

    /// A fresh scratch buffer.
    fn scratch(&mut self, local: Local, name: &Rc<str>, chunks: &'a Expr) -> Result<(), Refused> {
        self.bind(local, Value::Poison);
        self.round(chunks.span)?;
        let count = self.int(chunks)?;
        let World::Memory(memory) = &mut self.world else { return Err(Refused) };
        match u32::try_from(count) {
            Ok(chunks) if u64::from(chunks) <= MAX_CHUNKS => {
                let buffer = memory.scratch(chunks);
                self.scratch_names.push(name.clone());
                self.bind(local, Value::Buffer(buffer));
                Ok(())
            }
            _ => {
                let message = format!("a buffer has 0 to {MAX_CHUNKS} chunks, not {count}");
                Err(self.error(Diagnostic::error(chunks.span, message)))
            }
        }
    }

    fn call_block(
        &mut self,
        site: Site,
        FunctionId(number): FunctionId,
        args: &'a [Expr],
        span: Span,
    ) -> Result<(), Refused> {
        let function = &self.program.functions[number as usize];
        let Body::Block(body) = &function.body else { return Err(Refused) };
        let outer = self.path;
        let result = self.call(&function.frame, args, span, |this| {
            this.path = this.origins.enter(outer, site);
            this.block(body)
        });
        self.path = outer;
        result
    }

    // --- Hints -----------------------------------------------------------------------------------

    /// Runs `body` under hints, which override those outside.
    fn on(
        &mut self,
        hints: &'a [Hint],
        body: impl FnOnce(&mut Self) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        if hints.is_empty() {
            return body(self);
        }
        let outer = self.hints;
        let result = self.apply(hints).and_then(|()| body(self));
        self.hints = outer;
        result
    }

    fn apply(&mut self, hints: &'a [Hint]) -> Result<(), Refused> {
        for hint in hints {
            let value = self.int(&hint.value)?;
            let place = match u32::try_from(value) {
                Ok(place) if value <= MAX_HINT => Some(place),
                _ => {
                    let message =
                        format!("channels and thread blocks are 0 to {MAX_HINT}, not {value}");
                    return Err(self.error(Diagnostic::error(hint.value.span, message)));
                }
            };
            let Hints { channel, send_tb, receive_tb, instance: _ } = &mut self.hints;
            match hint.kind {
                HintKind::Channel => *channel = place,
                HintKind::SendTb => *send_tb = place,
                HintKind::ReceiveTb => *receive_tb = place,
                HintKind::Tb => (*send_tb, *receive_tb) = (place, place),
            }
        }
        Ok(())
    }

    // --- Moving data -----------------------------------------------------------------------------

    /// `place = value` or `place += value`.
    fn assign(
        &mut self,
        site: Site,
        place: &'a Expr,
        op: AssignOp,
        value: &'a Expr,
        span: Span,
    ) -> Result<(), Refused> {
        let to = self.region(place)?;
        let mut terms = std::mem::take(&mut self.terms);
        terms.regions.clear();
        terms.spans.clear();
        if op == AssignOp::Reduce {
            terms.regions.push(to);
            terms.spans.push(place.span);
        }
        let result = self
            .terms(value, &mut terms)
            .and_then(|()| self.move_data(site, to, &terms, (value.span, span)));
        self.terms = terms;
        result
    }

    fn move_data(
        &mut self,
        site: Site,
        to: Region,
        terms: &Terms,
        (value, span): (Span, Span),
    ) -> Result<(), Refused> {
        if terms.regions.is_empty() {
            let message = "this sum has no terms, so there is nothing to store";
            return Err(self.error(Diagnostic::error(value, message)));
        }
        let hints = self.hint_table.number(self.hints);
        let statement = self.origins.number(self.path, site);
        let World::Memory(memory) = &mut self.world else { return Err(Refused) };
        match memory.assign(to, &terms.regions, hints, statement) {
            Ok(()) => Ok(()),
            Err(Refusal::Unwritten { source, region }) => {
                self.report_unwritten(region, terms.spans[source]);
                Ok(())
            }
            Err(refusal) => Err(self.refuse(refusal, to, terms, span)),
        }
    }

    #[cold]
    fn refuse(&mut self, refusal: Refusal, to: Region, terms: &Terms, span: Span) -> Refused {
        let target = self.region_name(to);
        let name = |this: &Self, source: usize| this.region_name(terms.regions[source]);
        let diagnostic = match refusal {
            Refusal::Size { source } => {
                let (expected, found) = (chunks(to.count), chunks(terms.regions[source].count));
                let message = format!("expected {expected}, found {found}");
                let message =
                    if to.count == 1 { message.replace(" are ", " is ") } else { message };
                Diagnostic::error(terms.spans[source], message)
                    .saying(name(self, source))
                    .hint(format!("the destination is {target}"))
            }
            Refusal::Overlap { source } => {
                let message = format!("{} and {target} overlap in part", name(self, source));
                Diagnostic::error(terms.spans[source], message)
                    .hint("move the chunks one after another, or through scratch")
            }
            Refusal::Twice { source } => {
                let message = format!("{} is counted twice", name(self, source));
                let hint = "`D += S` already counts what D holds";
                Diagnostic::error(terms.spans[source], message).hint(hint)
            }
            Refusal::Unwritten { source, region } => {
                self.report_unwritten(region, terms.spans[source]);
                return Refused;
            }
            Refusal::Ops => return self.stop(too_much(span, "moves more than 16 million times")),
            Refusal::Chunks => return self.stop(too_much(span, "touches more than 2^28 chunks")),
            Refusal::Scratch => {
                return self.stop(too_much(span, "uses more than 2^28 chunks of scratch"));
            }
        };
        self.error(diagnostic)
    }

    /// Says so unless an earlier refusal may be the cause.
    #[cold]
    fn report_unwritten(&mut self, region: Region, span: Span) {
        if self.tainted || !self.report.is_news(span) {
            return;
        }
        let name = self.region_name(region);
        let buffer = self.buffer_name(region.buffer);
        let message = format!("nothing has been stored in {name} yet");
        let hint = format!("copy into `{buffer}` with `=` before reading it or adding to it");
        self.error(Diagnostic::error(span, message).hint(hint));
    }
}

fn too_much(span: Span, what: &str) -> Diagnostic {
    Diagnostic::error(span, format!("with this statement the program {what}"))
        .hint("use fewer ranks or chunks")
}

fn chunks(count: u32) -> String {
    if count == 1 { "1 chunk".to_owned() } else { format!("{count} chunks") }
}
