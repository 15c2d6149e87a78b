//! Packets that may overtake what their step stores.
//!
//! A message of protocol Simple orders everything that its sender did before. Packets order the
//! data in them; kernels make the stores of earlier steps precede them, but not those of the same
//! step. So where a step stores to memory and sends, and another thread block of the rank may rely
//! on the store because a message came back, packets do not do. Whether it relies on that is not
//! looked into: it is enough that another thread block touches the slots at all. Of the built-in
//! algorithms only the double binary tree has such a step.

use std::collections::BTreeMap;

use msccl_collective::{Rank, Slot};
use msccl_ir::{Algorithm, Place, RankProgram, Step};

/// Whether some step of `program`, that of `rank`, both sends and stores to slots that another of
/// its thread blocks touches.
pub(crate) fn is_possible(algorithm: &Algorithm, rank: Rank, program: &RankProgram) -> bool {
    if program.thread_blocks.len() < 2 {
        return false;
    }
    let in_place = algorithm.placement.serves_in_place();
    // In place, two names may mean one slot.
    let memory = |slot: Slot| match in_place {
        true => algorithm.collective.in_place(rank, slot),
        false => slot,
    };
    let mut users: BTreeMap<Slot, Users> = BTreeMap::new();
    for (tb, block) in (0..).zip(&program.thread_blocks) {
        for step in &block.steps {
            let sends = step.destinations.iter().any(|to| matches!(to, Place::Link(_)));
            for slot in slots(&step.sources, step) {
                users.entry(memory(slot)).or_default().add(tb);
            }
            for slot in slots(&step.destinations, step) {
                let of_slot = users.entry(memory(slot)).or_default();
                of_slot.add(tb);
                of_slot.stored_beside_packets |= sends;
            }
        }
    }
    users.values().any(|users| users.several && users.stored_beside_packets)
}

/// Who touches a slot.
#[derive(Default)]
struct Users {
    first: Option<u32>,
    several: bool,
    stored_beside_packets: bool,
}

impl Users {
    fn add(&mut self, tb: u32) {
        let first = *self.first.get_or_insert(tb);
        self.several |= first != tb;
    }
}

/// The slots among `places`, every chunk of them.
fn slots<'a>(places: &'a [Place], step: &'a Step) -> impl Iterator<Item = Slot> + 'a {
    let locals = places.iter().filter_map(|place| match place {
        Place::Local(slot) => Some(*slot),
        Place::Link(_) => None,
    });
    locals.flat_map(|slot| (0..step.count).map(move |chunk| slot.offset(chunk)))
}

#[cfg(test)]
mod tests {
    use msccl_collective::{CallPlacement, CollectiveKind};
    use msccl_registry::{File, Registry, Shape};

    use super::*;

    fn check(algorithm: &Algorithm, expected: bool) {
        let found = (0..)
            .zip(&algorithm.ranks)
            .any(|(rank, program)| is_possible(algorithm, Rank(rank), program));
        assert_eq!(found, expected, "{}", algorithm.name);
    }

    #[test]
    fn built_in_algorithms_that_go_in_packets_have_no_such_step() {
        let registry = Registry::new(Shape { ranks: 5, per_node: 5 }, &[]);
        let root = Rank(2);
        for kind in CollectiveKind::all(root) {
            for placement in CallPlacement::ALL {
                for entry in registry.built_in(kind, placement).iter() {
                    if entry.name != "allreduce/double_binary_tree" {
                        check(entry.verified.algorithm(), false);
                    }
                }
            }
        }
    }

    #[test]
    fn a_copy_of_what_was_passed_on_is_noticed() {
        // Rank 1 keeps what it passes on, and another thread block of it reads that later.
        let text = "algorithm bounce(ranks N = 2) implements allgather(chunks 1) {
            scratch kept[2]
            kept@1[0] = input@0 on channel 0
            output@0[0] = kept@1[0] on channel 0
            output@0[1] = input@1 on channel 1
            output@1[1] = input@1 on channel 1
            output@1[0] = kept@1[0] on tb 7, channel 2
        }";
        let content = Ok(text.as_bytes().to_vec());
        let files = [File { name: "bounce.msccl".to_owned(), content }];
        let registry = Registry::new(Shape { ranks: 2, per_node: 2 }, &files);
        assert_eq!(registry.refused(), []);
        check(registry.loaded()[0].verified.algorithm(), true);
    }
}
