//! The kernels with the emulator around them, as programs of the host.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use msccl_collective::Protocol;

/// The emulator, compiled once; nothing, said aloud, on a machine without a C++ compiler.
pub fn emulator() -> Option<&'static Path> {
    static COMPILED: OnceLock<Option<PathBuf>> = OnceLock::new();
    COMPILED.get_or_init(|| compile("emulator", &Kernels::Plain)).as_deref()
}

/// The same with kernels that pack thread blocks.
pub fn packing_emulator() -> Option<&'static Path> {
    static COMPILED: OnceLock<Option<PathBuf>> = OnceLock::new();
    COMPILED.get_or_init(|| compile("packing", &Kernels::Packed)).as_deref()
}

/// Which kernels an emulator runs.
pub enum Kernels {
    /// Interpreters of protocol Simple.
    Plain,
    /// Those that pack thread blocks.
    Packed,
    /// Special kernels under a protocol, from their source, and its interpreters.
    Special(Protocol, String),
}

/// The emulator in a folder of that name.
pub fn compile(name: &str, kernels_of: &Kernels) -> Option<PathBuf> {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // The emulator's `ptx.cuh` takes the place of the device's.
    let sources = ["device", "special", "emulator"].map(|from| (from, "device"));
    for (from, to) in [("include", "include")].into_iter().chain(sources) {
        fs::create_dir_all(folder.join(to)).unwrap();
        for entry in fs::read_dir(kernels.join(from)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.join(to).join(entry.file_name())).unwrap();
        }
    }
    let program = folder.join("emulator");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut command = Command::new(&compiler);
    match kernels_of {
        Kernels::Plain => {}
        Kernels::Packed => {
            command.arg("-DMSCCL_PACKED");
        }
        Kernels::Special(protocol, text) => {
            let file = folder.join("device/special.cu");
            fs::write(&file, text).unwrap();
            let type_name = if *protocol == Protocol::Ll { "Ll" } else { "Simple" };
            command.arg(format!("-DMSCCL_PROTOCOL={type_name}"));
            command.arg(format!("-DMSCCL_SPECIAL=\"{}\"", file.display()));
        }
    }
    let output = command
        .args(["-std=c++20", "-O1", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-pthread", "-I"])
        .arg(&folder)
        .arg(folder.join("device/main.cpp"))
        .arg("-o")
        .arg(&program)
        .output();
    match output {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            eprintln!("SKIPPED: the kernels cannot be emulated without a C++ compiler ({error})");
            None
        }
    }
}

/// What the emulator says of `scenario`.
pub fn feed(emulator: &Path, scenario: &[u8]) -> Result<Vec<u8>, String> {
    let mut child = Command::new("timeout")
        .arg("60")
        .arg(emulator)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(scenario).unwrap();
    let output = child.wait_with_output().unwrap();
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("the emulator ended with {}", output.status)),
    }
}
