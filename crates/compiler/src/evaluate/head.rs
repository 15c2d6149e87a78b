//! An algorithm's head: parameters, collective and clauses, with what the launch says.

use msccl_collective::{Collective, CollectiveKind, Placement, Protocol, Rank, SizeRange};
use msccl_syntax::ast::ParamRole;
use msccl_syntax::{Diagnostic, Span};

use super::Launch;
use super::budget::{MAX_INSTANCES, MAX_INTERLEAVED, MAX_RANKS, MAX_THREADS};
use super::interpreter::{Interpreter, Ranks};
use super::nearest::nearest;
use super::report::Refused;
use super::resolved::{Algorithm, ClauseKind, Expr, Implements, Local, Param};
use super::value::Value;
use crate::chunk::{MAX_CHUNKS, OrderClaim};

/// What the head of an algorithm and the launch settle.
pub(super) struct Head {
    pub collective: Collective,
    /// The program is written over one memory.
    pub declared_in_place: bool,
    pub placement: Placement,
    pub protocol: Protocol,
    pub sizes: SizeRange,
    pub threads: Option<u32>,
    pub instances: u32,
    /// Parts of every chunk that thread blocks handle by turns.
    pub interleaved: u32,
    /// Where the instances are requested.
    pub instances_span: Span,
    /// The order in which it claims to add.
    pub order_claim: Option<OrderClaim>,
}

impl<'a> Interpreter<'a> {
    /// Evaluates the head; the algorithm's frame must be the current one.
    pub(super) fn head(
        &mut self,
        algorithm: &'a Algorithm,
        launch: &Launch,
    ) -> Result<Head, Refused> {
        self.check_names(algorithm, launch)?;
        let ranks = self.params(algorithm, launch)?;
        let collective = self.collective(&algorithm.implements, ranks)?;
        self.check_size(&collective, algorithm.implements.span)?;
        let mut head = Head {
            collective,
            declared_in_place: false,
            placement: Placement::OutOfPlace,
            protocol: Protocol::Simple,
            sizes: SizeRange::ALL,
            threads: None,
            instances: 1,
            interleaved: 1,
            instances_span: algorithm.name_span,
            order_claim: None,
        };
        for clause in &algorithm.clauses {
            self.clause(&clause.kind, clause.span, &mut head)?;
        }
        self.override_with(launch, &mut head, algorithm.name_span)?;
        Ok(head)
    }

    // --- Parameters ------------------------------------------------------------------------------

    fn check_names(&mut self, algorithm: &'a Algorithm, launch: &Launch) -> Result<(), Refused> {
        let params = &algorithm.frame.params;
        let unknown =
            launch.params.iter().find(|(name, _)| !params.iter().any(|param| param.name == *name));
        let Some((name, _)) = unknown else { return Ok(()) };
        let known: Vec<_> = params.iter().map(|param| format!("`{}`", param.name)).collect();
        let message = format!("`{}` has no parameter `{name}`", algorithm.name);
        let hint = format!("its parameters are {}", known.join(", "));
        Err(self.error(Diagnostic::error(algorithm.name_span, message).hint(hint)))
    }

    /// Binds all parameters. The topology is known once those that stand for it are bound.
    fn params(&mut self, algorithm: &'a Algorithm, launch: &Launch) -> Result<u32, Refused> {
        let params = &algorithm.frame.params;
        let asks_per_node = params.iter().any(|param| param.role == ParamRole::PerNode);
        let mut all = None;
        let mut per_node = if asks_per_node { None } else { launch.per_node };
        let mut per_node_span = algorithm.name_span;
        for (position, param) in params.iter().enumerate() {
            let value = self.param(param, launch)?;
            self.bind(Local(position as u32), value.clone());
            match param.role {
                ParamRole::Ranks => all = Some(self.ranks_param(&value, param.span)?),
                ParamRole::PerNode => {
                    per_node = Some(self.ranks_param(&value, param.span)?);
                    per_node_span = param.span;
                }
                ParamRole::Plain => {}
            }
            let whole = if asks_per_node { per_node } else { per_node.or(all) };
            if let (Some(all), Some(per_node), None) = (all, whole, self.ranks) {
                self.check_nodes(all, per_node, per_node_span)?;
                let ranks = Ranks { all, per_node };
                self.settle_topology(launch.topology.as_deref(), ranks, per_node_span)?;
                self.ranks = Some(ranks);
            }
        }
        self.ranks(algorithm.name_span).map(|ranks| ranks.all)
    }

    /// A parameter's value: the launch's, else its default.
    fn param(&mut self, param: &'a Param, launch: &Launch) -> Result<Value, Refused> {
        let fact = match param.role {
            ParamRole::Ranks => launch.ranks,
            ParamRole::PerNode => launch.per_node,
            ParamRole::Plain => None,
        };
        let fact = fact.map(i64::from);
        let named = launch.params.iter().rfind(|(name, _)| *name == param.name);
        let named = named.map(|&(_, value)| value);
        match (fact, named, &param.default) {
            (Some(fact), Some(named), _) if fact != named => {
                let message = format!("`{}` cannot be {fact} and {named} at once", param.name);
                Err(self.error(Diagnostic::error(param.span, message)))
            }
            (Some(value), _, _) | (None, Some(value), _) => Ok(Value::Int(value)),
            (None, None, Some(default)) => self.value(default),
            (None, None, None) => Err(self.no_value(param)),
        }
    }

    #[cold]
    fn no_value(&mut self, param: &Param) -> Refused {
        let name = &param.name;
        let message = format!("the parameter `{name}` has no value");
        let hint = match param.role {
            ParamRole::Ranks => "say how many ranks take part: `--ranks 8`".to_owned(),
            ParamRole::PerNode | ParamRole::Plain => {
                format!("give it one when compiling, `-D {name}=4`, or a default here")
            }
        };
        self.error(Diagnostic::error(param.span, message).hint(hint))
    }

    fn ranks_param(&mut self, value: &Value, span: Span) -> Result<u32, Refused> {
        match value {
            Value::Int(count) if (1..=MAX_RANKS).contains(count) => Ok(*count as u32),
            Value::Int(count) => {
                let message = format!("expected 1 to {MAX_RANKS} ranks, found {count}");
                Err(self.error(Diagnostic::error(span, message)))
            }
            other => Err(self.mismatch(span, "a number of ranks", other)),
        }
    }

    fn check_nodes(&mut self, all: u32, per_node: u32, span: Span) -> Result<(), Refused> {
        if all.is_multiple_of(per_node) {
            return Ok(());
        }
        let message = format!("{all} ranks do not fill nodes of {per_node}");
        let hint = format!("choose a divisor of {all} for the ranks of a node");
        Err(self.error(Diagnostic::error(span, message).hint(hint)))
    }

    // --- The collective --------------------------------------------------------------------------

    fn collective(
        &mut self,
        implements: &'a Implements,
        ranks: u32,
    ) -> Result<Collective, Refused> {
        if let Some(number) = implements.custom {
            let custom = &self.program.collectives[number as usize];
            return self.custom(custom, implements, ranks);
        }
        let Ok(kind) = implements.name.parse::<CollectiveKind>() else {
            return Err(self.unknown_collective(implements));
        };
        let (chunks, root) = self.standard_args(implements, kind.root().is_some(), ranks)?;
        let kind = kind.rooted_at(root).into();
        Ok(Collective { kind, ranks, chunks })
    }

    #[cold]
    fn unknown_collective(&mut self, implements: &Implements) -> Refused {
        let message = format!("there is no collective `{}`", implements.name);
        let hint = format!(
            "the standard ones are {}; others are defined with `collective {}(…) {{ … }}`",
            CollectiveKind::names(),
            implements.name,
        );
        let diagnostic = Diagnostic::error(implements.span, message);
        let diagnostic = match nearest(
            &implements.name,
            CollectiveKind::ALL.map(CollectiveKind::name).into_iter(),
        ) {
            Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
            None => diagnostic,
        };
        self.error(diagnostic.hint(hint))
    }

    /// Chunks and root.
    fn standard_args(
        &mut self,
        implements: &'a Implements,
        rooted: bool,
        ranks: u32,
    ) -> Result<(u32, Rank), Refused> {
        let (mut chunks, mut root) = (None, None);
        for (label, span, value) in &implements.args {
            let given = match label.as_str() {
                "chunks" => &mut chunks,
                "root" if rooted => &mut root,
                _ => {
                    let labels = if rooted { "`chunks` and `root`" } else { "`chunks`" };
                    let message = format!("`{}` has no argument `{label}`", implements.name);
                    let hint = format!("it takes {labels}, as in `chunks 4`");
                    return Err(self.error(Diagnostic::error(*span, message).hint(hint)));
                }
            };
            if given.is_some() {
                let message = format!("`{label}` is given twice");
                return Err(self.error(Diagnostic::error(*span, message)));
            }
            *given = Some(match label.as_str() {
                "root" => self.rank(value)?.0,
                _ => self.number(value, 1, MAX_CHUNKS as i64, "chunks")?,
            });
        }
        let most = MAX_CHUNKS / u64::from(ranks);
        if u64::from(chunks.unwrap_or(1)) > most {
            return Err(self.too_large(implements.span));
        }
        Ok((chunks.unwrap_or(1), Rank(root.unwrap_or(0))))
    }

    fn number(
        &mut self,
        expr: &'a Expr,
        least: i64,
        most: i64,
        what: &str,
    ) -> Result<u32, Refused> {
        let value = self.int(expr)?;
        match u32::try_from(value) {
            Ok(number) if (least..=most).contains(&value) => Ok(number),
            _ => {
                let message = format!("expected {least} to {most} {what}, found {value}");
                Err(self.error(Diagnostic::error(expr.span, message)))
            }
        }
    }

    /// All buffers of all ranks together are bounded.
    fn check_size(&mut self, collective: &Collective, span: Span) -> Result<(), Refused> {
        let of_rank = |rank| {
            u64::from(collective.input_chunks(rank)) + u64::from(collective.output_chunks(rank))
        };
        let all: u64 = collective.all_ranks().map(of_rank).sum();
        if all > MAX_CHUNKS { Err(self.too_large(span)) } else { Ok(()) }
    }

    #[cold]
    fn too_large(&mut self, span: Span) -> Refused {
        let message = format!("the buffers of all ranks have more than {MAX_CHUNKS} chunks");
        self.error(Diagnostic::error(span, message).hint("use fewer ranks or chunks"))
    }

    // --- Clauses ---------------------------------------------------------------------------------

    fn clause(
        &mut self,
        clause: &'a ClauseKind,
        span: Span,
        head: &mut Head,
    ) -> Result<(), Refused> {
        match clause {
            ClauseKind::InPlace => {
                head.declared_in_place = true;
                head.placement = Placement::InPlace;
            }
            ClauseKind::Protocol(name) => match name.parse() {
                Ok(protocol) => head.protocol = protocol,
                Err(message) => return Err(self.error(Diagnostic::error(span, message))),
            },
            ClauseKind::Instances(count) => {
                head.instances = self.number(count, 1, MAX_INSTANCES, "instances")?;
                head.instances_span = span;
            }
            ClauseKind::Interleaved(count) => {
                head.interleaved = self.number(count, 1, MAX_INTERLEAVED, "parts")?;
            }
            ClauseKind::Bytes(from, to) => head.sizes = self.sizes(from, to.as_ref(), span)?,
            ClauseKind::Threads(count) => {
                head.threads = Some(self.number(count, 1, MAX_THREADS, "threads")?);
            }
            ClauseKind::Order(name) => {
                head.order_claim = Some(self.order_claim(name, span, &head.collective)?);
            }
        }
        Ok(())
    }

    /// `order name`, of an algorithm for `collective`.
    fn order_claim(
        &mut self,
        name: &str,
        span: Span,
        collective: &Collective,
    ) -> Result<OrderClaim, Refused> {
        let order = match name.parse() {
            Ok(order) => order,
            Err(message) => return Err(self.error(Diagnostic::error(span, message))),
        };
        // What one rank alone contributes is in every order.
        if collective.reduces() || collective.ranks == 1 {
            return Ok(OrderClaim { order, span });
        }
        let message = format!("{} adds nothing, so it has no order", collective.name());
        let hint = "leave the clause out: `order` is for collectives that reduce";
        Err(self.error(Diagnostic::error(span, message).hint(hint)))
    }

    /// `from .. to`, the upper end exclusive.
    fn sizes(
        &mut self,
        from: &'a Expr,
        to: Option<&'a Expr>,
        span: Span,
    ) -> Result<SizeRange, Refused> {
        let min = self.int(from)?;
        let max = match to {
            Some(to) => Some(self.int(to)?),
            None => None,
        };
        if min < 0 || max.is_some_and(|max| max <= min) {
            let message = "this range of sizes holds no size";
            let hint = "write the smaller one first; the upper end is not part of the range";
            return Err(self.error(Diagnostic::error(span, message).hint(hint)));
        }
        Ok(SizeRange { min_bytes: min as u64, max_bytes: max.map(|max| max as u64 - 1) })
    }

    /// What the launch says counts for more than the clauses.
    fn override_with(
        &mut self,
        launch: &Launch,
        head: &mut Head,
        span: Span,
    ) -> Result<(), Refused> {
        if launch.placement == Some(Placement::Both) {
            let message = "a program is compiled for calls in place or out of place, not for both";
            let hint = "compile it twice";
            return Err(self.error(Diagnostic::error(span, message).hint(hint)));
        }
        head.placement = launch.placement.unwrap_or(head.placement);
        head.protocol = launch.protocol.unwrap_or(head.protocol);
        head.sizes = launch.sizes.unwrap_or(head.sizes);
        head.threads = launch.threads.or(head.threads);
        let Some(instances) = launch.instances else { return Ok(()) };
        if instances == 0 || i64::from(instances) > MAX_INSTANCES {
            let message = format!("expected 1 to {MAX_INSTANCES} instances, found {instances}");
            return Err(self.error(Diagnostic::error(head.instances_span, message)));
        }
        head.instances = instances;
        Ok(())
    }
}
