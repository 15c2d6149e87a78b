//! The files of cases: what every stage makes of a program, and what it says of a wrong one.
//!
//! | setting | values | else |
//! |---|---|---|
//! | `stage` | `evaluate`, `promise`, `lower`, `schedule` | must be set |
//! | `target` | `native`, `msccl` | `native` |
//! | `placement` | `in place`, `out of place` | as the program says |
//! | `ranks`, `instances` | a number | as the program says |

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use msccl_collective::Placement;
use msccl_compiler::chunk::{ChunkDag, check_promise};
use msccl_compiler::evaluate::{Launch, NoFiles, evaluate};
use msccl_compiler::{compile_chunks, instruction};
use msccl_ir::{Target, text};
use msccl_syntax::{Diagnostic, SourceMap};
use msccl_testkit::case_files::{Case, Outcome, check};

#[test]
fn every_stage_makes_of_a_program_what_its_file_expects() {
    check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files"), run);
}

fn run(case: &Case<'_>) -> Outcome {
    let mut sources = SourceMap::new();
    let file = sources.add("test.msccl", case.text.clone());
    match evaluate(&mut sources, file, &NoFiles, &launch(case)) {
        Ok(dag) => {
            let warnings = dag.warnings.clone();
            Outcome::new(&sources, stage(case, dag)).with(&sources, &warnings)
        }
        Err(errors) => Outcome::new(&sources, Err(errors)),
    }
}

/// What the stage of the case makes of ops.
fn stage(case: &Case<'_>, dag: ChunkDag) -> Result<String, Vec<Diagnostic>> {
    let target = target(case);
    match case.setting("stage").expect("//! stage: …") {
        "evaluate" => Ok(ops(&dag)),
        "promise" => check_promise(&dag).map(|()| "keeps its promise".to_owned()),
        "lower" => Ok(instruction::lower(&dag, &target).dump()),
        "schedule" => {
            let compiled = compile_chunks(dag, &target)?;
            Ok(text::print(&compiled.schedule.algorithm))
        }
        other => panic!("there is no stage `{other}`"),
    }
}

/// The ops, without the head, which repeats the case.
fn ops(dag: &ChunkDag) -> String {
    if dag.ops.is_empty() {
        return "no ops".to_owned();
    }
    dag.to_string().lines().skip(1).map(|line| format!("{line}\n")).collect()
}

fn launch(case: &Case<'_>) -> Launch {
    let number = |name| case.setting(name).map(|value| value.parse().expect(name));
    let placement = case.setting("placement").map(|value| match value {
        "in place" => Placement::InPlace,
        "out of place" => Placement::OutOfPlace,
        other => panic!("there is no placement `{other}`"),
    });
    Launch {
        placement,
        ranks: number("ranks"),
        instances: number("instances"),
        ..Launch::default()
    }
}

fn target(case: &Case<'_>) -> Target {
    match case.setting("target") {
        None | Some("native") => Target::native(),
        Some("msccl") => Target::msccl(),
        Some(other) => panic!("there is no target `{other}`"),
    }
}
