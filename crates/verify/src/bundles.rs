//! Which steps of a thread block may run as one.
//!
//! A *bundle* is a sequence of steps of one thread block, each of which copies one chunk. It runs
//! as one step with as many sources as destinations: it waits for everything that any of them waits
//! for, copies all, and only then hands anything on. So it costs one wait, one look at its operands
//! and one fence, and its copies are under way together.
//!
//! `docs/VERIFICATION.md`, section 11, says why a run with bundles gives what a run without them
//! gives, and ends. It takes three conditions, and this module checks each of them:
//!
//! * the steps of a bundle do not depend on one another: no two use one link, and none touches
//!   memory that another writes ([`Group::takes`]);
//! * they are alike: all receive or none, all send or none, and only the first waits for other
//!   thread blocks, which wait only for the last ([`Group::takes`]);
//! * the order in which bundles, and all other steps, come after one another is no circle
//!   ([`ends`]).
//!
//! Not claimed: that these are all. An algorithm with counted steps on links has none, nor has one
//! whose bundles, all together, would wait for one another.

use std::ops::Range;

use msccl_collective::{Rank, Region, TbIndex};
use msccl_ir::{Place, Step};
use msccl_machine::TbId;

use crate::Verified;
use crate::memory::{Call, Memory};
use crate::program::{At, Program, StepId};
use crate::regime::largest_count;
use crate::values::Completion;

/// Most steps of a bundle. One thread of a warp looks at each of its operands.
const STEPS_MAX: usize = 16;

/// Steps of a thread block that may run as one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bundle {
    /// Whose.
    pub rank: Rank,
    /// Of which thread block.
    pub tb: TbIndex,
    /// Which steps: at least two.
    pub steps: Range<u32>,
}

/// The bundles of a proved algorithm, in the order of ranks, thread blocks and steps.
pub(crate) fn of(verified: &Verified) -> Vec<Bundle> {
    let algorithm = verified.algorithm();
    // Most algorithms have no two copies in a row: then there is nothing to look for.
    let mut blocks = algorithm.thread_blocks();
    let has_copies =
        blocks.any(|(_, _, block)| block.steps.windows(2).any(|pair| pair.iter().all(is_copy)));
    if !has_copies || largest_count(algorithm) != 1 {
        return Vec::new();
    }
    // A proved algorithm is well formed.
    let Ok(program) = Program::new(algorithm) else { return Vec::new() };
    let Some(search) = BundleSearch::new(&program, verified) else { return Vec::new() };
    let groups = search.groups();
    if groups.iter().all(|group| group.steps.len() == 1)
        || !ends(&program, &groups, verified.facts().least_link_depth)
    {
        return Vec::new();
    }
    let bundles = groups.into_iter().filter(|group| group.steps.len() > 1);
    bundles
        .map(|Group { tb, steps }| Bundle {
            rank: program.wiring.rank(tb),
            tb: program.wiring.tb_index(tb),
            steps,
        })
        .collect()
}

/// Steps of a thread block that are to run as one, or a step alone.
struct Group {
    tb: TbId,
    steps: Range<u32>,
}

/// What the search for groups knows.
struct BundleSearch<'a> {
    program: &'a Program<'a>,
    completion: Option<&'a Completion>,
    /// In place, if such calls are served: more conflicts than out of place.
    memory: Memory<'a>,
    awaited: Vec<bool>,
}

impl<'a> BundleSearch<'a> {
    /// `None` if no call is served.
    fn new(program: &'a Program<'a>, verified: &'a Verified) -> Option<Self> {
        let call = Call::served(verified.algorithm()).next()?;
        let memory = Memory::new(verified.algorithm(), call);
        let completion = verified.facts().completion.as_ref();
        Some(Self { program, completion, memory, awaited: awaited(program) })
    }

    /// Every step of every thread block in a group, as many as go together from the first on.
    fn groups(&self) -> Vec<Group> {
        let mut groups = Vec::new();
        for tb in (0..self.program.wiring.tb_count() as u32).map(TbId) {
            let steps = self.program.wiring.block(tb).steps.len() as u32;
            let mut next = 0;
            while next < steps {
                let mut group = Group { tb, steps: next..next + 1 };
                while group.steps.end < steps && self.goes_on(&group) {
                    group.steps.end += 1;
                }
                next = group.steps.end;
                groups.push(group);
            }
        }
        groups
    }

    /// Whether the step after `group` may run as one with those in it.
    fn goes_on(&self, group: &Group) -> bool {
        let [last, next] =
            [group.steps.end - 1, group.steps.end].map(|step| At { tb: group.tb, step });
        !self.awaited[self.program.id(last).index()]
            && self.copies(last)
            && self.copies(next)
            && group.takes(self.program, &self.memory)
    }

    /// Whether a step copies one chunk, and completes no sum.
    fn copies(&self, at: At) -> bool {
        let completes = |steps: &Completion| steps.contains(self.program.step_ref(at));
        is_copy(self.program.step(at)) && !self.completion.is_some_and(completes)
    }
}

/// Whether it copies one chunk from one place to one other.
fn is_copy(step: &Step) -> bool {
    step.count == 1 && step.sources.len() == 1 && step.destinations.len() == 1
}

/// By step: whether another thread block waits for it.
fn awaited(program: &Program<'_>) -> Vec<bool> {
    let mut awaited = vec![false; program.step_count()];
    for at in program.ats() {
        program.waits(at).for_each(|other| awaited[program.id(other).index()] = true);
    }
    awaited
}

impl Group {
    /// Whether the step after it may run as one with those in it; all are copies.
    fn takes(&self, program: &Program<'_>, memory: &Memory<'_>) -> bool {
        let rank = program.wiring.rank(self.tb);
        let all = &program.wiring.block(self.tb).steps;
        let next = &all[self.steps.end as usize];
        let own = &all[self.steps.start as usize..self.steps.end as usize];
        let kind = |step: &Step| (step.receives().next(), step.sends().next());
        let alike = |step: &Step| {
            let [(from, to), (next_from, next_to)] = [kind(step), kind(next)];
            from.is_some() == next_from.is_some() && to.is_some() == next_to.is_some()
        };
        let cell = |region: Region| memory.cell(rank, region.start);
        own.len() < STEPS_MAX
            && next.waits.is_empty()
            && own.iter().all(|step| {
                let touches = |write: usize, other: &Step| {
                    other.reads().chain(other.writes()).any(|region| cell(region) == write)
                };
                alike(step)
                    && !shares_link(step, next)
                    && !step.writes().any(|region| touches(cell(region), next))
                    && !next.writes().any(|region| touches(cell(region), step))
            })
    }
}

/// Whether both take a message from one link, or both post one on it.
fn shares_link(one: &Step, other: &Step) -> bool {
    let same = |one: &[Place], other: &[Place]| {
        one.iter().any(|place| matches!(place, Place::Link(_)) && other.contains(place))
    };
    same(&one.sources, &other.sources) || same(&one.destinations, &other.destinations)
}

/// Whether all groups of all ranks can run, one whole group after another, on links of `depth`
/// messages.
fn ends(program: &Program<'_>, groups: &[Group], depth: u32) -> bool {
    let mut group_of = vec![0; program.step_count()];
    for (number, Group { tb, steps }) in groups.iter().enumerate() {
        for step in steps.clone() {
            group_of[program.id(At { tb: *tb, step }).index()] = number;
        }
    }
    let edges = edges(program, groups, depth);
    let edges = edges.into_iter().map(|(from, to)| (group_of[from.index()], group_of[to.index()]));
    has_order(groups.len(), edges.filter(|(from, to)| from != to).collect())
}

/// What must end before what begins: the steps of a thread block one after another, steps that are
/// waited for, messages, and free entries for them.
fn edges(program: &Program<'_>, groups: &[Group], depth: u32) -> Vec<(StepId, StepId)> {
    let first = |group: &Group| program.id(At { tb: group.tb, step: group.steps.start });
    let neighbours = groups.windows(2).filter(|pair| pair[0].tb == pair[1].tb);
    let mut edges: Vec<_> = neighbours.map(|pair| (first(&pair[0]), first(&pair[1]))).collect();
    let mut messages = vec![Vec::new(); program.wiring.links().len()];
    for at in program.ats() {
        let (step, senders) = (program.id(at), program.senders(program.id(at)));
        edges.extend(program.waits(at).map(|other| (program.id(other), step)));
        edges.extend(senders.iter().map(|&sender| (sender, step)));
        for (from, &sender) in program.step(at).receives().zip(senders) {
            let link = program.wiring.link_from(at.tb, from);
            link.into_iter().for_each(|link| messages[link.index()].push((sender, step)));
        }
    }
    for link in &messages {
        let later = link.iter().skip(depth as usize);
        edges.extend(link.iter().zip(later).map(|(&(_, taken), &(sent, _))| (taken, sent)));
    }
    edges
}

/// Whether `count` things can be put in an order in which every edge goes forward.
fn has_order(count: usize, mut edges: Vec<(usize, usize)>) -> bool {
    edges.sort_unstable();
    let mut before = vec![0_usize; count];
    edges.iter().for_each(|&(_, to)| before[to] += 1);
    let mut ready: Vec<_> = (0..count).filter(|&node| before[node] == 0).collect();
    let mut ordered = 0;
    while let Some(node) = ready.pop() {
        ordered += 1;
        let first = edges.partition_point(|&(from, _)| from < node);
        for &(_, to) in edges[first..].iter().take_while(|&&(from, _)| from == node) {
            before[to] -= 1;
            if before[to] == 0 {
                ready.push(to);
            }
        }
    }
    ordered == count
}
