//! Right algorithms are proved, with the right facts.

#![deny(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use msccl_collective::{
    Contract, Contribution, Custom, Kind, NamedOrder, Placement, Protocol, Rank,
};
use msccl_ir::{Algorithm, Place, StepRef, Target};
use msccl_testkit::by_hand::{StepExt, algorithm, i, o, r, step, t, tb};
use msccl_testkit::families;
use msccl_verify::{Facts, FaultKind, verify, verify_claim};

#[track_caller]
fn facts(algorithm: Algorithm) -> Facts {
    match verify(algorithm, &Target::native()) {
        Ok(proved) => proved.facts().clone(),
        Err(refusal) => panic!("{refusal}"),
    }
}

#[test]
fn the_families_are_proved_at_many_sizes() {
    for ranks in [2, 3, 4, 7, 16] {
        for channels in [1, 2, 3] {
            facts(families::ring(ranks, channels));
        }
        facts(families::split_ring(ranks));
        facts(families::trusting_ring(ranks));
        facts(families::all_pairs(ranks));
    }
    for ranks in [2, 4, 8, 32] {
        facts(families::halving_doubling(ranks));
    }
}

#[test]
fn the_facts_of_a_ring() {
    let found = facts(families::ring(4, 1));
    assert_eq!(found.steps, 28);
    assert_eq!(found.messages, 24);
    assert_eq!(found.slots, 32);
    assert_eq!(found.least_link_depth, 2);
    assert!(found.same_on_every_rank && found.result_promised && !found.overwrites_input);
}

#[test]
fn an_order_is_proved_if_it_is_claimed() {
    let refusal = |algorithm: Algorithm, target: Target, claimed| {
        let proved = verify_claim(algorithm, &target, Some(claimed));
        proved.err().map(|refusal| (refusal.faults[0].kind, refusal.faults[0].message.clone()))
    };
    let native = Target::native;
    for claimed in NamedOrder::ALL {
        // Of two ranks there is one order; of one, there is nothing to add.
        assert_eq!(refusal(families::ring(2, 1), native(), claimed), None);
        let (kind, message) = refusal(families::ring(4, 1), native(), claimed).expect("a ring");
        assert_eq!(kind, FaultKind::Order);
        let expected = format!("the claimed order is {claimed}, ");
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.ends_with("but it adds in 4 orders or more"), "{message}");
    }
    assert!(verify_claim(families::ring(4, 1), &native(), None).is_ok());
    let (_, message) =
        refusal(families::ring(4, 1), Target::msccl(), NamedOrder::Flat).expect("a ring");
    assert!(message.ends_with("(on target msccl every sum of two is rounded)"), "{message}");
}

#[test]
fn a_ring_completes_every_chunk_once() {
    let ring = families::ring(4, 1);
    let completion = facts(ring.clone()).completion.expect("a ring can average");
    assert_eq!(completion.len(), 4);
    for (rank, tb, block) in ring.thread_blocks() {
        for (index, step) in block.steps.iter().enumerate() {
            let at = StepRef { rank, tb, step: index.into() };
            let completes = step.kind() == msccl_ir::StepKind::RecvReduceCopySend;
            assert_eq!(completion.contains(at), completes, "{at}");
        }
    }
}

#[test]
fn a_ring_combines_every_contribution_once() {
    let ring = families::ring(4, 1);
    let raw = facts(ring.clone()).raw.expect("every source is raw or not");
    // Three steps combine what each rank gave; in the first of them what comes in was given, too.
    assert_eq!(raw.len(), 16);
    for (rank, tb, block) in ring.thread_blocks() {
        for (index, step) in block.steps.iter().enumerate() {
            let at = StepRef { rank, tb, step: index.into() };
            for (source, place) in step.sources.iter().enumerate() {
                let combines = step.sources.len() > 1;
                let is_local = matches!(place, Place::Local(_));
                let is_first = index == 1;
                assert_eq!(raw.contains(at, source), combines && (is_local || is_first), "{at}");
            }
            assert!(!raw.contains(at, step.sources.len()), "{at} has no such source");
        }
    }
}

#[test]
fn contributions_stay_raw_wherever_they_are_copied() {
    // Through scratch, and back into the input that a call in place overwrites.
    let rank = |peer| {
        let steps = vec![
            step(&[i(0)], &[t(0), r(peer)]),
            step(&[r(peer)], &[t(1)]),
            step(&[t(0), t(1)], &[o(0)]),
        ];
        vec![tb(0, steps)]
    };
    let copied = algorithm(Kind::AllReduce, 1, vec![rank(1), rank(0)]);
    let raw = facts(copied).raw.expect("every source is raw");
    let at = |step: usize| StepRef { rank: Rank(1), tb: 0_usize.into(), step: step.into() };
    assert_eq!(raw.len(), 4);
    assert!(raw.contains(at(2), 0) && raw.contains(at(2), 1));
    assert!(!raw.contains(at(0), 0) && !raw.contains(at(1), 0), "copies combine nothing");
    assert!(facts(families::all_pairs(3)).raw.is_some_and(|raw| raw.is_empty()));
}

#[test]
fn a_source_that_is_raw_in_some_of_its_chunks_spoils_the_average_of_floats() {
    // Rank 1 adds to what it got of chunk 0 before rank 2 does; chunk 1 it hands on.
    let ranks = vec![
        vec![tb(0, vec![step(&[i(0)], &[r(1)]).times(2)])],
        vec![tb(
            0,
            vec![
                step(&[r(0)], &[t(0)]).times(2),
                step(&[t(0), i(0)], &[t(0)]),
                step(&[t(0)], &[r(2)]).times(2),
                step(&[i(1)], &[r(2)]),
            ],
        )],
        vec![tb(0, vec![step(&[r(1), i(0)], &[o(0)]).times(2), step(&[r(1), o(1)], &[o(1)])])],
    ];
    let reduce = algorithm(Kind::Reduce { root: Rank(2) }, 2, ranks);
    let reduce = Algorithm { placement: Placement::OutOfPlace, ..reduce };
    let found = facts(reduce);
    assert_eq!((found.raw, found.completion), (None, None));
}

#[test]
fn copies_complete_nothing() {
    let completion = facts(families::all_pairs(3)).completion.expect("nothing to average");
    assert!(completion.is_empty());
}

/// Every rank adds what all others send, beginning with its own or with rank 0's.
fn one_shot(own_first: bool) -> Algorithm {
    let rank = |own: u32| {
        let peers: Vec<_> = (0..3).filter(|&peer| peer != own).collect();
        let links: Vec<_> = peers.iter().map(|&peer| r(peer)).collect();
        let mut sources = vec![i(own), links[0], links[1]];
        sources[0] = i(0);
        if !own_first {
            let own = sources.remove(0);
            sources.insert(peers.iter().filter(|&&peer| peer < own_rank(&peers)).count(), own);
        }
        vec![tb(0, vec![step(&[i(0)], &links), step(&sources, &[o(0)])])]
    };
    let algorithm = algorithm(Kind::AllReduce, 1, (0..3).map(rank).collect());
    Algorithm { placement: Placement::OutOfPlace, ..algorithm }
}

/// The one of three ranks that is not among `peers`.
fn own_rank(peers: &[u32]) -> u32 {
    3 - peers.iter().sum::<u32>()
}

#[test]
fn equal_results_are_equal_expressions() {
    assert!(facts(one_shot(false)).same_on_every_rank, "all add in the order of ranks");
    assert!(!facts(one_shot(true)).same_on_every_rank, "each begins with its own");
    assert_eq!(facts(one_shot(true)).completion.map(|steps| steps.len()), Some(3));
}

#[test]
fn a_step_that_completes_some_of_its_chunks_spoils_the_average() {
    // Both chunks in one step, but chunk 1 was complete before.
    let rank = |peer| {
        let exchange = vec![
            step(&[i(0)], &[r(peer)]).times(2),
            step(&[r(peer)], &[t(0)]).times(2),
            step(&[t(0), i(0)], &[o(0)]).times(2),
        ];
        vec![tb(0, exchange)]
    };
    let clean = algorithm(Kind::AllReduce, 2, vec![rank(1), rank(0)]);
    let clean = Algorithm { placement: Placement::OutOfPlace, ..clean };
    assert_eq!(facts(clean.clone()).completion.map(|steps| steps.len()), Some(2));

    let one = |rank, index| Contribution { rank: Rank(rank), index };
    let sum = |index| vec![one(0, index), one(1, index)];
    let promised = BTreeMap::from([((Rank(0), 0), sum(0)), ((Rank(1), 0), sum(0))]);
    let given = [one(0, 0), one(0, 1), one(1, 0), one(1, 1)].into();
    let contract = Some(Contract { given, promised });
    let name = "first_chunk".to_owned();
    let custom = Custom { name, input_chunks: 2, output_chunks: 2, contract };
    let mut mixed = clean;
    mixed.collective.kind = Kind::Custom(Arc::new(custom));
    mixed.collective.chunks = 1;
    assert_eq!(facts(mixed).completion, None, "chunk 1 is no promised sum");
}

#[test]
fn a_sum_inside_a_sum_spoils_the_average() {
    let one = |rank| Contribution { rank: Rank(rank), index: 0 };
    let promised = BTreeMap::from([
        ((Rank(1), 0), vec![one(0), one(1)]),
        ((Rank(2), 0), vec![one(0), one(1), one(2)]),
    ]);
    let contract = Some(Contract { given: [one(0), one(1), one(2)].into(), promised });
    let name = "scan".to_owned();
    let custom = Custom { name, input_chunks: 1, output_chunks: 1, contract };
    let ranks = vec![
        vec![tb(0, vec![step(&[i(0)], &[r(1)])])],
        vec![tb(0, vec![step(&[r(0), i(0)], &[o(0), r(2)])])],
        vec![tb(0, vec![step(&[r(1), i(0)], &[o(0)])])],
    ];
    let scan = algorithm(Kind::Custom(Arc::new(custom)), 1, ranks);
    let scan = Algorithm { placement: Placement::OutOfPlace, ..scan };
    assert_eq!(facts(scan).completion, None);
}

#[test]
fn both_placements_are_checked() {
    // Writes only the output, reads only the input: right in place and out of place.
    let rank = |peer| {
        let exchange = vec![step(&[i(0)], &[r(peer)]), step(&[r(peer), i(0)], &[o(0)])];
        vec![tb(0, exchange)]
    };
    let both = algorithm(Kind::AllReduce, 1, vec![rank(1), rank(0)]);
    let both = Algorithm { placement: Placement::Both, ..both };
    assert_eq!(facts(both).completion.map(|steps| steps.len()), Some(2));
}

#[test]
fn an_in_place_reduce_scatter_may_overwrite_its_input() {
    let rank = |own: u32, peer: u32, spill: bool| {
        let mut steps = vec![step(&[i(peer)], &[r(peer)]), step(&[r(peer), i(own)], &[i(own)])];
        steps.extend(spill.then(|| step(&[i(own)], &[i(peer)])));
        vec![tb(0, steps)]
    };
    let scatter =
        |spill| algorithm(Kind::ReduceScatter, 1, vec![rank(0, 1, spill), rank(1, 0, spill)]);
    assert!(!facts(scatter(false)).overwrites_input);
    assert!(facts(scatter(true)).overwrites_input);
}

#[test]
fn without_a_contract_everything_but_the_result_is_proved() {
    let custom =
        Custom { name: "unknown".to_owned(), input_chunks: 1, output_chunks: 1, contract: None };
    let ranks =
        vec![vec![tb(0, vec![step(&[i(0)], &[r(1)])])], vec![tb(0, vec![step(&[r(0)], &[o(0)])])]];
    let found = facts(algorithm(Kind::Custom(Arc::new(custom)), 1, ranks));
    assert!(!found.result_promised && !found.same_on_every_rank);
}

#[test]
fn a_single_rank_needs_no_steps() {
    facts(algorithm(Kind::AllReduce, 3, vec![vec![]]));
    let copy = vec![tb(0, vec![step(&[i(0)], &[o(0)]).times(3)])];
    let out = algorithm(Kind::AllReduce, 3, vec![copy]);
    facts(Algorithm { placement: Placement::OutOfPlace, ..out });
}

#[test]
fn what_is_proved_is_what_was_given() {
    let ring = Algorithm { protocol: Protocol::Ll, ..families::ring(3, 1) };
    let proved = verify(ring.clone(), &Target::native()).expect("a ring");
    assert_eq!(proved.algorithm(), &ring);
    assert_eq!(proved.target(), &Target::native());
    assert_eq!(proved.into_algorithm(), ring);
}

#[test]
fn without_a_contract_every_output_must_keep_its_column() {
    let found = |crossed: bool| {
        let name = "unknown".to_owned();
        let custom = Custom { name, input_chunks: 2, output_chunks: 2, contract: None };
        let from = |chunk: u32| if crossed { i(1 - chunk) } else { i(chunk) };
        let steps = vec![step(&[from(0)], &[o(0)]), step(&[from(1)], &[o(1)])];
        let copy = algorithm(Kind::Custom(Arc::new(custom)), 2, vec![vec![tb(0, steps)]]);
        facts(Algorithm { placement: Placement::OutOfPlace, ..copy }).serves_any_count
    };
    assert!(found(false));
    assert!(!found(true));
}
