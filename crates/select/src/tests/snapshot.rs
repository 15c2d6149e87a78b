//! A snapshot of the choice: what serves every collective, over sizes, shapes and machines,
//! compared with `tests/decisions.txt`. `MSCCL_BLESS=1 cargo test -p msccl-select snapshot`
//! rewrites it.
//!
//! Each line has a range of sizes of the larger buffer, in bytes, what serves all sizes that are
//! asked about in it, and a digest of how each of them is cut. Where no table has rows, over
//! several nodes and on hosts, a line has the algorithm alone, and the digest is of everything.

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use msccl_collective::{DataType, Protocol};
use msccl_registry::{File, Shape};

use crate::*;

/// Sizes for every doubling.
const STEPS: u32 = 13;

/// The largest size is below two to that power.
const DOUBLINGS: u32 = 33;

/// An algorithm to load: it serves some sizes alone, and one placement.
const LOADED: &str = "algorithm mine(ranks N = 4) implements allreduce(chunks 1) bytes 512..65536 {
    for r in 0..N { output@r = sum(q in 0..N: input@q) }
}";

/// Ranks, and what decides for them.
#[derive(Clone)]
struct SnapshotCase {
    name: String,
    shape: Shape,
    machine: Machine,
    overrides: Overrides,
    loaded: Option<&'static str>,
    detail: Detail,
}

/// What stands in a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// All of a decision.
    Decision,
    /// The algorithm, and the placement in which it runs if it is another.
    Algorithm,
}

/// All shapes of up to 16 ranks, on GPUs and on hosts; and what users may ask for, on four GPUs.
fn cases() -> Vec<SnapshotCase> {
    let mut cases = Vec::new();
    for ranks in 1..=16_u32 {
        for per_node in (1..=ranks).rev().filter(|per_node| ranks.is_multiple_of(*per_node)) {
            for (machine, place) in [(Machine::Gpus, "GPUs"), (Machine::Host, "host")] {
                let name = format!("{ranks} ranks, {per_node} a node, {place}");
                let (shape, overrides) = (Shape { ranks, per_node }, Overrides::default());
                let has_rows = machine == Machine::Gpus && ranks == per_node;
                let detail = if has_rows { Detail::Decision } else { Detail::Algorithm };
                cases.push(SnapshotCase { name, shape, machine, overrides, loaded: None, detail });
            }
        }
    }
    let usual = Overrides::default();
    let mut trees = usual.clone();
    trees.families.only(None, vec![Family::Tree]);
    let overrides = [
        ("a loaded file", usual.clone()),
        ("links direct", Overrides { links: Some(Links::Direct), ..usual.clone() }),
        ("protocol LL128", Overrides { protocol: Some(Protocol::Ll128), ..usual.clone() }),
        ("instances 2, threads 96", {
            Overrides { instances: Some(2), threads: Some(96), ..usual.clone() }
        }),
        ("algorithm ring", Overrides { algorithm: Some("ring".to_owned()), ..usual }),
        ("family tree", trees),
    ];
    for (what, overrides) in overrides {
        let loaded = (what == "a loaded file").then_some(LOADED);
        let name = format!("4 ranks, 4 a node, GPUs, {what}");
        let shape = Shape { ranks: 4, per_node: 4 };
        let (machine, detail) = (Machine::Gpus, Detail::Algorithm);
        cases.push(SnapshotCase { name, shape, machine, overrides, loaded, detail });
    }
    cases
}

impl SnapshotCase {
    fn selector(&self) -> Selector {
        let Self { name: _, shape, machine, overrides, loaded, detail: _ } = self.clone();
        let file = |text: &str| File { name: "mine".to_owned(), content: Ok(text.into()) };
        let files: Vec<File> = loaded.into_iter().map(file).collect();
        let registry = Arc::new(Registry::new(shape, &files));
        assert_eq!(registry.refused(), []);
        let capacity = Capacity::nominal(machine, shape);
        Selector::new(registry, Rank(0), capacity, machine, overrides, None)
    }

    /// Its part of the file.
    fn text(&self) -> String {
        let (selector, ranks) = (self.selector(), self.shape.ranks);
        let mut text = format!("\n# {}\n", self.name);
        for kind in CollectiveKind::all(Rank(ranks - 1)) {
            for placement in CallPlacement::ALL {
                let place = if placement.is_in_place() { "in" } else { "out" };
                let _ = writeln!(text, "{} {place}", kind.name());
                let one = request(kind, placement, DataType::F32, Reduction::Sum);
                let runs = runs(&selector, &one, &sizes(STEPS), self.detail);
                runs.iter().for_each(|run| text.push_str(&run.line()));
                // Of other types and averages a digest is enough.
                let others = [
                    (DataType::U8, Reduction::Max),
                    (DataType::F64, Reduction::Avg),
                    (DataType::I32, Reduction::Avg),
                ];
                let digest = others.iter().fold(FNV_START, |digest, (data_type, reduction)| {
                    let one = request(kind, placement, *data_type, *reduction);
                    let runs = runs_of(&selector, &one, &sizes(1), Detail::Decision);
                    runs.iter().fold(digest, |digest, run| fnv(digest, run.line().as_bytes()))
                });
                let _ = writeln!(text, "  other types {:08x}", short(digest));
            }
        }
        text
    }
}

/// Sizes from one element on, `steps` for every doubling.
fn sizes(steps: u32) -> Vec<u64> {
    let size = |index: u32| {
        let (power, step) = (index / steps, index % steps);
        (1_u64 << power) + (1_u64 << power) * u64::from(step) / u64::from(steps)
    };
    let mut sizes: Vec<_> = (2 * steps..DOUBLINGS * steps).map(size).collect();
    sizes.dedup();
    sizes
}

/// A call of one element.
fn request(
    kind: CollectiveKind,
    placement: CallPlacement,
    data_type: DataType,
    reduction: Reduction,
) -> CallShape {
    let reduction = kind.reduces().then_some(reduction);
    CallShape { kind, placement, data_type, reduction, count: 1 }
}

/// Sizes that are served alike.
struct Run {
    first: u64,
    last: u64,
    decision: String,
    digest: u64,
}

impl Run {
    fn line(&self) -> String {
        let Self { first, last, decision, digest } = self;
        format!("  {first}..{last} {decision} {:08x}\n", short(*digest))
    }
}

/// What serves calls like `one` of the given sizes; `explain` says the same.
fn runs(selector: &Selector, one: &CallShape, sizes: &[u64], detail: Detail) -> Vec<Run> {
    let runs = runs_of(selector, one, sizes, detail);
    for run in &runs {
        let request = CallShape { count: run.first / one.bytes(selector.ranks()), ..*one };
        let explained = selector.explain(&request, None);
        let first = explained.iter().find(|of| of.serves());
        let chosen = selector.choose(&request).ok();
        let chosen = chosen.filter(|(of, _)| of.fallback == PlacementFallback::None);
        if let Some((chosen, _)) = chosen {
            let first = first.map(|of| (of.name.as_str(), of.verdict.clone()));
            assert_eq!(first, Some((chosen.prepared.name.as_str(), Ok(chosen.service()))));
        }
    }
    runs
}

fn runs_of(selector: &Selector, one: &CallShape, sizes: &[u64], detail: Detail) -> Vec<Run> {
    let each = one.bytes(selector.ranks());
    let mut runs: Vec<Run> = Vec::new();
    let mut counts: Vec<u64> = sizes.iter().map(|bytes| bytes.div_ceil(each)).collect();
    counts.dedup();
    for count in counts {
        let DescribedDecision { algorithm, service, cut } =
            words(selector, &CallShape { count, ..*one });
        let (decision, digested) = match detail {
            Detail::Decision => (format!("{algorithm} {service}"), cut),
            Detail::Algorithm => (algorithm, service + &cut),
        };
        let bytes = count * each;
        match runs.last_mut() {
            Some(run) if run.decision == decision => {
                (run.last, run.digest) = (bytes, fnv(run.digest, digested.as_bytes()));
            }
            _ => {
                let digest = fnv(FNV_START, digested.as_bytes());
                runs.push(Run { first: bytes, last: bytes, decision, digest });
            }
        }
    }
    runs
}

/// A decision in words.
struct DescribedDecision {
    algorithm: String,
    service: String,
    cut: String,
}

fn words(selector: &Selector, request: &CallShape) -> DescribedDecision {
    let decision = match selector.choose(request) {
        Ok((decision, _)) => decision,
        Err(error) => {
            let algorithm = error.to_string();
            return DescribedDecision { algorithm, service: String::new(), cut: String::new() };
        }
    };
    let Decision {
        prepared,
        protocol,
        links,
        exact,
        threads,
        cut,
        kernel,
        engine_work,
        fallback,
        averages,
        passed_over,
    } = &*decision;
    assert!(!exact && engine_work.is_none());
    let algorithm = match fallback {
        PlacementFallback::None => prepared.name.clone(),
        PlacementFallback::InPlace => format!("{} in place", prepared.name),
        PlacementFallback::OutOfPlace => format!("{} out of place", prepared.name),
    };
    let kernel = match selector.machine {
        Machine::Host => "host",
        Machine::Gpus => match kernel {
            KernelClass::Interpreter => "interpreter",
            KernelClass::WarpSpecialised => "crew",
            KernelClass::LowLatency => "low-latency",
            KernelClass::CopyEngine => "copy-engine",
            KernelClass::Combiner => "combiner",
        },
    };
    let averages = if *averages { " averages" } else { "" };
    let (thread_blocks, passed_over) = (decision.service().thread_blocks, passed_over.join("; "));
    let msccl_plan::cut::Cut {
        block_bytes,
        chunk_bytes,
        part_bytes,
        slice_bytes,
        rounds,
        instances,
        chunks_per_message,
    } = cut;
    let (aligned, unaligned) = (threads.aligned, threads.unaligned);
    let service = format!(
        "{protocol} {links} {instances}x{thread_blocks} of {aligned}/{unaligned} \
         {kernel}{averages}{passed_over}"
    );
    let cut = format!(
        "{block_bytes} {chunk_bytes} {part_bytes} {slice_bytes} {rounds} {chunks_per_message}"
    );
    DescribedDecision { algorithm, service, cut }
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(start: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(start, step)
}

/// The half of a digest that the file has.
fn short(digest: u64) -> u32 {
    (digest ^ (digest >> 32)) as u32
}

/// The texts of all cases, in their order; some at the same time.
fn texts() -> Vec<String> {
    let cases = cases();
    // The largest take longest.
    let (next, texts) = (AtomicUsize::new(0), Mutex::new(vec![String::new(); cases.len()]));
    let work = || {
        while let Some(at) = cases.len().checked_sub(1 + next.fetch_add(1, Ordering::Relaxed)) {
            let text = cases[at].text();
            texts.lock().unwrap()[at] = text;
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    texts.into_inner().unwrap()
}

#[test]
fn choices_are_those_of_the_snapshot() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/decisions.txt");
    let start =
        "What serves a call: sizes of the larger buffer, the decision, a digest of the cuts.\n";
    let found = texts().iter().fold(start.to_owned(), |all, text| all + text);
    if std::env::var_os("MSCCL_BLESS").is_some() {
        std::fs::write(path, &found).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    let pairs = found.lines().zip(expected.lines()).enumerate();
    let differing: Vec<_> = pairs.filter(|(_, (found, expected))| found != expected).collect();
    let first: Vec<_> = differing.iter().take(10).collect();
    assert!(
        found == expected,
        "{} lines of tests/decisions.txt differ from what is chosen, the first (found, expected): \
         {first:#?}; MSCCL_BLESS=1 rewrites it",
        differing.len()
    );
}
