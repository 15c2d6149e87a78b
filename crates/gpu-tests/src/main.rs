//! Holds communicators against the oracle and the plain reference, on real GPUs.
//!
//! `cargo build --release -p msccl-gpu-tests` gives a program that needs nothing but the driver.
//! Ranks are threads of one process and share GPUs where these are fewer. Sections can be chosen;
//! each prints one line. Without a GPU the program says so and succeeds; `--device host` runs
//! everything that applies on host threads.

#![allow(clippy::print_stdout, reason = "this program reports on its standard output")]

mod args;
mod case;
mod examples;
mod hosts;
mod kernel_store;
mod machine;
mod memory;
mod oracle;
mod random;
mod random_program;
mod runner;
mod sections;
mod tally;
mod trial;
mod values;
mod world;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

use args::Args;
use machine::Machine;
use sections::{Bench, SECTIONS, Section};
use tally::{Tally, Watch};

/// How many queues of a GPU a process has. With as many as there are by itself, streams of ranks
/// that share a GPU share queues, too ("After a failure" in `docs/FAILURES.md`).
const QUEUES: &str = "CUDA_DEVICE_MAX_CONNECTIONS";

/// What goes wrong in a check, for people.
type Trouble = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let args = Args::parse();
    kernel_store::set_up(&args);
    if let Some(rank) = args.as_rank {
        return sections::as_rank(&args, rank);
    }
    if args.list {
        chosen(&args).for_each(|Section { name, about, .. }| println!("{name:19} {about}"));
        return ExitCode::SUCCESS;
    }
    let machine = match Machine::find(args.device) {
        Ok(machine) => machine,
        Err(reason) => {
            println!("SKIPPED: there is no GPU to test on: {reason}");
            return ExitCode::SUCCESS;
        }
    };
    let describe = machine.describe();
    let describe =
        describe.unwrap_or_else(|error| format!("GPUs that cannot be described: {error}"));
    println!("{} ranks on {describe}", args.ranks);
    let places: Vec<_> = (0..args.ranks).map(|rank| machine.place(rank)).collect();
    if world::share_gpus(places.iter()) && std::env::var_os(QUEUES).is_none() {
        println!("NOTE    ranks share GPUs: set {QUEUES}=32, or calls wait behind one another");
    }
    if run(&args, machine) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The sections that are to run.
fn chosen(args: &Args) -> impl Iterator<Item = &'static Section> {
    SECTIONS.iter().filter(|section| args.selects(section.name))
}

/// Runs the chosen sections; whether all is well.
fn run(args: &Args, machine: Machine) -> bool {
    let Args { ranks, quick, seed, seconds, scene, ref cubins, .. } = *args;
    let cubins = cubins.clone();
    let bench = Bench { machine, ranks, quick, seed, seconds, scene, cubins };
    let watch = Watch::start(args.patience());
    let start = Instant::now();
    let verdict = |section: &Section| {
        let mut tally = Tally::new(watch.clone(), args.verbose);
        let start = Instant::now();
        (section.run)(&bench, &mut tally);
        tally.summarise(section.name, start.elapsed())
    };
    let verdicts: Vec<bool> = chosen(args).map(verdict).collect();
    let failed = verdicts.iter().filter(|well| !**well).count();
    let took = start.elapsed().as_secs_f64();
    println!("{} sections, {failed} failed, {took:.1} s", verdicts.len());
    failed == 0
}
