//! Custom collectives: from `given` and `promise` statements to a contract.

use std::sync::Arc;

use msccl_collective::{Collective, Contract, Contribution, Custom, Kind};
use msccl_syntax::ast::ParamRole;
use msccl_syntax::{Diagnostic, Span};

use super::budget::MAX_CONTRACT_ENTRIES;
use super::conditions::Conditions;
use super::interpreter::{Interpreter, Terms, World};
use super::region::OPEN;
use super::report::Refused;
use super::resolved::{self, Expr, Implements, Local, Param};
use super::value::Value;
use crate::chunk::{BufferId, Region};

impl<'a> Interpreter<'a> {
    /// A custom collective over `ranks` ranks: evaluates its arguments here and its conditions in
    /// a frame of their own.
    pub(super) fn custom(
        &mut self,
        custom: &'a resolved::Collective,
        implements: &'a Implements,
        ranks: u32,
    ) -> Result<Collective, Refused> {
        let args = self.labelled(custom, implements, ranks)?;
        let world = std::mem::replace(&mut self.world, World::Conditions(Conditions::default()));
        let result = self.in_frame(&custom.frame, |this| {
            this.bind_params(&custom.frame.params, args, implements.span)?;
            this.block(&custom.body)
        });
        let conditions = std::mem::replace(&mut self.world, world);
        result?;
        let World::Conditions(conditions) = conditions else { return Err(Refused) };
        if !self.report.is_empty() {
            return Err(Refused);
        }
        self.check_given(&conditions)?;
        self.close(custom, conditions, implements.span, ranks)
    }

    /// The arguments by position, where the author gives them.
    fn labelled(
        &mut self,
        custom: &'a resolved::Collective,
        implements: &'a Implements,
        ranks: u32,
    ) -> Result<Vec<Option<Value>>, Refused> {
        let params = &custom.frame.params;
        let as_ranks = |param: &Param| {
            (param.role == ParamRole::Ranks).then_some(Value::Int(i64::from(ranks)))
        };
        let mut values: Vec<_> = params.iter().map(as_ranks).collect();
        for (label, span, value) in &implements.args {
            let Some(position) = params.iter().position(|param| param.name == *label) else {
                let known: Vec<_> = params.iter().map(|param| param.name.as_str()).collect();
                let message = format!("`{}` has no parameter `{label}`", custom.name);
                let hint = format!("its parameters are {}", known.join(", "));
                return Err(self.error(Diagnostic::error(*span, message).hint(hint)));
            };
            if values[position].is_some() {
                let message = match params[position].role {
                    ParamRole::Ranks => format!("`{label}` is always the algorithm's rank count"),
                    ParamRole::PerNode | ParamRole::Plain => format!("`{label}` is given twice"),
                };
                return Err(self.error(Diagnostic::error(*span, message).hint("leave it out")));
            }
            values[position] = Some(self.value(value)?);
        }
        Ok(values)
    }

    fn bind_params(
        &mut self,
        params: &'a [Param],
        args: Vec<Option<Value>>,
        span: Span,
    ) -> Result<(), Refused> {
        for (position, (param, arg)) in params.iter().zip(args).enumerate() {
            let value = match (arg, &param.default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.value(default)?,
                (None, None) => {
                    let name = &param.name;
                    let diagnostic = Diagnostic::error(span, format!("`{name}` is not given"))
                        .label(param.span, "declared here")
                        .hint(format!("write `{name} value` between the parentheses"));
                    return Err(self.error(diagnostic));
                }
            };
            self.bind(Local(position as u32), value);
        }
        Ok(())
    }

    /// `given region`.
    pub(super) fn given(&mut self, region: &'a Expr, span: Span) -> Result<(), Refused> {
        let place = self.condition_region(region, BufferId::INPUT)?;
        self.charge_entries(place.count, span)?;
        let World::Conditions(conditions) = &mut self.world else { return Err(Refused) };
        conditions.given.extend(contributions(place));
        Ok(())
    }

    /// `promise place = value`.
    pub(super) fn promise(
        &mut self,
        place: &'a Expr,
        value: &'a Expr,
        span: Span,
    ) -> Result<(), Refused> {
        let to = self.condition_region(place, BufferId::OUTPUT)?;
        let mut terms = Terms::default();
        self.terms(value, &mut terms)?;
        if terms.regions.is_empty() {
            let message = "this sum has no terms, so there is nothing to promise";
            return Err(self.error(Diagnostic::error(value.span, message)));
        }
        for (&region, &place) in terms.regions.iter().zip(&terms.spans) {
            self.check_condition(region, BufferId::INPUT, place)?;
            if region.count != to.count {
                let (found, expected) = (region.count, to.count);
                let message = format!("expected {expected} chunks, found {found}");
                return Err(self.error(Diagnostic::error(place, message)));
            }
            self.charge_entries(region.count, span)?;
        }
        self.charge_entries(to.count, span)?;
        self.record(to, &terms, place.span)
    }

    fn record(&mut self, to: Region, terms: &Terms, span: Span) -> Result<(), Refused> {
        let World::Conditions(conditions) = &mut self.world else { return Err(Refused) };
        let used = terms.regions.iter().copied().zip(terms.spans.iter().copied());
        conditions.used.extend(used);
        for chunk in 0..to.count {
            let mut sum: Vec<_> = terms.regions.iter().map(|region| nth(*region, chunk)).collect();
            sum.sort_unstable();
            let slot = (to.rank, to.start + chunk);
            if conditions.promised.insert(slot, sum).is_some() {
                let name = self.region_name(Region { start: slot.1, count: 1, ..to });
                let message = format!("{name} is promised twice");
                return Err(self.error(Diagnostic::error(span, message)));
            }
        }
        Ok(())
    }

    fn condition_region(&mut self, expr: &'a Expr, buffer: BufferId) -> Result<Region, Refused> {
        let region = self.region(expr)?;
        self.check_condition(region, buffer, expr.span)?;
        Ok(region)
    }

    fn check_condition(
        &mut self,
        region: Region,
        buffer: BufferId,
        span: Span,
    ) -> Result<(), Refused> {
        let message = match buffer {
            BufferId::INPUT if region.buffer != buffer => "only chunks of `input` are given",
            _ if region.buffer != buffer => "only chunks of `output` can be promised",
            _ if region.count == OPEN => {
                "say which chunks: a collective's conditions decide its size"
            }
            _ => return Ok(()),
        };
        Err(self.error(Diagnostic::error(span, message)))
    }

    fn charge_entries(&mut self, count: u32, span: Span) -> Result<(), Refused> {
        let World::Conditions(conditions) = &mut self.world else { return Err(Refused) };
        conditions.entries += u64::from(count);
        if conditions.entries <= MAX_CONTRACT_ENTRIES {
            return Ok(());
        }
        let millions = MAX_CONTRACT_ENTRIES >> 20;
        let message =
            format!("the conditions of this collective name more than {millions} million chunks");
        Err(self.stop(Diagnostic::error(span, message)))
    }

    /// What is promised must be made of what is given.
    fn check_given(&mut self, conditions: &Conditions) -> Result<(), Refused> {
        let mut result = Ok(());
        for &(region, span) in &conditions.used {
            let missing = contributions(region).find(|one| !conditions.given.contains(one));
            if let Some(Contribution { rank, index }) = missing {
                let message = format!("input@{}[{index}] is promised but never given", rank.0);
                result = Err(self.error(Diagnostic::error(span, message)));
            }
        }
        result
    }

    fn close(
        &mut self,
        custom: &resolved::Collective,
        conditions: Conditions,
        span: Span,
        ranks: u32,
    ) -> Result<Collective, Refused> {
        let Conditions { given, promised, used: _, entries: _ } = conditions;
        if promised.is_empty() {
            let message = format!("`{}` promises nothing", custom.name);
            return Err(self.error(Diagnostic::error(span, message)));
        }
        let input_chunks = given.iter().map(|one| one.index + 1).max().unwrap_or(0);
        let output_chunks = promised.keys().map(|&(_, index)| index + 1).max().unwrap_or(0);
        let name = custom.name.clone();
        let contract = Some(Contract { given, promised });
        let custom = Custom { name, input_chunks, output_chunks, contract };
        Ok(Collective { kind: Kind::Custom(Arc::new(custom)), ranks, chunks: 1 })
    }
}

fn contributions(region: Region) -> impl Iterator<Item = Contribution> {
    (0..region.count).map(move |chunk| nth(region, chunk))
}

fn nth(region: Region, chunk: u32) -> Contribution {
    Contribution { rank: region.rank, index: region.start + chunk }
}
