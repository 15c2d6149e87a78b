//! Where a worker's buffers lie and where its calls run: a GPU or the host. An unsafe boundary.
//!
//! Memory made or adopted here is never freed: a worker lives for one benchmark, and calls that a
//! library has under way may use its buffers until the end. So a [`Region`] is valid for good, and
//! whoever holds one may give its address to a library or to a stream. What is `unsafe` here relies
//! on that, and on the bounds that a [`Region`] keeps. Order is the user's affair: reading a region
//! while a call writes to it gives any bytes.

#![expect(unsafe_code, reason = "makes memory whose addresses go to libraries and streams")]

use std::ffi::c_void;
use std::ptr;

use msccl_gpu::{
    CaptureMode, Context, ContextGuard, DeviceBuffer, DevicePtr, DeviceSpan, Driver, GraphExec,
    Stream,
};

use crate::error::Error;
use crate::machine::Place;

/// An open GPU with a stream, or the host.
#[derive(Clone, Copy)]
pub(crate) enum Device {
    /// Host memory; calls return when they are done.
    Host,
    /// A GPU's memory, and a stream on it.
    Gpu(&'static Context, &'static Stream),
}

/// Calls that were recorded, to be made again.
pub(crate) struct Recording {
    exec: GraphExec,
    stream: &'static Stream,
}

impl Device {
    /// Opens `place`. Its context stays current on this thread as long as the guard lives, for
    /// libraries that ask for the current device.
    pub(crate) fn open(place: Place) -> Result<(Self, Option<ContextGuard<'static>>), Error> {
        let Place::Gpu(ordinal) = place else { return Ok((Self::Host, None)) };
        let context = Driver::load()?.device(ordinal)?.context()?;
        let context: &'static Context = Box::leak(Box::new(context));
        let guard = context.enter()?;
        let stream: &'static Stream = Box::leak(Box::new(Stream::new(context)?));
        Ok((Self::Gpu(context, stream), Some(guard)))
    }

    /// The stream as C has it; null on the host.
    pub(crate) fn stream(self) -> *mut c_void {
        match self {
            Self::Host => ptr::null_mut(),
            Self::Gpu(_, stream) => stream.borrow().as_raw(),
        }
    }

    /// Waits until everything in the stream is done.
    pub(crate) fn synchronize(self) -> Result<(), Error> {
        match self {
            Self::Host => Ok(()),
            Self::Gpu(_, stream) => Ok(stream.borrow().synchronize()?),
        }
    }

    /// `length_bytes` zeros, valid for good.
    pub(crate) fn allocate(self, length_bytes: usize) -> Result<Region, Error> {
        let memory = match self {
            Self::Host => {
                // In words, for alignment.
                let count = length_bytes.div_ceil(8);
                let mut words: Vec<u64> = Vec::new();
                words.try_reserve_exact(count).map_err(|_| {
                    Error::new(format!("there is no memory for a buffer of {length_bytes} bytes"))
                })?;
                words.resize(count, 0);
                Memory::Host(words.leak().as_mut_ptr().cast())
            }
            Self::Gpu(context, stream) => {
                let buffer = DeviceBuffer::zeroed(context, length_bytes.max(1))?;
                let buffer: &'static DeviceBuffer = Box::leak(Box::new(buffer));
                Memory::Gpu(buffer.span(), stream)
            }
        };
        Ok(Region { memory, start: 0, length_bytes })
    }

    /// Memory of this device that somebody else has allocated.
    ///
    /// # Safety
    ///
    /// From `memory` on lie `length_bytes` bytes, on the host initialised ones, to be read and
    /// written here; they stay valid for good.
    pub(crate) unsafe fn adopt(self, memory: *mut c_void, length_bytes: usize) -> Region {
        let memory = match self {
            Self::Host => Memory::Host(memory.cast()),
            Self::Gpu(context, stream) => {
                let base = DevicePtr(memory.addr() as u64);
                // SAFETY: promised by the caller.
                Memory::Gpu(unsafe { DeviceSpan::from_raw(context, base, length_bytes) }, stream)
            }
        };
        Region { memory, start: 0, length_bytes }
    }

    /// Records what `issue` puts into the stream.
    pub(crate) fn record(
        self,
        issue: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Recording, Error> {
        let Self::Gpu(_, stream) = self else {
            return Err(Error::new("graphs need a GPU: leave -G away on the host"));
        };
        stream.borrow().begin_capture(CaptureMode::ThreadLocal)?;
        let issued = issue();
        let graph = stream.borrow().end_capture();
        issued?;
        Ok(Recording { exec: graph?.instantiate()?, stream })
    }
}

impl Recording {
    /// Makes the recorded calls once more when the stream gets there.
    pub(crate) fn launch(&self) -> Result<(), Error> {
        // SAFETY: what was recorded uses regions, which are valid for good, and what the library
        // needs for it, which the library keeps as long as its communicator lives; the worker ends
        // that last.
        Ok(unsafe { self.exec.launch(self.stream.borrow()) }?)
    }
}

/// Memory in a [`Device`], valid for good.
#[derive(Clone, Copy)]
pub(crate) struct Region {
    memory: Memory,
    start: usize,
    length_bytes: usize,
}

/// A whole allocation.
#[derive(Clone, Copy)]
enum Memory {
    Host(*mut u8),
    Gpu(DeviceSpan<'static>, &'static Stream),
}

impl Region {
    /// `length_bytes` bytes from byte `start` on.
    pub(crate) fn slice(self, start: usize, length_bytes: usize) -> Result<Self, Error> {
        let end = start.checked_add(length_bytes).filter(|&end| end <= self.length_bytes);
        end.map(|_| Self { start: self.start + start, length_bytes, ..self }).ok_or_else(|| {
            let available_bytes = self.length_bytes;
            Error::new(format!(
                "bytes {start} to {start} + {length_bytes} of {available_bytes} bytes"
            ))
        })
    }

    /// Its address, for calls.
    pub(crate) fn address(self) -> *mut c_void {
        match self.memory {
            Memory::Host(base) => base.wrapping_add(self.start).cast(),
            Memory::Gpu(span, _) => {
                let DevicePtr(address) = span.ptr().offset(self.start);
                ptr::without_provenance_mut(address as usize)
            }
        }
    }

    /// How long it is.
    pub(crate) fn length_bytes(self) -> usize {
        self.length_bytes
    }

    /// Writes `bytes` to its beginning.
    pub(crate) fn write(self, bytes: &[u8]) -> Result<(), Error> {
        let to = self.slice(0, bytes.len())?;
        match to.memory {
            // SAFETY: the allocation is never freed and `slice` keeps to its bounds; `bytes` is
            // borrowed, and no borrow of the allocation exists.
            Memory::Host(base) => unsafe {
                ptr::copy_nonoverlapping(bytes.as_ptr(), base.add(to.start), bytes.len());
            },
            Memory::Gpu(span, _) => span.slice(to.start..to.start + bytes.len())?.write(bytes)?,
        }
        Ok(())
    }

    /// Reads its beginning.
    pub(crate) fn read(self, into: &mut [u8]) -> Result<(), Error> {
        let from = self.slice(0, into.len())?;
        match from.memory {
            // SAFETY: as in `write`.
            Memory::Host(base) => unsafe {
                ptr::copy_nonoverlapping(base.add(from.start), into.as_mut_ptr(), into.len());
            },
            Memory::Gpu(span, _) => span.slice(from.start..from.start + into.len())?.read(into)?,
        }
        Ok(())
    }

    /// Sets every byte and waits until it is done.
    pub(crate) fn fill(self, byte: u8) -> Result<(), Error> {
        match self.memory {
            // SAFETY: as in `write`.
            Memory::Host(base) => unsafe {
                ptr::write_bytes(base.add(self.start), byte, self.length_bytes);
            },
            Memory::Gpu(span, _) => {
                span.slice(self.start..self.start + self.length_bytes)?.fill(byte)?;
            }
        }
        Ok(())
    }

    /// Repeats `pattern` from the beginning to the end, and waits until it is done.
    pub(crate) fn repeat(self, pattern: &[u8]) -> Result<(), Error> {
        let mut done = pattern.len().min(self.length_bytes);
        self.write(&pattern[..done])?;
        // What is there doubles until all is.
        while done > 0 && done < self.length_bytes {
            let more = done.min(self.length_bytes - done);
            self.slice(0, more)?.copy_to(self.slice(done, more)?)?;
            done += more;
        }
        match self.memory {
            Memory::Host(_) => Ok(()),
            Memory::Gpu(_, stream) => Ok(stream.borrow().synchronize()?),
        }
    }

    /// Copies all of it to `to` in the order of the stream.
    pub(crate) fn copy_to(self, to: Self) -> Result<(), Error> {
        let to = to.slice(0, self.length_bytes)?;
        match (self.memory, to.memory) {
            (Memory::Host(from_base), Memory::Host(to_base)) => {
                let (from, to) =
                    (from_base.wrapping_add(self.start), to_base.wrapping_add(to.start));
                // SAFETY: both ranges are valid for good; they may overlap.
                unsafe { ptr::copy(from, to, self.length_bytes) };
                Ok(())
            }
            (Memory::Gpu(from, stream), Memory::Gpu(span, _)) => {
                let (from, to) = (from.ptr().offset(self.start), span.ptr().offset(to.start));
                // SAFETY: both ranges are valid for good; what uses them is in the same stream.
                Ok(unsafe { stream.borrow().copy(to, from, self.length_bytes) }?)
            }
            (Memory::Host(_), Memory::Gpu(..)) | (Memory::Gpu(..), Memory::Host(_)) => {
                Err(Error::new("a worker's buffers lie all on one device"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_repeat_to_the_end() {
        for length in [0, 1, 2, 3, 4, 100] {
            let region = Device::Host.allocate(length + 1).unwrap();
            region.fill(9).unwrap();
            region.slice(0, length).unwrap().repeat(&[1, 2, 3]).unwrap();
            let mut found = vec![0; length + 1];
            region.read(&mut found).unwrap();
            let expected = [1, 2, 3].into_iter().cycle().take(length).chain([9]);
            assert_eq!(found, expected.collect::<Vec<u8>>());
        }
    }

    #[test]
    fn regions_keep_their_bounds() {
        let region = Device::Host.allocate(10).unwrap().slice(2, 6).unwrap();
        assert!(region.slice(6, 0).is_ok() && region.slice(6, 1).is_err());
        assert!(region.slice(usize::MAX, 2).is_err());
        assert!(region.write(&[0; 7]).is_err() && region.read(&mut [0; 7]).is_err());
    }

    #[test]
    fn the_host_has_no_graphs() {
        let refused = Device::Host.record(|| Ok(())).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("-G"));
    }
}
