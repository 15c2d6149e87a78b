//! Records of kernels: a launch begins with what each link had before; then every step of every
//! round leaves one for each of its messages, in order; waits belong to the step behind them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::OnceLock;

use msccl_collective::{Placement, Protocol};
use msccl_compiler::evaluate::Launch;
use msccl_plan::cut::Cut;
use msccl_plan::{LowLatencyPlan, Plan, ThreadBlock};
use msccl_testkit::Numbers;
use msccl_tests::example::Example;
use msccl_trace::record::{Record, RecordKind};
use msccl_trace::recording::{LinkEnd, PlanDescription, StepDescription, ThreadBlockDescription};
use msccl_trace::{PlanName, StepGrouping, describe};

use crate::cases::{cases, named, proved};
use crate::emulator::{Kernels, Recording, check_program, compile_recording, type_name};
use crate::scenario::{LARGE_SLOT_BYTES, Offers, SLOT_BYTES, Scenario};

const LAUNCHES: usize = 3;

/// Messages of each link so far.
type Counts = BTreeMap<(u32, u32, Direction), u32>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    In,
    Out,
}

/// Which wires an instance has.
#[derive(Clone, Copy)]
struct Wire {
    instance: u32,
    instances: u32,
}

impl Wire {
    /// The peer, the number of the wire, and the direction.
    fn of(self, end: &LinkEnd, direction: Direction) -> (u32, u32, Direction) {
        (end.peer, end.number * self.instances + self.instance, direction)
    }
}

/// The records of one thread block, as far as they have not been checked.
struct Remaining<'a> {
    records: slice::Iter<'a, Record>,
    last_ns: u64,
}

impl Remaining<'_> {
    fn next(&mut self) -> Result<Record, String> {
        let record = *self.records.next().ok_or("records end too early")?;
        if record.time_ns < self.last_ns {
            return Err(format!("time steps back: {record:?}"));
        }
        self.last_ns = record.time_ns;
        Ok(record)
    }

    fn expect(&mut self, kind: RecordKind, step: u32, message: u32) -> Result<(), String> {
        let found = self.next()?;
        let is_right = (found.kind, found.step, found.message) == (kind, step, message);
        let expected = || format!("expected {kind:?} {step} {message}, found {found:?}");
        is_right.then_some(()).ok_or_else(expected)
    }

    /// What each link of `block` had before.
    fn expect_counts(
        &mut self,
        block: &ThreadBlockDescription,
        wire: Wire,
        counts: &Counts,
    ) -> Result<(), String> {
        let receives = block.receives.iter().map(|end| wire.of(end, Direction::In));
        let sends = block.sends.iter().map(|end| wire.of(end, Direction::Out));
        for (place, link) in (0..).zip(receives.chain(sends)) {
            let before = counts.get(&link).copied().unwrap_or(0);
            self.expect(RecordKind::Count, place, before)?;
        }
        Ok(())
    }

    /// The move of a message of `step`, and the waits before it.
    fn expect_move(&mut self, step: &StepDescription) -> Result<(), String> {
        for record in self.records.clone() {
            match record.kind {
                RecordKind::WaitRoom | RecordKind::WaitData | RecordKind::WaitBlock => {
                    self.next()?;
                    let belongs = record.step == step.index;
                    belongs.then_some(()).ok_or_else(|| format!("{record:?} before {step:?}"))?;
                }
                RecordKind::Begin | RecordKind::Move | RecordKind::End | RecordKind::Count => break,
            }
        }
        self.expect(RecordKind::Move, step.index, 0)
    }
}

/// One message more on each link of `step`.
fn count_message(
    block: &ThreadBlockDescription,
    step: &StepDescription,
    wire: Wire,
    counts: &mut Counts,
) {
    let sends = step.sends.iter().map(|at| wire.of(&block.sends[*at as usize], Direction::Out));
    let receives = step.receives.iter().map(|at| &block.receives[*at as usize]);
    let receives = receives.map(|end| wire.of(end, Direction::In));
    for link in receives.chain(sends) {
        *counts.entry(link).or_default() += 1;
    }
}

/// The records of a rank whose launches run `plan`, cut so; the waits that there were.
fn check_rank(plan: &PlanDescription, cut: &Cut, found: &[Vec<Record>]) -> Result<usize, String> {
    let mut counts = Counts::new();
    let tracks =
        || (0..cut.instances).flat_map(|of| plan.thread_blocks.iter().map(move |it| (of, it)));
    let mut remaining: Vec<_> =
        found.iter().map(|of| Remaining { records: of.iter(), last_ns: 0 }).collect();
    for launch in 0..LAUNCHES as u32 {
        for ((instance, block), left) in tracks().zip(&mut remaining) {
            let wire = Wire { instance, instances: cut.instances };
            left.expect(RecordKind::Begin, 0, launch)?;
            left.expect_counts(block, wire, &counts)?;
            for _ in 0..cut.rounds {
                for step in &block.steps {
                    for _ in 0..step.count.div_ceil(cut.chunks_per_message) {
                        count_message(block, step, wire, &mut counts);
                        left.expect_move(step)?;
                    }
                    // Steps that only wait; warp-specialised thread blocks leave some out.
                    let next = left.records.clone().find(|of| of.kind == RecordKind::Move);
                    if step.count == 0 && next.is_some_and(|next| next.step == step.index) {
                        left.expect_move(step)?;
                    }
                }
            }
            let rest = left.records.clone().take_while(|of| of.kind == RecordKind::WaitRoom);
            (0..rest.count()).try_for_each(|_| left.next().map(|_| ()))?;
            left.expect(RecordKind::End, 0, 0)?;
        }
    }
    let over = remaining.iter_mut().find_map(|left| left.records.next());
    over.map_or(Ok(()), |over| Err(format!("one more than there should be: {over:?}")))?;
    let is_wait = |record: &&Record| {
        matches!(record.kind, RecordKind::WaitRoom | RecordKind::WaitData | RecordKind::WaitBlock)
    };
    Ok(found.iter().flatten().filter(is_wait).count())
}

/// The emulator with records, whose compilation takes long; two tests have the plain one.
fn emulator(protocol: Protocol) -> Option<PathBuf> {
    static PLAIN: OnceLock<Option<PathBuf>> = OnceLock::new();
    match protocol {
        Protocol::Simple => {
            PLAIN.get_or_init(|| compile_recording("recorded", &Kernels::Plain)).clone()
        }
        packets => {
            let name = format!("recorded {}", type_name(packets));
            compile_recording(&name, &Kernels::Packets(packets))
        }
    }
}

/// Runs `scenario` and checks what its ranks record; the waits that there were.
fn check_scenario(
    scenario: &Scenario<'_>,
    emulator: &Path,
    numbers: &mut Numbers,
) -> Result<usize, String> {
    let found = scenario.record(emulator, numbers)?;
    let plans = Plan::all(&scenario.algorithms[0]).map_err(|why| why.to_string())?;
    let mut waits = 0;
    for (rank, (plan, records)) in plans.iter().zip(&found).enumerate() {
        let name = PlanName { id: 0, algorithm: "recorded", source: None };
        let described = describe(name, plan.program(), StepGrouping::Bundles, |_| None);
        let cut = scenario.cut(plan).ok_or("the call cannot be cut")?;
        let checked = check_rank(&described, &cut, records);
        waits += checked.map_err(|why| format!("r{rank}: {why}"))?;
    }
    Ok(waits)
}

/// Runs every example under `protocol` with such slots and offers.
fn check(protocol: Protocol, slot_bytes: u64, offers: Offers) {
    let Some(emulator) = emulator(protocol) else { return };
    let (numbers, mut waits, mut runs) = (&mut Numbers(11), 0, 0);
    for case in cases(protocol).step_by(3) {
        let scenario = Scenario {
            algorithms: slice::from_ref(&case.verified),
            protocol,
            slot_bytes,
            // Packets: with many of them, the threads in the middle have some, and record.
            count: if runs % 2 == 0 { case.count(61, 48) } else { case.count(205, 192) },
            instances: 1 + numbers.below(2) as u32,
            in_place: case.in_place,
            offers: &[offers; LAUNCHES],
            ..Scenario::USUAL
        };
        let checked = check_scenario(&scenario, &emulator, numbers);
        waits += checked.unwrap_or_else(|why| panic!("{}: {why}", case.what));
        runs += 1;
    }
    assert!(runs > 60 && waits > 500, "{runs} runs, {waits} waits");
}

#[test]
fn plain_kernels_leave_records() {
    check(Protocol::Simple, SLOT_BYTES, Offers::Off);
}

#[test]
fn kernels_with_direct_links_leave_records() {
    check(Protocol::Simple, SLOT_BYTES, Offers::Some);
}

/// The first launch looks out for offers, later ones find that all peers have declined.
#[test]
fn kernels_that_offer_nothing_leave_records() {
    let Some(emulator) = emulator(Protocol::Simple) else { return };
    for (name, ranks) in [("alltoall/allpairs", 2), ("alltoall/allpairs", 3), ("allgather/ring", 3)]
    {
        let verified = named(name, ranks, Placement::OutOfPlace);
        let scenario = Scenario {
            algorithms: slice::from_ref(&verified),
            count: 1000,
            offset: Some(0),
            offers: &[Offers::Never; LAUNCHES],
            ..Scenario::USUAL
        };
        let checked = check_scenario(&scenario, &emulator, &mut Numbers(13));
        checked.unwrap_or_else(|why| panic!("{name}, {ranks} ranks: {why}"));
    }
}

#[test]
fn kernels_with_small_packets_leave_records() {
    check(Protocol::Ll, LARGE_SLOT_BYTES, Offers::Off);
}

#[test]
fn kernels_with_large_packets_leave_records() {
    check(Protocol::Ll128, LARGE_SLOT_BYTES, Offers::Off);
}

/// The most links that a thread block of a plan has.
fn most_links(plan: &Plan) -> usize {
    let links = |of: &ThreadBlock| of.receives.len() + of.sends.len();
    plan.program().thread_blocks.iter().map(links).max().unwrap()
}

#[test]
fn every_link_of_many_has_its_count() {
    let verified = named("allgather/one_block", 20, Placement::OutOfPlace);
    let most = most_links(&Plan::all(&verified).unwrap()[0]);
    assert!(most > 28, "the device keeps the counts of 28: {most} are no more");
    // Calls of several rounds have warp-specialised thread blocks.
    for (protocol, count) in
        [(Protocol::Simple, 205), (Protocol::Simple, 3000), (Protocol::Ll, 205)]
    {
        let Some(emulator) = emulator(protocol) else { return };
        let scenario = Scenario {
            algorithms: slice::from_ref(&verified),
            protocol,
            slot_bytes: LARGE_SLOT_BYTES,
            count,
            offers: &[Offers::Off; LAUNCHES],
            ..Scenario::USUAL
        };
        check_scenario(&scenario, &emulator, &mut Numbers(12)).unwrap();
    }
}

/// In a low-latency kernel a warp writes the words of a begin, 32 at a time.
#[test]
fn low_latency_kernels_record_more_links_than_a_warp_has_threads() {
    let text = "algorithm fan(ranks N = 36) implements broadcast(root 0, chunks 1) in place \
                protocol LL { for d in 1..N on tb 0 { output@d = output@0 } }";
    let fan = Example { name: "fan".into(), text: text.into(), launches: Vec::new() };
    let verified = proved(&fan, &Launch::default(), Placement::InPlace).unwrap();
    let plan = Plan::all(&verified).unwrap().swap_remove(0);
    assert!(most_links(&plan) > 32 && LowLatencyPlan::of(&plan).is_some());
    let Some(emulator) = emulator(Protocol::Ll) else { return };
    let scenario = Scenario {
        algorithms: slice::from_ref(&verified),
        protocol: Protocol::Ll,
        slot_bytes: LARGE_SLOT_BYTES,
        in_place: true,
        offers: &[Offers::Off; LAUNCHES],
        ..Scenario::USUAL
    };
    check_scenario(&scenario, &emulator, &mut Numbers(14)).unwrap();
}

/// Messages of all threads, of bulk copies, and of packets, in several transfers a lane.
#[test]
fn exchanges_leave_records() {
    check_program("recorded exchange", &Kernels::Exchange, Recording::On);
}
