//! What the built-in functions answer of the cluster: NICs, switches, NUMA nodes, links.
//!
//! Without a cluster, answers are those of nodes of which nothing is known
//! ([`RankTopology::of_shape`]).

use msccl_syntax::{Diagnostic, Span};
use msccl_topology::cluster::ranks::RankTopology;

use super::builtin::Builtin;
use super::interpreter::{Interpreter, Ranks};
use super::report::Refused;
use super::resolved::Expr;
use super::value::Value;

impl<'a> Interpreter<'a> {
    /// Settles how `ranks` are joined: as `cluster` says, if one is known.
    pub(super) fn settle_topology(
        &mut self,
        cluster: Option<&RankTopology>,
        ranks: Ranks,
        span: Span,
    ) -> Result<(), Refused> {
        let Some(cluster) = cluster else {
            self.topology = Some(RankTopology::of_shape(ranks.all, ranks.per_node));
            return Ok(());
        };
        self.topology = cluster.first(ranks.all);
        if self.topology.is_some() {
            return Ok(());
        }
        let (found, all) = (cluster.ranks(), ranks.all);
        let message = format!("the cluster has {found} GPUs, too few for {all} ranks");
        let hint = format!("take more nodes of it, or compile for {found} ranks");
        Err(self.error(Diagnostic::error(span, message).hint(hint)))
    }

    /// How the ranks are joined.
    fn topology(&mut self, span: Span) -> Result<&RankTopology, Refused> {
        // An error, if it is too early to ask.
        self.ranks(span)?;
        self.topology.as_ref().ok_or(Refused)
    }

    /// Of a rank: its NIC, switch or NUMA node.
    pub(super) fn ask_place(
        &mut self,
        builtin: Builtin,
        arg: &'a Expr,
        span: Span,
    ) -> Result<Value, Refused> {
        let rank = self.rank(arg)?.0;
        let topology = self.topology(span)?;
        let number = match builtin {
            Builtin::Nic => topology.nic(rank),
            Builtin::Switch => topology.switch(rank),
            _ => topology.numa(rank),
        };
        Ok(Value::Int(i64::from(number)))
    }

    /// How many NICs, switches or NUMA nodes the ranks have.
    pub(super) fn ask_counts(&mut self, builtin: Builtin, span: Span) -> Result<Value, Refused> {
        let topology = self.topology(span)?;
        let number = match builtin {
            Builtin::Nics => topology.nics(),
            Builtin::Switches => topology.switches(),
            _ => topology.numas(),
        };
        Ok(Value::Int(i64::from(number)))
    }

    /// Of two ranks: whether a link leads from one to the other, or how wide it is.
    pub(super) fn ask_link(
        &mut self,
        builtin: Builtin,
        from: &'a Expr,
        to: &'a Expr,
        span: Span,
    ) -> Result<Value, Refused> {
        let (from, to) = (self.rank(from)?.0, self.rank(to)?.0);
        let width = self.topology(span)?.width(from, to);
        Ok(match builtin {
            Builtin::Linked => Value::Bool(width > 0),
            _ => Value::Int(i64::from(width)),
        })
    }
}
