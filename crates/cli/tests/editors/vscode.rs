//! The client for VS Code, in Node with a stand-in for the editor's interface: what it registers
//! answers as the server does, and what it shows arrives.

use std::fs;
use std::process::Command;

use crate::{MSCCL, editors, folder, here, is_there, run};

#[test]
fn the_client_for_vs_code_drives_the_server() {
    if !is_there("node") {
        return;
    }
    let folder = folder("vscode");
    fs::write(folder.join("other.msccl"), "// Doubles. 😀\nfn twice(a) = 2*a\n").unwrap();
    let mut node = Command::new("node");
    node.arg(here().join("drive.js")).arg(editors().join("vscode")).env("MSCCL", MSCCL);
    let text = run(&mut node, &folder);
    assert!(text.contains("ok all"), "{text}");
}
