//! Compiling images again, to compare them with those that are committed.

use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use msccl_kernels::build::{self, Target};

use super::recording::compile_some_recording;
use super::{each_image, manifest, modules, read, read_unpacked};
use crate::compiler;

/// How far the first image of a day is from that of the day before, at least.
const IMAGES_A_DAY: usize = 3;

/// Compiles the images of the modules of these `names`, or of all if there are none, and compares
/// every byte with the committed ones.
///
/// # Errors
///
/// Which differ, and what to do.
pub fn check(names: &[&str]) -> Result<(), String> {
    let modules = modules(names)?;
    let targets = Target::all().into_iter().filter(|of| modules.contains(&of.module));
    fresh()?;
    reproduce(targets.collect(), None)
}

/// The same for a few images, others every day: those that can be begun within `seconds`; and
/// compiles some recording kernels for half as long. Says so and succeeds where the compiler cannot
/// be had.
///
/// # Errors
///
/// Which differ, and what to do.
pub fn check_some(seconds: &str) -> Result<(), String> {
    let seconds: u64 =
        seconds.parse().map_err(|_| format!("expected a number of seconds, found `{seconds}`"))?;
    fresh()?;
    let nvrtc = match compiler::load() {
        Ok(nvrtc) => nvrtc,
        Err(why) => {
            crate::say(&format!("SKIPPED: no kernel image was compiled again: {why}"));
            return Ok(());
        }
    };
    let today = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() / 86400);
    compile_some_recording(&nvrtc, today, seconds.div_ceil(2))?;
    let deadline = Instant::now() + Duration::from_secs(seconds);
    reproduce(of_day(today), Some(deadline))
}

/// All images, in the order of the day that is so many days behind another one.
fn of_day(day: u64) -> Vec<Target> {
    let mut targets = Target::all();
    let count = targets.len();
    // Prime to their number, so that every image is the first of some day.
    let stride = (IMAGES_A_DAY..=count).find(|stride| are_coprime(*stride, count)).unwrap_or(1);
    targets.rotate_left((day % count as u64) as usize * stride % count);
    targets
}

/// Whether no number but 1 divides both.
fn are_coprime(a: usize, b: usize) -> bool {
    (2..=a).all(|divisor| !a.is_multiple_of(divisor) || !b.is_multiple_of(divisor))
}

/// Every image is what the manifest says.
fn fresh() -> Result<(), String> {
    let faults = build::faults(&manifest()?, &read)?;
    if faults.is_empty() { Ok(()) } else { Err(build::report(&faults)) }
}

fn reproduce(targets: Vec<Target>, deadline: Option<Instant>) -> Result<(), String> {
    let others = Mutex::new(Vec::new());
    let compared = each_image(targets, deadline, |target, _, bytes| {
        let is_same = read_unpacked(target).as_deref() == Some(&bytes[..]);
        let word = if is_same { "reproduced" } else { "DIFFERS" };
        crate::say(&format!("{}: {} bytes, {word}", target.name(), bytes.len()));
        if !is_same {
            others.lock().map_err(|error| error.to_string())?.push(target.name());
        }
        Ok(())
    })?;
    let others = others.into_inner().map_err(|error| error.to_string())?;
    let count = compared.len();
    if others.is_empty() {
        crate::say(&format!("{count} of {} images compiled again, all equal", Target::all().len()));
        return Ok(());
    }
    Err(format!(
        "{} of {count} images that were compiled again differ from what is committed: {}. \
         The manifest says that they were made from these sources, which they were not: remove \
         their lines from kernels/images/MANIFEST, run `cargo xtask kernels`, and find out who \
         wrote them",
        others.len(),
        others.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_image_is_the_first_of_some_day() {
        let days = Target::all().len() as u64;
        let firsts: BTreeSet<_> = (0..days).map(|day| of_day(20_000 + day)[0].name()).collect();
        assert_eq!(firsts.len(), Target::all().len());
        assert_eq!(of_day(days), Target::all());
    }
}
