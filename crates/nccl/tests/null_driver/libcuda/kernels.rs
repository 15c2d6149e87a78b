//! Modules, functions and launches. Kernels do nothing; of what kind they are, their names tell. A door for `unsafe`: names
//! come from C.
//!
//! It counts what kernels the calling thread has launched ([`LAUNCHED`]), and refuses kernels that wait for peers and of
//! which not exactly two blocks find shared memory on a multiprocessor. With the variable `NULL_SPECIALS_ARE_WIDE` fewer
//! blocks of special kernels run at once than of others, with `NULL_SPECIALS_SPILL` they have memory beside their registers.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::slice;

use crate::calls::Counted;
use crate::objects::work;
use crate::{INVALID_VALUE, SUCCESS, answer, new_handle};

thread_local! {
    static SPECIAL_LAUNCHES: Cell<u64> = const { Cell::new(0) };
    static CREW_LAUNCHES: Cell<u64> = const { Cell::new(0) };
    static SMALL_LAUNCHES: Cell<u64> = const { Cell::new(0) };
    static EARLY_LAUNCHES: Cell<u64> = const { Cell::new(0) };
    static BLOCKS: Cell<u64> = const { Cell::new(0) };
}

/// The shared memory of a multiprocessor, and what the driver takes of that for each block.
pub const SHARED_BYTES: u32 = 228 << 10;
pub const RESERVED_BYTES: u32 = 1 << 10;

/// What the code of every kernel declares.
const STATIC_BYTES: u32 = 1 << 10;

/// What a launch reads of its configuration: the shape, of which three numbers are the grid's and the last is dynamic shared
/// memory, and the stream.
#[repr(C)]
pub struct LaunchConfig {
    shape: [u32; 7],
    stream: usize,
    attributes: *const Attribute,
    attribute_count: u32,
}

/// What else a launch says, as the driver lays it out.
#[repr(C)]
struct Attribute {
    id: u32,
    padding: u32,
    value: [u64; 8],
}

/// The number of the attribute by which a kernel may begin early.
const PROGRAMMATIC_STREAM_SERIALIZATION: u32 = 6;

impl LaunchConfig {
    fn starts_early(&self) -> bool {
        if self.attribute_count == 0 {
            return false;
        }
        // SAFETY: callers of a driver give as many attributes as they say.
        let all = unsafe { slice::from_raw_parts(self.attributes, self.attribute_count as usize) };
        all.iter().any(|of| of.id == PROGRAMMATIC_STREAM_SERIALIZATION && of.value[0] as u32 != 0)
    }

    fn blocks(&self) -> u64 {
        self.shape[..3].iter().map(|width| u64::from(*width)).product()
    }

    /// How many of its blocks find shared memory on a multiprocessor.
    fn blocks_each(&self) -> u32 {
        SHARED_BYTES / (RESERVED_BYTES + STATIC_BYTES + self.shape[6])
    }
}

/// The lowest bit of the handle of a special kernel.
const SPECIAL: usize = 1;

/// The next bit, of a kernel whose thread blocks work as crews.
const CREW: usize = 2;

/// The next bit, of a kernel for small calls.
const SMALL: usize = 4;

/// The next bit, of a kernel that waits for nobody.
const BRIEF: usize = 8;

/// What the calling thread has launched, for `nullCalls`: kernels of each kind, those that may begin before the one ahead of
/// them has ended, and the thread blocks of all.
pub const LAUNCHED: &[Counted] = &[
    ("special launches", || SPECIAL_LAUNCHES.get()),
    ("crew launches", || CREW_LAUNCHES.get()),
    ("small launches", || SMALL_LAUNCHES.get()),
    ("early launches", || EARLY_LAUNCHES.get()),
    ("thread blocks", || BLOCKS.get()),
];

driver! {
    fn cuModuleLoadDataEx(
        module: &mut usize, _image: *const c_void, _count: u32, _options: *mut u32,
        _values: *mut *mut c_void,
    ) {
        answer(module, new_handle())
    }
    fn cuModuleUnload(_module: usize) { SUCCESS }
    fn cuModuleGetFunction(function: &mut usize, _module: usize, name: *const c_char) {
        // SAFETY: callers of a driver name functions by zero-terminated texts.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let special = if name.starts_with(b"msccl_special") { SPECIAL } else { 0 };
        let crew = if name.starts_with(b"msccl_crew") { CREW } else { 0 };
        let modules: [&[u8]; 4] =
            [b"msccl_ll_small", b"msccl_ll_odd", b"msccl_ll128_small", b"msccl_ll128_odd"];
        let small = if modules.iter().any(|of| name.starts_with(of)) { SMALL } else { 0 };
        let brief = if name.starts_with(b"msccl_scale") { BRIEF } else { 0 };
        answer(function, new_handle() + special + crew + small + brief)
    }
    fn cuFuncLoad(_function: usize) { SUCCESS }
    fn cuFuncGetAttribute(value: &mut i32, attribute: u32, function: usize) {
        const LOCAL_SIZE_BYTES: u32 = 3;
        let spills = function & SPECIAL != 0 && std::env::var_os("NULL_SPECIALS_SPILL").is_some();
        answer(value, if attribute == LOCAL_SIZE_BYTES && !spills { 0 } else { STATIC_BYTES as i32 })
    }
    fn cuFuncSetAttribute(_function: usize, _attribute: u32, _value: i32) { SUCCESS }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: &mut i32, function: usize, _threads: i32, _dynamic_shared_bytes: usize,
    ) {
        let wide = function & SPECIAL != 0 && std::env::var_os("NULL_SPECIALS_ARE_WIDE").is_some();
        answer(blocks, if wide { 1 } else { 2 })
    }
    fn cuLaunchKernelEx(
        config: &LaunchConfig, function: usize, _parameters: *mut *mut c_void,
        _extra: *mut *mut c_void,
    ) {
        if function & BRIEF == 0 && config.blocks_each() != 2 {
            return INVALID_VALUE;
        }
        SPECIAL_LAUNCHES.set(SPECIAL_LAUNCHES.get() + (function & SPECIAL) as u64);
        CREW_LAUNCHES.set(CREW_LAUNCHES.get() + u64::from(function & CREW != 0));
        SMALL_LAUNCHES.set(SMALL_LAUNCHES.get() + u64::from(function & SMALL != 0));
        EARLY_LAUNCHES.set(EARLY_LAUNCHES.get() + u64::from(config.starts_early()));
        BLOCKS.set(BLOCKS.get() + config.blocks());
        work(config.stream, || ())
    }
}
