//! A library with the NCCL interface, opened by path. An unsafe boundary.
//!
//! Functions are looked up when the library is opened; one that is missing is reported by the call
//! that needs it, since old libraries lack what most workloads never ask for. The signatures below
//! are those of the public interface. That the library keeps to them is what the user who names it
//! promises: a library of any other kind does as it likes with this process, which is why libraries
//! are opened in processes of their own.

#![expect(unsafe_code, reason = "opens the library under test and looks up its functions")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

use libloading::os::unix::{Library as Opened, RTLD_LOCAL, RTLD_NOW};

use crate::error::Error;

/// The token by which ranks find one another.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct UniqueId(pub(crate) [u8; 128]);

/// A communicator as C has it.
pub(super) type Comm = *mut c_void;

/// Declares the functions and gives each a method that checks what it returns.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// The library's functions, as far as it has them.
        pub(super) struct Functions {
            error_string: Option<unsafe extern "C" fn(c_int) -> *const c_char>,
            last_error: Option<unsafe extern "C" fn(Comm) -> *const c_char>,
            $($name: Option<unsafe extern "C" fn($($type),*) -> c_int>,)*
        }

        #[allow(clippy::too_many_arguments, reason = "the interface has as many")]
        impl Functions {
            fn find(library: &Opened) -> Self {
                // SAFETY: the types are those of the public interface.
                unsafe {
                    Self {
                        error_string: find(library, c"ncclGetErrorString"),
                        last_error: find(library, c"ncclGetLastError"),
                        $($name: find(library, c_name(concat!($symbol, "\0"))),)*
                    }
                }
            }

            $(
                #[doc = concat!("`", $symbol, "`.\n\n# Safety\n\nPointers are what the function ")]
                #[doc = "expects, and stay valid as long as its documentation asks."]
                pub(super) unsafe fn $name(&self, $($argument: $type),*) -> Result<(), Error> {
                    let missing = || Error::new(concat!("the library has no ", $symbol));
                    let function = self.$name.ok_or_else(missing)?;
                    // SAFETY: promised by the caller, and by whoever named the library.
                    self.check($symbol, unsafe { function($($argument),*) })
                }
            )*
        }
    };
}

functions! {
    get_version = "ncclGetVersion"(version: &mut c_int);
    get_unique_id = "ncclGetUniqueId"(id: &mut UniqueId);
    init_rank = "ncclCommInitRank"(comm: &mut Comm, ranks: c_int, id: UniqueId, rank: c_int);
    destroy = "ncclCommDestroy"(comm: Comm);
    async_error = "ncclCommGetAsyncError"(comm: Comm, error: &mut c_int);
    create_mulsum = "ncclRedOpCreatePreMulSum"(
        redop: &mut c_int, scalar: *const c_void, element: c_int, residence: c_int, comm: Comm,
    );
    destroy_redop = "ncclRedOpDestroy"(redop: c_int, comm: Comm);
    all_reduce = "ncclAllReduce"(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, redop: c_int,
        comm: Comm, stream: *mut c_void,
    );
    reduce_scatter = "ncclReduceScatter"(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, redop: c_int,
        comm: Comm, stream: *mut c_void,
    );
    all_gather = "ncclAllGather"(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, comm: Comm,
        stream: *mut c_void,
    );
    reduce = "ncclReduce"(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, redop: c_int,
        root: c_int, comm: Comm, stream: *mut c_void,
    );
    broadcast = "ncclBroadcast"(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, root: c_int,
        comm: Comm, stream: *mut c_void,
    );
    all_to_all = "ncclAlltoAll"(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, comm: Comm,
        stream: *mut c_void,
    );
    gather = "ncclGather"(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, root: c_int,
        comm: Comm, stream: *mut c_void,
    );
    scatter = "ncclScatter"(
        send: *const c_void, receive: *mut c_void, count: usize, element: c_int, root: c_int,
        comm: Comm, stream: *mut c_void,
    );
    send = "ncclSend"(
        send: *const c_void, count: usize, element: c_int, peer: c_int, comm: Comm,
        stream: *mut c_void,
    );
    receive = "ncclRecv"(
        receive: *mut c_void, count: usize, element: c_int, peer: c_int, comm: Comm,
        stream: *mut c_void,
    );
    group_start = "ncclGroupStart"();
    group_end = "ncclGroupEnd"();
    memory_alloc = "ncclMemAlloc"(memory: &mut *mut c_void, bytes: usize);
    register = "ncclCommRegister"(
        comm: Comm, buffer: *mut c_void, bytes: usize, handle: &mut *mut c_void,
    );
    deregister = "ncclCommDeregister"(comm: Comm, handle: *mut c_void);
    register_window = "ncclCommWindowRegister"(
        comm: Comm, buffer: *mut c_void, bytes: usize, window: &mut *mut c_void, flags: c_int,
    );
    deregister_window = "ncclCommWindowDeregister"(comm: Comm, window: *mut c_void);
    choices = "mscclCommChoices"(
        comm: Comm, collective: *const c_char, in_place: c_int, element: c_int, redop: c_int,
        root: c_int, count: usize, text: *mut u8, capacity: usize,
    );
    choice_blocks = "mscclCommChoiceBlocks"(
        comm: Comm, collective: *const c_char, in_place: c_int, element: c_int, redop: c_int,
        root: c_int, count: usize, choice: *const c_char, blocks: &mut c_int,
    );
    pin = "mscclCommPin"(comm: Comm, choice: *const c_char);
}

/// The function `name`, if the library has it.
///
/// # Safety
///
/// `F` is the type of a function pointer with the signature that `name` has.
unsafe fn find<F: Copy>(library: &Opened, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<usize>()) };
    // SAFETY: promised by the caller.
    let symbol = unsafe { library.get::<F>(name.to_bytes_with_nul()) };
    symbol.ok().map(|symbol| *symbol)
}

/// A symbol's name as C has it.
const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

impl Functions {
    /// Opens the library at `path`, which stays open until the process ends.
    pub(super) fn open(path: &Path) -> Result<&'static Self, Error> {
        // SAFETY: whoever names a library to be measured wants its initialisers to run.
        let opened = unsafe { Opened::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let opened = opened.map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let cause = cause.unwrap_or_else(|| error.to_string());
            // The loader's words begin with the path.
            let path = format!("{}: ", path.display());
            let cause = cause.strip_prefix(&path).unwrap_or(&cause);
            Error::new(format!("cannot open {path}{cause}"))
        })?;
        // Libraries of this kind have threads, and cannot be closed under them.
        Ok(Box::leak(Box::new(Self::find(Box::leak(Box::new(opened))))))
    }

    /// `Ok` for success, else an error in the library's words.
    pub(super) fn check(&self, symbol: &str, code: c_int) -> Result<(), Error> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: any code is a legal argument, and no communicator is a legal one.
        let (kind, last) = unsafe {
            let kind = self.error_string.map(|text| words(text(code)));
            (kind, self.last_error.map(|text| words(text(std::ptr::null_mut()))))
        };
        let kind = kind.unwrap_or_default();
        let last = last.filter(|text| !text.is_empty()).map(|text| format!(": {}", text.trim()));
        Err(Error::new(format!("{symbol} failed: {kind} ({code}){}", last.unwrap_or_default())))
    }

    /// Whether the library has `ncclAlltoAll`, which came late.
    pub(super) fn has_all_to_all(&self) -> bool {
        self.all_to_all.is_some()
    }

    /// Whether the library has `mscclCommChoices`, which only ours have.
    pub(super) fn has_choices(&self) -> bool {
        self.choices.is_some()
    }

    /// Whether the library has `mscclCommChoiceBlocks`, which came after `mscclCommChoices`.
    pub(super) fn has_choice_blocks(&self) -> bool {
        self.choice_blocks.is_some()
    }

    /// Whether the library has `ncclGather`.
    pub(super) fn has_gather(&self) -> bool {
        self.gather.is_some()
    }

    /// Whether the library has `ncclScatter`.
    pub(super) fn has_scatter(&self) -> bool {
        self.scatter.is_some()
    }
}

/// The text at `text`.
///
/// # Safety
///
/// It is null or a zero-terminated text.
unsafe fn words(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A number as C has it.
pub(super) fn int(number: u32) -> Result<c_int, Error> {
    c_int::try_from(number).map_err(|_| Error::new(format!("{number} is no number for C")))
}
