//! The examples as reading matter: each teaches, is listed, and says what it does not serve.

use msccl_collective::Placement;
use msccl_compiler::evaluate::Launch;
use msccl_ir::Target;
use msccl_tests::example::{Example, examples, folder};
use msccl_verify::verify;

#[test]
fn every_example_teaches() {
    let examples = examples();
    assert!(examples.len() >= 30, "{} examples", examples.len());
    for Example { name, text, launches } in examples {
        assert!(!launches.is_empty(), "{name} has no `// test:` line");
        for part in ["// Steps:", "// Bytes:", "// Use:", "// Source:"] {
            assert!(text.contains(part), "{name} does not say `{part}`");
        }
        let long = text.lines().find(|line| line.chars().count() > 100);
        assert_eq!(long, None, "{name} has a line of more than 100 characters");
    }
}

#[test]
fn no_example_has_warnings() {
    for example in examples() {
        for launch in &example.launches {
            let warnings = example.compile(launch, &Target::native()).unwrap().chunks.warnings;
            assert_eq!(warnings, [], "{} {launch:?}", example.name);
        }
    }
}

#[test]
fn the_index_lists_every_example() {
    let index = std::fs::read_to_string(folder().join("README.md")).unwrap();
    for Example { name, .. } in examples() {
        assert!(index.contains(&format!("({name}.msccl)")), "dsl-examples/README.md lacks {name}");
    }
}

#[test]
fn what_says_that_it_needs_two_memories_does() {
    let target = Target::native();
    for example in examples().iter().filter(|example| example.is_out_of_place_only()) {
        let in_place =
            |launch: &Launch| Launch { placement: Some(Placement::InPlace), ..launch.clone() };
        let mut launches = example.launches.iter().map(in_place);
        let refused = launches.any(|launch| example.compile(&launch, &target).is_err());
        assert!(refused, "{} serves in-place calls as well", example.name);
    }
}

#[test]
fn what_says_that_it_needs_the_native_target_does() {
    let target = Target::msccl();
    for example in examples().iter().filter(|example| example.is_native_only()) {
        let refused = example.launches.iter().any(|launch| {
            match example.compile(launch, &target) {
                Err(why) => why.contains("a thread block of target msccl"),
                // Its links may hold too few messages.
                Ok(compiled) => verify(compiled.schedule.algorithm, &target).is_err(),
            }
        });
        assert!(refused, "{} serves the target msccl as well", example.name);
    }
}
