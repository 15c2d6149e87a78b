//! From arguments to a plan: libraries found, sizes and types listed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use msccl_bench::{
    Case, DeviceSelection, LibraryUnderTest, Machine, Method, Pair, Plan, ProcessGroup,
    Registration, RequestedAlgorithms, Rounding, Sizes, Step, Sweep, Workload,
};
use msccl_bench::{ElementType, Redop};
use msccl_environment::{DevicePreference, Preferences, Reader, Variable, variable};

use crate::args::{BenchArgs, DeviceName, NamedPath, Scoped, ScopedRegistration};
use crate::failure::{Failure, Result};
use crate::launch;
use crate::own_library::own_library;
use crate::size::ByteSize;

/// Ranks on the host, if no number is given.
pub const USUAL_RANKS: u32 = 4;

/// The largest size if none is given, on GPUs and on the host.
const USUAL_MAX_BYTES: (u64, u64) = (1 << 30, 1 << 20);

/// Timed calls if no number is given, in a row and each alone.
const USUAL_ITERATIONS: (u32, u32) = (20, 200);

/// What `args` request, the same on all ranks of `group`, and which calls are to be compared with
/// which.
pub fn plan(args: &BenchArgs, group: Option<&ProcessGroup>) -> Result<(Plan, Vec<Pair>)> {
    let machine = match group {
        Some(group) => launched_machine(args.device, requested_gpus(args), group)?,
        None => machine_of(args)?,
    };
    let ranks = match group {
        Some(group) => launched_ranks(args.ranks, args.threads, group)?,
        None => args.ranks.or(machine.gpus()).or(requested_gpus(args)).unwrap_or(USUAL_RANKS),
    };
    if let Some(unsuited) = args.collective.0.iter().find(|of| !of.suits(ranks)) {
        let text = format!("{unsuited} needs a power of two of ranks, not {ranks}");
        return Err(Failure::new(text));
    }
    let is_chained = args.collective.0.contains(&Workload::HyperCube);
    if is_chained && args.of_nccl_tests.aggregated > 1 {
        let text = "calls of hypercube cannot be made at once: each step sends what the one before \
                    it received";
        return Err(Failure::new(text));
    }
    let libraries = libraries(args.library.as_ref(), &args.against, &args.env)?;
    let mut libraries = registered(libraries, &args.register)?;
    libraries.iter_mut().for_each(|tested| limit_joining(tested, args.timeout));
    let cases = cases(args, &machine, ranks)?;
    let (cases, pairs) =
        if args.next_power { msccl_bench::with_powers(&cases) } else { (cases, Vec::new()) };
    let plan = Plan {
        libraries,
        cases,
        ranks,
        method: method(args, &machine),
        machine,
        ranks_per_process: args.threads,
        repeats: args.repeat,
        orders: args.orders,
        cycles: Some(args.of_nccl_tests.cycles).filter(|cycles| *cycles > 0),
        timeout: args.timeout,
        worker: worker()?,
    };
    Ok((plan, pairs))
}

/// As many GPUs as nccl-tests would use: `-g` for each of `-t` threads.
fn requested_gpus(args: &BenchArgs) -> Option<u32> {
    args.gpus.map(|gpus| gpus.saturating_mul(args.threads.unwrap_or(1)))
}

/// What this process has to measure on. On the host, `-g` counts ranks.
fn machine_of(args: &BenchArgs) -> Result<Machine> {
    let all = machine(args.device, None)?;
    match (requested_gpus(args), &all) {
        (Some(count), Machine::Gpus(_)) => all.limited_to(count).map_err(failure),
        (_, Machine::Gpus(_) | Machine::Host { .. }) => Ok(all),
    }
}

/// What the ranks of `group` have to measure on: each takes the GPU that is its own on its host.
pub fn launched_machine(
    device: DeviceName,
    gpus: Option<u32>,
    group: &ProcessGroup,
) -> Result<Machine> {
    let own = machine(device, None).and_then(|all| match gpus {
        None | Some(1) => Ok(all),
        Some(_) => Err(Failure::new(
            "every launched process is one rank; launch as many as there are GPUs, and leave \
             --ngpus out",
        )),
    });
    launch::fail_together(Some(group), own)?.of_launch(group).map_err(failure)
}

/// What this process has to measure on.
pub fn machine(device: DeviceName, gpus: Option<u32>) -> Result<Machine> {
    let selection = match (device, preferred_device()) {
        (DeviceName::Auto, DevicePreference::Host) => DeviceSelection::Host,
        (DeviceName::Auto, DevicePreference::Cuda) => DeviceSelection::Gpus,
        (device, _) => device.selection(),
    };
    let machine = Machine::survey(selection).map_err(failure)?;
    match (gpus, &machine) {
        (Some(_), Machine::Host { reason: None }) => Err(Failure::new(
            "--ngpus counts GPUs, and ranks are on the host; --ranks says how many",
        )),
        (Some(count), _) => machine.limited_to(count).map_err(failure),
        (None, _) => Ok(machine),
    }
}

/// How to start ranks: this program, with the arguments for that.
pub fn worker() -> Result<(PathBuf, Vec<OsString>)> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find this program again: {error}")))?;
    Ok((program, vec!["bench-worker".into()]))
}

/// What our library would run on, unless the arguments say otherwise.
fn preferred_device() -> DevicePreference {
    Preferences::read(&mut Reader::new(&msccl_environment::lookup)).device
}

/// As many ranks as were launched, each in a process of its own.
pub fn launched_ranks(
    requested: Option<u32>,
    threads: Option<u32>,
    group: &ProcessGroup,
) -> Result<u32> {
    let ranks = group.ranks();
    match (requested, threads) {
        (Some(requested), _) if requested != ranks => {
            Err(Failure::new(format!("{ranks} ranks were launched, and --ranks says {requested}")))
        }
        (_, Some(threads)) if threads != 1 => {
            Err(Failure::new("every launched process is one rank; leave --nthreads out"))
        }
        _ => Ok(ranks),
    }
}

fn failure(error: msccl_bench::Error) -> Failure {
    Failure::new(error.to_string())
}

fn method(args: &BenchArgs, machine: &Machine) -> Method {
    let (many, alone) = USUAL_ITERATIONS;
    let usual = if args.latency { alone } else { many };
    Method {
        iterations: args.iterations.unwrap_or(usual),
        aggregated: args.of_nccl_tests.aggregated,
        waiting: args.of_nccl_tests.waiting,
        warmup: args.warmup,
        checks: args.checks,
        // There are no graphs on the host.
        graph_launches: machine.gpus().map_or(0, |_| args.graph),
        one_shot: args.latency,
    }
}

fn cases(args: &BenchArgs, machine: &Machine, ranks: u32) -> Result<Vec<Case>> {
    let max_bytes = max_bytes(args.min, args.max, machine)?;
    let step = args.growth();
    expect_growth(step, args.min, ByteSize(max_bytes))?;
    let roots = args.roots.of(0..ranks);
    if let Some(stranger) = roots.iter().find(|root| **root >= ranks) {
        let text = format!("there is no rank {stranger}; ranks are 0 to {}", ranks - 1);
        return Err(Failure::new(text));
    }
    let sweep = |&workload: &Workload| Sweep {
        workload,
        ranks,
        sizes: Sizes { min_bytes: args.min.0, max_bytes, step },
        rounding: if args.odd { Rounding::Odd } else { Rounding::Aligned },
        offset_bytes: args.offset,
        elements: args.types.of(usual_types(workload, machine)),
        redops: args.ops.of(Redop::ALL),
        roots: roots.clone(),
    };
    let cases = args.collective.0.iter().flat_map(|of| sweep(of).cases());
    let unalign = args.of_nccl_tests.unalign.filter(|elements| *elements > 0);
    let unaligned = |case: Case| match unalign {
        None => case,
        Some(elements) => {
            let offset = u64::from(elements).saturating_mul(case.element.size_bytes());
            Case { offset_bytes: Some(offset), ..case }
        }
    };
    let cases: Vec<Case> = cases.map(unaligned).collect();
    let offset = args.offset.unwrap_or(0);
    let is_split = |case: &&Case| !offset.is_multiple_of(case.element.size_bytes());
    if let Some(Case { element, .. }) = cases.iter().find(is_split) {
        let bytes = element.size_bytes();
        let text = format!(
            "expected an offset that is a multiple of the {bytes} bytes of a {element}, found \
             {offset}"
        );
        return Err(Failure::new(text));
    }
    Ok(cases)
}

/// Makes sure that sizes get from `min` to `max`, if these are two.
pub fn expect_growth(step: Step, min: ByteSize, max: ByteSize) -> Result<()> {
    if (Sizes { min_bytes: min.0, max_bytes: max.0, step }).grows() {
        return Ok(());
    }
    let advice = match step {
        Step::Factor(factor) if factor.grows() && min.0 == 0 => {
            "expected a smallest size (-b) above 0 with a factor (-f), found 0; give a larger -b, \
             or an increment with -i"
                .to_owned()
        }
        Step::Factor(factor) if factor.grows() => {
            format!(
                "the factor adds less than a byte to the smallest size: give a larger -f, or a -b \
                 of {}",
                factor.least_bytes()
            )
        }
        Step::Factor(_) | Step::Add(_) => format!("give a larger -f or -i, or an -e of {min}"),
    };
    Err(Failure::new(format!("such steps never get from {min} to {max}; {advice}")))
}

/// The largest size, at least `min`.
pub fn max_bytes(min: ByteSize, max: Option<ByteSize>, machine: &Machine) -> Result<u64> {
    let (on_gpus, on_host) = USUAL_MAX_BYTES;
    let usual = if machine.gpus().is_some() { on_gpus } else { on_host };
    let max_bytes = max.map_or(usual.max(min.0), |max| max.0);
    if min.0 > max_bytes {
        let text = format!("the smallest size, {min}, is more than the largest");
        return Err(Failure::new(text));
    }
    Ok(max_bytes)
}

/// The types that `all` stands for.
fn usual_types(workload: Workload, machine: &Machine) -> impl Iterator<Item = ElementType> {
    let served = move |element: &ElementType| !workload.reduces() || machine.reduces(*element);
    ElementType::ALL.into_iter().filter(served)
}

/// The libraries, ours or whatever stands for it first.
pub fn libraries(
    library: Option<&NamedPath>,
    against: &[NamedPath],
    env: &[Scoped],
) -> Result<Vec<LibraryUnderTest>> {
    let ours = library.cloned().map_or_else(our_library, Ok)?;
    let mut libraries = vec![tested(&ours, "msccl".to_owned())];
    for (index, other) in against.iter().enumerate() {
        let usual = if index == 0 { "nccl".to_owned() } else { format!("nccl{}", index + 1) };
        libraries.push(tested(other, usual));
    }
    for (index, tested) in libraries.iter().enumerate() {
        let name = &tested.name;
        if libraries[..index].iter().any(|other| other.name == *name) {
            let text = format!("two libraries are called `{name}`; write NAME=PATH");
            return Err(Failure::new(text));
        }
    }
    env.iter().try_for_each(|variable| assign(variable, &mut libraries))?;
    libraries.iter_mut().for_each(|tested| tested.requested = requested(tested));
    Ok(libraries)
}

fn tested(library: &NamedPath, usual_name: String) -> LibraryUnderTest {
    let NamedPath { name, path } = library;
    // The loader would look for a bare name in the system's folders.
    let path = path.canonicalize().unwrap_or_else(|_| path.clone());
    let name = name.clone().unwrap_or(usual_name);
    let (registration, requested) = (Registration::None, RequestedAlgorithms::default());
    LibraryUnderTest { name, path, environment: Vec::new(), registration, requested }
}

/// Gives a variable to those for whom it is.
fn assign(variable: &Scoped, libraries: &mut [LibraryUnderTest]) -> Result<()> {
    let Scoped { library, key, value } = variable;
    for tested in meant(library.as_deref(), libraries)? {
        tested.environment.push((key.into(), value.into()));
    }
    Ok(())
}

/// Which algorithms variables request of a library.
fn requested(tested: &LibraryUnderTest) -> RequestedAlgorithms {
    let value = |variable: Variable| {
        let own = tested.environment.iter().rev().find(|(key, _)| key == variable.name);
        let own = own.map(|(_, value)| value.to_string_lossy().into_owned());
        let value = own.or_else(|| msccl_environment::lookup(variable.name));
        value.filter(|value| !value.trim().is_empty())
    };
    let files = value(variable::XML_FILES).unwrap_or_default();
    RequestedAlgorithms {
        name: value(variable::ALGO),
        files: files.split(':').filter(|path| !path.is_empty()).map(str::to_owned).collect(),
        folder: value(variable::ALGO_DIR),
    }
}

/// `libraries`, each with how its buffers are registered.
fn registered(
    mut libraries: Vec<LibraryUnderTest>,
    register: &[ScopedRegistration],
) -> Result<Vec<LibraryUnderTest>> {
    for ScopedRegistration { library, registration } in register {
        for tested in meant(library.as_deref(), &mut libraries)? {
            tested.registration = *registration;
        }
    }
    Ok(libraries)
}

/// The library under test called `library`, or all if none is named.
fn meant<'a>(
    library: Option<&str>,
    libraries: &'a mut [LibraryUnderTest],
) -> Result<impl Iterator<Item = &'a mut LibraryUnderTest>> {
    let names: Vec<_> = libraries.iter().map(|tested| tested.name.clone()).collect();
    let library = library.map(str::to_owned);
    if let Some(stranger) = library.as_ref().filter(|library| !names.contains(library)) {
        let text = format!("no library is called `{stranger}`; there are {}", names.join(", "));
        return Err(Failure::new(text));
    }
    let is_meant = move |tested: &&'a mut LibraryUnderTest| {
        library.as_ref().is_none_or(|library| *library == tested.name)
    };
    Ok(libraries.iter_mut().filter(is_meant))
}

/// Makes ours, unless a variable says otherwise, report who did not come before it is ended for not
/// answering.
fn limit_joining(tested: &mut LibraryUnderTest, timeout: Duration) {
    let name = msccl_environment::variable::JOIN_TIMEOUT_S.name;
    if msccl_environment::lookup(name).is_none() {
        let seconds = (timeout / 2).as_secs().max(1);
        // Whatever --env says comes later, and wins.
        tested.environment.insert(0, (name.into(), seconds.to_string().into()));
    }
}

/// Our own library.
fn our_library() -> Result<NamedPath> {
    own_library().map(|path| NamedPath { name: None, path })
}
