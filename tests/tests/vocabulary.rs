//! One word a thing: names, widths of lines and types in the folders that follow the glossary.
//!
//! The words come from the second part of `docs/GLOSSARY.md`, so that the two cannot differ. A row
//! whose left side has a remark in parentheses is about one sense of a word, which no test can
//! recognise; a path (`a::b`) names one item that was renamed. Neither is looked for here. A word of
//! the left side may stand within one of the right side: `ring` does in `ring_buffer`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::Path;

use msccl_tests::rust_text::Source;
use msccl_tests::source_tree::{files, root};

/// The folders that follow the glossary, each with the part of the glossary that is about it.
const DONE: &[(&str, Option<&str>)] = &[
    ("crates/bench", Some("bench, cli")),
    ("crates/bounds", None),
    ("crates/chakra", None),
    ("crates/cli", Some("bench, cli")),
    ("crates/collective", None),
    ("crates/compiler", Some("verify, compiler")),
    ("crates/environment", Some("nccl, environment, registry")),
    ("crates/fabric", Some("fabric, proxy, rdma")),
    ("crates/gpu", None),
    ("crates/gpu-tests", Some("gpu-tests and tests")),
    ("crates/hosts", None),
    ("crates/interchange", None),
    ("crates/ir", None),
    ("crates/machine", None),
    ("crates/nccl", Some("nccl, environment, registry")),
    ("crates/picture", None),
    ("crates/plan", Some("plan, kernels")),
    ("crates/processes", None),
    ("crates/proxy", Some("fabric, proxy, rdma")),
    ("crates/rdma", None),
    ("crates/registry", Some("nccl, environment, registry")),
    ("crates/runtime", Some("runtime")),
    ("crates/select", Some("runtime")),
    ("crates/simulate", None),
    ("crates/syntax", None),
    ("crates/topology", None),
    ("crates/verify", Some("verify, compiler")),
    ("kernels", Some("plan, kernels")),
    ("tests/kit", Some("gpu-tests and tests")),
];

/// A word that a folder may use: the far end of a wire is a field of the kernels' tables.
const ALLOWED: &[(&str, &str)] = &[("crates/runtime", "Far")];

const EVERY_CRATE: &str = "In every crate";
const WIDTH: usize = 100;
/// Files whose names are looked at. What is a comment or a literal in Rust is one in CUDA C++.
const CODE_FILES: [&str; 2] = ["rs", "cuh"];
/// Documents outside of the folders whose lines are measured.
const DOCUMENTS: [&str; 3] = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"];
/// What programs print and read, in blocks of documents whose lines cannot be broken.
const VERBATIM: [&str; 2] = ["console", "xml"];
const TEXT_FILES: [&str; 6] = ["rs", "md", "cuh", "cu", "msccl", "toml"];

#[test]
fn lines_have_at_most_100_columns() {
    let mut wide = Vec::new();
    let folders = DONE.iter().map(|(folder, _)| *folder).chain(["docs"]);
    let inside = folders.flat_map(|folder| files(&root().join(folder), &TEXT_FILES));
    let documents = DOCUMENTS.into_iter().map(|name| root().join(name));
    for file in inside.chain(documents) {
        let text = fs::read_to_string(&file).unwrap();
        let found = wide_lines(&text, Form::of(&file));
        wide.extend(found.into_iter().map(|line| format!("{}:{line}", file.display())));
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
        let banned = banned.filter(|(word, _)| !ALLOWED.contains(&(folder, word)));
        let banned: Vec<_> = banned.collect();
        for file in files(&root().join(folder), &CODE_FILES) {
            let code = Source::new(&fs::read_to_string(&file).unwrap()).code;
            for (number, line) in code.lines().enumerate() {
                for (name, word) in names(line).filter_map(|name| Some((name, hit(name, &banned)?)))
                {
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
        assert!(words[part].contains_key(word), "{part}: {word}");
    }
}

#[test]
fn wide_lines_are_found_but_in_raw_text_and_tables() {
    let wide = "x".repeat(101);
    let check = |text: &str, expected: &[usize]| {
        assert_eq!(wide_lines(text, Form::Rust), expected, "{text}");
    };
    check(&"x".repeat(100), &[]);
    check(&"é".repeat(100), &[]);
    check(&format!("a\n{wide}"), &[2]);
    check(&format!("// {wide}"), &[1]);
    check(&format!("let a = \"{wide}\";"), &[1]);
    check(&format!("let a = \"\\\n{wide}\";"), &[2]);
    check(&format!("let a = r#\"\n{wide}\n\"#;\n{wide}"), &[4]);
    check(&format!("//! | a | {wide} |"), &[]);
    assert_eq!(wide_lines(&format!("r\"\n{wide}\n\""), Form::Other), [2]);
    assert_eq!(wide_lines(&format!("| a | {wide} |"), Form::Other), [0; 0]);
    let document = |head: &str| format!("{wide}\n```{head}\n{wide}\n```\n{wide}");
    assert_eq!(wide_lines(&document("console-times"), Form::Document), [1, 5]);
    assert_eq!(wide_lines(&document("xml"), Form::Document), [1, 5]);
    assert_eq!(wide_lines(&document("rust"), Form::Document), [1, 3, 5]);
    assert_eq!(wide_lines(&document("xml"), Form::Other), [1, 3, 5]);
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
| `ring`, `Rings` | `ring_buffer`, `RingBuffers` |
";
    let words = &banned(table)[EVERY_CRATE];
    let expected = ["Doubt", "Heard", "Rings", "begin_send", "ring", "told"];
    assert_eq!(words.keys().collect::<Vec<_>>(), expected);
    let words: Vec<_> = words.iter().collect();
    for name in [
        "told",
        "is_told",
        "TOLD_ALL",
        "WasTold",
        "heard",
        "HeardAll",
        "begin_send_all",
        "ring",
        "the_ring_of_ring_buffers",
    ] {
        assert!(hit(name, &words).is_some(), "{name}");
    }
    for name in [
        "toldo",
        "retold",
        "begin",
        "unheard",
        "subject",
        "Way",
        "redoubt",
        "ring_buffer",
        "RingBuffersLimit",
        "own_ring_buffer",
    ] {
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
    let text = "struct A;\nmod b {\n    pub(crate) enum A { A }\n}\n// struct C\nstruct C;\ntrait D<'a> {}\n\
         fn f() { a.union(E::A) }";
    assert_eq!(types(text), ["A", "A", "C", "D"]);
    assert_eq!(repeated(&types(text)), ["A"]);
}

/// What decides which lines cannot be broken.
#[derive(Clone, Copy)]
enum Form {
    Rust,
    Document,
    Other,
}

impl Form {
    fn of(file: &Path) -> Self {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => Self::Rust,
            Some("md") => Self::Document,
            _ => Self::Other,
        }
    }
}

/// The numbers of the lines that are too wide. Raw text of programs, [`VERBATIM`] blocks and rows
/// of tables cannot be broken, and may be.
fn wide_lines(text: &str, form: Form) -> Vec<usize> {
    let raw = match form {
        Form::Rust => Source::new(text).raw_lines,
        Form::Document => verbatim_lines(text),
        Form::Other => BTreeSet::new(),
    };
    let is_row =
        |line: &str| line.trim_start().trim_start_matches(['/', '!', ' ']).starts_with('|');
    let lines = text.lines().enumerate();
    let wide = lines
        .filter(|(at, line)| line.chars().count() > WIDTH && !raw.contains(at) && !is_row(line));
    wide.map(|(at, _)| at + 1).collect()
}

/// Words that are used no more, each with the words that its row has in its place.
type Banned = BTreeMap<String, BTreeSet<String>>;

/// The words of each part of the glossary that are used no more.
fn banned(glossary: &str) -> BTreeMap<String, Banned> {
    let rest = glossary.split("## Words that are not used").nth(1).expect("the second part");
    let (mut words, mut part) = (BTreeMap::<String, Banned>::new(), String::new());
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
        let used = cell_words(right);
        let left = cell_words(left).into_iter().filter(|word| !used.contains(word));
        let left = left.map(|word| (word, used.clone()));
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

/// The word among `banned` whose parts stand in `name`, one behind the other, outside of the words
/// that are used in its place.
fn hit<'a>(name: &str, banned: &[(&'a String, &BTreeSet<String>)]) -> Option<&'a String> {
    let segments = segments(name);
    let is_hit = |word: &str, used: &BTreeSet<String>| {
        let within = used.iter().flat_map(|used| ranges(&segments, used));
        let within: Vec<Range<usize>> = within.collect();
        ranges(&segments, word)
            .any(|at| !within.iter().any(|used| used.start <= at.start && at.end <= used.end))
    };
    banned.iter().find(|(word, used)| is_hit(word, used)).map(|(word, _)| *word)
}

/// Where the parts of `word` stand among `segments`, one behind the other.
fn ranges(segments: &[String], word: &str) -> impl Iterator<Item = Range<usize>> {
    let word = self::segments(word);
    let length = word.len();
    let windows = segments.windows(length.max(1)).enumerate();
    windows.filter(move |(_, window)| **window == word).map(move |(at, _)| at..at + length)
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
    let all: Vec<&str> = code.split_whitespace().collect();
    let defined = all.windows(2).filter(|pair| {
        ["struct", "enum", "trait", "union"].contains(&pair[0])
            && pair[1].starts_with(char::is_uppercase)
    });
    defined.filter_map(|pair| names(pair[1]).next()).map(str::to_owned).collect()
}

/// What stands more than once in `all`, each once.
fn repeated(all: &[String]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let again: BTreeSet<&str> =
        all.iter().map(String::as_str).filter(|name| !seen.insert(*name)).collect();
    again.into_iter().collect()
}

/// The indices of the lines of [`VERBATIM`] blocks.
fn verbatim_lines(text: &str) -> BTreeSet<usize> {
    let mut block: Option<&str> = None;
    let mut verbatim = BTreeSet::new();
    for (at, line) in text.lines().enumerate() {
        if let Some(head) = line.trim_start().strip_prefix("```") {
            block = if block.is_none() { Some(head) } else { None };
        } else if block.is_some_and(|head| VERBATIM.iter().any(|word| head.starts_with(word))) {
            verbatim.insert(at);
        }
    }
    verbatim
}
