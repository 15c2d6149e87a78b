//! What the driver's calls on the way of an eager collective cost the host, one by one: on a
//! machine with a GPU. A door for `unsafe`: some of them the crate itself never makes.
//!
//! `cargo build --release -p msccl-gpu --example driver_costs` gives a program that needs nothing
//! but the driver. Every figure is the median, in ns, over many batches of calls; nothing is waited
//! for within a batch.

#![expect(unsafe_code, reason = "calls functions of the driver that the crate never calls")]
#![allow(clippy::print_stdout, reason = "this program reports on its standard output")]

use std::error::Error;
use std::ffi::c_void;
use std::ptr;
use std::time::Instant;

use cudarc::driver::sys::{
    CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT, CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT,
    CU_LAUNCH_PARAM_END_AS_INT,
};
use libloading::os::unix::Library;
use msccl_gpu::{
    CaptureState, Context, DeviceBuffer, Driver, EnteredStream, Event, Image, Launch, Module,
    Stream,
};

/// Calls of a batch: fewer than a stream takes without waiting.
const BATCH: u32 = 100;

/// How many batches.
const BATCHES: usize = 301;

/// Bytes of the record that an interpreter kernel is given by value.
const RECORD_BYTES: usize = 1424;

/// A kernel that takes such a record and does nothing.
const KERNEL: &str = "\
.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing(.param .align 8 .b8 record[1424]) { ret; }
";

/// Functions with the signatures that the driver's interface gives them.
type Query = unsafe extern "C" fn(*mut c_void, *mut u64) -> u32;
type Write = unsafe extern "C" fn(*mut c_void, u64, u64, u32) -> u32;
type GetFunction = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const i8) -> u32;
type LoadModule = unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> u32;
type LaunchKernel = unsafe extern "C" fn(
    *mut c_void,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> u32;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What is measured with.
struct Bench<'a> {
    context: &'a Context,
    stream: Stream,
    library: Library,
}

fn main() -> Outcome<()> {
    let driver = Driver::load()?;
    let context = driver.device(0)?.context()?;
    println!("driver: CUDA {}, {}", driver.version(), context.device().name()?);
    let stream = Stream::new(&context)?;
    // SAFETY: the driver is open already; this finds it again.
    let library = unsafe { Library::new("libcuda.so.1")? };
    let bench = Bench { context: &context, stream, library };
    bench.queries()?;
    bench.launches()?;
    bench.marks()
}

impl Bench<'_> {
    /// Prints what `call` costs.
    fn print_cost(&self, name: &str, mut call: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
        let mut times = Vec::with_capacity(BATCHES);
        for _ in 0..BATCHES {
            let start = Instant::now();
            (0..BATCH).try_for_each(|_| call())?;
            times.push(start.elapsed().as_nanos() as f64 / f64::from(BATCH));
            self.stream.borrow().synchronize()?;
        }
        times.sort_by(f64::total_cmp);
        let median = times[BATCHES / 2];
        println!("{median:7.0} ns  (least {:.0})  {name}", times[0]);
        Ok(median)
    }

    /// The function `name`; nothing, said aloud, if the driver is too old.
    fn find<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: whoever asks names the type that the driver's interface gives the function.
        let found = unsafe { self.library.get::<F>(name.as_bytes()) };
        if found.is_err() {
            println!("SKIPPED: the driver has no {name}");
        }
        found.ok().map(|found| *found)
    }

    fn queries(&self) -> Outcome<()> {
        let entered = self.context.enter()?;
        self.print_cost("cuCtxGetCurrent (entering what is current)", || {
            drop(self.context.enter()?);
            Ok(())
        })?;
        // SAFETY: the stream is one of the context and outlives this.
        let stream = unsafe { EnteredStream::from_raw(&entered, self.stream.borrow().as_raw()) };
        self.print_cost("cuStreamGetCaptureInfo_v2", || {
            assert_eq!(stream.capture_state()?, CaptureState::None);
            Ok(())
        })?;
        for name in ["cuStreamIsCapturing", "cuStreamGetId"] {
            let Some(query) = self.find::<Query>(name) else { continue };
            let (raw, mut answer) = (self.stream.borrow().as_raw(), 0);
            // SAFETY: the stream is alive; the answer has at most eight bytes.
            self.print_cost(name, || done(unsafe { query(raw, &mut answer) }))?;
        }
        Ok(())
    }

    fn launches(&self) -> Outcome<()> {
        let entered = self.context.enter()?;
        // SAFETY: as in `queries`.
        let stream = unsafe { EnteredStream::from_raw(&entered, self.stream.borrow().as_raw()) };
        let kernel = Module::load(self.context, Image::ptx(KERNEL))?.function("nothing")?;
        let record = [0; RECORD_BYTES];
        for own_memory_domain in [false, true] {
            let shape = Launch { own_memory_domain, ..Launch::linear(8, 512) };
            let name = format!(
                "cuLaunchKernelEx, {RECORD_BYTES} bytes by value{}",
                if own_memory_domain { ", its own memory domain" } else { "" }
            );
            self.print_cost(&name, || {
                // SAFETY: the kernel takes such a record and does nothing.
                unsafe { kernel.launch_in(stream, &shape, &record)? };
                Ok(())
            })?;
        }
        self.plain_launch(&record)
    }

    /// The older call, which knows no attributes.
    fn plain_launch(&self, record: &[u8; RECORD_BYTES]) -> Outcome<()> {
        let (Some(load), Some(find), Some(launch)) = (
            self.find::<LoadModule>("cuModuleLoadData"),
            self.find::<GetFunction>("cuModuleGetFunction"),
            self.find::<LaunchKernel>("cuLaunchKernel"),
        ) else {
            return Ok(());
        };
        let (mut module, mut kernel) = (ptr::null_mut(), ptr::null_mut());
        let text = std::ffi::CString::new(KERNEL)?;
        // SAFETY: text and name end with a zero; the places to write are borrowed.
        unsafe {
            done(load(&mut module, text.as_ptr().cast()))?;
            done(find(&mut kernel, module, c"nothing".as_ptr().cast()))?;
        }
        let mut bytes = RECORD_BYTES;
        let mut list: [*mut c_void; 5] = [
            ptr::without_provenance_mut(CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT as usize),
            record.as_ptr().cast_mut().cast(),
            ptr::without_provenance_mut(CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT as usize),
            (&raw mut bytes).cast(),
            ptr::without_provenance_mut(CU_LAUNCH_PARAM_END_AS_INT as usize),
        ];
        let (raw, list) = (self.stream.borrow().as_raw(), list.as_mut_ptr());
        self.print_cost("cuLaunchKernel, the same without attributes", || {
            // SAFETY: the kernel takes such a record and does nothing; the driver copies the
            // record.
            done(unsafe { launch(kernel, 8, 1, 1, 512, 1, 1, 0, raw, ptr::null_mut(), list) })
        })?;
        Ok(())
    }

    /// What marks the end of a launch, each after a launch as in a call.
    fn marks(&self) -> Outcome<()> {
        let entered = self.context.enter()?;
        // SAFETY: as in `queries`.
        let stream = unsafe { EnteredStream::from_raw(&entered, self.stream.borrow().as_raw()) };
        let kernel = Module::load(self.context, Image::ptx(KERNEL))?.function("nothing")?;
        let shape = Launch { own_memory_domain: true, ..Launch::linear(8, 512) };
        // SAFETY: as in `launches`.
        let launch = || unsafe { kernel.launch_in(stream, &shape, &[0; RECORD_BYTES]) };
        let end = Event::ordering(self.context)?;
        self.print_cost("launch and cuEventRecord", || {
            launch()?;
            Ok(stream.record(&end)?)
        })?;
        self.print_cost(
            "all that an eager call asks: context, capture, launch, cuEventRecord",
            || {
                drop(self.context.enter()?);
                stream.capture_state()?;
                launch()?;
                Ok(stream.record(&end)?)
            },
        )?;
        self.print_cost("cuStreamWaitEvent", || Ok(stream.wait(&end)?))?;
        let Some(write) = self.find::<Write>("cuStreamWriteValue64_v2") else { return Ok(()) };
        let (word, raw) = (DeviceBuffer::zeroed(self.context, 8)?, self.stream.borrow().as_raw());
        self.print_cost("launch and cuStreamWriteValue64_v2", || {
            launch()?;
            // SAFETY: the word outlives the stream's work, which `print_cost` waits for.
            done(unsafe { write(raw, word.ptr().0, 1, 0) })
        })?;
        Ok(())
    }
}

/// `Ok` for success.
fn done(code: u32) -> Outcome<()> {
    if code == 0 { Ok(()) } else { Err(format!("the driver says {code}").into()) }
}
