//! Pointers that C callers pass. An unsafe boundary.
//!
//! Values of these types are made by C alone, when it calls: their fields are private and have no
//! constructor outside of tests. What the C interface demands of its callers therefore holds for
//! every value: a pointer is null, or leads to memory of its type that may be read ([`In`],
//! [`ConfigPointer`]) or written ([`Out`]), and that lasts until the call has ended; the pointers
//! to which new communicators are written last until the operation has.
//!
//! A caller who does not look at the result of a function that failed must not find something in
//! its place that looks like one. So every function first makes all its arguments
//! [blank](Argument::blank).

#![expect(unsafe_code, reason = "reads and writes through pointers of C callers")]

use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::layout::{ConfigFields, Team, UniqueIdBytes};
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
impl Argument for *const c_char {}
impl Argument for CommHandle {}
impl Argument for UniqueIdBytes {}
impl Argument for Team {}
impl Argument for ConfigPointer {}
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
        if size >= std::mem::offset_of!(ConfigFields, blocking) {
            let bytes = size.min(size_of::<ConfigFields>());
            let to = (&raw mut fields).cast::<u8>();
            // SAFETY: both sides have as many bytes, and any bytes make integers and pointers.
            unsafe { place.as_ptr().copy_to_nonoverlapping(to, bytes) };
        }
        Some(fields)
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
