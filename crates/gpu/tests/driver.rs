//! Machines without a GPU, drivers that misbehave, and the order of entering and leaving: with a
//! small library that stands in for the driver, compiled here in several variants. A door for
//! `unsafe`: it opens that library.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::process::Command;

use msccl_gpu::{
    Context, CuResult, DeviceBuffer, Driver, DriverVersion, Error, Event, Function, Graph,
    GraphExec, IpcMapping, Module, PinnedBuffer, RegisteredMemory, Stream, StreamRef, Unavailable,
    VmmAllocation, VmmMapping,
};

/// Compiles the stand-in with `variant` switched on. Each test has a variant of its own, if only
/// in name, since a library that is loaded twice counts its objects once.
fn fake(variant: &str) -> PathBuf {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("libcuda-{variant}.so"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/libcuda.rs");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let done = Command::new(compiler)
        .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "cuda"])
        .args(["-A", "unexpected_cfgs", "-C", "opt-level=0", "--cfg", variant, "-o"])
        .args([&library, &source])
        .output()
        .expect("the compiler that compiled this test can be run");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    library
}

#[expect(unsafe_code, reason = "opens a library that stands in for the driver")]
fn load(library: &Path) -> Result<&'static Driver, Unavailable> {
    // SAFETY: the stand-in's functions have the driver's signatures; other paths do not exist.
    unsafe { Driver::load_from(library) }
}

fn context(driver: &'static Driver) -> Context {
    driver.device(0).unwrap().context().unwrap()
}

/// How many objects the stand-in has made and not destroyed, and how deep the calling thread's
/// stack of contexts is.
fn alive_and_depth(context: &Context) -> (usize, usize) {
    context.memory_info().unwrap()
}

fn check_unavailable(variant: &str, expected: &str) {
    let library = fake(variant);
    let found = load(&library).unwrap_err().to_string();
    assert_eq!(found.replace(library.to_str().unwrap(), "LIB"), expected);
}

#[test]
fn a_missing_library_is_reported_as_unavailable() {
    let found = load(Path::new("/nowhere/libcuda.so.1")).unwrap_err();
    let Unavailable::NoLibrary { library, reason } = &found else { panic!("{found:?}") };
    assert_eq!(library, "/nowhere/libcuda.so.1");
    assert!(reason.contains("No such file or directory"), "{reason}");
    assert!(found.to_string().starts_with("no CUDA driver: `/nowhere/libcuda.so.1` could not"));
}

#[test]
fn the_installed_driver_is_there_or_says_why_not() {
    let first = Driver::load().map(|driver| driver.device_count());
    let second = Driver::load().map(|driver| driver.device_count());
    assert_eq!(first, second);
    match first {
        Ok(devices) => assert!(devices > 0),
        Err(reason) => assert!(!reason.to_string().is_empty()),
    }
}

#[test]
fn a_driver_without_devices_is_reported_as_unavailable() {
    check_unavailable("no_device", &Unavailable::NoDevice.to_string());
    check_unavailable("zero_devices", &Unavailable::NoDevice.to_string());
}

#[test]
fn a_stub_is_distinguished_from_a_driver() {
    check_unavailable(
        "stub",
        "no CUDA driver: `LIB` is the stub of a CUDA toolkit, meant for linking; take its folder \
         out of LD_LIBRARY_PATH",
    );
}

#[test]
fn a_library_without_the_first_function() {
    check_unavailable("no_init", "`LIB` is no usable CUDA driver: it has no cuInit");
}

#[test]
fn a_code_nobody_knows_at_the_start() {
    check_unavailable(
        "unknown_code",
        "the CUDA driver did not start: cuInit failed: unknown code (99999)",
    );
}

#[test]
fn a_code_nobody_knows_later() {
    let driver = load(&fake("plain_unknown")).unwrap();
    let error = DeviceBuffer::new(&context(driver), 13).unwrap_err();
    assert_eq!(error.code(), Some(CuResult(99_999)));
    assert_eq!(error.to_string(), "cuMemAlloc_v2 failed: unknown code (99999)");
}

#[test]
fn a_driver_that_cannot_describe_its_codes() {
    let driver = load(&fake("no_words")).unwrap();
    let error = DeviceBuffer::new(&context(driver), 0).unwrap_err();
    assert_eq!(error.to_string(), "cuMemAlloc_v2 failed: unknown code (1)");
}

#[test]
fn the_driver_describes_its_errors() {
    let driver = load(&fake("plain_words")).unwrap();
    let error = DeviceBuffer::new(&context(driver), 1 << 50).unwrap_err();
    assert!(error.is(CuResult::OUT_OF_MEMORY));
    let expected = "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_function_that_the_driver_lacks_is_an_error_of_the_call() {
    let driver = load(&fake("plain_missing")).unwrap();
    assert_eq!(driver.version(), DriverVersion { major: 12, minor: 8 });
    let error = PinnedBuffer::new(&context(driver), 8).unwrap_err();
    assert_eq!(error, Error::MissingSymbol { call: "cuMemHostAlloc" });
    assert_eq!(error.code(), None);
}

#[test]
fn success_without_a_handle_is_an_error() {
    let driver = load(&fake("plain_null")).unwrap();
    let error = Event::ordering(&context(driver)).err();
    assert_eq!(error, Some(Error::NoHandle { requested: "an event" }));
}

#[test]
fn a_device_that_is_not_there() {
    let driver = load(&fake("plain_device")).unwrap();
    for ordinal in [2, u32::MAX] {
        assert_eq!(driver.device(ordinal).unwrap_err().code(), Some(CuResult(101)));
    }
}

#[test]
fn work_that_is_not_done_is_no_error() {
    let driver = load(&fake("plain_query")).unwrap();
    let context = context(driver);
    assert_eq!(Stream::new(&context).unwrap().borrow().is_idle(), Ok(false));
}

#[test]
fn every_way_out_leaves_the_callers_context() {
    let driver = load(&fake("plain_leave")).unwrap();
    let context = context(driver);
    assert_eq!(driver.current_device().unwrap(), None);
    let buffer = DeviceBuffer::new(&context, 8).unwrap();
    let stream = Stream::new(&context).unwrap();
    assert!(DeviceBuffer::new(&context, 0).is_err());
    assert!(Event::ordering(&context).is_err());
    drop((buffer, stream));
    let unwound = std::panic::catch_unwind(|| {
        let _entered = context.enter().unwrap();
        panic!("on purpose");
    });
    assert!(unwound.is_err());
    assert_eq!(driver.current_device().unwrap(), None);
}

#[test]
fn a_caller_on_another_device_stays_there() {
    let driver = load(&fake("plain_stays")).unwrap();
    let ours = context(driver);
    let theirs = driver.device(1).unwrap().context().unwrap();
    let _entered = theirs.enter().unwrap();
    let buffer = DeviceBuffer::new(&ours, 8).unwrap();
    assert!(DeviceBuffer::new(&ours, 0).is_err());
    let inner = ours.enter().unwrap();
    assert_eq!(driver.current_device().unwrap(), Some(ours.device()));
    drop((inner, buffer));
    assert_eq!(driver.current_device().unwrap(), Some(theirs.device()));
    assert_eq!(alive_and_depth(&theirs).1, 1);
}

#[test]
fn entering_twice_is_entering_once() {
    let driver = load(&fake("plain_twice")).unwrap();
    let context = context(driver);
    let outer = context.enter().unwrap();
    let inner = context.enter().unwrap();
    assert_eq!(alive_and_depth(&context).1, 1);
    drop(inner);
    assert_eq!(alive_and_depth(&context).1, 1, "the inner guard must not take it away");
    drop(outer);
    assert_eq!(driver.current_device().unwrap(), None);
}

#[test]
fn what_is_made_is_destroyed_in_its_context() {
    let driver = load(&fake("plain_alive")).unwrap();
    let context = context(driver);
    let before = alive_and_depth(&context).0;
    let buffer = DeviceBuffer::new(&context, 8).unwrap();
    let stream = Stream::new(&context).unwrap();
    assert_eq!(alive_and_depth(&context).0, before + 2);
    std::thread::spawn(move || drop((buffer, stream))).join().unwrap();
    assert_eq!(alive_and_depth(&context).0, before);
}

#[test]
fn the_last_owner_gives_the_context_back() {
    let driver = load(&fake("plain_release")).unwrap();
    let watcher = context(driver);
    let context = context(driver);
    let buffer = DeviceBuffer::new(&context, 8).unwrap();
    drop(context);
    assert_eq!(alive_and_depth(&watcher).0, 3, "the buffer keeps its context");
    drop(buffer);
    assert_eq!(alive_and_depth(&watcher).0, 1);
}

/// Everything that owns or names something may go to another thread.
#[test]
fn threads_share_what_is_made() {
    fn shared<T: Send + Sync>() {}
    shared::<(Context, DeviceBuffer, PinnedBuffer, RegisteredMemory, IpcMapping)>();
    shared::<(VmmAllocation, VmmMapping, Stream, StreamRef<'_>, Event)>();
    shared::<(Module, Function, Graph, GraphExec)>();
}

#[test]
fn ranges_are_checked_before_the_driver_is_called() {
    let driver = load(&fake("plain_range")).unwrap();
    let buffer = DeviceBuffer::new(&context(driver), 8).unwrap();
    let expected = Error::OutOfRange { offset: 0, bytes: 9, length_bytes: 8 };
    assert_eq!(buffer.span().write(&[0; 9]), Err(expected.clone()));
    assert_eq!(buffer.span().read(&mut [0; 9]), Err(expected));
    let expected = Error::OutOfRange { offset: 4, bytes: 8, length_bytes: 8 };
    assert_eq!(buffer.span().slice(4..12).unwrap_err(), expected);
    assert_eq!(buffer.span().slice(4..8).unwrap().length_bytes(), 4);
}
