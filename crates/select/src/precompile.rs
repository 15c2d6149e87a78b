//! What is likely to serve calls, known before there are any: for it specialised kernels are made.
//!
//! A decision is taken for many sizes of the larger buffer up to [`SIZES_MAX`]: all powers of two,
//! and both ends of every range that a row or a loaded algorithm names, each also with an element
//! more. Above that, interpretation costs little.
//!
//! Left out are small calls, where they have kernels of their own; collectives with a root, whose
//! plans are as many as ranks, unless an algorithm for one was loaded; communicators of more than
//! [`RANKS_MAX`] ranks; links that deliver directly; and plans that are too long ([`WEIGHT_MAX`]).

use std::sync::{Arc, PoisonError};

use msccl_collective::{CallPlacement, CollectiveKind, DataType, Protocol, Reduction};
use msccl_plan::Program;
use msccl_registry::Entry;
use rustc_hash::FxHashSet;

use super::call_shape::CallShape;
use super::decision::{Decision, KernelClass};
use super::prepared::Prepared;
use super::requirements::Requirements;
use super::tuning::Variant;
use super::{Selector, SelectorCache};

/// Communicators of more ranks have specialised kernels for loaded algorithms alone: to look at all
/// others, those are compiled and proved, which grows with the square of the ranks.
const RANKS_MAX: u32 = 64;

/// The largest size that is looked at, in bytes.
const SIZES_MAX: u64 = 4 << 20;

/// The most steps and operands, all thread blocks together, of a plan for which a kernel is made.
const WEIGHT_MAX: usize = 256;

/// The most kernels of a rank.
const PRECOMPILE_MAX: usize = 128;

/// The types of elements that people reduce.
const REDUCED: [DataType; 3] = [DataType::F32, DataType::F16, DataType::Bf16];

/// The type of kernels for algorithms that compute nothing: those move all types alike, wherever
/// buffers begin and end.
pub const CARRIED: DataType = DataType::U64;

/// This rank's part of an algorithm under a protocol, for a type.
#[derive(Clone)]
pub struct PrecompileEntry {
    /// The algorithm.
    pub prepared: Arc<Prepared>,
    /// How messages are laid out.
    pub protocol: Protocol,
    /// What the kernel computes with.
    pub data_type: DataType,
}

impl PrecompileEntry {
    /// What serves calls like that of `decision`, on `data_type`; `None` if they have no
    /// specialised kernels.
    pub fn of(decision: &Decision, data_type: DataType) -> Option<Self> {
        let Decision { prepared, protocol, links, .. } = decision;
        let data_type = if prepared.computes { data_type } else { CARRIED };
        let short = weight(prepared.plan.program()) <= WEIGHT_MAX;
        let of = || Self { prepared: prepared.clone(), protocol: *protocol, data_type };
        (!links.export_buffers() && short).then(of)
    }

    /// Whether they are the same.
    pub fn is(&self, other: &Self) -> bool {
        self.name() == other.name()
    }

    fn name(&self) -> (u64, Protocol, DataType) {
        (self.prepared.fingerprint.0, self.protocol, self.data_type)
    }
}

/// How long the kernel for `program` becomes, in its steps and their operands.
fn weight(program: &Program) -> usize {
    let steps = program.thread_blocks.iter().flat_map(|block| &block.steps);
    steps.map(|step| 1 + step.sources.len() + step.destinations.len()).sum()
}

impl Selector {
    /// The collectives that a program may call: those without a root, and those for which something
    /// was loaded.
    pub fn likely(&self) -> Vec<CollectiveKind> {
        let kinds =
            self.registry.loaded().iter().map(|entry| &entry.verified.algorithm().collective.kind);
        let mut likely = CollectiveKind::WITHOUT_ROOT.to_vec();
        for kind in kinds.filter_map(CollectiveKind::of) {
            if !likely.contains(&kind) {
                likely.push(kind);
            }
        }
        likely
    }

    /// What is likely to serve calls of `kinds`, and whatever was loaded; each once. Calls
    /// with low-latency kernels need nothing.
    pub fn precompile_set(&self, kinds: &[CollectiveKind]) -> Vec<PrecompileEntry> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Gathered::default();
        if self.ranks() <= RANKS_MAX {
            for kind in kinds {
                self.foresee(&mut known, *kind, &mut all);
            }
        }
        for entry in self.registry.loaded() {
            self.foresee_loaded(&mut known, entry, &mut all);
        }
        all.in_order
    }

    fn foresee(&self, known: &mut SelectorCache, kind: CollectiveKind, all: &mut Gathered) {
        let reduces = kind.reduces();
        let types = if reduces { &REDUCED[..] } else { &REDUCED[..1] };
        for placement in CallPlacement::ALL {
            for &data_type in types {
                let reduction = reduces.then_some(Reduction::Sum);
                for count in self.counts(kind, data_type) {
                    let request = CallShape { kind, placement, data_type, reduction, count };
                    let decision = self.decide(known, &request).ok();
                    let decision = decision.filter(|of| of.kernel != KernelClass::LowLatency);
                    all.add(decision.and_then(|of| PrecompileEntry::of(&of, data_type)));
                }
            }
        }
    }

    /// An algorithm that may be named by whoever calls it, whatever serves otherwise.
    fn foresee_loaded(&self, known: &mut SelectorCache, entry: &Entry, all: &mut Gathered) {
        let collective = &entry.verified.algorithm().collective;
        let variant = Variant::loaded(self.machine, entry);
        let least = entry.verified.algorithm().sizes.min_bytes;
        for data_type in REDUCED {
            let element_bytes = data_type.size_bytes() as u64;
            let blocks = u64::from(collective.loop_chunks().div_ceil(collective.chunks.max(1)));
            let chunks = u64::from(collective.chunks.max(1));
            let each = (blocks * element_bytes).max(1);
            let count = least.div_ceil(each).checked_next_multiple_of(chunks);
            let count = count.unwrap_or(u64::MAX).max(chunks);
            let reduction = collective.reduces().then_some(Reduction::Sum);
            let serves_out = entry.verified.algorithm().placement.serves_out_of_place();
            let placement = CallPlacement::from_in_place(!serves_out);
            let terms = Requirements {
                placement,
                data_type,
                reduction,
                count,
                bytes: count.saturating_mul(each),
            };
            let decision = self.try_one(known, entry, &variant, &terms).ok();
            all.add(decision.and_then(|of| PrecompileEntry::of(&of, data_type)));
        }
    }

    /// Counts of elements at which another algorithm may come to serve.
    fn counts(&self, kind: CollectiveKind, data_type: DataType) -> Vec<u64> {
        let powers = (0..=SIZES_MAX.ilog2()).map(|power| 1 << power);
        let rows = self.tables().flat_map(|table| table.rows());
        let rows = rows.filter(|row| row.collective == kind.name());
        let named = rows.flat_map(|row| [*row.bytes.start(), row.bytes.end().saturating_add(1)]);
        let loaded = self.registry.loaded().iter().map(|entry| entry.verified.algorithm().sizes);
        let ranges = loaded.flat_map(|sizes| {
            [Some(sizes.min_bytes), sizes.max_bytes.map(|end| end.saturating_add(1))]
        });
        let one = CallShape {
            kind,
            placement: CallPlacement::OutOfPlace,
            data_type,
            reduction: None,
            count: 1,
        };
        let each = one.bytes(self.ranks()).max(1);
        let sizes = powers.chain(named).chain(ranges.flatten()).filter(|bytes| *bytes <= SIZES_MAX);
        let counts = sizes.map(|bytes| bytes.div_ceil(each).max(1));
        let mut counts: Vec<_> = counts.flat_map(|count| [count, count + 1]).collect();
        counts.retain(|count| *count == 1 || count.saturating_mul(each) <= SIZES_MAX);
        counts.sort_unstable();
        counts.dedup();
        counts
    }
}

/// What was found, each once, in the order in which it was.
#[derive(Default)]
struct Gathered {
    in_order: Vec<PrecompileEntry>,
    seen: FxHashSet<(u64, Protocol, DataType)>,
}

impl Gathered {
    fn add(&mut self, entries: Option<PrecompileEntry>) {
        let new = entries.filter(|of| !self.seen.contains(&of.name()));
        let new = new.filter(|_| self.in_order.len() < PRECOMPILE_MAX);
        if let Some(new) = new {
            self.seen.insert(new.name());
            self.in_order.push(new);
        }
    }
}
