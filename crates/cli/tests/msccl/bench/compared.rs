//! Libraries side by side, and sizes against powers of two.

use super::{bench, fake, rows};
use crate::{Ran, arg, file};

#[test]
fn libraries_are_compared_in_one_run() {
    let Some(fake) = fake() else { return };
    let json = file("bench/compared.json", "");
    let picture = file("bench/compared.svg", "");
    let other = format!("other={fake}");
    let args = ["allreduce", "-b", "4K", "-e", "4K", "--latency", "-n", "30", "--host-time"];
    let files = ["--against", &other, "--json", arg(&json), "--svg", arg(&picture)];
    let ran = bench(fake, &[&args[..], &files].concat());
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("# other: avg bus bandwidth "), "{ran}");
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(report["good"], true);
    let results = report["rows"][0]["results"].as_array().unwrap();
    let names: Vec<_> = results.iter().map(|result| result["library"].as_str().unwrap()).collect();
    assert_eq!(names, ["msccl", "other", "msccl", "other"]);
    for result in results {
        assert!(result["ratio"].as_f64().unwrap() > 0.0, "{result}");
        assert_eq!(result["one_shot_us"]["p99"]["per_rank"].as_array().unwrap().len(), 2);
        assert!(result["host_us"]["p50"]["mean"].as_f64().unwrap() > 0.0, "{result}");
    }
    assert!(std::fs::read_to_string(picture).unwrap().contains("other in-place"));
}

/// The remarks below the table that have `word`.
fn remarks<'a>(ran: &'a Ran, word: &str) -> Vec<&'a str> {
    let foot = ran.stdout.lines().skip_while(|line| !line.starts_with("# Out of bounds"));
    foot.filter(|line| line.contains(word)).collect()
}

#[test]
fn sizes_are_compared_with_the_next_power_of_two() {
    let Some(fake) = fake() else { return };
    let usual = ["allreduce", "-b", "1K", "-f", "7/5", "-n", "2", "--next-power", "-e"];
    let run = |more: &[&str]| bench(fake, &[&usual[..], more].concat());
    // Whoever is interrupted may take a thousand times as long.
    let plain = run(&["4K", "--at-most", "1000000"]);
    assert_eq!(plain.code, 0, "{plain}");
    let sizes: Vec<_> = rows(&plain).iter().map(|row| row[0].to_owned()).collect();
    assert_eq!(sizes, ["1024", "1432", "2004", "2048", "2808", "3928", "4096"], "{plain}");
    for placement in ["out-of-place", "in-place"] {
        let lines = remarks(&plain, &format!("allreduce of 1432 B, float sum, {placement}: "));
        assert!(lines.len() == 1 && lines[0].contains("; 2048 B: "), "{plain}");
    }
    let worst = remarks(&plain, "# msccl: at worst ");
    assert!(worst[0].ends_with("; at most 1000000.00 OK"), "{plain}");
    let slow = run(&["4K", "--at-most", "0.000001"]);
    assert_eq!(slow.code, 1, "{slow}");
    assert!(remarks(&slow, "TOO SLOW").len() == 8, "{slow}");
    assert!(remarks(&slow, "at worst ")[0].ends_with("; at most 0.00 FAILED"), "{slow}");
    let odd = run(&["1500", "--odd", "--offset", "4", "--repeat", "2"]);
    assert_eq!(odd.code, 0, "{odd}");
    assert!(odd.stdout.contains("graph: 0 median of: 2\n"), "{odd}");
    let call = "allreduce of 1028 B, float sum, 4 B behind aligned addresses, out-of-place: ";
    assert_eq!(remarks(&odd, call).len(), 1, "{odd}");
    assert!(rows(&odd).iter().all(|row| row[8] == "0" && row[12] == "0"), "{odd}");
}

#[test]
fn each_library_is_the_first_in_turn() {
    let Some(fake) = fake() else { return };
    let other = format!("other={fake}");
    let usual = ["allreduce", "-b", "1K", "-e", "2K", "-n", "2", "--against", &other];
    let named = ["--env", "msccl:FAKE_NAME=own", "--env", "other:FAKE_NAME=other"];
    let run = |notes: &str, more: &[&str]| {
        let notes = file(notes, "");
        let joined = format!("FAKE_JOINED={}", arg(&notes));
        let ran = bench(fake, &[&usual[..], &named, &["--env", &joined], more].concat());
        assert_eq!((ran.code, rows(&ran).len()), (0, 2), "{ran}");
        (std::fs::read_to_string(notes).unwrap(), ran)
    };
    let (joined, once) = run("bench/joined-once", &[]);
    assert_eq!(joined.lines().collect::<Vec<_>>(), ["own", "other"], "{once}");
    let (joined, thrice) = run("bench/joined-thrice", &["--orders", "3", "--repeat", "2"]);
    let expected = ["other", "own", "own", "other", "own", "other"];
    assert_eq!(joined.lines().collect::<Vec<_>>(), expected, "{thrice}");
    assert!(thrice.stdout.contains(" median of: 2 in 3 orders\n"), "{thrice}");
}

#[test]
fn several_collectives_stand_against_several_libraries() {
    let Some(fake) = fake() else { return };
    let libraries = ["one", "two"].map(|name| format!("{name}={fake}"));
    let usual = ["allreduce,allgather", "-b", "1K", "-e", "2K", "-n", "2", "--repeat", "3"];
    let against = ["--against", &libraries[0], "--against", &libraries[1]];
    let run = |least: &str| bench(fake, &[&usual[..], &against, &["--at-least", least]].concat());
    let good = run("0.001");
    assert_eq!(good.code, 0, "{good}");
    assert!(good.stdout.contains("# Collective test starting: allreduce, allgather\n"), "{good}");
    assert_eq!(rows(&good).len(), 2 * 2, "{good}");
    for name in ["allreduce", "allgather"] {
        assert!(good.stdout.contains(&format!("\n# {name}\n")), "{good}");
        let comparisons = remarks(&good, &format!("# {name} out-of-place, "));
        assert_eq!(comparisons.len(), 2, "{good}");
        assert!(comparisons[1].contains(", two: "), "{good}");
        let whole = " in the geometric mean of 2 sizes, at least ";
        assert!(comparisons.iter().all(|line| line.contains(whole)), "{good}");
        assert!(comparisons[0].ends_with("; below 0.00: none; at least 0.00 OK"), "{good}");
    }
    let bad = run("1000");
    assert_eq!(bad.code, 1, "{bad}");
    assert_eq!(remarks(&bad, "; at least 1000.00 FAILED").len(), 2 * 2 * 2, "{bad}");
    assert!(remarks(&bad, "below 1000.00: 1024 B ").len() == 2 * 2 * 2, "{bad}");
}
