//! Pages of all examples, and of files that would like to be more than text.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use msccl_compiler::evaluate::{Launch, NoFiles, algorithms};
use msccl_ir::Target;
use msccl_pages::example::{launches, shown};
use msccl_pages::page::{PageRequest, html};
use msccl_pages::program::evaluated;
use msccl_pages::size::ByteSize;
use msccl_pages::steps::{Nodes, from_xml};
use msccl_pages::study::Study;
use msccl_pages::verdict::Verdict;
use msccl_syntax::SourceMap;
use msccl_topology::cluster::ranks::RankTopology;
use msccl_topology::cluster::{format, presets::preset};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn topology(name: &str) -> Option<RankTopology> {
    let path = root().join(format!("docs/examples/clusters/{name}.cluster"));
    let read = || format::parse(&fs::read_to_string(path).ok()?).ok();
    preset(name).or_else(read).map(|cluster| RankTopology::of(&cluster))
}

fn study(name: &str, text: &str, launch: &Launch) -> Study {
    let mut sources = SourceMap::new();
    let file = sources.add(name, text);
    let program = evaluated(name.to_owned(), sources, file, &NoFiles, launch, &mut |_| ());
    let program = program.unwrap_or_else(|failure| panic!("{name}: {failure}"));
    Study::of_program(text.to_owned(), name.to_owned(), program, Target::native())
}

fn page(study: &Study) -> String {
    let sizes = vec![ByteSize(1 << 10), ByteSize(1 << 20)];
    let timeline = ByteSize(1 << 20);
    html(study, &[], &PageRequest { sizes, timeline, ..PageRequest::default() })
}

/// The names of all elements, and that each ends in the right place.
fn elements(page: &str) -> BTreeSet<String> {
    const ALONE: [&str; 2] = ["meta", "!DOCTYPE"];
    let mut open: Vec<&str> = Vec::new();
    let mut names = BTreeSet::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').unwrap();
        rest = after;
        let name = tag.split([' ', '\n', '/']).find(|part| !part.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !tag.ends_with('/') && !ALONE.contains(&name) {
            open.push(name);
        }
        names.insert(name.to_owned());
    }
    assert_eq!(open, Vec::<&str>::new());
    names
}

const KNOWN: [&str; 37] = [
    "!DOCTYPE", "body", "code", "dd", "defs", "details", "div", "dl", "dt", "footer", "g", "h1",
    "h2", "head", "html", "li", "line", "marker", "meta", "ol", "p", "path", "pre", "rect", "span",
    "style", "summary", "svg", "table", "td", "text", "th", "title", "tr", "ul", "circle",
    "polyline",
];

fn check(page: &str) {
    let names = elements(page);
    let unknown: Vec<_> = names.iter().filter(|name| !KNOWN.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(
        !page.contains("http:") || page.matches("http:").count() == page.matches("xmlns").count()
    );
}

#[test]
fn every_example_has_a_page() {
    let (mut pages, mut timed) = (0, 0);
    for folder in fs::read_dir(root().join("dsl-examples")).unwrap() {
        let Ok(files) = fs::read_dir(folder.unwrap().path()) else { continue };
        for path in files.map(|file| file.unwrap().path()) {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.display().to_string();
            let launch = shown(&launches(&text, &topology).unwrap());
            let mut sources = SourceMap::new();
            let file = sources.add(name.clone(), text.clone());
            for algorithm in algorithms(&sources, file).unwrap() {
                let launch = Launch { algorithm: Some(algorithm.name), ..launch.clone() };
                let study = study(&name, &text, &launch);
                assert!(matches!(study.verdict, Verdict::Proved(_)), "{name}");
                let page = page(&study);
                check(&page);
                let entry = msccl_pages::gallery::entry(&name, &study).unwrap();
                assert!(entry.facts.len() >= 5, "{name}: {:?}", entry.facts);
                // What serves one placement alone has no estimate.
                timed += usize::from(entry.facts.iter().any(|fact| fact.contains("Estimates")));
                for part in ["✓ proved", "What moves where", "Who does it", "times the bound"] {
                    assert!(page.contains(part), "{name}: {part}");
                }
                pages += 1;
            }
        }
    }
    assert!(pages >= 60 && timed >= 60, "{timed} of {pages} timed");
}

#[test]
fn a_refused_program_shows_its_lines() {
    let text = "algorithm gather(ranks N = 4) implements allgather() in place {\n    \
                for step in 0..N-2, b in 0..N {\n        \
                output@((b + step + 1) % N)[b] = output@((b + step) % N)[b]\n    }\n}\n";
    let page = page(&study("gather.msccl", text, &Launch::default()));
    check(&page);
    assert!(page.contains("✗ refused: wrong-result"), "{page}");
    assert!(page.contains("<li class=\"fault\" id=\"line1\">"), "{page}");
    assert!(page.contains("no statement writes it"), "{page}");
    // What it does all the same is drawn.
    assert!(page.contains("What moves where") && page.contains("Who does it"));
}

/// Text that would be markup if it did not stand for itself.
const HOSTILE: &str = "</pre><script>alert(1)</script><img src=x onerror='alert(2)'>\"&amp;";

#[test]
fn names_and_texts_never_become_markup() {
    let program = format!(
        "// {HOSTILE}\nalgorithm copy(ranks N = 2) implements broadcast(root 0) {{\n    \
         output@0 = input@0 // {HOSTILE}\n    output@1 = input@0\n}}\n"
    );
    let page_of_program = page(&study(HOSTILE, &program, &Launch::default()));
    check(&page_of_program);
    assert!(page_of_program.contains("&lt;script&gt;alert(1)"));

    let escaped = HOSTILE.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let deadlock = fs::read_to_string(root().join("docs/examples/deadlock.xml")).unwrap();
    let xml = deadlock.replace("name=\"exchange\"", &format!("name=\"{escaped}\""));
    assert_ne!(xml, deadlock);
    let read = from_xml(HOSTILE.to_owned(), xml.clone(), None, Nodes::Supposed, &mut |_| ());
    let loaded = read.unwrap().map(|steps| steps.on_nodes(None));
    let page_of_xml = page(&Study::of_steps(xml, loaded));
    check(&page_of_xml);
    assert!(page_of_xml.contains("✗ refused: deadlock"));
    assert!(page_of_xml.contains("<h1>&lt;/pre&gt;&lt;script&gt;"), "{page_of_xml}");
}
