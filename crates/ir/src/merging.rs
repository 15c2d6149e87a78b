//! Consecutive `re` that an interpreter runs as one.
//!
//! MSCCL's interpreters merge `re` that follow one another in a thread block, have one destination
//! and sources in one buffer, and of which the later have no wait. A merged `re` reads all sources
//! before it stores the sum, has one count, and has room for so many sources ([`Merging`]). A step
//! that is waited for ends a chain, so a wait of the next one for the step before it splits a chain
//! at that place.

use std::ops::Range;

use msccl_collective::{Collective, Placement, Protocol, Rank, Slot};

use crate::{Merging, Place, RankProgram, Step, StepKind, ThreadBlock};

/// The source, the destination and the count of a `re`.
struct Reduction {
    source: Slot,
    destination: Slot,
    count: u32,
}

impl Reduction {
    fn of(step: &Step) -> Option<Self> {
        if step.kind() != StepKind::Reduce {
            return None;
        }
        match (step.sources.as_slice(), step.destinations.as_slice()) {
            ([Place::Local(_), Place::Local(source)], [Place::Local(destination)]) => {
                Some(Self { source: *source, destination: *destination, count: step.count })
            }
            _ => None,
        }
    }

    fn continues(&self, first: &Reduction) -> bool {
        self.destination == first.destination && self.source.buffer == first.source.buffer
    }
}

/// For every thread block of a rank: which of its steps are waited for.
pub fn awaited(program: &RankProgram) -> Vec<Vec<bool>> {
    let blocks = &program.thread_blocks;
    let mut awaited: Vec<_> = blocks.iter().map(|block| vec![false; block.steps.len()]).collect();
    for wait in blocks.iter().flat_map(|block| &block.steps).flat_map(|step| &step.waits) {
        let steps = awaited.get_mut(wait.tb.index());
        if let Some(step) = steps.and_then(|steps| steps.get_mut(wait.step.index())) {
            *step = true;
        }
    }
    awaited
}

/// The chains of two steps or more in a thread block of which `awaited` steps are waited for.
pub fn chains(block: &ThreadBlock, awaited: &[bool], merging: Merging) -> Vec<Range<usize>> {
    let mut chains = Vec::new();
    let mut walk = Walk::new(merging);
    for (at, step) in block.steps.iter().enumerate() {
        let ends = awaited.get(at).copied().unwrap_or(false);
        if let Some(chain) = walk.step(at, step, ends) {
            chains.push(chain);
        }
    }
    chains.extend(walk.finish());
    chains
}

/// A walk along a thread block.
struct Walk {
    merging: Merging,
    reductions: u32,
    open: Option<(Range<usize>, Reduction)>,
}

impl Walk {
    fn new(merging: Merging) -> Self {
        Self { merging, reductions: 0, open: None }
    }

    /// Takes the next step; the chain that has ended before or with it, if one of two steps has.
    fn step(&mut self, at: usize, step: &Step, ends: bool) -> Option<Range<usize>> {
        let reduction = Reduction::of(step);
        let joins = |(_, first): &(Range<usize>, Reduction)| {
            let continues = reduction.as_ref().is_some_and(|one| one.continues(first));
            continues && step.waits.is_empty()
        };
        let joined = self.open.as_ref().is_some_and(joins);
        let mut ended = None;
        if joined {
            self.open.iter_mut().for_each(|(steps, _)| steps.end = at + 1);
        } else {
            ended = self.finish();
            self.open = reduction.map(|first| (at..at + 1, first));
        }
        if self.open.is_some() {
            self.reductions += 1;
            if ends || self.reductions == self.merging.cut_at {
                ended = self.finish().or(ended);
            }
        }
        ended
    }

    fn finish(&mut self) -> Option<Range<usize>> {
        let (steps, _) = self.open.take()?;
        (steps.len() > 1).then_some(steps)
    }
}

/// Why a `re` must not be merged with those before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misfit {
    /// Its count is another one.
    Count,
    /// It reads what those before it sum, which is not stored yet.
    ReadsSum,
    /// There is no room for its source; so many there are.
    Room(u32),
}

impl Misfit {
    /// What goes wrong where `runtime` merges the step, and what to do.
    pub fn explain(self, runtime: &str, protocol: Protocol) -> String {
        let why = match self {
            Misfit::Count => "the merged step uses the last count for all".to_owned(),
            Misfit::ReadsSum => {
                "it reads its source before the others' sum is stored there".to_owned()
            }
            Misfit::Room(room) => format!(
                "under {protocol} a merged step has room for {room} sources and loses the rest"
            ),
        };
        format!(
            "{runtime} merges this `re` with the one before it, and {why}; let it wait for the \
             step before it, or put another step between them"
        )
    }
}

/// What decides whether a merged `re` does what its steps say.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    /// How `re` are merged.
    pub merging: Merging,
    /// The protocol, on which the room depends.
    pub protocol: Protocol,
    /// Input and output may be one memory.
    pub collective: &'a Collective,
    /// Whether they are.
    pub placement: Placement,
}

impl Judge<'_> {
    /// The steps of a chain of `block` that must not be merged with those before them.
    pub fn misfits(
        &self,
        rank: Rank,
        block: &ThreadBlock,
        chain: Range<usize>,
    ) -> Vec<(usize, Misfit)> {
        let room = self.room();
        let mut found = Vec::new();
        let mut start = chain.start;
        for at in chain.start + 1..chain.end {
            let pair = (Reduction::of(&block.steps[start]), Reduction::of(&block.steps[at]));
            let (Some(first), Some(step)) = pair else { continue };
            let source = self.memory(rank, step.source).run(step.count);
            let sum = self.memory(rank, first.destination).run(first.count);
            let misfit = if first.count != step.count {
                Some(Misfit::Count)
            } else if source.overlaps(sum) {
                Some(Misfit::ReadsSum)
            } else {
                (at - start >= room as usize).then_some(Misfit::Room(room))
            };
            if let Some(misfit) = misfit {
                found.push((at, misfit));
                start = at;
            }
        }
        found
    }

    fn room(&self) -> u32 {
        let Merging { cut_at: _, sources_max: [simple, ll, ll128], destination_last: _ } =
            self.merging;
        match self.protocol {
            Protocol::Simple => simple,
            Protocol::Ll => ll,
            Protocol::Ll128 => ll128,
        }
    }

    fn memory(&self, rank: Rank, slot: Slot) -> Slot {
        if self.placement.serves_in_place() { self.collective.in_place(rank, slot) } else { slot }
    }
}
