//! What a step knows of other thread blocks: how many of their steps have ended before it.
//!
//! Thread blocks that waits and links join form *groups*; nobody knows anything of another group.
//! The steps of a group are walked in the order of a run, three rounds one after the other, with a
//! vector clock for each block: a column for each block about which there is a question,
//! [`COLUMNS`] at a time. That takes time linear in steps for groups of few blocks, and steps times
//! blocks at worst.

use std::collections::VecDeque;

use msccl_machine::{LinkId, TbId};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::regions::{About, Question};
use super::traffic::{Moment, Traffic};
use crate::program::{At, Program, StepId};

/// How many thread blocks one pass follows.
const COLUMNS: usize = 32;

/// Rounds that are walked: a question about a sender in the last may rest on any of them.
const ROUNDS: u32 = 3;

/// For each followed thread block, how many of its steps have ended in all rounds.
type Clock = [u32; COLUMNS];

/// What was found.
pub(super) struct Answers {
    /// Facts whose order does not exist.
    pub(super) denied: FxHashSet<(LinkId, About)>,
    /// Links of which the sending rank does not know at its end that all messages are received.
    pub(super) not_taken: FxHashSet<LinkId>,
    /// For every link, how far its sender may be ahead.
    pub(super) ahead: Vec<Option<u32>>,
}

/// Answers the questions, and finds for every link how far its sender is ahead.
pub(super) fn ask(
    program: &Program<'_>,
    order: &[At],
    traffic: &Traffic,
    mut questions: Vec<Question>,
) -> Answers {
    let groups = Groups::of(program);
    let mut steps = vec![Vec::new(); groups.count];
    order.iter().for_each(|&at| steps[groups.of_tb[at.tb.index()]].push(at));
    let mut links = vec![Vec::new(); groups.count];
    for (link, ends) in (0..).map(LinkId).zip(program.wiring.links()) {
        links[groups.of_tb[ends.receiver.index()]].push(link);
    }
    let group = |tb: TbId| groups.of_tb[tb.index()];
    questions.sort_by_key(|question| (group(question.earlier.tb), question.earlier.tb));

    let mut walk = Walk::new(program, traffic);
    let mut rest = questions.as_slice();
    for (index, steps) in steps.iter().enumerate() {
        let of_group = rest.partition_point(|question| group(question.earlier.tb) <= index);
        let (questions, others) = rest.split_at(of_group);
        // Nothing is known of other groups.
        let strange = questions.iter().filter(|question| group(question.later.tb) != index);
        strange.for_each(|question| walk.deny(question));
        walk.group(steps, &links[index], questions);
        rest = others;
    }
    walk.answers
}

/// Thread blocks that are joined by links and waits.
struct Groups {
    of_tb: Vec<usize>,
    count: usize,
}

impl Groups {
    fn of(program: &Program<'_>) -> Self {
        let mut parent: Vec<usize> = (0..program.wiring.tb_count()).collect();
        for ends in program.wiring.links() {
            join_sets(&mut parent, ends.sender, ends.receiver);
        }
        for tb in (0..program.wiring.tb_count() as u32).map(TbId) {
            for wait in program.wiring.block(tb).steps.iter().flat_map(|step| &step.waits) {
                let target = program.wiring.tb_id(program.wiring.rank(tb), wait.tb);
                join_sets(&mut parent, tb, target);
            }
        }
        let mut numbers = FxHashMap::default();
        let roots: Vec<_> = (0..parent.len()).map(|tb| root(&mut parent, tb)).collect();
        let of_tb = roots.into_iter().map(|root| {
            let next = numbers.len();
            *numbers.entry(root).or_insert(next)
        });
        let of_tb = of_tb.collect();
        Self { of_tb, count: numbers.len() }
    }
}

fn root(parent: &mut [usize], mut tb: usize) -> usize {
    while parent[tb] != tb {
        parent[tb] = parent[parent[tb]];
        tb = parent[tb];
    }
    tb
}

fn join_sets(parent: &mut [usize], a: TbId, b: TbId) {
    let (a, b) = (root(parent, a.index()), root(parent, b.index()));
    parent[a] = b;
}

/// Walks groups, one after the other.
struct Walk<'a> {
    program: &'a Program<'a>,
    traffic: &'a Traffic,
    /// By thread block: its column in this pass.
    column: Vec<Option<usize>>,
    /// By thread block: what it knows.
    now: Vec<Clock>,
    /// By link: what the senders of the messages under way knew.
    under_way: Vec<VecDeque<Clock>>,
    awaited: Awaited,
    answers: Answers,
}

impl<'a> Walk<'a> {
    fn new(program: &'a Program<'a>, traffic: &'a Traffic) -> Self {
        let (blocks, links) = (program.wiring.tb_count(), program.wiring.links().len());
        Self {
            program,
            traffic,
            column: vec![None; blocks],
            now: vec![[0; COLUMNS]; blocks],
            under_way: vec![VecDeque::new(); links],
            awaited: Awaited::of(program),
            answers: Answers {
                denied: FxHashSet::default(),
                not_taken: FxHashSet::default(),
                ahead: vec![Some(0); links],
            },
        }
    }

    /// Walks the steps of one group as often as it takes to follow all blocks in question.
    fn group(&mut self, steps: &[At], links: &[LinkId], questions: &[Question]) {
        let receivers = links.iter().map(|link| self.program.wiring.links()[link.index()].receiver);
        let mut blocks: Vec<_> =
            receivers.chain(questions.iter().map(|question| question.earlier.tb)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        for followed in blocks.chunks(COLUMNS) {
            for (column, tb) in followed.iter().enumerate() {
                self.column[tb.index()] = Some(column);
            }
            let (first, last) = (followed[0], followed[followed.len() - 1]);
            let start = questions.partition_point(|question| question.earlier.tb < first);
            let end = questions.partition_point(|question| question.earlier.tb <= last);
            self.pass(steps, links, &questions[start..end]);
            followed.iter().for_each(|tb| self.column[tb.index()] = None);
        }
    }

    fn pass(&mut self, steps: &[At], links: &[LinkId], questions: &[Question]) {
        let mut by_step: FxHashMap<StepId, SmallVec<[Question; 2]>> = FxHashMap::default();
        for question in questions {
            by_step.entry(self.program.id(question.later)).or_default().push(*question);
        }
        for round in 0..ROUNDS {
            for &at in steps {
                let id = self.program.id(at);
                let clock = self.beginning(at, id);
                if round == 0 {
                    by_step.get(&id).into_iter().flatten().for_each(|it| self.answer(it, &clock));
                }
                if round + 1 == ROUNDS {
                    self.sends(at, round, &clock);
                }
                self.end(at, id, round, clock);
            }
            if round == 0 {
                links.iter().for_each(|&link| self.end_of_rank(link));
            }
        }
        // Columns mean other blocks in the next pass.
        steps.iter().for_each(|at| self.now[at.tb.index()] = [0; COLUMNS]);
    }

    /// What has ended before the step, position by position.
    fn beginning(&mut self, at: At, id: StepId) -> Clock {
        let mut clock = self.now[at.tb.index()];
        for wait in self.program.waits(at) {
            self.awaited.merge_into(self.program.id(wait), &mut clock);
        }
        if self.program.senders(id).is_empty() {
            return clock;
        }
        for from in self.program.step(at).receives() {
            let link = self.program.wiring.link_from(at.tb, from);
            let known = link.and_then(|link| self.under_way[link.index()].pop_front());
            if let Some(known) = known {
                join(&mut clock, &known);
            }
        }
        clock
    }

    fn end(&mut self, at: At, id: StepId, round: u32, mut clock: Clock) {
        if let Some(column) = self.column[at.tb.index()] {
            clock[column] = round * self.steps_of(at.tb) + at.step + 1;
        }
        for to in self.program.step(at).sends() {
            if let Some(link) = self.program.wiring.link_to(at.tb, to) {
                self.under_way[link.index()].push_back(clock);
            }
        }
        self.awaited.keep(id, &clock);
        self.now[at.tb.index()] = clock;
    }

    fn answer(&mut self, question: &Question, clock: &Clock) {
        let earlier = question.earlier;
        let Some(column) = self.column[earlier.tb.index()] else { return };
        if clock[column] <= earlier.step {
            self.deny(question);
        }
    }

    fn deny(&mut self, question: &Question) {
        self.answers.denied.insert((question.link, question.about));
    }

    /// A sender in the last round: how far is it ahead of receivers that are followed?
    fn sends(&mut self, at: At, round: u32, clock: &Clock) {
        for to in self.program.step(at).sends() {
            let Some(link) = self.program.wiring.link_to(at.tb, to) else { continue };
            let receiver = self.program.wiring.links()[link.index()].receiver;
            let Some(column) = self.column[receiver.index()] else { continue };
            let moment = Moment { round, send: at.step, steps: self.steps_of(receiver) };
            let ahead = self.traffic.ahead(link, moment, clock[column]);
            let most = &mut self.answers.ahead[link.index()];
            *most = most.zip(ahead).map(|(most, ahead)| most.max(ahead));
        }
    }

    /// The end of the first round: does any block of the sending rank know of the last message?
    fn end_of_rank(&mut self, link: LinkId) {
        let wiring = &self.program.wiring;
        let ends = wiring.links()[link.index()];
        let (Some(column), Some(last)) =
            (self.column[ends.receiver.index()], self.traffic.of_link(link).last())
        else {
            return;
        };
        let mut blocks = wiring.tbs_of(wiring.rank(ends.sender));
        let known = blocks.any(|tb| self.now[tb as usize][column] > last.receive);
        if !known {
            self.answers.not_taken.insert(link);
        }
    }

    fn steps_of(&self, tb: TbId) -> u32 {
        self.program.wiring.block(tb).steps.len() as u32
    }
}

/// What awaited steps knew at their end, until the last of those that wait has begun.
struct Awaited {
    /// By step: how many wait for it.
    waiters: Vec<u32>,
    /// By step: how many of them have not begun.
    left: Vec<u32>,
    /// By step: its place among `clocks`, while somebody is left.
    place: Vec<u32>,
    clocks: Vec<Clock>,
    free: Vec<u32>,
}

impl Awaited {
    fn of(program: &Program<'_>) -> Self {
        let mut waiters = vec![0; program.step_count()];
        for tb in (0..program.wiring.tb_count() as u32).map(TbId) {
            for step in 0..program.wiring.block(tb).steps.len() as u32 {
                for wait in program.waits(At { tb, step }) {
                    waiters[program.id(wait).index()] += 1;
                }
            }
        }
        let none = vec![0; waiters.len()];
        Self { waiters, left: none.clone(), place: none, clocks: Vec::new(), free: Vec::new() }
    }

    /// A step has ended.
    fn keep(&mut self, id: StepId, clock: &Clock) {
        self.left[id.index()] = self.waiters[id.index()];
        if self.left[id.index()] == 0 {
            return;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.clocks.push([0; COLUMNS]);
            self.clocks.len() as u32 - 1
        });
        self.clocks[place as usize] = *clock;
        self.place[id.index()] = place;
    }

    /// Somebody who waits for the step begins. The run has ended it before.
    fn merge_into(&mut self, id: StepId, clock: &mut Clock) {
        let place = self.place[id.index()];
        join(clock, &self.clocks[place as usize]);
        self.left[id.index()] -= 1;
        if self.left[id.index()] == 0 {
            self.free.push(place);
        }
    }
}

fn join(into: &mut Clock, from: &Clock) {
    for (into, &from) in into.iter_mut().zip(from) {
        *into = from.max(*into);
    }
}
