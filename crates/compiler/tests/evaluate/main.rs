//! From text to the chunk DAG: what programs mean, what is refused, and where ops go.

#![deny(unsafe_code)]

mod errors;
mod imports;
mod instances;
mod language;
mod limits;
mod meaning;
mod placement;
mod promise;
mod topology;
mod warnings;

use msccl_compiler::chunk::{ChunkDag, Op};
use msccl_compiler::evaluate::{Launch, NoFiles, evaluate};
use msccl_syntax::{Diagnostic, SourceMap};

/// Evaluates a program on its own.
fn evaluate_text(text: &str, launch: &Launch) -> (SourceMap, Result<ChunkDag, Vec<Diagnostic>>) {
    let mut sources = SourceMap::new();
    let file = sources.add("test.msccl", text);
    let result = evaluate(&mut sources, file, &NoFiles, launch);
    (sources, result)
}

/// The DAG of a program that is expected to be right.
fn dag_for(text: &str, launch: &Launch) -> ChunkDag {
    let (sources, result) = evaluate_text(text, launch);
    result.unwrap_or_else(|errors| panic!("{}", show(&sources, &errors).join("\n")))
}

fn dag(text: &str) -> ChunkDag {
    dag_for(text, &Launch::default())
}

/// The ops of a DAG, one line each, with their hints.
fn ops(dag: &ChunkDag) -> Vec<String> {
    let line = |op: &Op| format!("{op}{}", dag.hints[op.hints.0 as usize]);
    dag.ops.iter().map(line).collect()
}

/// Errors as `line:column message`.
fn show(sources: &SourceMap, errors: &[Diagnostic]) -> Vec<String> {
    let line = |error: &Diagnostic| {
        let place = sources.line_column(error.labels[0].span);
        format!("{}:{} {}", place.line, place.column, error.message)
    };
    errors.iter().map(line).collect()
}

/// The non-empty lines of a text, without indentation.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Holds a program's ops against the lines expected.
fn check(text: &str, expected: &str) {
    assert_eq!(ops(&dag(text)), lines(expected), "{text}");
}

/// Holds the errors of a program against `line:column message` lines.
fn check_errors(text: &str, expected: &str) {
    check_errors_for(text, &Launch::default(), expected);
}

fn check_errors_for(text: &str, launch: &Launch, expected: &str) {
    let (sources, result) = evaluate_text(text, launch);
    let errors = result.map(|dag| ops(&dag)).expect_err(text);
    assert_eq!(show(&sources, &errors), lines(expected), "{text}");
}

/// An algorithm over two ranks with two chunks each, not in place, around statements. The
/// statements begin in line 2.
fn two_ranks(statements: &str) -> String {
    format!("algorithm a(ranks N = 2) implements allreduce(chunks 2) {{\n{statements}\n}}")
}
