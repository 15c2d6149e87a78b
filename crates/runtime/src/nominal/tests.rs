//! Specialised kernels without a GPU: which there should be, and where their code comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use msccl_collective::{CallPlacement, CollectiveKind, DataType, Protocol, Rank, Reduction};
use msccl_kernels::recipe::Architecture;
use msccl_kernels::specialised::Kernel;
use msccl_registry::{File, Registry, Shape};
use msccl_select::{CallShape, KernelCache};

use super::*;
use crate::event::Event;
use crate::specialised::*;

const SM_90: Architecture = Architecture::Machine(90);

/// A folder in memory.
#[derive(Default)]
struct MemoryCache {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    refuses: bool,
}

impl KernelCache for MemoryCache {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(self.files.lock().unwrap().get(name).cloned())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), String> {
        if self.refuses {
            return Err("it is full".to_owned());
        }
        self.files.lock().unwrap().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }
}

/// Makes of every kernel the name of its type, and refuses bf16; counts.
struct Parrot<'a>(&'a AtomicUsize);

impl Compiler for Parrot<'_> {
    fn name(&self) -> String {
        "a parrot".to_owned()
    }

    fn compile(&self, kernel: &Kernel, _: Architecture) -> Result<Vec<u8>, String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        match kernel.data_type {
            DataType::Bf16 => Err("no bf16".to_owned()),
            other => Ok(other.name().as_bytes().to_vec()),
        }
    }
}

/// The kernels of a rank of `ranks` for all-reduces.
fn kernels(ranks: u32) -> Vec<SpecialisedKernel> {
    let registry = registry(ranks, &[]);
    specialised_kernels(
        &registry,
        Rank(1),
        &[CollectiveKind::AllReduce],
        &Overrides::default(),
        None,
        false,
    )
}

fn registry(ranks: u32, files: &[File]) -> Arc<Registry> {
    Arc::new(Registry::new(Shape { ranks, per_node: ranks }, files))
}

/// What is provided, how many kernels were compiled, and the events.
fn run(
    kernels: &[SpecialisedKernel],
    specialised: &Specialisation,
) -> (Vec<Made>, usize, Vec<Event>) {
    static COUNT: Mutex<()> = Mutex::new(());
    static COMPILED: AtomicUsize = AtomicUsize::new(0);
    let _alone = COUNT.lock().unwrap();
    COMPILED.store(0, Ordering::Relaxed);
    let events = Mutex::new(Vec::new());
    let log_event = |event| events.lock().unwrap().push(event);
    let seen = Mutex::new(BTreeSet::new());
    let each = |place, _: &Made| assert!(seen.lock().unwrap().insert(place), "{place} twice");
    let of: Vec<_> = kernels.iter().map(|of| &of.kernel).collect();
    let load = || Ok(Box::new(Parrot(&COMPILED)) as Box<dyn Compiler>);
    let made = provide(&of, SM_90, specialised, &load, &log_event, &each);
    let done = made.iter().filter(|made| made.origin != Origin::Nowhere).count();
    assert_eq!(seen.lock().unwrap().len(), done);
    (made, COMPILED.load(Ordering::Relaxed), events.into_inner().unwrap())
}

fn with(mode: SpecialiseMode, cache: &Arc<MemoryCache>) -> Specialisation {
    Specialisation { mode, cache: Some(cache.clone()), compiler: None }
}

/// How many of `made` there are.
fn number(made: &[Made]) -> usize {
    made.iter().filter(|made| made.code.is_ok()).count()
}

#[test]
fn what_is_missing_is_compiled_once() {
    let (kernels, cache) = (kernels(2), Arc::new(MemoryCache::default()));
    let of_bf16 = kernels.iter().filter(|of| of.kernel.data_type == DataType::Bf16).count();
    let well = kernels.len() - of_bf16;
    assert!(of_bf16 > 0 && well > of_bf16);
    let (made, compiled, events) = run(&kernels, &with(SpecialiseMode::Cached, &cache));
    assert_eq!((number(&made), compiled, events.len()), (0, 0, 0));
    let (made, compiled, events) = run(&kernels, &with(SpecialiseMode::Compiled, &cache));
    assert_eq!((number(&made), compiled), (well, kernels.len()));
    // A line for every one that failed, and one for all.
    assert_eq!(events.len(), of_bf16 + 1, "{events:?}");
    for (made, of) in made.iter().zip(&kernels) {
        let name = of.kernel.data_type.name().as_bytes();
        assert!(made.code.as_ref().is_ok_and(|code| code == name) || name == b"bf16");
    }
    let (made, compiled, events) = run(&kernels, &with(SpecialiseMode::Cached, &cache));
    assert_eq!((number(&made), compiled, events.len()), (well, 0, 0));
}

#[test]
fn broken_files_are_logged_and_replaced() {
    let (kernels, cache) = (kernels(2), Arc::new(MemoryCache::default()));
    let kernels: Vec<_> =
        kernels.into_iter().filter(|of| of.kernel.data_type == DataType::F32).collect();
    run(&kernels, &with(SpecialiseMode::Compiled, &cache));
    let break_all = || {
        let mut files = cache.files.lock().unwrap();
        files.values_mut().for_each(|file| file.truncate(file.len() - 1));
        files.len()
    };
    assert_eq!(break_all(), kernels.len());
    let (made, _, events) = run(&kernels, &with(SpecialiseMode::Cached, &cache));
    assert_eq!((number(&made), events.len()), (0, kernels.len()));
    assert!(events[0].to_string().contains("is not used: it is shorter or longer"), "{events:?}");
    let (made, compiled, _) = run(&kernels, &with(SpecialiseMode::Compiled, &cache));
    assert_eq!((number(&made), compiled), (kernels.len(), kernels.len()));
    let (made, ..) = run(&kernels, &with(SpecialiseMode::Cached, &cache));
    assert_eq!(number(&made), kernels.len());
}

#[test]
fn a_cache_that_takes_nothing_is_logged_once() {
    let (kernels, cache) =
        (kernels(2), Arc::new(MemoryCache { refuses: true, ..MemoryCache::default() }));
    let (made, _, events) = run(&kernels, &with(SpecialiseMode::Compiled, &cache));
    assert!(number(&made) > 1);
    let refusals = events.iter().filter(|event| event.to_string().contains("it is full")).count();
    assert_eq!(refusals, 1, "{events:?}");
}

#[test]
fn without_a_compiler_nothing_is_compiled_and_that_is_logged() {
    let kernels = kernels(2);
    let specialised = Specialisation {
        mode: SpecialiseMode::Compiled,
        cache: None,
        compiler: Some("/no/nvrtc".into()),
    };
    let events = Mutex::new(Vec::new());
    let log_event = |event: Event| events.lock().unwrap().push(event.to_string());
    let made = compile_specialised(&kernels, 90, &specialised, &log_event, &|_, _| ());
    assert_eq!(number(&made), 0);
    let events = events.into_inner().unwrap();
    let [only] = &events[..] else { panic!("{events:?}") };
    assert!(only.contains("no NVRTC: /no/nvrtc: ") && only.contains("MSCCL_NVRTC"), "{only}");
}

/// Algorithm, protocol and type of all kernels of a rank, by `overrides` and `rows`, where small
/// calls have none of their own.
fn names(ranks: u32, overrides: &Overrides, rows: Option<&str>) -> BTreeSet<String> {
    names_beside(ranks, overrides, rows, false)
}

/// The same where they have if `small`.
fn names_beside(
    ranks: u32,
    overrides: &Overrides,
    rows: Option<&str>,
    small: bool,
) -> BTreeSet<String> {
    let tuning = rows.map(|rows| format!("msccl-tuning 2\nmachine m\n{rows}\n"));
    let tuning = tuning.map(|text| Tuning::parse("t", text.as_bytes()).unwrap());
    let all = CollectiveKind::WITHOUT_ROOT;
    let kernels = specialised_kernels(
        &registry(ranks, &[]),
        Rank(0),
        &all,
        overrides,
        tuning.as_ref(),
        small,
    );
    let name = |of: &SpecialisedKernel| {
        format!("{} {} {}", of.algorithm, of.kernel.protocol, of.kernel.data_type)
    };
    kernels.iter().map(name).collect()
}

#[test]
fn the_set_is_what_calls_up_to_some_mib_choose() {
    let of_ranks = |ranks| names(ranks, &Overrides::default(), None);
    let names = of_ranks(2);
    for expected in [
        "allreduce/one_block LL f16",
        "allreduce/one_block LL128 f32",
        "allreduce/one_block Simple bf16",
        "allgather/allpairs LL u64",
        "reducescatter/direct LL f32",
    ] {
        assert!(names.contains(expected), "{expected}: {names:#?}");
    }
    // Larger calls, and whatever a GPU with direct links would not stage.
    assert!(!names.iter().any(|name| name.contains("two_shot")), "{names:#?}");
    assert!(!names.iter().any(|name| name.contains("i32")), "{names:#?}");
    assert!(of_ranks(4).contains("alltoall/allpairs LL u64"), "{:#?}", of_ranks(4));
}

#[test]
fn small_calls_with_kernels_of_their_own_need_none() {
    let names = names_beside(2, &Overrides::default(), None, true);
    assert!(names.contains("allreduce/one_block Simple bf16"), "{names:#?}");
    assert!(!names.iter().any(|name| name.contains(" LL")), "{names:#?}");
}

#[test]
fn the_set_follows_overrides_and_tables() {
    let overrides = Overrides { protocol: Some(Protocol::Ll128), ..Overrides::default() };
    let all = names(4, &overrides, None);
    assert!(!all.is_empty() && all.iter().all(|name| name.contains(" LL128 ")), "{all:#?}");
    let row = "allreduce any any 5000..6000 LL staged 2 128 allreduce/two_shot";
    let found = names(2, &Overrides::default(), Some(row));
    assert!(found.contains("allreduce/two_shot LL f32"), "{found:#?}");
}

#[test]
fn loaded_algorithms_have_kernels() {
    let text = "algorithm mine(ranks N = 2) implements allgather() bytes 4000..5000 {
        for r in 0..N, q in 0..N { output@r[q] = input@q }
    }";
    let content = Ok(text.as_bytes().to_vec());
    let registry = registry(2, &[File { name: "mine.msccl".to_owned(), content }]);
    assert_eq!(registry.refused().len(), 0, "{:?}", registry.refused());
    let kernels = specialised_kernels(&registry, Rank(0), &[], &Overrides::default(), None, true);
    // One for each placement.
    assert_eq!(kernels.len(), 2);
    for kernel in &kernels {
        let found = (kernel.algorithm.as_str(), kernel.kernel.data_type);
        assert_eq!(found, ("mine.msccl", DataType::U64));
    }
    assert_ne!(file_name(&kernels[0].kernel, SM_90), file_name(&kernels[1].kernel, SM_90));
}

#[test]
fn a_question_has_its_kernel_or_none() {
    let registry = registry(2, &[]);
    let question = |kind, count, data_type| {
        let reduction = Some(Reduction::Sum).filter(|_| kind == CollectiveKind::AllReduce);
        let placement = CallPlacement::OutOfPlace;
        let shape = CallShape { kind, placement, data_type, reduction, count };
        Question { shape, on_gpus: true }
    };
    let find = |question: Question| {
        specialised_kernel(&registry, &question, &Overrides::default(), None, false)
    };
    let found = find(question(CollectiveKind::AllReduce, 256, DataType::F16)).unwrap();
    assert_eq!((found.rank, found.kernel.protocol), (Rank(0), Protocol::Ll));
    assert_eq!(found.kernel.data_type, DataType::F16);
    assert_eq!(find(question(CollectiveKind::AllReduce, 256, DataType::I32)), None);
    assert_eq!(find(question(CollectiveKind::AllReduce, 64 << 20, DataType::F32)), None);
    assert_eq!(find(question(CollectiveKind::Broadcast(Rank(0)), 256, DataType::F32)), None);
    let host =
        Question { on_gpus: false, ..question(CollectiveKind::AllReduce, 256, DataType::F32) };
    assert_eq!(find(host), None);
    let kept = Arc::new(MemoryCache::default());
    assert!(!found.is_kept(90, &with(SpecialiseMode::Cached, &kept)));
    run(std::slice::from_ref(&found), &with(SpecialiseMode::Compiled, &kept));
    assert!(found.is_kept(90, &with(SpecialiseMode::Cached, &kept)));
    assert!(!found.is_kept(80, &with(SpecialiseMode::Cached, &kept)));
}

#[test]
fn joins_load_a_bounded_number() {
    for (ranks, most) in [(2, 64), (4, 64), (8, 64), (16, 128)] {
        let registry = registry(ranks, &[]);
        let all = CollectiveKind::WITHOUT_ROOT;
        let kernels =
            specialised_kernels(&registry, Rank(0), &all, &Overrides::default(), None, false);
        let keys: BTreeSet<_> = kernels.iter().map(|of| file_name(&of.kernel, SM_90)).collect();
        assert_eq!(keys.len(), kernels.len(), "{ranks} ranks");
        assert!(kernels.len() <= most, "{ranks} ranks: {}", kernels.len());
    }
}
