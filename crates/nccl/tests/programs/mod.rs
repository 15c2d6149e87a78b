//! C programs, compiled and run against the library that cargo built beside a test.

#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::print_stderr, reason = "skips are loud")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a program may take before it counts as hanging.
pub const LONGEST: Duration = Duration::from_secs(180);

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c")
}

/// The folder of this run, with the library under the name by which the loader looks for it.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(concat!("nccl-", env!("CARGO_CRATE_NAME")));
        fs::create_dir_all(&folder).unwrap();
        for name in ["libnccl.so.2", "libnccl.so"] {
            let _ = fs::remove_file(folder.join(name));
            std::os::unix::fs::symlink(library(), folder.join(name)).unwrap();
        }
        folder
    })
}

/// The library that cargo built beside this test.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let places = test.ancestors().skip(1).take(2).map(|folder| folder.join("libnccl.so"));
    let newest = places.filter(|place| place.exists()).max_by_key(|place| {
        let modified = fs::metadata(place).and_then(|metadata| metadata.modified());
        modified.unwrap()
    });
    newest.expect("cargo builds libnccl.so beside the tests")
}

/// The program `name`, compiled once; nothing, said aloud, on a machine without a C compiler.
pub fn compile(name: &str) -> Option<PathBuf> {
    static COMPILED: Mutex<BTreeMap<String, Option<PathBuf>>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.entry(name.to_owned()).or_insert_with(|| compile_now(name)).clone()
}

fn compile_now(name: &str) -> Option<PathBuf> {
    compile_to(name, &folder().join(name), &["-Wl,--as-needed", "-l:libnccl.so.2", "-ldl", "-lm"])
}

/// The library `file` of the source `name`, compiled with `options`; nothing, said aloud, on a
/// machine without a C compiler. It has no use for libnccl.so.2.
pub fn compile_library(name: &str, file: &str, options: &[&str]) -> Option<PathBuf> {
    let options: Vec<_> = ["-shared", "-fPIC"].iter().chain(options).copied().collect();
    compile_to(name, &folder().join(file), &options)
}

fn compile_to(name: &str, to: &Path, options: &[&str]) -> Option<PathBuf> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let output = Command::new(&compiler)
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
        .arg(sources().join(format!("{name}.c")))
        .arg("-o")
        .arg(to)
        .arg("-L")
        .arg(folder())
        .args(options)
        .output();
    match output {
        Ok(output) => {
            assert!(output.status.success(), "{name}.c:\n{}", text(&output.stderr));
            Some(to.to_owned())
        }
        Err(error) => {
            eprintln!("SKIPPED {name}.c: there is no C compiler `{compiler}`: {error}");
            None
        }
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a program wrote.
pub struct Written {
    /// To standard output.
    pub output: String,
    /// To standard error.
    pub errors: String,
}

/// Compiles and runs `name`; gives what it wrote if it ended well.
pub fn run_all(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Option<Written> {
    let program = compile(name)?;
    let mut command = Command::new("timeout");
    command.arg(LONGEST.as_secs().to_string()).arg(program).args(arguments);
    command.env("LD_LIBRARY_PATH", folder()).env("MSCCL_DEVICE", "host");
    command.env("NCCL_SOCKET_IFNAME", "lo").envs(environment.iter().copied());
    let started = Instant::now();
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (output, errors) = (text(&stdout), text(&stderr));
    let took = started.elapsed().as_secs();
    assert!(status.success(), "{name} {arguments:?} after {took} s: {status}\n{output}\n{errors}");
    Some(Written { output, errors })
}

/// The same, where only standard output is of interest.
pub fn run(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Option<String> {
    run_all(name, arguments, environment).map(|written| written.output)
}
