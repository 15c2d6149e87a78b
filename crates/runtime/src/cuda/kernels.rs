//! The kernels of a device, loaded. A door for `unsafe`.
//!
//! Loading waits for kernels that run, one of which may be waiting for another rank of this process;
//! so everything is loaded at once, when the first communicator on a device is made, and kept for
//! those to come.

use std::sync::{Arc, Mutex, PoisonError};

use msccl_collective::{DataType, Protocol};
use msccl_gpu::{Context, DriverVersion, Function, Image, Module};
use msccl_kernels as kernels;
use msccl_kernels::recipe::Architecture;
use msccl_plan::launch;
use rustc_hash::FxHashMap;

use super::CARRIERS;
use crate::engine::TYPES;
use crate::error::{Error, ErrorKind};
use crate::select::Links;

/// Every kernel, ready to be launched.
pub(super) struct Kernels {
    interpreters: FxHashMap<(Protocol, DataType), Function>,
    /// The interpreters of protocol Simple for links that may deliver directly.
    direct: FxHashMap<DataType, Function>,
    scalers: FxHashMap<DataType, Function>,
    exchange: Function,
    /// Whether the interpreters can wait for the kernel before them, and the driver lets them.
    can_start_early: bool,
    /// Threads that run on the device at once, by protocol.
    resident_threads: [u32; 3],
    /// The same of `direct`, by type in the order of [`DataType::ALL`].
    resident_direct: [u32; TYPES],
}

/// What is loaded, by device.
static LOADED: Mutex<Vec<(u32, Arc<Kernels>)>> = Mutex::new(Vec::new());

impl Kernels {
    /// The kernels of `context`'s device.
    pub fn of(context: &Context) -> Result<Arc<Self>, Error> {
        let ordinal = context.device().ordinal();
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, kernels)) = loaded.iter().find(|(device, _)| *device == ordinal) {
            return Ok(kernels.clone());
        }
        let kernels = Arc::new(Self::load(context)?);
        loaded.push((ordinal, kernels.clone()));
        Ok(kernels)
    }

    fn load(context: &Context) -> Result<Self, Error> {
        let mut interpreters = FxHashMap::default();
        let mut resident_threads = [u32::MAX; 3];
        for (protocol, resident_threads) in Protocol::ALL.into_iter().zip(&mut resident_threads) {
            let (functions, resident) = load_interpreters(context, module(protocol), protocol)?;
            *resident_threads = resident.into_iter().min().unwrap_or(0);
            let functions = functions.into_iter();
            interpreters.extend(functions.map(|(of, function)| ((protocol, of), function)));
        }
        let (direct, resident_direct) =
            load_interpreters(context, kernels::Module::Direct, Protocol::Simple)?;
        let module = load_module(context, kernels::Module::Scale)?;
        let scaler = |data_type: DataType| {
            let function = module.function(&kernels::Module::Scale.kernel(data_type.name()))?;
            Ok::<_, Error>((data_type, function))
        };
        let scalers = DataType::ALL.into_iter().map(scaler).collect::<Result<_, _>>()?;
        let exchange = load_module(context, kernels::Module::Exchange)?;
        let exchange = exchange.function(&kernels::Module::Exchange.kernel(""))?;
        let threads = launch::THREADS_MAX_EXCHANGE;
        let resident = threads * exchange.co_resident_blocks(threads, 0)?;
        // Exchanges run over wires of protocol Simple, among others.
        let [simple, ..] = &mut resident_threads;
        *simple = (*simple).min(resident);
        Ok(Self {
            interpreters,
            direct,
            scalers,
            exchange,
            can_start_early: can_start_early(context)?,
            resident_threads,
            resident_direct,
        })
    }

    /// Whether interpreters may begin while the kernel before them ends.
    pub fn can_start_early(&self) -> bool {
        self.can_start_early
    }

    /// The interpreter for one protocol, links and type; [`Links::Direct`] takes protocol Simple.
    pub fn interpreter(
        &self,
        protocol: Protocol,
        links: Links,
        of: DataType,
    ) -> Result<&Function, Error> {
        let function = match links {
            Links::Direct => self.direct.get(&of),
            Links::Staged => self.interpreters.get(&(protocol, of)),
        };
        function.ok_or_else(|| Error::internal(format!("no kernel for {protocol} and {of}")))
    }

    /// The kernel that scales elements of a type.
    pub fn scaler(&self, of: DataType) -> Result<&Function, Error> {
        self.scalers.get(&of).ok_or_else(|| Error::internal(format!("no kernel that scales {of}")))
    }

    /// The kernel of point-to-point exchanges.
    pub fn exchange(&self) -> &Function {
        &self.exchange
    }

    /// Threads that run on the device at once in blocks of the largest size, if nothing else runs there, by
    /// protocol in the order of [`Protocol::ALL`].
    pub fn resident_threads(&self) -> [u32; 3] {
        self.resident_threads
    }

    /// The same under Simple where links may deliver directly, in calls on a type, by type in the order of
    /// [`DataType::ALL`]: ranks that compute nothing have kernels of [`CARRIERS`].
    pub fn resident_direct(&self) -> [u32; TYPES] {
        let carries = |(of, _): &(&DataType, &u32)| CARRIERS.contains(of);
        let all = || DataType::ALL.iter().zip(&self.resident_direct);
        let carriers = all().filter(carries).map(|(_, threads)| *threads).min().unwrap_or(0);
        self.resident_direct.map(|threads| threads.min(carriers))
    }
}

fn module(protocol: Protocol) -> kernels::Module {
    match protocol {
        Protocol::Simple => kernels::Module::Simple,
        Protocol::Ll => kernels::Module::Ll,
        Protocol::Ll128 => kernels::Module::Ll128,
    }
}

/// The image of a special kernel.
pub(super) fn special_image(code: &[u8]) -> Image<'_> {
    // SAFETY: the code is as a compiler wrote it: it comes from one, or from a file whose checksum says so.
    unsafe { Image::binary(code) }
}

/// Kernels wait for the one before them from compute capability 9.0 on; that such launches can be captured is new in
/// CUDA 12.3.
fn can_start_early(context: &Context) -> Result<bool, Error> {
    let device = context.device();
    let DriverVersion { major, minor } = device.driver().version();
    Ok(device.compute_capability()?.major >= 9 && (major, minor) >= (12, 3))
}

/// The interpreters of `module`, and how many threads of blocks of the largest size under `protocol` run
/// at once of each, in the order of [`DataType::ALL`].
fn load_interpreters(
    context: &Context,
    module: kernels::Module,
    protocol: Protocol,
) -> Result<(FxHashMap<DataType, Function>, [u32; TYPES]), Error> {
    let loaded = load_module(context, module)?;
    let (mut functions, mut resident) = (FxHashMap::default(), [0; TYPES]);
    let threads = launch::threads_max(protocol);
    for (data_type, resident) in DataType::ALL.into_iter().zip(&mut resident) {
        let function = loaded.function(&module.kernel(data_type.name()))?;
        *resident = threads * function.co_resident_blocks(threads, 0)?;
        functions.insert(data_type, function);
    }
    Ok((functions, resident))
}

fn load_module(context: &Context, module: kernels::Module) -> Result<Module, Error> {
    let capability = context.device().compute_capability()?;
    let (major, minor) = (capability.major, capability.minor);
    let image = kernels::image(module, major, minor).ok_or_else(|| {
        let text = format!(
            "this GPU has compute capability {major}.{minor}; kernels exist from 7.0 on, so use \
             MSCCL_DEVICE=host"
        );
        Error::new(ErrorKind::Cuda, text)
    })?;
    let bytes = image.bytes().map_err(|error| Error::internal(error.to_string()))?;
    let loaded = match image.architecture {
        Architecture::Portable(_) => {
            let text = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
            let text =
                std::str::from_utf8(text).map_err(|error| Error::internal(error.to_string()))?;
            Module::load(context, Image::ptx(text))
        }
        // SAFETY: the image is a file as the compiler wrote it, and unpacked whole.
        Architecture::Machine(_) => Module::load(context, unsafe { Image::binary(&bytes) }),
    };
    Ok(loaded?)
}
