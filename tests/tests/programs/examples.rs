//! Every example, at every size it names, on both targets and in both placements: compiled, proved
//! with the order of additions that it claims, executed, equal to the reference; as XML and JSON
//! read back, the same and proved again.

use std::collections::BTreeMap;

use msccl_collective::Placement;
use msccl_compiler::evaluate::Launch;
use msccl_interchange::{json, xml};
use msccl_ir::{Algorithm, Target, text};
use msccl_tests::example::{Example, examples};
use msccl_tests::witness::{COUNTS, execute};
use msccl_verify::{Verified, verify, verify_claim};

/// Runs `check` for every example, launch and placement on `target`; gathers what fails.
fn for_each(target: &Target, check: impl Fn(&Example, Verified) -> Result<(), String>) {
    let mut failures = Vec::new();
    let mut proved = 0;
    let fits = |example: &Example| *target == Target::native() || !example.is_native_only();
    for example in examples().into_iter().filter(fits) {
        for launch in &example.launches {
            for &placement in placements(&example) {
                let launch = Launch { placement: Some(placement), ..launch.clone() };
                let result =
                    prove(&example, &launch, target).and_then(|verified| check(&example, verified));
                match result {
                    Ok(()) => proved += 1,
                    Err(story) => failures.push(format!("{} {launch:?}: {story}", example.name)),
                }
            }
        }
    }
    assert!(proved > 100, "only {proved} programs");
    assert!(failures.is_empty(), "{} of {proved}:\n{}", failures.len(), failures.join("\n"));
}

fn placements(example: &Example) -> &'static [Placement] {
    if example.is_out_of_place_only() {
        &[Placement::OutOfPlace]
    } else {
        &[Placement::InPlace, Placement::OutOfPlace]
    }
}

fn prove(example: &Example, launch: &Launch, target: &Target) -> Result<Verified, String> {
    let compiled = example.compile(launch, target)?;
    let claim = compiled.chunks.order_claim.map(|claim| claim.order);
    verify_claim(compiled.schedule.algorithm, target, claim).map_err(|refusal| format!("{refusal}"))
}

#[test]
fn every_example_runs_on_the_native_target() {
    for_each(&Target::native(), |_, verified| execute(&verified, &COUNTS));
}

#[test]
fn every_example_runs_on_the_msccl_target() {
    for_each(&Target::msccl(), |_, verified| execute(&verified, &COUNTS[2..3]));
}

/// What neither dialect can say: a custom collective whose buffers differ in size.
const NOT_XML: [&str; 1] = ["custom/reduce_gather"];

#[test]
fn xml_read_back_is_the_same_and_proved_again() {
    for_each(&Target::msccl(), |example, verified| {
        let algorithm = verified.algorithm();
        let Some(written) = dialects().find_map(|dialect| xml::write(algorithm, dialect).ok())
        else {
            let known = NOT_XML.contains(&example.name.as_str());
            return known.then_some(()).ok_or_else(|| why_not_xml(algorithm));
        };
        let read = xml::read(&written).map_err(|error| error.to_string())?;
        if !read.contradictions.is_empty() {
            return Err(format!("{:?}", read.contradictions));
        }
        proved_again(algorithm, read.algorithm, &Target::msccl())
    });
}

fn dialects() -> impl Iterator<Item = xml::Dialect> {
    [xml::Dialect::Msccl, xml::Dialect::Executor].into_iter()
}

fn why_not_xml(algorithm: &Algorithm) -> String {
    let reasons = dialects().filter_map(|dialect| xml::write(algorithm, dialect).err());
    reasons.map(|reason| reason.to_string()).collect::<Vec<_>>().join("; ")
}

#[test]
fn json_and_text_read_back_are_the_same() {
    for_each(&Target::native(), |_, verified| {
        let algorithm = verified.algorithm();
        let from_json = json::read(&json::write(algorithm)).map_err(|e| e.to_string())?;
        let from_text = text::parse(&text::print(algorithm)).map_err(|e| e.to_string())?;
        (from_json == *algorithm && from_text == *algorithm)
            .then_some(())
            .ok_or_else(|| "read back, it is another algorithm".to_owned())
    });
}

fn proved_again(written: &Algorithm, read: Algorithm, target: &Target) -> Result<(), String> {
    if *written != read {
        return Err(format!("read back, it is another algorithm:\n{}", text::print(&read)));
    }
    verify(read, target).map(drop).map_err(|refusal| refusal.to_string())
}

#[test]
fn links_of_depth_one_suffice_for_almost_all() {
    let mut depths = BTreeMap::new();
    for example in examples() {
        for launch in &example.launches {
            let verified = prove(&example, launch, &Target::native()).unwrap();
            let depth = verified.facts().least_link_depth;
            // Those of two halves by turns have twice as many messages under way.
            let most = if example.name.ends_with("_interleaved") { 3 } else { 2 };
            assert!(depth <= most, "{}: {depth}", example.name);
            *depths.entry(depth).or_insert(0) += 1;
        }
    }
    assert!(depths[&1] > 400, "{depths:?}");
}
