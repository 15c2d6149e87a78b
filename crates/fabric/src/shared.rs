//! Host memory that several processes see.
//!
//! The memory is an anonymous file (memfd), passed on as a descriptor: it has no name that could
//! clash, be found by others, or stay behind after a crash, and is not bound by the size of
//! `/dev/shm`, which containers keep small. All of it is allocated at once, so that too little
//! memory is an error here and not a signal later.
//!
//! **Seals.** Whoever makes it seals its size in both directions, and the seals themselves. Whoever
//! opens it requires these seals before it looks at the size and maps anything, so that no process
//! can pull pages from under another. Writing is not sealed, and all mappings are writable: of
//! everything that lies in such memory both sides write a part (`docs/SECURITY.md` lists what).
//! Only who has made it keeps the descriptor.

mod mapping;

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{self, FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;

use crate::error::{Error, ErrorKind};
use mapping::Mapping;

/// Memory that every holder of its descriptor can map. It is unmapped on drop and freed with its
/// last holder.
pub struct SharedMemory {
    mapping: Mapping,
    /// Of whoever has made it.
    descriptor: Option<OwnedFd>,
}

/// What whoever opens shared memory requires of it: its size stays as it is for good.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

impl SharedMemory {
    /// `bytes` zeros, at least one.
    pub fn create(bytes: usize) -> Result<Self, Error> {
        if bytes == 0 {
            return Err(Error::invalid("shared memory must have at least one byte"));
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let descriptor = fs::memfd_create("msccl", flags)
            .map_err(|error| Error::system("cannot create shared memory", error))?;
        allocate(&descriptor, bytes)?;
        fs::fcntl_add_seals(&descriptor, SEALS)
            .map_err(|error| Error::system("cannot seal shared memory", error))?;
        let mapping = map(&descriptor, bytes)?;
        Ok(Self { mapping, descriptor: Some(descriptor) })
    }

    /// The memory of `bytes` bytes behind a descriptor that another rank has sent.
    pub fn open(descriptor: OwnedFd, bytes: usize) -> Result<Self, Error> {
        let found = sealed_size(&descriptor)?;
        if found != bytes as u64 || bytes == 0 {
            let text = format!("expected {bytes} bytes of shared memory, found {found}");
            return Err(Error::mismatch(text));
        }
        Ok(Self { mapping: map(&descriptor, bytes)?, descriptor: None })
    }

    /// What to pass on.
    ///
    /// # Errors
    ///
    /// Somebody else has made it.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        let own = self.descriptor.as_ref().map(AsFd::as_fd);
        own.ok_or_else(|| Error::invalid("only the rank that made shared memory can pass it on"))
    }

    /// Its size in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.mapping.len()
    }

    /// Where it lies in this process, page-aligned; valid as long as this value lives. Accesses
    /// must be ordered among all processes by whoever makes them.
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapping.as_ptr()
    }

    /// The eight bytes at `offset`, which must be a multiple of eight inside the memory.
    #[inline]
    pub fn word(&self, offset: usize) -> Option<&AtomicU64> {
        self.mapping.word(offset)
    }

    /// The four bytes at `offset`, which must be a multiple of four inside the memory.
    pub fn half_word(&self, offset: usize) -> Option<&AtomicU32> {
        self.mapping.half_word(offset)
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMemory({} bytes at {:?})", self.len(), self.as_ptr())
    }
}

fn map(descriptor: &OwnedFd, bytes: usize) -> Result<Mapping, Error> {
    Mapping::new(descriptor, bytes).map_err(|error| {
        Error::system(format_args!("cannot map {bytes} bytes of shared memory"), error)
    })
}

/// The size of the memory behind `descriptor`, which it keeps for good.
pub(crate) fn sealed_size(descriptor: &OwnedFd) -> Result<u64, Error> {
    let seals = fs::fcntl_get_seals(descriptor).map_err(|_: Errno| {
        Error::mismatch("expected shared memory, found a file descriptor of another kind")
    })?;
    if !seals.contains(SEALS) {
        let text = "expected shared memory whose size is sealed, found some that can be cut off; \
                    all ranks must load the same library";
        return Err(Error::mismatch(text));
    }
    let status = fs::fstat(descriptor);
    let status = status.map_err(|error| Error::system("shared memory has no size", error))?;
    Ok(status.st_size.unsigned_abs())
}

/// Gives `file` its size and all of its pages.
fn allocate(file: &OwnedFd, bytes: usize) -> Result<(), Error> {
    let allocated = match fs::fallocate(file, FallocateFlags::empty(), 0, bytes as u64) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => fs::ftruncate(file, bytes as u64),
        other => other,
    };
    allocated.map_err(|error| too_small(bytes, error))
}

fn too_small(bytes: usize, error: Errno) -> Error {
    let hint = "raise the container's limit (docker: --memory; Kubernetes: resources)";
    let error: std::io::Error = error.into();
    let text = format!("cannot get {bytes} bytes of shared memory: {error}; {hint}");
    Error::new(ErrorKind::System, text)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use rustix::fs::{Mode, OFlags};

    use super::*;

    #[test]
    fn two_mappings_are_one_memory() {
        let memory = SharedMemory::create(10_000).unwrap();
        let other = memory.descriptor().unwrap().try_clone_to_owned().unwrap();
        let other = SharedMemory::open(other, 10_000).unwrap();
        memory.word(9_992).unwrap().store(42, Ordering::Release);
        assert_eq!(other.word(9_992).unwrap().load(Ordering::Acquire), 42);
        assert_eq!(other.half_word(9_992).unwrap().load(Ordering::Acquire), 42);
        drop(memory);
        assert_eq!(other.word(0).unwrap().load(Ordering::Acquire), 0);
    }

    #[test]
    fn words_lie_inside_and_aligned() {
        let memory = SharedMemory::create(20).unwrap();
        let there = [0, 8].map(|offset| memory.word(offset).is_some());
        assert_eq!(there, [true; 2]);
        let not = [4, 7, 16, usize::MAX - 7].map(|offset| memory.word(offset).is_some());
        assert_eq!(not, [false; 4]);
        assert!(memory.half_word(16).is_some() && memory.half_word(20).is_none());
    }

    #[test]
    fn sizes_are_checked_and_sealed() {
        let memory = SharedMemory::create(4096).unwrap();
        let copy = || memory.descriptor().unwrap().try_clone_to_owned().unwrap();
        let text = SharedMemory::open(copy(), 8192).unwrap_err().to_string();
        assert_eq!(text, "expected 8192 bytes of shared memory, found 4096");
        assert_eq!(fs::ftruncate(copy(), 1), Err(Errno::PERM));
        assert_eq!(fs::ftruncate(copy(), 8192), Err(Errno::PERM));
        assert!(SharedMemory::create(0).is_err());
        let opened = SharedMemory::open(copy(), 4096).unwrap();
        assert!(opened.descriptor().is_err());
    }

    #[test]
    fn what_could_be_cut_off_is_not_mapped() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let partly = [SealFlags::empty(), SealFlags::SHRINK, SealFlags::SHRINK | SealFlags::GROW];
        for seals in partly {
            let file = fs::memfd_create("test", flags).unwrap();
            fs::ftruncate(&file, 4096).unwrap();
            fs::fcntl_add_seals(&file, seals).unwrap();
            let text = SharedMemory::open(file, 4096).unwrap_err().to_string();
            assert!(text.contains("whose size is sealed"), "{seals:?}: {text}");
        }
        let file = fs::open("/dev/zero", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let text = SharedMemory::open(file, 4096).unwrap_err().to_string();
        assert!(text.contains("a file descriptor of another kind"), "{text}");
    }

    #[test]
    fn too_little_room_is_an_error() {
        let text = too_small(1 << 50, Errno::NOSPC).to_string();
        let expected = "cannot get 1125899906842624 bytes of shared memory: ";
        assert!(text.starts_with(expected) && text.contains("--memory"), "{text}");
    }
}
