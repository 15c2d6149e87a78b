//! When each step of an algorithm can run at the earliest, if all take equally long and links never
//! fill up.

use std::collections::VecDeque;
use std::convert::Infallible;

use msccl_ir::{Algorithm, Place, StepRef, Target, ViolationClass, validate};
use msccl_machine::{Messages, Piece, Wiring, latest_ready, run};

/// The level of every step that can run, in an order in which they can run.
pub struct Levels {
    /// Steps, each after all it depends on.
    pub steps: Vec<Level>,
}

/// A step and its level.
#[derive(Clone, Debug)]
pub struct Level {
    /// Which step.
    pub at: StepRef,
    /// Its level.
    pub level: u32,
    /// The steps (by position in [`Levels::steps`]) whose messages it takes.
    pub senders: Vec<usize>,
}

/// The levels of all steps that ever run.
///
/// # Errors
///
/// The algorithm is malformed.
pub fn levels(algorithm: &Algorithm) -> Result<Levels, String> {
    check_structure(algorithm)?;
    let wiring = Wiring::new(algorithm)
        .map_err(|unwired| format!("this algorithm has no picture: {unwired}"))?;
    let mut tracker = Tracker::new(&wiring);
    let messages = Messages { chunks_per_message: u32::MAX, depth: u32::MAX };
    let done = run(&wiring, messages, latest_ready, |piece| {
        tracker.fired(&piece);
        Ok::<(), Infallible>(())
    });
    match done {
        Ok(_) => Ok(Levels { steps: tracker.steps }),
        Err(never) => match never {},
    }
}

/// Whether the algorithm has a meaning, whatever limits it exceeds.
fn check_structure(algorithm: &Algorithm) -> Result<(), String> {
    let Err(violations) = validate(algorithm, &Target::native()) else { return Ok(()) };
    match violations.iter().find(|violation| violation.class == ViolationClass::Structure) {
        Some(violation) => Err(format!("this algorithm has no picture: {violation}")),
        None => Ok(()),
    }
}

struct Tracker<'w, 'a> {
    wiring: &'w Wiring<'a>,
    /// Levels of the steps of each thread block that have run.
    blocks: Vec<Vec<u32>>,
    /// Messages in flight: the steps that sent them.
    links: Vec<VecDeque<usize>>,
    steps: Vec<Level>,
}

impl<'w, 'a> Tracker<'w, 'a> {
    fn new(wiring: &'w Wiring<'a>) -> Self {
        Self {
            wiring,
            blocks: vec![Vec::new(); wiring.tb_count()],
            links: vec![VecDeque::new(); wiring.links().len()],
            steps: Vec::new(),
        }
    }

    fn fired(&mut self, piece: &Piece) {
        let at = self.wiring.step_ref(piece.tb, piece.step);
        let step = &self.wiring.block(piece.tb).steps[piece.step as usize];
        let senders: Vec<usize> = self.taken(piece, &step.sources);
        let previous = self.blocks[piece.tb.index()].last().copied();
        let waits = step.waits.iter().filter_map(|wait| {
            let other = self.wiring.tb_id(at.rank, wait.tb);
            self.blocks[other.index()].get(wait.step.index()).copied()
        });
        let sent = senders.iter().map(|&sender| self.steps[sender].level);
        let level = previous.into_iter().chain(waits).chain(sent).max().map_or(0, |max| max + 1);
        let position = self.steps.len();
        for to in step.sends() {
            if let Some(link) = self.wiring.link_to(piece.tb, to) {
                self.links[link.index()].push_back(position);
            }
        }
        self.blocks[piece.tb.index()].push(level);
        self.steps.push(Level { at, level, senders });
    }

    /// The senders of the messages that a step takes.
    fn taken(&mut self, piece: &Piece, sources: &[Place]) -> Vec<usize> {
        let links = sources.iter().filter_map(|source| match source {
            Place::Local(_) => None,
            Place::Link(from) => self.wiring.link_from(piece.tb, *from),
        });
        let links: Vec<_> = links.collect();
        links.iter().filter_map(|link| self.links[link.index()].pop_front()).collect()
    }
}
