//! The book: the documents as a site, with a gallery of all examples and the playground.
//!
//! The folder of its sources has the documents where they are in the repository, so that links
//! between them hold. `mdbook` makes the site of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use msccl_compiler::evaluate::{Launch, NoFiles};
use msccl_ir::Target;
use msccl_pages::example::{launches, shown};
use msccl_pages::gallery::{GalleryEntry, entry, markdown, picture_file};
use msccl_pages::program::evaluated;
use msccl_pages::study::Study;
use msccl_syntax::SourceMap;
use msccl_topology::cluster::ranks::RankTopology;
use msccl_topology::cluster::{format, presets::preset};

use crate::root::{files, root};

/// Folders that documents link to.
const FOLDERS: [&str; 2] = ["docs", "dsl-examples"];

/// Documents beside them.
const FILES: [&str; 8] = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "crates/gpu-tests/README.md",
    "kernels/README.md",
    "tests/torch/README.md",
];

/// Where the repository is for readers of the site: links to what is no document lead there.
const CONFIGURATION: &str = r#"[book]
title = "msccl"
language = "en"
src = "src"

[build]
build-dir = "site"
# README.md stays README.html, so that links to it hold.
use-default-preprocessors = false

[output.html]
additional-css = ["programs.css"]
additional-js = ["programs.js"]
"#;

/// Makes sources and site in `folder`; `playground` is its page, if there is one.
pub fn build(folder: &Path, playground: Option<&Path>, say: &dyn Fn(&str)) -> Result<(), String> {
    let source = folder.join("src");
    for name in FOLDERS {
        copy(&root().join(name), &source.join(name))?;
    }
    for name in FILES {
        put(&source.join(name), &read(&root().join(name))?)?;
    }
    let groups = gallery()?;
    let mut text = String::from(INTRODUCTION);
    for (heading, entries) in &groups {
        let _ = write!(text, "\n{}", markdown(heading, entries));
        for GalleryEntry { name, title: _, facts: _, picture } in entries {
            let Some(picture) = picture else { continue };
            let file = source.join("docs/pictures/gallery").join(picture_file(name));
            put(&file, picture)?;
        }
    }
    put(&source.join("docs/GALLERY.md"), &text)?;
    put(&source.join("SUMMARY.md"), &summary(&source)?)?;
    put(&folder.join("book.toml"), CONFIGURATION)?;
    let page = root().join("crates/xtask/src/book");
    for name in ["programs.css", "programs.js"] {
        put(&folder.join(name), &read(&page.join(name))?)?;
    }
    make_site(folder)?;
    let site = folder.join("site");
    if let Some(page) = playground {
        let to = site.join("playground.html");
        fs::copy(page, &to).map_err(|error| format!("{}: {error}", to.display()))?;
    }
    let missing = missing_targets(&site, playground.is_some())?;
    if !missing.is_empty() {
        return Err(format!("links of the book lead nowhere:\n{}", missing.join("\n")));
    }
    let entries: usize = groups.values().map(Vec::len).sum();
    say(&format!("{}: {entries} algorithms in the gallery", site.join("index.html").display()));
    Ok(())
}

/// What stands above the gallery.
const INTRODUCTION: &str = "\
# Gallery

Every example, as the compiler, the verifier and the cost model see it. `S` stands for the bytes of
the largest buffer of a call. *Steps* are messages of which each waits for the one before. *Beside
the bound* says what the busiest link carries on the machine that is supposed, HGX H200, and how far
that is from what no schedule can beat there. Times are estimates of one copy of the program; the
library runs built-in algorithms in as many copies as serve best.
";

/// The entries of the gallery, by folder.
fn gallery() -> Result<BTreeMap<String, Vec<GalleryEntry>>, String> {
    let mut groups: BTreeMap<String, Vec<GalleryEntry>> = BTreeMap::new();
    let examples = root().join("dsl-examples");
    for path in files(&examples)? {
        if path.extension().is_none_or(|extension| extension != "msccl") {
            continue;
        }
        let name = path.strip_prefix(&examples).unwrap_or(&path).with_extension("");
        let name = name.to_string_lossy().into_owned();
        let group = name.split('/').next().unwrap_or_default().to_owned();
        groups.entry(group).or_default().push(entry(&name, &study(&name, &read(&path)?)?)?);
    }
    Ok(groups)
}

fn study(name: &str, text: &str) -> Result<Study, String> {
    let found = launches(text, &topology).map_err(|why| format!("{name}: {why}"))?;
    let launch: Launch = shown(&found);
    let mut sources = SourceMap::new();
    let file = sources.add(name, text);
    let program = evaluated(name.to_owned(), sources, file, &NoFiles, &launch, &mut |_| ());
    let program = program.map_err(|failure| failure.to_string())?;
    Ok(Study::of_program(text.to_owned(), name.to_owned(), program, Target::native()))
}

fn topology(name: &str) -> Option<RankTopology> {
    let path = root().join(format!("docs/examples/clusters/{name}.cluster"));
    let read = || format::parse(&fs::read_to_string(path).ok()?).ok();
    preset(name).or_else(read).map(|cluster| RankTopology::of(&cluster))
}

/// The order of chapters: the tutorial and the gallery, then as `docs/README.md` lists them, then
/// what it does not list.
fn summary(source: &Path) -> Result<String, String> {
    let mut text = String::from("# Summary\n\n[msccl](README.md)\n\n");
    let mut known = BTreeSet::from(["README.md".to_owned(), "SUMMARY.md".to_owned()]);
    let mut chapter = |text: &mut String, path: String, title: &str| {
        if source.join(&path).is_file() && known.insert(path.clone()) {
            let _ = writeln!(text, "- [{title}]({path})");
        }
    };
    chapter(&mut text, "docs/TUTORIAL.md".to_owned(), "Tutorial");
    chapter(&mut text, "docs/GALLERY.md".to_owned(), "Gallery");
    chapter(&mut text, "docs/README.md".to_owned(), "All documents");
    for line in read(&source.join("docs/README.md"))?.lines() {
        if let Some(part) = line.strip_prefix("## ") {
            let _ = writeln!(text, "\n# {part}\n");
        }
        let Some((title, path)) = first_link(line) else { continue };
        if let Some(path) = path.strip_suffix(".md") {
            let path = resolved("docs", &format!("{path}.md"));
            let title = title.trim_end_matches(".md");
            chapter(&mut text, path, title);
        }
    }
    text.push_str("\n# Further\n\n");
    for path in files(source)? {
        let path = path.strip_prefix(source).unwrap_or(&path).to_string_lossy().into_owned();
        if let Some(title) = path.strip_suffix(".md") {
            chapter(&mut text, path.clone(), title.trim_start_matches("docs/"));
        }
    }
    Ok(text)
}

/// The title and the target of the first link of a line.
fn first_link(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once('[')?;
    let (title, rest) = rest.split_once("](")?;
    let (target, _) = rest.split_once(')')?;
    Some((title, target))
}

/// `target` as seen from `folder`, without `..` in it.
fn resolved(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn make_site(folder: &Path) -> Result<(), String> {
    let made = Command::new("mdbook").arg("build").arg(folder).output();
    let made = made
        .map_err(|error| format!("cannot run mdbook ({error}); `cargo install mdbook` gives it"))?;
    if made.status.success() {
        return Ok(());
    }
    Err(format!("mdbook failed: {}", String::from_utf8_lossy(&made.stderr)))
}

/// Links within the site that lead nowhere, each with its page.
fn missing_targets(site: &Path, has_playground: bool) -> Result<Vec<String>, String> {
    let mut missing = Vec::new();
    for page in files(site)? {
        let relative = page.strip_prefix(site).unwrap_or(&page).to_string_lossy().into_owned();
        // The page for printing has all chapters in one, and their links as they were.
        let is_page = relative.ends_with(".html") && relative.starts_with("docs");
        if !is_page {
            continue;
        }
        let folder = Path::new(&relative).parent().unwrap_or(Path::new(""));
        for target in read(&page)?.split("href=\"").skip(1) {
            let target = target.split(['"', '#', '?']).next().unwrap_or_default();
            let is_outside = target.contains(':') || target.is_empty();
            let is_page = target.ends_with(".html");
            if is_outside || !is_page || (!has_playground && target.ends_with("playground.html")) {
                continue;
            }
            let path = resolved(&folder.to_string_lossy(), target);
            if !site.join(&path).is_file() {
                missing.push(format!("{relative}: {target}"));
            }
        }
    }
    missing.sort();
    missing.dedup();
    Ok(missing)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    for path in files(from)? {
        let target = to.join(path.strip_prefix(from).unwrap_or(&path));
        make_folder_of(&target)?;
        fs::copy(&path, &target).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn make_folder_of(path: &Path) -> Result<(), String> {
    let Some(folder) = path.parent() else { return Ok(()) };
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    make_folder_of(path)?;
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn links_are_seen_from_their_folder() {
        assert_eq!(resolved("docs", "../dsl-examples/README.md"), "dsl-examples/README.md");
        assert_eq!(resolved("docs", "results/x.md"), "docs/results/x.md");
        assert_eq!(first_link("| [A](B.md) | [C](D) |"), Some(("A", "B.md")));
        assert_eq!(first_link("| `msccl --help` | all |"), None);
    }

    #[test]
    fn every_document_is_a_chapter_once() {
        let text = summary(&root()).unwrap_or_default();
        for document in ["docs/TUTORIAL.md", "docs/LANGUAGE.md", "docs/TESTING.md"] {
            assert_eq!(text.matches(&format!("({document})")).count(), 1, "{document}\n{text}");
        }
    }
}
