//! Specialised kernels: where they come from, and when interpreters serve instead.

use std::fs;
use std::path::{Path, PathBuf};

use super::null_driver::{self, World};
use super::{EAGER, check, stream};

/// Of so many calls a process expects some to be served by specialised kernels.
const CALLS: u64 = 3;

/// What runs with each case: variables, how many launches of specialised kernels there must be, and
/// what the log must say.
struct Case<'a> {
    variables: &'a [(&'a str, &'a str)],
    launches: u64,
    says: &'a str,
}

/// The folder of kernels and the compiler of a test.
struct Place {
    test: String,
    folder: PathBuf,
    nvrtc: PathBuf,
}

impl Place {
    fn new(test: &str) -> Self {
        let name = format!("specialised-kernels-{test}-{}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        Self {
            test: format!("specialised::{test}"),
            folder,
            nvrtc: null_driver::compile(
                "libnvrtc",
                &["-C", "link-arg=-Wl,-soname,libnull-nvrtc.so"],
            ),
        }
    }

    fn check(&self, case: &Case<'_>) {
        let ran = null_driver::again_expecting(&self.test, case.launches)
            .env("MSCCL_KERNEL_CACHE", &self.folder)
            .env("MSCCL_NVRTC", &self.nvrtc)
            .env("NCCL_DEBUG", "INFO")
            // Which would come first.
            .env("MSCCL_LOW_LATENCY", "0")
            .envs(case.variables.iter().copied())
            .output()
            .unwrap();
        let Case { variables, says, .. } = case;
        let text = null_driver::passed(&ran, variables);
        assert!(text.contains(says), "{variables:?}: expected `{says}` in {text}");
    }

    /// The files of kernels.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left matters to nobody.
        let _ = (fs::remove_dir_all(&self.folder), fs::remove_file(&self.nvrtc));
    }
}

#[test]
fn the_cache_and_the_compiler_decide_what_serves() {
    if let Some(expected) = null_driver::expected() {
        return call(expected);
    }
    let place = Place::new("the_cache_and_the_compiler_decide_what_serves");
    let cached = ("MSCCL_SPECIALISED", "1");
    let compiled = ("MSCCL_SPECIALISED", "2");
    let check = |variables: &[_], launches, says| place.check(&Case { variables, launches, says });
    check(&[], 0, "0 of ");
    check(&[compiled, ("MSCCL_NVRTC", "/no/nvrtc.so")], 0, "no NVRTC: /no/nvrtc.so: ");
    check(&[compiled, ("MSCCL_KERNEL_CACHE", "off")], CALLS, "(no cache)");
    check(
        &[compiled, ("MSCCL_KERNEL_CACHE", "/proc/self/no")],
        CALLS,
        "are not kept in /proc/self/no",
    );
    check(&[compiled], CALLS, "there is no bf16 here");
    let files = place.files();
    assert!(files.len() > 10, "{files:?}");
    check(&[("MSCCL_NVRTC", "/no/nvrtc.so")], CALLS, "and 0 of them compiled");
    check(&[("MSCCL_SPECIALISED", "0")], 0, "");
    let wide = ("NULL_SPECIALS_ARE_WIDE", "1");
    check(&[cached, wide], 0, "of its blocks run on a multiprocessor at once");
    check(&[cached, ("NULL_SPECIALS_SPILL", "1")], 0, "1024 bytes of memory make it slow");
    for (number, file) in files.iter().enumerate() {
        let bytes = fs::read(file).unwrap();
        match number % 3 {
            0 => fs::write(file, &bytes[..bytes.len() - 1]).unwrap(),
            1 => fs::write(file, "garbage").unwrap(),
            _ => drop(fs::copy(&files[0], file).unwrap()),
        }
    }
    check(&[cached], 0, "is not used: it is ");
    check(&[compiled], CALLS, "is not used: it is ");
    check(&[cached], CALLS, "and 0 of them compiled");
}

/// A communicator of two ranks makes calls, of which `expected` are launches of specialised
/// kernels, each as cheap as any.
fn call(expected: u64) {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let before = null_driver::calls("specialised launches");
    rank.all_reduce(64, &stream);
    for _ in 1..CALLS {
        check(|| rank.all_reduce(64, &stream), &EAGER);
    }
    assert_eq!(null_driver::calls("specialised launches") - before, expected);
}

#[test]
fn operands_that_are_not_aligned_have_none_under_protocol_simple() {
    if let Some(expected) = null_driver::expected() {
        return odd_call(expected);
    }
    let place = Place::new("operands_that_are_not_aligned_have_none_under_protocol_simple");
    for (protocol, launches) in [("Simple", 1), ("LL", 2), ("LL128", 2)] {
        let variables = &[("MSCCL_SPECIALISED", "2"), ("MSCCL_PROTO", protocol)];
        place.check(&Case { variables, launches, says: "specialised kernels serve" });
    }
}

/// A communicator of two ranks makes a call of operands that are aligned, and one of others.
fn odd_call(expected: u64) {
    let world = World::new(2);
    let (rank, stream) = (world.rank(0), stream(world.rank(0)));
    let before = null_driver::calls("specialised launches");
    for offset_bytes in [0, 4] {
        rank.all_reduce_from(offset_bytes, 64, &stream);
    }
    assert_eq!(null_driver::calls("specialised launches") - before, expected);
}
