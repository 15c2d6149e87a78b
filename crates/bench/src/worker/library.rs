//! A library with the NCCL interface, opened by path. A door for `unsafe`.
//!
//! Functions are looked up when the library is opened; one that is missing is reported by the call
//! that needs it, since old libraries lack what most workloads never ask for. The signatures below
//! are those of the public interface. That the library keeps to them is what whoever names it
//! promises: a library of any other kind does as it likes with this process, which is why libraries
//! are opened in processes of their own.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;

use libloading::os::unix::{Library as Opened, RTLD_LOCAL, RTLD_NOW};

use crate::error::Error;

/// The token by which ranks find one another.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct UniqueId(pub(crate) [u8; 128]);

/// A communicator as C has it.
type Comm = *mut c_void;

/// Declares the functions and gives each a method that checks what it returns.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// The library's functions, as far as it has them.
        struct Functions {
            error_string: Option<unsafe extern "C" fn(c_int) -> *const c_char>,
            last_error: Option<unsafe extern "C" fn(Comm) -> *const c_char>,
            $($name: Option<unsafe extern "C" fn($($type),*) -> c_int>,)*
        }

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
                /// # Safety
                ///
                /// Pointers are what the function expects and stay valid as long as it says.
                unsafe fn $name(&self, $($argument: $type),*) -> Result<(), Error> {
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
}
