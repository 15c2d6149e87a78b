//! The specialised kernels of a communicator, loaded.
//!
//! Loading waits for kernels that run, as `kernels` says; so what a communicator will use is loaded
//! while its ranks join, never by a call, and ranks go on together afterwards. Where a process has
//! several ranks, a kernel of another communicator may wait for one whose launch waits for the
//! driver; there nothing is loaded while other communicators live
//! ([`DeviceUsers`](super::device_users::DeviceUsers)). What was loaded stays, for the
//! communicators to come: [`LOADED_MAX`] at most.
//!
//! A specialised kernel serves only if as many of its threads run at once as of the interpreters',
//! by which selection has reckoned.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use msccl_collective::{DataType, Protocol};
use msccl_gpu::{Context, Module};
use msccl_kernels::recipe::Architecture;
use msccl_kernels::specialised::{Kernel, Key};
use msccl_plan::launch;
use msccl_registry::Fingerprint;
use msccl_select::{PrecompileEntry, SpecialiseMode};
use rustc_hash::{FxHashMap, FxHashSet};

use super::kernels::{Kernels, Launchable, compiled_image};
use crate::error::Error;
use crate::event::Event;
use crate::settings::Settings;
use crate::specialised::{Made, Origin, load, provide};

/// The most specialised kernels that are loaded, on all GPUs together: each takes some ten to some
/// hundred KiB.
const LOADED_MAX: usize = 4096;

/// The most memory, in bytes, that a thread of a specialised kernel may have for what its registers
/// do not hold: with more they were slower than interpreters on four H200s. Two-shot of 1 MiB under
/// Simple, 540 bytes: 18.0 µs and 14.3; one-block of 256 KiB, 240 bytes: 14.0 and 10.8; two-shot of
/// 256 KiB under LL, 300 bytes: 7.0 and 10.6.
fn local_bytes_max(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Simple => 192,
        Protocol::Ll | Protocol::Ll128 => 320,
    }
}

/// A specialised kernel, ready to be launched.
pub(super) struct LaunchableKernel {
    pub kernel: Launchable,
    pub protocol: Protocol,
    pub data_type: DataType,
}

/// Those of a communicator, by algorithm.
pub(super) type SpecialisedKernels = FxHashMap<Fingerprint, Arc<[Arc<LaunchableKernel>]>>;

/// What is loaded, by device and key; `None` is what cannot serve.
type LoadedKernels = FxHashMap<(u32, Key), Option<Arc<LaunchableKernel>>>;

static LOADED: Mutex<Option<LoadedKernels>> = Mutex::new(None);

fn loaded<T>(body: impl FnOnce(&mut LoadedKernels) -> T) -> T {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    body(loaded.get_or_insert_default())
}

/// Where specialised kernels are loaded, and what must be known of it.
pub(super) struct SpecialisedLoader<'a> {
    context: &'a Context,
    kernels: &'a Kernels,
    settings: &'a Settings,
    architecture: Architecture,
    started: Instant,
}

/// What was loaded for a communicator.
#[derive(Clone, Copy, Default)]
struct Count {
    kernels: usize,
    compiled: usize,
    bytes: usize,
    /// Needed ones that cannot serve, whoever loaded them.
    unfit: usize,
}

impl<'a> SpecialisedLoader<'a> {
    /// For the GPU of `context`, whose interpreters are among `kernels`.
    pub fn new(
        context: &'a Context,
        kernels: &'a Kernels,
        settings: &'a Settings,
    ) -> Result<Self, Error> {
        let capability = context.device().compute_capability()?;
        let architecture = Architecture::Machine(10 * capability.major + capability.minor);
        Ok(Self { context, kernels, settings, architecture, started: Instant::now() })
    }

    /// Those of `entries` that can be had, for a rank of `ranks`; new ones only if that `may_load`.
    pub fn specialised(
        &self,
        entries: &[PrecompileEntry],
        ranks: u32,
        may_load: bool,
    ) -> SpecialisedKernels {
        let of = |PrecompileEntry { prepared, protocol, data_type }: &PrecompileEntry| {
            let kernel = Kernel::of(&prepared.plan, ranks, *protocol, *data_type);
            (kernel.key(self.architecture), kernel)
        };
        let needed: Vec<_> = entries.iter().map(of).collect();
        let mut new = if may_load { self.load_new(&needed) } else { Count::default() };
        let mut found: FxHashMap<Fingerprint, Vec<Arc<LaunchableKernel>>> = FxHashMap::default();
        for (of, (key, _)) in entries.iter().zip(&needed) {
            let specialised = loaded(|all| all.get(&self.name(key)).cloned());
            new.unfit += usize::from(matches!(specialised, Some(None)));
            found.entry(of.prepared.fingerprint).or_default().extend(specialised.flatten());
        }
        let serving = found.values().map(Vec::len).sum();
        self.log_count(serving, needed.len(), new, may_load);
        found.into_iter().map(|(of, all)| (of, all.into())).collect()
    }

    /// What a kernel is called among all that are loaded.
    fn name(&self, key: &Key) -> (u32, Key) {
        (self.context.device().ordinal(), *key)
    }

    /// Loads those of `needed` that nobody has loaded yet.
    fn load_new(&self, needed: &[(Key, Kernel)]) -> Count {
        // Algorithms that differ may be the same for a rank.
        let mut seen = FxHashSet::default();
        let is_new = |(key, _): &&(Key, Kernel)| {
            seen.insert(*key) && loaded(|all| !all.contains_key(&self.name(key)))
        };
        let new: Vec<_> = needed.iter().filter(is_new).collect();
        let kernels: Vec<_> = new.iter().map(|(_, kernel)| kernel).collect();
        let (specialised, log_event) =
            (&self.settings.specialised, |event| self.settings.log.event(&event));
        let load = || load(specialised);
        let made = provide(&kernels, self.architecture, specialised, &load, &log_event, &|_, _| ());
        let mut count = Count::default();
        for ((key, kernel), Made { code, origin }) in new.into_iter().zip(&made) {
            let Ok(code) = code else { continue };
            count.kernels += 1;
            count.compiled += usize::from(matches!(origin, Origin::Compiler { .. }));
            count.bytes += code.len();
            self.take_up(key, kernel, code);
        }
        count
    }

    /// Loads `code`, if there is room, and remembers it. What cannot serve is logged.
    fn take_up(&self, key: &Key, kernel: &Kernel, code: &[u8]) {
        let specialised = match loaded(|all| all.len() < LOADED_MAX) {
            true => self.ready(kernel, code),
            false => Err(format!("{LOADED_MAX} are loaded already")),
        };
        let complain = |why: String| {
            let Kernel { protocol, data_type, .. } = kernel;
            let text = format!(
                "a specialised kernel over {protocol} of {data_type} does not serve: {why}"
            );
            self.settings.log.event(&Event::Unspecialised(text));
        };
        let specialised = specialised.map_err(complain).ok();
        loaded(|all| all.insert(self.name(key), specialised));
    }

    /// The kernel of `code`, if as many of its blocks run at once as are reckoned with.
    fn ready(&self, kernel: &Kernel, code: &[u8]) -> Result<Arc<LaunchableKernel>, String> {
        let Kernel { protocol, data_type, .. } = *kernel;
        let load = || {
            let module = Module::load(self.context, compiled_image(code))?;
            let loaded = Launchable::new(&module, &Kernel::name(), self.kernels.carve_out())?;
            let blocks = loaded.blocks_each(launch::threads_max(protocol))?;
            Ok((blocks, loaded.function.attributes()?.local_bytes, loaded))
        };
        let (found, local_bytes, kernel) =
            load().map_err(|error: msccl_gpu::Error| error.to_string())?;
        if local_bytes > local_bytes_max(protocol) {
            return Err(format!(
                "its registers do not suffice, and {local_bytes} bytes of memory make it slow"
            ));
        }
        let reckoned = self.kernels.blocks_each();
        match found >= reckoned {
            true => Ok(Arc::new(LaunchableKernel { kernel, protocol, data_type })),
            false => Err(format!(
                "{found} of its blocks run on a multiprocessor at once, {reckoned} are reckoned \
                 with"
            )),
        }
    }

    /// Logs how many of those that are `needed` serve, and what to do about the others.
    fn log_count(&self, serving: usize, needed: usize, new: Count, may_load: bool) {
        let Count { kernels, compiled, bytes, unfit } = new;
        let specialised = &self.settings.specialised;
        let place = specialised.cache.as_ref().map_or("no cache".to_owned(), |cache| cache.place());
        let remark = match specialised.mode {
            _ if serving == needed => "",
            _ if !may_load => "; a process of several ranks loads none beside other communicators",
            SpecialiseMode::Cached => {
                "; `msccl specialise` or MSCCL_SPECIALISED=2 makes the others"
            }
            SpecialiseMode::Never | SpecialiseMode::Compiled => "",
        };
        let unfit = match unfit {
            0 => String::new(),
            some => format!(", {some} are unfit, as was logged when they were loaded"),
        };
        self.settings.log.event(&Event::Specialised(format!(
            "{serving} of {needed} specialised kernels serve{unfit}; {kernels} were loaded ({} \
             KiB) and {compiled} of them compiled, in {} ms ({place}){remark}",
            bytes >> 10,
            self.started.elapsed().as_millis()
        )));
    }
}
