//! `cargo xtask kernels`: from `kernels/device` to `kernels/images`.

use std::fs;
use std::io::{Read, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use msccl_gpu::{Form, Nvrtc, Source};
use msccl_kernels::recipe::{self, Architecture, HEADERS, Module, STAMP};
use sha2::{Digest, Sha256};

use crate::compiler;

/// Compiles the images of the modules of these `names`, or all if there are none, and writes them, with what all are made
/// from.
///
/// # Errors
///
/// What went wrong, with what to do.
pub fn write(names: &[&str]) -> Result<(), String> {
    let package = package();
    fs::create_dir_all(package.join("images")).map_err(|error| error.to_string())?;
    if let Some(unknown) =
        names.iter().find(|name| !Module::ALL.iter().any(|of| of.name() == **name))
    {
        let known = Module::ALL.map(Module::name).join(", ");
        return Err(format!("there is no module {unknown}; there are {known}"));
    }
    let wanted = |module: &Module| names.is_empty() || names.contains(&module.name());
    each_image(wanted, |path, bytes| {
        let packed = pack(&bytes).map_err(|error| error.to_string())?;
        crate::say(&format!("{path}: {} bytes, {} packed", bytes.len(), packed.len()));
        write_file(&package.join(path), &packed)
    })?;
    write_file(&package.join(STAMP), stamp()?.as_bytes())
}

/// Compiles every image and compares it with the committed one.
///
/// # Errors
///
/// The first difference.
pub fn check() -> Result<(), String> {
    let package = package();
    let stale =
        |path: &str| format!("{path} is not what the sources give: run `cargo xtask kernels`");
    if read_file(&package.join(STAMP))? != stamp()?.as_bytes() {
        return Err(stale(STAMP));
    }
    each_image(
        |_| true,
        |path, bytes| {
            let found =
                unpack(&read_file(&package.join(path))?).map_err(|error| error.to_string())?;
            if found == bytes { Ok(()) } else { Err(stale(path)) }
        },
    )?;
    crate::say("every image is what the sources give");
    Ok(())
}

/// Compiles every image of the modules that are `wanted` and gives it to `take` with its path below the package.
fn each_image(
    wanted: impl Fn(&Module) -> bool,
    take: impl Fn(&str, Vec<u8>) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let nvrtc = load_compiler()?;
    let headers: Result<Vec<_>, _> = HEADERS.iter().map(|path| source(path)).collect();
    let headers = headers?;
    let modules = Module::ALL.into_iter().filter(wanted);
    let images: Vec<_> = modules.flat_map(|of| Architecture::ALL.map(|on| (of, on))).collect();
    let make = |(module, architecture): (Module, Architecture)| {
        let main = source(&recipe::source(module))?;
        let compiled = compile(&nvrtc, &main, &headers, architecture);
        let bytes = compiled.map_err(|log| {
            format!("{} for {}: {log}", recipe::source(module), architecture.name())
        })?;
        let bytes = match architecture {
            Architecture::Machine(_) => bytes,
            Architecture::Portable(_) => without_call_numbers(bytes)?,
        };
        take(&recipe::image(module, architecture), bytes)
    };
    on_all_processors(images, make)
}

/// A text without the comments in which the compiler numbers calls: it counts on from one compilation of the process to the next,
/// so that texts would depend on what came before.
fn without_call_numbers(text: Vec<u8>) -> Result<Vec<u8>, String> {
    let text = String::from_utf8(text).map_err(|error| error.to_string())?;
    let lines = text.split_inclusive('\n').map(|line| match line.split_once(" // callseq ") {
        Some((code, _)) => format!("{code}\n"),
        None => line.to_owned(),
    });
    Ok(lines.collect::<String>().into_bytes())
}

/// Does `each` for all of `items`, as many at a time as there are processors. After an error, no more are begun.
fn on_all_processors<T: Send>(
    items: Vec<T>,
    each: impl Fn(T) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let (left, failed) = (Mutex::new(items.into_iter()), AtomicBool::new(false));
    let work = || {
        while let Some(item) = next(&left).filter(|_| !failed.load(Ordering::Relaxed)) {
            each(item).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..processors).map(|_| scope.spawn(work)).collect();
        let panicked = |_| Err("a thread panicked".to_owned());
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(panicked))
    })
}

/// What is next of those that are `left`.
fn next<T>(left: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    left.lock().ok()?.next()
}

/// The pinned compiler, fetched if need be.
pub fn load_compiler() -> Result<Nvrtc, String> {
    let package = package();
    let path =
        compiler::fetch(&package.join("requirements.txt"), &package.join("../target/kernels"))?;
    Nvrtc::open(path.as_os_str())
}

/// What `nvrtc` makes of `main` for `architecture`.
pub fn compile(
    nvrtc: &Nvrtc,
    main: &Source,
    headers: &[Source],
    architecture: Architecture,
) -> Result<Vec<u8>, String> {
    let form = match architecture {
        Architecture::Machine(_) => Form::Machine,
        Architecture::Portable(_) => Form::Text,
    };
    nvrtc.compile(main, headers, &recipe::options(architecture), form)
}

/// The text at `path` below the package, under the name by which the others include it: those of
/// `device/` say the bare name, and lead up to `include/`.
pub fn source(path: &str) -> Result<Source, String> {
    Source::new(&name_of(path), text(path)?)
}

/// The name by which sources include the file at `path` below the package.
pub fn name_of(path: &str) -> String {
    match path.strip_prefix("device/") {
        Some(name) => name.to_owned(),
        None => format!("../{path}"),
    }
}

/// The text at `path` below the package.
pub fn text(path: &str) -> Result<Vec<u8>, String> {
    read_file(&package().join(path))
}

fn stamp() -> Result<String, String> {
    let hash =
        |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    recipe::stamp(text, hash)
}

/// The folder `kernels/`.
fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels")
}

fn pack(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn unpack(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    ZlibDecoder::new(bytes).read_to_end(&mut unpacked)?;
    Ok(unpacked)
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_lose_their_numbers() {
        let text = b"\t{ // callseq 3704, 0\n\tcall.uni f; // not a number\n\t} // callseq 3704\n}";
        let left = without_call_numbers(text.to_vec()).unwrap();
        assert_eq!(left, b"\t{\n\tcall.uni f; // not a number\n\t}\n}");
    }
}
