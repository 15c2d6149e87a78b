//! Fetching the compiler that `kernels/requirements.txt` pins.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use msccl_gpu::Nvrtc;

use crate::root::root;

/// The pinned compiler, fetched into `target/kernels` if need be.
///
/// # Errors
///
/// What went wrong, with what to do.
pub fn load() -> Result<Nvrtc, String> {
    let root = root();
    let path = fetch(&root.join("kernels/requirements.txt"), &root.join("target/kernels"))?;
    Nvrtc::open(path.as_os_str())
}

/// Downloads and unpacks the compiler into `folder`, unless it lies there already; where it lies
/// then. What it loads itself lies beside it.
fn fetch(requirements: &Path, folder: &Path) -> Result<PathBuf, String> {
    let pinned = fs::read_to_string(requirements)
        .map_err(|error| format!("cannot read {}: {error}", requirements.display()))?;
    let stamp = folder.join("requirements.txt");
    if fs::read_to_string(&stamp).ok().as_deref() != Some(pinned.as_str()) {
        download(requirements, folder)?;
        fs::write(&stamp, &pinned).map_err(|error| error.to_string())?;
    }
    library(&folder.join("nvidia/cuda_nvrtc/lib"), "libnvrtc.so")
}

/// Pip checks the hashes; Python's own library unpacks the wheel.
fn download(requirements: &Path, folder: &Path) -> Result<(), String> {
    crate::say("fetching the compiler");
    let wheels = folder.join("wheels");
    fs::create_dir_all(&wheels).map_err(|error| error.to_string())?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]);
    pip.args(["--require-hashes", "--requirement"]).arg(requirements).arg("--dest").arg(&wheels);
    run(pip)?;
    let files = fs::read_dir(&wheels).map_err(|error| error.to_string())?;
    for wheel in files.filter_map(Result::ok).map(|entry| entry.path()) {
        let mut unpack = Command::new("python3");
        unpack.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(folder);
        run(unpack)?;
    }
    Ok(())
}

fn run(mut command: Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

/// The file in `folder` whose name begins with `name` and a version.
fn library(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let files = fs::read_dir(folder)
        .map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name))
    };
    let found = files.filter_map(Result::ok).map(|entry| entry.path()).find(named);
    found.ok_or_else(|| format!("{} holds no {name}: remove target/kernels", folder.display()))
}
