//! A door for `unsafe`: the functions of [`abi::Api`], which anybody may call from C.
//!
//! Each turns pointers into references, calls what does the work, and turns the outcome into a [`abi::Status`]
//! and a text. Nothing unwinds out of them.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use msccl_proxy::rdma::abi;

use crate::address::{mtu_bytes, padded};
use crate::machine::{Machine, Port, Registration, Settings};
use crate::rail::{Rail, Unconnected};
use crate::verbs::{Refused, Region};

static API: abi::Api = abi::Api {
    version: abi::VERSION,
    reserved: 0,
    open,
    close,
    devices,
    register,
    register_dmabuf,
    deregister,
    rail,
    connect,
    story,
    post,
    poll,
    fail,
    end,
};

/// Gives the table of `version`, or null: [`abi::ENTRY`].
#[unsafe(no_mangle)]
pub extern "C" fn msccl_rdma_api(version: u32) -> *const abi::Api {
    if version == abi::VERSION { &raw const API } else { std::ptr::null() }
}

/// Why a function did not do what was asked for.
enum Failure {
    Failed(String),
    Unsupported(String),
    Unanswered(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<Unconnected> for Failure {
    fn from(unconnected: Unconnected) -> Self {
        match unconnected {
            Unconnected::Never(why) => Self::Failed(why),
            Unconnected::NotNow(why) => Self::Unanswered(why),
        }
    }
}

/// Runs `work`; puts why it failed into `text`, also if it panicked.
///
/// # Safety
/// `text` must be null or a text with `room` bytes.
unsafe fn guarded(text: *mut abi::Text, work: impl FnOnce() -> Result<i32, Failure>) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(Failure::Failed(format!("a defect of libmsccl-rdma.so: {words}")))
    });
    let (status, why) = match outcome {
        Ok(answer) => return answer,
        Err(Failure::Failed(why)) => (abi::FAILED, why),
        Err(Failure::Unsupported(why)) => (abi::UNSUPPORTED, why),
        Err(Failure::Unanswered(why)) => (abi::UNANSWERED, why),
    };
    // SAFETY: as the caller promises.
    unsafe { tell(text, &why) };
    status
}

/// Puts as much of `words` into `text` as it has room for.
///
/// # Safety
/// `text` must be null or a text with `room` bytes.
unsafe fn tell(text: *mut abi::Text, words: &str) {
    // SAFETY: the caller promises that it is null or a text of its own.
    let Some(text) = (unsafe { text.as_mut() }) else { return };
    let room = usize::try_from(text.room).unwrap_or(usize::MAX);
    let cut = (0..=room.min(words.len())).rev().find(|at| words.is_char_boundary(*at)).unwrap_or(0);
    if !text.bytes.is_null() {
        // SAFETY: there is room for `room` bytes, and `cut` is not more.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), text.bytes, cut) };
        text.used = cut as u64;
    }
}

fn null(what: &str) -> Failure {
    Failure::Failed(format!("{what} is null"))
}

/// # Safety
/// The handle must be one of [`open`] that was not closed, or null.
unsafe fn machine<'a>(context: *mut abi::Context) -> Result<&'a Machine, Failure> {
    // SAFETY: as the caller promises; contexts are boxed machines (`open`), used by shared reference only.
    unsafe { context.cast::<Machine>().as_ref() }.ok_or_else(|| null("the context"))
}

/// # Safety
/// The handle must be one of [`rail`] that was not ended, or null, and in no other call.
unsafe fn rail_of<'a>(handle: *mut abi::Rail) -> Result<&'a mut Rail, Failure> {
    // SAFETY: as the caller promises; rails are boxed rails (`rail`), and one call at a time uses one.
    unsafe { handle.cast::<Rail>().as_mut() }.ok_or_else(|| null("the rail"))
}

unsafe extern "C" fn open(
    config: *const abi::Config,
    context: *mut *mut abi::Context,
    text: *mut abi::Text,
) -> abi::Status {
    let work = || {
        // SAFETY: the caller gives a configuration, or null.
        let config = unsafe { config.as_ref() }.ok_or_else(|| null("the configuration"))?;
        let abi::Config { hca, hca_bytes, .. } = *config;
        let abi::Config { gid_index, timeout, retry_count, traffic_class, service_level, .. } =
            *config;
        let hca = match hca_bytes {
            0 => &[],
            // SAFETY: the caller says that there are so many bytes.
            _ => unsafe {
                std::slice::from_raw_parts(hca, usize::try_from(hca_bytes).unwrap_or(0))
            },
        };
        let hca = std::str::from_utf8(hca).map_err(|_| "NCCL_IB_HCA is not UTF-8".to_owned())?;
        let numbers = [gid_index, timeout, retry_count, traffic_class, service_level];
        let machine = Box::new(Machine::open(Settings::new(hca, numbers)?)?);
        // SAFETY: the caller gives a place for the handle.
        unsafe { *context = Box::into_raw(machine).cast() };
        Ok(abi::OK)
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) }
}

unsafe extern "C" fn close(context: *mut abi::Context) {
    // SAFETY: the handle is a boxed machine (`open`), which the caller gives up.
    let work = || unsafe { end_box::<Machine>(context.cast()) };
    // SAFETY: there is no text.
    unsafe { guarded(std::ptr::null_mut(), work) };
}

/// # Safety
/// `handle` must come from `Box<T>` and not be used any more, or be null.
unsafe fn end_box<T>(handle: *mut T) -> Result<abi::Status, Failure> {
    if !handle.is_null() {
        // SAFETY: as the caller promises.
        drop(unsafe { Box::from_raw(handle) });
    }
    Ok(abi::OK)
}

unsafe extern "C" fn devices(
    context: *mut abi::Context,
    devices: *mut abi::Device,
    room: u32,
) -> u32 {
    let work = || {
        // SAFETY: the caller gives a context.
        let ports = unsafe { machine(context) }?.ports();
        for (index, port) in ports.iter().enumerate().take(room as usize) {
            // SAFETY: the caller gives `room` places.
            unsafe { devices.add(index).write(device(port)) };
        }
        Ok(i32::try_from(ports.len()).unwrap_or(i32::MAX))
    };
    // SAFETY: there is no text.
    let count = unsafe { guarded(std::ptr::null_mut(), work) };
    u32::try_from(count).unwrap_or(0)
}

fn device(port: &Port) -> abi::Device {
    abi::Device {
        name: padded(port.watch.adapter().name()),
        pci_path: padded(&port.pci_path()),
        port: u32::from(port.number),
        mtu_bytes: mtu_bytes(port.facts.mtu_code),
        gbit_per_s: port.gbit_per_s(),
        ethernet: u32::from(port.facts.ethernet),
    }
}

/// Puts a registration's handle where the caller wants it, or says why there is none.
///
/// # Safety
/// `handle` must be a place for one.
unsafe fn registered(
    port: &Arc<Port>,
    region: Result<Region, Refused>,
    handle: *mut *mut abi::Registration,
) -> Result<abi::Status, Failure> {
    let region = region.map_err(|refused| not_registered(port, &refused))?;
    let registration = Arc::new(Registration { region, port: Arc::clone(port) });
    // SAFETY: as the caller promises.
    unsafe { *handle = Box::into_raw(Box::new(registration)).cast() };
    Ok(abi::OK)
}

fn not_registered(port: &Port, refused: &Refused) -> Failure {
    let story = port.story();
    if refused.is_unsupported() {
        return Failure::Unsupported(format!("{story} does not offer that: {refused}"));
    }
    let advice = match refused.error.kind() {
        std::io::ErrorKind::OutOfMemory => {
            "; memory that may be locked is limited (see `ulimit -l`)"
        }
        _ => "",
    };
    Failure::Failed(format!("{story} cannot reach the memory: {refused}{advice}"))
}

unsafe extern "C" fn register(
    context: *mut abi::Context,
    device: u32,
    address: *mut c_void,
    bytes: u64,
    handle: *mut *mut abi::Registration,
    text: *mut abi::Text,
) -> abi::Status {
    let work = || {
        // SAFETY: the caller gives a context.
        let port = unsafe { machine(context) }?.port(device)?;
        // SAFETY: the caller gives memory that stays until `deregister`.
        let region = unsafe { Region::new(port.watch.adapter(), address, bytes) };
        // SAFETY: the caller gives a place for the handle.
        unsafe { registered(port, region, handle) }
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) }
}

unsafe extern "C" fn register_dmabuf(
    context: *mut abi::Context,
    device: u32,
    descriptor: i32,
    offset: u64,
    bytes: u64,
    address: u64,
    handle: *mut *mut abi::Registration,
    text: *mut abi::Text,
) -> abi::Status {
    let work = || {
        // SAFETY: the caller gives a context.
        let port = unsafe { machine(context) }?.port(device)?;
        let adapter = port.watch.adapter();
        let region = Region::of_dmabuf(adapter, descriptor, offset, bytes, address);
        // SAFETY: the caller gives a place for the handle.
        unsafe { registered(port, region, handle) }
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) }
}

unsafe extern "C" fn deregister(handle: *mut abi::Registration) {
    // SAFETY: the handle is a boxed `Arc` (`registered`), which the caller gives up.
    let work = || unsafe { end_box::<Arc<Registration>>(handle.cast()) };
    // SAFETY: there is no text.
    unsafe { guarded(std::ptr::null_mut(), work) };
}

unsafe extern "C" fn rail(
    context: *mut abi::Context,
    registration: *mut abi::Registration,
    handle: *mut *mut abi::Rail,
    address: *mut abi::Address,
    text: *mut abi::Text,
) -> abi::Status {
    let work = || {
        // SAFETY: the caller gives a context.
        let machine = unsafe { machine(context) }?;
        // SAFETY: the caller gives a registration, which is a boxed `Arc` (`registered`).
        let registration = unsafe { registration.cast::<Arc<Registration>>().as_ref() };
        let registration = registration.ok_or_else(|| null("the registration"))?;
        let rail = Rail::new(machine.settings(), Arc::clone(registration))?;
        // SAFETY: the caller gives places for the address and the handle.
        unsafe {
            *address = rail.address();
            *handle = Box::into_raw(Box::new(rail)).cast();
        }
        Ok(abi::OK)
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) }
}

unsafe extern "C" fn connect(
    handle: *mut abi::Rail,
    address: *const abi::Address,
    text: *mut abi::Text,
) -> abi::Status {
    let work = || {
        // SAFETY: the caller gives a rail and an address.
        let (rail, address) = unsafe { (rail_of(handle)?, address.as_ref()) };
        rail.connect(address.ok_or_else(|| null("the address"))?)?;
        Ok(abi::OK)
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) }
}

unsafe extern "C" fn story(handle: *mut abi::Rail, text: *mut abi::Text) {
    let work = || {
        // SAFETY: the caller gives a rail.
        let words = unsafe { rail_of(handle) }?.story();
        // SAFETY: the caller gives a text.
        unsafe { tell(text, &words) };
        Ok(abi::OK)
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) };
}

unsafe extern "C" fn post(
    handle: *mut abi::Rail,
    write: *const abi::Write,
    text: *mut abi::Text,
) -> abi::Status {
    let work = || {
        // SAFETY: the caller gives a rail and a write.
        let (rail, write) = unsafe { (rail_of(handle)?, write.as_ref()) };
        let posted = rail.post(write.ok_or_else(|| null("the write"))?)?;
        Ok(if posted { abi::OK } else { abi::FULL })
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) }
}

unsafe extern "C" fn poll(
    handle: *mut abi::Rail,
    happened: *mut abi::Happened,
    room: u32,
    text: *mut abi::Text,
) -> i32 {
    let work = || {
        // SAFETY: the caller gives a rail.
        let rail = unsafe { rail_of(handle) }?;
        let happened = match room {
            0 => &mut [],
            // SAFETY: the caller gives `room` of them.
            _ => unsafe { std::slice::from_raw_parts_mut(happened, room as usize) },
        };
        let count = rail.poll(happened)?;
        Ok(i32::try_from(count).unwrap_or(i32::MAX))
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) }
}

unsafe extern "C" fn fail(handle: *mut abi::Rail) {
    let work = || {
        // SAFETY: the caller gives a rail.
        unsafe { rail_of(handle) }?.close();
        Ok(abi::OK)
    };
    // SAFETY: there is no text.
    unsafe { guarded(std::ptr::null_mut(), work) };
}

unsafe extern "C" fn end(handle: *mut abi::Rail) {
    // SAFETY: the handle is a boxed rail (`rail`), which the caller gives up.
    let work = || unsafe { end_box::<Rail>(handle.cast()) };
    // SAFETY: there is no text.
    unsafe { guarded(std::ptr::null_mut(), work) };
}
