//! The tour of `docs/SYNTHESIS.md`: what is synthesised for odd machines, beside every all-reduce
//! that ships. Estimates of large calls take long, so that every day has a machine of its own; with
//! `MSCCL_TOUR=all` all are looked at. `-- --nocapture` shows the rows of the document's table.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::{arg, file, msccl};

/// A machine, and what the document claims of it.
struct Stop {
    title: &'static str,
    machine: &'static [&'static str],
    /// The best that ships takes at least so many times as long for 256 MiB.
    gain: f64,
}

const STOPS: [Stop; 7] = [
    Stop { title: "DGX-1", machine: &["--topo", "dgx1-v100", "--without", "pci*"], gain: 3.4 },
    Stop {
        title: "two nodes of two PCIe pairs, a NIC a pair",
        machine: &["--topo", "docs/examples/clusters/pairs.cluster"],
        gain: 1.44,
    },
    Stop {
        title: "HGX H100, two GPUs with a dead NVLink",
        machine: &[
            "--topo",
            "hgx-h100-8",
            "--slow",
            "gpu2-nvswitch=0.9444",
            "--slow",
            "gpu5-nvswitch=0.9444",
        ],
        gain: 1.01,
    },
    Stop { title: "MI300X", machine: &["--topo", "mi300x-8"], gain: 1.07 },
    Stop {
        title: "2 × HGX H100, four of eight rails at half the rate",
        machine: &[
            "--topo",
            "hgx-h100-8*2",
            "--slow",
            "node*.nic4=0.5",
            "--slow",
            "node*.nic5=0.5",
            "--slow",
            "node*.nic6=0.5",
            "--slow",
            "node*.nic7=0.5",
        ],
        gain: 1.56,
    },
    Stop { title: "2 × HGX H100", machine: &["--topo", "hgx-h100-8*2"], gain: 1.2 },
    Stop {
        title: "4 × HGX H100, a spine oversubscribed 4 to 1",
        machine: &["--topo", "docs/examples/clusters/rails.cluster"],
        gain: 2.6,
    },
];

/// A single NVSwitch, where what ships is near to the bound.
const SWITCH: [&str; 2] = ["--topo", "hgx-h100-8"];

const SMALL: &str = "64KiB";
const LARGE: &str = "256MiB";

#[test]
fn what_is_synthesised_is_not_behind_what_ships() {
    let is_whole = std::env::var_os("MSCCL_TOUR").is_some_and(|value| value == "all");
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let today = (since_epoch.as_secs() / 86_400) as usize % STOPS.len();
    let is_due = |number: usize| is_whole || number == today;
    if !is_whole {
        eprintln!("SKIPPED: all stops of the tour but one; MSCCL_TOUR=all looks at all");
    }
    for (_, stop) in STOPS.iter().enumerate().filter(|(number, _)| is_due(*number)) {
        visit(stop);
    }
}

#[test]
fn behind_one_switch_it_is_as_fast_as_what_ships() {
    let (small, large) = (synthesised(&SWITCH, SMALL), synthesised(&SWITCH, LARGE));
    let ours = shipped(&SWITCH, &["allreduce/two_shot_block", "allreduce/ring_interleaved"]);
    assert!(small.us <= ours[0].us * 1.02, "{} {}", small.us, ours[0].us);
    assert!(large.us <= ours[1].us * 1.02, "{} {}", large.us, ours[1].us);
}

/// Compares, and prints two rows.
fn visit(stop: &Stop) {
    let Stop { title, machine, gain } = stop;
    let names: Vec<String> = names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let best = shipped(machine, &names);
    let (small, large) = (synthesised(machine, SMALL), synthesised(machine, LARGE));
    for (size, ours, best) in [(SMALL, &small, &best[0]), (LARGE, &large, &best[1])] {
        eprintln!(
            "| {title} | {size} | {}: {:.1} | {}: {:.1} | {:.2} | {:.1} |",
            ours.what,
            ours.us,
            best.what,
            best.us,
            best.us / ours.us,
            best.bound_us
        );
    }
    assert!(small.us <= best[0].us * 1.05, "{title}: {} {}", small.us, best[0].us);
    assert!(large.us * gain <= best[1].us, "{title}: {} {}", large.us, best[1].us);
}

struct Found {
    what: String,
    us: f64,
    bound_us: f64,
}

fn synthesised(machine: &[&str], size: &str) -> Found {
    let path = file(&format!("tour/{size}.msccl"), "");
    let args = ["synthesize", "allreduce", "--size", size, "-o", arg(&path), "--format", "json"];
    let ran = msccl(&[&args[..], machine].concat());
    assert_eq!(ran.code, 0, "{ran}");
    let json = ran.json();
    let what = match json["levels"].as_str() {
        Some(levels) => format!("levels {levels}"),
        None => format!("{} trees", json["trees"]),
    };
    Found { what, us: json["us"].as_f64().unwrap(), bound_us: 0.0 }
}

/// The all-reduces that ship, by their names and as files.
fn names() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dsl-examples/allreduce");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let names = files.flat_map(|path| {
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        [format!("allreduce/{stem}"), path.to_str().unwrap().to_owned()]
    });
    names.collect()
}

/// The best of those of `names` that serve a small call, and of those that serve a large one.
fn shipped(machine: &[&str], names: &[&str]) -> [Found; 2] {
    let mut best: [Option<Found>; 2] = [None, None];
    for name in names {
        let args = ["compare", name, "--format", "json", "--sizes", "64K,256M"];
        let ran = msccl(&[&args[..], machine].concat());
        // Many are for other machines.
        let Ok(json) = serde_json::from_str::<Value>(&ran.stdout) else { continue };
        for (place, best) in best.iter_mut().enumerate() {
            let us = json["algorithms"][0]["times"][place]["us"].as_f64();
            let bound_us = json["bounds_us"][place].as_f64().unwrap_or(0.0);
            let Some(us) = us.filter(|us| best.as_ref().is_none_or(|best| *us < best.us)) else {
                continue;
            };
            let what = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".msccl");
            *best = Some(Found { what: what.to_owned(), us, bound_us });
        }
    }
    best.map(|found| found.expect("something that ships serves"))
}

/// What is written for small and for large calls is right on host threads, and is XML, or more than
/// the dialect has room for.
#[test]
fn what_is_synthesised_runs() {
    let machines = [&SWITCH[..], STOPS[0].machine, STOPS[1].machine];
    for (machine, collective) in
        machines.into_iter().zip(["reducescatter", "allgather", "allreduce"])
    {
        let path = file(&format!("tour/run-{collective}.msccl"), "");
        let args = ["synthesize", collective, "--size", "16K,64M", "-o", arg(&path)];
        let ran = msccl(&[&args[..], &["--format", "json"], machine].concat());
        assert_eq!(ran.code, 0, "{ran}");
        let json = ran.json();
        let programs = json.as_array().unwrap();
        assert!(programs.len() > 1, "{json}");
        for program in programs {
            let path = program["output"].as_str().unwrap();
            let ran = msccl(&["run", path, "-n", "1"]);
            assert_eq!(ran.code, 0, "{ran}");
            for dialect in ["executor", "msccl"] {
                let ran = msccl(&["compile", path, "--dialect", dialect, "-o", "/dev/null"]);
                let is_limited = ran.code == 1 && ran.stdout.contains("limits (target");
                assert!(ran.code == 0 || is_limited, "{ran}");
            }
        }
    }
}
