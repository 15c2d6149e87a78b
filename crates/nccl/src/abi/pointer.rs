//! Pointers that C callers pass. An unsafe boundary.
//!
//! Values of these types are made by C alone, when it calls: their fields are private and have no
//! constructor outside of tests. What the C interface demands of its callers therefore holds for
//! every value: a pointer is null, or leads to memory of its type that may be read ([`In`],
//! [`ConfigPointer`]) or written ([`Out`]), and that lasts until the call has ended; the pointers
//! to which new communicators and windows are written last until the operation has.
//!
//! A caller who does not look at the result of a function that failed must not find something in
//! its place that looks like one. So every function first makes all its arguments
//! [blank](Argument::blank).

#![expect(unsafe_code, reason = "reads and writes through pointers of C callers")]

use std::ffi::{CStr, c_char, c_int};
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::layout::{
    API_MAGIC, ConfigFields, PropertiesFields, SimulationInfo, Team, UniqueIdBytes,
};
use super::{Code, CommHandle};

/// Where the caller wants a result, or null.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Out<T>(Option<NonNull<T>>);

// SAFETY: it is used from another thread only for results of operations that go on in the
// background, for which the caller keeps the memory, and is written without being read.
unsafe impl<T: Send> Send for Out<T> {}

impl<T: Copy> Out<T> {
    /// Whether there is nowhere to put a result.
    pub fn is_null(self) -> bool {
        self.0.is_none()
    }

    /// Gives the caller `value`.
    pub fn set(self, value: T) {
        if let Some(place) = self.0 {
            // SAFETY: the caller has a `T` there, see above. It may not be initialised, which
            // writing does not mind.
            unsafe { place.write(value) };
        }
    }
}

/// Where the caller wants several results, one after another, or null. How many, other arguments
/// say.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct OutArray<T>(Out<T>);

impl<T: Copy> OutArray<T> {
    /// Whether there is nowhere to put results.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Gives the caller `values`, one after another; it has room for as many.
    pub fn set_all(self, values: &[T]) {
        values.iter().enumerate().for_each(|(index, value)| self.at(index).set(*value));
    }

    /// The place of the result `index`.
    pub fn at(self, index: usize) -> Out<T> {
        let Self(Out(first)) = self;
        // SAFETY: the caller has an array there, see above; who calls this knows its length from
        // the same caller.
        Out(first.map(|place| unsafe { place.add(index) }))
    }
}

/// What a function of the C interface takes.
pub trait Argument {
    /// Where the caller wants a result, it finds from now on something that is none.
    fn blank(&self) {}
}

impl Argument for usize {}
impl Argument for c_int {}
impl Argument for u32 {}
impl Argument for *const c_char {}
impl Argument for CommHandle {}
impl Argument for UniqueIdBytes {}
impl Argument for Team {}
impl Argument for ConfigPointer {}
impl Argument for PropertiesPointer {}
impl Argument for SimulationPointer {}
impl<T> Argument for In<T> {}
/// Only the function knows how many there are.
impl<T> Argument for OutArray<T> {}

impl Argument for Out<CommHandle> {
    fn blank(&self) {
        self.publish(CommHandle::default());
    }
}

impl Argument for Out<usize> {
    fn blank(&self) {
        self.set(0);
    }
}

impl Argument for Out<u64> {
    fn blank(&self) {
        self.set(0);
    }
}

impl Argument for Out<c_int> {
    fn blank(&self) {
        self.set(-1);
    }
}

impl Argument for Out<UniqueIdBytes> {
    fn blank(&self) {
        self.set(UniqueIdBytes([0; 128]));
    }
}

/// Neither success nor something to wait for.
impl Argument for Out<Code> {
    fn blank(&self) {
        self.set(Code::InvalidArgument);
    }
}

impl Out<CommHandle> {
    /// Gives the caller, who may be polling in another thread, `handle`.
    pub fn publish(self, handle: CommHandle) {
        if let Some(place) = self.0 {
            // SAFETY: the caller has a pointer there, which is aligned, and reads it in one piece.
            let place = unsafe { AtomicUsize::from_ptr(place.as_ptr().cast()) };
            place.store(handle.0, Ordering::Release);
        }
    }
}

/// What the caller wants to be read, or null.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct In<T>(Option<NonNull<T>>);

impl<T: Copy> In<T> {
    /// The value, unless the pointer is null.
    pub fn read(self) -> Option<T> {
        // SAFETY: the caller has a `T` there, see above; scalars need not be aligned.
        self.0.map(|place| unsafe { place.read_unaligned() })
    }

    /// `count` values, unless the pointer is null.
    pub fn read_all(self, count: usize) -> Option<Vec<T>> {
        // SAFETY: the caller has as many there, see above.
        let value = |place: NonNull<T>, index| unsafe { place.add(index).read_unaligned() };
        self.0.map(|place| (0..count).map(|index| value(place, index)).collect())
    }

    /// The address, for what is read later or elsewhere.
    pub fn address(self) -> usize {
        self.0.map_or(0, |place| place.as_ptr().addr())
    }

    /// The first `count` bytes of what lies there, in the low bytes of a word, unless the pointer
    /// is null.
    pub fn read_low_bytes(self, count: usize) -> Option<u64> {
        let bytes = In(self.0.map(NonNull::cast::<u8>)).read_all(count.min(8))?;
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(&bytes);
        Some(u64::from_le_bytes(word))
    }
}

/// A `ncclConfig_t` of any version, or null.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct ConfigPointer(Option<NonNull<u8>>);

impl ConfigPointer {
    /// The caller passes none.
    pub fn none() -> Self {
        Self(None)
    }

    /// The fields that both the caller and this library know, all others undefined; nothing if the
    /// pointer is null. The size, magic and version are the caller's, and to be checked: a size
    /// too small for these three reads as a magic of zero.
    pub fn read(self) -> Option<ConfigFields> {
        let place = self.0?;
        // SAFETY: every version begins with its size.
        let size = unsafe { place.cast::<usize>().read_unaligned() };
        let mut fields = ConfigFields { size, magic: 0, ..ConfigFields::UNDEFINED };
        if size >= offset_of!(ConfigFields, blocking) {
            let bytes = size.min(size_of::<ConfigFields>());
            let to = (&raw mut fields).cast::<u8>();
            // SAFETY: both sides have as many bytes, and any bytes make integers and pointers.
            unsafe { place.as_ptr().copy_to_nonoverlapping(to, bytes) };
        }
        Some(fields)
    }
}

/// A `ncclCommProperties_t` of any version, or null.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct PropertiesPointer(Option<NonNull<u8>>);

impl PropertiesPointer {
    /// The last version of which the structure ends with the type of network in one byte.
    const SHORT_VERSION: u32 = 22903;
    /// Where that version has that byte.
    const SHORT_GIN_TYPE: usize = 34;

    /// What the caller's initialiser wrote, unless the pointer is null: nothing, if it wrote
    /// something else.
    pub fn header(self) -> Option<Option<PropertiesHeader>> {
        let place = self.0?;
        // SAFETY: every version begins with its size, which the initialiser sets.
        let size = unsafe { place.cast::<usize>().read_unaligned() };
        if size < offset_of!(PropertiesFields, rank) {
            return Some(None);
        }
        // SAFETY: every version goes on with two words, and the size says that they are there.
        let words = unsafe { place.add(size_of::<usize>()).cast::<[u32; 2]>().read_unaligned() };
        let [magic, version] = words;
        Some((magic == API_MAGIC).then_some(PropertiesHeader { size, version }))
    }

    /// Gives the caller what its version has of `fields`; what stands before the rank stays.
    pub fn set(self, header: PropertiesHeader, fields: &PropertiesFields) {
        let Some(place) = self.0 else { return };
        let is_short = header.version <= Self::SHORT_VERSION;
        let end = if is_short { Self::SHORT_GIN_TYPE } else { size_of::<PropertiesFields>() };
        let first = offset_of!(PropertiesFields, rank);
        let bytes = end.min(header.size).saturating_sub(first);
        let from = std::ptr::from_ref(fields).cast::<u8>();
        // SAFETY: both sides have as many bytes from `first` on; the caller's size says so of its
        // side. Bytes of padding are copied, not looked at.
        unsafe { place.add(first).as_ptr().copy_from(from.add(first), bytes) };
        if is_short && header.size > Self::SHORT_GIN_TYPE {
            // SAFETY: the size says that the byte is there.
            unsafe { place.add(Self::SHORT_GIN_TYPE).write(fields.gin_type as u8) };
        }
    }
}

/// What the initialiser of a `ncclCommProperties_t` wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PropertiesHeader {
    /// Bytes of the caller's structure.
    pub size: usize,
    /// The version that the caller was built with.
    pub version: u32,
}

/// A `ncclSimInfo_t`, or null.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct SimulationPointer(In<SimulationInfo>);

impl SimulationPointer {
    /// What the caller's initialiser wrote, unless the pointer is null.
    pub fn read(self) -> Option<SimulationInfo> {
        self.0.read()
    }

    /// Gives the caller a time in µs.
    pub fn set_us(self, estimated_time_us: f32) {
        let Self(In(place)) = self;
        if let Some(place) = place {
            // SAFETY: the caller has the structure there, see above.
            unsafe { (&raw mut (*place.as_ptr()).estimated_time_us).write(estimated_time_us) };
        }
    }
}

/// The text at `text`, an argument or a field of a configuration; nothing if it is null.
pub fn text(text: *const c_char) -> Option<String> {
    // SAFETY: arguments and fields of a configuration are null or lead to text that ends with a
    // zero byte, as the C interface demands; they are read during the call that was given them.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) })?;
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    impl<T> Out<T> {
        /// As C would pass it.
        pub fn to(place: &mut T) -> Self {
            Self(Some(NonNull::from(place)))
        }
    }

    impl<T> In<T> {
        /// As C would pass it.
        pub fn of(place: &T) -> Self {
            Self(Some(NonNull::from(place)))
        }
    }

    impl ConfigPointer {
        /// As C would pass it.
        pub fn to(fields: &ConfigFields) -> Self {
            Self(Some(NonNull::from(fields).cast()))
        }
    }

    impl PropertiesPointer {
        /// As C would pass it.
        pub fn to<T>(place: &mut T) -> Self {
            Self(Some(NonNull::from(place).cast()))
        }
    }

    /// What a caller of `version` finds after `size` bytes of its structure were written: bytes 16
    /// to 56, where 0xAA stands before.
    fn properties_of(size: usize, version: u32) -> Vec<u8> {
        let mut bytes = [0xAA_u8; 64];
        bytes[..8].copy_from_slice(&size.to_ne_bytes());
        bytes[8..12].copy_from_slice(&API_MAGIC.to_ne_bytes());
        bytes[12..16].copy_from_slice(&version.to_ne_bytes());
        let place = PropertiesPointer::to(&mut bytes);
        let header = place.header().unwrap().unwrap();
        let fields = PropertiesFields {
            size: 0,
            magic: 0,
            version: 0,
            rank: 1,
            ranks: 2,
            cuda_device: 3,
            nvml_device: 4,
            device_api_support: false,
            multimem_support: false,
            gin_type: 0,
            lsa_teams: 2,
            host_rma_support: true,
            railed_gin_type: 0,
        };
        place.set(header, &fields);
        bytes[16..].to_vec()
    }

    #[test]
    fn properties_are_written_as_far_as_the_caller_has_them() {
        let int =
            |bytes: &[u8], at: usize| i32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let new = properties_of(56, 23007);
        assert_eq!([0, 4, 8, 12, 20, 24, 32].map(|at| int(&new, at)), [1, 2, 3, 4, 0, 2, 0]);
        assert_eq!((new[16], new[17], new[28], &new[40..]), (0, 0, 1, &[0xAA; 8][..]));
        let old = properties_of(40, 22903);
        assert_eq!([0, 4, 8, 12].map(|at| int(&old, at)), [1, 2, 3, 4]);
        assert_eq!((&old[16..19], &old[19..]), (&[0, 0, 0][..], &[0xAA; 29][..]));
        let cut = properties_of(20, 23007);
        assert_eq!((int(&cut, 0), &cut[4..]), (1, &[0xAA; 44][..]));
    }

    #[test]
    fn properties_without_their_initialiser_are_refused() {
        let mut zeros = [0_u64; 8];
        assert_eq!(PropertiesPointer::to(&mut zeros).header(), Some(None));
        zeros[0] = 56;
        assert_eq!(PropertiesPointer::to(&mut zeros).header(), Some(None));
        assert_eq!(PropertiesPointer(None).header(), None);
    }

    #[test]
    fn shorter_configurations_leave_the_rest_open() {
        let fields = ConfigFields { size: 24, blocking: 0, max_ctas: 7, ..ConfigFields::UNDEFINED };
        let read = ConfigPointer::to(&fields).read().unwrap();
        assert_eq!((read.size, read.blocking), (24, 0));
        assert_eq!(read.max_ctas, ConfigFields::UNDEFINED.max_ctas);
        let tiny = ConfigFields { size: 8, ..ConfigFields::UNDEFINED };
        assert_eq!(ConfigPointer::to(&tiny).read().unwrap().magic, 0);
        assert!(ConfigPointer::none().read().is_none());
    }

    #[test]
    fn low_bytes_are_those_of_the_scalar() {
        let word = 0x1122_3344_5566_7788_u64;
        assert_eq!(In::of(&word).read_low_bytes(2), Some(0x7788));
        assert_eq!(In::of(&word).read_low_bytes(8), Some(word));
    }
}
