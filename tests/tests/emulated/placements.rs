//! Ranks that call in either placement, each as it likes, launch after launch.

use std::path::Path;

use msccl_collective::{Placement, Rank};
use msccl_plan::Plan;
use msccl_testkit::Numbers;
use msccl_verify::Verified;

use crate::cases::named;
use crate::emulator::{emulator, feed};
use crate::memory::{Expected, Lie, Words, compare};
use crate::scenario::{Offers, Outcome, Prepared, Scenario, memory_bytes};

const LAUNCHES: usize = 32;

/// All-to-alls, launch after launch, in which ranks out of place offer their outputs. Ranks in place
/// offer nothing, and decline what comes next.
struct Mixture<'a> {
    scenario: Scenario<'a>,
    /// By placement: out of place, in place.
    prepared: [Prepared<'a>; 2],
    /// Whether a rank calls in place, by launch and rank.
    in_place: Vec<Vec<bool>>,
}

impl<'a> Mixture<'a> {
    fn new(pair: &'a [Verified; 2], scenario: Scenario<'a>, numbers: &mut Numbers) -> Self {
        let [out, own] = pair;
        let ranks = out.algorithm().collective.ranks;
        let beside = |rank| Plan::beside(own, out, Rank(rank)).unwrap().expect("they go together");
        let plans = (0..ranks).map(beside).collect();
        let scenario_in_place = Scenario { in_place: true, ..scenario };
        let prepared = [
            scenario.prepare(out, numbers).unwrap(),
            scenario_in_place.prepare_plans(own, plans, numbers).unwrap(),
        ];
        // Mostly as before: a rank that stays in place is waited for only once.
        let mut last = vec![false; ranks as usize];
        let mut next = |_| {
            last.iter_mut().for_each(|it| *it ^= numbers.below(3) == 0);
            last.clone()
        };
        let in_place = (0..LAUNCHES).map(&mut next).collect();
        Self { scenario, prepared, in_place }
    }

    fn of(&self, launch: usize, rank: usize) -> &Prepared<'a> {
        &self.prepared[usize::from(self.in_place[launch][rank])]
    }

    fn lie(&self, launch: usize, rank: usize) -> &Lie {
        &self.of(launch, rank).lies[rank]
    }

    /// The memory of all ranks before a launch, and what it must be after.
    fn run(&self, launch: usize, bytes: usize, numbers: &mut Numbers) -> Vec<Expected> {
        let ranks = self.in_place[launch].len();
        let filled = |_| (0..bytes).map(|_| numbers.next() as u8).collect::<Vec<_>>();
        let before: Vec<_> = (0..ranks).map(filled).collect();
        let block_bytes = self.scenario.element() * self.scenario.count;
        let after = |rank: usize| {
            let mut after: Vec<_> = before[rank].iter().copied().map(Some).collect();
            for (peer, memory) in before.iter().enumerate() {
                let from = self.lie(launch, peer).input + rank * block_bytes;
                let to = self.lie(launch, rank).output + peer * block_bytes;
                let sent = memory[from..][..block_bytes].iter().copied();
                after[to..][..block_bytes].iter_mut().zip(sent).for_each(|(to, it)| *to = Some(it));
            }
            after
        };
        let after: Vec<_> = (0..ranks).map(after).collect();
        before.into_iter().zip(after).map(|(before, after)| Expected { before, after }).collect()
    }

    /// How many launches ranks make in all.
    fn launches(&self) -> usize {
        LAUNCHES * self.in_place[0].len()
    }

    /// Runs it and compares what was done.
    fn play(&self, emulator: &Path, numbers: &mut Numbers) -> Result<Outcome, String> {
        let memory_bytes = memory_bytes(&self.prepared);
        let runs: Vec<_> =
            (0..LAUNCHES).map(|launch| self.run(launch, memory_bytes, numbers)).collect();
        let mut words = Words::default();
        self.scenario.begin(&mut words, &self.prepared, memory_bytes);
        for rank in 0..self.in_place[0].len() {
            for prepared in &self.prepared {
                prepared.put_plan(rank, &mut words);
            }
            for (launch, run) in runs.iter().enumerate() {
                let in_place = self.in_place[launch][rank];
                words.bytes(run[rank].before.iter().copied());
                words.put([u64::from(in_place)]);
                let offers = if in_place { Offers::Never } else { self.scenario.offers[launch] };
                let of = self.of(launch, rank);
                of.launch((rank, launch), &self.scenario, &mut words, offers, numbers);
            }
        }
        compare(&feed(emulator, &words.0)?, &runs, memory_bytes)
    }
}

#[test]
fn ranks_in_place_store_to_those_out_of_place_and_receive_through_slots() {
    let Some(emulator) = emulator() else { return };
    let numbers = &mut Numbers(5);
    for ranks in [2, 3, 4] {
        let pair = pair(ranks);
        for (count, instances, offset) in [(16, 2, Some(0)), (400, 1, Some(0)), (203, 1, None)] {
            let offers = &[Offers::All; LAUNCHES];
            let scenario = Scenario { count, instances, offset, offers, ..Scenario::USUAL };
            let mixture = Mixture::new(&pair, scenario, numbers);
            let what = format!("{ranks} ranks, {count} elements");
            let outcome =
                mixture.play(emulator, numbers).unwrap_or_else(|why| panic!("{what}: {why}"));
            assert!(outcome.used > 0, "{what}: no message went through a slot");
            assert_eq!(outcome.done, mixture.launches(), "{what}");
        }
    }
}

#[test]
fn launches_of_either_placement_that_are_done_have_their_results_after_a_failure() {
    let Some(emulator) = emulator() else { return };
    let numbers = &mut Numbers(37);
    let (mut all, mut done) = (0, 0);
    for ranks in [2, 3] {
        let pair = pair(ranks);
        for _ in 0..3 {
            let (offers, failure) = (&[Offers::All; LAUNCHES], numbers.next() | 1);
            let scenario =
                Scenario { count: 1000, offset: Some(0), offers, failure, ..Scenario::USUAL };
            let mixture = Mixture::new(&pair, scenario, numbers);
            done += mixture.play(emulator, numbers).unwrap().done;
            all += mixture.launches();
        }
    }
    assert!(done > 0 && done < all, "{done} of {all} launches were done");
}

/// For calls out of place, and for calls in place.
fn pair(ranks: u32) -> [Verified; 2] {
    [
        named("alltoall/allpairs", ranks, Placement::OutOfPlace),
        named("alltoall/in_place", ranks, Placement::InPlace),
    ]
}
