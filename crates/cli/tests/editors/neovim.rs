//! Neovim without a screen drives the server: diagnostics, hover, completion, rename, formatting.

use std::fs;
use std::process::Command;

use crate::{MSCCL, editors, folder, here, is_there, run};

#[test]
fn neovim_drives_the_server() {
    if !is_there("nvim") {
        return;
    }
    let folder = folder("neovim");
    fs::write(folder.join("other.msccl"), "// Doubles. 😀\nfn twice(a) = 2*a\n").unwrap();
    let main = "import \"other.msccl\"\n\n\
                algorithm a(ranks N = 4) implements allreduce() in place {\n    \
                /* 😀 */ let n = twice(1)\n    for r in 1..N { input@0 +=   input@r }\n    \
                for r in 1..N { input@r = input@0 }\n}\n"
        .replace("/* 😀 */ ", "");
    fs::write(folder.join("main.msccl"), main).unwrap();
    let mut nvim = Command::new("nvim");
    nvim.args(["--headless", "-u", "NONE", "-i", "NONE", "--cmd"]);
    nvim.arg(format!("set runtimepath^={}", editors().join("neovim").display()));
    nvim.args(["--cmd", "filetype plugin on", "--cmd", "syntax on", "-c"]);
    nvim.arg(format!("luafile {}", here().join("drive.lua").display()));
    let text = run(nvim.env("MSCCL", MSCCL), &folder);
    for done in ["diagnostics", "hover", "completion", "rename", "formatting", "definition"] {
        assert!(text.contains(&format!("ok {done}")), "{done}:\n{text}");
    }
    // Renaming reached the file that was not open.
    let other = fs::read_to_string(folder.join("other.msccl")).unwrap();
    assert!(other.contains("fn double(a)"), "{other}");
}
