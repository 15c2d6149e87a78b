//! The committed images are what the sources give.
//!
//! Here, without a compiler, by the hashes in `images/MANIFEST`: each image's sources and options
//! are those that it was made from, and its bytes are those that were made.
//! `cargo xtask kernels --check` compiles them again and compares every byte.

#![allow(clippy::unwrap_used)] // Clippy knows test functions, not what they call.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use msccl_kernels::build::{self, Line, MANIFEST, Manifest, Read, Reason, Sources, Target, inputs};
use msccl_kernels::{Module, recipe};

const PTX: &str = "device/ptx.cuh";

fn in_package(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(path: &str) -> Result<Vec<u8>, String> {
    fs::read(in_package(path)).map_err(|error| format!("cannot read {path}: {error}"))
}

fn manifest() -> Manifest {
    Manifest::parse(&fs::read_to_string(in_package(MANIFEST)).unwrap()).unwrap()
}

/// How files are read when the text `from` in `ptx.cuh` is `to`.
fn edited(from: &'static str, to: &'static str) -> impl Fn(&str) -> Result<Vec<u8>, String> {
    move |path| {
        let bytes = read(path)?;
        if path != PTX {
            return Ok(bytes);
        }
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(from), "{PTX} has no `{from}` any more; take another text for this");
        Ok(text.replacen(from, to, 1).into_bytes())
    }
}

/// The names of images of which `manifest` does not say that they are made from what `read` gives.
fn stale(manifest: &Manifest, read: Read<'_>) -> Vec<String> {
    let faults = build::stale(manifest, read).unwrap();
    faults.iter().map(|fault| fault.target.name()).collect()
}

#[test]
fn images_are_of_these_sources() {
    let found = build::faults(&manifest(), &read).unwrap();
    assert!(found.is_empty(), "\n{}\n", build::report(&found));
}

/// What `ptx.cuh` begins with, after its first comments.
const BEGIN: &str = "#pragma once\n";

#[test]
fn a_comment_makes_no_image_stale() {
    let commented = edited(BEGIN, "// Another comment.\n\n#pragma once /* and\n one more */\n");
    assert_eq!(stale(&manifest(), &commented), stale(&manifest(), &read));
}

#[test]
fn a_constant_makes_every_image_stale_that_includes_it() {
    let changed = edited(BEGIN, "#pragma once\n#define MSCCL_ANOTHER 1\n");
    let found = stale(&manifest(), &changed);
    assert_eq!(found.len(), Target::all().len(), "all modules include {PTX}: {found:?}");
}

#[test]
fn building_one_module_leaves_the_others_stale() {
    let changed = edited(BEGIN, "#pragma once\n#define MSCCL_ANOTHER 1\n");
    let (built, others): (Vec<_>, Vec<_>) =
        Target::all().into_iter().partition(|target| target.module == Module::Scale);
    let mut manifest = manifest();
    for target in built {
        let inputs = Sources::new(&changed).of(target.module).unwrap();
        let inputs = inputs.fingerprint(target.architecture);
        manifest.set(target, Line { inputs, image: "of what was built".to_owned() });
    }
    let others: Vec<_> = others.into_iter().map(Target::name).collect();
    assert_eq!(stale(&manifest, &changed), others);
}

#[test]
fn an_image_in_the_place_of_another_is_noticed() {
    let swapped = |path: &str| match path {
        "images/scale.sm_80.zst" => read("images/scale.sm_90.zst"),
        "images/scale.sm_90.zst" => Err("gone".to_owned()),
        path => read(path),
    };
    let manifest = manifest();
    let targets = Target::all().into_iter().filter(|target| target.module == Module::Scale);
    let reasons = targets.map(|of| build::damage(of, manifest.line(of).unwrap(), &swapped));
    let expected = [Some(Reason::Altered), Some(Reason::Unreadable), None, None];
    assert_eq!(reasons.collect::<Vec<_>>(), expected);
}

fn files(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(in_package(folder)).unwrap();
    entries
        .map(|entry| format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect()
}

#[test]
fn every_source_is_of_an_image_and_every_image_of_the_table() {
    let mut sources = Sources::new(&read);
    let inputs = Module::ALL.map(|module| sources.of(module).unwrap());
    let headers = inputs.iter().flat_map(|inputs| &inputs.headers);
    let included: BTreeSet<_> = headers.map(|header| inputs::path_of(&header.name)).collect();
    let all = files("device");
    let idle: Vec<_> = all.difference(&included).map(String::as_str).collect();
    let recording = ["device/exchange_records.cuh", "device/record.cuh", "device/record_clock.cuh"];
    assert_eq!(idle, recording, "no module includes the others; src/module.rs lists the modules");

    let targets = Target::all().into_iter().map(Target::path);
    let known: BTreeSet<_> = targets.chain([MANIFEST.to_owned()]).collect();
    let surplus: Vec<_> = files("images").difference(&known).cloned().collect();
    assert!(surplus.is_empty(), "{surplus:?} are of no module; take them away");
    assert_eq!(manifest().surplus(), [""; 0], "run `cargo xtask kernels` to drop these lines");
}

#[test]
fn the_compiler_is_pinned() {
    let requirements = fs::read_to_string(in_package("requirements.txt")).unwrap();
    let version = recipe::COMPILER.rsplit(' ').next().unwrap();
    assert!(requirements.contains(&format!("=={version}")), "{version} is not in {requirements}");
}
