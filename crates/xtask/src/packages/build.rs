//! Building what is packed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::entry::Entry;
use super::glibc::{self, Needs};
use super::{Profile, read};
use crate::root::root;

/// The version of glibc for which `cargo zigbuild` builds, where it is installed: that of
/// PyTorch's wheels.
const GLIBC: &str = "2.28";
/// The packages that are built.
const PACKAGES: [&str; 3] = ["msccl-nccl", "msccl-cli", "msccl-python"];
/// The name of what Python calls.
pub const PYTHON: &str = "libmsccl_python.so";
/// What is built of them.
const FILES: [&str; 3] = ["libnccl.so", "msccl", PYTHON];
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// What was built.
pub struct Built {
    /// `libnccl.so.2`.
    pub library: Vec<u8>,
    /// `msccl`.
    pub command: Vec<u8>,
    /// What Python calls.
    pub python: Vec<u8>,
    /// What all of them need of the system.
    pub needs: Needs,
    folder: PathBuf,
}

/// Builds it.
pub fn build(profile: Profile, say: &dyn Fn(&str)) -> Result<Built, String> {
    let [library, command, python] = match profile {
        Profile::Dev => dev()?,
        Profile::Release => {
            let folder = release(say)?;
            FILES.map(|name| folder.join(name))
        }
    };
    let folder = command.parent().unwrap_or(&command).to_path_buf();
    let (library, command, python) = (read(&library)?, read(&command)?, read(&python)?);
    let needs =
        glibc::needs(&[("libnccl.so.2", &library), ("msccl", &command), (PYTHON, &python)])?;
    say(&format!("the programs need glibc {}.{}", needs.glibc.0, needs.glibc.1));
    Ok(Built { library, command, python, needs, folder })
}

/// The files of what tests use. They are those of the tests' own build: with other packages of the
/// workspace, cargo gives some libraries other features, and would build nearly everything anew.
fn dev() -> Result<[PathBuf; 3], String> {
    let mut command = Command::new("cargo");
    command.args(["test", "--workspace", "--no-run", "--quiet", "--message-format=json"]);
    let output = command.current_dir(root()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo failed: {}", output.status));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let files: Vec<_> = said.lines().flat_map(built_files).collect();
    let find = |name: &str| {
        let mut files = files.iter().rev();
        let found = files.find(|file| file.file_name().is_some_and(|of| of == name));
        found.cloned().ok_or_else(|| format!("cargo has built no {name}"))
    };
    let [library, command, python] = FILES;
    Ok([find(library)?, find(command)?, find(python)?])
}

/// The files that cargo says in one line to have built.
fn built_files(line: &str) -> Vec<PathBuf> {
    let said: Result<serde_json::Value, _> = serde_json::from_str(line);
    let names = said.as_ref().ok().and_then(|said| said.get("filenames")?.as_array());
    names.into_iter().flatten().filter_map(|name| Some(PathBuf::from(name.as_str()?))).collect()
}

/// The folder of a release build: for an older glibc where `cargo zigbuild` is at hand.
fn release(say: &dyn Fn(&str)) -> Result<PathBuf, String> {
    let has_zig = Command::new("cargo-zigbuild").arg("--version").output();
    if !has_zig.is_ok_and(|output| output.status.success()) {
        say(
            "cargo-zigbuild is not installed (`pip install cargo-zigbuild ziglang`): the programs \
             need the glibc of this machine",
        );
        return cargo(releasing(Command::new("cargo").arg("build")), "release");
    }
    let mut command = Command::new("cargo");
    command.args(["zigbuild", "--target", &format!("{TARGET}.{GLIBC}")]);
    cargo(releasing(&mut command), &format!("{TARGET}/release"))
}

/// With the options of a build for users: without symbols, with the versions that are locked, and
/// without the names of the folders in which it is built. Where folders lie in one another, the
/// last one that fits counts.
fn releasing(command: &mut Command) -> &mut Command {
    let home = std::env::var("CARGO_HOME").map_or_else(|_| home().join(".cargo"), PathBuf::from);
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    let folders = [(home, "/cargo"), (root(), "/msccl"), (target(), "/msccl/target")];
    let flags = folders.map(|(from, to)| remap(&from, to));
    // This variable counts before others of its kind, and lets paths have spaces.
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    command.args(["--release", "--locked", "--config", "profile.release.strip=true"])
}

/// The folder in which cargo builds.
fn target() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    // Cargo starts in the folder of the project.
    root().join(named.unwrap_or_else(|| "target".into()))
}

fn home() -> PathBuf {
    std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default()
}

/// Runs cargo, and returns the folder of what it has built.
fn cargo(command: &mut Command, folder: &str) -> Result<PathBuf, String> {
    let packages = PACKAGES.iter().flat_map(|package| ["--package", package]);
    let status = command.args(packages).current_dir(root()).status();
    let status = status.map_err(|error| format!("cannot start cargo: {error}"))?;
    if !status.success() {
        return Err(format!("cargo failed: {status}"));
    }
    Ok(target().join(folder))
}

impl Built {
    /// Pages of the manual, and completions for shells: made by the command.
    pub fn pages(&self) -> Result<Pages, String> {
        let manual = self.manual()?;
        let shells = ["bash", "zsh", "fish"];
        let completions = shells.map(|shell| Ok((shell, self.run(&["completions", shell])?)));
        let completions = completions.into_iter().collect::<Result<_, String>>()?;
        Ok(Pages { manual, completions })
    }

    /// Other processes may pack at the same time, so each has the pages in a folder of its own.
    fn manual(&self) -> Result<Vec<Entry>, String> {
        let folder = self.folder.join(format!("pages-{}", std::process::id()));
        self.run(&["manual", &folder.to_string_lossy()])?;
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        let mut manual = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            manual.push(Entry::file(name, read(&path)?));
        }
        fs::remove_dir_all(&folder).map_err(failed)?;
        manual.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(manual)
    }

    fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, String> {
        let program = self.folder.join("msccl");
        let output = Command::new(&program).args(arguments).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("msccl {arguments:?} failed: {}\n{said}", output.status));
        }
        Ok(output.stdout)
    }
}

/// What the command says of itself.
pub struct Pages {
    /// Pages of section 1.
    pub manual: Vec<Entry>,
    /// The name of a shell, and its script.
    pub completions: Vec<(&'static str, Vec<u8>)>,
}
