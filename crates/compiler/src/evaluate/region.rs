//! Places: buffers at ranks, and parts of regions.

use msccl_syntax::ast::BinaryOp;
use msccl_syntax::{Diagnostic, Span};

use super::expression::regions_of;
use super::interpreter::{Interpreter, Terms, World};
use super::report::Refused;
use super::resolved::{Expr, ExprKind};
use super::value::Value;
use crate::chunk::{BufferId, MAX_CHUNKS, Region};

/// Chunks that a buffer seems to have while its collective is still saying how many it has.
pub(super) const OPEN: u32 = MAX_CHUNKS as u32;

impl<'a> Interpreter<'a> {
    /// The region an expression denotes.
    pub(super) fn region(&mut self, expr: &'a Expr) -> Result<Region, Refused> {
        match self.value(expr)? {
            Value::Region(region) => Ok(region),
            Value::Buffer(buffer) => Err(self.buffer_alone(buffer, expr.span)),
            other => Err(self.mismatch(expr.span, "a region, as in `input@rank[i]`", &other)),
        }
    }

    #[cold]
    fn buffer_alone(&mut self, buffer: BufferId, span: Span) -> Refused {
        let name = self.buffer_name(buffer).to_owned();
        let message = format!("`{name}` is a buffer of every rank; say which rank's");
        self.error(Diagnostic::error(span, message).hint(format!("write `{name}@rank[i]`")))
    }

    /// The regions that an expression sums, each with its place in the text.
    pub(super) fn terms(&mut self, expr: &'a Expr, terms: &mut Terms) -> Result<(), Refused> {
        match &expr.kind {
            ExprKind::Binary(BinaryOp::Add, pair) => self.deeper(expr.span, |this| {
                this.terms(&pair.0, terms)?;
                this.terms(&pair.1, terms)
            }),
            ExprKind::Sum(over) => self.deeper(expr.span, |this| {
                this.each(&over.0, expr.span, &mut |this| this.terms(&over.1, terms))
            }),
            _ => match self.value(expr)? {
                Value::EmptySum => Ok(()),
                value @ (Value::Region(_) | Value::Sum(_)) => {
                    for &region in regions_of(&value) {
                        terms.regions.push(region);
                        terms.spans.push(expr.span);
                    }
                    Ok(())
                }
                Value::Buffer(buffer) => Err(self.buffer_alone(buffer, expr.span)),
                other => Err(self.mismatch(expr.span, "a region or a sum of regions", &other)),
            },
        }
    }

    /// `buffer@rank`: all of it.
    pub(super) fn at(&mut self, buffer: &'a Expr, rank: &'a Expr) -> Result<Value, Refused> {
        let place = buffer.span;
        let buffer = match self.value(buffer)? {
            Value::Buffer(buffer) => buffer,
            other => return Err(self.mismatch(place, "a buffer before `@`", &other)),
        };
        let rank = self.rank(rank)?;
        let count = match &self.world {
            World::Memory(memory) => memory.chunks(buffer, rank),
            World::Conditions(_) => OPEN,
            World::Head => {
                let message = "buffers have no size yet in an algorithm's head";
                return Err(self.error(Diagnostic::error(place, message)));
            }
        };
        Ok(Value::Region(Region { buffer, rank, start: 0, count }))
    }

    /// `base[index]`.
    pub(super) fn index(&mut self, base: &'a Expr, index: &'a Expr) -> Result<Value, Refused> {
        let place = base.span;
        let base = self.value(base)?;
        let at = self.value(index)?;
        let span = index.span;
        match (&base, at) {
            (Value::Region(region), Value::Int(index)) => self.chunk(*region, index, span),
            (Value::Region(region), Value::Range(from, to)) => self.part(*region, from, to, span),
            (Value::Buffer(buffer), _) => Err(self.buffer_alone(*buffer, place)),
            (list, Value::Int(index)) if list.len().is_some() => self.element(list, index, span),
            (list, Value::Range(from, to)) if list.len().is_some() => {
                self.slice(list, from, to, span)
            }
            (Value::Region(_), Value::Stepped(_)) => Err(self.gaps(span)),
            (Value::Region(_) | Value::List(_) | Value::Range(..) | Value::Stepped(_), other) => {
                Err(self.mismatch(span, "an integer or a range", &other))
            }
            (other, _) => Err(self.mismatch(place, "a region or a list before `[`", other)),
        }
    }

    #[cold]
    fn gaps(&mut self, span: Span) -> Refused {
        let message = "a region is a run of chunks; it has no steps and does not run backwards";
        let hint = "move the chunks one by one: `for i in a..b by s { … }`";
        self.error(Diagnostic::error(span, message).hint(hint))
    }

    #[inline]
    fn chunk(&mut self, region: Region, index: i64, span: Span) -> Result<Value, Refused> {
        match u32::try_from(index) {
            Ok(offset) if offset < region.count => {
                Ok(Value::Region(Region { start: region.start + offset, count: 1, ..region }))
            }
            _ => Err(self.chunk_outside(region, index, span)),
        }
    }

    fn part(&mut self, region: Region, from: i64, to: i64, span: Span) -> Result<Value, Refused> {
        if from > to {
            let message = format!("the part {from}..{to} ends before it starts");
            return Err(self.error(Diagnostic::error(span, message)));
        }
        match (u32::try_from(from), u32::try_from(to)) {
            (Ok(from), Ok(to)) if to <= region.count => {
                let (start, count) = (region.start + from, to - from);
                Ok(Value::Region(Region { start, count, ..region }))
            }
            _ => {
                let outside = if from < 0 { from } else { to - 1 };
                Err(self.chunk_outside(region, outside, span))
            }
        }
    }

    #[cold]
    fn chunk_outside(&mut self, region: Region, index: i64, span: Span) -> Refused {
        let name = self.buffer_name(region.buffer).to_owned();
        let rank = region.rank.0;
        let whole = match &self.world {
            World::Memory(memory) => memory.chunks(region.buffer, region.rank),
            World::Conditions(_) | World::Head => OPEN,
        };
        let message = match (region.count, region.count == whole) {
            (0, true) => format!("`{name}` of rank {rank} has no chunks"),
            (_, true) => format!("`{name}` of rank {rank} has no chunk {index}"),
            (_, false) => format!("this part of `{name}` of rank {rank} has no chunk {index}"),
        };
        let diagnostic = Diagnostic::error(span, message);
        self.error(match region.count {
            0 => match self.root() {
                Some(root) => diagnostic.hint(format!("only the root, rank {root}, has them")),
                None => diagnostic,
            },
            1 => diagnostic.saying("it has one chunk, 0"),
            count => diagnostic.saying(format!("it has {count} chunks, 0 to {}", count - 1)),
        })
    }

    fn root(&self) -> Option<u32> {
        match &self.world {
            World::Memory(memory) => memory.collective().root().map(|root| root.0),
            World::Conditions(_) | World::Head => None,
        }
    }

    fn element(&mut self, list: &Value, index: i64, span: Span) -> Result<Value, Refused> {
        let length = list.len().unwrap_or(0);
        match u64::try_from(index) {
            Ok(index) if index < length => match list.element(index) {
                Value::Poison => Err(Refused),
                value => Ok(value),
            },
            _ => Err(self.element_outside(index, length, span)),
        }
    }

    fn slice(&mut self, list: &Value, from: i64, to: i64, span: Span) -> Result<Value, Refused> {
        let length = list.len().unwrap_or(0);
        if from > to {
            let message = format!("the part {from}..{to} ends before it starts");
            return Err(self.error(Diagnostic::error(span, message)));
        }
        if from < 0 || to as u64 > length {
            let outside = if from < 0 { from } else { to - 1 };
            return Err(self.element_outside(outside, length, span));
        }
        let (first, end) = (from as u64, to as u64);
        match list {
            Value::Range(start, _) => Ok(Value::Range(start + from, start + to)),
            Value::Stepped(progression) => Ok(Value::Stepped(progression.part(first, end))),
            _ => {
                self.elements(end - first, span)?;
                self.make_list((first..end).map(|index| list.element(index)).collect(), span)
            }
        }
    }

    #[cold]
    fn element_outside(&mut self, index: i64, length: u64, span: Span) -> Refused {
        let message = format!("the list has no element {index}");
        let has = match length {
            0 => "it is empty".to_owned(),
            1 => "it has one element, 0".to_owned(),
            _ => format!("it has {length} elements, 0 to {}", length - 1),
        };
        self.error(Diagnostic::error(span, message).saying(has))
    }
}
