//! The library's side of the table, for libraries in Rust: whatever is a [`Library`] gets the C
//! functions of [`abi::Api`] from [`table`]. An unsafe boundary: nobody else has to spell them.
//!
//! **What it adds.** Pointers become references, and null ones failures; outcomes become statuses
//! and texts; handles are boxes, and ending one drops what is in it. Nothing unwinds into C: a
//! panic is a failure with its words.
//!
//! It needs [`abi`] and nothing else, so that a file which is compiled by itself can include both.

#![expect(unsafe_code, reason = "makes functions in the C ABI of those of a library in Rust")]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::abi;

/// Why a function has not done what was asked for, in words for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// [`abi::FAILED`].
    Failed(String),
    /// [`abi::UNSUPPORTED`].
    Unsupported(String),
    /// [`abi::UNANSWERED`]: it may succeed later.
    Unanswered(String),
}

impl Refusal {
    /// The words.
    pub fn text(self) -> String {
        match self {
            Self::Failed(why) | Self::Unsupported(why) | Self::Unanswered(why) => why,
        }
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// Part of a dma-buf.
#[derive(Clone, Copy, Debug)]
pub struct OfferedDmaBuf {
    /// Its file descriptor, which is only lent.
    pub descriptor: i32,
    /// Where the part begins.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// What the same memory is called by its owner.
    pub address: u64,
}

/// What a library does, function by function as [`abi::Api`] says. The value is a context.
pub trait Library: Sized + 'static {
    /// Memory that a device may reach, until it is dropped.
    type Registration: 'static;
    /// One end of a connection; dropping it ends it. It outlives neither its registration nor its
    /// context.
    type Rail: 'static;

    /// [`abi::Api::open`]; `hca` is what `config` points to.
    fn open(hca: &str, config: &abi::VerbsConfig) -> Result<Self, Refusal>;

    /// [`abi::Api::devices`], all of them.
    fn devices(&self) -> Vec<abi::Device>;

    /// [`abi::Api::register`].
    ///
    /// # Safety
    ///
    /// The memory stays mapped until the registration is dropped.
    unsafe fn register(
        &self,
        device: u32,
        address: *mut c_void,
        bytes: u64,
    ) -> Result<Self::Registration, Refusal>;

    /// [`abi::Api::register_dmabuf`].
    fn register_dmabuf(
        &self,
        device: u32,
        memory: OfferedDmaBuf,
    ) -> Result<Self::Registration, Refusal>;

    /// [`abi::Api::rail`].
    fn rail(&self, memory: &Self::Registration) -> Result<(Self::Rail, abi::Address), Refusal>;

    /// [`abi::Api::connect`].
    fn connect(rail: &mut Self::Rail, peer: &abi::Address) -> Result<(), Refusal>;

    /// [`abi::Api::describe`].
    fn describe(rail: &Self::Rail) -> String;

    /// [`abi::Api::post`]; false if there is no room now.
    fn post(rail: &mut Self::Rail, write: &abi::RawWrite) -> Result<bool, Refusal>;

    /// [`abi::Api::poll`]; how many of `events` it has filled.
    fn poll(rail: &mut Self::Rail, events: &mut [abi::RawRailEvent]) -> Result<usize, Refusal>;

    /// [`abi::Api::fail`].
    fn fail(rail: &mut Self::Rail);
}

/// The table of the library `L`.
pub const fn table<L: Library>() -> abi::Api {
    abi::Api {
        version: abi::VERSION,
        reserved: 0,
        open: open::<L>,
        close: close::<L>,
        devices: devices::<L>,
        register: register::<L>,
        register_dmabuf: register_dmabuf::<L>,
        deregister: deregister::<L>,
        rail: rail::<L>,
        connect: connect::<L>,
        describe: describe::<L>,
        post: post::<L>,
        poll: poll::<L>,
        fail: fail::<L>,
        end: end::<L>,
    }
}

/// Runs `work`; puts why it failed into `text`, also if it panicked.
///
/// # Safety
/// `text` must be null or a text with `room` bytes.
unsafe fn guarded(text: *mut abi::Text, work: impl FnOnce() -> Result<i32, Refusal>) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(Refusal::Failed(format!("a defect of libmsccl-rdma.so: {words}")))
    });
    let (status, why) = match outcome {
        Ok(answer) => return answer,
        Err(Refusal::Failed(why)) => (abi::FAILED, why),
        Err(Refusal::Unsupported(why)) => (abi::UNSUPPORTED, why),
        Err(Refusal::Unanswered(why)) => (abi::UNANSWERED, why),
    };
    // SAFETY: as the caller promises.
    unsafe { write_text(text, &why) };
    status
}

/// Puts as much of `words` into `text` as it has room for.
///
/// # Safety
/// `text` must be null or a text with `room` bytes.
unsafe fn write_text(text: *mut abi::Text, words: &str) {
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

fn null(what: &str) -> Refusal {
    Refusal::Failed(format!("{what} is null"))
}

/// What the handle `handle`, called `what`, stands for.
///
/// # Safety
/// The handle must be one that [`put`] made of a `T` and that was not ended, or null.
unsafe fn behind<'a, H, T>(handle: *mut H, what: &str) -> Result<&'a T, Refusal> {
    // SAFETY: as the caller promises.
    unsafe { handle.cast::<T>().as_ref() }.ok_or_else(|| null(what))
}

/// The rail behind `handle`.
///
/// # Safety
/// As for [`behind`]; and no other call uses the handle.
unsafe fn rail_of<'a, L: Library>(
    handle: *mut abi::RailHandle,
) -> Result<&'a mut L::Rail, Refusal> {
    // SAFETY: as the caller promises.
    unsafe { handle.cast::<L::Rail>().as_mut() }.ok_or_else(|| null("the rail"))
}

/// Puts a handle of `value` at `place`.
///
/// # Safety
/// `place` must be a place for a handle.
unsafe fn put<H, T>(place: *mut *mut H, value: T) {
    // SAFETY: as the caller promises.
    unsafe { *place = Box::into_raw(Box::new(value)).cast() };
}

/// Drops what `handle` stands for.
///
/// # Safety
/// As for [`behind`]; and the handle is not used any more.
unsafe fn take_back<H, T>(handle: *mut H) {
    let work = || {
        if !handle.is_null() {
            // SAFETY: as the caller promises; `put` has made it of a box.
            drop(unsafe { Box::from_raw(handle.cast::<T>()) });
        }
        Ok(abi::OK)
    };
    // SAFETY: there is no text.
    unsafe { guarded(std::ptr::null_mut(), work) };
}

unsafe extern "C" fn open<L: Library>(
    config: *const abi::VerbsConfig,
    context: *mut *mut abi::Context,
    text: *mut abi::Text,
) -> abi::Status {
    let work = || {
        // SAFETY: the caller gives a configuration, or null.
        let config = unsafe { config.as_ref() }.ok_or_else(|| null("the configuration"))?;
        let hca = match config.hca_bytes {
            0 => &[],
            // SAFETY: the caller says that there are so many bytes.
            bytes => unsafe { std::slice::from_raw_parts(config.hca, bytes as usize) },
        };
        let hca = std::str::from_utf8(hca).map_err(|_| "NCCL_IB_HCA is not UTF-8".to_owned())?;
        let opened = L::open(hca, config)?;
        // SAFETY: the caller gives a place for the handle.
        unsafe { put(context, opened) };
        Ok(abi::OK)
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) }
}

unsafe extern "C" fn close<L: Library>(context: *mut abi::Context) {
    // SAFETY: the handle is one of `open`, which the caller gives up.
    unsafe { take_back::<_, L>(context) }
}

unsafe extern "C" fn devices<L: Library>(
    context: *mut abi::Context,
    devices: *mut abi::Device,
    room: u32,
) -> u32 {
    let work = || {
        // SAFETY: the caller gives a context.
        let all = unsafe { behind::<_, L>(context, "the context") }?.devices();
        for (index, device) in all.iter().enumerate().take(room as usize) {
            // SAFETY: the caller gives `room` places.
            unsafe { devices.add(index).write(*device) };
        }
        Ok(i32::try_from(all.len()).unwrap_or(i32::MAX))
    };
    // SAFETY: there is no text.
    let count = unsafe { guarded(std::ptr::null_mut(), work) };
    u32::try_from(count).unwrap_or(0)
}

unsafe extern "C" fn register<L: Library>(
    context: *mut abi::Context,
    device: u32,
    address: *mut c_void,
    bytes: u64,
    registration: *mut *mut abi::Registration,
    text: *mut abi::Text,
) -> abi::Status {
    let work = || {
        // SAFETY: the caller gives a context, memory that stays until `deregister`, and a place for
        // the handle.
        unsafe {
            let context = behind::<_, L>(context, "the context")?;
            put(registration, context.register(device, address, bytes)?);
        }
        Ok(abi::OK)
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) }
}

unsafe extern "C" fn register_dmabuf<L: Library>(
    context: *mut abi::Context,
    device: u32,
    descriptor: i32,
    offset: u64,
    bytes: u64,
    address: u64,
    registration: *mut *mut abi::Registration,
    text: *mut abi::Text,
) -> abi::Status {
    let work = || {
        let memory = OfferedDmaBuf { descriptor, offset, bytes, address };
        // SAFETY: the caller gives a context and a place for the handle.
        unsafe {
            let context = behind::<_, L>(context, "the context")?;
            put(registration, context.register_dmabuf(device, memory)?);
        }
        Ok(abi::OK)
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) }
}

unsafe extern "C" fn deregister<L: Library>(registration: *mut abi::Registration) {
    // SAFETY: the handle is one of `register` or `register_dmabuf`, which the caller gives up.
    unsafe { take_back::<_, L::Registration>(registration) }
}

unsafe extern "C" fn rail<L: Library>(
    context: *mut abi::Context,
    registration: *mut abi::Registration,
    rail: *mut *mut abi::RailHandle,
    address: *mut abi::Address,
    text: *mut abi::Text,
) -> abi::Status {
    let work = || {
        // SAFETY: the caller gives a context, a registration, and places for the handle and the
        // address.
        unsafe {
            let memory = behind::<_, L::Registration>(registration, "the registration")?;
            let (result, own) = behind::<_, L>(context, "the context")?.rail(memory)?;
            address.write(own);
            put(rail, result);
        }
        Ok(abi::OK)
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) }
}

unsafe extern "C" fn connect<L: Library>(
    rail: *mut abi::RailHandle,
    address: *const abi::Address,
    text: *mut abi::Text,
) -> abi::Status {
    let work = || {
        // SAFETY: the caller gives a rail and an address.
        let (rail, address) = unsafe { (rail_of::<L>(rail)?, address.as_ref()) };
        L::connect(rail, address.ok_or_else(|| null("the address"))?)?;
        Ok(abi::OK)
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) }
}

unsafe extern "C" fn describe<L: Library>(rail: *mut abi::RailHandle, text: *mut abi::Text) {
    let work = || {
        // SAFETY: the caller gives a rail.
        let words = L::describe(unsafe { rail_of::<L>(rail) }?);
        // SAFETY: the caller gives a text.
        unsafe { write_text(text, &words) };
        Ok(abi::OK)
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) };
}

unsafe extern "C" fn post<L: Library>(
    rail: *mut abi::RailHandle,
    write: *const abi::RawWrite,
    text: *mut abi::Text,
) -> abi::Status {
    let work = || {
        // SAFETY: the caller gives a rail and a write.
        let (rail, write) = unsafe { (rail_of::<L>(rail)?, write.as_ref()) };
        let posted = L::post(rail, write.ok_or_else(|| null("the write"))?)?;
        Ok(if posted { abi::OK } else { abi::FULL })
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) }
}

unsafe extern "C" fn poll<L: Library>(
    rail: *mut abi::RailHandle,
    events: *mut abi::RawRailEvent,
    room: u32,
    text: *mut abi::Text,
) -> i32 {
    let work = || {
        // SAFETY: the caller gives a rail.
        let rail = unsafe { rail_of::<L>(rail) }?;
        let events = match room {
            0 => &mut [],
            // SAFETY: the caller gives `room` of them.
            _ => unsafe { std::slice::from_raw_parts_mut(events, room as usize) },
        };
        let count = L::poll(rail, events)?;
        Ok(i32::try_from(count).unwrap_or(i32::MAX))
    };
    // SAFETY: the caller gives a text.
    unsafe { guarded(text, work) }
}

unsafe extern "C" fn fail<L: Library>(rail: *mut abi::RailHandle) {
    let work = || {
        // SAFETY: the caller gives a rail.
        L::fail(unsafe { rail_of::<L>(rail) }?);
        Ok(abi::OK)
    };
    // SAFETY: there is no text.
    unsafe { guarded(std::ptr::null_mut(), work) };
}

unsafe extern "C" fn end<L: Library>(rail: *mut abi::RailHandle) {
    // SAFETY: the handle is one of `rail`, which the caller gives up.
    unsafe { take_back::<_, L::Rail>(rail) }
}
