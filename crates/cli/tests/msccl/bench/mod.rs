//! `msccl bench`, on host memory: with a small library made for the purpose, and with our own if it
//! has been built.

mod compared;
mod failing;
mod invariant;
mod measured;
mod options;
mod own_library;
mod served;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::{Ran, arg, file, msccl};

/// A library that works on host memory and goes wrong where a variable says so; `None` without a
/// compiler.
pub fn fake() -> Option<&'static str> {
    static FAKE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let path = FAKE.get_or_init(|| {
        let library = file("bench/libfake.so", "");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/msccl/fake_nccl.c");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
        let made = cc.status().is_ok_and(|status| status.success());
        if !made {
            eprintln!("skipped: there is no C compiler `cc` to build the library with");
        }
        made.then_some(library)
    });
    path.as_deref().map(arg)
}

/// Our own library, if it has been built beside the command: as it was last, since tests alone
/// leave the copy beside the command as it is.
pub fn ours() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_BIN_EXE_msccl")).parent()?;
    let places = [folder.join("libnccl.so"), folder.join("deps/libnccl.so")];
    let built = |place: &PathBuf| fs::metadata(place).ok()?.modified().ok();
    let found = places.into_iter().filter(|place| place.is_file()).max_by_key(built);
    if found.is_none() {
        eprintln!("skipped: {} has not been built", folder.join("libnccl.so").display());
    }
    found
}

/// Runs a benchmark of two ranks on the host.
fn bench(library: &str, args: &[&str]) -> Ran {
    let usual = ["bench", args[0], "--library", library, "--device", "host", "--ranks", "2"];
    msccl(&[&usual, &args[1..]].concat())
}

/// The rows of the table.
fn rows(ran: &Ran) -> Vec<Vec<&str>> {
    let rows = ran.stdout.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split_whitespace().collect()).collect()
}
