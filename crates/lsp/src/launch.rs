//! For which ranks and on which machine programs are judged.
//!
//! In order of weight: what a code lens chose, what a comment above the algorithm says, what the
//! editor's settings say, what the program itself says. A comment is of the form
//!
//! ```text
//! // msccl: ranks 4 8, per_node 4, topo ndv2*2, target msccl, C 2
//! ```
//!
//! where every part may be left out, `ranks` may name several numbers, each of which is judged, and
//! what has another name is a parameter of the algorithm. It is about the next algorithm below it;
//! each such comment asks for launches of its own.

use std::ops::Range;

use msccl_syntax::ast;
use serde::Deserialize;

use crate::token::{TokenKind, tokens};

/// What the editor's settings say.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// How many ranks take part.
    pub ranks: Option<u32>,
    /// Ranks on one node.
    pub per_node: Option<u32>,
    /// The machine, as `--topo` takes it.
    pub topology: Option<String>,
    /// `native` or `msccl`.
    pub target: Option<String>,
    /// Whether to prove while typing.
    pub prove: bool,
    /// Whether to show what is proved beside the head of an algorithm.
    pub inlay_hints: bool,
    /// For how many ranks code lenses offer a proof.
    pub lens_ranks: Vec<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ranks: None,
            per_node: None,
            topology: None,
            target: None,
            prove: true,
            inlay_hints: true,
            lens_ranks: vec![8, 16, 64],
        }
    }
}

/// One instance of an algorithm.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RequestedLaunch {
    /// The algorithm.
    pub algorithm: String,
    /// How many ranks take part.
    pub ranks: Option<u32>,
    /// Ranks on one node.
    pub per_node: Option<u32>,
    /// The machine, as `--topo` takes it.
    pub topology: Option<String>,
    /// The target's name; else native.
    pub target: Option<String>,
    /// Values of parameters.
    pub params: Vec<(String, i64)>,
}

/// A comment that cannot be understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaunchError {
    /// Where, in bytes.
    pub bytes: Range<usize>,
    /// What was expected and found.
    pub message: String,
}

/// What a comment begins with.
const MARK: &str = "msccl:";

/// Most launches of one algorithm that are judged.
const MOST_LAUNCHES: usize = 8;

/// The launches of the algorithms in `file`, in order, and the comments that say nothing.
pub fn launches(
    text: &str,
    file: &ast::File,
    settings: &Settings,
    chosen: impl Fn(&str) -> Option<u32>,
) -> (Vec<RequestedLaunch>, Vec<LaunchError>) {
    let comments = comments(text);
    let mut errors = Vec::new();
    let mut all = Vec::new();
    let mut above = 0;
    for item in &file.items {
        let (span, algorithm) = match item {
            ast::Item::Algorithm(item) => (item.span, Some(&item.name.text)),
            ast::Item::Function(item) => (item.span, None),
            ast::Item::Collective(item) => (item.span, None),
        };
        if let Some(name) = algorithm {
            let lines = comments.iter().filter(|(bytes, _)| bytes.end <= span.start as usize);
            let lines = lines.filter(|(bytes, _)| bytes.start >= above);
            let mut found = of_comments(lines, &mut errors);
            complete(&mut found, name, settings, chosen(name));
            all.append(&mut found);
            above = span.end as usize;
        }
    }
    (all, errors)
}

/// The comments with the mark: their bytes, and what follows it.
fn comments(text: &str) -> Vec<(Range<usize>, &str)> {
    let comments = tokens(text).into_iter().filter(|token| token.kind == TokenKind::Comment);
    let marked = comments.filter_map(|token| {
        let content = token.of(text).trim_start_matches('/').trim_start();
        Some((token.bytes.clone(), content.strip_prefix(MARK)?.trim()))
    });
    marked.collect()
}

fn of_comments<'t>(
    lines: impl Iterator<Item = &'t (Range<usize>, &'t str)>,
    errors: &mut Vec<LaunchError>,
) -> Vec<RequestedLaunch> {
    let mut found = Vec::new();
    for (bytes, line) in lines {
        match of_line(line) {
            Ok(launches) => found.extend(launches),
            Err(message) => errors.push(LaunchError { bytes: bytes.clone(), message }),
        }
    }
    found
}

/// The launches of one comment.
fn of_line(line: &str) -> Result<Vec<RequestedLaunch>, String> {
    let mut ranks = Vec::new();
    let mut launch = RequestedLaunch::default();
    for part in line.split(',').map(str::trim) {
        let Some((name, value)) = part.split_once(' ') else {
            return Err(format!(
                "expected a name and a value, found `{part}`; write for instance \
                 `// msccl: ranks 8, topo hgx-h100-8, C 2`"
            ));
        };
        let value = value.trim();
        match name {
            "ranks" => ranks = value.split_whitespace().map(count).collect::<Result<_, _>>()?,
            "per_node" => launch.per_node = Some(count(value)?),
            "topo" => launch.topology = Some(value.to_owned()),
            "target" => launch.target = Some(target(value)?),
            name => launch.params.push((name.to_owned(), integer(value)?)),
        }
    }
    if ranks.is_empty() {
        return Ok(vec![launch]);
    }
    let ranks = ranks.into_iter().map(Some);
    Ok(ranks.map(|ranks| RequestedLaunch { ranks, ..launch.clone() }).collect())
}

fn target(name: &str) -> Result<String, String> {
    match msccl_ir::Target::by_name(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err(format!("expected `native` or `msccl`, found `{name}`")),
    }
}

fn count(text: &str) -> Result<u32, String> {
    let wrong = || format!("expected a number of ranks, 1 or more, found `{text}`");
    text.parse().ok().filter(|count| *count > 0).ok_or_else(wrong)
}

/// An integer as the language writes it.
fn integer(text: &str) -> Result<i64, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let sized = units.iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, *bits)));
    let (digits, bits) = sized.unwrap_or((text, 0));
    let number: Option<i64> = digits.replace('_', "").parse().ok();
    number
        .and_then(|number| number.checked_mul(1 << bits))
        .ok_or_else(|| format!("expected an integer, found `{text}`; parameters are integers"))
}

/// Fills in what comments leave open.
fn complete(
    found: &mut Vec<RequestedLaunch>,
    name: &str,
    settings: &Settings,
    chosen: Option<u32>,
) {
    if found.is_empty() {
        found.push(RequestedLaunch::default());
    }
    if chosen.is_some() {
        found.truncate(1);
    }
    found.truncate(MOST_LAUNCHES);
    for launch in found {
        launch.algorithm = name.to_owned();
        let says_where = launch.ranks.is_some() || launch.topology.is_some();
        launch.ranks = chosen.or(launch.ranks).or(settings.ranks.filter(|_| !says_where));
        launch.per_node = launch.per_node.or(settings.per_node);
        let machine = settings.topology.clone().filter(|_| !says_where && chosen.is_none());
        launch.topology = launch.topology.take().or(machine);
        launch.target = launch.target.take().or_else(|| settings.target.clone());
    }
}

impl RequestedLaunch {
    /// What it asks for beyond the program: `ranks 8, C 2`; empty if nothing.
    pub fn words(&self) -> String {
        let Self { algorithm: _, ranks, per_node, topology, target, params } = self;
        let mut parts = Vec::new();
        parts.extend(ranks.map(|ranks| format!("ranks {ranks}")));
        parts.extend(per_node.map(|per_node| format!("per_node {per_node}")));
        parts.extend(topology.as_ref().map(|topology| format!("topo {topology}")));
        parts.extend(target.as_ref().map(|target| format!("target {target}")));
        parts.extend(params.iter().map(|(name, value)| format!("{name} {value}")));
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_syntax::{SourceMap, parse};

    fn found(text: &str, settings: &Settings, chosen: Option<u32>) -> (Vec<String>, Vec<String>) {
        let mut sources = SourceMap::new();
        let file = sources.add("x", text);
        let tree = parse(&sources, file).unwrap();
        let (launches, errors) = launches(text, &tree, settings, |_| chosen);
        let words = launches.iter().map(|it| format!("{}: {}", it.algorithm, it.words()));
        (words.collect(), errors.into_iter().map(|error| error.message).collect())
    }

    const TWO: &str = "\
// msccl: ranks 4 8, C 64KiB
algorithm a(ranks N) implements allreduce() { }
// msccl: topo ndv2*2, target msccl
fn f() = 1
algorithm b(ranks N) implements allreduce() { }
";

    #[test]
    fn comments_are_about_the_next_algorithm() {
        let (words, errors) = found(TWO, &Settings::default(), None);
        assert_eq!(
            words,
            ["a: ranks 4, C 65536", "a: ranks 8, C 65536", "b: topo ndv2*2, target msccl"]
        );
        assert!(errors.is_empty());
    }

    #[test]
    fn lenses_outweigh_comments_and_those_settings() {
        let settings =
            Settings { ranks: Some(2), topology: Some("ndv4".to_owned()), ..Settings::default() };
        let (words, _) = found(TWO, &settings, Some(64));
        assert_eq!(words[0], "a: ranks 64, C 65536");
        let (words, _) = found("algorithm a(ranks N) implements allreduce() { }", &settings, None);
        assert_eq!(words, ["a: ranks 2, topo ndv4"]);
    }

    #[test]
    fn what_cannot_be_understood_is_said() {
        for line in ["ranks", "ranks x", "ranks 0", "C x", "target gpu"] {
            let text = format!("// msccl: {line}\n{}", "algorithm a(ranks N) implements x() { }");
            let (words, errors) = found(&text, &Settings::default(), None);
            assert_eq!((words.len(), errors.len()), (1, 1), "{line}");
        }
    }
}
