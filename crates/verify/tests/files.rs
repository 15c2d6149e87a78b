//! The files of cases: algorithms in the text form, and what is proved or found wrong. The settings
//! `target` (`msccl` if not set), `collective`, `placement`, `protocol` and `bytes` stand for the
//! head of every case; protocol and bytes need not be set.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use msccl_ir::{Target, text};
use msccl_testkit::case_files::{Case, Outcome, check};
use msccl_verify::{Facts, verify};

#[test]
fn algorithms_are_proved_or_refused_as_their_files_expect() {
    check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files"), run);
}

fn run(case: &Case<'_>) -> Outcome {
    let algorithm = text::parse(&whole(case)).unwrap_or_else(|why| panic!("{}\n{why}", case.text));
    let dump = match verify(algorithm, &target(case)) {
        Ok(verified) => proved(verified.facts()),
        Err(refusal) => refusal.to_string(),
    };
    Outcome { dump, ..Outcome::default() }
}

/// The text form of a case, with its head and without comments.
fn whole(case: &Case<'_>) -> String {
    let set = |name: &str| case.setting(name).unwrap_or_else(|| panic!("//! {name}: …"));
    let protocol = case.setting("protocol").unwrap_or("Simple");
    let bytes = case.setting("bytes").unwrap_or("0..");
    let steps = case.text.lines().filter(|line| !line.starts_with("//"));
    format!(
        "algorithm \"case\"\ncollective {}\nplacement {}\nprotocol {protocol}\nbytes {bytes}\n{}\n",
        set("collective"),
        set("placement"),
        steps.collect::<Vec<_>>().join("\n"),
    )
}

/// What users of a proof read of it.
fn proved(facts: &Facts) -> String {
    let what = [
        (facts.same_on_every_rank, "the same on every rank"),
        (facts.serves_any_count, "serves any count"),
        (facts.overwrites_input, "overwrites input"),
    ];
    let what = what.into_iter().filter_map(|(holds, name)| holds.then_some(name));
    let depth = format!("link depth {}", facts.least_link_depth);
    format!("proved: {}", [depth.as_str()].into_iter().chain(what).collect::<Vec<_>>().join(", "))
}

fn target(case: &Case<'_>) -> Target {
    match case.setting("target") {
        None | Some("msccl") => Target::msccl(),
        Some("native") => Target::native(),
        Some(other) => panic!("there is no target `{other}`"),
    }
}
