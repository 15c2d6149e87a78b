//! The second part of `docs/GLOSSARY.md`: words that are used no more, and who follows it.
//!
//! A row whose left side has a remark in parentheses is about one sense of a word, which no test
//! can recognise; a path (`a::b`) names one item that was renamed. Neither is looked for. A word of
//! the left side may stand within one of the right side: `ring` does in `ring_buffer`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;

use msccl_tests::source_tree::root;

/// The folders that follow the glossary, each with the part of the glossary that is about it.
pub const DONE: &[(&str, Option<&str>)] = &[
    ("crates/bench", Some("bench, cli")),
    ("crates/bounds", None),
    ("crates/chakra", None),
    ("crates/cli", Some("bench, cli")),
    ("crates/collective", None),
    ("crates/compiler", Some("verify, compiler")),
    ("crates/doctor", None),
    ("crates/environment", Some("nccl, environment, registry")),
    ("crates/fabric", Some("fabric, proxy, rdma")),
    ("crates/gpu", None),
    ("crates/gpu-tests", Some("gpu-tests and tests")),
    ("crates/hosts", None),
    ("crates/interchange", None),
    ("crates/ir", None),
    ("crates/lsp", None),
    ("crates/machine", None),
    ("crates/nccl", Some("nccl, environment, registry")),
    ("crates/picture", None),
    ("crates/plan", Some("plan, kernels")),
    ("crates/processes", None),
    ("crates/proxy", Some("fabric, proxy, rdma")),
    ("crates/python", None),
    ("crates/rdma", None),
    ("crates/registry", Some("nccl, environment, registry")),
    ("crates/runtime", Some("runtime")),
    ("crates/select", Some("runtime")),
    ("crates/simulate", None),
    ("crates/syntax", None),
    ("crates/synthesize", None),
    ("crates/topology", None),
    ("crates/trace", None),
    ("crates/verify", Some("verify, compiler")),
    ("kernels", Some("plan, kernels")),
    ("tests/kit", Some("gpu-tests and tests")),
];

/// The part of the glossary that is about all of them.
pub const EVERY_CRATE: &str = "In every crate";
/// The part about names that users see: the old ones work, and documents say what they are.
pub const ALIASES: &str = "Names that users see";

/// Words that are used no more, each with the words that its row has in its place.
pub type Banned = BTreeMap<String, BTreeSet<String>>;

/// The words of each part of `docs/GLOSSARY.md` that are used no more.
pub fn words() -> BTreeMap<String, Banned> {
    banned(&fs::read_to_string(root().join("docs/GLOSSARY.md")).unwrap())
}

/// The words of each part of a glossary that are used no more.
pub fn banned(glossary: &str) -> BTreeMap<String, Banned> {
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
pub fn hit<'a>(name: &str, banned: &[(&'a String, &BTreeSet<String>)]) -> Option<&'a String> {
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
pub fn names(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|it: char| !it.is_alphanumeric() && it != '_');
    words.filter(|word| word.starts_with(|it: char| it.is_alphabetic() || it == '_'))
}
