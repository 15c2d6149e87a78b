//! Counting checks, printing those that fail, and noticing when nothing happens any more.

use std::collections::BTreeMap;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Trouble;

/// Failures of one section that are printed in full.
const PRINTED_MAX: usize = 8;

/// The exit code when nothing has happened for too long.
const STUCK: i32 = 3;

/// The checks of one section.
pub struct Tally {
    watch: Arc<Watch>,
    /// Whether to print checks that pass.
    prints_all: bool,
    passed: usize,
    failed: usize,
    /// How often something was left out, by why.
    skipped: BTreeMap<String, usize>,
    remark: String,
}

impl Tally {
    /// No checks yet. With `prints_all`, it prints how long each took.
    pub fn new(watch: Arc<Watch>, prints_all: bool) -> Self {
        let (remark, skipped) = (String::new(), BTreeMap::new());
        Self { watch, prints_all, passed: 0, failed: 0, skipped, remark }
    }

    /// Does `check`, which is called `name` if it fails. Whether it passed.
    pub fn check(
        &mut self,
        name: impl Fn() -> String,
        check: impl FnOnce() -> Result<(), Trouble>,
    ) -> bool {
        self.watch.now(&name);
        let start = Instant::now();
        let outcome = check();
        if self.prints_all {
            println!("{:8.2} s {}", start.elapsed().as_secs_f64(), name());
        }
        match outcome {
            Ok(()) => {
                self.passed += 1;
                true
            }
            Err(error) => {
                self.failed += 1;
                if self.failed <= PRINTED_MAX {
                    println!("FAILED  {}\n        {error}", name());
                }
                false
            }
        }
    }

    /// Does what checks need; a failure counts as one.
    pub fn need<T>(
        &mut self,
        name: impl Fn() -> String,
        make: impl FnOnce() -> Result<T, Trouble>,
    ) -> Option<T> {
        let mut made = None;
        self.check(name, || make().map(|value| made = Some(value)));
        self.passed -= usize::from(made.is_some());
        made
    }

    /// Notes that something was left out.
    pub fn skip(&mut self, why: impl Into<String>) {
        *self.skipped.entry(why.into()).or_default() += 1;
    }

    /// What the summary adds.
    pub fn remark(&mut self, remark: impl Into<String>) {
        self.remark = remark.into();
    }

    /// Prints the line of the section; whether all is well.
    pub fn summarise(&self, section: &str, took: Duration) -> bool {
        let Self { watch: _, prints_all: _, passed, failed, skipped, remark } = self;
        let verdict = match (failed, passed) {
            (0, 0) => "skipped",
            (0, _) => "ok     ",
            _ => "FAILED ",
        };
        let mut line = format!("{verdict} {section:19} {passed:6} passed");
        if *failed > 0 {
            line += &format!(", {failed} failed");
        }
        for (why, times) in skipped {
            line += &format!(", {times} skipped ({why})");
        }
        if !remark.is_empty() {
            line += &format!(", {remark}");
        }
        println!("{line}, {:.1} s", took.as_secs_f64());
        *failed == 0
    }
}

/// Ends the program when nothing has happened for too long.
pub struct Watch {
    latest: Mutex<(Instant, String)>,
}

impl Watch {
    /// A watch that ends the program after `patience` without a new check.
    pub fn start(patience: Duration) -> Arc<Self> {
        let watch = Arc::new(Self { latest: Mutex::new((Instant::now(), String::new())) });
        let watched = watch.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(Duration::from_secs(1));
                let latest = watched.latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if latest.0.elapsed() > patience {
                    println!("STUCK   {}: nothing for {} s", latest.1, patience.as_secs());
                    process::exit(STUCK);
                }
            }
        });
        watch
    }

    fn now(&self, name: &impl Fn() -> String) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), name());
    }
}
