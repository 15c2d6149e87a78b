//! One word a thing: names, widths of lines and types in the folders that follow the glossary.
//!
//! The words come from the second part of `docs/GLOSSARY.md`, so that the two cannot differ. A row
//! whose left side has a remark in parentheses is about one sense of a word, which no test can
//! recognise; a path (`a::b`) names one item that was renamed. Neither is looked for here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use msccl_tests::rust_text::Source;
use msccl_tests::source_tree::{files, root};

/// The folders that follow the glossary, each with the part of the glossary that is about it.
const DONE: &[(&str, Option<&str>)] = &[
    ("crates/bench", Some("bench, cli")),
    ("crates/cli", Some("bench, cli")),
    ("crates/collective", None),
    ("crates/compiler", Some("verify, compiler")),
    ("crates/gpu", None),
    ("crates/gpu-tests", Some("gpu-tests and tests")),
    ("crates/hosts", None),
    ("crates/interchange", None),
    ("crates/ir", None),
    ("crates/machine", None),
    ("crates/picture", None),
    ("crates/plan", Some("plan, kernels")),
    ("crates/processes", None),
    ("crates/rdma", None),
    ("crates/runtime", Some("runtime")),
    ("crates/simulate", None),
    ("crates/syntax", None),
    ("crates/topology", None),
    ("crates/verify", Some("verify, compiler")),
    ("kernels", Some("plan, kernels")),
];

/// Names of other crates, which those in [`DONE`] must use: of crates that are not there yet, and the
/// field for the other end of a wire.
const NAMES_OF_OTHERS: &[&str] = &["wanted", "wish", "story", "far"];

const EVERY_CRATE: &str = "In every crate";
const WIDTH: usize = 100;
/// Files whose names are looked at. What is a comment or a literal in Rust is one in CUDA C++.
const CODE_FILES: [&str; 2] = ["rs", "cuh"];
const TEXT_FILES: [&str; 6] = ["rs", "md", "cuh", "cu", "msccl", "toml"];

#[test]
fn lines_have_at_most_100_columns() {
    let mut wide = Vec::new();
    for (folder, _) in DONE {
        for file in files(&root().join(folder), &TEXT_FILES) {
            let text = fs::read_to_string(&file).unwrap();
            let found = wide_lines(&text, is_rust(&file));
            wide.extend(found.into_iter().map(|line| format!("{}:{line}", file.display())));
        }
    }
    assert!(wide.is_empty(), "more than {WIDTH} columns; break the line:\n{}", wide.join("\n"));
}

#[test]
fn names_follow_the_glossary() {
    let glossary = fs::read_to_string(root().join("docs/GLOSSARY.md")).unwrap();
    let words = banned(&glossary);
    let mut found = Vec::new();
    for (folder, part) in DONE {
        let parts = [Some(EVERY_CRATE), *part].into_iter().flatten();
        let banned = parts.flat_map(|part| words.get(part).unwrap_or_else(|| panic!("no {part}")));
        let banned: Vec<&String> = banned.collect();
        for file in files(&root().join(folder), &CODE_FILES) {
            let code = Source::new(&fs::read_to_string(&file).unwrap()).code;
            for (number, line) in code.lines().enumerate() {
                let names = names(line).filter(|name| !NAMES_OF_OTHERS.contains(name));
                for (name, word) in names.filter_map(|name| Some((name, hit(name, &banned)?))) {
                    let place = format!("{}:{}", file.display(), number + 1);
                    found.push(format!("{place}: `{name}` has `{word}`"));
                }
            }
        }
    }
    let advice = "docs/GLOSSARY.md has the word to use";
    assert!(found.is_empty(), "{advice}:\n{}", found.join("\n"));
}

#[test]
fn no_type_name_stands_twice_in_a_crate() {
    let mut twice = Vec::new();
    for (folder, _) in DONE {
        let texts = files(&root().join(folder).join("src"), &["rs"]);
        let texts = texts.iter().map(|file| fs::read_to_string(file).unwrap());
        let all: Vec<String> = texts.flat_map(|text| types(&text)).collect();
        twice.extend(repeated(&all).into_iter().map(|name| format!("{folder}: {name}")));
    }
    assert!(twice.is_empty(), "give each type a name of its own:\n{}", twice.join("\n"));
}

#[test]
fn every_folder_has_what_is_looked_at() {
    for (folder, _) in DONE {
        assert!(!files(&root().join(folder).join("src"), &["rs"]).is_empty(), "{folder}");
    }
    let glossary = fs::read_to_string(root().join("docs/GLOSSARY.md")).unwrap();
    let words = banned(&glossary);
    for (part, word) in [
        (EVERY_CRATE, "told"),
        ("bench, cli", "crew"),
        ("bench, cli", "Doubt"),
        ("plan, kernels", "small"),
        ("gpu-tests and tests", "shelf"),
    ] {
        assert!(words[part].contains(word), "{part}: {word}");
    }
}

#[test]
fn wide_lines_are_found_but_in_raw_text_and_tables() {
    let wide = "x".repeat(101);
    let check = |text: &str, expected: &[usize]| {
        assert_eq!(wide_lines(text, true), expected, "{text}");
    };
    check(&"x".repeat(100), &[]);
    check(&"é".repeat(100), &[]);
    check(&format!("a\n{wide}"), &[2]);
    check(&format!("// {wide}"), &[1]);
    check(&format!("let a = \"{wide}\";"), &[1]);
    check(&format!("let a = \"\\\n{wide}\";"), &[2]);
    check(&format!("let a = r#\"\n{wide}\n\"#;\n{wide}"), &[4]);
    check(&format!("//! | a | {wide} |"), &[]);
    assert_eq!(wide_lines(&format!("r\"\n{wide}\n\""), false), [2]);
    assert_eq!(wide_lines(&format!("| a | {wide} |"), false), [0; 0]);
}

#[test]
fn words_are_found_in_names_alone() {
    let table = "\
## Words that are not used
### In every crate
| not used | used |
|---|---|
| told, `Heard` | report |
| far (of nodes) | inter-node |
| `subject`, `Doubt` | `subject`, `KnownInvalid` |
| `a::Way`, `begin_send` | direction, reserve |
";
    let words = &banned(table)[EVERY_CRATE];
    let expected = ["told", "Heard", "Doubt", "begin_send"].map(str::to_owned);
    assert_eq!(*words, BTreeSet::from(expected));
    let words: Vec<&String> = words.iter().collect();
    for name in ["told", "is_told", "TOLD_ALL", "WasTold", "heard", "HeardAll", "begin_send_all"] {
        assert!(hit(name, &words).is_some(), "{name}");
    }
    for name in ["toldo", "retold", "begin", "unheard", "subject", "Way", "redoubt"] {
        assert!(hit(name, &words).is_none(), "{name}");
    }
    let code =
        Source::new("let a = \"told\"; // told\n/* told /* */ told */ b('\"', told, r#\"heard\"#)")
            .code;
    let found: Vec<&str> = code.lines().flat_map(names).collect();
    assert_eq!(found, ["let", "a", "b", "told"]);
    let lives: Vec<_> = names("fn of<'told>(it: &'told str)").filter(|it| *it == "told").collect();
    assert_eq!(lives.len(), 2);
}

#[test]
fn types_that_stand_twice_are_found() {
    let text =
        "struct A;\nmod b {\n    pub(crate) enum A { A }\n}\n// struct C\nstruct C;\ntrait D {}";
    assert_eq!(types(text), ["A", "A", "C", "D"]);
    assert_eq!(repeated(&types(text)), ["A"]);
}

/// The numbers of the lines that are too wide. Raw text of programs and rows of tables cannot be
/// broken, and may be.
fn wide_lines(text: &str, is_rust: bool) -> Vec<usize> {
    let raw = if is_rust { Source::new(text).raw_lines } else { BTreeSet::new() };
    let is_row =
        |line: &str| line.trim_start().trim_start_matches(['/', '!', ' ']).starts_with('|');
    let lines = text.lines().enumerate();
    let wide = lines
        .filter(|(at, line)| line.chars().count() > WIDTH && !raw.contains(at) && !is_row(line));
    wide.map(|(at, _)| at + 1).collect()
}

/// The words of each part of the glossary that are used no more.
fn banned(glossary: &str) -> BTreeMap<String, BTreeSet<String>> {
    let rest = glossary.split("## Words that are not used").nth(1).expect("the second part");
    let (mut words, mut part) = (BTreeMap::<String, BTreeSet<String>>::new(), String::new());
    for line in rest.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            part = title.to_owned();
            words.entry(part.clone()).or_default();
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let &["", left, right, ""] = &cells[..] else { continue };
        if left == "not used" || left.starts_with("---") || left.contains('(') {
            continue;
        }
        let kept = cell_words(right);
        let left = cell_words(left).into_iter().filter(|word| !kept.contains(word));
        words.get_mut(&part).expect("a part before its table").extend(left);
    }
    words
}

/// The single words of a cell; paths and phrases are none.
fn cell_words(cell: &str) -> BTreeSet<String> {
    let mut depth = 0;
    let split = cell.split(|character| {
        depth += i32::from(character == '{') - i32::from(character == '}');
        depth == 0 && (character == ',' || character == ';')
    });
    let words = split.map(|word| word.trim().trim_matches('`'));
    let is_word = |word: &&str| {
        !word.is_empty() && word.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
    };
    words.filter(is_word).map(str::to_owned).collect()
}

/// The word among `banned` whose parts stand in `name`, one behind the other.
fn hit<'a>(name: &str, banned: &[&'a String]) -> Option<&'a String> {
    let segments = segments(name);
    banned.iter().copied().find(|word| {
        let word = self::segments(word);
        segments.windows(word.len()).any(|window| window == word)
    })
}

/// The parts of a name in lower case: those of `is_told` and `IsTold` are `is`, `told`.
fn segments(name: &str) -> Vec<String> {
    let (mut segments, mut before) = (vec![String::new()], '_');
    for character in name.chars() {
        if character == '_' || (character.is_uppercase() && before.is_lowercase()) {
            segments.push(String::new());
        }
        if character != '_' {
            segments.last_mut().unwrap().extend(character.to_lowercase());
        }
        before = character;
    }
    segments.retain(|segment| !segment.is_empty());
    segments
}

/// The names in a line of code.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|it: char| !it.is_alphanumeric() && it != '_');
    words.filter(|word| word.starts_with(|it: char| it.is_alphabetic() || it == '_'))
}

/// The types and traits that a text defines.
fn types(text: &str) -> Vec<String> {
    let code = Source::new(text).code;
    let all: Vec<&str> = code.lines().flat_map(names).collect();
    let defined = all.windows(2).filter(|pair| {
        ["struct", "enum", "trait", "union"].contains(&pair[0])
            && pair[1].starts_with(char::is_uppercase)
    });
    defined.map(|pair| pair[1].to_owned()).collect()
}

/// What stands more than once in `all`, each once.
fn repeated(all: &[String]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let again: BTreeSet<&str> =
        all.iter().map(String::as_str).filter(|name| !seen.insert(*name)).collect();
    again.into_iter().collect()
}

fn is_rust(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "rs")
}
