//! Recording kernels, compiled and loaded where they are used.
//!
//! Their code comes from the cache of kernels or from the run-time compiler, and is kept for the
//! communicators to come. Loading waits for kernels that run, as [`super::super::kernels`] says. So
//! those for [common types](COMMON_TYPES) are loaded while ranks join; others are loaded by the
//! first call that needs them, where nobody in this process can wait for that.
//!
//! A recording kernel serves only if as many of its thread blocks run at once as of the kernel
//! whose calls it takes.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use msccl_collective::DataType;
use msccl_gpu::{Context, Form, Module, Nvrtc, Source};
use msccl_kernels as kernels;
use msccl_kernels::recipe::{Architecture, options};
use msccl_kernels::recording::{RecordingKernel, headers, records};
use msccl_kernels::specialised::{seal, unseal};
use msccl_plan::launch;
use msccl_select::{CARRIED, Specialisation};
use rustc_hash::FxHashMap;

use super::super::kernels::{Kernels, Launchable, compiled_image};
use crate::event::{Event, Log};

/// Types whose kernels are loaded while ranks join.
const COMMON_TYPES: [DataType; 4] = [DataType::F32, DataType::F16, DataType::Bf16, CARRIED];

/// What is loaded, by device; `None` is what cannot serve.
type Loaded = FxHashMap<(u32, RecordingKernel), Option<Arc<Launchable>>>;

static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

fn loaded<T>(body: impl FnOnce(&mut Loaded) -> T) -> T {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    body(loaded.get_or_insert_default())
}

/// The recording kernels of a rank.
pub(super) struct RecordingKernels {
    context: Context,
    kernels: Arc<Kernels>,
    specialised: Specialisation,
    architecture: Architecture,
    log: Arc<dyn Log>,
}

impl RecordingKernels {
    /// For the GPU of `context`, whose other kernels are `kernels`. `specialised` says where
    /// compiled kernels are kept, and by what they are compiled.
    pub fn new(
        context: &Context,
        kernels: &Arc<Kernels>,
        specialised: &Specialisation,
        log: &Arc<dyn Log>,
    ) -> Result<Self, msccl_gpu::Error> {
        let capability = context.device().compute_capability()?;
        let architecture = Architecture::Machine(10 * capability.major + capability.minor);
        Ok(Self {
            context: context.clone(),
            kernels: kernels.clone(),
            specialised: specialised.clone(),
            architecture,
            log: log.clone(),
        })
    }

    /// Loads what common calls need, and the kernel that answers with the clock.
    pub fn load_common(&self) {
        let call = |module, data_type| RecordingKernel::Call { module, data_type };
        let of_types =
            kernels::Module::ALL.into_iter().filter(|module| records(*module)).flat_map(|module| {
                let types = module.types_among(&COMMON_TYPES).iter();
                types.map(move |data_type| call(module, *data_type))
            });
        let all = [RecordingKernel::Clock].into_iter().chain(of_types);
        self.load(&all.collect::<Vec<_>>());
    }

    /// A kernel, if it is loaded.
    pub fn get(&self, kernel: RecordingKernel) -> Option<Arc<Launchable>> {
        loaded(|all| all.get(&self.name(kernel)).cloned()).flatten()
    }

    /// The same; it is loaded if nobody has tried that.
    pub fn get_or_load(&self, kernel: RecordingKernel) -> Option<Arc<Launchable>> {
        if loaded(|all| !all.contains_key(&self.name(kernel))) {
            self.load(&[kernel]);
        }
        self.get(kernel)
    }

    fn name(&self, kernel: RecordingKernel) -> (u32, RecordingKernel) {
        (self.context.device().ordinal(), kernel)
    }

    /// Loads those of `kernels` that are not, and logs what came of it.
    fn load(&self, kernels: &[RecordingKernel]) {
        let mut missing: Vec<_> = kernels.to_vec();
        missing.retain(|kernel| loaded(|all| !all.contains_key(&self.name(*kernel))));
        missing.dedup();
        if missing.is_empty() {
            return;
        }
        let (start, code) = (Instant::now(), self.code(&missing));
        let mut failed = Vec::new();
        for (kernel, code) in missing.iter().zip(code) {
            let ready = code.and_then(|code| self.ready(*kernel, &code));
            let ready = ready.map_err(|why| failed.push(format!("{}: {why}", kernel.name()))).ok();
            loaded(|all| all.insert(self.name(*kernel), ready));
        }
        let (count, seconds) = (missing.len() - failed.len(), start.elapsed().as_secs_f64());
        let text = format!("{count} recording kernels loaded in {seconds:.1} s (MSCCL_TRACE)");
        self.log.event(&Event::Loaded(text));
        if let Some(first) = failed.first() {
            let count = failed.len();
            let text = format!("MSCCL_TRACE: {count} kernels do not record, such as {first}");
            self.log.event(&Event::Unmet(text));
        }
    }

    /// The machine code of `kernels`, in their order: out of the cache, or compiled side by side.
    fn code(&self, kernels: &[RecordingKernel]) -> Vec<Result<Vec<u8>, String>> {
        let mut code: Vec<_> = kernels.iter().map(|kernel| self.cached(*kernel)).collect();
        let missing: Vec<_> = (0..kernels.len()).filter(|at| code[*at].is_none()).collect();
        let compiled = match (missing.is_empty(), self.compiler()) {
            (true, _) => Vec::new(),
            (false, Ok(compiler)) => {
                let missing: Vec<_> = missing.iter().map(|at| kernels[*at]).collect();
                compile_all(&compiler, &missing, self.architecture)
            }
            (false, Err(why)) => missing.iter().map(|_| Err(why.clone())).collect(),
        };
        for (at, made) in missing.into_iter().zip(compiled) {
            if let Ok(made) = &made {
                self.keep(kernels[at], made);
            }
            code[at] = Some(made);
        }
        code.into_iter().flatten().collect()
    }

    /// The run-time compiler, with what recording kernels include.
    fn compiler(&self) -> Result<RecordingCompiler, String> {
        let nvrtc = Nvrtc::find(self.specialised.compiler.as_deref())
            .map_err(|why| format!("no NVRTC: {why}; MSCCL_NVRTC names its library"))?;
        let sources = headers().iter().map(|(name, text)| Source::new(name, text.as_str()));
        Ok(RecordingCompiler { nvrtc, headers: sources.collect::<Result<_, _>>()? })
    }

    /// What the cache of kernels has; what is damaged counts as nothing.
    fn cached(&self, kernel: RecordingKernel) -> Option<Result<Vec<u8>, String>> {
        let file = self.specialised.cache.as_ref()?.read(&kernel.file_name(self.architecture));
        let code = unseal(&kernel.key(self.architecture), &file.ok()??).ok()?.to_vec();
        Some(Ok(code))
    }

    /// Puts code into the cache, if there is one that takes it.
    fn keep(&self, kernel: RecordingKernel, code: &[u8]) {
        let Some(cache) = &self.specialised.cache else { return };
        let file = seal(&kernel.key(self.architecture), code);
        // It is compiled again the next time.
        let _ = cache.write(&kernel.file_name(self.architecture), &file);
    }

    /// The kernel of `code`, if as many of its thread blocks run at once as are counted on.
    fn ready(&self, kernel: RecordingKernel, code: &[u8]) -> Result<Arc<Launchable>, String> {
        let load = || {
            let module = Module::load(&self.context, compiled_image(code))?;
            let loaded = match kernel {
                RecordingKernel::Call { module: kernels::Module::Exchange, data_type: _ } => {
                    Launchable::exchanging(&module, self.kernels.carve_out())?
                }
                RecordingKernel::Call { .. } | RecordingKernel::Clock => {
                    Launchable::new(&module, &kernel.name(), self.kernels.carve_out())?
                }
            };
            let blocks = loaded.blocks_each(threads_max(kernel))?;
            Ok((blocks, loaded))
        };
        let (found, loaded) = load().map_err(|error: msccl_gpu::Error| error.to_string())?;
        let needed = self.kernels.blocks_each();
        if found < needed && kernel != RecordingKernel::Clock {
            return Err(format!(
                "{found} of its thread blocks fit on a multiprocessor, {needed} are needed"
            ));
        }
        Ok(Arc::new(loaded))
    }
}

/// Most threads in a thread block of a kernel.
fn threads_max(kernel: RecordingKernel) -> u32 {
    use kernels::Module;
    match kernel {
        RecordingKernel::Clock => 32,
        RecordingKernel::Call { module, data_type: _ } => match module {
            Module::Simple
            | Module::WarpSpecialised
            | Module::Direct
            | Module::SimpleUnaligned
            | Module::WarpSpecialisedUnaligned
            | Module::DirectUnaligned
            | Module::PushOnly
            | Module::Scale
            | Module::Combine => launch::THREADS_MAX_SIMPLE,
            Module::Ll | Module::LlLowLatency | Module::LlLowLatencyUnaligned => {
                launch::THREADS_MAX_LL
            }
            Module::Ll128 | Module::Ll128LowLatency | Module::Ll128LowLatencyUnaligned => {
                launch::THREADS_MAX_LL128
            }
            Module::Exchange => launch::THREADS_MAX_EXCHANGE,
        },
    }
}

struct RecordingCompiler {
    nvrtc: Nvrtc,
    headers: Vec<Source>,
}

impl RecordingCompiler {
    fn compile(
        &self,
        kernel: RecordingKernel,
        architecture: Architecture,
    ) -> Result<Vec<u8>, String> {
        let main = Source::new("recording.cu", kernel.source())?;
        self.nvrtc.compile(&main, &self.headers, &options(architecture), Form::Machine)
    }
}

/// Compiles `kernels`, as many at once as there are processors; the code in their order.
fn compile_all(
    compiler: &RecordingCompiler,
    kernels: &[RecordingKernel],
    architecture: Architecture,
) -> Vec<Result<Vec<u8>, String>> {
    let processors = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = kernels.len().div_ceil(processors).max(1);
    // Neighbours take about as long: deal them out.
    let groups = kernels.len().div_ceil(share);
    let compile = |kernel: &RecordingKernel| compiler.compile(*kernel, architecture);
    let group = |of: usize| -> Vec<_> {
        kernels.iter().enumerate().filter(|(at, _)| at % groups == of).collect()
    };
    let mut made: Vec<_> = thread::scope(|scope| {
        let work = |of: usize| {
            let kernels = group(of);
            move || kernels.into_iter().map(|(at, of)| (at, compile(of))).collect::<Vec<_>>()
        };
        let workers: Vec<_> = (0..groups).map(|of| scope.spawn(work(of))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    made.sort_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, code)| code).collect()
}
