//! Every function of the driver that this crate calls, with its signature: the one table. A door
//! for `unsafe`.
//!
//! Each line gives our name, the driver's name (with the version that fixes the signature) and the
//! parameters, in types that say more than C's: `&mut T` is written by the driver, [`Out`] takes a
//! new handle, [`Handle`] is one that is alive. Functions are looked up when the library is loaded
//! and missing ones are reported by the call that needs them, since an old driver lacks what most
//! programs never ask for.
//!
//! **What `safe` claims.** The driver takes device addresses, device numbers, flags and sizes as
//! plain numbers, looks them up in its own tables and refuses those it does not know, so no number
//! can harm the host's memory; handles are alive by their type; places to write are borrowed. What
//! takes a host pointer, a bare handle, or makes the device run or copy is `unsafe`.

#![expect(unsafe_code, reason = "declares and calls functions of the driver")]

use std::convert::Infallible;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::OwnedFd;

use cudarc::driver::sys;

use crate::address::PointerAttribute;
use crate::error::{CuResult, Error};
use crate::graph_mark::Node;
use crate::handle::{Handle, Out};
use crate::ipc::IpcHandle;
use crate::library::Library;

/// Room for a name that the driver writes, zero-terminated.
pub(crate) type NameBuffer = [u8; 128];

/// The length of a [`NameBuffer`], and no other number.
#[repr(transparent)]
pub(crate) struct NameLength(c_int);

/// How long a name may be, its zero included.
pub(crate) const NAME_LENGTH: NameLength = NameLength(128);

/// The length of an array that is a single borrowed value, and no other number.
#[repr(transparent)]
pub(crate) struct Single(usize);

/// The length of a single value.
pub(crate) const SINGLE: Single = Single(1);

/// A place for an answer that nobody asks for: only `None` is possible.
pub(crate) type Unasked<'a> = Option<&'a mut Infallible>;

macro_rules! calls {
    ($($safety:tt $name:ident = $symbol:literal ($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// The driver's functions, as far as the library has them.
        pub(crate) struct Calls {
            $($name: Option<unsafe extern "C" fn($($type),*) -> CuResult>,)*
        }

        impl Calls {
            /// Looks every function up.
            pub(crate) fn find(library: &Library) -> Self {
                Self {
                    // SAFETY: the signatures below are those of the driver's interface.
                    $($name: unsafe { library.function(c_name(concat!($symbol, "\0"))) },)*
                }
            }

            $(calls! { @method $safety $name $symbol ($($argument: $type),*) })*
        }
    };
    (@method safe $name:ident $symbol:literal ($($argument:ident: $type:ty),*)) => {
        #[allow(clippy::too_many_arguments, reason = "the driver has as many")]
        #[doc = concat!("`", $symbol, "`.")]
        pub(crate) fn $name(&self, $($argument: $type),*) -> Result<(), Error> {
            let function = self.$name.ok_or(Error::MissingSymbol { call: $symbol })?;
            // SAFETY: the module's documentation says what makes a call safe.
            self.check($symbol, unsafe { function($($argument),*) })
        }
    };
    (@method inner $name:ident $symbol:literal ($($argument:ident: $type:ty),*)) => {};
    (@method unsafe $name:ident $symbol:literal ($($argument:ident: $type:ty),*)) => {
        #[allow(clippy::too_many_arguments, reason = "the driver has as many")]
        #[doc = concat!("`", $symbol, "`.\n\n# Safety\n\nWhat the driver's documentation asks.")]
        pub(crate) unsafe fn $name(&self, $($argument: $type),*) -> Result<(), Error> {
            let function = self.$name.ok_or(Error::MissingSymbol { call: $symbol })?;
            // SAFETY: the caller keeps the driver's conditions.
            self.check($symbol, unsafe { function($($argument),*) })
        }
    };
}

calls! {
    // The driver itself.
    safe init = "cuInit"(flags: c_uint);
    safe driver_version = "cuDriverGetVersion"(version: &mut c_int);
    // Asked by `check` alone, about failures of the others.
    inner error_name = "cuGetErrorName"(code: CuResult, name: &mut *const c_char);
    inner error_text = "cuGetErrorString"(code: CuResult, text: &mut *const c_char);

    // Devices.
    safe device_count = "cuDeviceGetCount"(count: &mut c_int);
    safe device_get = "cuDeviceGet"(device: &mut c_int, ordinal: c_int);
    safe device_attribute = "cuDeviceGetAttribute"(
        value: &mut c_int, attribute: c_uint, device: c_int,
    );
    safe device_uuid = "cuDeviceGetUuid_v2"(uuid: &mut [u8; 16], device: c_int);
    safe device_memory = "cuDeviceTotalMem_v2"(bytes: &mut usize, device: c_int);
    safe device_can_access_peer = "cuDeviceCanAccessPeer"(
        can: &mut c_int, device: c_int, peer: c_int,
    );
    safe device_p2p_attribute = "cuDeviceGetP2PAttribute"(
        value: &mut c_int, attribute: c_uint, device: c_int, peer: c_int,
    );
    safe device_name = "cuDeviceGetName"(
        name: &mut NameBuffer, length: NameLength, device: c_int,
    );
    safe device_pci_bus_id = "cuDeviceGetPCIBusId"(
        name: &mut NameBuffer, length: NameLength, device: c_int,
    );

    // Contexts.
    safe primary_retain = "cuDevicePrimaryCtxRetain"(
        context: &mut Out<sys::CUctx_st>, device: c_int,
    );
    safe primary_release = "cuDevicePrimaryCtxRelease_v2"(device: c_int);
    safe primary_state = "cuDevicePrimaryCtxGetState"(
        device: c_int, flags: &mut c_uint, active: &mut c_int,
    );
    safe context_push = "cuCtxPushCurrent_v2"(context: Handle<'_, sys::CUctx_st>);
    safe context_pop = "cuCtxPopCurrent_v2"(context: &mut Out<sys::CUctx_st>);
    safe context_current = "cuCtxGetCurrent"(context: &mut Out<sys::CUctx_st>);
    safe context_device = "cuCtxGetDevice"(device: &mut c_int);
    safe context_synchronize = "cuCtxSynchronize"();
    safe context_enable_peer = "cuCtxEnablePeerAccess"(
        peer: Handle<'_, sys::CUctx_st>, flags: c_uint,
    );
    safe stream_priorities = "cuCtxGetStreamPriorityRange"(least: &mut c_int, greatest: &mut c_int);

    // Device memory.
    safe memory_alloc = "cuMemAlloc_v2"(address: &mut u64, bytes: usize);
    safe memory_free = "cuMemFree_v2"(address: u64);
    safe memory_info = "cuMemGetInfo_v2"(free: &mut usize, total: &mut usize);
    safe address_range = "cuMemGetAddressRange_v2"(
        base: &mut u64, bytes: &mut usize, address: u64,
    );
    // Opens a descriptor for the kind `DMA_BUF_FD`, the only one this crate asks for.
    safe range_handle = "cuMemGetHandleForAddressRange"(
        descriptor: &mut Option<OwnedFd>, address: u64, bytes: usize, kind: c_uint,
        flags: c_ulonglong,
    );
    safe flush_remote_writes = "cuFlushGPUDirectRDMAWrites"(target: c_uint, scope: c_uint);
    safe pointer_attribute = "cuPointerGetAttribute"(
        value: &mut u64, attribute: PointerAttribute, address: u64,
    );
    unsafe copy_to_device = "cuMemcpyHtoDAsync_v2"(
        to: u64, from: *const c_void, bytes: usize, stream: Handle<'_, sys::CUstream_st>,
    );
    unsafe copy_from_device = "cuMemcpyDtoHAsync_v2"(
        to: *mut c_void, from: u64, bytes: usize, stream: Handle<'_, sys::CUstream_st>,
    );
    unsafe copy = "cuMemcpyAsync"(
        to: u64, from: u64, bytes: usize, stream: Handle<'_, sys::CUstream_st>,
    );
    unsafe fill = "cuMemsetD8Async"(
        address: u64, byte: u8, bytes: usize, stream: Handle<'_, sys::CUstream_st>,
    );

    // Host memory.
    safe host_alloc = "cuMemHostAlloc"(memory: &mut *mut c_void, bytes: usize, flags: c_uint);
    unsafe host_free = "cuMemFreeHost"(memory: *mut c_void);
    unsafe host_register = "cuMemHostRegister_v2"(
        memory: *mut c_void, bytes: usize, flags: c_uint,
    );
    unsafe host_unregister = "cuMemHostUnregister"(memory: *mut c_void);
    unsafe host_device_pointer = "cuMemHostGetDevicePointer_v2"(
        address: &mut u64, memory: *mut c_void, flags: c_uint,
    );

    // Memory of other processes.
    safe ipc_export = "cuIpcGetMemHandle"(handle: &mut IpcHandle, address: u64);
    safe ipc_open = "cuIpcOpenMemHandle_v2"(address: &mut u64, handle: IpcHandle, flags: c_uint);
    safe ipc_close = "cuIpcCloseMemHandle"(address: u64);

    // Virtual memory. Allocation handles are numbers that the driver looks up.
    safe physical_granularity = "cuMemGetAllocationGranularity"(
        bytes: &mut usize, properties: &sys::CUmemAllocationProp, option: c_uint,
    );
    safe physical_create = "cuMemCreate"(
        handle: &mut u64, bytes: usize, properties: &sys::CUmemAllocationProp, flags: c_ulonglong,
    );
    safe physical_release = "cuMemRelease"(handle: u64);
    safe physical_of = "cuMemRetainAllocationHandle"(handle: &mut u64, address: u64);
    // Opens a descriptor for the kind `POSIX_FILE_DESCRIPTOR`, the only one this crate asks for.
    safe physical_export = "cuMemExportToShareableHandle"(
        descriptor: &mut Option<OwnedFd>, handle: u64, kind: c_uint, flags: c_ulonglong,
    );
    safe physical_import = "cuMemImportFromShareableHandle"(
        handle: &mut u64, descriptor: usize, kind: c_uint,
    );
    safe address_reserve = "cuMemAddressReserve"(
        address: &mut u64, bytes: usize, alignment: usize, requested: u64, flags: c_ulonglong,
    );
    safe address_free = "cuMemAddressFree"(address: u64, bytes: usize);
    safe memory_map = "cuMemMap"(
        address: u64, bytes: usize, offset: usize, handle: u64, flags: c_ulonglong,
    );
    safe memory_unmap = "cuMemUnmap"(address: u64, bytes: usize);
    safe memory_access = "cuMemSetAccess"(
        address: u64, bytes: usize, access: &sys::CUmemAccessDesc, count: Single,
    );

    // Streams.
    safe stream_create = "cuStreamCreateWithPriority"(
        stream: &mut Out<sys::CUstream_st>, flags: c_uint, priority: c_int,
    );
    unsafe stream_destroy = "cuStreamDestroy_v2"(stream: *mut sys::CUstream_st);
    safe stream_synchronize = "cuStreamSynchronize"(stream: Handle<'_, sys::CUstream_st>);
    safe stream_query = "cuStreamQuery"(stream: Handle<'_, sys::CUstream_st>);
    safe stream_wait = "cuStreamWaitEvent"(
        stream: Handle<'_, sys::CUstream_st>, event: Handle<'_, sys::CUevent_st>, flags: c_uint,
    );
    safe stream_context = "cuStreamGetCtx"(
        stream: Handle<'_, sys::CUstream_st>, context: &mut Out<sys::CUctx_st>,
    );
    unsafe stream_write_word = "cuStreamWriteValue64_v2"(
        stream: Handle<'_, sys::CUstream_st>, address: u64, value: u64, flags: c_uint,
    );
    unsafe stream_await_word = "cuStreamWaitValue64_v2"(
        stream: Handle<'_, sys::CUstream_st>, address: u64, value: u64, flags: c_uint,
    );
    unsafe stream_word_operations = "cuStreamBatchMemOp_v2"(
        stream: Handle<'_, sys::CUstream_st>, count: c_uint,
        operations: *mut sys::CUstreamBatchMemOpParams, flags: c_uint,
    );
    unsafe stream_call_host = "cuLaunchHostFunc"(
        stream: Handle<'_, sys::CUstream_st>, call: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
    );

    // Events.
    safe event_create = "cuEventCreate"(event: &mut Out<sys::CUevent_st>, flags: c_uint);
    unsafe event_destroy = "cuEventDestroy_v2"(event: *mut sys::CUevent_st);
    safe event_record = "cuEventRecord"(
        event: Handle<'_, sys::CUevent_st>, stream: Handle<'_, sys::CUstream_st>,
    );
    safe event_query = "cuEventQuery"(event: Handle<'_, sys::CUevent_st>);
    safe event_synchronize = "cuEventSynchronize"(event: Handle<'_, sys::CUevent_st>);
    safe event_elapsed = "cuEventElapsedTime"(
        milliseconds: &mut f32, from: Handle<'_, sys::CUevent_st>, to: Handle<'_, sys::CUevent_st>,
    );

    // Capture and graphs.
    safe capture_begin = "cuStreamBeginCapture_v2"(
        stream: Handle<'_, sys::CUstream_st>, mode: c_uint,
    );
    safe capture_end = "cuStreamEndCapture"(
        stream: Handle<'_, sys::CUstream_st>, graph: &mut Out<sys::CUgraph_st>,
    );
    safe capture_info = "cuStreamGetCaptureInfo_v2"(
        stream: Handle<'_, sys::CUstream_st>, status: &mut c_uint, id: &mut u64,
        graph: Option<&mut Out<sys::CUgraph_st>>, dependencies: Unasked<'_>, count: Unasked<'_>,
    );
    // The same with what the stream's next work will come after, which the driver keeps until the
    // stream is used again.
    safe capture_frontier = "cuStreamGetCaptureInfo_v2"(
        stream: Handle<'_, sys::CUstream_st>, status: &mut c_uint, id: &mut u64,
        graph: &mut Out<sys::CUgraph_st>, nodes: &mut *const Node, count: &mut usize,
    );
    // The same where edges say more than that one node comes after another.
    safe capture_frontier_with_edges = "cuStreamGetCaptureInfo_v3"(
        stream: Handle<'_, sys::CUstream_st>, status: &mut c_uint, id: &mut u64,
        graph: &mut Out<sys::CUgraph_st>, nodes: &mut *const Node, edges: &mut *const c_void,
        count: &mut usize,
    );
    unsafe capture_set_frontier = "cuStreamUpdateCaptureDependencies"(
        stream: Handle<'_, sys::CUstream_st>, nodes: *const Node, count: usize, flags: c_uint,
    );
    unsafe graph_add_record = "cuGraphAddEventRecordNode"(
        node: &mut Node, graph: Handle<'_, sys::CUgraph_st>, after: *const Node, count: usize,
        event: Handle<'_, sys::CUevent_st>,
    );
    unsafe graph_add_edges = "cuGraphAddDependencies"(
        graph: Handle<'_, sys::CUgraph_st>, from: *const Node, to: *const Node, count: usize,
    );
    unsafe graph_remove_edges = "cuGraphRemoveDependencies"(
        graph: Handle<'_, sys::CUgraph_st>, from: *const Node, to: *const Node, count: usize,
    );
    safe capture_mode_exchange = "cuThreadExchangeStreamCaptureMode"(mode: &mut c_uint);
    safe graph_instantiate = "cuGraphInstantiateWithFlags"(
        exec: &mut Out<sys::CUgraphExec_st>, graph: Handle<'_, sys::CUgraph_st>, flags: c_ulonglong,
    );
    unsafe graph_launch = "cuGraphLaunch"(
        exec: Handle<'_, sys::CUgraphExec_st>, stream: Handle<'_, sys::CUstream_st>,
    );
    // With no array of nodes, the driver writes their number.
    safe graph_nodes = "cuGraphGetNodes"(
        graph: Handle<'_, sys::CUgraph_st>, nodes: Unasked<'_>, count: &mut usize,
    );
    unsafe user_object_create = "cuUserObjectCreate"(
        object: &mut Out<sys::CUuserObject_st>, data: *mut c_void,
        destroy: unsafe extern "C" fn(*mut c_void), count: c_uint, flags: c_uint,
    );
    unsafe user_object_release = "cuUserObjectRelease"(
        object: Handle<'_, sys::CUuserObject_st>, count: c_uint,
    );
    unsafe graph_retain_user_object = "cuGraphRetainUserObject"(
        graph: Handle<'_, sys::CUgraph_st>, object: Handle<'_, sys::CUuserObject_st>,
        count: c_uint, flags: c_uint,
    );
    unsafe graph_destroy = "cuGraphDestroy"(graph: *mut sys::CUgraph_st);
    unsafe graph_exec_destroy = "cuGraphExecDestroy"(exec: *mut sys::CUgraphExec_st);

    // Modules and functions.
    unsafe module_load = "cuModuleLoadDataEx"(
        module: &mut Out<sys::CUmod_st>, image: *const c_void, count: c_uint,
        options: *mut c_uint, values: *mut *mut c_void,
    );
    unsafe module_unload = "cuModuleUnload"(module: *mut sys::CUmod_st);
    unsafe module_function = "cuModuleGetFunction"(
        function: &mut Out<sys::CUfunc_st>, module: Handle<'_, sys::CUmod_st>, name: *const c_char,
    );
    safe function_load = "cuFuncLoad"(function: Handle<'_, sys::CUfunc_st>);
    safe function_attribute = "cuFuncGetAttribute"(
        value: &mut c_int, attribute: c_uint, function: Handle<'_, sys::CUfunc_st>,
    );
    safe function_set_attribute = "cuFuncSetAttribute"(
        function: Handle<'_, sys::CUfunc_st>, attribute: c_uint, value: c_int,
    );
    safe function_occupancy = "cuOccupancyMaxActiveBlocksPerMultiprocessor"(
        blocks: &mut c_int, function: Handle<'_, sys::CUfunc_st>, threads: c_int,
        dynamic_shared_bytes: usize,
    );
    unsafe launch = "cuLaunchKernelEx"(
        config: &sys::CUlaunchConfig, function: Handle<'_, sys::CUfunc_st>,
        parameters: *mut *mut c_void, extra: *mut *mut c_void,
    );
}

impl Calls {
    /// `Ok` for success, else an error in the driver's words.
    #[inline]
    fn check(&self, call: &'static str, code: CuResult) -> Result<(), Error> {
        if code == CuResult::SUCCESS { Ok(()) } else { Err(self.fault(call, code)) }
    }

    /// What `call` means by `code`.
    #[cold]
    fn fault(&self, call: &'static str, code: CuResult) -> Error {
        let name = self.words(self.error_name, code).unwrap_or("unknown code");
        let text = self.words(self.error_text, code).unwrap_or_default();
        Error::Driver { call, code, name, text }
    }

    /// What the driver has to say about `code`, if it knows the code.
    fn words(&self, ask: Option<Describe>, code: CuResult) -> Option<&'static str> {
        let mut words = std::ptr::null();
        // SAFETY: any number may be asked about; the place to write is borrowed.
        let answer = unsafe { ask?(code, &mut words) };
        if answer != CuResult::SUCCESS || words.is_null() {
            return None;
        }
        // SAFETY: the driver answers with a zero-terminated constant of a library that stays open.
        unsafe { CStr::from_ptr(words) }.to_str().ok()
    }
}

/// The signature of the two calls that describe a code.
type Describe = unsafe extern "C" fn(CuResult, &mut *const c_char) -> CuResult;

/// A symbol's name as C has it.
const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}
