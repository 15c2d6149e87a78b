//! Every program in `dsl-examples/`, at every size its `// test:` lines name: it evaluates and does
//! what its collective promises, in place and out of place.
//!
//! A program that needs two memories says so in a line `// out of place only: reason`, and is
//! then refused in place for at least one of its sizes.

use std::fs;
use std::path::{Path, PathBuf};

use msccl_collective::Placement;
use msccl_compiler::chunk::check_promise;
use msccl_compiler::evaluate::{Launch, NoFiles, algorithms, evaluate};
use msccl_syntax::{Diagnostic, SourceMap, format};

/// One program and the launches it asks to be tested with.
struct Example {
    path: PathBuf,
    text: String,
    launches: Vec<Launch>,
}

impl Example {
    fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).unwrap();
        let tests = text.lines().filter_map(|line| line.strip_prefix("// test: "));
        let launches = tests.flat_map(|test| launches(test, &path)).collect();
        Self { path, text, launches }
    }

    fn is_out_of_place_only(&self) -> bool {
        self.text.contains("\n// out of place only: ")
    }

    /// What is said against a launch.
    fn refusal(&self, launch: &Launch) -> Result<(), String> {
        let mut sources = SourceMap::new();
        let file = sources.add(self.path.display().to_string(), self.text.clone());
        let told = |diagnostics: Vec<Diagnostic>| {
            let messages: Vec<_> = diagnostics.into_iter().map(|one| one.message).collect();
            format!("{} with {launch:?}: {}", self.path.display(), messages.join("; "))
        };
        let dag = evaluate(&mut sources, file, &NoFiles, launch).map_err(told)?;
        check_promise(&dag).map_err(told)
    }

    fn algorithms(&self) -> Vec<String> {
        let mut sources = SourceMap::new();
        let file = sources.add(self.path.display().to_string(), self.text.clone());
        let found = algorithms(&sources, file).unwrap();
        found.into_iter().map(|algorithm| algorithm.name).collect()
    }
}

/// The launches of `ranks 2 4 8, per_node 2, C 1`: one for each number of ranks.
fn launches(test: &str, path: &Path) -> Vec<Launch> {
    let malformed = || panic!("{}: cannot read `// test: {test}`", path.display());
    let mut settings = test.split(", ");
    let Some(ranks) = settings.next().and_then(|first| first.strip_prefix("ranks ")) else {
        malformed()
    };
    let mut rest = Launch::default();
    for setting in settings {
        match setting.split_once(' ') {
            Some(("per_node", value)) => rest.per_node = Some(value.parse().unwrap()),
            Some((name, value)) => rest.params.push((name.to_owned(), value.parse().unwrap())),
            None => malformed(),
        }
    }
    let ranks = ranks.split(' ').map(|count| Some(count.parse().unwrap()));
    ranks.map(|ranks| Launch { ranks, ..rest.clone() }).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dsl-examples")
}

fn examples() -> Vec<Example> {
    let files_of = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let folders = files_of(&root()).into_iter().filter(|path| path.is_dir());
    let mut paths: Vec<_> = folders.flat_map(|folder| files_of(&folder)).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "msccl"));
    paths.sort();
    paths.into_iter().map(Example::read).collect()
}

/// What is said against an example as `placement`, over all its algorithms and launches.
fn refusals(example: &Example, placement: Option<Placement>) -> Vec<String> {
    let algorithms = example.algorithms();
    let each = algorithms.iter().flat_map(|name| {
        example.launches.iter().filter_map(move |launch| {
            let algorithm = Some(name.clone());
            example.refusal(&Launch { algorithm, placement, ..launch.clone() }).err()
        })
    });
    each.collect()
}

fn assert_none(refusals: &[String]) {
    assert!(refusals.is_empty(), "{}", refusals.join("\n"));
}

#[test]
fn every_example_keeps_its_promise_as_declared() {
    let refused: Vec<_> = examples().iter().flat_map(|one| refusals(one, None)).collect();
    assert_none(&refused);
}

#[test]
fn every_example_serves_calls_out_of_place() {
    let placement = Some(Placement::OutOfPlace);
    let refused: Vec<_> = examples().iter().flat_map(|one| refusals(one, placement)).collect();
    assert_none(&refused);
}

#[test]
fn examples_serve_calls_in_place_unless_they_say_otherwise() {
    let placement = Some(Placement::InPlace);
    let (apart, together): (Vec<_>, Vec<_>) =
        examples().into_iter().partition(Example::is_out_of_place_only);
    let refused: Vec<_> = together.iter().flat_map(|one| refusals(one, placement)).collect();
    assert_none(&refused);
    for example in apart {
        let path = example.path.display();
        assert!(!refusals(&example, placement).is_empty(), "{path} serves in-place calls as well");
    }
}

#[test]
fn every_example_teaches() {
    let examples = examples();
    assert!(examples.len() >= 30, "{} examples", examples.len());
    for example in examples {
        let path = example.path.display();
        assert!(!example.launches.is_empty(), "{path} has no `// test:` line");
        for part in ["// Steps:", "// Bytes:", "// Use:", "// Source:"] {
            assert!(example.text.contains(part), "{path} does not say `{part}`");
        }
        let long = example.text.lines().find(|line| line.chars().count() > 100);
        assert_eq!(long, None, "{path} has a line of more than 100 characters");
    }
}

#[test]
fn the_index_lists_every_example() {
    let index = fs::read_to_string(root().join("README.md")).unwrap();
    for example in examples() {
        let place = example.path.strip_prefix(root()).unwrap().display().to_string();
        assert!(index.contains(&format!("({place})")), "dsl-examples/README.md lacks {place}");
    }
}

#[test]
fn formatting_twice_changes_nothing_more() {
    for example in examples() {
        let once = format(&example.text).unwrap();
        assert_eq!(format(&once).unwrap(), once, "{}", example.path.display());
    }
}
