//! The code of all kernels for a device, unpacked.
//!
//! All modules side by side, and beside the driver: it loads one while the next are unpacked, so
//! that a communicator waits for the first alone.

use std::thread::{self, Scope, ScopedJoinHandle};

use msccl_gpu::ComputeCapability;
use msccl_kernels as kernels;
use msccl_kernels::recipe::Architecture;
use rustc_hash::FxHashMap;

use crate::error::{Error, ErrorKind};

/// The code of one module.
pub(super) struct Code {
    /// What it was built for.
    pub architecture: Architecture,
    /// As the driver takes it; text ends with a zero.
    pub bytes: Vec<u8>,
}

/// The code of modules for one device, as far as it has not been taken yet.
pub(super) struct Unpacking<'scope> {
    capability: ComputeCapability,
    workers: FxHashMap<kernels::Module, ScopedJoinHandle<'scope, Result<Code, Error>>>,
}

impl<'scope> Unpacking<'scope> {
    /// Begins to unpack `modules` for a device of such a `capability`: first those that come first.
    pub fn begin(
        scope: &'scope Scope<'scope, '_>,
        modules: impl IntoIterator<Item = kernels::Module>,
        capability: ComputeCapability,
    ) -> Self {
        let worker = |module: kernels::Module| {
            let name = format!("unpack {}", module.name());
            let work = move || unpack(module, capability);
            // Where there is no other thread to be had, `take` does the work.
            Some((module, thread::Builder::new().name(name).spawn_scoped(scope, work).ok()?))
        };
        Self { capability, workers: modules.into_iter().filter_map(worker).collect() }
    }

    /// The code of `module`, when it is unpacked.
    ///
    /// # Errors
    ///
    /// The device is too old, or this library's file is damaged.
    pub fn take(&mut self, module: kernels::Module) -> Result<Code, Error> {
        match self.workers.remove(&module) {
            Some(worker) => worker.join().unwrap_or_else(|_| Err(panicked(module))),
            None => unpack(module, self.capability),
        }
    }
}

fn unpack(module: kernels::Module, capability: ComputeCapability) -> Result<Code, Error> {
    let ComputeCapability { major, minor } = capability;
    let image = kernels::image(module, major, minor).ok_or_else(|| {
        let text = format!(
            "this GPU has compute capability {major}.{minor}; kernels exist from 7.0 on, so use \
             MSCCL_DEVICE=host"
        );
        Error::new(ErrorKind::Cuda, text)
    })?;
    let bytes = image.bytes().map_err(|error| Error::internal(error.to_string()))?;
    Ok(Code { architecture: image.architecture, bytes })
}

fn panicked(module: kernels::Module) -> Error {
    Error::internal(format!("unpacking module {} panicked", module.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `take` gives for every module on such a device.
    fn take_all(
        capability: ComputeCapability,
        begun: &[kernels::Module],
    ) -> Vec<Result<Code, Error>> {
        thread::scope(|scope| {
            let mut unpacking = Unpacking::begin(scope, begun.iter().copied(), capability);
            kernels::Module::ALL.map(|module| unpacking.take(module)).into()
        })
    }

    #[test]
    fn devices_have_all_modules_or_a_reason() {
        let hopper = ComputeCapability { major: 9, minor: 0 };
        // Code that no thread unpacks ahead is unpacked when it is taken.
        for begun in [&kernels::Module::ALL[..], &kernels::Module::ALL[..3], &[]] {
            for code in take_all(hopper, begun) {
                assert!(!code.unwrap().bytes.is_empty());
            }
        }
        let old = ComputeCapability { major: 6, minor: 1 };
        for code in take_all(old, &kernels::Module::ALL) {
            let error = code.err().unwrap();
            assert!(error.to_string().contains("compute capability 6.1"), "{error}");
        }
    }
}
