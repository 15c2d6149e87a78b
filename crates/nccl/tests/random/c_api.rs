//! The C API as threads of a random program use it. An unsafe boundary: it calls C functions.

#![expect(unsafe_code, reason = "calls the C API")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::thread;
use std::time::Duration;

// Whose functions are called by their names in C.
use nccl as _;

use super::program::{Collective, Fate, Kind, Reduction, Type};

type Handle = *mut c_void;

/// What ranks find one another by.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId([c_char; 128]);

/// A `ncclConfig_t` as programs of 2.14 have it.
#[repr(C)]
struct Config {
    bytes: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
}

#[rustfmt::skip]
unsafe extern "C" {
    fn ncclGetUniqueId(id: *mut UniqueId) -> c_int;
    fn ncclCommInitRankConfig(
        comm: *mut Handle, ranks: c_int, id: UniqueId, rank: c_int, config: *const Config,
    ) -> c_int;
    fn ncclCommInitRankScalable(
        comm: *mut Handle, ranks: c_int, rank: c_int, count: c_int, ids: *const UniqueId,
        config: *const Config,
    ) -> c_int;
    fn ncclCommSplit(
        comm: Handle, color: c_int, key: c_int, child: *mut Handle, config: *const Config,
    ) -> c_int;
    fn ncclCommShrink(
        comm: Handle, excluded: *const c_int, count: c_int, child: *mut Handle,
        config: *const Config, flags: c_int,
    ) -> c_int;
    fn ncclCommRevoke(comm: Handle, flags: c_int) -> c_int;
    fn ncclCommFinalize(comm: Handle) -> c_int;
    fn ncclCommDestroy(comm: Handle) -> c_int;
    fn ncclCommAbort(comm: Handle) -> c_int;
    fn ncclCommGetAsyncError(comm: Handle, state: *mut c_int) -> c_int;
    fn ncclCommUserRank(comm: Handle, rank: *mut c_int) -> c_int;
    fn ncclCommCount(comm: Handle, count: *mut c_int) -> c_int;
    fn ncclCommRegister(comm: Handle, at: *mut c_void, bytes: usize, handle: *mut Handle) -> c_int;
    fn ncclCommDeregister(comm: Handle, handle: Handle) -> c_int;
    fn ncclRedOpCreatePreMulSum(
        number: *mut c_int, scalar: *const c_void, element: c_int, residence: c_int, comm: Handle,
    ) -> c_int;
    fn ncclRedOpDestroy(number: c_int, comm: Handle) -> c_int;
    fn ncclGetLastError(comm: Handle) -> *const c_char;
    fn ncclGroupStart() -> c_int;
    fn ncclGroupEnd() -> c_int;
    fn ncclGroupSimulateEnd(info: *mut c_void) -> c_int;
    fn ncclAllReduce(
        from: *const c_void, to: *mut c_void, count: usize, element: c_int, by: c_int,
        comm: Handle, stream: Handle,
    ) -> c_int;
    fn ncclReduceScatter(
        from: *const c_void, to: *mut c_void, count: usize, element: c_int, by: c_int,
        comm: Handle, stream: Handle,
    ) -> c_int;
    fn ncclAllGather(
        from: *const c_void, to: *mut c_void, count: usize, element: c_int, comm: Handle,
        stream: Handle,
    ) -> c_int;
    fn ncclAlltoAll(
        from: *const c_void, to: *mut c_void, count: usize, element: c_int, comm: Handle,
        stream: Handle,
    ) -> c_int;
    fn ncclReduce(
        from: *const c_void, to: *mut c_void, count: usize, element: c_int, by: c_int,
        root: c_int, comm: Handle, stream: Handle,
    ) -> c_int;
    fn ncclBroadcast(
        from: *const c_void, to: *mut c_void, count: usize, element: c_int, root: c_int,
        comm: Handle, stream: Handle,
    ) -> c_int;
    fn ncclGather(
        from: *const c_void, to: *mut c_void, count: usize, element: c_int, root: c_int,
        comm: Handle, stream: Handle,
    ) -> c_int;
    fn ncclScatter(
        from: *const c_void, to: *mut c_void, count: usize, element: c_int, root: c_int,
        comm: Handle, stream: Handle,
    ) -> c_int;
    fn ncclSend(
        from: *const c_void, count: usize, element: c_int, peer: c_int, comm: Handle,
        stream: Handle,
    ) -> c_int;
    fn ncclRecv(
        to: *mut c_void, count: usize, element: c_int, peer: c_int, comm: Handle, stream: Handle,
    ) -> c_int;
}

const INVALID_ARGUMENT: c_int = 4;
const IN_PROGRESS: c_int = 7;
const NO_COLOR: c_int = -1;
const HOST_IMMEDIATE: c_int = 1;

/// A communicator of one rank; none until it was made. Its place stays where it is while it is made
/// in the background.
pub struct Comm(Box<AtomicPtr<c_void>>);

/// Where a call finds what it reads and writes: memory that lasts until the call is done.
#[derive(Clone, Copy)]
pub struct Buffers {
    pub from: *mut c_void,
    pub to: *mut c_void,
}

impl Buffers {
    /// Both are `word`.
    pub fn in_place(word: &mut u32) -> Self {
        let word = ptr::from_mut(word).cast();
        Self { from: word, to: word }
    }
}

impl UniqueId {
    pub fn to_bytes(self) -> [u8; 128] {
        self.0.map(c_char::cast_unsigned)
    }

    pub fn from_bytes(bytes: [u8; 128]) -> Self {
        Self(bytes.map(u8::cast_signed))
    }
}

/// The call `name` did not fail.
#[track_caller]
fn fine(name: &str, code: c_int) {
    assert!(code == 0 || code == IN_PROGRESS, "{name} gave {code}: {}", last_error());
}

pub fn last_error() -> String {
    // SAFETY: no communicator is a legal one; the text ends with a zero.
    unsafe { CStr::from_ptr(ncclGetLastError(ptr::null_mut())) }.to_string_lossy().into_owned()
}

pub fn unique_id() -> UniqueId {
    let mut id = UniqueId([0; 128]);
    // SAFETY: there is room for it.
    fine("ncclGetUniqueId", unsafe { ncclGetUniqueId(&mut id) });
    id
}

/// What `body` calls is one group.
pub fn group(body: impl FnOnce()) {
    group_with_fate(Fate::Executed, body);
}

/// What `body` calls is a group of which that becomes.
pub fn group_with_fate(fate: Fate, body: impl FnOnce()) {
    // SAFETY: takes nothing.
    fine("ncclGroupStart", unsafe { ncclGroupStart() });
    body();
    // SAFETY: nothing is a legal argument; what was gathered has its memory still.
    unsafe {
        match fate {
            Fate::Executed => fine("ncclGroupEnd", ncclGroupEnd()),
            Fate::Refused => assert_eq!(ncclGroupEnd(), INVALID_ARGUMENT, "{}", last_error()),
            Fate::Simulated => fine("ncclGroupSimulateEnd", ncclGroupSimulateEnd(ptr::null_mut())),
        }
    }
}

fn number(element: Type) -> c_int {
    match element {
        Type::I8 => 0,
        Type::U8 => 1,
        Type::I32 => 2,
        Type::U32 => 3,
        Type::I64 => 4,
        Type::U64 => 5,
        Type::F16 => 6,
        Type::F32 => 7,
        Type::F64 => 8,
        Type::Bf16 => 9,
    }
}

fn int(number: usize) -> c_int {
    c_int::try_from(number).unwrap()
}

impl Comm {
    /// None yet.
    pub fn none() -> Self {
        Self(Box::new(AtomicPtr::new(ptr::null_mut())))
    }

    fn handle(&self) -> Handle {
        self.0.load(Acquire)
    }

    fn place(&self) -> *mut Handle {
        self.0.as_ptr()
    }

    pub fn exists(&self) -> bool {
        !self.handle().is_null()
    }

    /// Joins by one id, or by several.
    pub fn join(&self, ranks: usize, rank: usize, ids: &[UniqueId], blocking: bool) {
        let (magic, blocking) = (0xcafe_beef, c_int::from(blocking));
        let config = Config { bytes: 24, magic, version: 21400, blocking };
        let (ranks, rank, config) = (int(ranks), int(rank), &raw const config);
        // No more ids than ranks.
        let count = int(ids.len()).min(ranks);
        // SAFETY: place and configuration are of the types that C wants, and so are the ids; the
        // place stays.
        let code = unsafe {
            match ids {
                [id] => ncclCommInitRankConfig(self.place(), ranks, *id, rank, config),
                _ => {
                    ncclCommInitRankScalable(self.place(), ranks, rank, count, ids.as_ptr(), config)
                }
            }
        };
        fine("ncclCommInitRankConfig or ncclCommInitRankScalable", code);
    }

    pub fn split(&self, (color, key): (Option<i32>, i32), child: &Comm) {
        let color = color.unwrap_or(NO_COLOR);
        // SAFETY: the child's place stays; no configuration is a legal one.
        let code = unsafe { ncclCommSplit(self.handle(), color, key, child.place(), ptr::null()) };
        fine("ncclCommSplit", code);
    }

    pub fn shrink(&self, excluded: &[usize], child: &Comm) {
        let excluded: Vec<_> = excluded.iter().copied().map(int).collect();
        let (list, count) = (excluded.as_ptr(), int(excluded.len()));
        // SAFETY: the list has that many; the child's place stays.
        let code =
            unsafe { ncclCommShrink(self.handle(), list, count, child.place(), ptr::null(), 0) };
        fine("ncclCommShrink", code);
    }

    pub fn revoke(&self) {
        // SAFETY: takes numbers alone.
        fine("ncclCommRevoke", unsafe { ncclCommRevoke(self.handle(), 0) });
    }

    pub fn finalize(&self) {
        // SAFETY: takes a number alone.
        fine("ncclCommFinalize", unsafe { ncclCommFinalize(self.handle()) });
    }

    pub fn destroy(&self) {
        // SAFETY: takes a number alone.
        fine("ncclCommDestroy", unsafe { ncclCommDestroy(self.handle()) });
        self.0.store(ptr::null_mut(), Relaxed);
    }

    pub fn abort(&self) {
        // SAFETY: takes a number alone.
        fine("ncclCommAbort", unsafe { ncclCommAbort(self.handle()) });
        self.0.store(ptr::null_mut(), Relaxed);
    }

    /// Makes a call of which nothing can come: it names a peer that is not there.
    pub fn be_refused(&self) {
        // SAFETY: nothing is read.
        let code = unsafe { ncclSend(ptr::null(), 0, 0, -1, self.handle(), ptr::null_mut()) };
        assert_eq!(code, INVALID_ARGUMENT, "{}", last_error());
    }

    /// Waits until nothing goes on in the background.
    pub fn settle(&self) {
        let mut state = IN_PROGRESS;
        while state == IN_PROGRESS {
            // SAFETY: there is room for the answer.
            fine("ncclCommGetAsyncError", unsafe {
                ncclCommGetAsyncError(self.handle(), &mut state)
            });
            if state == IN_PROGRESS {
                thread::sleep(Duration::from_micros(200));
            }
        }
        fine("the background", state);
    }

    /// The rank, and how many there are.
    pub fn rank_and_ranks(&self) -> (usize, usize) {
        let (mut rank, mut ranks) = (0, 0);
        // SAFETY: there is room for the answers.
        let codes = unsafe {
            [ncclCommUserRank(self.handle(), &mut rank), ncclCommCount(self.handle(), &mut ranks)]
        };
        codes.into_iter().for_each(|code| fine("ncclCommUserRank or ncclCommCount", code));
        (usize::try_from(rank).unwrap(), usize::try_from(ranks).unwrap())
    }

    /// Registers memory and takes that back.
    pub fn register(&self, at: *mut c_void, bytes: usize) {
        let mut handle = ptr::null_mut();
        // SAFETY: there is room for the handle; the memory is looked at by nobody.
        fine("ncclCommRegister", unsafe {
            ncclCommRegister(self.handle(), at, bytes, &mut handle)
        });
        // SAFETY: takes numbers alone.
        fine("ncclCommDeregister", unsafe { ncclCommDeregister(self.handle(), handle) });
    }

    /// An operator that scales by `scalar`, an element of type `element`.
    pub fn scaling(&self, scalar: &[u8], element: Type) -> c_int {
        let (mut operator, element) = (0, number(element));
        // SAFETY: there is room for the number, and one element to be read.
        let code = unsafe {
            ncclRedOpCreatePreMulSum(
                &mut operator,
                scalar.as_ptr().cast(),
                element,
                HOST_IMMEDIATE,
                self.handle(),
            )
        };
        fine("ncclRedOpCreatePreMulSum", code);
        operator
    }

    pub fn forget(&self, operator: c_int) {
        // SAFETY: takes numbers alone.
        fine("ncclRedOpDestroy", unsafe { ncclRedOpDestroy(operator, self.handle()) });
    }

    /// The number of a built-in operator; `scaled` is that of another one.
    fn operator(by: Reduction, scaled: c_int) -> c_int {
        match by {
            Reduction::Sum => 0,
            Reduction::Product => 1,
            Reduction::Max => 2,
            Reduction::Min => 3,
            Reduction::Mean => 4,
            Reduction::Scaled => scaled,
        }
    }

    /// Makes the call; `scaled` is the operator of those that scale.
    pub fn call(&self, collective: &Collective, Buffers { from, to }: Buffers, scaled: c_int) {
        let Collective { kind, element, count, .. } = *collective;
        let (element, comm, stream) = (number(element), self.handle(), ptr::null_mut());
        let by = |by| Self::operator(by, scaled);
        // SAFETY: the memory is as long as the call wants it, and lasts until the call is done.
        let code = unsafe {
            match kind {
                Kind::AllReduce(of) => {
                    ncclAllReduce(from, to, count, element, by(of), comm, stream)
                }
                Kind::ReduceScatter(of) => {
                    ncclReduceScatter(from, to, count, element, by(of), comm, stream)
                }
                Kind::AllGather => ncclAllGather(from, to, count, element, comm, stream),
                Kind::AllToAll => ncclAlltoAll(from, to, count, element, comm, stream),
                Kind::Reduce(of, root) => {
                    ncclReduce(from, to, count, element, by(of), int(root), comm, stream)
                }
                Kind::Broadcast(root) => {
                    ncclBroadcast(from, to, count, element, int(root), comm, stream)
                }
                Kind::Gather(root) => ncclGather(from, to, count, element, int(root), comm, stream),
                Kind::Scatter(root) => {
                    ncclScatter(from, to, count, element, int(root), comm, stream)
                }
            }
        };
        fine("a collective", code);
    }

    /// Waits for all ranks; `buffers` is one word, in place.
    pub fn meet(&self, buffers: Buffers) {
        let kind = Kind::AllReduce(Reduction::Sum);
        let (element, count, ranks) = (Type::U32, 1, self.rank_and_ranks().1);
        self.call(&Collective { kind, element, count, in_place: true, ranks, salt: 0 }, buffers, 0);
    }

    pub fn send(&self, message: &Collective, from: *const c_void, peer: usize) {
        let element = number(message.element);
        // SAFETY: as for collectives.
        let code = unsafe {
            ncclSend(from, message.count, element, int(peer), self.handle(), ptr::null_mut())
        };
        fine("ncclSend", code);
    }

    pub fn receive(&self, message: &Collective, to: *mut c_void, peer: usize) {
        let element = number(message.element);
        // SAFETY: as for collectives.
        let code = unsafe {
            ncclRecv(to, message.count, element, int(peer), self.handle(), ptr::null_mut())
        };
        fine("ncclRecv", code);
    }
}
