//! Expressions to values.

use msccl_syntax::ast::BinaryOp;
use msccl_syntax::{Diagnostic, Span};

use super::arithmetic::{self, Fault};
use super::budget::MAX_LIST_NESTING;
use super::interpreter::Interpreter;
use super::progression::Progression;
use super::report::Refused;
use super::resolved::{Binders, Body, Expr, ExprKind, FunctionId};
use super::value::{List, Value};
use crate::chunk::{BufferId, Region};

impl<'a> Interpreter<'a> {
    /// What an expression evaluates to; never [`Value::Poison`].
    pub(super) fn value(&mut self, expr: &'a Expr) -> Result<Value, Refused> {
        match &expr.kind {
            ExprKind::Int(value) => Ok(Value::Int(*value)),
            ExprKind::Bool(value) => Ok(Value::Bool(*value)),
            ExprKind::Str(text) => Ok(Value::Str(text.clone())),
            ExprKind::Input => Ok(Value::Buffer(BufferId::INPUT)),
            ExprKind::Output => Ok(Value::Buffer(BufferId::OUTPUT)),
            ExprKind::Local(local) => match self.local(*local) {
                Value::Poison => Err(Refused),
                value => Ok(value.clone()),
            },
            ExprKind::Broken => Err(Refused),
            _ => self.deeper(expr.span, |this| this.compound(expr)),
        }
    }

    fn compound(&mut self, expr: &'a Expr) -> Result<Value, Refused> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::List(items) => self.list(items, span),
            ExprKind::Comprehension(over) => self.comprehension(&over.0, &over.1, span),
            ExprKind::Sum(over) => self.sum(&over.0, &over.1, span),
            ExprKind::Call(function, args) => self.call_value(*function, args, span),
            ExprKind::Builtin(builtin, args) => self.builtin(*builtin, args, span),
            ExprKind::Index(pair) => self.index(&pair.0, &pair.1),
            ExprKind::At(pair) => self.at(&pair.0, &pair.1),
            ExprKind::Range(pair) => Ok(Value::Range(self.int(&pair.0)?, self.int(&pair.1)?)),
            ExprKind::Stepped(parts) => self.stepped(&parts.0, &parts.1, &parts.2),
            ExprKind::Negate(operand) => {
                let negated = self.int(operand)?.checked_neg().ok_or(Fault::Overflow);
                Ok(Value::Int(self.fits(negated, span)?))
            }
            ExprKind::Not(operand) => Ok(Value::Bool(!self.bool(operand)?)),
            ExprKind::Binary(op, pair) => self.binary(*op, &pair.0, &pair.1, span),
            ExprKind::If(parts) => {
                let (condition, then, otherwise) = &**parts;
                if self.bool(condition)? { self.value(then) } else { self.value(otherwise) }
            }
            ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::Str(_)
            | ExprKind::Input
            | ExprKind::Output
            | ExprKind::Local(_)
            | ExprKind::Broken => self.value(expr),
        }
    }

    // --- Integers and truth values ---------------------------------------------------------------

    /// The integer an expression evaluates to. The usual cases take a short way.
    pub(super) fn int(&mut self, expr: &'a Expr) -> Result<i64, Refused> {
        match &expr.kind {
            ExprKind::Int(value) => return Ok(*value),
            ExprKind::Local(local) => {
                if let Value::Int(value) = self.local(*local) {
                    return Ok(*value);
                }
            }
            ExprKind::Binary(op, pair) if arithmetic::makes_integer(*op) => {
                return self.deeper(expr.span, |this| {
                    let (a, b) = (this.int(&pair.0)?, this.int(&pair.1)?);
                    this.arithmetic(*op, a, b, expr.span)
                });
            }
            _ => {}
        }
        match self.value(expr)? {
            Value::Int(value) => Ok(value),
            Value::EmptySum => Ok(0),
            other => Err(self.mismatch(expr.span, "an integer", &other)),
        }
    }

    fn arithmetic(&mut self, op: BinaryOp, a: i64, b: i64, span: Span) -> Result<i64, Refused> {
        match arithmetic::integer(op, a, b) {
            Some(Ok(value)) => Ok(value),
            Some(Err(fault)) => Err(self.fault(fault, span)),
            None => Err(Refused),
        }
    }

    pub(super) fn fits(&mut self, value: Result<i64, Fault>, span: Span) -> Result<i64, Refused> {
        value.map_err(|fault| self.fault(fault, span))
    }

    #[cold]
    fn fault(&mut self, fault: Fault, span: Span) -> Refused {
        self.error(Diagnostic::error(span, fault.message()))
    }

    /// The truth value an expression evaluates to.
    pub(super) fn bool(&mut self, expr: &'a Expr) -> Result<bool, Refused> {
        match self.value(expr)? {
            Value::Bool(value) => Ok(value),
            other => {
                let expected = "a truth value (a comparison, `true` or `false`)";
                Err(self.mismatch(expr.span, expected, &other))
            }
        }
    }

    fn binary(
        &mut self,
        op: BinaryOp,
        left: &'a Expr,
        right: &'a Expr,
        span: Span,
    ) -> Result<Value, Refused> {
        match op {
            BinaryOp::And => return Ok(Value::Bool(self.bool(left)? && self.bool(right)?)),
            BinaryOp::Or => return Ok(Value::Bool(self.bool(left)? || self.bool(right)?)),
            BinaryOp::Equal => return self.equal(left, right, span).map(Value::Bool),
            BinaryOp::NotEqual => return Ok(Value::Bool(!self.equal(left, right, span)?)),
            BinaryOp::Add => {
                let a = self.value(left)?;
                let b = self.value(right)?;
                return self.add(a, left, b, right, span);
            }
            _ => {}
        }
        let (a, b) = (self.int(left)?, self.int(right)?);
        match arithmetic::compare(op, a, b) {
            Some(truth) => Ok(Value::Bool(truth)),
            None => self.arithmetic(op, a, b, span).map(Value::Int),
        }
    }

    fn equal(&mut self, left: &'a Expr, right: &'a Expr, span: Span) -> Result<bool, Refused> {
        let (a, b) = (self.value(left)?, self.value(right)?);
        self.equal_values(&a, &b, span)
    }

    pub(super) fn equal_values(
        &mut self,
        a: &Value,
        b: &Value,
        span: Span,
    ) -> Result<bool, Refused> {
        match a.equals(b, self.rounds_left()) {
            Some(equal) => Ok(equal),
            None => {
                self.round(span)?;
                let message = format!("{} cannot be equal to {}", a.kind(), b.kind());
                Err(self.error(Diagnostic::error(span, message)))
            }
        }
    }

    /// `a + b`: integers, lists, or regions.
    fn add(
        &mut self,
        a: Value,
        left: &'a Expr,
        b: Value,
        right: &'a Expr,
        span: Span,
    ) -> Result<Value, Refused> {
        match (a, b) {
            (Value::Int(a), Value::Int(b)) => {
                self.arithmetic(BinaryOp::Add, a, b, span).map(Value::Int)
            }
            (Value::EmptySum, other @ (Value::Int(_) | Value::Region(_) | Value::Sum(_)))
            | (other @ (Value::Int(_) | Value::Region(_) | Value::Sum(_)), Value::EmptySum) => {
                Ok(other)
            }
            (Value::EmptySum, Value::EmptySum) => Ok(Value::EmptySum),
            (a, b) if a.len().is_some() && b.len().is_some() => {
                let items = self.items(&a, left.span)?.into_iter();
                let joined = items.chain(self.items(&b, right.span)?).collect();
                self.make_list(joined, span)
            }
            (a @ (Value::Region(_) | Value::Sum(_)), b @ (Value::Region(_) | Value::Sum(_))) => {
                let mut regions = regions_of(&a).to_vec();
                regions.extend_from_slice(regions_of(&b));
                self.elements(regions.len() as u64, span)?;
                Ok(Value::Sum(regions.into()))
            }
            (a @ (Value::Int(_) | Value::List(_) | Value::Range(..) | Value::Stepped(_)), b) => {
                Err(self.mismatch(right.span, a.kind(), &b))
            }
            (a @ (Value::Region(_) | Value::Sum(_)), b) => {
                let expected = format!("a region, to add it to {},", a.kind());
                Err(self.mismatch(right.span, &expected, &b))
            }
            (a, _) => Err(self.mismatch(left.span, "an integer, a list or a region", &a)),
        }
    }

    // --- Ranges, lists and sums ------------------------------------------------------------------

    /// `from..to by step`. Steps of 1 make a plain range.
    fn stepped(&mut self, from: &'a Expr, to: &'a Expr, by: &'a Expr) -> Result<Value, Refused> {
        let (from, to, step) = (self.int(from)?, self.int(to)?, self.int(by)?);
        match step {
            1 => Ok(Value::Range(from, to)),
            // Empty whatever the step. As a range it still shows where it was to go.
            2.. if to < from => Ok(Value::Range(from, to)),
            2.. => Ok(Value::Stepped(Progression::new(from, to, step))),
            _ => {
                let message = format!("a range goes up by steps of 1 or more, not {step}");
                let hint = "to count down, write `reverse(a..b by s)`";
                Err(self.error(Diagnostic::error(by.span, message).hint(hint)))
            }
        }
    }

    fn list(&mut self, items: &'a [Expr], span: Span) -> Result<Value, Refused> {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            values.push(self.value(item)?);
        }
        self.elements(values.len() as u64, span)?;
        self.make_list(values, span)
    }

    fn comprehension(
        &mut self,
        binders: &'a Binders,
        element: &'a Expr,
        span: Span,
    ) -> Result<Value, Refused> {
        let mut values = Vec::new();
        self.each(binders, span, &mut |this| {
            this.elements(1, span)?;
            values.push(this.value(element)?);
            Ok(())
        })?;
        self.make_list(values, span)
    }

    /// A list of elements that have been charged for.
    pub(super) fn make_list(&mut self, items: Vec<Value>, span: Span) -> Result<Value, Refused> {
        match List::new(items) {
            Some(list) => Ok(Value::List(list)),
            None => {
                let message = format!("lists nest more than {MAX_LIST_NESTING} deep here");
                Err(self.error(Diagnostic::error(span, message)))
            }
        }
    }

    /// The elements of a list or range, charged for.
    pub(super) fn items(&mut self, list: &Value, span: Span) -> Result<Vec<Value>, Refused> {
        let Some(length) = list.len() else {
            return Err(self.mismatch(span, "a list", list));
        };
        self.elements(length, span)?;
        Ok((0..length).map(|index| list.element(index)).collect())
    }

    fn sum(&mut self, binders: &'a Binders, term: &'a Expr, span: Span) -> Result<Value, Refused> {
        let mut total = Total::Nothing;
        self.each(binders, span, &mut |this| {
            let value = this.value(term)?;
            this.add_term(&mut total, value, term.span)
        })?;
        Ok(match total {
            Total::Nothing => Value::EmptySum,
            Total::Int(value) => Value::Int(value),
            Total::Regions(regions) => Value::Sum(regions.into()),
        })
    }

    fn add_term(&mut self, total: &mut Total, value: Value, span: Span) -> Result<(), Refused> {
        match (&mut *total, value) {
            (_, Value::EmptySum) => {}
            (Total::Nothing, Value::Int(value)) => *total = Total::Int(value),
            (Total::Int(sum), Value::Int(value)) => {
                *sum = self.arithmetic(BinaryOp::Add, *sum, value, span)?;
            }
            (Total::Nothing, value @ (Value::Region(_) | Value::Sum(_))) => {
                *total = Total::Regions(regions_of(&value).to_vec());
            }
            (Total::Regions(sum), value @ (Value::Region(_) | Value::Sum(_))) => {
                let regions = regions_of(&value);
                self.elements(regions.len() as u64, span)?;
                sum.extend_from_slice(regions);
            }
            (Total::Nothing, value) => {
                return Err(self.mismatch(span, "an integer or a region", &value));
            }
            (Total::Int(_), value) => return Err(self.mismatch(span, "an integer", &value)),
            (Total::Regions(_), value) => return Err(self.mismatch(span, "a region", &value)),
        }
        Ok(())
    }

    // --- Functions -------------------------------------------------------------------------------

    fn call_value(
        &mut self,
        FunctionId(number): FunctionId,
        args: &'a [Expr],
        span: Span,
    ) -> Result<Value, Refused> {
        let function = &self.program.functions[number as usize];
        let Body::Value(body) = &function.body else { return Err(Refused) };
        self.call(&function.frame, args, span, |this| this.value(body))
    }
}

/// What a sum has come to.
enum Total {
    Nothing,
    Int(i64),
    Regions(Vec<Region>),
}

/// The terms of a region or a sum of regions; none for anything else.
pub(super) fn regions_of(value: &Value) -> &[Region] {
    match value {
        Value::Region(region) => std::slice::from_ref(region),
        Value::Sum(regions) => regions,
        _ => &[],
    }
}
