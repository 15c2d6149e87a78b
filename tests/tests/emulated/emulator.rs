//! The emulator: the kernels' sources and a `main`, compiled for this host.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use msccl_collective::{DataType, Protocol};

/// The emulator, compiled once; nothing, said aloud, on a machine without a C++ compiler.
pub fn emulator() -> Option<&'static Path> {
    static COMPILED: OnceLock<Option<PathBuf>> = OnceLock::new();
    COMPILED.get_or_init(|| compile("emulator", &Kernels::Plain)).as_deref()
}

/// Which kernels an emulator runs.
pub enum Kernels {
    /// Interpreters of protocol Simple.
    Plain,
    /// Interpreters of another protocol.
    Packets(Protocol),
    /// Special kernels under a protocol, from their source, and its interpreters.
    Special { protocol: Protocol, data_type: DataType, text: String },
    /// None: a program that loads and stores as they do.
    Memory,
    /// None: a program that moves chunks as they do.
    Moves,
    /// That of exchanges.
    Exchange,
    /// Those that combine.
    Combine,
}

/// Which elements an emulator has.
#[derive(Clone, Copy)]
pub enum Elements {
    /// Some of every size.
    Sizes,
    /// All floats.
    Floats,
}

/// Whether kernels leave records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    Off,
    On,
}

/// The same with records, for elements of some sizes.
pub fn compile_recording(name: &str, kernels_of: &Kernels) -> Option<PathBuf> {
    compile_with(name, kernels_of, Elements::Sizes, Recording::On)
}

/// The emulator in a folder of that name.
pub fn compile(name: &str, kernels_of: &Kernels) -> Option<PathBuf> {
    compile_for(name, kernels_of, Elements::Sizes)
}

/// The same for some elements.
pub fn compile_for(name: &str, kernels_of: &Kernels, elements: Elements) -> Option<PathBuf> {
    compile_with(name, kernels_of, elements, Recording::Off)
}

fn compile_with(
    name: &str,
    kernels_of: &Kernels,
    elements: Elements,
    recording: Recording,
) -> Option<PathBuf> {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // The emulator's `ptx.cuh` takes the place of the device's.
    let sources = ["device", "specialised", "emulator"].map(|from| (from, "device"));
    for (from, to) in [("include", "include")].into_iter().chain(sources) {
        fs::create_dir_all(folder.join(to)).unwrap();
        for entry in fs::read_dir(kernels.join(from)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), folder.join(to).join(entry.file_name())).unwrap();
        }
    }
    let program = folder.join("emulator");
    let main = match kernels_of {
        Kernels::Memory => "memory.cpp",
        Kernels::Moves => "moves.cpp",
        Kernels::Exchange => "exchange.cpp",
        Kernels::Combine => "combine.cpp",
        Kernels::Plain | Kernels::Packets(_) | Kernels::Special { .. } => "main.cpp",
    };
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut command = Command::new(&compiler);
    match kernels_of {
        Kernels::Plain
        | Kernels::Memory
        | Kernels::Moves
        | Kernels::Exchange
        | Kernels::Combine => {}
        Kernels::Packets(protocol) => {
            command.arg(format!("-DMSCCL_PROTOCOL={}", type_name(*protocol)));
        }
        Kernels::Special { protocol, data_type, text } => {
            let file = folder.join("device/specialised.cu");
            fs::write(&file, text).unwrap();
            command.arg(format!("-DMSCCL_PROTOCOL={}", type_name(*protocol)));
            command.arg(format!("-DMSCCL_NUMBER={}", number_name(*data_type)));
            command.arg(format!("-DMSCCL_SPECIALISED=\"{}\"", file.display()));
        }
    }
    if matches!(elements, Elements::Floats) {
        command.arg("-DMSCCL_FLOATS");
    }
    if recording == Recording::On {
        command.arg("-DMSCCL_RECORDS");
    }
    let output = command
        .args([
            "-std=c++20",
            "-O1",
            "-ffp-contract=off",
            "-Wall",
            "-Werror",
            "-Wno-unknown-pragmas",
            "-pthread",
            "-I",
        ])
        .arg(&folder)
        .arg(folder.join("device").join(main))
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

/// What the kernels call a protocol.
pub fn type_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Simple => "Simple",
        Protocol::Ll => "Ll",
        Protocol::Ll128 => "Ll128",
    }
}

/// What the kernels call a type for which there are special ones here.
pub fn number_name(data_type: DataType) -> &'static str {
    match data_type {
        DataType::I32 => "I32",
        DataType::F16 => "F16",
        DataType::F32 => "F32",
        other => panic!("no special kernels of {other}"),
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

/// Runs a program that says itself whether all is right.
pub fn check_program(name: &str, kernels: &Kernels, recording: Recording) {
    let compiled = compile_with(name, kernels, Elements::Sizes, recording);
    let Some(program) = compiled else { return };
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "{}: {output:?}", output.status);
}
