//! The Python package beside PyTorch: one that is imagined, and that of Debian where there is one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{as_user, folder, package, pythons, root, succeed};

/// The wheel as pip would install it, in a folder for `PYTHONPATH`.
fn unpacked(python: &str) -> &'static Path {
    static UNPACKED: OnceLock<PathBuf> = OnceLock::new();
    UNPACKED.get_or_init(|| {
        let folder = folder("unpacked");
        let unpack = ["-m", "zipfile", "-e"];
        succeed(Command::new(python).args(unpack).arg(package(".whl")).arg(&folder));
        folder
    })
}

fn script(name: &str) -> PathBuf {
    root().join("crates/python/tests").join(name)
}

/// `python`, which finds the wheel and what lies in `more`.
fn with_wheel(python: &str, more: Option<&Path>) -> Command {
    let unpacked = unpacked(python);
    let paths = [Some(unpacked), more].into_iter().flatten();
    let mut command = as_user(python, unpacked);
    command.env("PYTHONPATH", std::env::join_paths(paths).unwrap());
    // Pythons are found as this test finds them.
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[test]
fn the_backend_is_made_by_name_over_this_library_alone() {
    let Some(python) = pythons().pop() else {
        return eprintln!("SKIPPED: the backend needs a Python from 3.10 on");
    };
    for version in ["2.11", "2.14"] {
        for case in ["in-place", "not-in-place"] {
            let mut command = with_wheel(&python, Some(&script("imagined")));
            command.env("IMAGINED_TORCH", version).arg(script("backend.py")).arg(case);
            assert_eq!(succeed(&mut command), "right\n", "{version} {case}");
        }
    }
}

#[test]
fn an_older_torch_is_told_which_backend_to_use() {
    const PYTHON: &str = "/usr/bin/python3";
    let has_torch = |python: &str| {
        let output = Command::new(python).args(["-c", "import torch.distributed"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !has_torch(PYTHON) {
        return eprintln!("SKIPPED: an older PyTorch needs that of Debian (python3-torch)");
    }
    let mut command = with_wheel(PYTHON, None);
    command.args(["-m", "msccl.run", "-m", "torch.distributed.run", "--standalone"]);
    // The oldest torchrun does not start where nothing is redirected.
    let logs = folder("torchrun");
    command.args(["--redirects", "2", "--tee", "2", "--log_dir"]).arg(logs);
    let printed = succeed(command.args(["--nproc_per_node", "2"]).arg(script("debian.py")));
    assert_eq!(printed.matches("right").count(), 2, "{printed}");
}
