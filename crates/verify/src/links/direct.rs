//! Which links may leave out a copy, all at once.
//!
//! `docs/MEMORY.md`, section 2, defines the conditions and proves that they suffice. A link that
//! delivers directly moves one access to the other end: the store to the region of a *push* is made
//! by the sending step, the load from the region of a *pull* by the receiving one. [`of`] begins
//! with what each link could do by itself, scans the cells of every rank with accesses as they are
//! really made, and lets go of what breaks an order, until nothing does.

use msccl_collective::{Buffer, Channel, Rank, Region, Slot};
use msccl_ir::{Step, StepRef};
use msccl_machine::LinkId;
use smallvec::SmallVec;

use super::access::{self, Local};
use super::knowledge;
use super::regions::{About, Question};
use super::traffic::Traffic;
use crate::memory::{Call, Memory};
use crate::program::{At, Program};
use crate::{Facts, Verified, deadlock};

/// How messages of a link get from their source to their destination.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Delivery {
    /// Through slots: the sender copies in, the receiver copies out.
    #[default]
    Staged,
    /// The sender stores where the receiver wants them.
    Push,
    /// The receiver loads from where they lie at the sender.
    Pull {
        /// Whether the sender needs an acknowledgement, before its call ends, that all have been
        /// received: nothing in the algorithm is one.
        acknowledgement: bool,
    },
}

/// A link that may deliver its messages directly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectLink {
    /// The rank that sends.
    pub from: Rank,
    /// The rank that receives.
    pub to: Rank,
    /// The channel.
    pub channel: Channel,
    /// Push or pull.
    pub delivery: Delivery,
    /// What each step of the sender sends, in order.
    pub messages: Vec<DirectMessage>,
}

/// What one step sends over a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectMessage {
    /// The sending step.
    pub send: StepRef,
    /// The receiving step.
    pub receive: StepRef,
    /// Where the message goes (push, at the receiver) or comes from (pull, at the sender).
    pub region: Region,
}

/// All links that may deliver directly, in the order of sending thread blocks, then of receiving
/// ranks.
pub(crate) fn of(verified: &Verified) -> Vec<DirectLink> {
    let Facts { fewest_chunks_per_message, least_link_depth, serves_any_count, .. } =
        *verified.facts();
    // A proved algorithm is well formed, and ends so.
    let Ok(program) = Program::new(verified.algorithm()) else { return Vec::new() };
    let order = deadlock::order(&program, fewest_chunks_per_message, least_link_depth);
    let Some(order) = order else { return Vec::new() };
    let traffic = Traffic::of(&program, fewest_chunks_per_message);
    let subject = Subject { program: &program, traffic: &traffic, serves_any_count };
    let links = (0..program.wiring.links().len() as u32).map(LinkId);
    let mut chosen: Vec<_> = links.map(|link| subject.first_choice(link)).collect();
    while chosen.iter().any(|delivery| *delivery != Delivery::Staged) {
        let scanned = DirectScan::new(&subject, &chosen).run(&order);
        let answers = knowledge::ask(&program, &order, &traffic, scanned.questions);
        let questions = answers.denied.into_iter().map(|(link, _)| link);
        let mut broken: Vec<_> = questions.chain(scanned.broken).collect();
        if broken.is_empty() {
            answers.not_taken.iter().for_each(|link| need_ack(&mut chosen[link.index()]));
            break;
        }
        broken.sort_unstable_by_key(|link| link.0);
        broken.dedup();
        broken.iter().for_each(|&link| subject.let_go(link, &mut chosen[link.index()]));
    }
    subject.described(&chosen)
}

fn need_ack(delivery: &mut Delivery) {
    if let Delivery::Pull { acknowledgement } = delivery {
        *acknowledgement = true;
    }
}

/// What is in question.
struct Subject<'a> {
    program: &'a Program<'a>,
    traffic: &'a Traffic,
    serves_any_count: bool,
}

impl Subject<'_> {
    /// The best that the link's own steps allow.
    fn first_choice(&self, link: LinkId) -> Delivery {
        let messages = self.traffic.of_link(link).len();
        let all = |delivery| (0..messages).all(|at| self.region(link, at, delivery).is_some());
        match messages {
            0 => Delivery::Staged,
            _ if all(Delivery::Push) => Delivery::Push,
            _ if all(Delivery::Pull { acknowledgement: false }) => {
                Delivery::Pull { acknowledgement: false }
            }
            _ => Delivery::Staged,
        }
    }

    /// An order does not exist on which the choice rests: the next best.
    fn let_go(&self, link: LinkId, delivery: &mut Delivery) {
        let pull = Delivery::Pull { acknowledgement: false };
        let messages = self.traffic.of_link(link).len();
        let pulls = || (0..messages).all(|at| self.region(link, at, pull).is_some());
        *delivery = match *delivery {
            Delivery::Push if pulls() => pull,
            Delivery::Push | Delivery::Pull { .. } | Delivery::Staged => Delivery::Staged,
        };
    }

    /// The steps that send and receive message `at` of `link`.
    fn ends(&self, link: LinkId, at: usize) -> (At, At) {
        let ends = self.program.wiring.links()[link.index()];
        let sent = self.traffic.of_link(link)[at];
        let send = At { tb: ends.sender, step: sent.send };
        (send, At { tb: ends.receiver, step: sent.receive })
    }

    /// Where message `at` of `link` lies if it is delivered so, and nothing is lost that way.
    fn region(&self, link: LinkId, at: usize, delivery: Delivery) -> Option<Region> {
        let (send, receive) = self.ends(link, at);
        let (sends, receives) = (self.program.step(send), self.program.step(receive));
        let region = match delivery {
            Delivery::Staged => None,
            Delivery::Push => {
                let only = receives.sources.len() == 1;
                let to = receives.writes().next().filter(|_| only)?;
                let others = receives.writes().skip(1);
                self.is_long_enough(to, others, receives).then_some(to)
            }
            Delivery::Pull { .. } => match only_source(sends) {
                Some(from) => Some(from),
                None => {
                    let from = sends.writes().next()?;
                    self.is_long_enough(from, receives.writes(), receives).then_some(from)
                }
            },
        };
        // The caller's buffers are announced, scratch is not.
        region.filter(|region| region.start.buffer != Buffer::Scratch)
    }

    /// Whether `taker`, which puts it in `places`, needs no more of a message than `region` holds.
    fn is_long_enough(
        &self,
        region: Region,
        places: impl Iterator<Item = Region>,
        taker: &Step,
    ) -> bool {
        let chunks = self.program.algorithm().collective.chunks.max(1);
        let column = |slot: Slot| match slot.buffer {
            Buffer::Input | Buffer::Output => slot.index % chunks,
            // As long as any.
            Buffer::Scratch => 0,
        };
        if !self.serves_any_count || region.slots().all(|slot| column(slot) == 0) {
            return true;
        }
        let no_longer = |place: Region| {
            let pairs = region.slots().zip(place.slots());
            pairs.into_iter().all(|(from, to)| column(to) >= column(from))
        };
        taker.sends().next().is_none() && places.into_iter().all(no_longer)
    }

    fn described(&self, chosen: &[Delivery]) -> Vec<DirectLink> {
        let wiring = &self.program.wiring;
        let links = (0..).map(LinkId).zip(wiring.links()).zip(chosen);
        let direct = links.filter(|(_, delivery)| **delivery != Delivery::Staged);
        direct
            .map(|((link, ends), &delivery)| DirectLink {
                from: wiring.rank(ends.sender),
                to: wiring.rank(ends.receiver),
                channel: wiring.block(ends.sender).channel,
                delivery,
                messages: self.messages(link, delivery),
            })
            .collect()
    }

    fn messages(&self, link: LinkId, delivery: Delivery) -> Vec<DirectMessage> {
        let all = 0..self.traffic.of_link(link).len();
        all.filter_map(|at| {
            let (send, receive) = self.ends(link, at);
            let region = self.region(link, at, delivery)?;
            let (send, receive) = (self.program.step_ref(send), self.program.step_ref(receive));
            Some(DirectMessage { send, receive, region })
        })
        .collect()
    }
}

/// What the step reads, if it reads nothing else.
fn only_source(step: &Step) -> Option<Region> {
    step.reads().next().filter(|_| step.sources.len() == 1)
}

/// An access as it is really made: by which step, to which chunk of its operands.
#[derive(Clone, Copy)]
struct MadeAccess {
    at: At,
    offset: u32,
}

/// What has been done to a cell. The accesses before the last write came before it.
#[derive(Default)]
struct CellHistory {
    writer: Option<MadeAccess>,
    readers: SmallVec<[MadeAccess; 2]>,
    /// Loads by receivers that may be yet to come.
    pulled: SmallVec<[(LinkId, MadeAccess); 1]>,
    /// Receiving steps of what has been pushed here: if the link is staged in a launch, it is they
    /// who store.
    landed: SmallVec<[(LinkId, MadeAccess); 1]>,
}

/// Orders that the choice needs.
struct Scanned {
    questions: Vec<Question>,
    /// Links for which there is no need to ask.
    broken: Vec<LinkId>,
}

/// One walk over all cells.
struct DirectScan<'a> {
    subject: &'a Subject<'a>,
    chosen: &'a [Delivery],
    memory: Memory<'a>,
    received: Vec<usize>,
    sent: Vec<usize>,
    rank: Rank,
    cells: Vec<CellHistory>,
    scanned: Scanned,
}

impl<'a> DirectScan<'a> {
    fn new(subject: &'a Subject<'a>, chosen: &'a [Delivery]) -> Self {
        let algorithm = subject.program.algorithm();
        // In place, aliasing only adds accesses of a cell.
        let call = Call::served(algorithm).next().unwrap_or(Call::OutOfPlace);
        Self {
            subject,
            chosen,
            memory: Memory::new(algorithm, call),
            received: vec![0; chosen.len()],
            sent: vec![0; chosen.len()],
            rank: Rank(0),
            cells: Vec::new(),
            scanned: Scanned { questions: Vec::new(), broken: Vec::new() },
        }
    }

    fn run(mut self, order: &[At]) -> Scanned {
        let program = self.subject.program;
        let mut steps = vec![Vec::new(); program.algorithm().ranks.len()];
        order.iter().for_each(|&at| steps[program.rank(at).index()].push(at));
        for (rank, steps) in program.algorithm().collective.all_ranks().zip(steps) {
            self.rank = rank;
            self.cells.clear();
            self.cells.resize_with(self.memory.cells_of(rank).len(), CellHistory::default);
            steps.into_iter().for_each(|at| self.step(at));
        }
        self.scanned
    }

    fn step(&mut self, at: At) {
        let program = self.subject.program;
        let step = program.step(at);
        let landing = self.landing(at, step);
        let Local { loads, stores } = access::local(step, landing);
        for region in loads {
            for (offset, slot) in (0..).zip(region.slots()) {
                self.cell(slot).read(MadeAccess { at, offset });
            }
        }
        for region in stores {
            for (offset, slot) in (0..).zip(region.slots()) {
                self.write(slot, MadeAccess { at, offset });
            }
        }
        for to in step.sends() {
            if let Some(link) = program.wiring.link_to(at.tb, to) {
                self.send(link);
            }
        }
    }

    /// Takes the messages of the step; where the sender has stored the message, if it has.
    fn landing(&mut self, at: At, step: &Step) -> Option<Region> {
        let mut landing = None;
        for from in step.receives() {
            let Some(link) = self.subject.program.wiring.link_from(at.tb, from) else { continue };
            let number = self.received[link.index()];
            self.received[link.index()] += 1;
            let delivery = self.chosen[link.index()];
            if delivery == Delivery::Push {
                let (send, _) = self.subject.ends(link, number);
                landing = self.subject.region(link, number, delivery);
                self.push(link, landing, [send, at]);
            }
        }
        landing
    }

    /// Step `send` of another rank writes `region`; or `receive` does, if the link is staged after
    /// all.
    ///
    /// A link is direct as a whole or staged as a whole, so its own messages follow one another
    /// either way. Of another link the receiver may have stored, later than its sender would have.
    fn push(&mut self, link: LinkId, region: Option<Region>, [send, receive]: [At; 2]) {
        for (offset, slot) in (0..).zip(region.into_iter().flat_map(Region::slots)) {
            let access = MadeAccess { at: send, offset };
            let cell = std::mem::take(self.cell(slot));
            let landed = cell.landed.into_iter().filter(|(other, _)| *other != link);
            let landed = landed.map(|(_, receive)| receive);
            let earlier = cell.writer.into_iter().chain(cell.readers).chain(landed);
            earlier.for_each(|earlier| self.ask(link, About::Ordered, earlier, access));
            let cell = self.cell(slot);
            cell.writer = Some(access);
            cell.landed.push((link, MadeAccess { at: receive, offset }));
        }
    }

    /// A step of the rank itself writes a cell: receivers that load from there must be done.
    fn write(&mut self, slot: Slot, access: MadeAccess) {
        let cell = std::mem::take(self.cell(slot));
        cell.pulled.into_iter().for_each(|(link, load)| self.ask(link, About::Kept, load, access));
        self.cell(slot).writer = Some(access);
    }

    /// The next message of `link` leaves; if it is pulled, its receiver reads it later.
    fn send(&mut self, link: LinkId) {
        let number = self.sent[link.index()];
        self.sent[link.index()] += 1;
        let delivery = self.chosen[link.index()];
        if !matches!(delivery, Delivery::Pull { .. }) {
            return;
        }
        let (_, receive) = self.subject.ends(link, number);
        let region = self.subject.region(link, number, delivery);
        for (offset, slot) in (0..).zip(region.into_iter().flat_map(Region::slots)) {
            let load = MadeAccess { at: receive, offset };
            let cell = self.cell(slot);
            cell.read(load);
            cell.pulled.push((link, load));
        }
    }

    fn cell(&mut self, slot: Slot) -> &mut CellHistory {
        let first = self.memory.cells_of(self.rank).start;
        &mut self.cells[self.memory.cell(self.rank, slot) - first]
    }

    /// `link` needs `earlier` to come before `later`.
    fn ask(&mut self, link: LinkId, about: About, earlier: MadeAccess, later: MadeAccess) {
        // A step loads a chunk before it stores it, and chunks in order.
        if earlier.at == later.at && earlier.offset <= later.offset {
            return;
        }
        // As for regions: a later position comes after; all do if nothing but the end of `earlier`
        // leads on. Otherwise the step before `later` must know of all of it.
        let sends = self.subject.program.step(earlier.at).sends().next().is_some();
        let step = if earlier.offset <= later.offset || !sends {
            Some(later.at.step)
        } else {
            later.at.step.checked_sub(1)
        };
        let Some(step) = step.filter(|_| earlier.at != later.at) else {
            self.scanned.broken.push(link);
            return;
        };
        let later = At { tb: later.at.tb, step };
        let question = Question { earlier: earlier.at, later, link, about };
        if self.scanned.questions.last() != Some(&question) {
            self.scanned.questions.push(question);
        }
    }
}

impl CellHistory {
    fn read(&mut self, access: MadeAccess) {
        // Program order makes the later of two reads of one block stand for both.
        match self.readers.last_mut() {
            Some(last) if last.at.tb == access.at.tb && last.at.step < access.at.step => {
                *last = access;
            }
            _ => self.readers.push(access),
        }
    }
}
