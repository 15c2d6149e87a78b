//! Prepared machines.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use msccl_doctor::facts::{Gpu, GpuFacts, LimitFacts, SharedMemoryFacts};
use msccl_doctor::{Finding, Severity, Topic, examine};

use super::facts::collect;
use super::sources::Sources;

/// A file with the functions of this library.
const OURS: &[u8] = b"\x7fELF\0ncclCommInitRank\0mscclCommPin\0";
/// A file with those of another.
const THEIRS: &[u8] = b"\x7fELF\0ncclCommInitRank\0";
/// Where the package of NCCL has its library.
const PACKAGE: &str = "/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2";

/// A machine in a folder.
struct Prepared {
    root: PathBuf,
    variables: Vec<(String, String)>,
    gpus: GpuFacts,
    shared_memory: Option<SharedMemoryFacts>,
    limits: LimitFacts,
    python: Option<String>,
}

impl Prepared {
    /// A machine on which nothing is wrong: two GPUs, PyTorch, and this library preloaded.
    fn healthy(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("msccl-doctor-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        let root = root.canonicalize().unwrap();
        let gpu = Gpu { name: "NVIDIA H100".to_owned(), capability: (9, 0) };
        let driver = "13.0".to_owned();
        let gpus = GpuFacts::Usable { driver, gpus: vec![gpu; 2], without_access: Vec::new() };
        let big = SharedMemoryFacts { size_bytes: 64 << 30, free_bytes: 64 << 30 };
        let python = format!(
            r#"{{"program": "/venv/bin/python", "version": "3.12.3", "torch": "2.11.0",
                "nccl": "2.28.9", "nccl_paths": ["{PACKAGE}"], "msccl": null}}"#
        );
        let prepared = Self {
            root,
            variables: Vec::new(),
            gpus,
            shared_memory: Some(big),
            limits: LimitFacts::default(),
            python: Some(python),
        };
        let prepared = prepared.with_file("/opt/msccl/lib/libnccl.so.2", OURS);
        let prepared = prepared.with_file(PACKAGE, THEIRS);
        let prepared = prepared.with_file("/sys/class/net/eth0/operstate", b"up\n");
        let prepared = prepared.with_file("/sys/class/net/eth0/speed", b"100000\n");
        prepared.with_variable("LD_PRELOAD", "/opt/msccl/lib/libnccl.so.2")
    }

    fn with_file(self, path: &str, content: &[u8]) -> Self {
        let place = self.place(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
        self
    }

    fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn findings(&self) -> Vec<Finding> {
        examine(&collect(self, None))
    }

    /// That all that is not good is one finding about `topic`, which says each of `parts`.
    #[track_caller]
    fn expect_only(&self, severity: Severity, topic: Topic, parts: &[&str]) {
        let findings = self.findings();
        let bad: Vec<_> = findings.iter().filter(|it| it.severity >= Severity::Slow).collect();
        let noted: Vec<_> = findings.iter().filter(|it| it.topic == topic).collect();
        let [finding] = noted.iter().filter(|it| it.severity == severity).collect::<Vec<_>>()[..]
        else {
            panic!("{findings:#?}")
        };
        for part in parts {
            assert!(finding.message.contains(part), "no `{part}` in {finding:#?}");
        }
        assert!(finding.advice.is_some(), "{finding:#?}");
        let others: Vec<_> = bad.iter().filter(|it| it.topic != topic).collect();
        assert!(others.is_empty(), "{others:#?}");
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Sources for Prepared {
    fn root(&self) -> PathBuf {
        self.root.clone()
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.variables.clone()
    }

    fn gpus(&self) -> GpuFacts {
        self.gpus.clone()
    }

    fn shared_memory(&self) -> Option<SharedMemoryFacts> {
        self.shared_memory
    }

    fn limits(&self) -> LimitFacts {
        self.limits
    }

    fn ask_python(&self, _script: &str) -> Option<String> {
        self.python.clone()
    }

    fn own_folder(&self) -> Option<PathBuf> {
        Some(self.place("/opt/msccl/bin")).filter(|it: &PathBuf| it.exists())
    }
}

#[test]
fn a_healthy_machine_has_nothing_to_fix() {
    let healthy = Prepared::healthy("healthy");
    let findings = healthy.findings();
    assert!(findings.iter().all(|it| it.severity <= Severity::Note), "{findings:#?}");
    let says = |part: &str| findings.iter().any(|it| it.message.contains(part));
    assert!(says("GPUs: 2 NVIDIA H100; the driver supports CUDA 13.0"), "{findings:#?}");
    assert!(says("eth0 (100 Gb/s)"), "{findings:#?}");
    assert!(says("PyTorch loads this library: /opt/msccl/lib/libnccl.so.2"), "{findings:#?}");
}

#[test]
fn no_gpu_is_named() {
    let mut machine = Prepared::healthy("no-gpu");
    machine.gpus = GpuFacts::Unusable("the driver sees no device".to_owned());
    let parts = ["no GPU can be used: the driver sees no device", "host threads do"];
    machine.expect_only(Severity::Fails, Topic::Gpu, &parts);
}

#[test]
fn no_peer_access_is_named() {
    let mut machine = Prepared::healthy("no-peer");
    let GpuFacts::Usable { without_access, .. } = &mut machine.gpus else { panic!("has GPUs") };
    *without_access = vec![(0, 1), (1, 0)];
    let parts = ["2 of 2 pairs", "GPU 0 to GPU 1", "through host memory"];
    machine.expect_only(Severity::Slow, Topic::PeerAccess, &parts);
}

#[test]
fn small_shared_memory_is_named() {
    let mut machine = Prepared::healthy("small-shm");
    machine.shared_memory = Some(SharedMemoryFacts { size_bytes: 64 << 20, free_bytes: 60 << 20 });
    let parts = ["/dev/shm is small: 64 MiB, 60 MiB of it free", "does not need it"];
    machine.expect_only(Severity::Fails, Topic::SharedMemory, &parts);
}

#[test]
fn a_wrong_library_is_named() {
    let machine = Prepared::healthy("wrong").with_variable("LD_PRELOAD", "");
    // The variable does not help, because PyTorch has a path of its own.
    let machine = machine.with_variable("LD_LIBRARY_PATH", "/opt/msccl/lib");
    let parts = ["PyTorch loads", PACKAGE, "before LD_LIBRARY_PATH", "not msccl"];
    machine.expect_only(Severity::Fails, Topic::Library, &parts);
}

#[test]
fn a_preloaded_file_that_is_missing_is_named() {
    let missing = Prepared::healthy("gone").with_variable("LD_PRELOAD", "/gone/libnccl.so.2");
    let findings = missing.findings();
    let named = "/gone/libnccl.so.2, which LD_PRELOAD names, cannot be read";
    assert!(findings.iter().any(|it| it.message == named), "{findings:#?}");
}

#[test]
fn variables_that_do_nothing_are_named() {
    let machine = Prepared::healthy("variables").with_variable("NCCL_NVLS_ENABLE", "1");
    let machine = machine.with_variable("NCCL_DEBUG", "INFO");
    let parts = ["NCCL_NVLS_ENABLE=1 has no effect", "multicast"];
    machine.expect_only(Severity::Note, Topic::Variable, &parts);
    let machine = Prepared::healthy("misspelt").with_variable("MSCCL_ALGOS", "ring");
    let parts = ["MSCCL_ALGOS is no variable of this library", "did you mean MSCCL_ALGO"];
    machine.expect_only(Severity::Fails, Topic::Variable, &parts);
    let machine = Prepared::healthy("nonsense").with_variable("MSCCL_THREADS", "many");
    machine.expect_only(Severity::Fails, Topic::Variable, &["MSCCL_THREADS", "many"]);
}

#[test]
fn two_copies_are_named() {
    let machine = Prepared::healthy("copies").with_file("/home/me/libnccl.so.2", OURS);
    let machine = machine.with_variable("LD_LIBRARY_PATH", "/home/me");
    let parts = ["2 copies", "/home/me/libnccl.so.2", "/opt/msccl/lib/libnccl.so.2"];
    machine.expect_only(Severity::Note, Topic::TwoLibraries, &parts);
    // A link is no copy.
    let machine = Prepared::healthy("links");
    fs::create_dir(machine.place("/home")).unwrap();
    symlink(machine.place("/opt/msccl/lib"), machine.place("/home/lib")).unwrap();
    let machine = machine.with_variable("LD_LIBRARY_PATH", "/home/lib");
    let findings = machine.findings();
    assert!(findings.iter().all(|it| it.topic != Topic::TwoLibraries), "{findings:#?}");
}

#[test]
fn two_libraries_in_a_process_are_named() {
    let machine = Prepared::healthy("vllm").with_variable("VLLM_NCCL_SO_PATH", PACKAGE);
    let parts = ["one process has two libraries", "VLLM_NCCL_SO_PATH", "LD_PRELOAD"];
    machine.expect_only(Severity::Fails, Topic::TwoLibraries, &parts);
}

#[test]
fn a_running_process_is_examined() {
    let line = |path: &str| format!("7f00-7f01 r-xp 00000000 00:01 42    {path}\n");
    let both = line("/opt/msccl/lib/libnccl.so.2") + &line(PACKAGE) + &line("/lib/libc.so.6");
    let machine = Prepared::healthy("pid").with_file("/proc/7/maps", both.as_bytes());
    let says = |pid, part: &str| {
        let findings = examine(&collect(&machine, Some(pid)));
        assert!(findings.iter().any(|it| it.message.contains(part)), "{findings:#?}");
    };
    says(7, "process 7 has loaded 2 libraries");
    let path = machine.place("/proc/9/maps");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, &both).unwrap();
    let environ = b"HOME=/\0LD_PRELOAD=/opt/msccl/lib/libnccl.so.2\0";
    fs::write(machine.place("/proc/9/environ"), environ).unwrap();
    says(9, "process 9 uses this library, which was preloaded");
    says(8, "process 8 is not known: No such file");
}

#[test]
fn how_to_get_a_library_is_said_where_the_command_has_none() {
    let said = |machine: &Prepared| {
        let is_meant = |it: &Finding| it.message.starts_with("`msccl launch`, `bench`");
        let mut findings = machine.findings().into_iter().filter(is_meant);
        (findings.next(), findings.next().is_some())
    };
    let (Some(finding), false) = said(&Prepared::healthy("preloaded")) else { panic!("no line") };
    assert!(finding.message.ends_with("need a library, and none comes with this command"));
    let advice = Some("set MSCCL_LIBRARY=/opt/msccl/lib/libnccl.so.2".to_owned());
    assert_eq!(finding.advice, advice);
    let alone = Prepared::healthy("alone").with_variable("LD_PRELOAD", "");
    let (Some(finding), false) = said(&alone) else { panic!("no line") };
    assert_eq!(finding.advice.as_deref(), Some(msccl_doctor::library::HOW_TO_GET));
    let named =
        Prepared::healthy("named").with_variable("MSCCL_LIBRARY", "/opt/msccl/lib/libnccl.so.2");
    let (Some(finding), false) = said(&named) else { panic!("no line") };
    assert_eq!(finding.severity, Severity::Good);
    let path = "take /opt/msccl/lib/libnccl.so.2, which MSCCL_LIBRARY names";
    assert!(finding.message.ends_with(path), "{finding:?}");
    let other = Prepared::healthy("other").with_file("/lib/other.so", b"\x7fELF\0cublasCreate\0");
    let (Some(finding), false) = said(&other.with_variable("MSCCL_LIBRARY", "/lib/other.so"))
    else {
        panic!("no line")
    };
    assert_eq!(finding.severity, Severity::Fails);
    assert!(finding.message.ends_with("expected a library with NCCL's interface"), "{finding:?}");
    let missing = Prepared::healthy("missing").with_variable("MSCCL_LIBRARY", "/no.so");
    assert_eq!(said(&missing), (None, false));
    let findings = missing.findings();
    let named = "/no.so, which MSCCL_LIBRARY names, cannot be read";
    assert!(findings.iter().any(|it| it.message == named), "{findings:#?}");
}

#[test]
fn what_comes_with_the_command_is_found() {
    let machine = Prepared::healthy("own").with_variable("LD_PRELOAD", "");
    fs::create_dir_all(machine.place("/opt/msccl/bin")).unwrap();
    let facts = collect(&machine, None);
    let paths: Vec<_> = facts.libraries.iter().map(|it| Path::new(&it.path)).collect();
    assert!(paths.contains(&Path::new("/opt/msccl/lib/libnccl.so.2")), "{paths:?}");
}
