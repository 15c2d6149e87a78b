//! What one thread does in a program, and how it checks what comes of it.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use msccl_testkit::Numbers;

use super::c_api::{self, Buffers, Comm, UniqueId};
use super::data;
use super::null_driver;
use super::program::{Call, Collective, Ending, Fate, Kind, Program, Reduction, Round};

/// Where the threads of a process meet, and, for people, how far they are.
pub struct Meeting {
    rounds: Vec<AtomicUsize>,
    /// Where messages move nothing, threads do not meet by one.
    without_gpus: Option<Barrier>,
}

impl Meeting {
    pub fn new(program: &Program, without_gpus: bool) -> Self {
        let threads = program.threads.len();
        let rounds = (0..threads).map(|_| AtomicUsize::new(0)).collect();
        Self { rounds, without_gpus: without_gpus.then(|| Barrier::new(threads)) }
    }

    /// The round in which each thread is.
    pub fn rounds(&self) -> impl Iterator<Item = usize> {
        self.rounds.iter().map(|round| round.load(Relaxed))
    }
}

/// By what ranks find one another.
pub struct Ids {
    /// For the communicators of the program: one or several, whose roots share the work.
    pub program: Vec<UniqueId>,
    /// For the communicator by which threads meet.
    pub meeting: UniqueId,
}

/// A thread, which has some of the ranks.
pub struct Thread<'a> {
    program: &'a Program,
    ranks: &'a [usize],
    number: usize,
    here: &'a Meeting,
    numbers: Numbers,
    /// Of all ranks, for nothing but to meet: one for each rank of this thread.
    meeting: Vec<Comm>,
    /// By number of the communicator, and rank of all.
    comms: BTreeMap<(usize, usize), Comm>,
}

/// Memory of one call of one rank, with what must be in it afterwards.
struct Memory {
    bytes: Vec<u8>,
    before: Vec<u8>,
    expected: Vec<u8>,
    from: usize,
    to: usize,
    what: String,
}

/// One call of one rank.
struct Step {
    comm: (usize, usize),
    action: Action,
    memory: usize,
}

#[derive(Clone, Copy)]
enum Action {
    Collective(Collective),
    Send(Collective, usize),
    Receive(Collective, usize),
}

/// Around all that calls may touch.
const GUARD: [u8; 24] = [0xa5; 24];

impl<'a> Thread<'a> {
    pub fn new(program: &'a Program, number: usize, here: &'a Meeting, seed: u64) -> Self {
        let numbers = Numbers(seed ^ (number as u64 + 1) << 48);
        let ranks = &program.threads[number];
        Self { program, ranks, number, here, numbers, meeting: Vec::new(), comms: BTreeMap::new() }
    }

    /// Does the whole program.
    pub fn run(mut self, ids: &Ids) {
        let device = self.here.without_gpus.as_ref().map(|_| self.number as u32 % 3);
        let _current = device.map(|device| null_driver::context(device).enter().unwrap());
        let join = |ids: &[UniqueId], blocking| {
            let all = self.program.members[0].len();
            let own: Vec<_> = self.ranks.iter().map(|rank| (*rank, Comm::none())).collect();
            c_api::group(|| {
                own.iter().for_each(|(rank, comm)| comm.join(all, *rank, ids, blocking))
            });
            own
        };
        let (own, meeting) =
            (join(&ids.program, self.program.blocking), join(&[ids.meeting], true));
        self.meeting = meeting.into_iter().map(|(_, comm)| comm).collect();
        for (rank, comm) in own {
            self.keep(0, rank, comm);
        }
        for (number, round) in self.program.rounds.iter().enumerate() {
            self.here.rounds[self.number].store(number, Relaxed);
            self.round(round);
        }
        assert!(self.comms.is_empty(), "communicators are left over");
        self.meeting.iter().for_each(Comm::destroy);
    }

    /// Waits until all threads are here.
    fn meet(&self) {
        if let Some(barrier) = &self.here.without_gpus {
            barrier.wait();
            return;
        }
        let mut words = vec![0_u32; self.meeting.len()];
        let buffers: Vec<_> = words.iter_mut().map(Buffers::in_place).collect();
        c_api::group(|| {
            self.meeting.iter().zip(buffers).for_each(|(comm, buffer)| comm.meet(buffer));
        });
    }

    /// Several jobs of one thread wait for one another unless they are a group; one may be alone.
    fn together(&mut self, jobs: usize, body: impl FnOnce()) {
        if jobs > 1 || self.numbers.one_in(3) { c_api::group(body) } else { body() }
    }

    /// Keeps a new communicator, after a look at it.
    fn keep(&mut self, number: usize, rank: usize, comm: Comm) {
        let members = &self.program.members[number];
        let here = members.iter().position(|member| *member == rank).unwrap();
        comm.settle();
        assert_eq!(
            comm.rank_and_ranks(),
            (here, members.len()),
            "communicator {number} of rank {rank}"
        );
        self.comms.insert((number, rank), comm);
    }

    /// The ranks of this thread in communicator `number`, with their ranks there.
    fn members(&self, number: usize) -> Vec<(usize, usize)> {
        let members = self.program.members[number].iter().enumerate();
        members
            .filter(|(_, rank)| self.ranks.contains(rank))
            .map(|(here, rank)| (here, *rank))
            .collect()
    }

    fn round(&mut self, round: &Round) {
        match round {
            Round::Split { parent, colors, children } => self.split(*parent, colors, children),
            Round::Shrink { parent, excluded, child } => self.shrink(*parent, excluded, *child),
            Round::Revoke { comm } => {
                self.meet();
                self.members(*comm)
                    .iter()
                    .for_each(|(_, rank)| self.comms[&(*comm, *rank)].revoke());
            }
            Round::Calls { calls, fate } => self.calls(calls, *fate),
            Round::End { comm, how } => self.end(*comm, *how),
        }
    }

    fn split(&mut self, parent: usize, colors: &[(Option<i32>, i32)], children: &[usize]) {
        let made: Vec<_> =
            self.members(parent).into_iter().map(|member| (member, Comm::none())).collect();
        let parents: Vec<_> = made
            .iter()
            .map(|((_, rank), _)| self.comms.remove(&(parent, *rank)).unwrap())
            .collect();
        self.together(made.len(), || {
            for (of, ((here, _), child)) in parents.iter().zip(&made) {
                of.split(colors[*here], child);
            }
        });
        for (of, ((here, rank), child)) in parents.into_iter().zip(made) {
            of.settle();
            self.comms.insert((parent, rank), of);
            assert_eq!(child.exists(), colors[here].0.is_some(), "split of communicator {parent}");
            let number =
                children.iter().find(|number| self.program.members[**number].contains(&rank));
            // Only children of this split are in the list.
            if let Some(number) = number.filter(|_| colors[here].0.is_some()) {
                self.keep(*number, rank, child);
            }
        }
    }

    fn shrink(&mut self, parent: usize, excluded: &[usize], child: usize) {
        let mut survivors = self.members(parent);
        survivors.retain(|(here, _)| !excluded.contains(here));
        let made: Vec<_> = survivors.into_iter().map(|(_, rank)| (rank, Comm::none())).collect();
        let parents: Vec<_> =
            made.iter().map(|(rank, _)| self.comms.remove(&(parent, *rank)).unwrap()).collect();
        self.together(made.len(), || {
            parents.iter().zip(&made).for_each(|(of, (_, comm))| of.shrink(excluded, comm));
        });
        for (of, (rank, comm)) in parents.into_iter().zip(made) {
            of.settle();
            self.comms.insert((parent, rank), of);
            self.keep(child, rank, comm);
        }
    }

    fn end(&mut self, number: usize, how: Ending) {
        let ranks = self.members(number).into_iter().map(|(_, rank)| rank);
        let own: Vec<_> = ranks.map(|rank| self.comms.remove(&(number, rank)).unwrap()).collect();
        match how {
            Ending::Destroyed => {}
            Ending::FinalizedAndDestroyed => own.iter().for_each(Comm::finalize),
            Ending::Aborted => self.meet(),
        }
        let end = match how {
            Ending::Destroyed | Ending::FinalizedAndDestroyed => Comm::destroy,
            Ending::Aborted => Comm::abort,
        };
        let grouped = self.numbers.one_in(2);
        let end_all = || own.iter().for_each(end);
        if grouped { c_api::group(end_all) } else { end_all() }
    }

    /// Makes `calls`, those of one communicator and rank in order, and checks what they leave
    /// behind.
    fn calls(&mut self, calls: &[Call], fate: Fate) {
        let mut memories = Vec::new();
        let mut queues: BTreeMap<_, Vec<Step>> = BTreeMap::new();
        for call in calls {
            self.steps(call, &mut memories, &mut queues);
        }
        let order = self.numbers.merge(queues.into_values().collect());
        // The memory stays where it is until all calls are done.
        let buffers: Vec<_> = memories.iter_mut().map(Memory::buffers).collect();
        if self.numbers.one_in(4) {
            let register =
                |step: &Step| self.comms[&step.comm].register(buffers[step.memory].to, 64);
            order.iter().for_each(register);
        }
        let operators: Vec<_> = order.iter().map(|step| self.operator(step)).collect();
        let (comms, early) = (&self.comms, self.numbers.one_in(2));
        let make = || {
            for (step, operator) in order.iter().zip(&operators) {
                let comm = &comms[&step.comm];
                step.make(comm, buffers[step.memory], operator.unwrap_or(0));
                operator.filter(|_| early).inspect(|operator| comm.forget(*operator));
            }
            if let (Fate::Refused, Some(step)) = (fate, order.first()) {
                comms[&step.comm].be_refused();
            }
        };
        let may_be_alone = calls.len() == 1 && order.len() == 1 && fate == Fate::Executed;
        let fate = if order.is_empty() { Fate::Executed } else { fate };
        if may_be_alone && !matches!(calls, [Call::Message { .. }]) && !self.numbers.one_in(3) {
            make();
        } else {
            c_api::group_with_fate(fate, make);
        }
        for (step, operator) in order.iter().zip(&operators) {
            comms[&step.comm].settle();
            operator.filter(|_| !early).inspect(|operator| comms[&step.comm].forget(*operator));
        }
        if self.here.without_gpus.is_none() {
            memories.iter().for_each(|memory| memory.check(fate));
        }
    }

    /// The operator that `step` needs, if it is none of the built-in ones.
    fn operator(&self, step: &Step) -> Option<i32> {
        let Action::Collective(of) = step.action else { return None };
        let scales = matches!(
            of.kind,
            Kind::AllReduce(Reduction::Scaled)
                | Kind::ReduceScatter(Reduction::Scaled)
                | Kind::Reduce(Reduction::Scaled, _)
        );
        let rank =
            self.program.members[step.comm.0].iter().position(|rank| *rank == step.comm.1)?;
        let scalar = data::encode(of.element, std::iter::once(data::scalar(rank)));
        scales.then(|| self.comms[&step.comm].scaling(&scalar, of.element))
    }

    /// What the ranks of this thread have to do for `call`, in queues that keep their order.
    fn steps(
        &mut self,
        call: &Call,
        memories: &mut Vec<Memory>,
        queues: &mut BTreeMap<(usize, usize, usize), Vec<Step>>,
    ) {
        let mut add = |comm: (usize, usize), queue: usize, action, memory| {
            let steps = queues.entry((comm.0, comm.1, queue)).or_default();
            steps.push(Step { comm, action, memory: memories.len() });
            memories.push(memory);
        };
        match *call {
            Call::Collective { comm, collective } => {
                for (here, rank) in self.members(comm) {
                    let memory = Memory::of_collective(&collective, here, &mut self.numbers);
                    add((comm, rank), 0, Action::Collective(collective), memory);
                }
            }
            Call::Message { comm, from, to, collective } => {
                for (here, rank) in self.members(comm) {
                    if here == from {
                        let memory = Memory::sent(&collective, from);
                        add((comm, rank), 1 + to, Action::Send(collective, to), memory);
                    }
                    if here == to {
                        let memory = Memory::received(&collective, to);
                        add((comm, rank), 100 + from, Action::Receive(collective, from), memory);
                    }
                }
            }
        }
    }
}

impl Step {
    fn make(&self, comm: &Comm, buffers: Buffers, operator: i32) {
        match &self.action {
            Action::Collective(collective) => comm.call(collective, buffers, operator),
            Action::Send(message, peer) => comm.send(message, buffers.from, *peer),
            Action::Receive(message, peer) => comm.receive(message, buffers.to, *peer),
        }
    }
}

impl Memory {
    /// Of rank `rank`, in place or not; what a rank neither reads nor writes may lie anywhere.
    fn of_collective(collective: &Collective, rank: usize, numbers: &mut Numbers) -> Self {
        let (input, output) = (data::input(collective, rank), data::output(collective, rank));
        let block = collective.count * collective.element.bytes();
        let own = collective.own_block(rank) * block;
        let overlaps = collective.in_place && !input.is_empty() && !output.is_empty();
        let lead = GUARD.len() + collective.element.bytes() * numbers.index(5);
        let (from, to) = match (overlaps, input.len() > output.len()) {
            (true, true) => (lead, lead + own),
            (true, false) => (lead + own, lead),
            (false, _) => (lead, lead + input.len() + GUARD.len()),
        };
        Self::new((from, &input), (to, &output), format!("{collective:?} on rank {rank}"))
    }

    fn sent(message: &Collective, from: usize) -> Self {
        let input = data::input(message, from);
        Self::new((GUARD.len(), &input), (0, &[]), format!("{message:?} sent"))
    }

    fn received(message: &Collective, to: usize) -> Self {
        let output = data::output(message, to);
        Self::new((0, &[]), (GUARD.len(), &output), format!("{message:?} received by rank {to}"))
    }

    fn new((from, input): (usize, &[u8]), (to, output): (usize, &[u8]), what: String) -> Self {
        let end = (from + input.len()).max(to + output.len()) + GUARD.len();
        let mut bytes = vec![GUARD[0]; end];
        bytes[from..from + input.len()].copy_from_slice(input);
        let (before, mut expected) = (bytes.clone(), bytes.clone());
        expected[to..to + output.len()].copy_from_slice(output);
        Self { bytes, before, expected, from, to, what }
    }

    fn buffers(&mut self) -> Buffers {
        let start = self.bytes.as_mut_ptr();
        let at = |offset: usize| start.wrapping_add(offset).cast();
        Buffers { from: at(self.from), to: at(self.to) }
    }

    #[track_caller]
    fn check(&self, fate: Fate) {
        let expected = if fate == Fate::Executed { &self.expected } else { &self.before };
        let differs =
            self.bytes.iter().zip(expected).position(|(found, expected)| found != expected);
        let Some(at) = differs else { return };
        let (found, expected) = (self.bytes[at], expected[at]);
        panic!(
            "{}: byte {at} is {found:#x}, expected {expected:#x} (input at {}, output at {})",
            self.what, self.from, self.to
        );
    }
}
