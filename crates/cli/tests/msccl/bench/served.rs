//! Which algorithm serves a call, and whether it is the one that was requested.

use super::{bench, fake, ours, rows};
use crate::{arg, file};

/// The row says what served; what was requested and did not serve is a failure, however right
/// results are.
#[test]
fn the_algorithm_that_serves_is_shown_and_must_be_the_requested_one() {
    let Some(fake) = fake() else { return };
    let json = file("bench/served.json", "");
    let run = |env: &[&str]| {
        let env = env.iter().flat_map(|variable| ["--env", variable]);
        let sizes = ["allreduce", "-b", "8", "-e", "16", "-n", "1", "--json", arg(&json)];
        let ran = bench(fake, &sizes.into_iter().chain(env).collect::<Vec<_>>());
        let report = std::fs::read_to_string(&json).unwrap();
        (ran, serde_json::from_str::<serde_json::Value>(&report).unwrap())
    };
    let ring = "FAKE_CHOICES=ring,tree";
    let (ran, report) = run(&[ring]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(rows(&ran).iter().all(|row| row.len() == 14 && row[13] == "ring"), "{ran}");
    let first = &report["rows"][0]["results"][0];
    assert_eq!(
        (&first["served_by"], &first["served_way"]),
        (&"ring".into(), &"Simple staged 1 512".into())
    );
    assert!(first.get("served_as_asked").is_none() && report["good"] == true, "{report}");
    let (ran, report) = run(&[ring, "MSCCL_ALGO=ring"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(report["rows"][1]["results"][1]["served_as_asked"], true);
    for (requested, words) in [
        ("MSCCL_ALGO=tree", "an algorithm whose name contains `tree`"),
        ("MSCCL_XML_FILES=/no/such.xml", "the file /no/such.xml"),
        ("MSCCL_ALGO_DIR=/no", "the files of /no"),
    ] {
        let (ran, report) = run(&[ring, requested]);
        assert_eq!(ran.code, 1, "{ran}");
        let line =
            format!("# msccl: requested {words}, which served none of 4 measurements: FAILED\n");
        assert!(ran.stdout.contains(&line), "{ran}");
        assert!(ran.stdout.contains("  ring (not as requested)\n"), "{ran}");
        assert_eq!(report["rows"][0]["results"][0]["served_as_asked"], false);
        assert_eq!(report["good"], false);
    }
    // A file among several, and one that a row has and another has not.
    let (ran, _) = run(&["FAKE_CHOICES=/a/b.xml", "MSCCL_XML_FILES=/a/b.xml:/a/c.xml"]);
    assert_eq!(ran.code, 1, "{ran}");
    assert!(
        !ran.stdout.contains("/a/b.xml, which")
            && ran.stdout.contains("file /a/c.xml, which served none"),
        "{ran}"
    );
    assert!(rows(&ran).iter().all(|row| row[13] == "b.xml"), "{ran}");
    // Who cannot say what serves is not judged.
    let (ran, _) = run(&["MSCCL_ALGO=tree"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(
        ran.stdout.contains("and nothing that was measured is served by an algorithm"),
        "{ran}"
    );
}

#[test]
fn our_library_says_what_serves() {
    let Some(ours) = ours() else { return };
    let sizes = ["allreduce", "-b", "1K", "-e", "1K", "-n", "1", "-T", "60"];
    let plain = bench(arg(&ours), &sizes);
    assert!(plain.code == 0 && rows(&plain)[0][13].starts_with("allreduce/"), "{plain}");
    let requested = bench(arg(&ours), &[&sizes[..], &["--env", "MSCCL_ALGO=two_shot"]].concat());
    assert!(requested.code == 0 && rows(&requested)[0][13] == "allreduce/two_shot", "{requested}");
    let missing =
        bench(arg(&ours), &[&sizes[..], &["--env", "MSCCL_XML_FILES=/no/such.xml"]].concat());
    assert!(
        missing.code == 1
            && missing.stdout.contains("the file /no/such.xml, which served none of 2"),
        "{missing}"
    );
    let grouped = bench(arg(&ours), &[&sizes[..], &["-m", "4", "-z", "1", "-N", "2"]].concat());
    assert_eq!((grouped.code, rows(&grouped).len()), (0, 2), "{grouped}");
}
