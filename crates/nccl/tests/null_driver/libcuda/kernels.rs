//! Modules, functions and launches. Kernels do nothing, but for the one that combines bytes; their
//! names say of what kind they are. An unsafe boundary: names come from C.
//!
//! It counts what kernels the calling thread has launched ([`LAUNCHED`]), and refuses kernels that
//! wait for peers and do not leave room for one another: for which multiprocessors would be divided
//! unlike, or so that no two blocks fit. With the variable `NULL_SPECIALS_ARE_WIDE` fewer blocks of
//! specialised kernels run at once than of others, with `NULL_SPECIALS_SPILL` they have memory
//! beside their registers.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::LocalKey;
use std::{ptr, slice};

use crate::calls::Counted;
use crate::objects::{mark, work};
use crate::{INVALID_VALUE, SUCCESS, answer, new_handle};

thread_local! {
    static SPECIAL_LAUNCHES: Cell<u64> = const { Cell::new(0) };
    static WARP_SPECIALISED_LAUNCHES: Cell<u64> = const { Cell::new(0) };
    static SMALL_LAUNCHES: Cell<u64> = const { Cell::new(0) };
    static ODD_LAUNCHES: Cell<u64> = const { Cell::new(0) };
    static PUSH_ONLY_LAUNCHES: Cell<u64> = const { Cell::new(0) };
    static EARLY_LAUNCHES: Cell<u64> = const { Cell::new(0) };
    static MARKED_LAUNCHES: Cell<u64> = const { Cell::new(0) };
    static BLOCKS: Cell<u64> = const { Cell::new(0) };
    static THREADS: Cell<u64> = const { Cell::new(0) };
    /// The last function that left room, and with how much shared memory: benchmarks launch the
    /// same one again and again.
    static FITTING: Cell<(usize, u32)> = const { Cell::new((0, 0)) };
}

/// The shared memory of a multiprocessor, and what the driver takes of that for each block.
pub const SHARED_BYTES: u32 = 228 << 10;
pub const RESERVED_BYTES: u32 = 1 << 10;

/// What the code of every kernel declares.
const STATIC_BYTES: u32 = 1 << 10;

/// What a launch reads of its configuration: the shape, of which three numbers are the grid's,
/// three a block's and the last is dynamic shared memory, and the stream.
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

/// That of the one with an event to mark when all blocks have begun.
const LAUNCH_COMPLETION_EVENT: u32 = 12;

impl LaunchConfig {
    /// The value of the attribute `id`, if there is one.
    fn attribute(&self, id: u32) -> Option<u64> {
        if self.attribute_count == 0 {
            return None;
        }
        // SAFETY: callers of a driver give as many attributes as they say.
        let all = unsafe { slice::from_raw_parts(self.attributes, self.attribute_count as usize) };
        all.iter().find(|of| of.id == id).map(|of| of.value[0])
    }

    fn uses_pdl(&self) -> bool {
        self.attribute(PROGRAMMATIC_STREAM_SERIALIZATION).is_some_and(|of| of as u32 != 0)
    }

    fn blocks(&self) -> u64 {
        self.shape[..3].iter().map(|width| u64::from(*width)).product()
    }

    fn threads(&self) -> u64 {
        self.shape[..6].iter().map(|width| u64::from(*width)).product()
    }

    /// How much shared memory a block takes.
    fn block_bytes(&self) -> u32 {
        RESERVED_BYTES + STATIC_BYTES + self.shape[6]
    }
}

/// What shared memory a multiprocessor can be divided to have, in KiB.
const DIVISIONS_KIB: [u32; 9] = [8, 16, 32, 64, 100, 132, 164, 196, 228];

/// What functions prefer, in percent, by their handles.
static PREFERENCES: Mutex<BTreeMap<usize, u32>> = Mutex::new(BTreeMap::new());

/// The division for the first kernel that waited for peers.
static DIVISION_KIB: OnceLock<Option<u32>> = OnceLock::new();

/// How a multiprocessor is divided for blocks of `block_bytes` of `function`; none if it says
/// nothing.
fn division_kib(function: usize, block_bytes: u32) -> Option<u32> {
    let preferences = PREFERENCES.lock().unwrap_or_else(PoisonError::into_inner);
    let preferred = SHARED_BYTES / 100 * preferences.get(&function)?;
    let needed = preferred.max(preferred / block_bytes * block_bytes).max(block_bytes);
    DIVISIONS_KIB.into_iter().find(|division| division << 10 >= needed)
}

/// Whether two blocks of `function` have room on a multiprocessor, and it is divided as for all
/// others.
fn leaves_room(function: usize, config: &LaunchConfig) -> bool {
    let block_bytes = config.block_bytes();
    if FITTING.get() == (function, block_bytes) {
        return true;
    }
    let division = division_kib(function, block_bytes);
    let fits = division.is_some_and(|division| 2 * block_bytes <= division << 10);
    let leaves_room = fits && *DIVISION_KIB.get_or_init(|| division) == division;
    if leaves_room {
        FITTING.set((function, block_bytes));
    }
    leaves_room
}

/// Adds `more` to a count of this thread.
fn count(of: &'static LocalKey<Cell<u64>>, more: u64) {
    of.set(of.get() + more);
}

/// The lowest bit of the handle of a specialised kernel.
const SPECIAL: usize = 1;

/// The next bit, of a kernel whose warps have roles.
const WARP_SPECIALISED: usize = 2;

/// The next bit, of a low-latency kernel.
const SMALL: usize = 4;

/// The next bit, of a kernel that waits for nobody.
const BRIEF: usize = 8;

/// The next bit, of an interpreter of protocol Simple whose operands lie anywhere.
const ODD: usize = 16;

/// The next bit, of the kernel that combines bytes.
const COMBINES: usize = 32;

/// The next bit, of the interpreter for ranks that offer nothing.
const PUSH_ONLY: usize = 64;

/// What that kernel is given (`kernels/include/msccl_combine.h`).
#[repr(C)]
#[derive(Clone, Copy)]
struct Combine {
    to: usize,
    own: usize,
    others: usize,
    stride_bytes: usize,
    elements: usize,
    ranks: u32,
    rank: u32,
    reduction: u32,
    divisor: u32,
}

impl Combine {
    /// Sums of bytes.
    fn run(self) {
        let contribution = |rank: u32, at: usize| {
            let start = match rank == self.rank {
                true => self.own,
                false => {
                    let place = rank - u32::from(rank > self.rank);
                    self.others + place as usize * self.stride_bytes
                }
            };
            // SAFETY: callers of the kernel give memory for so many elements of each rank.
            unsafe { ptr::with_exposed_provenance::<u8>(start + at).read() }
        };
        assert_eq!((self.reduction, self.divisor), (0, 0), "only sums");
        for at in 0..self.elements {
            let sum =
                (0..self.ranks).fold(0u8, |sum, rank| sum.wrapping_add(contribution(rank, at)));
            // SAFETY: as above.
            unsafe { ptr::with_exposed_provenance_mut::<u8>(self.to + at).write(sum) };
        }
    }
}

/// What the calling thread has launched, for `nullCalls`: kernels of each kind, those that may
/// begin before the one ahead of them has ended, those with an event that marks when they have
/// begun, and the thread blocks and threads of all.
pub const LAUNCHED: &[Counted] = &[
    ("specialised launches", || SPECIAL_LAUNCHES.get()),
    ("warp-specialised launches", || WARP_SPECIALISED_LAUNCHES.get()),
    ("low-latency launches", || SMALL_LAUNCHES.get()),
    ("odd launches", || ODD_LAUNCHES.get()),
    ("push-only launches", || PUSH_ONLY_LAUNCHES.get()),
    ("early launches", || EARLY_LAUNCHES.get()),
    ("marked launches", || MARKED_LAUNCHES.get()),
    ("thread blocks", || BLOCKS.get()),
    ("threads", || THREADS.get()),
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
        let bit_of = |modules: &[&[u8]], bit: usize| {
            if modules.iter().any(|of| name.starts_with(of)) { bit } else { 0 }
        };
        let special = bit_of(&[b"msccl_special"], SPECIAL);
        let warp_specialised = bit_of(&[b"msccl_crew"], WARP_SPECIALISED);
        let small = bit_of(
            &[b"msccl_ll_small", b"msccl_ll_odd", b"msccl_ll128_small", b"msccl_ll128_odd"],
            SMALL,
        );
        let brief = bit_of(&[b"msccl_scale", b"msccl_combine"], BRIEF);
        let combines = if name == b"msccl_combine_u8" { COMBINES } else { 0 };
        let odd = bit_of(&[b"msccl_simple_odd", b"msccl_crew_odd", b"msccl_direct_odd"], ODD);
        let push_only = bit_of(&[b"msccl_push_only"], PUSH_ONLY);
        let bits = special + warp_specialised + small + brief + odd + combines + push_only;
        answer(function, new_handle() + bits)
    }
    fn cuFuncLoad(_function: usize) { SUCCESS }
    fn cuFuncGetAttribute(value: &mut i32, attribute: u32, function: usize) {
        const LOCAL_SIZE_BYTES: u32 = 3;
        let spills = function & SPECIAL != 0 && std::env::var_os("NULL_SPECIALS_SPILL").is_some();
        let is_zero = attribute == LOCAL_SIZE_BYTES && !spills;
        answer(value, if is_zero { 0 } else { STATIC_BYTES as i32 })
    }
    fn cuFuncSetAttribute(function: usize, attribute: u32, value: i32) {
        const PREFERRED_SHARED_MEMORY_CARVEOUT: u32 = 9;
        if attribute == PREFERRED_SHARED_MEMORY_CARVEOUT {
            let mut preferences = PREFERENCES.lock().unwrap_or_else(PoisonError::into_inner);
            preferences.insert(function, value as u32);
        }
        SUCCESS
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: &mut i32, function: usize, _threads: i32, _dynamic_shared_bytes: usize,
    ) {
        let wide = function & SPECIAL != 0 && std::env::var_os("NULL_SPECIALS_ARE_WIDE").is_some();
        answer(blocks, if wide { 1 } else { 2 })
    }
    fn cuLaunchKernelEx(
        config: &LaunchConfig, function: usize, _parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        if function & BRIEF == 0 && !leaves_room(function, config) {
            return INVALID_VALUE;
        }
        if let Some(event) = config.attribute(LAUNCH_COMPLETION_EVENT) {
            if crate::is_old() {
                return INVALID_VALUE;
            }
            count(&MARKED_LAUNCHES, 1);
            match mark(event as usize, config.stream) {
                SUCCESS => {}
                error => return error,
            }
        }
        let count_of = |launches, bit| count(launches, u64::from(function & bit != 0));
        count_of(&SPECIAL_LAUNCHES, SPECIAL);
        count_of(&WARP_SPECIALISED_LAUNCHES, WARP_SPECIALISED);
        count_of(&SMALL_LAUNCHES, SMALL);
        count_of(&ODD_LAUNCHES, ODD);
        count_of(&PUSH_ONLY_LAUNCHES, PUSH_ONLY);
        count(&EARLY_LAUNCHES, u64::from(config.uses_pdl()));
        count(&BLOCKS, config.blocks());
        count(&THREADS, config.threads());
        // SAFETY: a launch names the block of its parameters second, and of this kernel that is one
        // record.
        let record = || unsafe { *(*extra.add(1)).cast::<Combine>() };
        let combine = (function & COMBINES != 0).then(record);
        work(config.stream, || combine.iter().for_each(|combine| combine.run()))
    }
}
