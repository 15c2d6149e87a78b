//! What is given to users, made once by `xtask dist --dev`, and used as users use it: without cargo
//! and without this repository.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::print_stderr, reason = "skips are said aloud")]

mod torch;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A fresh folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// All packages.
fn dist() -> &'static Path {
    static DIST: OnceLock<PathBuf> = OnceLock::new();
    DIST.get_or_init(|| made("dist"))
}

fn made(name: &str) -> PathBuf {
    let folder = folder(name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    succeed(command.args(["dist", "--dev", "--output"]).arg(&folder));
    folder
}

/// The package that ends so.
fn package(extension: &str) -> PathBuf {
    let paths = fs::read_dir(dist()).unwrap().map(|entry| entry.unwrap().path());
    let mut found = paths.filter(|path| path.to_string_lossy().ends_with(extension));
    found.next().unwrap_or_else(|| panic!("no {extension} in {}", dist().display()))
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// `program` as somebody starts it who has no Rust, and none of our variables.
fn as_user(program: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", folder).current_dir(folder);
    command
}

/// The main job: an algorithm is proved, and the library is right on the host.
fn main_job(program: &Path, folder: &Path) {
    let ring = ["verify", "allreduce/ring", "--ranks", "4"];
    let proved = succeed(as_user(program, folder).args(ring));
    assert!(proved.starts_with("proved   allreduce/ring: ring"), "{proved}");
    let bench = ["bench", "allreduce", "--device", "host", "--ranks", "2"];
    let sizes = ["-b", "1K", "-e", "64K", "-f", "64", "-n", "2"];
    let measured = succeed(as_user(program, folder).args(bench).args(sizes));
    assert!(measured.contains("# Collective test concluded: allreduce"), "{measured}");
}

#[test]
fn packing_again_gives_the_same_bytes() {
    let again = made("again");
    let mut compared = 0;
    for entry in fs::read_dir(dist()).unwrap() {
        let path = entry.unwrap().path();
        let other = again.join(path.file_name().unwrap());
        assert!(fs::read(&path).unwrap() == fs::read(&other).unwrap(), "{} differ", path.display());
        compared += 1;
    }
    assert_eq!(compared, 3);
}

/// All files and folders below `top`, without what Python compiles for itself.
fn tree(top: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut unread = vec![top.to_owned()];
    while let Some(folder) = unread.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.file_name().is_some_and(|name| name == "__pycache__") {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                unread.push(path.clone());
            }
            found.insert(path);
        }
    }
    found
}

/// The Pythons from 3.10 on that make environments.
fn pythons() -> Vec<String> {
    let names = (10..=14).map(|minor| format!("python3.{minor}"));
    let works = |name: &String| {
        let checked = ["-c", "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))"];
        Command::new(name).args(checked).output().is_ok_and(|output| output.status.success())
    };
    let found: Vec<_> = names.filter(works).collect();
    let usual = ["python3".to_owned()].into_iter().filter(works);
    if found.is_empty() { usual.collect() } else { found }
}

/// The first program in Python of the README.
fn five_lines() -> String {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let block = readme.split("```python\n").nth(1).expect("the README has a program in Python");
    block.split("```").next().unwrap().to_owned()
}

#[test]
fn the_wheel_works_in_a_fresh_environment_and_leaves_nothing() {
    let pythons = pythons();
    if pythons.is_empty() {
        return eprintln!("SKIPPED: the wheel needs a Python from 3.10 on that makes environments");
    }
    for (at, python) in pythons.iter().enumerate() {
        let folder = folder(&format!("venv-{at}"));
        let environment = folder.join("venv");
        succeed(Command::new(python).args(["-m", "venv"]).arg(&environment));
        let bin = |name: &str| environment.join("bin").join(name);
        let run = |arguments: &[&str]| succeed(as_user(bin("python"), &folder).args(arguments));
        let before = tree(&environment);
        let pip = ["-m", "pip", "--disable-pip-version-check"];
        let wheel = package(".whl").to_string_lossy().into_owned();
        run(&[&pip[..], &["install", "--quiet", "--no-index", &wheel]].concat());
        let printed = run(&["-c", &five_lines()]);
        assert!(printed.contains("ring: allreduce over 4 ranks is proved"), "{printed}");
        let picture = fs::read_to_string(folder.join("ring.svg")).unwrap();
        assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"), "{picture:.80}");
        main_job(&bin("msccl"), &folder);
        let doctests = root().join("crates/python/tests/doctests.py");
        eprint!("{python}: {}", run(&[doctests.to_str().unwrap()]));
        run(&[&pip[..], &["uninstall", "--quiet", "--yes", "msccl"]].concat());
        let left: Vec<_> = tree(&environment).difference(&before).cloned().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn the_package_and_its_examples_are_typed() {
    let mypy = std::env::var("MYPY").unwrap_or_else(|_| "mypy".to_owned());
    if !has(&mypy) {
        return eprintln!("SKIPPED: types of the Python package need mypy on the path");
    }
    let python = root().join("crates/python");
    let paths = [python.join("msccl"), python.join("examples")];
    let cache = folder("mypy");
    let mut command = Command::new(mypy);
    command.args(["--strict", "--cache-dir"]).arg(cache).args(paths).env("MYPYPATH", &python);
    eprint!("{}", succeed(command.args(["--python-version", "3.10"])));
}

#[test]
fn the_archive_works_where_it_is_unpacked() {
    let folder = folder("archive");
    succeed(Command::new("tar").arg("-xzf").arg(package(".tar.gz")).current_dir(&folder));
    let top = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    for expected in [
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "include/nccl.h",
        "include/msccl.h",
        "lib/libnccl.so.2",
        "share/man/man1/msccl.1",
        "share/man/man1/msccl-verify.1",
        "share/msccl/examples/allreduce/ring.msccl",
        "completions/msccl.bash",
        "completions/_msccl",
        "completions/msccl.fish",
    ] {
        assert!(top.join(expected).is_file(), "no {expected}");
    }
    main_job(&top.join("bin/msccl"), &folder);
    preloads(&top.join("bin/msccl"), &folder, &top.join("lib/libnccl.so.2"));
}

/// The wheel's name says which glibc it needs. Here the names of versions are looked for as text,
/// not as the wheel's maker does it.
#[test]
fn the_tag_of_the_wheel_is_true() {
    let folder = folder("tag");
    succeed(Command::new("tar").arg("-xzf").arg(package(".tar.gz")).current_dir(&folder));
    let files = tree(&folder).into_iter();
    let programs =
        files.filter(|path| path.ends_with("lib/libnccl.so.2") || path.ends_with("bin/msccl"));
    let needed: Vec<u32> = programs.map(|path| newest_glibc(&fs::read(path).unwrap())).collect();
    assert_eq!(needed.len(), 2);
    let name = package(".whl").file_name().unwrap().to_string_lossy().into_owned();
    let minor = name.split("manylinux_2_").nth(1).and_then(|rest| rest.split('_').next());
    let promised: u32 = minor.unwrap().parse().unwrap();
    let newest = needed.into_iter().max().unwrap();
    assert!(newest > 0 && promised == newest.max(28), "{name}, but programs need 2.{newest}");
}

/// The largest N of a text `GLIBC_2.N` in a file.
fn newest_glibc(bytes: &[u8]) -> u32 {
    const NAME: &[u8] = b"GLIBC_2.";
    let places = bytes.windows(NAME.len()).enumerate().filter(|(_, part)| *part == NAME);
    let numbers = places.map(|(at, _)| {
        let digits = bytes[at + NAME.len()..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |number, digit| 10 * number + u32::from(digit - b'0'))
    });
    numbers.max().unwrap_or(0)
}

/// A program that `msccl launch` starts has the library.
fn preloads(program: &Path, folder: &Path, library: &Path) {
    let library = library.canonicalize().unwrap();
    let shell = ["launch", "--", "sh", "-c", "echo $LD_PRELOAD; cat /proc/$$/maps"];
    let printed = succeed(as_user(program, folder).args(shell));
    assert_eq!(printed.lines().next(), library.to_str());
    assert!(printed.lines().skip(1).any(|line| line.ends_with(library.to_str().unwrap())));
}

#[test]
fn the_package_of_debian_works_in_a_fresh_root() {
    if !has("dpkg-deb") {
        return eprintln!("SKIPPED: the package of Debian needs dpkg-deb");
    }
    let folder = folder("deb");
    let package = package(".deb");
    let described = succeed(Command::new("dpkg-deb").arg("--info").arg(&package));
    assert!(described.contains("Package: msccl"), "{described}");
    succeed(Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&folder));
    let page = folder.join("usr/share/man/man1/msccl.1.gz");
    let page = succeed(Command::new("gzip").arg("-dc").arg(page));
    assert!(page.contains(".SH SYNOPSIS"), "{page}");
    let program = folder.join("usr/bin/msccl");
    main_job(&program, &folder);
    preloads(&program, &folder, &folder.join("usr/lib/msccl/libnccl.so.2"));
}
