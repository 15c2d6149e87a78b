//! In which order what serves adds, and in which it must.

use msccl_collective::{CallPlacement, Collective, CollectiveKind};
use msccl_environment::variable;
use msccl_registry::Entry;
use msccl_runtime::Alternative;
use msccl_verify::{AdditionOrder, AdditionOrders};

use super::Library;

impl Library {
    /// In which orders the algorithm of `alternative` adds; nothing if it was not proved, since it
    /// is not for so many ranks.
    pub fn addition_orders(
        &self,
        collective: &Collective,
        alternative: &Alternative,
    ) -> Option<AdditionOrders> {
        let placement = CallPlacement::from_in_place(self.terms.in_place);
        let Alternative { name, loaded, basis: _, verdict: _, estimate_ns: _ } = alternative;
        let entry = if *loaded {
            self.loaded(name, placement)
        } else {
            let kind = CollectiveKind::of(&collective.kind)?;
            self.registry.built_in_named(kind, placement, name)
        };
        entry.map(|entry| entry.verified.facts().addition_orders.clone())
    }

    /// What was loaded under that name, for `placement` if there is a choice.
    fn loaded(&self, name: &str, placement: CallPlacement) -> Option<Entry> {
        let mut named = self.registry.loaded().iter().filter(|entry| entry.name == name);
        let suits = |entry: &&Entry| entry.verified.algorithm().placement.serves(placement);
        named.clone().find(suits).or_else(|| named.next()).cloned()
    }

    /// The order that reductions must have, in a line with its reason; nothing if any will do.
    pub fn required_order(&self) -> Option<String> {
        let required = self.overrides.order;
        let order = AdditionOrder::named(required.named()?, self.ranks()).short_text();
        let ours = variable::ORDER.name;
        let why = self.order_reason.clone().unwrap_or_else(|| format!("{ours} is `{required}`"));
        Some(format!("{required}, {order}: what adds otherwise serves no reduction ({why})"))
    }
}
