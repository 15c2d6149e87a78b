//! `msccl lsp` and the editors it is for: the process, Neovim, the client for VS Code, Emacs.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "skips are said aloud")]

mod emacs;
mod neovim;
mod process;
mod vscode;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The command.
pub const MSCCL: &str = env!("CARGO_BIN_EXE_msccl");

/// The files for editors.
pub fn editors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../lsp/editors").canonicalize().unwrap()
}

/// This folder.
pub fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/editors")
}

/// A fresh folder.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("editors").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder.canonicalize().unwrap()
}

/// Whether a program is at hand; if not, the test says so.
pub fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("SKIPPED: {program} is not installed");
    }
    is_there
}

/// Runs a program, with its caches in a folder of the test, and fails unless it ends well.
pub fn run(command: &mut Command, folder: &Path) -> String {
    let output = command.env("XDG_CACHE_HOME", folder.join("cache")).current_dir(folder).output();
    let Output { status, stdout, stderr } = output.unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{text}");
    text
}
