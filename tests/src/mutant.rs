//! Mutants: good algorithms with one thing wrong.

use msccl_collective::{Rank, Slot, StepIndex};
use msccl_ir::{Algorithm, Place, Step, StepRef, Target, Wait};
use msccl_testkit::Numbers;

/// An algorithm with one thing wrong, and the target it is judged for.
pub struct Mutant {
    /// What was done to it.
    pub what: String,
    /// The result.
    pub algorithm: Algorithm,
    /// The target, perhaps with shallower links.
    pub target: Target,
}

/// What can be done to an algorithm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)] // Each is told by `Mutation::apply`.
pub enum Mutation {
    DropWait,
    SwapSteps,
    ShiftOffset,
    RenamePeer,
    ShrinkLinks,
    DuplicateContribution,
    DropContribution,
    DuplicateStep,
    DropStep,
    WidenCount,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 10] = [
        Mutation::DropWait,
        Mutation::SwapSteps,
        Mutation::ShiftOffset,
        Mutation::RenamePeer,
        Mutation::ShrinkLinks,
        Mutation::DuplicateContribution,
        Mutation::DropContribution,
        Mutation::DuplicateStep,
        Mutation::DropStep,
        Mutation::WidenCount,
    ];

    /// Does it to a copy of `good` at a step that `numbers` choose; `None` if there is nothing to
    /// do it to there.
    pub fn apply(self, good: &Algorithm, target: &Target, numbers: &mut Numbers) -> Option<Mutant> {
        let mut algorithm = good.clone();
        let mut target = target.clone();
        let at = any_step(good, numbers);
        let done = match self {
            Mutation::DropWait => drop_wait(step_mut(&mut algorithm, at), numbers),
            Mutation::SwapSteps => swap_steps(&mut algorithm, at),
            Mutation::ShiftOffset => shift_offset(step_mut(&mut algorithm, at), numbers),
            Mutation::RenamePeer => rename_peer(&mut algorithm, at, numbers),
            Mutation::ShrinkLinks => shrink_links(&mut target),
            Mutation::DuplicateContribution => {
                duplicate_contribution(step_mut(&mut algorithm, at), numbers)
            }
            Mutation::DropContribution => drop_contribution(step_mut(&mut algorithm, at), numbers),
            Mutation::DuplicateStep => duplicate_step(&mut algorithm, at),
            Mutation::DropStep => drop_step(&mut algorithm, at),
            Mutation::WidenCount => widen_count(step_mut(&mut algorithm, at)),
        };
        let changed = algorithm != *good || self == Mutation::ShrinkLinks;
        let what = format!("{self:?} at {at}");
        (done.is_some() && changed).then_some(Mutant { what, algorithm, target })
    }
}

fn any_step(algorithm: &Algorithm, numbers: &mut Numbers) -> StepRef {
    let mut number = numbers.index(algorithm.step_count());
    for (rank, tb, block) in algorithm.thread_blocks() {
        if number < block.steps.len() {
            return StepRef { rank, tb, step: StepIndex::from(number) };
        }
        number -= block.steps.len();
    }
    unreachable!("the number is below the number of steps")
}

fn step_mut(algorithm: &mut Algorithm, at: StepRef) -> &mut Step {
    &mut algorithm.ranks[at.rank.index()].thread_blocks[at.tb.index()].steps[at.step.index()]
}

fn drop_wait(step: &mut Step, numbers: &mut Numbers) -> Option<()> {
    let index = numbers.index(step.waits.len());
    (!step.waits.is_empty()).then(|| {
        step.waits.remove(index);
    })
}

/// Swaps the step with the next one; waits for either move with it.
fn swap_steps(algorithm: &mut Algorithm, at: StepRef) -> Option<()> {
    let program = &mut algorithm.ranks[at.rank.index()];
    let steps = &mut program.thread_blocks[at.tb.index()].steps;
    let next = at.step.index() + 1;
    (next < steps.len()).then(|| steps.swap(at.step.index(), next))
}

fn shift_offset(step: &mut Step, numbers: &mut Numbers) -> Option<()> {
    let up = numbers.index(2) == 0;
    let places: Vec<&mut Slot> = step
        .sources
        .iter_mut()
        .chain(&mut step.destinations)
        .filter_map(|place| match place {
            Place::Local(slot) => Some(slot),
            Place::Link(_) => None,
        })
        .collect();
    let chosen = numbers.index(places.len());
    let slot = places.into_iter().nth(chosen)?;
    slot.index = if up { slot.index + 1 } else { slot.index.checked_sub(1)? };
    Some(())
}

/// Lets a step take from, or send to, another peer of its thread block, or of any.
fn rename_peer(algorithm: &mut Algorithm, at: StepRef, numbers: &mut Numbers) -> Option<()> {
    let ranks = algorithm.ranks.len();
    let other = Rank::from((at.rank.index() + 1 + numbers.index(ranks.saturating_sub(1))) % ranks);
    let block = &mut algorithm.ranks[at.rank.index()].thread_blocks[at.tb.index()];
    let step = &mut block.steps[at.step.index()];
    let sends = numbers.index(2) == 0;
    let (places, peers) = if sends {
        (&mut step.destinations, &mut block.sends)
    } else {
        (&mut step.sources, &mut block.receives)
    };
    let place = places.iter_mut().find(|place| matches!(place, Place::Link(_)))?;
    *place = Place::Link(other);
    if !peers.contains(&other) {
        peers.push(other);
        peers.sort_unstable();
    }
    Some(())
}

fn shrink_links(target: &mut Target) -> Option<()> {
    for link in [&mut target.simple, &mut target.ll, &mut target.ll128] {
        link.depth = 1;
    }
    Some(())
}

fn duplicate_contribution(step: &mut Step, numbers: &mut Numbers) -> Option<()> {
    let locals = step.sources.iter().filter(|place| matches!(place, Place::Local(_)));
    let chosen = locals.copied().nth(numbers.index(2))?;
    step.sources.push(chosen);
    Some(())
}

fn drop_contribution(step: &mut Step, numbers: &mut Numbers) -> Option<()> {
    let index = numbers.index(step.sources.len());
    (step.sources.len() > 1).then(|| {
        step.sources.remove(index);
    })
}

fn duplicate_step(algorithm: &mut Algorithm, at: StepRef) -> Option<()> {
    let copy = algorithm.step(at).clone();
    let program = &mut algorithm.ranks[at.rank.index()];
    program.thread_blocks[at.tb.index()].steps.insert(at.step.index(), copy);
    move_waits(&mut program.thread_blocks, at, |step| step + 1);
    Some(())
}

fn drop_step(algorithm: &mut Algorithm, at: StepRef) -> Option<()> {
    let program = &mut algorithm.ranks[at.rank.index()];
    program.thread_blocks[at.tb.index()].steps.remove(at.step.index());
    let dropped = Wait { tb: at.tb, step: at.step };
    for block in &mut program.thread_blocks {
        block.steps.iter_mut().for_each(|step| step.waits.retain(|wait| *wait != dropped));
    }
    move_waits(&mut program.thread_blocks, at, |step| step - 1);
    Some(())
}

/// Moves waits for steps behind `at`.
fn move_waits(blocks: &mut [msccl_ir::ThreadBlock], at: StepRef, to: impl Fn(u32) -> u32) {
    let waits = blocks.iter_mut().flat_map(|block| &mut block.steps).flat_map(|s| &mut s.waits);

    for wait in waits.filter(|wait| wait.tb == at.tb && wait.step > at.step) {
        wait.step = StepIndex(to(wait.step.0));
    }
}

fn widen_count(step: &mut Step) -> Option<()> {
    (step.count > 0).then(|| step.count += 1)
}
