//! What might serve calls, by what is known of it before anybody proves it.

use msccl_registry::Entry;

/// An algorithm that might serve a call. One that is built in is compiled and proved when more than
/// its name is asked for ([`Selector::proved`](super::Selector::proved)).
#[derive(Clone, Copy)]
pub(crate) enum Available<'a> {
    /// It was loaded.
    Loaded(&'a Entry),
    /// The built-in one of this name.
    BuiltIn(&'static str),
}

impl Available<'_> {
    /// What messages call it.
    pub fn name(&self) -> &str {
        match self {
            Available::Loaded(entry) => &entry.name,
            Available::BuiltIn(name) => name,
        }
    }

    /// Whether it was loaded.
    pub fn is_loaded(&self) -> bool {
        match self {
            Available::Loaded(_) => true,
            Available::BuiltIn(_) => false,
        }
    }
}

impl<'a> From<&'a Entry> for Available<'a> {
    /// A loaded algorithm.
    fn from(entry: &'a Entry) -> Self {
        Available::Loaded(entry)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use msccl_collective::{CallPlacement, CollectiveKind, DataType, Rank, Reduction};
    use msccl_registry::{Registry, Shape};

    use crate::CallShape;
    use crate::Capacity;
    use crate::Overrides;
    use crate::{Machine, Selector};

    /// How many built-in algorithms calls of `kind` in `shape` compile: to begin with, the first
    /// one, one of the other placement, and one of another size that the same algorithm serves.
    fn compiled(
        machine: Machine,
        shape: Shape,
        kind: CollectiveKind,
        overrides: Overrides,
    ) -> [usize; 4] {
        let registry = Arc::new(Registry::new(shape, &[]));
        let capacity = Capacity::nominal(machine, shape);
        let selector = Selector::new(registry.clone(), Rank(0), capacity, machine, overrides, None);
        let before = registry.compiled_built_ins();
        let call = |placement, count| {
            let (data_type, reduction) = (DataType::F32, Some(Reduction::Sum));
            let request = CallShape { kind, placement, data_type, reduction, count };
            selector.choose(&request).unwrap();
            registry.compiled_built_ins()
        };
        [
            before,
            call(CallPlacement::OutOfPlace, 1 << 20),
            call(CallPlacement::InPlace, 1 << 20),
            call(CallPlacement::OutOfPlace, (1 << 20) + 64),
        ]
    }

    #[test]
    fn a_call_compiles_what_serves_it_and_nothing_else() {
        let one_node = Shape { ranks: 8, per_node: 8 };
        for machine in [Machine::Host, Machine::Gpus] {
            for kind in CollectiveKind::all(Rank(3)) {
                // One for each placement; of an all-to-all the first one does not serve in place.
                let few = if kind == CollectiveKind::AllToAll { 3 } else { 2 };
                let found = compiled(machine, one_node, kind, Overrides::default());
                assert_eq!(found, [0, few, few, few], "{machine:?} {kind:?}");
            }
        }
    }

    #[test]
    fn what_overrides_name_is_compiled_first() {
        let one_node = Shape { ranks: 8, per_node: 8 };
        let overrides =
            Overrides { algorithm: Some("two_shot".to_owned()), ..Overrides::default() };
        let found = compiled(Machine::Gpus, one_node, CollectiveKind::AllReduce, overrides);
        assert_eq!(found, [0, 2, 2, 2]);
    }

    /// Over several nodes all algorithms of a collective are compared, but those of no other one.
    #[test]
    fn over_several_nodes_a_call_compiles_its_collective() {
        let shape = Shape { ranks: 8, per_node: 4 };
        for kind in CollectiveKind::all(Rank(3)) {
            let registry = Registry::new(shape, &[]);
            let names = |placement| registry.built_in_names(kind, placement).count();
            let most = names(CallPlacement::OutOfPlace) + names(CallPlacement::InPlace);
            let [before, first, ..] = compiled(Machine::Gpus, shape, kind, Overrides::default());
            assert_eq!(before, 0);
            assert!(first <= most, "{kind:?}: {first} of {most}");
        }
    }
}
