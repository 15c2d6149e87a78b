//! The programs in `docs/LANGUAGE.md` and `README.md`. Those of other documents are files for
//! the commands there, which a test of the command runs.
//!
//! | fence | what is checked |
//! |---|---|
//! | `msccl` | a file that evaluates with its defaults, without warnings, and keeps its collective's promise |
//! | `msccl-fragment` | definitions, or statements, that parse |
//! | `msccl-error` | a file that is refused, with exactly the errors that `// error: …` expects, each on its line |
//! | `msccl-warning` | a file like those of `msccl`, but with exactly the warnings that `// warning: …` expects |

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use msccl_compiler::chunk::check_promise;
use msccl_compiler::evaluate::{Launch, NoFiles, evaluate};
use msccl_syntax::{Diagnostic, Severity, SourceMap, parse};

/// A fenced block of the document.
struct Fence {
    /// The line of the document on which its text starts.
    line: usize,
    language: String,
    text: String,
}

/// Documents whose programs are checked.
const DOCUMENTS: [&str; 2] = ["docs/LANGUAGE.md", "README.md"];

fn fences(language: &str) -> Vec<Fence> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &&str| std::fs::read_to_string(root.join(name)).unwrap();
    let mut fences: Vec<_> =
        DOCUMENTS.iter().map(read).flat_map(|text| all_fences(&text)).collect();
    fences.retain(|fence| fence.language == language);
    assert!(!fences.is_empty(), "no document has ```{language}");
    fences
}

fn all_fences(document: &str) -> Vec<Fence> {
    let mut fences = Vec::new();
    let mut open: Option<Fence> = None;
    for (number, line) in document.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                let language = language.to_owned();
                open = Some(Fence { line: number + 2, language, text: String::new() });
            }
            (Some(_), Some(_)) => fences.extend(open.take()),
            (None, Some(fence)) => fence.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    fences
}

/// What is said of a file with its defaults, each with the line it stands on.
fn diagnostics(text: &str) -> Vec<(u32, String)> {
    let mut sources = SourceMap::new();
    let file = sources.add("example", text);
    let checked = evaluate(&mut sources, file, &NoFiles, &Launch::default())
        .and_then(|dag| check_promise(&dag).map(|()| dag.warnings));
    let located = |one: Diagnostic| {
        let line = one.labels.first().map_or(0, |label| sources.line_column(label.span).line);
        let severity = match one.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        (line, format!("{severity}: {}", one.message))
    };
    checked.unwrap_or_else(|errors| errors).into_iter().map(located).collect()
}

#[test]
fn programs_keep_their_promise() {
    for fence in fences("msccl") {
        assert_eq!(diagnostics(&fence.text), [], "the program at line {}", fence.line);
    }
}

#[test]
fn fragments_parse() {
    for fence in fences("msccl-fragment") {
        let as_body = format!("algorithm a(ranks N) implements allreduce() {{\n{}}}\n", fence.text);
        let parses = |text: &str| {
            let mut sources = SourceMap::new();
            let file = sources.add("fragment", text);
            parse(&sources, file).is_ok()
        };
        let good = parses(&fence.text) || parses(&as_body);
        assert!(good, "the fragment at line {} does not parse", fence.line);
    }
}

/// The diagnostics of fences of `language` are what their comments of this severity say.
fn check(language: &str, severity: &str) {
    for fence in fences(language) {
        let mut found = diagnostics(&fence.text);
        found.sort();
        let lines = (1..).zip(fence.text.lines());
        let comment = |text: &str| Some(text.split_once(&format!("// {severity}: "))?.1.to_owned());
        let expected: Vec<(u32, String)> = lines
            .filter_map(|(line, text)| Some((line, format!("{severity}: {}", comment(text)?))))
            .collect();
        assert_eq!(found, expected, "the fence at line {}", fence.line);
    }
}

#[test]
fn errors_are_as_documented() {
    check("msccl-error", "error");
}

#[test]
fn warnings_are_as_documented() {
    check("msccl-warning", "warning");
}
