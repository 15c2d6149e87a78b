//! The code of all kernels for a device, unpacked.
//!
//! All modules side by side: one after another they take longer than all that the driver does with
//! them.

use std::thread;

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

/// The code of every module for a device of such a `capability`.
///
/// # Errors
///
/// The device is too old, or this library's file is damaged.
pub(super) fn unpack_all(
    capability: ComputeCapability,
) -> Result<FxHashMap<kernels::Module, Code>, Error> {
    thread::scope(|scope| {
        let unpacked = kernels::Module::ALL.map(|module| {
            let work = move || unpack(module, capability);
            (module, thread::Builder::new().spawn_scoped(scope, work))
        });
        let code = unpacked.into_iter().map(|(module, worker)| {
            let code = match worker {
                Ok(worker) => worker.join().unwrap_or_else(|_| Err(panicked(module))),
                // There is no other thread to be had.
                Err(_) => unpack(module, capability),
            };
            Ok((module, code?))
        });
        code.collect()
    })
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

    #[test]
    fn devices_have_all_modules_or_a_reason() {
        let all = unpack_all(ComputeCapability { major: 9, minor: 0 }).unwrap();
        assert!(kernels::Module::ALL.iter().all(|module| !all[module].bytes.is_empty()));
        assert_eq!(all.len(), kernels::Module::ALL.len());
        let error = unpack_all(ComputeCapability { major: 6, minor: 1 }).err().unwrap();
        assert!(error.to_string().contains("compute capability 6.1"), "{error}");
    }
}
