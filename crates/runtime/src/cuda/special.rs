//! The special kernels of a communicator, loaded.
//!
//! Loading waits for kernels that run, as `kernels` says; so what a communicator will use is loaded while its ranks join,
//! never by a call, and ranks go on together afterwards. Where a process has several ranks, a kernel of another
//! communicator may wait for one whose launch waits for the driver; there nothing is loaded while other communicators
//! live ([`Tenancy`](super::tenancy::Tenancy)). What was loaded stays, for the communicators to come: [`LOADED_MAX`] at
//! most.
//!
//! A special kernel serves only if as many of its threads run at once as of the interpreters', by which selection has
//! reckoned.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use msccl_collective::{DataType, Protocol};
use msccl_gpu::{Context, Function, Module};
use msccl_kernels::recipe::Architecture;
use msccl_kernels::special::{Kernel, Key};
use msccl_plan::launch;
use msccl_registry::Fingerprint;
use rustc_hash::{FxHashMap, FxHashSet};

use super::kernels::{Kernels, special_image};
use crate::error::Error;
use crate::select::Foreseen;
use crate::settings::{Event, Settings};
use crate::special::{Origin, load, provide};

/// The most special kernels that are loaded, on all GPUs together: each takes some ten to a hundred KiB there.
const LOADED_MAX: usize = 1024;

/// A special kernel, ready to be launched.
pub(super) struct Special {
    pub function: Function,
    pub protocol: Protocol,
    pub data_type: DataType,
}

/// Those of a communicator, by algorithm.
pub(super) type Specials = FxHashMap<Fingerprint, Arc<[Arc<Special>]>>;

/// What is loaded, by device and key; `None` is what cannot serve.
type Loaded = FxHashMap<(u32, Key), Option<Arc<Special>>>;

static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);

fn loaded<T>(body: impl FnOnce(&mut Loaded) -> T) -> T {
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    body(loaded.get_or_insert_default())
}

/// Those of `foreseen` that can be had, for a rank of `ranks` on the GPU of `context`; new ones are loaded only if that
/// `may_load`.
pub(super) fn specials(
    context: &Context,
    kernels: &Kernels,
    foreseen: &[Foreseen],
    ranks: u32,
    may_load: bool,
    settings: &Settings,
) -> Result<Specials, Error> {
    let started = Instant::now();
    let capability = context.device().compute_capability()?;
    let architecture = Architecture::Machine(10 * capability.major + capability.minor);
    let device = context.device().ordinal();
    let wanted = foreseen.iter().map(|Foreseen { prepared, protocol, data_type }| {
        let kernel = Kernel::of(&prepared.plan, ranks, *protocol, *data_type);
        (device, kernel.key(architecture), kernel)
    });
    let wanted: Vec<_> = wanted.collect();
    // Algorithms that differ may be the same for a rank.
    let mut seen = FxHashSet::default();
    let is_new = |(device, key, _): &&(u32, Key, Kernel)| {
        seen.insert(*key) && loaded(|all| !all.contains_key(&(*device, *key)))
    };
    let new: Vec<_> = wanted.iter().filter(is_new).filter(|_| may_load).collect();
    let hear = |event| settings.log.event(&event);
    let special = &settings.special;
    let of: Vec<_> = new.iter().map(|(.., kernel)| kernel).collect();
    let made = provide(&of, architecture, special, &|| load(special), &hear, &|_, _| ());
    let (mut bytes, mut compiled) = (0, 0);
    for ((_, key, kernel), made) in new.iter().zip(&made) {
        let Ok(code) = &made.code else { continue };
        bytes += code.len();
        compiled += usize::from(matches!(made.origin, Origin::Compiler { .. }));
        take_up(context, kernels, (device, *key), kernel, code, settings);
    }
    let mut found: FxHashMap<Fingerprint, Vec<Arc<Special>>> = FxHashMap::default();
    for (of, (device, key, _)) in foreseen.iter().zip(&wanted) {
        let special = loaded(|all| all.get(&(*device, *key)).cloned().flatten());
        found.entry(of.prepared.fingerprint).or_default().extend(special);
    }
    let number: usize = found.values().map(Vec::len).sum();
    let place = special.cache.as_ref().map_or("no cache".to_owned(), |cache| cache.place());
    let remark = if may_load {
        ""
    } else {
        "; no more are loaded beside other communicators in a process of several ranks"
    };
    settings.log.event(&Event::Specialised(format!(
        "{number} of {} special kernels serve, {compiled} new, {} KiB loaded, {} ms ({place}){remark}",
        wanted.len(),
        bytes >> 10,
        started.elapsed().as_millis()
    )));
    Ok(found.into_iter().map(|(of, all)| (of, all.into())).collect())
}

/// Loads `code`, if there is room, and remembers it. What cannot serve is told.
fn take_up(
    context: &Context,
    kernels: &Kernels,
    name: (u32, Key),
    kernel: &Kernel,
    code: &[u8],
    settings: &Settings,
) {
    let special = match loaded(|all| all.len() < LOADED_MAX) {
        true => ready(context, kernels, kernel, code),
        false => Err(format!("{LOADED_MAX} are loaded already")),
    };
    let complain = |why: String| {
        let Kernel { protocol, data_type, .. } = kernel;
        let text = format!("a special kernel over {protocol} of {data_type} does not serve: {why}");
        settings.log.event(&Event::Unspecialised(text));
    };
    let special = special.map_err(complain).ok();
    loaded(|all| all.insert(name, special));
}

/// The kernel of `code`, if it runs with as many threads at once as the interpreters.
fn ready(
    context: &Context,
    kernels: &Kernels,
    kernel: &Kernel,
    code: &[u8],
) -> Result<Arc<Special>, String> {
    let Kernel { protocol, data_type, .. } = *kernel;
    let load = || {
        let function = Module::load(context, special_image(code))?.function(&Kernel::name())?;
        let threads = launch::threads_max(protocol);
        Ok((threads * function.co_resident_blocks(threads, 0)?, function))
    };
    let (found, function) = load().map_err(|error: msccl_gpu::Error| error.to_string())?;
    let position = Protocol::ALL.iter().position(|of| *of == protocol);
    let reckoned = position.map_or(0, |position| kernels.resident_threads()[position]);
    match found >= reckoned {
        true => Ok(Arc::new(Special { function, protocol, data_type })),
        false => Err(format!("{found} of its threads run at once, {reckoned} are reckoned with")),
    }
}
