//! Conventions of the source tree: which crate may depend on which, what only front ends may do,
//! names and lengths of files, lengths of functions. What modules of a crate may use is the affair
//! of `layers.rs`, words that of `vocabulary.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use msccl_tests::modules::Modules;
use msccl_tests::rust_text::functions;
use msccl_tests::source_tree::{files, root};

/// This file, whose text has what it looks for.
const THIS: &str = "conventions.rs";

/// What each crate may depend on, in the order of the flow: a crate depends on crates above it.
const CRATES: &[(&str, &[&str])] = &[
    ("collective", &[]),
    ("syntax", &[]),
    ("ir", &["collective"]),
    ("machine", &["collective", "ir"]),
    ("compiler", &["collective", "syntax", "ir", "topology"]),
    ("interchange", &["collective", "ir"]),
    ("chakra", &["collective", "ir", "machine"]),
    ("verify", &["collective", "ir", "machine"]),
    ("picture", &[]),
    ("plan", &["collective", "ir", "verify"]),
    ("fabric", &["collective"]),
    ("topology", &[]),
    ("bounds", &["collective", "topology"]),
    ("simulate", &["collective", "ir", "machine", "picture", "plan", "topology"]),
    ("synthesize", &["bounds", "collective", "ir", "machine", "simulate", "syntax", "topology"]),
    ("proxy", &["collective", "fabric", "topology"]),
    (
        "lsp",
        &["bounds", "collective", "compiler", "ir", "simulate", "syntax", "topology", "verify"],
    ),
    ("registry", &["collective", "compiler", "interchange", "ir", "syntax", "verify"]),
    (
        "select",
        &["collective", "ir", "machine", "plan", "registry", "simulate", "topology", "verify"],
    ),
    (
        "pages",
        &[
            "bounds",
            "collective",
            "compiler",
            "interchange",
            "ir",
            "machine",
            "picture",
            "registry",
            "select",
            "simulate",
            "syntax",
            "topology",
            "verify",
        ],
    ),
    (
        "playground",
        &[
            "collective",
            "compiler",
            "interchange",
            "ir",
            "machine",
            "pages",
            "registry",
            "simulate",
            "syntax",
            "topology",
        ],
    ),
    ("gpu", &[]),
    ("trace", &["collective", "ir", "picture", "plan"]),
    (
        "runtime",
        &[
            "collective",
            "fabric",
            "gpu",
            "ir",
            "kernels",
            "machine",
            "plan",
            "proxy",
            "registry",
            "select",
            "topology",
            "trace",
            "verify",
        ],
    ),
    (
        "bench",
        &["collective", "fabric", "gpu", "interchange", "picture", "registry", "runtime", "select"],
    ),
    ("environment", &["collective", "fabric", "registry", "select", "topology"]),
    ("doctor", &["environment"]),
    ("nccl", &["collective", "environment", "fabric", "gpu", "proxy", "runtime"]),
];

/// The front ends: they may read the environment, print, open files and exit.
const FRONT_ENDS: &[&str] = &["environment", "nccl"];

/// Programs, tasks of developers, and what tests alone use.
const PROGRAMS: &[&str] = &["cli", "gpu-tests", "hosts", "processes", "python", "xtask"];

/// Outside of the workspace, with a library of the system below them.
const OUTSIDE: &[&str] = &["rdma"];

/// The crates that `manifest` names between `[dependencies]` and the next section.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap();
    let names = section.lines().filter_map(|line| line.strip_prefix("msccl-"));
    names.map(|name| name.split(['.', ' ', '=']).next().unwrap().to_owned()).collect()
}

#[test]
fn crates_depend_only_on_what_the_flow_allows() {
    for (name, allowed) in CRATES {
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        let allowed: BTreeSet<_> = allowed.iter().map(|name| (*name).to_owned()).collect();
        let surplus: Vec<_> = dependencies(&manifest).difference(&allowed).cloned().collect();
        assert!(surplus.is_empty(), "`{name}` must not depend on {surplus:?}");
    }
}

/// What reads the variables of users is used by tools that have nothing to do with GPUs.
#[test]
fn the_environment_needs_no_gpu() {
    let mut needed = BTreeSet::from(["environment".to_owned()]);
    let mut unread = vec!["environment".to_owned()];
    while let Some(name) = unread.pop() {
        let manifest = root().join("crates").join(&name).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        assert!(!manifest.contains("\ncudarc"), "`{name}` needs the CUDA driver");
        unread.extend(dependencies(&manifest).into_iter().filter(|it| needed.insert(it.clone())));
    }
    assert!(needed.contains("select") && !needed.contains("gpu"), "{needed:?}");
}

#[test]
fn every_crate_is_listed() {
    let listed: BTreeSet<_> = CRATES.iter().map(|(name, _)| (*name).to_owned()).collect();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let elsewhere = PROGRAMS.iter().chain(OUTSIDE).any(|known| *known == name);
        assert!(elsewhere || listed.contains(&name), "crates/{name} is not in CRATES");
    }
}

/// What of a line reads the environment or files, prints, or ends the process.
fn reaches_out(line: &str) -> Option<&str> {
    const FORBIDDEN: [&str; 9] = [
        "std::env",
        "std::fs",
        "env::var",
        "env::args",
        "print!",
        "println!",
        "dbg!",
        "process::exit",
        "process::abort",
    ];
    let named = FORBIDDEN.into_iter().find(|word| line.contains(word));
    let group = line.split("std::{").nth(1).unwrap_or_default();
    let grouped = group.split([',', '}', ':']).map(str::trim).find(|of| ["env", "fs"].contains(of));
    named.or(grouped)
}

#[test]
fn what_reaches_out_is_seen_however_it_is_written() {
    let seen = [
        "use std::env;",
        "let x = std::env::args();",
        "use std::{env, io};",
        "use std::{io, fs};",
        "use std::{fs::File, io};",
        "print!(\"x\");",
        "eprint!(\"x\");",
        "eprintln!();",
        "dbg!(1);",
        "std::process::exit(1);",
    ];
    assert!(seen.into_iter().all(|line| reaches_out(line).is_some()));
    let fine = [
        "use std::io;",
        "env!(\"PATH\")",
        "msccl_environment::lookup",
        "rustix::fs::open(p)",
        "use std::{io, fmt};",
    ];
    assert!(fine.into_iter().all(|line| reaches_out(line).is_none()));
}

#[test]
fn only_front_ends_read_the_environment_print_or_exit() {
    for (name, _) in CRATES.iter().filter(|(name, _)| !FRONT_ENDS.contains(name)) {
        let package = root().join("crates").join(name);
        let modules = Modules::read(&package);
        // Tests may say what they measure.
        let is_product = |file: &Path| {
            let name = file.strip_prefix(package.join("src")).unwrap();
            modules.has_file(name.to_str().unwrap())
        };
        for file in rust_files(&package.join("src")).into_iter().filter(|file| is_product(file)) {
            let text = fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap();
            for (number, line) in code.lines().enumerate() {
                let code = line.split("//").next().unwrap();
                let found = reaches_out(code);
                let place = format!("{}:{}", file.display(), number + 1);
                assert!(found.is_none(), "{place}: {found:?} belongs to the front ends");
            }
        }
    }
}

#[test]
fn files_are_named_for_what_they_hold() {
    for file in rust_files(&root().join("crates")) {
        let stem = file.file_stem().unwrap().to_str().unwrap();
        let vague = ["utils", "util", "common", "helpers", "misc", "types"];
        assert!(!vague.contains(&stem), "{}: name it for what it holds", file.display());
    }
}

/// Packages of which some target does not deny unsafe code yet. No package is added here.
const UNSAFE_NOT_DENIED: &[&str] = &["crates/gpu-tests", "kernels"];

/// Whether a file, or the manifest of its package, denies unsafe code, or says what it is for.
fn denies_unsafe(text: &str) -> bool {
    const WAYS: [&str; 3] =
        ["#![deny(unsafe_code)]", "#![expect(unsafe_code, reason = \"", "unsafe_code = \"deny\""];
    text.lines().any(|line| WAYS.iter().any(|way| line.starts_with(way)))
}

/// The files that the targets of a package start with.
fn target_roots(package: &Path) -> Vec<PathBuf> {
    let mut roots: Vec<_> =
        ["src/lib.rs", "src/main.rs", "build.rs"].map(|name| package.join(name)).into();
    for folder in ["tests", "examples", "benches"].map(|name| package.join(name)) {
        let entries = fs::read_dir(folder).into_iter().flatten();
        for path in entries.map(|entry| entry.unwrap().path()) {
            let is_rust = path.extension().is_some_and(|it| it == "rs");
            roots.push(if is_rust { path } else { path.join("main.rs") });
        }
    }
    roots.retain(|path| path.is_file());
    roots
}

#[test]
fn every_target_denies_unsafe_code() {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|it| it.unwrap().path());
    let mut not_denied = BTreeSet::new();
    for package in crates.chain(["kernels", "tests", "tests/kit"].map(|name| root().join(name))) {
        let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
        let is_open = |path: &PathBuf| !denies_unsafe(&fs::read_to_string(path).unwrap());
        let open = target_roots(&package).into_iter().filter(is_open);
        if !denies_unsafe(&manifest) {
            not_denied.extend(open.map(|path| path.strip_prefix(root()).unwrap().to_owned()));
        }
    }
    let is_known = |path: &Path| UNSAFE_NOT_DENIED.iter().any(|known| path.starts_with(known));
    let new: Vec<_> = not_denied.iter().filter(|path| !is_known(path)).collect();
    assert!(new.is_empty(), "begin these with `#![deny(unsafe_code)]`: {new:?}");
    for known in UNSAFE_NOT_DENIED {
        let stands = not_denied.iter().any(|path| path.starts_with(known));
        assert!(stands, "{known} denies unsafe code; take it off the list");
    }
}

#[test]
fn unsafe_code_is_expected_for_a_reason() {
    for (file, text) in sources(&["rs"]).into_iter().filter(|(file, _)| !file.ends_with(THIS)) {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(!words.contains("allow(unsafe_code"), "{file}: expect it, for a reason");
        let reasons = words.split("expect(unsafe_code").skip(1);
        for rest in reasons.map(|rest| rest.trim_start_matches([',', '(', ' '])) {
            assert!(rest.starts_with("reason = \""), "{file}: what is unsafe code for?");
        }
    }
}

#[test]
fn who_denies_unsafe_code_is_seen() {
    assert!(denies_unsafe("//! A.\n\n#![deny(unsafe_code)]\n"));
    assert!(denies_unsafe("[lints.rust]\nunsafe_code = \"deny\"\n"));
    assert!(denies_unsafe("#![expect(unsafe_code, reason = \"calls C\")]"));
    for text in ["", "#![expect(unsafe_code)]", "// #![deny(unsafe_code)]", "#[deny(unsafe_code)]"]
    {
        assert!(!denies_unsafe(text), "{text}");
    }
}

/// Longest file, in lines. Kernels count, too.
const FILE_LINES_MAX: usize = 500;

/// Longest function, in lines.
const FUNCTION_LINES_MAX: usize = 80;

/// The files of the project that people write, by their names from its root on.
fn sources(extensions: &[&str]) -> Vec<(String, String)> {
    let folders = ["crates", "kernels", "tests"].map(|folder| root().join(folder));
    let read = |file: PathBuf| {
        let name = file.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(file).unwrap())
    };
    folders.iter().flat_map(|folder| files(folder, extensions)).map(read).collect()
}

#[test]
fn files_are_short() {
    let sources = sources(&["rs", "cuh", "cu"]);
    let long = sources.iter().filter(|(_, text)| text.lines().count() > FILE_LINES_MAX);
    let long: Vec<&str> = long.map(|(name, _)| &**name).collect();
    assert!(long.is_empty(), "split by subject, to {FILE_LINES_MAX} lines at most: {long:?}");
}

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for (file, text) in sources(&["rs"]) {
        let found = functions(&text).into_iter().filter(|it| it.lines > FUNCTION_LINES_MAX);
        long.extend(found.map(|it| format!("{file}:{}: {}, {} lines", it.line, it.name, it.lines)));
    }
    assert!(long.is_empty(), "more than {FUNCTION_LINES_MAX} lines: {long:#?}");
}

#[test]
fn lines_of_functions_are_counted() {
    let check = |text: &str, expected: &[(&str, usize, usize)]| {
        let found = functions(text);
        let found: Vec<_> = found.iter().map(|it| (&*it.name, it.line, it.lines)).collect();
        assert_eq!(found, expected, "{text}");
    };
    check("fn a() {}", &[("a", 1, 1)]);
    check("\nfn a(b: [u8; { 2 }]) -> u8\nwhere\n    T: X,\n{\n    \"}\" // }\n}\n", &[("a", 2, 6)]);
    check("trait T {\n    fn a();\n    fn b() {\n    }\n}", &[("b", 3, 2)]);
    check("fn a() {\n    fn b() {}\n}", &[("a", 1, 3), ("b", 2, 1)]);
    check("type F = fn(u8) -> u8; // fn a() {}", &[]);
    check("macro_rules! m { () => {\n    fn $name() {\n    }\n    fn b() {} } }", &[("b", 4, 1)]);
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    files(folder, &["rs"])
}
