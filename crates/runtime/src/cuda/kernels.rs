//! The kernels of a device, loaded. An unsafe boundary.
//!
//! Loading waits for kernels that run, one of which may be waiting for another rank of this
//! process; so everything is loaded at once, when the first communicator on a device is made, and
//! kept for those to come.

#![expect(unsafe_code, reason = "states the parameters of the kernels that it loads")]

use std::sync::Arc;
use std::thread;

use msccl_collective::{DataType, Protocol};
use msccl_gpu::{Context, Device, DriverVersion, Function, Image, Module};
use msccl_kernels as kernels;
use msccl_kernels::recipe::Architecture;
use msccl_plan::{LowLatency, combine, launch};
use msccl_select::{COMBINING_THREADS, Decision, Links, Offers};
use rustc_hash::FxHashMap;

use super::carve_out::CarveOut;
use super::code::{Code, Unpacking};
use super::per_device::PerDevice;
use crate::error::Error;

/// Every kernel, ready to be launched.
pub(super) struct Kernels {
    /// Those of collectives: of [`COLLECTIVES`], for every type that they have.
    collectives: Collectives,
    /// They wait for nobody.
    scalers: ForEachType,
    /// These neither.
    combiners: FxHashMap<DataType, Launchable>,
    /// That of point-to-point exchanges.
    exchange: Launchable,
    /// How all that wait are laid out.
    carve_out: CarveOut,
    /// Whether the interpreters can wait for the kernel before them, and the driver lets them.
    can_start_early: bool,
    /// Blocks of every kernel that fit on a multiprocessor at once, at the largest size.
    blocks_each: u32,
}

/// A kernel for every type.
type ForEachType = FxHashMap<DataType, Function>;

type Collectives = FxHashMap<(kernels::Module, DataType), Launchable>;

/// A kernel, and what its launches need.
pub(super) struct Launchable {
    pub function: Function,
    /// The dynamic shared memory of its thread blocks.
    pub shared_bytes: u32,
    /// The same of thread blocks with a buffer for bulk copies, if they may have one.
    staged_bytes: Option<u32>,
}

impl Launchable {
    /// The kernel `name` of `module`, laid out as `carve_out` says.
    pub fn new(module: &Module, name: &str, carve_out: CarveOut) -> Result<Self, msccl_gpu::Error> {
        let function = module.function(name)?;
        let shared_bytes = launch::SHARE_BYTES.saturating_sub(function.static_shared_bytes()?);
        function.allow_dynamic_shared(shared_bytes)?;
        function.prefer_shared(carve_out.preference_percent)?;
        Ok(Self { function, shared_bytes, staged_bytes: None })
    }

    /// The kernel of exchanges in `module`, laid out as `carve_out` says.
    pub fn exchanging(module: &Module, carve_out: CarveOut) -> Result<Self, msccl_gpu::Error> {
        let kernel = Self::new(module, &kernels::Module::Exchange.kernel(""), carve_out)?;
        let function = &kernel.function;
        let bytes = launch::SHARE_BYTES_BULK.saturating_sub(function.static_shared_bytes()?);
        if !carve_out.has_stage || bytes < launch::BULK_BUFFER_BYTES {
            return Ok(kernel);
        }
        function.allow_dynamic_shared(bytes)?;
        let threads = launch::THREADS_MAX_EXCHANGE;
        let each = function.blocks_per_multiprocessor(threads, bytes as usize)?;
        let staged_bytes = (each >= launch::BLOCKS_EACH).then_some(bytes);
        Ok(Self { staged_bytes, ..kernel })
    }

    /// The dynamic shared memory of its thread blocks, if bulk copies are to carry transfers where
    /// there are any. By its size the kernel knows whether they do.
    pub fn exchange_bytes(&self, is_bulky: bool) -> u32 {
        self.staged_bytes.filter(|_| is_bulky).unwrap_or(self.shared_bytes)
    }

    /// A `function` that combines, on `device`: its threads have rings where there is room.
    fn combining(function: Function, device: Device) -> Result<Self, Error> {
        let ring_bytes = COMBINING_THREADS * combine::RING_BYTES;
        let all_bytes = device.shared_bytes_per_multiprocessor()?;
        let needed = ring_bytes + device.reserved_shared_bytes_per_block()?;
        let has_room = device.compute_capability()?.major >= 8 && needed <= all_bytes;
        let shared_bytes = if has_room { ring_bytes } else { 0 };
        function.allow_dynamic_shared(shared_bytes)?;
        Ok(Self { function, shared_bytes, staged_bytes: None })
    }

    /// How many of its blocks of `threads` threads fit on a multiprocessor at once.
    pub fn blocks_each(&self, threads: u32) -> Result<u32, msccl_gpu::Error> {
        self.function.blocks_per_multiprocessor(threads, self.shared_bytes as usize)
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
        let capability = context.device().compute_capability()?;
        thread::scope(|scope| {
            let code = Unpacking::begin(scope, in_order(), capability);
            Self::load_with(&mut ModuleLoader { context, code })
        })
    }

    /// Loads modules [in order](in_order).
    fn load_with(loader: &mut ModuleLoader<'_>) -> Result<Self, Error> {
        let context = loader.context;
        let carve_out = CarveOut::of(context.device())?;
        let mut kernels = Self {
            scalers: load_for_each_type(loader, kernels::Module::Scale)?,
            combiners: load_combiners(loader)?,
            exchange: load_exchange(loader, carve_out)?,
            collectives: load_collectives(loader, carve_out)?,
            carve_out,
            can_start_early: can_start_early(context)?,
            blocks_each: 0,
        };
        kernels.blocks_each = kernels.least_blocks_each()?;
        Ok(kernels)
    }

    /// How many blocks of any one of the kernels that wait for others fit on a multiprocessor at
    /// once.
    fn least_blocks_each(&self) -> Result<u32, Error> {
        let exchange = self.exchange.blocks_each(launch::THREADS_MAX_EXCHANGE)?;
        let mut least = exchange.min(launch::BLOCKS_EACH);
        for (module, protocol) in COLLECTIVES {
            for &of in module.data_types() {
                let kernel = self.collective(module, of)?;
                least = least.min(kernel.blocks_each(launch::threads_max(protocol))?);
            }
        }
        Ok(least)
    }

    /// How every kernel that waits is laid out.
    pub fn carve_out(&self) -> CarveOut {
        self.carve_out
    }

    /// Whether interpreters may begin while the kernel before them ends.
    pub fn can_start_early(&self) -> bool {
        self.can_start_early
    }

    /// The kernel of a module of [`COLLECTIVES`] for a type.
    pub fn collective(&self, module: kernels::Module, of: DataType) -> Result<&Launchable, Error> {
        let kernel = self.collectives.get(&(module, of));
        kernel.ok_or_else(|| Error::internal(format!("no kernel {}", module.kernel(of.name()))))
    }

    /// The kernel that scales elements of a type.
    pub fn scaler(&self, of: DataType) -> Result<&Function, Error> {
        self.scalers.get(&of).ok_or_else(|| Error::internal(format!("no kernel that scales {of}")))
    }

    /// The kernel that combines contributions of a type.
    pub fn combiner(&self, of: DataType) -> Result<&Launchable, Error> {
        let kernel = self.combiners.get(&of);
        kernel.ok_or_else(|| Error::internal(format!("no kernel that combines {of}")))
    }

    /// The kernel of point-to-point exchanges.
    pub fn exchange(&self) -> &Launchable {
        &self.exchange
    }

    /// How many blocks of every kernel, as large as they come, fit on a multiprocessor at once: no
    /// more than [`launch::BLOCKS_EACH`].
    pub fn blocks_each(&self) -> u32 {
        self.blocks_each
    }
}

/// The module of the interpreters for calls that are served so, whose operands are aligned, or
/// `is_unaligned`; [`Links::Direct`] takes protocol Simple.
pub(super) fn interpreter(decision: &Decision, is_unaligned: bool) -> kernels::Module {
    let Decision { prepared, protocol, links, .. } = decision;
    let pushes_only = prepared.offers == Offers::Nothing && !prepared.computes;
    match (protocol, links, is_unaligned) {
        (Protocol::Simple, Links::Direct, false) if pushes_only => kernels::Module::PushOnly,
        (Protocol::Simple, Links::Staged | Links::CopyEngine, false) => kernels::Module::Simple,
        (Protocol::Simple, Links::Staged | Links::CopyEngine, true) => {
            kernels::Module::SimpleUnaligned
        }
        (Protocol::Simple, Links::Direct, false) => kernels::Module::Direct,
        (Protocol::Simple, Links::Direct, true) => kernels::Module::DirectUnaligned,
        (Protocol::Ll, _, _) => kernels::Module::Ll,
        (Protocol::Ll128, _, _) => kernels::Module::Ll128,
    }
}

/// The module of the interpreters with warp-specialised thread blocks, under protocol Simple over
/// staged links.
pub(super) fn warp_specialised(is_unaligned: bool) -> kernels::Module {
    if is_unaligned {
        kernels::Module::WarpSpecialisedUnaligned
    } else {
        kernels::Module::WarpSpecialised
    }
}

/// The module of the low-latency kernels over packets of one protocol, of a kind.
pub(super) fn low_latency(protocol: Protocol, kind: LowLatency) -> Result<kernels::Module, Error> {
    match (protocol, kind) {
        (Protocol::Simple, _) => Err(Error::internal("protocol Simple has no low-latency kernels")),
        (Protocol::Ll, LowLatency::Aligned) => Ok(kernels::Module::LlLowLatency),
        (Protocol::Ll, LowLatency::Unaligned) => Ok(kernels::Module::LlLowLatencyUnaligned),
        (Protocol::Ll128, LowLatency::Aligned) => Ok(kernels::Module::Ll128LowLatency),
        (Protocol::Ll128, LowLatency::Unaligned) => Ok(kernels::Module::Ll128LowLatencyUnaligned),
    }
}

/// The modules of kernels that run collectives, and their protocols. Larger ones come later: they
/// are unpacked while the others are loaded.
const COLLECTIVES: [(kernels::Module, Protocol); 13] = [
    (kernels::Module::LlLowLatency, Protocol::Ll),
    (kernels::Module::LlLowLatencyUnaligned, Protocol::Ll),
    (kernels::Module::Ll128LowLatency, Protocol::Ll128),
    (kernels::Module::Ll128LowLatencyUnaligned, Protocol::Ll128),
    (kernels::Module::Simple, Protocol::Simple),
    (kernels::Module::WarpSpecialised, Protocol::Simple),
    (kernels::Module::Direct, Protocol::Simple),
    (kernels::Module::PushOnly, Protocol::Simple),
    (kernels::Module::SimpleUnaligned, Protocol::Simple),
    (kernels::Module::WarpSpecialisedUnaligned, Protocol::Simple),
    (kernels::Module::DirectUnaligned, Protocol::Simple),
    (kernels::Module::Ll, Protocol::Ll),
    (kernels::Module::Ll128, Protocol::Ll128),
];

/// All modules, in the order in which they are loaded.
fn in_order() -> impl Iterator<Item = kernels::Module> {
    let first = [kernels::Module::Scale, kernels::Module::Combine, kernels::Module::Exchange];
    first.into_iter().chain(COLLECTIVES.map(|(module, _)| module))
}

/// The image of a kernel that was compiled at run time.
pub(super) fn compiled_image(code: &[u8]) -> Image<'_> {
    // SAFETY: the code is as a compiler wrote it: it comes from one, or from a file whose checksum
    // says so.
    unsafe { Image::binary(code) }
}

/// Kernels wait for the one before them from compute capability 9.0 on; that such launches can be
/// captured is new in CUDA 12.3.
fn can_start_early(context: &Context) -> Result<bool, Error> {
    let device = context.device();
    let records = device.driver().version() >= DriverVersion { major: 12, minor: 3 };
    Ok(records && device.compute_capability()?.major >= 9)
}

fn load_exchange(loader: &mut ModuleLoader<'_>, carve_out: CarveOut) -> Result<Launchable, Error> {
    let module = loader.load(kernels::Module::Exchange)?;
    Ok(Launchable::exchanging(&module, carve_out)?)
}

/// The kernels of all [`COLLECTIVES`].
fn load_collectives(
    loader: &mut ModuleLoader<'_>,
    carve_out: CarveOut,
) -> Result<Collectives, Error> {
    let mut all = Collectives::default();
    for (module, _) in COLLECTIVES {
        let loaded = loader.load(module)?;
        for &of in module.data_types() {
            let kernel = Launchable::new(&loaded, &module.kernel(of.name()), carve_out)?;
            all.insert((module, of), kernel);
        }
    }
    Ok(all)
}

/// The kernels of a module that wait for nobody.
fn load_for_each_type(
    loader: &mut ModuleLoader<'_>,
    module: kernels::Module,
) -> Result<ForEachType, Error> {
    let loaded = loader.load(module)?;
    let name = |of: DataType| module.kernel(of.name());
    DataType::ALL.into_iter().map(|of| Ok((of, loaded.function(&name(of))?))).collect()
}

fn load_combiners(loader: &mut ModuleLoader<'_>) -> Result<FxHashMap<DataType, Launchable>, Error> {
    let device = loader.context.device();
    let functions = load_for_each_type(loader, kernels::Module::Combine)?.into_iter();
    functions.map(|(of, function)| Ok((of, Launchable::combining(function, device)?))).collect()
}

/// What loads modules on one device.
struct ModuleLoader<'a> {
    context: &'a Context,
    code: Unpacking<'a>,
}

impl ModuleLoader<'_> {
    fn load(&mut self, module: kernels::Module) -> Result<Module, Error> {
        let Code { architecture, bytes } = self.code.take(module)?;
        let loaded = match architecture {
            Architecture::Portable(_) => {
                let text = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
                let text = std::str::from_utf8(text)
                    .map_err(|error| Error::internal(error.to_string()))?;
                Module::load(self.context, Image::ptx(text))
            }
            Architecture::Machine(_) => {
                // SAFETY: the image is a file as the compiler wrote it, and unpacked whole.
                Module::load(self.context, unsafe { Image::binary(&bytes) })
            }
        };
        Ok(loaded?)
    }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashSet;

    use super::*;

    #[test]
    fn every_module_is_loaded_once() {
        assert_eq!(in_order().count(), kernels::Module::ALL.len());
        let modules: FxHashSet<_> = in_order().collect();
        assert_eq!(modules.len(), kernels::Module::ALL.len());
    }
}
