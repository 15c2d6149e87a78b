//! `cargo xtask kernels`: from the sources to `kernels/images`, and whether those are what the
//! sources give. `kernels/README.md` explains it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use msccl_gpu::{Form, Nvrtc, Source};
use msccl_kernels::build::{
    self, Inputs, Line, MANIFEST, Manifest, Sources, Target, hash, inputs::path_of,
};
use msccl_kernels::recipe::{Architecture, options};
use msccl_kernels::{Module, unpack};

use crate::compiler;

mod check;
mod packing;
mod parallel;
mod recording;

pub use check::{check, check_some};
pub use recording::compile_recording;

/// Builds the images of the modules of these `names`, or of all if there are none, that are not
/// what their sources give, and writes them and their lines of the manifest. No other line changes.
///
/// # Errors
///
/// What went wrong, with what to do.
pub fn build(names: &[&str]) -> Result<(), String> {
    let modules = modules(names)?;
    let mut manifest = manifest()?;
    if !manifest.surplus().is_empty() {
        manifest.drop_surplus();
        write_file(MANIFEST, manifest.to_string().as_bytes())?;
    }
    let faults = build::faults(&manifest, &read)?;
    let targets = faults.iter().map(|fault| fault.target);
    let targets: Vec<_> = targets.filter(|of| modules.contains(&of.module)).collect();
    if targets.is_empty() {
        crate::say("nothing to rebuild: these images are what the sources give");
    } else {
        build_all(targets, manifest)?;
    }
    let left = build::faults(&self::manifest()?, &read)?;
    if !left.is_empty() {
        crate::say(&build::report(&left));
    }
    Ok(())
}

/// Builds the images of `targets`. Each is written with its line of the `manifest` when it is done,
/// so that what is built stays built if the rest is not.
fn build_all(targets: Vec<Target>, manifest: Manifest) -> Result<(), String> {
    fs::create_dir_all(package().join("images")).map_err(|error| error.to_string())?;
    let manifest = Mutex::new(manifest);
    each_image(targets, None, |target, inputs, bytes| {
        let packed = match read_unpacked(target) {
            // The same code, packed by whatever version: it stays as it is.
            Some(found) if found == bytes => None,
            _ => Some(packing::pack(&bytes).map_err(|error| error.to_string())?),
        };
        if let Some(packed) = &packed {
            write_file(&target.path(), packed)?;
        }
        let line = Line { inputs: inputs.fingerprint(target.architecture), image: hash(&bytes) };
        let mut manifest = manifest.lock().map_err(|error| error.to_string())?;
        manifest.set(target, line);
        write_file(MANIFEST, manifest.to_string().as_bytes())?;
        let change = if packed.is_some() { "written" } else { "the same code as before" };
        crate::say(&format!("{}: {} bytes, {change}", target.name(), bytes.len()));
        Ok(())
    })
    .map(|_| ())
}

/// Compiles `targets`, those that are begun before the `deadline`, and gives each to `take`. Those
/// that were compiled.
fn each_image(
    targets: Vec<Target>,
    deadline: Option<Instant>,
    take: impl Fn(Target, &Inputs, Vec<u8>) -> Result<(), String> + Sync,
) -> Result<Vec<Target>, String> {
    let nvrtc = compiler::load()?;
    let mut sources = Sources::new(&read);
    let of = |target: Target| Ok((target, sources.of(target.module)?));
    let work = targets.into_iter().map(of).collect::<Result<Vec<_>, String>>()?;
    let done = Mutex::new(Vec::new());
    parallel::on_all_processors(work, deadline, |(target, inputs)| {
        let bytes = compile(&nvrtc, &inputs, target.architecture)
            .map_err(|log| format!("{}: {log}", target.name()))?;
        take(target, &inputs, bytes)?;
        done.lock().map_err(|error| error.to_string())?.push(target);
        Ok(())
    })?;
    done.into_inner().map_err(|error| error.to_string())
}

/// What the compiler makes of exactly these `inputs`.
///
/// # Errors
///
/// The compiler's messages, with lines of the files as they are.
pub fn compile(
    nvrtc: &Nvrtc,
    inputs: &Inputs,
    architecture: Architecture,
) -> Result<Vec<u8>, String> {
    let form = match architecture {
        Architecture::Machine(_) => Form::Machine,
        Architecture::Portable(_) => Form::Text,
    };
    let main = Source::new(&inputs.entry.name, inputs.entry.text.as_str())?;
    let headers = inputs.headers.iter();
    let headers = headers.map(|header| Source::new(&header.name, header.text.as_str()));
    let headers = headers.collect::<Result<Vec<_>, _>>()?;
    let options = options(architecture);
    let bytes = nvrtc.compile(&main, &headers, &options, form).map_err(|log| {
        // The tokens have other lines than the files, so the files are compiled for the messages.
        let files = inputs
            .headers
            .iter()
            .map(|header| Source::new(&header.name, read(&path_of(&header.name))?));
        let files = files.collect::<Result<Vec<_>, String>>();
        files.and_then(|files| nvrtc.compile(&main, &files, &options, form)).err().unwrap_or(log)
    })?;
    match architecture {
        Architecture::Machine(_) => Ok(bytes),
        Architecture::Portable(_) => without_call_numbers(bytes),
    }
}

/// A text without the comments in which the compiler numbers calls: it counts on from one
/// compilation of the process to the next, so that texts would depend on what came before.
fn without_call_numbers(text: Vec<u8>) -> Result<Vec<u8>, String> {
    let text = String::from_utf8(text).map_err(|error| error.to_string())?;
    let lines = text.split_inclusive('\n').map(|line| match line.split_once(" // callseq ") {
        Some((code, _)) => format!("{code}\n"),
        None => line.to_owned(),
    });
    Ok(lines.collect::<String>().into_bytes())
}

/// The modules of these `names`, or all if there are none.
fn modules(names: &[&str]) -> Result<Vec<Module>, String> {
    if names.is_empty() {
        return Ok(Module::ALL.to_vec());
    }
    let module = |name: &&str| {
        Module::named(name).ok_or_else(|| {
            let known = Module::ALL.map(Module::name).join(", ");
            format!("expected modules, found `{name}`; there are {known}")
        })
    };
    names.iter().map(module).collect()
}

/// The committed manifest; without a file, an empty one.
fn manifest() -> Result<Manifest, String> {
    if !package().join(MANIFEST).exists() {
        return Ok(Manifest::default());
    }
    let text = String::from_utf8(read(MANIFEST)?).map_err(|error| error.to_string())?;
    Manifest::parse(&text)
}

/// The committed image, if there is one that unpacks.
fn read_unpacked(target: Target) -> Option<Vec<u8>> {
    unpack(&read(&target.path()).ok()?).ok()
}

/// The folder `kernels/`.
fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels")
}

/// The bytes of the file at `path` below the package.
pub fn read(path: &str) -> Result<Vec<u8>, String> {
    let path = package().join(path);
    fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn write_file(path: &str, bytes: &[u8]) -> Result<(), String> {
    write_at(&package().join(path), bytes)
}

/// Writes a file.
pub fn write_at(path: &Path, bytes: &[u8]) -> Result<(), String> {
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

    #[test]
    fn unknown_modules_are_named() {
        let error = modules(&["simple", "odd"]).unwrap_err();
        assert!(error.starts_with("expected modules, found `odd`; there are simple, "), "{error}");
        for name in ["warp_specialised", "crew"] {
            assert_eq!(modules(&[name]).unwrap(), [Module::WarpSpecialised], "{name}");
        }
    }
}
