//! The page of a report draws in a browser, and marks the slowest step.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use msccl_testkit::recordings::{ImaginedRun, PlantedFault};
use msccl_trace::report::{html, report};

use crate::faults::joined;
use crate::plans::all_reduce;
use crate::predictions::{expectations, prediction};

/// By which the script says that there is no browser.
const NOT_HERE: i32 = 77;

/// A run with a slow thread block, beside the same run without.
fn page() -> String {
    let run = ImaginedRun::new(all_reduce("allreduce/ring", 4), 4 << 20, 4).cut_into(1, 4);
    let expectations = expectations(prediction(&run));
    let slow = PlantedFault::SlowBlock { rank: 1, thread_block: 0, factor: 6.0 };
    let timeline = joined(&run.with([slow]));
    html(&report(&timeline, &expectations), &timeline, &expectations)
}

/// As `browser/look.js` says: light, dark and on a phone, with a mouse and without.
#[test]
fn a_browser_draws_the_page_and_marks_the_slowest_step() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("report.html");
    fs::write(&file, page()).unwrap();
    let look = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser/look");
    let output = Command::new(look).arg(&file).arg(&folder).output().unwrap();
    let said = [output.stdout, output.stderr].map(|of| String::from_utf8_lossy(&of).into_owned());
    if output.status.code() == Some(NOT_HERE) {
        // Written past the test harness, which keeps back what tests print.
        return writeln!(io::stderr(), "SKIPPED: {}", said[0].trim_end()).unwrap();
    }
    assert!(output.status.success(), "{}", said.concat());
}

/// What a reader sees first is what the report says first; nothing of the page is elsewhere.
#[test]
fn the_page_stands_alone() {
    let page = page();
    assert!(page.contains("<li>thread block 0 of rank 1 is slow at moving"));
    let slowest = "The slowest step of the critical path is step";
    assert!(page.contains(slowest), "{}", &page[..2000]);
    assert!(page.contains("of thread block 0 of rank 1"));
    for outside in ["src=", "href=", "@import", "url(", "fetch("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let marked = ["copy", "reduce"].map(|kind| format!("<rect class=\"{kind} slowest"));
    let first = page.split("</section>").next().unwrap();
    assert_eq!(marked.iter().map(|of| first.matches(of).count()).sum::<usize>(), 1);
}
