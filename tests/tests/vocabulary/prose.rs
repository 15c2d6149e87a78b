//! Words in prose: comments, messages and documents have none that the glossary has put aside.
//!
//! A folder follows its own part of the glossary and the part for every crate, a document all
//! parts. A message is a literal with a blank in it, outside of tests; other literals are keys,
//! names of files, and aliases that keep working. A word counts in its singular and its plural,
//! wherever it stands in a sentence. In a code span a name counts as it is, and names of types count
//! there alone.

use std::fs;
use std::path::PathBuf;

use msccl_tests::modules::Modules;
use msccl_tests::rust_text::{Prose, ProseKind, Source};
use msccl_tests::source_tree::{files, root};

use super::glossary::{ALIASES, Banned, DONE, EVERY_CRATE, words};

/// Words that are put aside as names, and ordinary English otherwise: each with its ordinary sense.
const ORDINARY: &[(&str, &str)] = &[
    ("arena", "the memory of a rank's wires; put aside as a name in `gpu-tests` alone"),
    ("making", "of what is made; put aside as the name of a module"),
    ("reach", "to get to; put aside as the noun for a range of addresses"),
    ("ring", "the order of a ring algorithm; put aside as the name of a buffer"),
    ("small", "not large; put aside as the name of low-latency kernels"),
    ("truth", "a truth value, sequential truth; put aside for what is expected of a result"),
    ("turns", "to take turns, to turn into; put aside for the order of launches"),
];

/// Words that comments may have, with their ordinary sense there.
const ORDINARY_IN_COMMENTS: &[(&str, &str)] =
    &[("asked", "a driver, a peer or a rule is asked; messages and documents say requested")];

/// Documents that say which name of a variable is its older one.
const WITH_ALIASES: [&str; 2] = ["ENVIRONMENT.md", "SUPPORT.md"];

/// The document whose second part has the words.
const GLOSSARY: &str = "GLOSSARY.md";

#[test]
fn comments_and_messages_follow_the_glossary() {
    let (words, mut found) = (words(), Vec::new());
    for (folder, part) in DONE {
        let parts: Vec<&Banned> =
            [Some(EVERY_CRATE), *part].into_iter().flatten().map(|part| &words[part]).collect();
        for (file, text) in sources(folder) {
            for Prose { kind, line, text } in Source::new(&text).prose {
                let is_message =
                    text.contains(' ') && file.extension().is_some_and(|it| it == "rs");
                let ordinary = match kind {
                    ProseKind::Comment => [ORDINARY, ORDINARY_IN_COMMENTS].concat(),
                    ProseKind::Literal if is_message => ORDINARY.to_vec(),
                    ProseKind::Literal => continue,
                };
                for (word, at) in hits(&text, &parts, &ordinary) {
                    found.push(format!("{}:{}: {word}", file.display(), line + at));
                }
            }
        }
    }
    assert!(found.is_empty(), "docs/GLOSSARY.md has the word to use:\n{}", found.join("\n"));
}

#[test]
fn documents_follow_the_glossary() {
    let (words, mut found) = (words(), Vec::new());
    for file in documents() {
        let name = file.file_name().unwrap().to_str().unwrap();
        let has_aliases = WITH_ALIASES.contains(&name);
        let parts = words.iter().filter(|(part, _)| !has_aliases || *part != ALIASES);
        let parts: Vec<&Banned> = parts.map(|(_, words)| words).collect();
        let text = fs::read_to_string(&file).unwrap();
        let text = match name {
            GLOSSARY => text.split("## Words that are not used").next().unwrap(),
            _ => &text,
        };
        for (word, at) in hits(text, &parts, ORDINARY) {
            found.push(format!("{}:{}: {word}", file.display(), at + 1));
        }
    }
    assert!(found.is_empty(), "docs/GLOSSARY.md has the word to use:\n{}", found.join("\n"));
}

#[test]
fn ordinary_words_are_ones_of_the_glossary() {
    let words = words();
    for (word, sense) in ORDINARY.iter().chain(ORDINARY_IN_COMMENTS) {
        let is_known = words.values().any(|part| part.contains_key(*word));
        assert!(is_known, "{word} ({sense}) is not looked for; take it off the list");
    }
}

#[test]
fn words_are_found_in_prose() {
    let table =
        "## Words that are not used\n### In every crate\n| door, `Seat`, `is_told`, told | x |";
    let words = super::glossary::banned(table);
    let parts: Vec<&Banned> = words.values().collect();
    let found = |text: &str| hits(text, &parts, &[]);
    for text in
        ["a door.", "Doors open", "the\n(door)", "`Seat`", "`is_told`", "as told", "`a` door"]
    {
        assert_eq!(found(text).len(), 1, "{text}");
    }
    for text in ["outdoor", "Seat", "a-door", "`SeatOf`", "retold", "`was_told`", "`out-door`", ""]
    {
        assert_eq!(found(text), [], "{text}");
    }
    assert_eq!(found("one\ntwo `a\nb` door"), [("door".to_owned(), 2)]);
    assert_eq!(hits("a door", &parts, &[("door", "of a house")]), []);
}

#[test]
fn comments_and_literals_are_distinguished() {
    let text = "// a\n  // b\nf(\"c d\", 'e'); // f\n/* g */ x(r#\"h\"#)";
    let prose = Source::new(text).prose;
    let prose: Vec<_> = prose.iter().map(|it| (it.kind, it.line, &*it.text)).collect();
    let expected = [
        (ProseKind::Comment, 1, "// a\n  // b"),
        (ProseKind::Literal, 3, "\"c d\""),
        (ProseKind::Literal, 3, "'e'"),
        (ProseKind::Comment, 3, "// f\n/* g */"),
        (ProseKind::Literal, 4, "r#\"h\"#"),
    ];
    assert_eq!(prose, expected);
}

/// The banned words of `text` that are not `ordinary`, each with how many lines above it there are.
fn hits(text: &str, parts: &[&Banned], ordinary: &[(&str, &str)]) -> Vec<(String, usize)> {
    let (mut found, mut line) = (Vec::new(), 0);
    for (place, piece) in text.split('`').enumerate() {
        let is_code = place % 2 == 1;
        for (at, row) in piece.split('\n').enumerate() {
            let words = words_of(row).into_iter();
            let banned = words.filter_map(|word| banned_form(word, is_code, parts));
            let banned = banned.filter(|word| !ordinary.iter().any(|(known, _)| known == word));
            found.extend(banned.map(|word| (word.clone(), line + at)));
        }
        line += piece.matches('\n').count();
    }
    found
}

/// The words of a line; what hyphens join is one.
fn words_of(line: &str) -> Vec<&str> {
    line.split(|it: char| !it.is_alphanumeric() && it != '_' && it != '-').collect()
}

/// The banned word that `word` is a form of.
fn banned_form<'a>(word: &str, is_code: bool, parts: &[&'a Banned]) -> Option<&'a String> {
    let lower = word.to_lowercase();
    let is_form = |banned: &str| match banned.contains(char::is_uppercase) {
        _ if is_code => word == banned,
        true => false,
        false => lower.strip_prefix(banned).is_some_and(|end| end.is_empty() || end == "s"),
    };
    parts.iter().flat_map(|part| part.keys()).find(|banned| is_form(banned))
}

/// The product's sources of a folder: Rust without its tests, and CUDA C++.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = root().join(folder);
    let modules = Modules::read(&folder);
    let is_product = |file: &PathBuf| {
        let name = file.strip_prefix(folder.join("src")).ok().and_then(|name| name.to_str());
        match file.extension().is_some_and(|it| it == "rs") {
            true => name.is_some_and(|name| modules.has_file(name)),
            false => true,
        }
    };
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        (file, code.to_owned())
    };
    files(&folder, &["rs", "cuh", "cu"]).into_iter().filter(is_product).map(read).collect()
}

/// What people read about the project as it is; records of changes, decisions and results are not.
fn documents() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let top = entries.filter(|path| path.extension().is_some_and(|it| it == "md"));
    let others =
        ["README.md", "CONTRIBUTING.md", "kernels/README.md"].map(|name| root().join(name));
    let examples = files(&root().join("dsl-examples"), &["md"]);
    let mut all: Vec<PathBuf> = top.chain(others).chain(examples).collect();
    all.sort();
    all
}
