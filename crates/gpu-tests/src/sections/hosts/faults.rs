//! Whole communicators over the RDMA devices of the test bed while the network fails: what a
//! network survives must leave results right, and all else must end on every rank, soon, with words
//! that lead to the place.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::{CollectiveKind, DataType};
use msccl_runtime::ErrorKind;

use super::ring;
use super::test_bed::{Afterwards, Patience, RdmaTestBed, command, held, missing};
use crate::Trouble;
use crate::case::Case;
use crate::sections::point_to_point::exchange;
use crate::sections::processes::outlive_over_rdma;
use crate::sections::{Bench, Section};
use crate::tally::Tally;
use crate::world::{World, on_threads};

/// The section.
pub const SECTION: Section = Section {
    name: "rdma-faults",
    about: "the test bed's network loses, delays, breaks: right results, or every rank says soon \
        what broke where",
    run,
};

/// Devices, which hosts divide among themselves.
const DEVICES: u32 = 4;

/// Communicators that come and go.
const SET_UPS: u64 = 200;

/// How long failures may take to reach every rank. A hasty device takes half a second; machines are
/// busy.
const SOON: Duration = Duration::from_secs(30);

/// What the text of a failure must name: the host, the device, the queue pair, the links, and who
/// waits.
const PLACES: [&str; 5] = ["on host host", "rxe", "queue pair", "the links to r", "waits for"];

/// A fault, and what must come of it.
type Fault = fn(&Bench, &RdmaTestBed) -> Result<(), Trouble>;

fn run(bench: &Bench, tally: &mut Tally) {
    let faults: &[(&str, Fault)] = &[
        ("1 % loss and 2 ms delay on all wires", lossy),
        ("a wire is out for two seconds", out_for_a_while),
        ("a wire is out while connections are made", out_at_first),
        ("one of two wires is out for ever", one_rail_of_two),
        ("one of two queue pairs is broken", one_pair_of_two),
        ("the only wire is out for ever", cut_off),
        ("the only queue pair is broken", only_pair),
        ("a rank is killed", killed),
        ("communicators come and go", come_and_go),
    ];
    for (name, fault) in faults {
        let Some(test_bed) = RdmaTestBed::find(DEVICES, tally) else { return };
        if name.contains("queue pair") && !is_breakable() {
            missing(format!("{name}: needs LD_PRELOAD=pairs.so"), tally);
            continue;
        }
        tally.check(|| (*name).to_owned(), || fault(bench, &test_bed));
    }
}

/// A communicator over RDMA.
fn world(
    bench: &Bench,
    test_bed: &RdmaTestBed,
    (ranks, hosts): (u32, u32),
    patience: Patience,
) -> Result<World, Trouble> {
    let (hosts, settings) = (test_bed.hosts(hosts), test_bed.settings(patience));
    World::join_on(hosts, &bench.machine, ranks, &settings, &Arc::default())
}

/// An all-reduce that takes several messages of each link.
fn call(number: u64) -> Case {
    let count = [100_003, 1003, 40_009][number as usize % 3];
    Case { count, data_type: DataType::F16, seed: number, ..Case::of(CollectiveKind::AllReduce) }
}

fn lossy(bench: &Bench, test_bed: &RdmaTestBed) -> Result<(), Trouble> {
    let shape = |wire: u32| {
        command(&format!("wire shape {wire} 1 2"))?;
        Ok(Afterwards(format!("wire shape {wire} 0 0")))
    };
    let _undo = (0..DEVICES).map(shape).collect::<Result<Vec<_>, Trouble>>()?;
    let mut world = world(bench, test_bed, (4, 2), Patience::BRISK)?;
    for kind in [CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::AllToAll] {
        for count in [1, 20_001] {
            world.run(&Case { count, ..Case::of(kind) }, "")?;
        }
    }
    exchange(&mut world, &ring(4, 100_003))?;
    match lost_packets()? {
        0 => Err("no packet was lost".into()),
        _ => Ok(()),
    }
}

/// Packets that the wires have lost since they were shaped.
fn lost_packets() -> Result<u64, Trouble> {
    let mut lost = 0;
    for wire in 0..DEVICES {
        let answer = std::process::Command::new("tc")
            .args(["-s", "qdisc", "show", "dev", &format!("nic{wire}")])
            .output()?;
        let text = String::from_utf8(answer.stdout)?;
        let dropped = text.split("dropped ").nth(1).and_then(|rest| rest.split(',').next());
        lost += dropped.ok_or("tc does not count")?.parse::<u64>()?;
    }
    Ok(lost)
}

/// Makes calls while `meanwhile` goes on and until `enough`, and three more; all results must be
/// right. The longest call.
fn carry_on(
    world: &mut World,
    meanwhile: impl FnOnce() -> Result<(), Trouble> + Send,
    enough: impl Fn() -> bool,
) -> Result<Duration, Trouble> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let meanwhile = scope.spawn(|| {
            let outcome = meanwhile();
            done.store(true, Ordering::Release);
            outcome
        });
        let (begun, mut longest, mut number, mut left) = (Instant::now(), Duration::ZERO, 0, 3);
        while left > 0 {
            let start = Instant::now();
            if let Err(error) = world.run(&call(number), "") {
                let all: Vec<_> =
                    world.workers.iter().map(|worker| worker.communicator.error()).collect();
                return Err(format!("call {number}: {error}; of the ranks: {all:#?}").into());
            }
            longest = longest.max(start.elapsed());
            number += 1;
            if done.load(Ordering::Acquire) && enough() {
                left -= 1;
            } else if begun.elapsed() > 3 * SOON {
                return Err(format!("nothing has happened in {number} calls").into());
            }
        }
        meanwhile.join().map_err(|_| "a thread panicked")??;
        Ok(longest)
    })
}

/// Pulls a wire for two seconds.
fn pull_for_a_while() -> Result<(), Trouble> {
    thread::sleep(Duration::from_millis(200));
    command("wire down 1")?;
    thread::sleep(Duration::from_secs(2));
    command("wire up 1")
}

fn out_for_a_while(bench: &Bench, test_bed: &RdmaTestBed) -> Result<(), Trouble> {
    let mut world = world(bench, test_bed, (4, 4), Patience::BRISK)?;
    world.run(&call(0), "")?;
    let _undo = Afterwards("wire up 1".to_owned());
    let pull = pull_for_a_while;
    let longest = carry_on(&mut world, pull, || true)?;
    match longest > Duration::from_secs(1) {
        true => Ok(()),
        false => Err(format!("no call was held up, the longest took {longest:?}").into()),
    }
}

fn out_at_first(bench: &Bench, test_bed: &RdmaTestBed) -> Result<(), Trouble> {
    let mut world = world(bench, test_bed, (4, 4), Patience::BRISK)?;
    let _undo = Afterwards("wire up 1".to_owned());
    command("wire down 1")?;
    thread::scope(|scope| {
        let plug = scope.spawn(|| {
            thread::sleep(Duration::from_secs(2));
            command("wire up 1")
        });
        let start = Instant::now();
        world.run(&call(0), "")?;
        plug.join().map_err(|_| "a thread panicked")??;
        match start.elapsed() > Duration::from_secs(1) {
            true => Ok(()),
            false => Err("the call was not held up".into()),
        }
    })
}

/// Both ends of a rail must say that it broke, where, and that the other one carries on.
fn both_ends_say(test_bed: &RdmaTestBed, devices: [&str; 2]) -> bool {
    let lost = test_bed.log.lost();
    let of = |device: &str| {
        let words = [" on host host", &format!(": {device} port 1"), "queue pair", " broke: "];
        let has_all = |line: &String| words.iter().all(|word| line.contains(word));
        lost.iter().any(|line| has_all(line) && line.ends_with("1 rail carries on"))
    };
    devices.iter().all(|device| of(device))
}

fn one_rail_of_two(bench: &Bench, test_bed: &RdmaTestBed) -> Result<(), Trouble> {
    let mut world = world(bench, test_bed, (4, 2), Patience::LIMITED)?;
    world.run(&call(0), "")?;
    let _undo = Afterwards("wire up 1".to_owned());
    let pull = || {
        thread::sleep(Duration::from_millis(200));
        command("wire down 1")
    };
    let done = carry_on(&mut world, pull, || both_ends_say(test_bed, ["rxe1", "rxe3"]));
    done.map_err(|error| format!("{error}; {:#?}", test_bed.log.lost()))?;
    // A rail that has broken stays so, and that its wire is back does no harm.
    let lost = test_bed.log.lost().len();
    carry_on(&mut world, || command("wire up 1"), || true)?;
    match test_bed.log.lost().len() == lost {
        true => Ok(()),
        false => Err(format!("another rail broke: {:#?}", test_bed.log.lost()).into()),
    }
}

fn one_pair_of_two(bench: &Bench, test_bed: &RdmaTestBed) -> Result<(), Trouble> {
    let mut world = world(bench, test_bed, (2, 2), Patience::DEFAULT)?;
    world.run(&call(0), "")?;
    let both =
        || both_ends_say(test_bed, ["rxe0", "rxe2"]) || both_ends_say(test_bed, ["rxe1", "rxe3"]);
    let done = carry_on(&mut world, break_pair, both);
    done.map(drop).map_err(|error| format!("{error}; {:#?}", test_bed.log.lost()).into())
}

fn pipe() -> std::path::PathBuf {
    format!("/run/pairs.{}", std::process::id()).into()
}

/// Whether queue pairs of this process can be broken once there are some.
fn is_breakable() -> bool {
    std::env::var("LD_PRELOAD").is_ok_and(|libraries| libraries.contains("pairs.so"))
}

/// Breaks the youngest queue pair of this process.
fn break_pair() -> Result<(), Trouble> {
    Ok(OpenOptions::new().write(true).open(pipe())?.write_all(b"!")?)
}

/// Lets every rank make calls until it fails, while `fault` happens; what each rank says. Nobody
/// helps: no rank is aborted because another one has failed.
fn until_all_fail(
    world: &mut World,
    fault: impl FnOnce() -> Result<(), Trouble> + Send,
) -> Result<Vec<String>, Trouble> {
    let trial = world.trial(&[call(0)], "")?;
    world.load(&trial)?;
    let give_up = Instant::now() + 2 * SOON;
    let (done, failures) = thread::scope(|scope| {
        let fault = scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            fault().map(|()| Instant::now())
        });
        let failures = on_threads(world.workers.iter().map(|worker| {
            let trial = &trial;
            move || {
                loop {
                    let outcome = worker.submit(&worker.calls(trial)).and_then(|()| worker.wait());
                    if outcome.is_err() || Instant::now() > give_up {
                        return (worker.communicator.error(), Instant::now());
                    }
                }
            }
        }));
        (fault.join(), failures)
    });
    let happened = done.map_err(|_| "a thread panicked")??;
    let mut texts = Vec::new();
    for (rank, (error, at)) in failures.into_iter().enumerate() {
        let Some(error) = error else { return Err(format!("r{rank} has not failed").into()) };
        let took = at.saturating_duration_since(happened);
        if took > SOON {
            return Err(format!("r{rank} took {took:.1?}: {error}").into());
        }
        if !matches!(error.kind(), ErrorKind::Remote | ErrorKind::System) {
            return Err(format!("r{rank} fails as {:?}: {error}", error.kind()).into());
        }
        texts.push(error.to_string());
    }
    Ok(texts)
}

/// Every text must hold every word.
fn all_name(texts: &[String], words: &[&str]) -> Result<(), Trouble> {
    for (rank, text) in texts.iter().enumerate() {
        if let Some(word) = words.iter().find(|word| !text.contains(**word)) {
            return Err(format!("r{rank} does not name `{word}`: {text}").into());
        }
    }
    Ok(())
}

fn cut_off(bench: &Bench, test_bed: &RdmaTestBed) -> Result<(), Trouble> {
    let mut world = world(bench, test_bed, (4, 4), Patience::HASTY)?;
    world.run(&call(0), "")?;
    let undo = Afterwards("wire up 1".to_owned());
    let texts = until_all_fail(&mut world, || command("wire down 1"))?;
    all_name(&texts, &PLACES)?;
    all_name(&texts, &["rxe1 port 1"])?;
    drop(undo);
    thread::sleep(Duration::from_millis(500));
    // What has failed stays so, and the devices are as good as before.
    if world.run(&call(1), "").is_ok() {
        return Err("a communicator that has failed makes calls".into());
    }
    drop(world);
    self::world(bench, test_bed, (4, 4), Patience::BRISK)?.run(&call(1), "")
}

fn only_pair(bench: &Bench, test_bed: &RdmaTestBed) -> Result<(), Trouble> {
    let mut world = world(bench, test_bed, (4, 4), Patience::HASTY)?;
    world.run(&call(0), "")?;
    let texts = until_all_fail(&mut world, break_pair)?;
    all_name(&texts, &PLACES)
}

fn killed(bench: &Bench, _: &RdmaTestBed) -> Result<(), Trouble> {
    let before = held()?;
    outlive_over_rdma(bench)?;
    let after = held()?;
    match before == after {
        true => Ok(()),
        false => Err(format!("something is left of the ranks: {before:?}, {after:?}").into()),
    }
}

/// Set-ups leave nothing behind.
fn come_and_go(bench: &Bench, test_bed: &RdmaTestBed) -> Result<(), Trouble> {
    let once = |seed| {
        world(bench, test_bed, (2, 2), Patience::DEFAULT)?.run(&Case { count: 1, ..call(seed) }, "")
    };
    // What is made once for the process.
    once(0)?;
    let before = held()?;
    for seed in 1..=SET_UPS {
        once(seed)?;
    }
    let after = held()?;
    match before == after {
        true => Ok(()),
        false => Err(format!("{SET_UPS} set-ups left something: {before:?}, {after:?}").into()),
    }
}
