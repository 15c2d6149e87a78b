//! The modules of a crate form layers: no module of a folder uses another that, over others of the
//! folder, uses it in turn. The crates among each other are the affair of `conventions.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use msccl_tests::modules::{Circle, Modules};
use msccl_tests::source_tree::root;

/// Folders whose modules still use each other in circles, by crate; the root of a crate is `""`.
/// Every other folder has layers, and no folder is added here.
const WITH_CIRCLES: &[(&str, &str)] = &[
    ("crates/environment", "launch"),
    ("crates/gpu", ""),
    ("crates/gpu-tests", "sections"),
    ("crates/interchange", "xml/read"),
    ("crates/nccl", ""),
    ("crates/syntax", "parse"),
    ("crates/verify", "race"),
    ("crates/verify", "values"),
];

#[test]
fn modules_form_layers() {
    let mut found = Vec::new();
    for package in packages() {
        let circles = Modules::read(&root().join(&package)).circles().into_iter();
        let known = |circle: &Circle| WITH_CIRCLES.contains(&(&*package, &circle.folder.join("/")));
        found.extend(circles.filter(|it| !known(it)).map(|it| format!("{package}: {it}")));
    }
    let advice = "move what both need to a module of its own, below both";
    assert!(found.is_empty(), "{advice}\n{}", found.join("\n"));
}

#[test]
fn exceptions_are_still_needed() {
    for (package, folder) in WITH_CIRCLES {
        let circles = Modules::read(&root().join(package)).circles();
        let stands = circles.iter().any(|circle| circle.folder.join("/") == *folder);
        assert!(stands, "{package}: `src/{folder}` has no circle; take it off the list");
    }
}

#[test]
fn modules_of_every_package_are_found() {
    let few = packages().into_iter().filter(|it| Modules::read(&root().join(it)).is_trivial());
    let few: Vec<String> = few.collect();
    assert_eq!(few, ["crates/hosts", "crates/picture", "crates/processes"]);
}

/// The packages of the project.
fn packages() -> Vec<String> {
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let crates = crates.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let others = ["kernels", "tests", "tests/kit"].map(|name| root().join(name));
    let relative = |path: PathBuf| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    let mut all: Vec<_> = crates.chain(others).map(relative).collect();
    all.sort();
    all
}

#[test]
fn a_circle_is_spelled_out() {
    let text = circles(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;"),
        ("a.rs", "//! A.\n\nuse crate::b::Item;\n"),
        ("b.rs", "fn f() -> u8 {\n    crate::c::f()\n}"),
        ("c.rs", "pub fn f() -> u8 { super::a::g() }"),
    ]);
    let expected = "modules of `src/` use each other in a circle:\n  \
                    a uses b (src/a.rs:3)\n  b uses c (src/b.rs:2)\n  c uses a (src/c.rs:1)\n";
    assert_eq!(text, [expected]);
}

#[test]
fn uses_are_seen_however_they_are_written() {
    let there = ("a.rs", "use crate::b::Item;\npub struct A;");
    let lib = ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use a::A as Other;");
    let back = [
        "use crate::a::A;",
        "use crate::{a, other};",
        "use crate::{other::{Thing}, a::{self}};",
        "use crate::a::*;",
        "use super::a;",
        "use crate as it;\nuse it::a;",
        "use crate::A;",
        "use crate::{Other as Mine};",
        "type T = crate::A;",
        "type T = Vec<super::A>;",
        "mod inner { use super::super::a::A; }",
        "mod inner { fn f() { crate::a::f() } }",
        "macro_rules! m { () => { $crate::a::f() } }",
        "fn f() { use crate::a; }",
        "#[cfg(not(test))]\nuse crate::a::A;",
        "#[cfg(test)]\nuse crate::c::C;\nuse crate::a::A;",
        "#[cfg(test)]\nfn f() { g([1; 2]) }\nuse crate::a::A;",
        "struct S {\n    #[cfg(test)]\n    field: u8,\n    other: crate::a::A,\n}",
    ];
    for back in back {
        assert_eq!(circles(&[lib, there, ("b.rs", back)]).len(), 1, "{back}");
    }
    let no_use = [
        "",
        "// use crate::a::A;",
        "/// [`crate::a::A`]\nstruct B;",
        "const TEXT: &str = \"crate::a::A\";",
        "use a::A;",
        "use std::a::A;",
        "fn f() { other::a::A }",
        "fn f() { x.a::<u8>() }",
        "#[cfg(test)]\nuse crate::a::A;",
        "#[cfg(test)]\n#[allow(dead_code)]\npub(crate) fn f(a: u8, b: u8) { crate::a::f() }",
        "#[cfg(test)]\nmod tests { use crate::a::A; }",
        "#[cfg(all(test, unix))]\nmod tests { use crate::a::A; }",
        "pub(in crate::b) struct B;",
        "mod a { pub struct A; }\nuse a::A;\nuse self::a::A as Other;",
    ];
    for no_use in no_use {
        assert_eq!(circles(&[lib, there, ("b.rs", no_use)]), [""; 0], "{no_use}");
    }
}

#[test]
fn names_lead_through_re_exports_to_their_modules() {
    let lib = ("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::Item;");
    // `c` has the item from `a`, so that `b` uses both.
    let c = ("c.rs", "pub use crate::a::Item;");
    let text = circles(&[lib, c, ("a.rs", "use crate::b;"), ("b.rs", "use crate::Item;")]);
    assert!(text[0].contains("a uses b (src/a.rs:1)\n  b uses a (src/b.rs:1)"), "{text:?}");
    let text = circles(&[lib, c, ("a.rs", ""), ("b.rs", "use crate::Item;")]);
    assert_eq!(text, [""; 0]);
    // Imports that lead to each other end.
    let text = circles(&[("lib.rs", "mod a;"), ("a.rs", "use self::b::c;\nuse self::c::b;")]);
    assert_eq!(text, [""; 0]);
}

#[test]
fn the_children_of_every_folder_count() {
    let lib = ("lib.rs", "mod a;\nmod b;");
    let a = ("a/mod.rs", "mod x;\nmod y;\nmod z;\nuse y::Y;\n#[cfg(test)]\nmod tests;");
    let tests = ("a/tests.rs", "use crate::b::B;\nuse super::x;");
    let x = ("a/x.rs", "use super::y::Y;");
    let check = |y: &str, b: &str, expected: &[&str]| {
        let texts = [lib, a, tests, x, ("a/y.rs", y), ("a/z.rs", ""), ("b.rs", b)];
        let folders: Vec<_> = modules(&texts).circles().into_iter().map(|it| it.folder).collect();
        let folders: Vec<_> = folders.iter().map(|folder| folder.join("/")).collect();
        assert_eq!(folders, expected, "{y}, {b}");
    };
    check("", "", &[]);
    check("use super::x;", "", &["a"]);
    check("use super::z;", "", &[]);
    // What is inside `a` stands for `a`.
    check("use crate::b;", "use crate::a::z::Z;", &[""]);
    check("use super::x;\nuse crate::b;", "use crate::a;", &["", "a"]);
    // Tests do not count, nor what parents and children use of each other.
    check("", "use crate::a;", &[]);
    check("use super::Y;", "", &[]);
}

#[test]
fn the_shortest_circle_is_reported() {
    let texts = [
        ("main.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
        ("a.rs", "use crate::b;\nuse crate::b::Again;"),
        ("b.rs", "use crate::c;"),
        ("c.rs", "use crate::{a, d};"),
        ("d.rs", "use crate::c;"),
    ];
    let circle = modules(&texts).circles().remove(0);
    let users: Vec<_> = circle.edges.iter().map(|edge| &*edge.user).collect();
    assert_eq!(users, ["c", "d"]);
}

fn modules(texts: &[(&str, &str)]) -> Modules {
    let owned = |(file, text): &(&str, &str)| ((*file).to_owned(), (*text).to_owned());
    Modules::from_texts(&texts.iter().map(owned).collect::<BTreeMap<_, _>>())
}

fn circles(texts: &[(&str, &str)]) -> Vec<String> {
    modules(texts).circles().iter().map(Circle::to_string).collect()
}
