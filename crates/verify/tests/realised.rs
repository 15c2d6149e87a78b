//! `direct_links`, `bundles`, `messages_ahead_max`, `completion` and `raw` by definition: an
//! executor of the realised program, which may touch what `LINK_ACCESSES` lists and nothing else,
//! one load or store at a time, in random order, over random programs. `MSCCL_REALISED_RUNS` says
//! how many runs; the default is a part that suits every test run. Averages are tried on other
//! programs every day, unless `MSCCL_REALISED_SEED` says from which number on.

#![deny(unsafe_code)]

mod definition;
mod realised_program;

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use msccl_ir::{Algorithm, StepRef, Target};
use msccl_testkit::Numbers;
use msccl_testkit::random::steps::{random, random_sums};
use msccl_verify::{Delivery, DirectLink, LINK_ACCESSES, LinkAccess, Verified, verify};
use realised_program::averaging::Averaging;
use realised_program::executor::{Choice, Executor, Outcome};

/// Runs of one program, with other deliveries and interleavings each.
const RUNS_PER_PROGRAM: u32 = 6;

fn runs() -> u32 {
    let runs = std::env::var("MSCCL_REALISED_RUNS").ok();
    runs.and_then(|runs| runs.parse().ok()).unwrap_or(30_000)
}

fn proved(algorithm: Algorithm) -> Option<Verified> {
    verify(algorithm, &Target::native()).ok()
}

/// What runs have seen.
#[derive(Default)]
struct Seen {
    runs: u32,
    pushes: u32,
    pulls: u32,
    bundled: u32,
    accesses: BTreeSet<LinkAccess>,
}

/// Runs `verified` with a random part of what may be direct or bundled; what it computes must be
/// what it computes when everything is staged, step by step.
fn check(verified: &Verified, numbers: &mut Numbers, seen: &mut Seen) {
    let expected = Executor::new(verified, &Choice::none(), 1).run_in_order();
    let (links, bundles) = (verified.direct_links(), verified.bundles());
    for _ in 0..RUNS_PER_PROGRAM {
        let choice = Choice::random(&links, &bundles, numbers);
        let mut executor = Executor::new(verified, &choice, 2);
        let outcome = executor.run(numbers);
        let text = || {
            let text = msccl_ir::text::print(verified.algorithm());
            format!("{:?} {:?} of {text}", choice.links, choice.bundles)
        };
        let Outcome::Ended(found) = outcome else { panic!("stuck: {}", text()) };
        for round in found {
            assert_eq!(round, expected, "{}", text());
        }
        for (link, facts) in verified.link_facts().into_iter().enumerate() {
            let most = executor.most_ahead[link];
            let bound = facts.messages_ahead_max.unwrap_or(u32::MAX);
            assert!(most <= bound, "{most} ahead of {bound} on {facts:?}: {}", text());
        }
        seen.runs += 1;
        let direct = choice.links.iter();
        let pushes = direct.filter(|link| link.delivery == Delivery::Push).count() as u32;
        seen.pushes += pushes;
        seen.pulls += choice.links.len() as u32 - pushes;
        seen.bundled += choice.bundles.len() as u32;
        seen.accesses.append(&mut executor.accesses);
    }
}

#[test]
fn realised_programs_compute_what_is_proved() {
    let mut seen = Seen::default();
    let mut numbers = Numbers(29);
    let mut seed = 0;
    while seen.runs < runs() {
        seed += 1;
        let Some(verified) = proved(random(seed)) else { continue };
        check(&verified, &mut numbers, &mut seen);
    }
    let Seen { runs, pushes, pulls, bundled, accesses } = seen;
    println!("{runs} runs, {pushes} pushed and {pulls} pulled links, {bundled} bundles");
    assert!(pushes > runs / 8 && pulls > runs / 8, "{pushes} {pulls}");
    assert!(bundled > runs / 50, "{bundled}");
    let missing: Vec<_> = LINK_ACCESSES.iter().filter(|it| !accesses.contains(it)).collect();
    assert!(missing.is_empty(), "never made: {missing:?}");
    assert!(accesses.iter().all(|access| LINK_ACCESSES.contains(access)), "{accesses:?}");
}

/// How an average is formed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// Sums are divided where they are complete.
    Divides,
    /// Contributions are scaled where they are first added.
    Scales,
}

/// Runs `verified` in a random placement that it serves, with a random part of what may be direct
/// or bundled; whether every output holds the average that is promised, in all rounds.
fn averages(
    verified: &Verified,
    averaging: Averaging,
    (links, bundles): (&[DirectLink], &[msccl_verify::Bundle]),
    numbers: &mut Numbers,
) -> bool {
    let choice = Choice::random(links, bundles, numbers);
    let Algorithm { collective, placement, .. } = verified.algorithm();
    let in_place = placement.serves_in_place()
        && !(placement.serves_out_of_place() && numbers.below_u32(2) == 0);
    let mut executor = Executor::new(verified, &choice, 2).averaging(averaging, in_place);
    let Outcome::Ended(rounds) = executor.run(numbers) else { panic!("stuck") };
    rounds.iter().all(|outputs| {
        collective.all_ranks().all(|rank| {
            let promised = (0..).zip(&outputs[rank.index()]).map(|(index, found)| {
                executor.promised(rank, index).is_none_or(|expected| expected == *found)
            });
            promised.into_iter().all(|holds| holds)
        })
    })
}

/// All steps that `is_chosen`.
fn steps(algorithm: &Algorithm, is_chosen: impl Fn(StepRef) -> bool) -> BTreeSet<StepRef> {
    let blocks = algorithm.thread_blocks().flat_map(|(rank, tb, block)| {
        (0..block.steps.len()).map(move |step| StepRef { rank, tb, step: step.into() })
    });
    blocks.filter(|&at| is_chosen(at)).collect()
}

/// The number of the first program: another one every day.
fn first_seed() -> u64 {
    let given = std::env::var("MSCCL_REALISED_SEED").ok().and_then(|given| given.parse().ok());
    given.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_secs() / 86_400 * 1_000_000
    })
}

#[test]
fn averages_are_formed_where_the_facts_say() {
    let (mut made, mut divided, mut scaled, mut unknown) = (0, 0, 0, 0);
    let first = first_seed();
    let mut numbers = Numbers(first);
    let mut seed = first;
    while made < runs() {
        seed += 1;
        let Some(verified) = proved(random_sums(seed)) else { continue };
        let (algorithm, facts) = (verified.algorithm(), verified.facts());
        let divisions =
            facts.completion.as_ref().map(|them| steps(algorithm, |at| them.contains(at)));
        unknown += u32::from(divisions.is_none());
        divided += u32::from(divisions.as_ref().is_some_and(|them| !them.is_empty()));
        scaled += u32::from(facts.raw.as_ref().is_some_and(|raw| !raw.is_empty()));
        let (links, bundles) = (verified.direct_links(), verified.bundles());
        for how in [How::Divides, How::Divides, How::Divides, How::Scales, How::Scales] {
            let averaging = match how {
                How::Divides => divisions.clone().map(Averaging::Divides),
                How::Scales => facts.raw.clone().map(Averaging::Scales),
            };
            let Some(averaging) = averaging else { continue };
            made += 1;
            let holds = averages(&verified, averaging, (&links, &bundles), &mut numbers);
            assert!(holds, "{how:?}, program {seed}: {}", msccl_ir::text::print(algorithm));
        }
    }
    println!(
        "{made} runs of programs from {first} on: {divided} divide, {scaled} scale, of {unknown} \
         it is not known where to divide"
    );
    assert!(divided > made / 20 && scaled > made / 20 && unknown > made / 1000);
}

/// Divisions by another rule are noticed: a completing step that does not divide, and another that
/// does.
#[test]
fn divisions_elsewhere_are_noticed() {
    let mut numbers = Numbers(7);
    let (mut missing, mut other, mut programs) = (0, 0, 0);
    for seed in 1..4000 {
        let Some(verified) = proved(random_sums(seed)) else { continue };
        let algorithm = verified.algorithm();
        let Some(completion) = &verified.facts().completion else { continue };
        let right = steps(algorithm, |at| completion.contains(at));
        let sums = steps(algorithm, |at| algorithm.step(at).sources.len() > 1);
        let idle: Vec<_> = sums.difference(&right).copied().collect();
        let (Some(&last), Some(&first)) = (right.last(), idle.first()) else { continue };
        programs += 1;
        let (mut fewer, mut more) = (right.clone(), right.clone());
        fewer.remove(&last);
        more.insert(first);
        let mut is_wrong =
            |steps| !averages(&verified, Averaging::Divides(steps), (&[], &[]), &mut numbers);
        missing += u32::from(is_wrong(fewer));
        other += u32::from(is_wrong(more));
    }
    println!("{programs} programs: {missing} miss a division, {other} notice another one");
    assert!(programs > 100 && missing > programs / 2 && other > programs / 10);
}

/// The executor notices what the list forbids: a landing that is read again after the next message.
#[test]
fn a_landing_that_is_copied_on_is_not_pushed_over() {
    let text = "algorithm \"push_landing\"
collective custom \"two\" ranks 2 chunks 1 input 2 output 2
placement out of place
protocol Simple
bytes 0..

r0 scratch 0
  tb0 ch0 receive r1
    s0: r1 -> o[0], o[1]
    s1: r1 -> o[0]

r1 scratch 0
  tb0 ch0 send r0
    s0: i[0] -> r0
    s1: i[1] -> r0
";
    let algorithm = msccl_ir::text::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let verified = proved(algorithm).expect("a right one");
    let links = verified.direct_links();
    assert!(links.iter().all(|link| link.delivery != Delivery::Push), "{links:?}");
    // All the same pushed, it goes wrong, so that a test like this one can fail.
    let [first, second] = [0, 1].map(|step| {
        let at = |rank| msccl_ir::StepRef {
            rank: msccl_collective::Rank(rank),
            tb: msccl_collective::TbIndex(0),
            step: msccl_collective::StepIndex(step),
        };
        let region = msccl_collective::Slot::new(msccl_collective::Buffer::Output, 0).run(1);
        msccl_verify::DirectMessage { send: at(1), receive: at(0), region }
    });
    let forced = DirectLink {
        from: msccl_collective::Rank(1),
        to: msccl_collective::Rank(0),
        channel: msccl_collective::Channel(0),
        delivery: Delivery::Push,
        messages: vec![first, second],
    };
    let expected = Executor::new(&verified, &Choice::none(), 1).run_in_order();
    let mut numbers = Numbers(1);
    let mut wrong = 0;
    for _ in 0..60 {
        let choice = Choice { links: vec![forced.clone()], bundles: Vec::new() };
        let Outcome::Ended(found) = Executor::new(&verified, &choice, 1).run(&mut numbers) else {
            panic!("stuck")
        };
        wrong += u32::from(found[0] != expected);
    }
    assert!(wrong > 5, "{wrong} of 60");
}

#[test]
fn the_list_of_accesses_stands_in_the_document() {
    let document = include_str!("../../../docs/MEMORY.md");
    let rows: Vec<_> = LINK_ACCESSES.iter().map(ToString::to_string).collect();
    let table = rows.join("\n");
    assert!(document.contains(&table), "docs/MEMORY.md, section 1, must contain\n{table}");
}
