//! The kernels of a device, loaded. A door for `unsafe`.
//!
//! Loading waits for kernels that run, one of which may be waiting for another rank of this process;
//! so everything is loaded at once, when the first communicator on a device is made, and kept for
//! those to come.

use std::sync::Arc;

use msccl_collective::{DataType, Protocol};
use msccl_gpu::{Context, DriverVersion, Function, Image, Module};
use msccl_kernels as kernels;
use msccl_kernels::recipe::Architecture;
use msccl_plan::{Small, launch};
use rustc_hash::FxHashMap;

use super::footprint::Footprint;
use super::per_device::PerDevice;
use crate::error::{Error, ErrorKind};
use crate::select::Links;

/// Every kernel, ready to be launched.
pub(super) struct Kernels {
    interpreters: FxHashMap<(Protocol, DataType), Launchable>,
    /// The interpreters of protocol Simple for links that may deliver directly.
    direct: FxHashMap<DataType, Launchable>,
    /// Those of protocol Simple whose thread blocks work as crews.
    crews: FxHashMap<DataType, Launchable>,
    /// Those for small calls, over packets.
    small: FxHashMap<(Protocol, Small, DataType), Launchable>,
    /// They wait for nobody.
    scalers: FxHashMap<DataType, Function>,
    exchange: Exchanger,
    /// How all that wait are laid out.
    footprint: Footprint,
    /// Whether the interpreters can wait for the kernel before them, and the driver lets them.
    can_start_early: bool,
    /// Blocks of every kernel that fit on a multiprocessor at once, at the largest size.
    blocks_each: u32,
}

/// A kernel that waits for peers.
pub(super) struct Launchable {
    pub function: Function,
    /// The dynamic shared memory of its thread blocks.
    pub shared_bytes: u32,
}

impl Launchable {
    /// The kernel `name` of `module`, laid out as `footprint` says.
    pub fn new(
        module: &Module,
        name: &str,
        footprint: Footprint,
    ) -> Result<Self, msccl_gpu::Error> {
        let function = module.function(name)?;
        let shared_bytes = launch::SHARE_BYTES.saturating_sub(function.static_shared_bytes()?);
        function.allow_dynamic_shared(shared_bytes)?;
        function.prefer_shared(footprint.preference_percent)?;
        Ok(Self { function, shared_bytes })
    }

    /// How many of its blocks of `threads` threads fit on a multiprocessor at once.
    pub fn blocks_each(&self, threads: u32) -> Result<u32, msccl_gpu::Error> {
        self.function.blocks_per_multiprocessor(threads, self.shared_bytes as usize)
    }
}

/// The kernel of point-to-point exchanges.
pub(super) struct Exchanger {
    pub kernel: Launchable,
    /// The dynamic shared memory of thread blocks with a stage for bulk copies, if they may have one.
    staged_bytes: Option<u32>,
}

impl Exchanger {
    fn load(context: &Context, footprint: Footprint) -> Result<Self, Error> {
        let module = load_module(context, kernels::Module::Exchange)?;
        let kernel = Launchable::new(&module, &kernels::Module::Exchange.kernel(""), footprint)?;
        let function = &kernel.function;
        let bytes = launch::SHARE_BYTES_STAGED.saturating_sub(function.static_shared_bytes()?);
        if !footprint.has_stage || bytes < launch::STAGE_BYTES {
            return Ok(Self { kernel, staged_bytes: None });
        }
        function.allow_dynamic_shared(bytes)?;
        let threads = launch::THREADS_MAX_EXCHANGE;
        let each = function.blocks_per_multiprocessor(threads, bytes as usize)?;
        let staged_bytes = (each >= launch::BLOCKS_EACH).then_some(bytes);
        Ok(Self { kernel, staged_bytes })
    }

    /// The dynamic shared memory of its thread blocks, if bulk copies are to carry transfers where there are any. By how
    /// much that is the kernel tells whether they do.
    pub fn shared_bytes(&self, is_bulky: bool) -> u32 {
        self.staged_bytes.filter(|_| is_bulky).unwrap_or(self.kernel.shared_bytes)
    }
}

/// What is loaded.
static LOADED: PerDevice<Kernels> = PerDevice::new();

impl Kernels {
    /// The kernels of `context`'s device.
    pub fn of(context: &Context) -> Result<Arc<Self>, Error> {
        LOADED.of(context, || Self::load(context))
    }

    fn load(context: &Context) -> Result<Self, Error> {
        let footprint = Footprint::of(context.device())?;
        let load = |module| load_interpreters(context, module, footprint);
        let mut interpreters = FxHashMap::default();
        for protocol in Protocol::ALL {
            let kernels = load(module(protocol))?.into_iter();
            interpreters.extend(kernels.map(|(of, kernel)| ((protocol, of), kernel)));
        }
        let mut small = FxHashMap::default();
        for (protocol, kind, module) in SMALL_MODULES {
            let kernels = load(module)?.into_iter();
            small.extend(kernels.map(|(of, kernel)| ((protocol, kind, of), kernel)));
        }
        let mut kernels = Self {
            interpreters,
            direct: load(kernels::Module::Direct)?,
            crews: load(kernels::Module::Crew)?,
            small,
            scalers: load_scalers(context)?,
            exchange: Exchanger::load(context, footprint)?,
            footprint,
            can_start_early: can_start_early(context)?,
            blocks_each: 0,
        };
        kernels.blocks_each = kernels.least_blocks_each()?;
        Ok(kernels)
    }

    /// How many blocks of any one of the kernels that wait for others fit on a multiprocessor at once.
    fn least_blocks_each(&self) -> Result<u32, Error> {
        let simple = launch::threads_max(Protocol::Simple);
        let staged = self.interpreters.iter();
        let staged = staged.map(|((of, _), kernel)| (kernel, launch::threads_max(*of)));
        let direct = self.direct.values().chain(self.crews.values());
        let direct = direct.map(|kernel| (kernel, simple));
        let small = self.small.iter();
        let small = small.map(|((of, ..), kernel)| (kernel, launch::threads_max(*of)));
        let exchange = (&self.exchange.kernel, launch::THREADS_MAX_EXCHANGE);
        staged
            .chain(direct)
            .chain(small)
            .chain([exchange])
            .map(|(kernel, threads)| kernel.blocks_each(threads))
            .try_fold(launch::BLOCKS_EACH, |least, each| Ok(least.min(each?)))
    }

    /// How every kernel that waits is laid out.
    pub fn footprint(&self) -> Footprint {
        self.footprint
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
    ) -> Result<&Launchable, Error> {
        let kernel = match links {
            Links::Staged => self.interpreters.get(&(protocol, of)),
            Links::Direct => self.direct.get(&of),
        };
        kernel.ok_or_else(|| Error::internal(format!("no kernel for {protocol} and {of}")))
    }

    /// The interpreter for a type whose thread blocks work as crews, under protocol Simple over staged links.
    pub fn crew(&self, of: DataType) -> Result<&Launchable, Error> {
        self.crews.get(&of).ok_or_else(|| Error::internal(format!("no kernel of crews for {of}")))
    }

    /// The kernel for small calls over one protocol, of a kind and type.
    pub fn small(
        &self,
        protocol: Protocol,
        kind: Small,
        of: DataType,
    ) -> Result<&Launchable, Error> {
        let kernel = self.small.get(&(protocol, kind, of));
        kernel.ok_or_else(|| {
            Error::internal(format!("no kernel for small calls of {protocol} and {of}"))
        })
    }

    /// The kernel that scales elements of a type.
    pub fn scaler(&self, of: DataType) -> Result<&Function, Error> {
        self.scalers.get(&of).ok_or_else(|| Error::internal(format!("no kernel that scales {of}")))
    }

    /// The kernel of point-to-point exchanges.
    pub fn exchange(&self) -> &Exchanger {
        &self.exchange
    }

    /// How many blocks of every kernel, as large as they come, fit on a multiprocessor at once: no more than
    /// [`launch::BLOCKS_EACH`].
    pub fn blocks_each(&self) -> u32 {
        self.blocks_each
    }
}

/// The modules of kernels for small calls.
const SMALL_MODULES: [(Protocol, Small, kernels::Module); 4] = [
    (Protocol::Ll, Small::Even, kernels::Module::LlSmall),
    (Protocol::Ll, Small::Odd, kernels::Module::LlOdd),
    (Protocol::Ll128, Small::Even, kernels::Module::Ll128Small),
    (Protocol::Ll128, Small::Odd, kernels::Module::Ll128Odd),
];

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
    let records = device.driver().version() >= DriverVersion { major: 12, minor: 3 };
    Ok(records && device.compute_capability()?.major >= 9)
}

/// The interpreters of `module`.
fn load_interpreters(
    context: &Context,
    module: kernels::Module,
    footprint: Footprint,
) -> Result<FxHashMap<DataType, Launchable>, Error> {
    let loaded = load_module(context, module)?;
    let kernel =
        |of: DataType| Ok((of, Launchable::new(&loaded, &module.kernel(of.name()), footprint)?));
    DataType::ALL.into_iter().map(kernel).collect()
}

/// The kernels that scale.
fn load_scalers(context: &Context) -> Result<FxHashMap<DataType, Function>, Error> {
    let module = load_module(context, kernels::Module::Scale)?;
    let name = |of: DataType| kernels::Module::Scale.kernel(of.name());
    DataType::ALL.into_iter().map(|of| Ok((of, module.function(&name(of))?))).collect()
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
