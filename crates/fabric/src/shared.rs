//! Host memory that several processes see.
//!
//! The memory is an anonymous file (memfd), passed on as a descriptor: it has no name that could
//! clash or stay behind after a crash, is not bound by the size of `/dev/shm`, which containers keep
//! small, and its size is sealed, so that no process can pull it from under another. Where the system
//! does not offer such files, an unlinked file in `/dev/shm` takes its place. Either way all of it is
//! allocated at once, so that too little memory is an error here and not a signal later.

mod mapping;

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::{self, FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;

use crate::error::{Error, ErrorKind};
use crate::identity;
use mapping::Mapping;

/// Memory that every holder of its descriptor can map. It is unmapped on drop and freed with its last
/// holder.
pub struct SharedMemory {
    mapping: Mapping,
    descriptor: OwnedFd,
}

impl SharedMemory {
    /// `bytes` zeros, at least one.
    pub fn create(bytes: usize) -> Result<Self, Error> {
        if bytes == 0 {
            return Err(Error::invalid("shared memory must have at least one byte"));
        }
        let descriptor = match anonymous_file() {
            Ok(file) => allocate(file, bytes, "memory")?,
            Err(_) => allocate(unlinked_file("/dev/shm")?, bytes, "/dev/shm")?,
        };
        // Not possible in /dev/shm, where the ranks must trust one another.
        let _ = fs::fcntl_add_seals(&descriptor, SealFlags::SHRINK | SealFlags::GROW);
        Self::map(descriptor, bytes)
    }

    /// The memory of `bytes` bytes behind a descriptor that another rank has sent.
    pub fn open(descriptor: OwnedFd, bytes: usize) -> Result<Self, Error> {
        let found = size(&descriptor)?;
        if found != bytes as u64 || bytes == 0 {
            let text = format!("expected {bytes} bytes of shared memory, found {found}");
            return Err(Error::mismatch(text));
        }
        Self::map(descriptor, bytes)
    }

    fn map(descriptor: OwnedFd, bytes: usize) -> Result<Self, Error> {
        let mapping = Mapping::new(&descriptor, bytes).map_err(|error| {
            Error::system(format_args!("cannot map {bytes} bytes of shared memory"), error)
        })?;
        Ok(Self { mapping, descriptor })
    }

    /// Its size in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.mapping.len()
    }

    /// Where it lies in this process, page-aligned; valid as long as this value lives. Accesses must be
    /// ordered among all processes by whoever makes them.
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

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMemory({} bytes at {:?})", self.len(), self.as_ptr())
    }
}

/// The size of the file behind `descriptor`.
pub(crate) fn size(descriptor: &OwnedFd) -> Result<u64, Error> {
    let status = fs::fstat(descriptor);
    let status = status.map_err(|error| Error::system("shared memory has no size", error))?;
    Ok(status.st_size.unsigned_abs())
}

fn anonymous_file() -> Result<OwnedFd, Errno> {
    fs::memfd_create("msccl", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
}

/// A file in `folder` that vanishes with its last holder.
fn unlinked_file(folder: &str) -> Result<OwnedFd, Error> {
    let failed = |error| Error::system(format_args!("cannot create a file in {folder}"), error);
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    if let Ok(file) = fs::open(folder, flags | OFlags::TMPFILE, mode) {
        return Ok(file);
    }
    let path = format!("{folder}/msccl-{:032x}", identity::random_u128()?);
    let file = fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode).map_err(failed)?;
    fs::unlink(&path).map_err(failed)?;
    Ok(file)
}

/// Gives `file` its size and all of its pages.
fn allocate(file: OwnedFd, bytes: usize, place: &str) -> Result<OwnedFd, Error> {
    let allocated = match fs::fallocate(&file, FallocateFlags::empty(), 0, bytes as u64) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => fs::ftruncate(&file, bytes as u64),
        other => other,
    };
    allocated.map_err(|error| too_small(&file, bytes, place, error))?;
    Ok(file)
}

fn too_small(file: &OwnedFd, bytes: usize, place: &str, error: Errno) -> Error {
    let room = fs::fstatvfs(file).map_or_else(
        |_| String::new(),
        |room| {
            let (free, all) = (room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize);
            match all {
                0 => String::new(),
                _ => format!(", of whose {all} bytes {free} are free"),
            }
        },
    );
    let hint = "raise the container's limit (docker: --memory, --shm-size; Kubernetes: resources, \
                an emptyDir of medium Memory at /dev/shm)";
    let error: std::io::Error = error.into();
    let text =
        format!("cannot get {bytes} bytes of shared memory from {place}{room}: {error}; {hint}");
    Error::new(ErrorKind::System, text)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn two_mappings_are_one_memory() {
        let memory = SharedMemory::create(10_000).unwrap();
        let other = memory.as_fd().try_clone_to_owned().unwrap();
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
        let copy = memory.as_fd().try_clone_to_owned().unwrap();
        let text = SharedMemory::open(copy, 8192).unwrap_err().to_string();
        assert_eq!(text, "expected 8192 bytes of shared memory, found 4096");
        assert_eq!(fs::ftruncate(&memory.descriptor, 1), Err(Errno::PERM));
        assert!(SharedMemory::create(0).is_err());
    }

    #[test]
    fn too_little_room_is_an_error_that_says_how_much_there_is() {
        let file = unlinked_file("/dev/shm").unwrap();
        let text = allocate(file, 1 << 50, "/dev/shm").unwrap_err().to_string();
        let expected = "cannot get 1125899906842624 bytes of shared memory from /dev/shm, of whose";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("--shm-size"), "{text}");
    }

    #[test]
    fn the_second_choice_works_too() {
        let file = allocate(unlinked_file("/dev/shm").unwrap(), 5000, "/dev/shm").unwrap();
        let memory = SharedMemory::open(file, 5000).unwrap();
        memory.word(0).unwrap().store(7, Ordering::Relaxed);
        assert_eq!(memory.word(0).unwrap().load(Ordering::Relaxed), 7);
    }
}
