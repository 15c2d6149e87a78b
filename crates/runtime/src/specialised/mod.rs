//! Specialised kernels: made for one plan each, they serve its calls faster than the interpreters,
//! bit for bit alike.
//!
//! [`crate::specialised_kernels`] is what there should be for a rank, [`provide()`] takes it from a
//! cache or compiles it. What a communicator on GPUs does with it, `cuda::specialised` says.
//!
//! # Guarantees
//!
//! * Without a compiler, without a cache, with a cache full of anything, everything works: whatever
//!   specialised kernel cannot be had, the interpreter serves. Every reason is an
//!   [`Event`](crate::Event), each once.
//! * Ranks need not agree about any of it: specialised kernels and interpreters leave the same
//!   behind and talk to one another.
//!
//! Absent: files (a [`KernelCache`](msccl_select::KernelCache) belongs to a front end), GPUs.

mod provide;

use msccl_gpu::{Form, Nvrtc, Source};
use msccl_kernels::recipe::{Architecture, options};
use msccl_kernels::specialised::{Kernel, headers};
use msccl_select::Specialisation;

pub(crate) use provide::{Compiler, provide};
pub use provide::{Made, Origin};

/// The name of the file of `kernel` for `architecture`.
pub(crate) fn file_name(kernel: &Kernel, architecture: Architecture) -> String {
    let Kernel { protocol, data_type, .. } = kernel;
    let key = kernel.key(architecture);
    format!("{}.{protocol}.{data_type}.{key}.kernel", architecture.name())
}

/// The run-time compiler, with what specialised kernels include.
struct RuntimeCompiler {
    nvrtc: Nvrtc,
    headers: Vec<Source>,
}

/// The run-time compiler that `specialised` names, or the first that there is.
pub(crate) fn load(specialised: &Specialisation) -> Result<Box<dyn Compiler>, String> {
    let nvrtc = Nvrtc::find(specialised.compiler.as_deref())?;
    let sources = headers().iter().map(|(name, text)| Source::new(name, text.as_str()));
    Ok(Box::new(RuntimeCompiler { nvrtc, headers: sources.collect::<Result<_, _>>()? }))
}

impl Compiler for RuntimeCompiler {
    fn name(&self) -> String {
        let (major, minor) = self.nvrtc.version();
        format!("NVRTC {major}.{minor} ({})", self.nvrtc.name())
    }

    fn compile(&self, kernel: &Kernel, architecture: Architecture) -> Result<Vec<u8>, String> {
        let main = Source::new("special.cu", kernel.source())?;
        self.nvrtc.compile(&main, &self.headers, &options(architecture), Form::Machine)
    }
}
