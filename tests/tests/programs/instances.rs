//! Custom collectives in instances: every chunk of the definition becomes a block, so that a call
//! names the same number of elements as without, and odd counts have a masked tail.

use std::sync::Arc;

use msccl_collective::{Collective, Kind};
use msccl_compiler::evaluate::Launch;
use msccl_interchange::{json, xml};
use msccl_ir::{Algorithm, Target, text};
use msccl_tests::example::{Example, examples};
use msccl_tests::witness::execute;
use msccl_verify::{Verified, verify};

/// Counts that neither 2 nor 3 divides, below and above the number of instances.
const COUNTS: [usize; 4] = [0, 1, 7, 25];

fn compiled(example: &Example, launch: &Launch, instances: u32, target: &Target) -> Algorithm {
    let launch = Launch { instances: Some(instances), ..launch.clone() };
    let compiled = example.compile(&launch, target);
    compiled.unwrap_or_else(|story| panic!("{}: {story}", example.name)).schedule.algorithm
}

fn proved(algorithm: Algorithm, target: &Target) -> Verified {
    let name = algorithm.name.clone();
    verify(algorithm, target).unwrap_or_else(|refusal| panic!("{name}: {refusal}"))
}

/// Blocks of input and of output.
fn blocks(collective: &Collective) -> (u32, u32) {
    let Kind::Custom(custom) = &collective.kind else { panic!("{collective}") };
    let chunks = collective.chunks;
    assert!(custom.input_chunks.is_multiple_of(chunks), "{collective}");
    assert!(custom.output_chunks.is_multiple_of(chunks), "{collective}");
    (custom.input_chunks / chunks, custom.output_chunks / chunks)
}

#[test]
fn custom_collectives_run_in_instances() {
    let custom: Vec<_> =
        examples().into_iter().filter(|example| example.name.starts_with("custom/")).collect();
    assert!(custom.len() > 5);
    let target = Target::native();
    for example in &custom {
        let launch = &example.launches[0];
        let whole = compiled(example, launch, 1, &target);
        for k in [2, 3] {
            let cut = compiled(example, launch, k, &target);
            assert_eq!(cut.collective.chunks, k, "{}", example.name);
            assert_eq!(blocks(&cut.collective), blocks(&whole.collective), "{}", example.name);
            let verified = proved(cut, &target);
            assert_eq!(execute(&verified, &COUNTS), Ok(()), "{} in {k} instances", example.name);
        }
    }
}

#[test]
fn every_format_carries_the_chunks_of_a_block() {
    let target = Target::msccl();
    let examples = examples();
    let shift = examples.iter().find(|example| example.name == "custom/shift").unwrap();
    let algorithm = compiled(shift, &shift.launches[0], 2, &target);
    let written = xml::write(&algorithm, xml::Dialect::Msccl).unwrap();
    let from_xml = xml::read(&written).unwrap();
    assert!(from_xml.contradictions.is_empty(), "{:?}", from_xml.contradictions);
    assert_eq!(from_xml.algorithm, algorithm);
    assert_eq!(json::read(&json::write(&algorithm)).unwrap(), algorithm);
    assert_eq!(text::parse(&text::print(&algorithm)).unwrap(), algorithm);
    let again = proved(from_xml.algorithm, &target);
    assert_eq!(execute(&again, &COUNTS), Ok(()));
}

/// A contract over blocks of two chunks that crosses columns would compare chunks of unequal
/// length.
#[test]
fn contracts_keep_their_column() {
    let target = Target::native();
    let examples = examples();
    let shift = examples.iter().find(|example| example.name == "custom/shift").unwrap();
    let mut algorithm = compiled(shift, &shift.launches[0], 2, &target);
    let Kind::Custom(custom) = &algorithm.collective.kind else { panic!() };
    let mut custom = (**custom).clone();
    let promised = &mut custom.contract.as_mut().unwrap().promised;
    for contribution in promised.values_mut().flatten() {
        contribution.index ^= 1;
    }
    algorithm.collective.kind = Kind::Custom(Arc::new(custom));
    let refusal = verify(algorithm, &target).map(drop).unwrap_err().to_string();
    assert!(refusal.contains("are not the same one of theirs"), "{refusal}");
}
