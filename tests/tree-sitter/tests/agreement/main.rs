//! The grammar for tree-sitter accepts what the parser accepts: examples, the standard library, the
//! parser's own cases of mistakes, programs at random, and those with a token too many or too few.
//!
//! The grammar is compiled by the C compiler at hand; without one the tests say so and end. Some
//! mistakes no grammar without memory can see, such as an integer that is too large: those are
//! listed in [`beyond_grammars`], and the grammar may accept them.

#![expect(unsafe_code, reason = "the grammar is a function of C, from a library built here")]

mod programs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use msccl_syntax::{Diagnostic, SourceMap, parse};
use tree_sitter::{Language, Parser};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn grammar() -> PathBuf {
    root().join("crates/lsp/editors/tree-sitter-msccl")
}

/// The language, or nothing where it cannot be built.
fn language() -> Option<&'static Language> {
    static BUILT: OnceLock<Option<Language>> = OnceLock::new();
    BUILT.get_or_init(built).as_ref()
}

fn built() -> Option<Language> {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tree-sitter-msccl.so");
    let source = grammar().join("src");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-std=c11", "-I"]).arg(&source);
    compiler.arg(source.join("parser.c")).arg("-o").arg(&library);
    match compiler.status() {
        Err(error) => {
            eprintln!("SKIPPED: the grammar needs a C compiler: {error}");
            return None;
        }
        Ok(status) => assert!(status.success(), "parser.c does not compile"),
    }
    // SAFETY: the library was built just now from the generated parser, whose only function takes
    // nothing and returns a language. It is never unloaded.
    let language = unsafe {
        let library = Box::leak(Box::new(libloading::Library::new(&library).unwrap()));
        let function: libloading::Symbol<'_, unsafe extern "C" fn() -> *const ()> =
            library.get(b"tree_sitter_msccl").unwrap();
        tree_sitter_language::LanguageFn::from_raw(*function)
    };
    Some(Language::new(language))
}

/// Whether the grammar accepts a text.
fn accepts(language: &Language, text: &str) -> bool {
    let mut parser = Parser::new();
    parser.set_language(language).unwrap();
    !parser.parse(text, None).unwrap().root_node().has_error()
}

fn mistakes(text: &str) -> Vec<Diagnostic> {
    let mut sources = SourceMap::new();
    let file = sources.add("x", text);
    parse(&sources, file).err().unwrap_or_default()
}

/// Mistakes that need numbers, memory or a view of the whole.
fn beyond_grammars(mistake: &Diagnostic) -> bool {
    const SUCH: [&str; 9] = [
        "this integer is too large",
        "unknown escape",
        "does not say which parameter counts its ranks",
        "is a second number of ranks",
        "a function's parameters are plain values",
        "a collective moves no data",
        "`given` stands only in a collective",
        "`promise` stands only in a collective",
        "levels deep",
    ];
    SUCH.iter().any(|part| mistake.message.contains(part))
}

/// Compares both on a text; what differs, if they do.
fn difference(language: &Language, name: &str, text: &str) -> Option<String> {
    let mistakes = mistakes(text);
    let accepted = accepts(language, text);
    let first = mistakes.iter().find(|it| !beyond_grammars(it));
    match (accepted, mistakes.is_empty(), first) {
        (false, true, _) => Some(format!("{name}: only the parser accepts\n{text}")),
        (true, false, Some(first)) => {
            Some(format!("{name}: only the grammar accepts, the parser: {}\n{text}", first.message))
        }
        _ => None,
    }
}

fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|it| it == "msccl") {
            found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

fn check<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> usize {
    let Some(language) = language() else { return 0 };
    let mut differences = Vec::new();
    let mut count = 0;
    for (name, text) in texts {
        differences.extend(difference(language, name, text));
        count += 1;
    }
    let number = differences.len();
    differences.truncate(5);
    assert!(differences.is_empty(), "{number} of {count}:\n{}", differences.join("\n---\n"));
    count
}

#[test]
fn examples_and_modules_are_accepted() {
    let mut all = files(&root().join("dsl-examples"));
    all.extend(files(&root().join("crates/compiler/std")));
    assert!(all.len() > 70);
    for (name, text) in &all {
        assert!(mistakes(text).is_empty(), "{name}");
    }
    check(all.iter().map(|(name, text)| (&**name, &**text)));
}

/// The parser's files of cases hold many mistakes each; every definition is looked at alone, and
/// with it every statement.
#[test]
fn mistakes_are_refused() {
    let folder = root().join("crates/syntax/tests/files");
    let mut cases = Vec::new();
    for (name, text) in files(&folder) {
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("//~")).collect();
        let text = lines.join("\n");
        cases.push((name.clone(), text.clone()));
        for (number, line) in text.lines().enumerate() {
            let name = format!("{name}:{}", number + 1);
            cases.push((name.clone(), line.to_owned()));
            cases.push((name, format!("fn f(a) {{ {line}\n }}")));
        }
    }
    let count = check(cases.iter().map(|(name, text)| (&**name, &**text)));
    eprintln!("{count} texts with mistakes or without");
}

/// The examples of mistakes in the reference.
#[test]
fn the_reference_is_read_alike() {
    let text = fs::read_to_string(root().join("docs/LANGUAGE.md")).unwrap();
    let blocks = text.split("```msccl").skip(1).filter_map(|block| block.split_once('\n'));
    let blocks: Vec<_> =
        blocks.map(|(form, rest)| (form, rest.split("```").next().unwrap())).collect();
    let whole: Vec<_> = blocks.iter().filter(|(form, _)| *form != "-fragment").copied().collect();
    assert!(whole.len() > 20);
    check(whole);
}

#[test]
fn programs_at_random_are_read_alike() {
    let mut dice = programs::Dice::new(7);
    let programs: Vec<_> = (0..200).map(|_| programs::program(&mut dice)).collect();
    let right = programs.iter().filter(|text| mistakes(text).is_empty()).count();
    assert!(right > 180, "the programs are meant to be right: {right} of 200 are");
    check(programs.iter().map(|text| ("random", &**text)));
    let broken: Vec<_> = programs.iter().map(|text| programs::broken(text, &mut dice)).collect();
    let wrong = broken.iter().filter(|text| !mistakes(text).is_empty()).count();
    assert!(wrong > 100, "most of these are meant to be wrong: {wrong} of 200 are");
    check(broken.iter().map(|text| ("broken", &**text)));
}

/// Queries name only what the grammar has.
#[test]
fn queries_fit_the_grammar() {
    let Some(language) = language() else { return };
    let helix = root().join("crates/lsp/editors/helix/queries/msccl");
    let folders = [grammar().join("queries"), helix];
    let mut count = 0;
    for folder in folders {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            tree_sitter::Query::new(language, &text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            count += 1;
        }
    }
    assert!(count >= 5);
}
