//! Compiling recording kernels, of which there are no images: whether the compiler takes them.

use std::time::{Duration, Instant};

use msccl_collective::DataType;
use msccl_gpu::{Form, Nvrtc, Source};
use msccl_kernels::Module;
use msccl_kernels::recipe::{Architecture, options};
use msccl_kernels::recording::{RecordingKernel, headers, records};

use super::modules;
use crate::compiler;

/// What runs on the GPUs on which everything is measured.
const ARCHITECTURE: Architecture = Architecture::Machine(90);

/// Compiles a recording kernel of each of the modules of these `names`, or of all if there are
/// none.
///
/// # Errors
///
/// The compiler's messages.
pub fn compile_recording(names: &[&str]) -> Result<(), String> {
    let nvrtc = compiler::load()?;
    modules(names)?.into_iter().filter(|of| records(*of)).try_for_each(|of| compile(&nvrtc, of))
}

/// Compiles some, other ones every `day`, until `seconds` are over.
///
/// # Errors
///
/// The compiler's messages.
pub fn compile_some_recording(nvrtc: &Nvrtc, day: u64, seconds: u64) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut modules: Vec<_> = Module::ALL.into_iter().filter(|of| records(*of)).collect();
    let count = modules.len();
    modules.rotate_left(day as usize % count);
    let mut due = modules.into_iter().take_while(|_| Instant::now() < deadline);
    due.try_for_each(|module| compile(nvrtc, module))
}

fn compile(nvrtc: &Nvrtc, module: Module) -> Result<(), String> {
    let types = module.types_among(&[DataType::F32]);
    types.iter().try_for_each(|data_type| compile_for(nvrtc, module, *data_type))
}

fn compile_for(nvrtc: &Nvrtc, module: Module, data_type: DataType) -> Result<(), String> {
    let start = Instant::now();
    let kernel = RecordingKernel::Call { module, data_type };
    let main = Source::new(&module.entry_name(), kernel.source())?;
    let sources = headers().iter().map(|(name, text)| Source::new(name, text.as_str()));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    let code = nvrtc
        .compile(&main, &sources, &options(ARCHITECTURE), Form::Machine)
        .map_err(|log| format!("recording kernel {}: {log}", kernel.name()))?;
    let (bytes, seconds) = (code.len(), start.elapsed().as_secs_f64());
    crate::say(&format!("recording kernel {}: {bytes} bytes in {seconds:.1} s", kernel.name()));
    Ok(())
}
