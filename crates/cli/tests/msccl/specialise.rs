//! `msccl specialise`, and what `msccl explain` says of it.

use std::path::{Path, PathBuf};

use crate::{msccl, msccl_with};

/// The run-time compiler that `cargo xtask kernels --check` fetches.
const NVRTC: &str = "target/kernels/nvidia/cuda_nvrtc/lib/libnvrtc.so.12";

/// A folder of kernels, gone at the end.
struct Cache(PathBuf);

impl Cache {
    fn new(name: &str) -> Self {
        let name = format!("{name}-{}", std::process::id());
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
    }

    fn variable(&self) -> (&'static str, &str) {
        ("MSCCL_KERNEL_CACHE", self.0.to_str().unwrap())
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // What is left matters to nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn without_a_cache_or_a_compiler_it_says_so() {
    let args = ["specialise", "alltoall", "--ranks", "2", "--rank", "0"];
    let ran = msccl(&args);
    assert!(ran.code == 2 && ran.stderr.contains("MSCCL_KERNEL_CACHE is not set"), "{ran}");
    let cache = Cache::new("no-compiler");
    let ran = msccl_with(&[cache.variable(), ("MSCCL_NVRTC", "/no/nvrtc.so")], &args, b"");
    assert!(ran.code == 1 && ran.stderr.contains("no NVRTC: /no/nvrtc.so: "), "{ran}");
    // There is nothing to say of each of them.
    assert!(ran.stdout.contains(": 0 compiled") && ran.stdout.lines().count() == 1, "{ran}");
}

#[test]
fn what_has_no_special_kernels_is_refused() {
    let cache = Cache::new("refused");
    let check = |args: &[&str], expected: &str| {
        let args = [&["specialise", "--ranks", "2"], args].concat();
        let ran = msccl_with(&[cache.variable()], &args, b"");
        assert!(ran.code == 2 && ran.stderr.contains(expected), "{ran}");
    };
    check(&["broadcast"], "expected a collective without a root");
    check(&["1M"], "specialised kernels serve all sizes");
    check(&["--rank", "2"], "there is no rank r2; they are r0 to r1");
    check(&["--arch", "h200"], "expected an architecture");
}

/// Compiles for real, and finds it again.
#[test]
fn kernels_are_compiled_once_and_explained() {
    let nvrtc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(NVRTC);
    if !nvrtc.exists() {
        let how = "`cargo xtask kernels --check scale` fetches it";
        eprintln!("SKIPPED: no run-time compiler at {NVRTC}; {how}");
        return;
    }
    let cache = Cache::new("compiled");
    let variables = [cache.variable(), ("MSCCL_NVRTC", nvrtc.to_str().unwrap())];
    let run = |args: &[&str]| {
        let ran = msccl_with(&variables, args, b"");
        assert_eq!(ran.code, 0, "{ran}");
        ran.stdout
    };
    let explained =
        || run(&["explain", "alltoall", "4M", "--in-place", "--ranks", "2", "--device", "cuda"]);
    let small = run(&["explain", "alltoall", "4K", "--ranks", "2", "--device", "cuda"]);
    assert!(small.contains("  run by a low-latency kernel\n"), "{small}");
    assert!(explained().contains("run by the interpreter; the cache has no specialised kernel"));
    let specialise = || run(&["specialise", "alltoall", "--ranks", "2", "--rank", "0"]);
    let first = specialise();
    let (_, summary) = first.trim_end().rsplit_once('\n').unwrap();
    let kernels: usize = summary.split(' ').next().unwrap().parse().unwrap();
    assert!(kernels > 0 && summary.contains(&format!(": {kernels} compiled, ")), "{first}");
    assert!(specialise().contains(": 0 compiled, "));
    assert!(explained().contains("run by a specialised kernel, which is in the cache for sm_90"));
    let rooted = run(&["explain", "broadcast", "1M", "--ranks", "2", "--device", "cuda"]);
    assert!(rooted.contains("  run by the interpreter\n"), "{rooted}");
}
