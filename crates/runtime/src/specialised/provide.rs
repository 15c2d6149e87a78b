//! From what there should be to machine code: out of the cache, or compiled.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use msccl_kernels::recipe::Architecture;
use msccl_kernels::specialised::{Kernel, seal, unseal};
use msccl_select::{Specialisation, SpecialiseMode};

use super::file_name;
use crate::event::Event;

/// The most kernels that are compiled at the same time.
const THREADS_MAX: usize = 16;

/// What makes machine code of a kernel. Its functions may be called from several threads at once.
pub(crate) trait Compiler: Sync {
    /// What it is, for people.
    fn name(&self) -> String;

    /// The machine code.
    fn compile(&self, kernel: &Kernel, architecture: Architecture) -> Result<Vec<u8>, String>;
}

/// A kernel's machine code, or why there is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// The code.
    pub code: Result<Vec<u8>, String>,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where machine code comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The cache holds it.
    Cache,
    /// It was compiled, or was to be.
    Compiler {
        /// How long that took.
        took: Duration,
    },
    /// Nobody asked for a compiler.
    Nowhere,
}

/// The machine code of `kernels` for `architecture`, in their order. `load` gives the compiler, if
/// there is need of one; `log_event` gets what a person may want to know, and `each` every
/// kernel that is had or was to be compiled, with its place, when it is done.
pub(crate) fn provide(
    kernels: &[&Kernel],
    architecture: Architecture,
    specialised: &Specialisation,
    load: &dyn Fn() -> Result<Box<dyn Compiler>, String>,
    log_event: &(dyn Fn(Event) + Sync),
    each: &(dyn Fn(usize, &Made) + Sync),
) -> Vec<Made> {
    let mut made: Vec<_> =
        kernels.iter().map(|kernel| cached(kernel, architecture, specialised, log_event)).collect();
    let (had, missing): (Vec<_>, Vec<_>) =
        (0..made.len()).partition(|place| made[*place].code.is_ok());
    had.into_iter().for_each(|place| each(place, &made[place]));
    if specialised.mode != SpecialiseMode::Compiled || missing.is_empty() {
        return made;
    }
    let compiler = load().map_err(|why| {
        log_event(Event::Unspecialised(format!(
            "specialised kernels cannot be compiled, so interpreters serve: no NVRTC: {why}; \
             MSCCL_NVRTC names its library"
        )));
    });
    let Ok(compiler) = compiler else { return made };
    let complained = AtomicBool::new(false);
    let context =
        CompileContext { compiler: &*compiler, architecture, specialised, log_event, complained };
    let some: Vec<_> = missing.iter().map(|place| kernels[*place]).collect();
    let compiled = context.compile_all(&some, &|at, of| each(missing[at], of));
    for (place, of) in missing.into_iter().zip(compiled) {
        made[place] = of;
    }
    made
}

/// What the cache holds of `kernel`. What is there and cannot be used is logged.
fn cached(
    kernel: &Kernel,
    architecture: Architecture,
    specialised: &Specialisation,
    log_event: &(dyn Fn(Event) + Sync),
) -> Made {
    let nowhere = |why: &str| Made { code: Err(why.to_owned()), origin: Origin::Nowhere };
    let Some(cache) = &specialised.cache else { return nowhere("there is no cache of kernels") };
    let name = file_name(kernel, architecture);
    let complain = |why: &str| {
        let text = format!("{}/{name} is not used: {why}", cache.place());
        log_event(Event::Unspecialised(text));
        nowhere(why)
    };
    match cache.read(&name) {
        Ok(None) => nowhere("it is not in the cache"),
        Err(why) => complain(&why),
        Ok(Some(file)) => match unseal(&kernel.key(architecture), &file) {
            Ok(code) => Made { code: Ok(code.to_vec()), origin: Origin::Cache },
            Err(why) => complain(&why.to_string()),
        },
    }
}

/// Where kernels are compiled.
struct CompileContext<'a> {
    compiler: &'a dyn Compiler,
    architecture: Architecture,
    specialised: &'a Specialisation,
    log_event: &'a (dyn Fn(Event) + Sync),
    /// Whether it was logged that the cache takes nothing.
    complained: AtomicBool,
}

impl CompileContext<'_> {
    /// All `kernels`, a few at the same time.
    fn compile_all(&self, kernels: &[&Kernel], each: &(dyn Fn(usize, &Made) + Sync)) -> Vec<Made> {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let threads = processors.min(THREADS_MAX).min(kernels.len());
        let (start, next, done) = (Instant::now(), AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some((place, kernel)) = take(&next, kernels) {
                let made = self.compile(kernel);
                each(place, &made);
                if let Ok(mut done) = done.lock() {
                    done.push((place, made));
                }
            }
        };
        thread::scope(|scope| {
            let name = || thread::Builder::new().name("msccl-compile".to_owned());
            let others = (1..threads).map(|_| name().spawn_scoped(scope, work));
            // Where no more threads can be had, those that are there do it.
            let others: Vec<_> = others.filter_map(Result::ok).collect();
            work();
            drop(others);
        });
        let mut done = done.into_inner().unwrap_or_default();
        done.sort_by_key(|(place, _)| *place);
        let made: Vec<_> = done.into_iter().map(|(_, made)| made).collect();
        (self.log_event)(Event::Specialised(format!(
            "{} of {} missing specialised kernels compiled in {:.1} s by {}",
            made.iter().filter(|of| of.code.is_ok()).count(),
            kernels.len(),
            start.elapsed().as_secs_f64(),
            self.compiler.name()
        )));
        made
    }

    fn compile(&self, kernel: &Kernel) -> Made {
        let start = Instant::now();
        let code = self.compiler.compile(kernel, self.architecture);
        let origin = Origin::Compiler { took: start.elapsed() };
        match &code {
            Ok(code) => self.keep(kernel, code),
            Err(why) => {
                let Kernel { protocol, data_type, .. } = kernel;
                let text = format!("a specialised kernel over {protocol} of {data_type}: {why}");
                (self.log_event)(Event::Unspecialised(text));
            }
        }
        Made { code, origin }
    }

    /// Puts the code into the cache, if there is one that takes it.
    fn keep(&self, kernel: &Kernel, code: &[u8]) {
        let Some(cache) = &self.specialised.cache else { return };
        let file = seal(&kernel.key(self.architecture), code);
        let written = cache.write(&file_name(kernel, self.architecture), &file);
        if let Err(why) = written
            && !self.complained.swap(true, Ordering::Relaxed)
        {
            let place = cache.place();
            (self.log_event)(Event::Unspecialised(format!(
                "specialised kernels are not kept in {place}: {why}; MSCCL_KERNEL_CACHE names \
                 another folder, or `off`"
            )));
        }
    }
}

/// The next that nobody has taken.
fn take<'a>(next: &AtomicUsize, kernels: &[&'a Kernel]) -> Option<(usize, &'a Kernel)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    Some((place, *kernels.get(place)?))
}
