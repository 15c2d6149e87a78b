//! Launches of one shape.

use std::collections::BTreeMap;

use crate::recording::{CallShapeDescription, Work};
use crate::timeline::{Launch, RankTimeline, Timeline};

/// Launches of calls that are alike.
pub(super) struct Group {
    /// A rank that knows the shape, and the shape there.
    pub shape: Option<(usize, u32)>,
    /// Positions in [`Timeline::launches`].
    pub launches: Vec<usize>,
}

/// What makes calls alike; numbers of shapes differ among ranks.
type Alike = (String, String, Option<String>, u64, String, String, String, u32);

/// The launches of `timeline`, those of one shape together, the most time first.
pub(super) fn groups(timeline: &Timeline) -> Vec<Group> {
    // Of many launches, few have different shapes.
    let mut of_shapes: BTreeMap<Option<(usize, u32)>, Vec<usize>> = BTreeMap::new();
    for (number, launch) in timeline.launches.iter().enumerate() {
        of_shapes.entry(shape_of(timeline, launch)).or_default().push(number);
    }
    let mut of_shapes: Vec<_> = of_shapes.into_iter().collect();
    of_shapes.sort_by_key(|(_, launches)| launches.first().copied());
    let mut known: BTreeMap<Option<Alike>, Group> = BTreeMap::new();
    for (shape, launches) in of_shapes {
        let alike = shape.map(|(rank, id)| {
            let rank = &timeline.ranks[rank];
            alike(rank, &rank.shapes[&id])
        });
        let group = known.entry(alike).or_insert_with(|| Group { shape, launches: Vec::new() });
        group.launches.extend(launches);
    }
    let mut groups: Vec<_> = known.into_values().collect();
    groups.iter_mut().for_each(|group| group.launches.sort_unstable());
    let time_ns = |group: &Group| -> f64 {
        let launches = group.launches.iter().map(|number| &timeline.launches[*number]);
        launches.map(|launch| launch.end_ns - launch.begin_ns).sum()
    };
    groups.sort_by(|one, other| time_ns(other).total_cmp(&time_ns(one)));
    groups
}

fn shape_of(timeline: &Timeline, launch: &Launch) -> Option<(usize, u32)> {
    timeline.rank_launches(launch).find_map(|(rank, of_rank)| {
        let shape = of_rank.shape.filter(|id| timeline.ranks[rank].shapes.contains_key(id))?;
        Some((rank, shape))
    })
}

fn alike(rank: &RankTimeline, shape: &CallShapeDescription) -> Alike {
    let CallShapeDescription { collective, data_type, reduction, bytes, placement, work, .. } =
        shape;
    let (algorithm, kernel, instances) = match work {
        Work::Plan { plan, kernel, cut } => {
            let plan = rank.plans.get(plan).map(|plan| plan.algorithm.clone());
            (plan.unwrap_or_default(), kernel, cut.instances)
        }
        Work::Exchange { kernel, transfers: _ } => ("exchange".to_owned(), kernel, 1),
    };
    let kernel = format!("{} {} {}", kernel.kind, kernel.protocol, kernel.delivery);
    (
        collective.clone(),
        data_type.clone(),
        reduction.clone(),
        *bytes,
        placement.clone(),
        algorithm,
        kernel,
        instances,
    )
}
