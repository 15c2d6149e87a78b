//! The clocks of devices. Ranks that share a GPU share its clock: what each has read of it counts
//! for all of them, and their times need no correction against each other.

use std::collections::BTreeMap;

use super::RankTimeline;
use crate::clock::{Constraint, ConstraintOrigin};
use crate::recording::Engine;

/// Which ranks share a clock.
pub(crate) struct Devices {
    /// By device: the positions of its ranks, in order.
    pub ranks: Vec<Vec<usize>>,
}

impl Devices {
    /// Those of `ranks`. A GPU without an address counts as the own one of its rank.
    pub fn of(ranks: &[RankTimeline]) -> Self {
        let mut known: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut of_devices: Vec<Vec<usize>> = Vec::new();
        for (rank, of_rank) in ranks.iter().enumerate() {
            let next = of_devices.len();
            let device = match &of_rank.header.engine {
                Engine::Gpu { name: _, bus_id } if !bus_id.is_empty() => {
                    *known.entry((&of_rank.header.host, bus_id)).or_insert(next)
                }
                Engine::Gpu { .. } | Engine::Host => next,
            };
            match of_devices.get_mut(device) {
                Some(ranks) => ranks.push(rank),
                None => of_devices.push(vec![rank]),
            }
        }
        Self { ranks: of_devices }
    }

    /// That ranks which share a clock are never corrected against each other.
    pub fn constraints(&self) -> impl Iterator<Item = Constraint> {
        let origin = ConstraintOrigin::SameClock;
        let constraint = move |ahead, behind| Constraint { ahead, behind, slack_ns: 0.0, origin };
        let neighbours = self.ranks.iter().flat_map(|ranks| ranks.windows(2));
        neighbours.flat_map(move |two| [constraint(two[0], two[1]), constraint(two[1], two[0])])
    }
}
