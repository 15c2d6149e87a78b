//! The commands that documents show: each is run, and prints what the document says.
//!
//! | fence | what is done |
//! |---|---|
//! | `console` | each `$ command` is run; its output must be the lines below it |
//! | `console-times` | the same, but numbers, blanks and line breaks may differ |
//! | any, if the first line is `// NAME` or `# NAME` | the text is written to the file `NAME` |
//!
//! Each document has a folder of its own, in which its blocks are run in order. There,
//! `dsl-examples` and `docs` are those of the repository, and `msccl`, `libnccl.so.2` and
//! `nccl.h` are at hand. `MSCCL_BLESS=1` writes what was printed into the document.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::ours;

/// Documents with commands.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "docs/C.md",
    "docs/ESTIMATES.md",
    "docs/REPRODUCIBILITY.md",
    "docs/SIMULATORS.md",
    "docs/SYNTHESIS.md",
    "docs/TOPOLOGY.md",
    "docs/TRACING.md",
    "docs/TUNING.md",
    "docs/TUTORIAL.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
fn commands_print_what_documents_say() {
    let Some(library) = ours().filter(|_| has_c_compiler()) else {
        return eprintln!("SKIPPED: the commands of documents need libnccl.so and a C compiler");
    };
    let mut differences = Vec::new();
    for name in DOCUMENTS {
        let path = root().join(name);
        let text = fs::read_to_string(&path).unwrap();
        let folder = prepare(name, &library);
        let written = replay(name, &text, &folder, &mut differences);
        if std::env::var_os("MSCCL_BLESS").is_some() {
            fs::write(&path, written).unwrap();
            differences.clear();
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// Every document that has a command is in the list, so that none is forgotten.
#[test]
fn every_document_with_commands_is_run() {
    let mut documents = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            documents.push(format!("docs/{name}"));
        }
    }
    for name in documents {
        let Ok(text) = fs::read_to_string(root().join(&name)) else { continue };
        let shows = text.contains("```console");
        let listed = DOCUMENTS.contains(&name.as_str());
        assert_eq!(shows, listed, "{name}: DOCUMENTS lists it, or it shows no command");
    }
}

fn has_c_compiler() -> bool {
    Command::new("cc").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// A fresh folder for the commands of a document.
fn prepare(name: &str, library: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let link = |target: &Path, name: &str| {
        std::os::unix::fs::symlink(target, folder.join(name)).unwrap();
    };
    link(&root().join("dsl-examples"), "dsl-examples");
    link(&root().join("docs"), "docs");
    link(&root().join("crates/nccl/include/nccl.h"), "nccl.h");
    for name in ["libnccl.so.2", "libnccl.so"] {
        link(library, name);
    }
    folder
}

/// Runs the blocks of `text`, and gives `text` with what they printed.
fn replay(name: &str, text: &str, folder: &Path, differences: &mut Vec<String>) -> String {
    let mut written = String::new();
    let mut lines: VecDeque<(usize, &str)> = (1..).zip(text.lines()).collect();
    while let Some((number, line)) = lines.pop_front() {
        written += &format!("{line}\n");
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let end = lines.iter().position(|(_, line)| line.trim_start() == "```");
        let end = end.unwrap_or_else(|| panic!("{name}:{number}: this block has no end"));
        let block: Vec<&str> = lines.drain(..end).map(|(_, line)| line).collect();
        let close = lines.pop_front().map_or("", |(_, line)| line);
        let printed = match language {
            "console" => run_and_compare(&block, folder, is_equal),
            "console-times" => run_and_compare(&block, folder, is_alike),
            _ => {
                write_file(&block, folder);
                Ok(())
            }
        };
        let lines = match printed {
            Ok(()) => block.join("\n"),
            Err(printed) => {
                differences.push(format!("{name}:{number} prints other lines:\n{printed}"));
                printed
            }
        };
        written += &format!("{lines}\n{close}\n");
    }
    written
}

/// Runs a block; what it printed, if the document says something else.
fn run_and_compare(
    block: &[&str],
    folder: &Path,
    is_same: fn(&str, &str) -> bool,
) -> Result<(), String> {
    let printed = run_block(block, folder).join("\n");
    if is_same(&block.join("\n"), &printed) { Ok(()) } else { Err(printed) }
}

/// A block whose first line is a comment with nothing but a file's name is that file.
fn write_file(block: &[&str], folder: &Path) {
    let Some(first) = block.first() else { return };
    let Some(name) = first.strip_prefix("// ").or_else(|| first.strip_prefix("# ")) else { return };
    if name.contains('.') && !name.contains([' ', '/']) {
        fs::write(folder.join(name), block.join("\n") + "\n").unwrap();
    }
}

/// The commands of a block, each with what it printed below it.
fn run_block(block: &[&str], folder: &Path) -> Vec<String> {
    let mut printed = Vec::new();
    let mut lines = block.iter().peekable();
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("$ ") else { continue };
        printed.push((*line).to_owned());
        let mut command = command.to_owned();
        while command.ends_with('\\') {
            let more = lines.next().unwrap();
            printed.push((*more).to_owned());
            command = format!("{}{more}", command.trim_end_matches('\\'));
        }
        printed.extend(run(&command, folder).lines().map(|line| line.trim_end().to_owned()));
    }
    printed
}

/// What `command` prints on both streams, and its exit code if it is not 0.
fn run(command: &str, folder: &Path) -> String {
    let here = Path::new(env!("CARGO_BIN_EXE_msccl")).parent().unwrap();
    let path = format!("{}:{}", here.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("exec 2>&1; {command}")]).current_dir(folder);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("MSCCL_") || text.starts_with("NCCL_") {
            shell.env_remove(name);
        }
    }
    shell.env("PATH", path).env("LD_LIBRARY_PATH", folder).env("C_INCLUDE_PATH", folder);
    shell.env("NCCL_CONF_FILE", "/dev/null").env("MSCCL_KERNEL_CACHE", "off");
    shell.env("MSCCL_LIBRARY", folder.join("libnccl.so.2")).env("LIBRARY_PATH", folder);
    let output = shell.output().unwrap();
    let mut text = String::from_utf8(output.stdout).unwrap();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    match output.status.code() {
        Some(0) => text,
        code => format!("{text}exit code {}\n", code.unwrap_or(-1)),
    }
}

fn is_equal(expected: &str, found: &str) -> bool {
    expected.lines().map(str::trim_end).eq(found.lines().map(str::trim_end))
}

fn is_alike(expected: &str, found: &str) -> bool {
    masked(expected) == masked(found)
}

/// The words of `text`, every number as `#` and without units of time.
fn masked(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        let is_number = word.starts_with(|letter: char| letter.is_ascii_digit());
        let is_id = word.len() == 17 && word.ends_with(',');
        let is_unit = ["µs", "us", "ms", "s"].contains(&word.trim_end_matches([',', ';']));
        if is_number || is_id {
            words.push("#");
        } else if !is_unit {
            words.push(word);
        }
    }
    words
}
