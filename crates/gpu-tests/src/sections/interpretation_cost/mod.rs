//! What interpretation costs: specialised kernels (`cargo xtask specialise FOLDER`) beside the
//! interpreters, over the same wires and inputs. Results must be equal bit for bit, also where
//! ranks run different kinds; times are printed.
//!
//! A time is that of one call in a graph of many, in microseconds: the median, in brackets what
//! four fifths lie between, and after it how many times the median of the specialised kernel that
//! knows the call.

mod test_bed;

use std::fs;
use std::path::Path;

use msccl_collective::{CollectiveKind, Rank};
use msccl_kernels::specialised::{self, Case};
use msccl_plan::Plan;

use super::{Bench, Section};
use crate::Trouble;
use crate::machine::Machine;
use crate::oracle::Oracle;
use crate::tally::Tally;
use test_bed::{Built, KernelVersion, TestBed};

/// The section.
pub const SECTION: Section = Section {
    name: "interpretation-cost",
    about: "specialised kernels against interpreters: equal bits, and times (--cubins FOLDER)",
    run,
};

/// How often each kind takes its turn.
const TURNS: usize = 30;

/// Calls in a graph: as many for the smallest buffers, and for the largest.
const CALLS_MAX: u64 = 200;
const CALLS_MIN: u64 = 20;

fn run(bench: &Bench, tally: &mut Tally) {
    let Some(folder) = &bench.cubins else { return tally.skip("no --cubins FOLDER") };
    let Machine::Gpus(_) = &bench.machine else { return tally.skip("there are no kernels here") };
    let lines = || Ok(fs::read_to_string(folder.join("CASES"))?);
    let Some(lines) = tally.need(|| "CASES".to_owned(), lines) else { return };
    for (number, line) in lines.lines().enumerate() {
        let test_bed = tally.need(|| line.to_owned(), || test_bed(bench, folder, number, line));
        let Some((case, test_bed)) = test_bed else { continue };
        tally.check(
            || line.to_owned(),
            || match test_bed.fits()? {
                true => check(bench, &case, &test_bed),
                false => Err("not all thread blocks fit on the GPU: use one for each rank".into()),
            },
        );
    }
}

/// The case of a line, and what it needs.
fn test_bed(
    bench: &Bench,
    folder: &Path,
    number: usize,
    line: &str,
) -> Result<(Case, TestBed), Trouble> {
    let case: Case = line.parse()?;
    let built = Built {
        specialised: [
            fs::read(folder.join(format!("{number}.plan.cubin")))?,
            fs::read(folder.join(format!("{number}.call.cubin")))?,
        ],
        interpreter: fs::read(folder.join(specialised::interpreter_file(&case)))?,
    };
    let test_bed = TestBed::new(&bench.machine, &case, &plans(&case)?, &built)?;
    Ok((case, test_bed))
}

/// One case: results, then times.
fn check(bench: &Bench, case: &Case, test_bed: &TestBed) -> Result<(), Trouble> {
    compare(test_bed, bench.seed)?;
    let times = time(test_bed, case, bench.number(TURNS, 5))?.map(Spread::of);
    let [.., least] = &times;
    let columns = KernelVersion::ALL.iter().zip(&times).map(|(kind, time)| {
        format!("{} {time}, {:.3}", format!("{kind:?}").to_lowercase(), time.median / least.median)
    });
    println!("  {case}: {}", columns.collect::<Vec<_>>().join("; "));
    Ok(())
}

/// The time of a call in microseconds, by kind (in the order of [`KernelVersion::ALL`]) and turn.
fn time(test_bed: &TestBed, case: &Case, turns: usize) -> Result<[Vec<f64>; 5], Trouble> {
    let calls = ((CALLS_MAX << 20) / (case.block_bytes() + (1 << 20))).max(CALLS_MIN);
    let graphs = KernelVersion::ALL.iter().map(|kind| test_bed.graphs(*kind, calls));
    let graphs = graphs.collect::<Result<Vec<_>, _>>()?;
    let mut times = [const { Vec::new() }; 5];
    for turn in 0..=turns {
        for next in 0..graphs.len() {
            // Each comes first as often as last.
            let of = (turn + next) % graphs.len();
            let time = test_bed.time(&graphs[of])? / calls as f64;
            // The first turn warms up.
            if turn > 0 {
                times[of].push(time);
            }
        }
    }
    Ok(times)
}

/// All kinds of kernels, and two kinds in one call, must leave the same.
fn compare(test_bed: &TestBed, seed: u64) -> Result<(), Trouble> {
    let expected = test_bed.results(seed, |_| KernelVersion::Shipped)?;
    let check = |name: &str, found: Vec<Vec<u8>>| -> Result<(), Trouble> {
        for (rank, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let wrong = |(one, other): (&u8, &u8)| one != other;
            let number = found.iter().zip(expected).filter(|pair| wrong(*pair)).count();
            if let Some(first) = found.iter().zip(expected).position(wrong) {
                return Err(
                    format!("{name}: r{rank} has {number} other bytes, from {first} on").into()
                );
            }
        }
        Ok(())
    };
    for kind in KernelVersion::ALL {
        check(&format!("{kind:?}"), test_bed.results(seed, |_| kind)?)?;
    }
    let mixed = |rank| if rank % 2 == 0 { KernelVersion::Plan } else { KernelVersion::Shipped };
    check("specialised and shipped together", test_bed.results(seed, mixed)?)
}

fn plans(case: &Case) -> Result<Vec<Plan>, Trouble> {
    let of = |kind: &CollectiveKind| case.algorithm.split('/').next() == Some(kind.name());
    let root = Rank(case.ranks.saturating_sub(1));
    let kind = CollectiveKind::all(root)
        .into_iter()
        .find(of)
        .ok_or("the algorithm is of no collective")?;
    let entry = Oracle::new(case.ranks, &[]).entry(&case.algorithm, kind, case.in_place);
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
