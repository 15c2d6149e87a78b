//! Which ports of the two hosts rails join: what both ranks find out of the same facts, each for
//! itself.
//!
//! Ports of a host have an order, by their names, and hence *places*. A rank names those that it
//! uses ([`crate::rdma`]).
//!
//! * **By distance.** The first of those that one rank uses with the first of the other's, and so
//!   on; where one uses fewer, its ports take turns. So every port that either rank uses carries
//!   something.
//! * **Straight.** Ports of the same place, for every place that either rank uses: near at one end
//!   at least. This is for networks that join only ports of the same place, such as switches of
//!   which each has one port of every host.
//!
//! By distance comes first, straight is what the two try if that fails; straight alone if one of
//! the ranks wants that (`NCCL_CROSS_NIC=0`). Between ranks that use ports of the same places,
//! which hierarchical algorithms see to, the two are one.

use crate::tag::RAILS_LIMIT;

/// A port here and one there, by their places.
pub(super) type PortPair = (usize, usize);

/// What to try, in this order; each has a pair at least, if there are ports at both ends. `ours`
/// and `theirs` say of each port whether its rank uses it.
pub(super) fn attempts(ours: &[bool], theirs: &[bool], crosses: bool) -> Vec<Vec<PortPair>> {
    let straight = straight(ours, theirs);
    let near = by_distance(ours, theirs);
    match crosses && !near.is_empty() && near != straight {
        true => vec![near, straight],
        false => vec![straight],
    }
}

fn by_distance(ours: &[bool], theirs: &[bool]) -> Vec<PortPair> {
    let (ours, theirs) = (used(ours), used(theirs));
    let rails = match ours.is_empty() || theirs.is_empty() {
        true => 0,
        false => ours.len().max(theirs.len()).min(RAILS_LIMIT),
    };
    let pair = |rail: usize| (ours[rail % ours.len()], theirs[rail % theirs.len()]);
    (0..rails).map(pair).collect()
}

fn straight(ours: &[bool], theirs: &[bool]) -> Vec<PortPair> {
    let places = ours.iter().zip(theirs).enumerate();
    let places = places.filter(|(_, (ours, theirs))| **ours || **theirs);
    let pairs: Vec<_> = places.map(|(place, _)| (place, place)).take(RAILS_LIMIT).collect();
    match pairs.is_empty() {
        // What is used lies beyond the other's last port.
        true => (0..ours.len().min(theirs.len())).map(|place| (place, place)).collect(),
        false => pairs,
    }
}

fn used(endpoints: &[bool]) -> Vec<usize> {
    let numbered = endpoints.iter().enumerate();
    numbered.filter_map(|(number, used)| used.then_some(number)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// `x` is a port that is used.
    #[track_caller]
    fn check(ours: &str, theirs: &str, expected: &[&[PortPair]]) {
        let endpoints = |text: &str| text.chars().map(|port| port == 'x').collect::<Vec<_>>();
        assert_eq!(attempts(&endpoints(ours), &endpoints(theirs), true), expected);
    }

    #[test]
    fn ranks_of_one_place_have_the_rail_of_that_place() {
        check("..x.....", "..x.....", &[&[(2, 2)]]);
        check("xx..", "xx..", &[&[(0, 0), (1, 1)]]);
        check("xxxx", "xxxx", &[&[(0, 0), (1, 1), (2, 2), (3, 3)]]);
    }

    #[test]
    fn others_meet_near_both_and_straight_if_that_fails() {
        check("..x.", "x...", &[&[(2, 0)], &[(0, 0), (2, 2)]]);
        check("xx..", "..xx", &[&[(0, 2), (1, 3)], &[(0, 0), (1, 1), (2, 2), (3, 3)]]);
    }

    #[test]
    fn whoever_uses_fewer_takes_turns() {
        check("x", "xx", &[&[(0, 0), (0, 1)], &[(0, 0)]]);
        check("x.", "xx", &[&[(0, 0), (0, 1)], &[(0, 0), (1, 1)]]);
    }

    #[test]
    fn hosts_that_differ_have_straight_rails_as_well() {
        check(".......x", "x.", &[&[(7, 0)], &[(0, 0)]]);
    }

    #[test]
    fn one_rank_can_forbid_crossing() {
        assert_eq!(attempts(&[false, true], &[true, false], false), [[(0, 0), (1, 1)]]);
    }

    proptest! {
        #[test]
        fn both_ends_find_the_same_pairs(
            ours in vec(any::<bool>(), 1..20), theirs in vec(any::<bool>(), 1..20), crosses: bool,
        ) {
            let mirrored = attempts(&theirs, &ours, crosses).into_iter().map(|pairs| {
                pairs.into_iter().map(|(there, here)| (here, there)).collect::<Vec<_>>()
            });
            let found = attempts(&ours, &theirs, crosses);
            prop_assert_eq!(&found, &mirrored.collect::<Vec<_>>());
            for pairs in found {
                prop_assert!(!pairs.is_empty() && pairs.len() <= RAILS_LIMIT);
                let exist = |(here, there): &(usize, usize)| {
                    *here < ours.len() && *there < theirs.len()
                };
                prop_assert!(pairs.iter().all(exist));
            }
        }
    }
}
