//! What interpretation costs: kernels built for one call each (`cargo xtask specialise FOLDER`) beside the
//! interpreters, over the same wires and inputs. Results must be equal bit for bit; times are told.

mod rig;

use std::fs;
use std::path::Path;

use msccl_collective::Rank;
use msccl_kernels::special::Case;
use msccl_plan::Plan;
use msccl_registry::Wanted;

use super::{Bench, Section};
use crate::Trouble;
use crate::machine::Machine;
use crate::oracle::Oracle;
use crate::tally::Tally;
use rig::{Kind, Rig};

/// The section.
pub const SECTION: Section = Section {
    name: "specialised",
    about: "kernels for one call each against the interpreters: equal bits, and times (--cubins FOLDER)",
    run,
};

/// How often each kind takes its turn.
const TURNS: usize = 31;

/// Calls in a graph: as many for the smallest buffers, and for the largest.
const CALLS_MAX: u64 = 200;
const CALLS_MIN: u64 = 20;

fn run(bench: &Bench, tally: &mut Tally) {
    let Some(folder) = &bench.cubins else { return tally.skip("no --cubins FOLDER") };
    let Machine::Gpus(_) = &bench.machine else { return tally.skip("there are no kernels here") };
    let lines = || Ok(fs::read_to_string(folder.join("CASES"))?);
    let Some(lines) = tally.need(|| "CASES".to_owned(), lines) else { return };
    for (number, line) in lines.lines().enumerate() {
        tally.check(|| line.to_owned(), || check(bench, folder, number, line));
    }
}

/// One case: results, then times.
fn check(bench: &Bench, folder: &Path, number: usize, line: &str) -> Result<(), Trouble> {
    let case: Case = line.parse()?;
    let cubin = fs::read(folder.join(format!("{number}.cubin")))?;
    let rig = Rig::new(&bench.machine, &case, &plans(&case)?, &cubin)?;
    compare(&rig, bench.seed)?;
    let calls = ((CALLS_MAX << 20) / (case.block_bytes() + (1 << 20))).max(CALLS_MIN);
    let graphs = [rig.graphs(Kind::Interpreter, calls)?, rig.graphs(Kind::Special, calls)?];
    let mut times = [Vec::new(), Vec::new()];
    for turn in 0..bench.number(TURNS, 5) + 1 {
        for of in [turn % 2, 1 - turn % 2] {
            let time = rig.time(&graphs[of])? / calls as f64;
            // The first turn warms up.
            if turn > 0 {
                times[of].push(time);
            }
        }
    }
    let [interpreter, special] = times.map(Spread::of);
    let ratio = interpreter.median / special.median;
    println!("  {case}: interpreter {interpreter}, specialised {special} µs, ratio {ratio:.3}");
    Ok(())
}

/// The interpreters, the special kernels, and both in one call must leave the same.
fn compare(rig: &Rig, seed: u64) -> Result<(), Trouble> {
    let interpreted = rig.results(seed, |_| Kind::Interpreter)?;
    let special = rig.results(seed, |_| Kind::Special)?;
    let mixed = rig.results(seed, |rank| match rank % 2 {
        0 => Kind::Special,
        _ => Kind::Interpreter,
    })?;
    for (name, found) in [("the special kernels", special), ("both kinds together", mixed)] {
        for (rank, (found, expected)) in found.iter().zip(&interpreted).enumerate() {
            let wrong = found.iter().zip(expected).filter(|(one, other)| one != other).count();
            if wrong > 0 {
                let first = found.iter().zip(expected).position(|(one, other)| one != other);
                let first = first.unwrap_or_default();
                return Err(format!(
                    "r{rank}: {name} differ in {wrong} bytes, the first at {first}"
                )
                .into());
            }
        }
    }
    Ok(())
}

fn plans(case: &Case) -> Result<Vec<Plan>, Trouble> {
    let of = |wanted: &Wanted| case.algorithm.split('/').next() == Some(wanted.name());
    let root = Rank(case.ranks.saturating_sub(1));
    let wanted =
        Wanted::all(root).into_iter().find(of).ok_or("the algorithm is of no collective")?;
    let entry = Oracle::new(case.ranks, &[]).entry(&case.algorithm, wanted, case.in_place);
    Ok(Plan::all(&entry.ok_or("there is no such algorithm")?.verified)?)
}

/// Times, in microseconds a call.
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |place: usize| times.get(place).copied().unwrap_or(f64::NAN);
        let last = times.len().saturating_sub(1);
        // The middle four fifths.
        Self { median: at(last / 2), least: at(last / 10), most: at(last - last / 10) }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { median, least, most } = self;
        write!(f, "{median:.2} ({least:.2} to {most:.2})")
    }
}
