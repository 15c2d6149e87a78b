//! What the built-in functions answer: about numbers, lists, regions, and how ranks lie on nodes.
//! What is asked of the cluster stands in `cluster`.

use msccl_syntax::{Diagnostic, Span};

use super::arithmetic::Fault;
use super::builtin::Builtin;
use super::expression::regions_of;
use super::interpreter::Interpreter;
use super::report::Refused;
use super::resolved::Expr;
use super::value::Value;

impl<'a> Interpreter<'a> {
    /// The value of a built-in function; name resolution has checked the number of arguments.
    pub(super) fn builtin(
        &mut self,
        builtin: Builtin,
        args: &'a [Expr],
        span: Span,
    ) -> Result<Value, Refused> {
        match (builtin, args) {
            (Builtin::Nodes, _) => {
                let ranks = self.ranks(span)?;
                Ok(Value::Int(i64::from(ranks.all / ranks.per_node)))
            }
            (Builtin::PerNode, _) => Ok(Value::Int(i64::from(self.ranks(span)?.per_node))),
            (Builtin::Nics | Builtin::Switches | Builtin::Numas, _) => {
                self.ask_counts(builtin, span)
            }
            (
                Builtin::Len
                | Builtin::Reverse
                | Builtin::Count
                | Builtin::Abs
                | Builtin::Log2
                | Builtin::CeilLog2
                | Builtin::IsPowerOfTwo
                | Builtin::Node
                | Builtin::Local
                | Builtin::Rail
                | Builtin::Neighbours
                | Builtin::Nic
                | Builtin::Switch
                | Builtin::Numa,
                [only],
            ) => self.ask_one(builtin, only, span),
            (
                Builtin::Min
                | Builtin::Max
                | Builtin::Gcd
                | Builtin::Position
                | Builtin::Contains
                | Builtin::BitReverse
                | Builtin::RankAt
                | Builtin::Linked
                | Builtin::Width,
                [first, second],
            ) => self.ask_two(builtin, first, second, span),
            _ => Err(Refused),
        }
    }

    fn ask_one(&mut self, builtin: Builtin, arg: &'a Expr, span: Span) -> Result<Value, Refused> {
        match builtin {
            Builtin::Len => self.length(arg),
            Builtin::Reverse => self.reverse(arg, span),
            Builtin::Count => self.count(arg),
            Builtin::Node | Builtin::Local | Builtin::Rail | Builtin::Neighbours => {
                self.ask_rank(builtin, arg, span)
            }
            Builtin::Nic | Builtin::Switch | Builtin::Numa => self.ask_place(builtin, arg, span),
            _ => self.ask_number(builtin, arg, span),
        }
    }

    fn ask_two(
        &mut self,
        builtin: Builtin,
        first: &'a Expr,
        second: &'a Expr,
        span: Span,
    ) -> Result<Value, Refused> {
        match builtin {
            Builtin::Position => {
                let list = self.value(first)?;
                match self.position(&list, second, first.span)? {
                    Some(position) => Ok(Value::Int(position as i64)),
                    None => {
                        let message = "the list does not contain this value";
                        Err(self.error(Diagnostic::error(second.span, message)))
                    }
                }
            }
            Builtin::Contains => {
                let list = self.value(first)?;
                Ok(Value::Bool(self.position(&list, second, first.span)?.is_some()))
            }
            Builtin::BitReverse => self.bit_reverse(first, second),
            Builtin::RankAt => self.rank_at(first, second, span),
            Builtin::Linked | Builtin::Width => self.ask_link(builtin, first, second, span),
            _ => {
                let (a, b) = (self.int(first)?, self.int(second)?);
                match builtin {
                    Builtin::Min => Ok(Value::Int(a.min(b))),
                    Builtin::Max => Ok(Value::Int(a.max(b))),
                    _ => Ok(Value::Int(self.fits(gcd(a, b), span)?)),
                }
            }
        }
    }

    // --- Numbers ---------------------------------------------------------------------------------

    fn ask_number(
        &mut self,
        builtin: Builtin,
        arg: &'a Expr,
        span: Span,
    ) -> Result<Value, Refused> {
        let n = self.int(arg)?;
        Ok(match builtin {
            Builtin::Abs => Value::Int(self.fits(n.checked_abs().ok_or(Fault::Overflow), span)?),
            Builtin::IsPowerOfTwo => Value::Bool(n > 0 && n & (n - 1) == 0),
            _ if n < 1 => {
                let message = format!("there is no logarithm of {n}");
                let hint = "it is defined for 1 and above";
                return Err(self.error(Diagnostic::error(arg.span, message).hint(hint)));
            }
            Builtin::CeilLog2 => Value::Int(i64::from(64 - (n - 1).leading_zeros())),
            _ => Value::Int(i64::from(n.ilog2())),
        })
    }

    fn bit_reverse(&mut self, x: &'a Expr, bits: &'a Expr) -> Result<Value, Refused> {
        let (value, width) = (self.int(x)?, self.int(bits)?);
        if !(0..=62).contains(&width) {
            let message = format!("expected 0 to 62 bits, found {width}");
            return Err(self.error(Diagnostic::error(bits.span, message)));
        }
        if value < 0 || value >= 1 << width {
            let message = format!("{value} does not fit in {width} bits");
            return Err(self.error(Diagnostic::error(x.span, message)));
        }
        let reversed = (value as u64).reverse_bits().checked_shr(64 - width as u32);
        Ok(Value::Int(reversed.unwrap_or(0) as i64))
    }

    // --- Lists and regions -----------------------------------------------------------------------

    fn length(&mut self, list: &'a Expr) -> Result<Value, Refused> {
        let value = self.value(list)?;
        match value.len() {
            Some(length) => Ok(Value::Int(length as i64)),
            None => Err(self.mismatch(list.span, "a list", &value)),
        }
    }

    fn reverse(&mut self, list: &'a Expr, span: Span) -> Result<Value, Refused> {
        let value = self.value(list)?;
        if let Some(progression) = value.progression() {
            return Ok(Value::Stepped(progression.reversed()));
        }
        let mut items = self.items(&value, list.span)?;
        items.reverse();
        self.make_list(items, span)
    }

    fn count(&mut self, region: &'a Expr) -> Result<Value, Refused> {
        let value = self.value(region)?;
        match regions_of(&value) {
            [first, ..] => Ok(Value::Int(i64::from(first.count))),
            [] => Err(self.mismatch(region.span, "a region", &value)),
        }
    }

    fn position(
        &mut self,
        list: &Value,
        expected: &'a Expr,
        span: Span,
    ) -> Result<Option<u64>, Refused> {
        let Some(length) = list.len() else {
            return Err(self.mismatch(span, "a list", list));
        };
        let value = self.value(expected)?;
        if let (Some(progression), Value::Int(value)) = (list.progression(), &value) {
            return Ok(progression.position(*value));
        }
        for index in 0..length {
            self.round(span)?;
            if self.equal_values(&list.element(index), &value, expected.span)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    // --- Ranks on nodes --------------------------------------------------------------------------

    fn ask_rank(&mut self, builtin: Builtin, arg: &'a Expr, span: Span) -> Result<Value, Refused> {
        let rank = self.rank(arg)?.0;
        let per_node = self.ranks(span)?.per_node;
        let node = rank / per_node;
        match builtin {
            Builtin::Node => Ok(Value::Int(i64::from(node))),
            Builtin::Neighbours => {
                self.elements(u64::from(per_node), span)?;
                let all = node * per_node..(node + 1) * per_node;
                let others = all.filter(|&other| other != rank);
                self.make_list(others.map(|other| Value::Int(i64::from(other))).collect(), span)
            }
            _ => Ok(Value::Int(i64::from(rank % per_node))),
        }
    }

    fn rank_at(&mut self, node: &'a Expr, local: &'a Expr, span: Span) -> Result<Value, Refused> {
        let ranks = self.ranks(span)?;
        let nodes = i64::from(ranks.all / ranks.per_node);
        let per_node = i64::from(ranks.per_node);
        let node = self.below(node, nodes, "node")?;
        let local = self.below(local, per_node, "local rank")?;
        Ok(Value::Int(node * per_node + local))
    }

    fn below(&mut self, expr: &'a Expr, limit: i64, what: &str) -> Result<i64, Refused> {
        let value = self.int(expr)?;
        if (0..limit).contains(&value) {
            return Ok(value);
        }
        let message = format!("there is no {what} {value}");
        let range = format!("they are 0 to {}", limit - 1);
        Err(self.error(Diagnostic::error(expr.span, message).saying(range)))
    }
}

fn gcd(a: i64, b: i64) -> Result<i64, Fault> {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).map_err(|_| Fault::Overflow)
}
