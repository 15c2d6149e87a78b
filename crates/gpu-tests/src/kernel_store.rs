//! Specialised kernels for worlds: compiled once in the life of the program.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use msccl_runtime::{
    KernelCache, PlaceOfRank, Specialisation, SpecialiseMode, SpecialisedKernel,
    compile_specialised,
};

use crate::Trouble;
use crate::args::Args;
use crate::machine::Machine;
use crate::tally::Tally;

/// Files in memory.
#[derive(Default)]
struct KernelStore(Mutex<HashMap<String, Vec<u8>>>);

impl KernelCache for KernelStore {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }
}

/// What the command line says, and what all worlds share.
struct SetUp {
    kernel_store: Arc<KernelStore>,
    compiler: Option<String>,
    for_all: bool,
}

static SET_UP: OnceLock<SetUp> = OnceLock::new();

/// Takes note of the command line.
pub fn set_up(args: &Args) {
    let compiler = args.nvrtc.clone().or_else(|| std::env::var("MSCCL_NVRTC").ok());
    SET_UP.get_or_init(|| SetUp {
        kernel_store: Arc::default(),
        compiler,
        for_all: args.specialised,
    });
}

/// Whether all worlds have specialised kernels.
pub fn is_for_all() -> bool {
    SET_UP.get().is_some_and(|set_up| set_up.for_all)
}

/// What worlds have unless a section says otherwise.
pub fn of_all() -> Specialisation {
    match is_for_all() {
        true => compiled(),
        false => Specialisation { mode: SpecialiseMode::Never, ..Specialisation::default() },
    }
}

/// Specialised kernels, compiled where they are missing.
pub fn compiled() -> Specialisation {
    let cache = SET_UP.get().map(|set_up| set_up.kernel_store.clone() as Arc<dyn KernelCache>);
    Specialisation {
        mode: SpecialiseMode::Compiled,
        cache,
        compiler: compiler().map(str::to_owned),
    }
}

/// Specialised kernels that have been compiled.
pub fn kept() -> Specialisation {
    Specialisation { mode: SpecialiseMode::Cached, ..compiled() }
}

/// Compiles `kernels` for `machine`, some at a time, so that something happens.
pub fn fill(machine: &Machine, kernels: &[SpecialisedKernel], tally: &mut Tally) {
    let PlaceOfRank::Gpu(context) = machine.place(0) else { return };
    let compile = |some: &[SpecialisedKernel]| -> Result<(), Trouble> {
        let capability = context.device().compute_capability()?;
        let capability = 10 * capability.major + capability.minor;
        let made = compile_specialised(some, capability, &compiled(), &|_| (), &|_, _| ());
        let failed = made.into_iter().find_map(|made| made.code.err());
        failed.map_or(Ok(()), |why| Err(why.into()))
    };
    for some in kernels.chunks(32) {
        tally.need(|| "compiling specialised kernels".to_owned(), || compile(some));
    }
}

/// The run-time compiler, if somebody named it.
pub fn compiler() -> Option<&'static str> {
    SET_UP.get()?.compiler.as_deref()
}
