//! The self-test's kernels, each behind a function that knows its parameters. A door for
//! `unsafe`.

#![expect(unsafe_code, reason = "launches kernels")]

use std::error::Error;

use msccl_gpu::{
    ComputeCapability, Context, DevicePtr, Function, Image, Launch, Module, StreamRef,
};

/// How often a waiting kernel polls before it gives up: a few seconds.
pub const POLLS: u32 = 1 << 22;

pub fn load(context: &Context, name: &str) -> Result<Function, Box<dyn Error>> {
    let module = Module::load(context, Image::ptx(include_str!("kernels.ptx")))?;
    Ok(module.function(name)?)
}

/// The kernel that knows of clusters, where the device does.
pub fn load_cluster(context: &Context) -> Result<Option<Function>, Box<dyn Error>> {
    let hopper = ComputeCapability { major: 9, minor: 0 };
    if context.device().compute_capability()? < hopper {
        return Ok(None);
    }
    let module = Module::load(context, Image::ptx(include_str!("cluster.ptx")))?;
    Ok(Some(module.function("cluster")?))
}

/// Launches `kernel` with words as its parameters: addresses as two words, low first.
///
/// # Safety
///
/// As for [`Function::launch`].
pub unsafe fn launch(
    kernel: &Function,
    stream: StreamRef<'_>,
    shape: &Launch,
    parameters: &[u32],
) -> Result<(), msccl_gpu::Error> {
    let bytes: Vec<u8> = parameters.iter().flat_map(|word| word.to_ne_bytes()).collect();
    // SAFETY: promised by the caller.
    unsafe { kernel.launch(stream, shape, &bytes) }
}

/// Adds `value` to `count` words from `words` on, when `stream` gets there.
pub fn add(
    kernel: &Function,
    stream: StreamRef<'_>,
    words: DevicePtr,
    value: u32,
    count: u32,
) -> Result<(), msccl_gpu::Error> {
    let [low, high] = halves(words);
    let shape = Launch::linear(count.div_ceil(256), 256);
    // SAFETY: every check keeps its words until its streams are idle.
    unsafe { launch(kernel, stream, &shape, &[low, high, value, count]) }
}

/// An address as two words, low first.
pub fn halves(address: DevicePtr) -> [u32; 2] {
    [address.0 as u32, (address.0 >> 32) as u32]
}
