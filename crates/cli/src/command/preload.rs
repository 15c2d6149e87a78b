//! `msccl launch`: becomes another program, with this library in the place of NCCL.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::PreloadArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::own_library::own_library;

/// Variables of programs that open NCCL by a path.
const PATHS: [&str; 2] = ["VLLM_NCCL_SO_PATH", "SGLANG_NCCL_SO_PATH"];

/// Becomes the program; returns only if that fails.
pub fn preload(args: &PreloadArgs) -> Result<Exit> {
    let PreloadArgs { library, program } = args;
    let library = match library {
        Some(path) => PathBuf::from(path),
        None => own_library()?,
    };
    let library = library
        .canonicalize()
        .map_err(|error| Failure::new(format!("cannot preload {}: {error}", library.display())))?;
    let Some((name, arguments)) = program.split_first() else {
        return Err(Failure::new("expected a program behind `--`"));
    };
    let before = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let mut command = Command::new(name);
    command.args(arguments).env("LD_PRELOAD", with_first(&library, before));
    command.envs(PATHS.map(|variable| (variable, &library)));
    let error = command.exec();
    let shown = name.to_string_lossy();
    Err(Failure::new(match error.kind() {
        io::ErrorKind::NotFound => format!("there is no program {shown} on the path"),
        _ => format!("cannot start {shown}: {error}"),
    }))
}

/// `library`, and behind it what else is preloaded.
fn with_first(library: &Path, before: OsString) -> OsString {
    let mut all = library.as_os_str().to_owned();
    let is_there = before.to_string_lossy().split([':', ' ']).any(|it| Path::new(it) == library);
    if is_there {
        return before;
    }
    if !before.is_empty() {
        all.push(":");
        all.push(before);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_comes_first_and_once() {
        let with = |before: &str| with_first(Path::new("/a/libnccl.so.2"), before.into());
        assert_eq!(with(""), "/a/libnccl.so.2");
        assert_eq!(with("/b.so"), "/a/libnccl.so.2:/b.so");
        assert_eq!(with("/b.so:/a/libnccl.so.2"), "/b.so:/a/libnccl.so.2");
    }
}
