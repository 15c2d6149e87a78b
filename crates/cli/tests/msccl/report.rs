//! `msccl report`.

use crate::{RING, arg, file, msccl, msccl_reading};

#[test]
fn a_proved_program_gives_a_page() {
    let page = file("report/ring.html", "");
    let ran = msccl_reading(&["report", "-", "--ranks", "4", "-o", arg(&page)], RING.as_bytes());
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.starts_with("proved "), "{ran}");
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("✓ proved") && text.contains("4 ranks"), "{text}");
}

#[test]
fn a_refused_file_gives_a_page_with_the_counterexample() {
    let ran = msccl(&["report", "docs/examples/deadlock.xml", "--sizes", "1K"]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(ran.stdout.contains("id=\"line10\""), "{ran}");
    assert!(ran.stdout.contains("waits for room on its link to r1"), "{ran}");
    assert!(ran.stderr.starts_with("refused "), "{ran}");
}

#[test]
fn what_cannot_be_read_gives_no_page() {
    let ran = msccl_reading(&["report", "-"], b"algorithm");
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran}");
}
