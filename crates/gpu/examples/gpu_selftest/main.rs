//! Tries everything in `msccl-gpu` on real devices: one line per check, exit code 1 if any failed.
//!
//! `cargo build --release -p msccl-gpu --example gpu_selftest` gives a program that needs nothing
//! but the driver. Checks that need two devices say so where there is one.

#![deny(unsafe_code)]
#![allow(clippy::print_stdout, reason = "this program reports on its standard output")]

mod kernel;
mod memory;
mod sharing;
mod work;

use std::error::Error;
use std::process::ExitCode;

use msccl_gpu::{Context, Driver};

/// A check passes with a remark, possibly empty, or says what is wrong.
type Outcome = Result<String, Box<dyn Error>>;

/// What checks are given: the first device's context, and the second's if there is one.
struct Bench {
    driver: &'static Driver,
    context: Context,
    peer: Option<Context>,
}

type Check = (&'static str, fn(&Bench) -> Outcome);

fn main() -> ExitCode {
    let driver = match Driver::load() {
        Ok(driver) => driver,
        Err(reason) => {
            println!("FAILED  load: {reason}");
            return ExitCode::FAILURE;
        }
    };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let failed = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["open", handle] => report("open", sharing::open_as_child(driver, handle)),
        _ => run_all(driver),
    };
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs every check and counts those that failed.
fn run_all(driver: &'static Driver) -> usize {
    println!("driver: CUDA {}, {} devices", driver.version(), driver.device_count());
    let bench = match bench(driver) {
        Ok(bench) => bench,
        Err(error) => return report("contexts", Err(error)),
    };
    let checks = [memory::CHECKS, work::CHECKS, sharing::CHECKS].concat();
    let failed = checks.iter().map(|(name, check)| {
        let outcome = check(&bench);
        let left = left_behind(&bench);
        report(name, outcome.and_then(|remark| left.map(|()| remark)))
    });
    let failed = failed.sum();
    println!("{} checks, {failed} failed", checks.len());
    failed
}

fn bench(driver: &'static Driver) -> Result<Bench, Box<dyn Error>> {
    let peer = match driver.device_count() {
        1 => None,
        _ => Some(driver.device(1)?.context()?),
    };
    Ok(Bench { driver, context: driver.device(0)?.context()?, peer })
}

/// Whether a check left a context current that was not so before it: none was.
fn left_behind(bench: &Bench) -> Result<(), Box<dyn Error>> {
    match bench.driver.current_device()? {
        None => Ok(()),
        Some(device) => Err(format!("left {device:?} current").into()),
    }
}

/// Prints the line of a check; 1 if it failed.
fn report(name: &str, outcome: Outcome) -> usize {
    match outcome {
        Ok(remark) if remark.is_empty() => println!("ok      {name}"),
        Ok(remark) => println!("ok      {name}: {remark}"),
        Err(error) => {
            println!("FAILED  {name}: {error}");
            return 1;
        }
    }
    0
}

/// Fails with both values unless they are equal.
fn same<T: PartialEq + std::fmt::Debug>(
    what: &str,
    found: T,
    expected: T,
) -> Result<(), Box<dyn Error>> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: expected {expected:?}, found {found:?}").into())
}

/// The remark of a check that passed without one.
fn fine() -> Outcome {
    Ok(String::new())
}
