//! Binders: the rounds of loops, comprehensions and sums.

use msccl_syntax::{Diagnostic, Span};

use super::interpreter::Interpreter;
use super::report::Refused;
use super::resolved::{Binder, Binders, Expr, Pattern};
use super::value::Value;

/// What is done in each round.
type Round<'b, 'a> = dyn FnMut(&mut Interpreter<'a>) -> Result<(), Refused> + 'b;

impl<'a> Interpreter<'a> {
    /// Runs `body` for each round, later binders varying faster; stops where it is refused.
    pub(super) fn each(
        &mut self,
        binders: &'a Binders,
        span: Span,
        body: &mut Round<'_, 'a>,
    ) -> Result<(), Refused> {
        let levels = binders.list.len();
        self.deeper_by(levels, span, |this| {
            this.nest(&binders.list, binders.filter.as_ref(), span, body)
        })
    }

    fn nest(
        &mut self,
        binders: &'a [Binder],
        filter: Option<&'a Expr>,
        span: Span,
        body: &mut Round<'_, 'a>,
    ) -> Result<(), Refused> {
        let Some((first, rest)) = binders.split_first() else {
            return match filter {
                Some(filter) if !self.bool(filter)? => Ok(()),
                _ => body(self),
            };
        };
        match self.value(&first.domain)? {
            Value::Range(from, to) => {
                if to < from {
                    self.warn_of_descent(first.domain.span, from, to);
                }
                for value in from..to {
                    self.round(span)?;
                    self.match_pattern(first, Value::Int(value))?;
                    self.nest(rest, filter, span, body)?;
                }
            }
            Value::Stepped(progression) => {
                for value in progression.iter() {
                    self.round(span)?;
                    self.match_pattern(first, Value::Int(value))?;
                    self.nest(rest, filter, span, body)?;
                }
            }
            Value::List(list) => {
                for value in &list.items {
                    self.round(span)?;
                    self.match_pattern(first, value.clone())?;
                    self.nest(rest, filter, span, body)?;
                }
            }
            other => return Err(self.mismatch(first.span, "a range or a list", &other)),
        }
        Ok(())
    }

    /// An empty range like `1..N` for one rank is as it should be; one that ends before it begins
    /// is hardly meant.
    #[cold]
    fn warn_of_descent(&mut self, span: Span, from: i64, to: i64) {
        let message = format!("{from}..{to} has no elements: it ends before it begins");
        let hint = "to count down, write `reverse(a..b)`";
        self.warn(Diagnostic::warning(span, message).hint(hint));
    }

    fn match_pattern(&mut self, binder: &'a Binder, value: Value) -> Result<(), Refused> {
        let names = match &binder.pattern {
            Pattern::One(local) => {
                self.bind(*local, value);
                return Ok(());
            }
            Pattern::List(names) => names,
        };
        if value.len() != Some(names.len() as u64) {
            let count = names.len();
            let message =
                format!("expected lists of {count} elements, to name each, found {value}");
            return Err(self.error(Diagnostic::error(binder.span, message)));
        }
        for (index, local) in names.iter().enumerate() {
            self.bind(*local, value.element(index as u64));
        }
        Ok(())
    }
}
