//! Who touches the memory that messages come from and go to.
//!
//! One scan over the run, rank by rank, in a linear extension of happens-before. Accesses of one
//! cell are ordered where it matters (there is no race), so the last write and the reads since
//! stand for everything before a receiving step, and the first write after a sending step for all
//! later ones. Whether one step has ended before another of another rank is left as a question.

use msccl_collective::{Rank, Slot};
use msccl_ir::Step;
use msccl_machine::LinkId;
use smallvec::SmallVec;

use super::traffic::Traffic;
use super::{DirectRead, DirectWrite};
use crate::memory::{Call, Memory};
use crate::program::{At, Program};

/// Whether step `earlier` has ended before step `later`, position by position. If not, `about` does
/// not hold of the link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) earlier: At,
    pub(super) later: At,
    pub(super) link: LinkId,
    pub(super) about: About,
}

/// A fact that rests on an order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum About {
    /// [`DirectWrite::ordered`].
    Ordered,
    /// [`DirectWrite::credits`] of at least one.
    Credits,
    /// [`DirectRead::kept`].
    Kept,
}

/// What is not yet refuted of a link.
#[derive(Clone, Copy)]
pub(super) struct Direct {
    pub(super) write: Option<DirectWrite>,
    pub(super) read: Option<DirectRead>,
}

impl Direct {
    const ALL: Direct = Direct {
        write: Some(DirectWrite { untouched: true, ordered: true, credits: u32::MAX }),
        read: Some(DirectRead { kept: true, taken_by_end: true }),
    };

    /// The order on which a fact rests does not exist.
    pub(super) fn deny(&mut self, about: About) {
        match about {
            About::Ordered => self.write.iter_mut().for_each(|write| write.ordered = false),
            About::Credits => self.write.iter_mut().for_each(|write| write.credits = 0),
            About::Kept => self.read.iter_mut().for_each(|read| read.kept = false),
        }
    }

    /// Some message is not known to be received at the end.
    pub(super) fn not_taken(&mut self) {
        self.read.iter_mut().for_each(|read| read.taken_by_end = false);
    }
}

/// What is known without the order of other ranks, and what remains open.
pub(super) fn scan(
    program: &Program<'_>,
    order: &[At],
    traffic: &Traffic,
) -> (Vec<Direct>, Vec<Question>) {
    let links = program.wiring.links().len();
    // In place, aliasing only adds accesses of a cell.
    let call = Call::served(program.algorithm()).next().unwrap_or(Call::OutOfPlace);
    let mut scan = RegionScan {
        program,
        traffic,
        memory: Memory::new(program.algorithm(), call),
        direct: vec![Direct::ALL; links],
        questions: Vec::new(),
        received: vec![0; links],
        sent: vec![0; links],
        rank: Rank(0),
        cells: Vec::new(),
    };
    for (rank, steps) in program.algorithm().collective.all_ranks().zip(by_rank(program, order)) {
        scan.rank = rank;
        scan.cells.clear();
        scan.cells.resize_with(scan.memory.cells_of(rank).len(), RegionCell::default);
        steps.into_iter().for_each(|at| scan.step(at));
    }
    (scan.direct, scan.questions)
}

fn by_rank(program: &Program<'_>, order: &[At]) -> Vec<Vec<At>> {
    let mut steps = vec![Vec::new(); program.algorithm().ranks.len()];
    order.iter().for_each(|&at| steps[program.rank(at).index()].push(at));
    steps
}

/// The place of a chunk in a step.
#[derive(Clone, Copy)]
struct ChunkAccess {
    at: At,
    offset: u32,
}

/// A chunk of a message that still lies here.
#[derive(Clone, Copy)]
struct Lying {
    link: LinkId,
    receive: ChunkAccess,
}

#[derive(Default)]
struct RegionCell {
    writer: Option<ChunkAccess>,
    readers: SmallVec<[ChunkAccess; 1]>,
    lying: SmallVec<[Lying; 1]>,
}

struct RegionScan<'a> {
    program: &'a Program<'a>,
    traffic: &'a Traffic,
    memory: Memory<'a>,
    direct: Vec<Direct>,
    questions: Vec<Question>,
    /// By link: how many of its steps' sends have been received, and sent.
    received: Vec<u32>,
    sent: Vec<u32>,
    rank: Rank,
    /// Those of the rank.
    cells: Vec<RegionCell>,
}

impl RegionScan<'_> {
    fn step(&mut self, at: At) {
        let step = self.program.step(at);
        for from in step.receives() {
            if let Some(link) = self.program.wiring.link_from(at.tb, from) {
                self.receive(link, step);
            }
        }
        for region in step.reads() {
            for (offset, slot) in (0..).zip(region.slots()) {
                self.cell(slot).read(ChunkAccess { at, offset });
            }
        }
        for region in step.writes() {
            for (offset, slot) in (0..).zip(region.slots()) {
                self.write(slot, ChunkAccess { at, offset });
            }
        }
        for to in step.sends() {
            if let Some(link) = self.program.wiring.link_to(at.tb, to) {
                self.send(link, step);
            }
        }
    }

    fn cell(&mut self, slot: Slot) -> &mut RegionCell {
        let first = self.memory.cells_of(self.rank).start;
        &mut self.cells[self.memory.cell(self.rank, slot) - first]
    }

    /// The next message of `link` arrives in `step`: what has touched its place before?
    fn receive(&mut self, link: LinkId, step: &Step) {
        let number = self.received[link.index()];
        self.received[link.index()] += 1;
        let to = step.writes().next().filter(|_| step.sources.len() == 1);
        let Some(to) = to else {
            self.direct[link.index()].write = None;
            return;
        };
        for (offset, slot) in (0..).zip(to.slots()) {
            let cell = self.cell(slot);
            let touches: SmallVec<[ChunkAccess; 4]> =
                cell.writer.iter().chain(&cell.readers).copied().collect();
            touches.into_iter().for_each(|earlier| self.touched(link, number, earlier, offset));
        }
    }

    /// `earlier` touches chunk `offset` of the place of message `number` of `link` before it comes.
    fn touched(&mut self, link: LinkId, number: u32, earlier: ChunkAccess, offset: u32) {
        let ends = self.program.wiring.links()[link.index()];
        let sent = self.traffic.of_link(link);
        let send = sent[number as usize].send;
        let before = number.checked_sub(1).map(|last| sent[last as usize].receive);
        let credits = if earlier.at.tb == ends.receiver {
            let enough = sent.partition_point(|it| it.receive < earlier.at.step) as u32;
            number.saturating_sub(enough)
        } else {
            number.min(1)
        };
        if let Some(write) = &mut self.direct[link.index()].write {
            write.untouched = false;
            write.credits = write.credits.min(credits);
        }
        self.ask(
            link,
            About::Ordered,
            earlier,
            ChunkAccess { at: At { tb: ends.sender, step: send }, offset },
        );
        if let Some(step) = before.filter(|_| earlier.at.tb != ends.receiver) {
            // The credit is given at the end of the receiving step, whatever the position.
            let later = ChunkAccess { at: At { tb: ends.receiver, step }, offset: u32::MAX };
            self.ask(link, About::Credits, earlier, later);
        }
    }

    /// `access` writes a cell: whoever still reads a message from there must be done.
    fn write(&mut self, slot: Slot, access: ChunkAccess) {
        let cell = self.cell(slot);
        cell.writer = Some(access);
        cell.readers.clear();
        for Lying { link, receive } in std::mem::take(&mut cell.lying) {
            self.ask(link, About::Kept, receive, access);
        }
    }

    /// The next message of `link` leaves from `step`: it lies where its only source is, or where
    /// the step puts the same.
    fn send(&mut self, link: LinkId, step: &Step) {
        let number = self.sent[link.index()];
        self.sent[link.index()] += 1;
        let source = step.reads().next().filter(|_| step.sources.len() == 1);
        let Some(from) = source.or_else(|| step.writes().next()) else {
            self.direct[link.index()].read = None;
            return;
        };
        let tb = self.program.wiring.links()[link.index()].receiver;
        let at = At { tb, step: self.traffic.of_link(link)[number as usize].receive };
        for (offset, slot) in (0..).zip(from.slots()) {
            self.cell(slot).lying.push(Lying { link, receive: ChunkAccess { at, offset } });
        }
    }

    /// Asks whether `earlier` ends before `later`, once.
    fn ask(&mut self, link: LinkId, about: About, earlier: ChunkAccess, later: ChunkAccess) {
        // Order is by equal positions. A later position comes after, and all positions do if
        // nothing but the end of `earlier` leads on. Otherwise the whole of `earlier` must come
        // before, and the step before `later` must know of it.
        let sends = self.program.step(earlier.at).sends().next().is_some();
        let step = if earlier.offset <= later.offset || !sends {
            Some(later.at.step)
        } else {
            later.at.step.checked_sub(1)
        };
        let Some(step) = step else {
            self.direct[link.index()].deny(about);
            return;
        };
        let later = At { tb: later.at.tb, step };
        let question = Question { earlier: earlier.at, later, link, about };
        if self.questions.last() != Some(&question) {
            self.questions.push(question);
        }
    }
}

impl RegionCell {
    fn read(&mut self, access: ChunkAccess) {
        // Program order makes the later of two reads of one block stand for both.
        match self.readers.last_mut() {
            Some(last) if last.at.tb == access.at.tb => *last = access,
            _ => self.readers.push(access),
        }
    }
}
