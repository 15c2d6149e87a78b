//! The clocks of devices. Ranks that share a GPU share its clock: what each has read of it counts
//! for all of them, and their times need no correction against each other.

use std::collections::BTreeMap;

use super::RankTimeline;
use crate::clock::{Constraint, ConstraintOrigin, Reading};
use crate::recording::Engine;

/// Which ranks share a clock.
pub(super) struct Devices {
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
        let both = move |first: usize, other: usize| {
            let constraint = |ahead, behind| Constraint { ahead, behind, slack_ns: 0.0, origin };
            [constraint(first, other), constraint(other, first)]
        };
        let of_device = move |ranks: &Vec<usize>| {
            let first = ranks.first().copied().unwrap_or_default();
            ranks.iter().skip(1).flat_map(move |other| both(first, *other)).collect::<Vec<_>>()
        };
        self.ranks.iter().flat_map(of_device)
    }
}

/// Readings of one device by several ranks: of each rank, in its order. There are as many turns as
/// the rank with most of them has; of each the shortest counts. In order.
pub(super) fn shortest_of_turns(mut readings: Vec<Vec<Reading>>) -> Vec<Reading> {
    if readings.len() == 1 {
        return readings.swap_remove(0);
    }
    let turns = readings.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let times = || readings.iter().flatten().map(|of| of.device_ns);
    let (first_ns, last_ns) = (times().fold(f64::MAX, f64::min), times().fold(f64::MIN, f64::max));
    let length_ns = ((last_ns - first_ns) / turns as f64).max(1.0);
    let mut shortest: Vec<Option<Reading>> = vec![None; turns];
    let round_trip_ns = |of: &Reading| of.after_ns - of.before_ns;
    for reading in readings.into_iter().flatten() {
        let turn = ((reading.device_ns - first_ns) / length_ns) as usize;
        let known = &mut shortest[turn.min(turns - 1)];
        if known.is_none_or(|known| round_trip_ns(&reading) < round_trip_ns(&known)) {
            *known = Some(reading);
        }
    }
    shortest.into_iter().flatten().collect()
}
