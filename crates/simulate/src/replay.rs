//! One run of an algorithm, event by event: who holds what, who waits for whom.
//!
//! A replay is for people who want to see how an algorithm works, or how it comes to grief. Events
//! take one *turn* each. A step runs in the first turn after the step before it in its thread
//! block, the steps that it waits for, the sending of what it receives, and the receiving that made
//! room for what it sends; so a turn is no measure of time. Within a turn the order is that of
//! ranks and thread blocks. Where accesses race, a replay shows one of the possible orders.

use std::ops::Range;
use std::rc::Rc;

use msccl_collective::{Contribution, Placement, Rank, Slot};
use msccl_ir::{Algorithm, Packing, Place, StepRef, Target, Violation, Wait};
use msccl_machine::{LinkId, Messages, Outcome, Piece, Reason, Stall, Wiring};

use crate::witness::{well_formed, wire};
use crate::world::{Layout, World, Wrong};

/// A run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replay {
    /// Chunks of a counted step that share a message.
    pub chunks_per_message: u32,
    /// Messages in flight on a link before its sender waits.
    pub depth: u32,
    /// All slots, aliased ones once, and what they hold at the start.
    pub start: Vec<Held>,
    /// What happens, in the order of turns.
    pub events: Vec<ReplayEvent>,
    /// How it ends.
    pub ending: ReplayEnding,
}

/// What a slot holds: contributions in ascending order, or nothing defined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// Whose slot.
    pub rank: Rank,
    /// Which slot.
    pub slot: Slot,
    /// What it holds; `None` if that is undefined.
    pub value: Option<Rc<[Contribution]>>,
}

/// One message of a step, or a whole step without messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayEvent {
    /// In which turn; turns begin with 0.
    pub turn: u32,
    /// The step.
    pub at: StepRef,
    /// The chunks of the step.
    pub chunks: Range<u32>,
    /// From whom messages are taken.
    pub taken: Vec<Rank>,
    /// To whom messages are sent.
    pub sent: Vec<Rank>,
    /// What is written.
    pub written: Vec<Held>,
    /// For what it waited last, if it could not run in the turn after the step before it.
    pub waited: Option<Reason>,
}

/// How a replay ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplayEnding {
    /// Every promised slot holds what is promised.
    Right,
    /// A slot holds something else.
    Wrong(Wrong),
    /// Nobody can go on.
    Stalled(Stall),
}

/// Why there is no replay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoReplay {
    /// The algorithm is malformed.
    Malformed(Vec<Violation>),
    /// There are more events than the caller accepts.
    TooLong {
        /// How many the caller accepts.
        most_events: usize,
    },
}

impl std::fmt::Display for NoReplay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoReplay::Malformed(violations) => match violations.first() {
                Some(first) => write!(f, "the algorithm is malformed: {first}"),
                None => f.write_str("the algorithm is malformed"),
            },
            NoReplay::TooLong { most_events } => {
                write!(f, "expected at most {most_events} events, found more; choose fewer ranks")
            }
        }
    }
}

impl std::error::Error for NoReplay {}

/// A run of `algorithm` on `target`: in the largest calls that it serves if it comes to a
/// standstill there, otherwise in the smallest. In place, if it serves such calls alone.
///
/// # Errors
///
/// The algorithm is malformed, or there are more than `most_events` events.
pub fn replay(
    algorithm: &Algorithm,
    target: &Target,
    most_events: usize,
) -> Result<Replay, NoReplay> {
    well_formed(algorithm).map_err(NoReplay::Malformed)?;
    let wiring = wire(algorithm).map_err(NoReplay::Malformed)?;
    let link = target.packing_link(&algorithm.collective.kind, algorithm.protocol);
    let counts = algorithm.thread_blocks().flat_map(|(_, _, block)| &block.steps);
    let largest = counts.map(|step| step.count).max().unwrap_or(1).max(1);
    let least = match link.packing {
        Packing::Fitting => 1,
        Packing::Whole => largest,
    };
    let at = |chunks_per_message| {
        let messages = Messages { chunks_per_message, depth: link.depth };
        Run::of(&wiring, messages, most_events)
    };
    let finest = at(least)?;
    let run = match finest.outcome {
        Outcome::Stalled(_) => finest,
        Outcome::Completed { .. } if least < largest => at(largest)?,
        Outcome::Completed { .. } => finest,
    };
    Ok(run.replay(&wiring))
}

/// A run without values: which pieces fired, and in which turn.
struct Run {
    messages: Messages,
    pieces: Vec<Timed>,
    outcome: Outcome,
}

/// A piece and its turn.
struct Timed {
    piece: Piece,
    turn: u32,
    waited: Option<Reason>,
}

impl Run {
    fn of(wiring: &Wiring<'_>, messages: Messages, most_events: usize) -> Result<Self, NoReplay> {
        let mut clock = Clock::new(wiring, messages.depth);
        let mut pieces = Vec::new();
        let outcome = msccl_machine::run(
            wiring,
            messages,
            |_| 0,
            |piece: Piece| {
                if pieces.len() == most_events {
                    return Err(NoReplay::TooLong { most_events });
                }
                let (turn, waited) = clock.tick(&piece);
                pieces.push(Timed { piece, turn, waited });
                Ok(())
            },
        )?;
        pieces.sort_by_key(|timed| (timed.turn, timed.piece.tb, timed.piece.step));
        Ok(Self { messages, pieces, outcome })
    }

    /// The run again, in the order of turns, with values.
    fn replay(self, wiring: &Wiring<'_>) -> Replay {
        let Run { messages, pieces, outcome } = self;
        let in_place = match wiring.algorithm().placement {
            Placement::InPlace => true,
            Placement::OutOfPlace | Placement::Both => false,
        };
        let layout = Layout::new(wiring, in_place, 1);
        let mut world = World::new(wiring, &layout);
        let held = |world: &World, rank, slot| {
            let value = world.value(&layout, rank, slot, 0).clone();
            Held { rank, slot, value }
        };
        let slots = layout.slots();
        let start = slots.iter().map(|&(rank, slot)| held(&world, rank, slot)).collect();
        let mut events = Vec::with_capacity(pieces.len());
        for Timed { piece, turn, waited } in pieces {
            let Piece { tb, step, chunks, ends_step: _ } = piece;
            let code = &wiring.block(tb).steps[step as usize];
            world.fire(wiring, &layout, (tb, 0), code, chunks.clone());
            let at = wiring.step_ref(tb, step);
            let local = code.destinations.iter().filter_map(|place| match place {
                Place::Local(slot) => Some(*slot),
                Place::Link(_) => None,
            });
            let written = local.flat_map(|slot| {
                chunks.clone().map(move |chunk| Slot::new(slot.buffer, slot.index + chunk))
            });
            let written = written
                .map(|slot| held(&world, at.rank, layout.canonical(at.rank, slot)))
                .collect();
            let (taken, sent) = (code.receives().collect(), code.sends().collect());
            events.push(ReplayEvent { turn, at, chunks, taken, sent, written, waited });
        }
        let ending = match outcome {
            Outcome::Stalled(stall) => ReplayEnding::Stalled(stall),
            Outcome::Completed { leftover: _ } => {
                world.wrong(&layout).map_or(ReplayEnding::Right, ReplayEnding::Wrong)
            }
        };
        let Messages { chunks_per_message, depth } = messages;
        Replay { chunks_per_message, depth, start, events, ending }
    }
}

/// Turns: what happened last where.
struct Clock<'w, 'a> {
    wiring: &'w Wiring<'a>,
    depth: usize,
    /// By thread block: one more than the turn of its last piece.
    blocks: Vec<u32>,
    /// By thread block: one more than the turn in which each of its steps ended.
    ended: Vec<Vec<u32>>,
    links: Vec<LinkTurns>,
}

/// One more than the turns in which messages were put and taken, in order.
#[derive(Clone, Default)]
struct LinkTurns {
    put: Vec<u32>,
    taken: Vec<u32>,
}

impl<'w, 'a> Clock<'w, 'a> {
    fn new(wiring: &'w Wiring<'a>, depth: u32) -> Self {
        let blocks = wiring.tb_count();
        Self {
            wiring,
            depth: depth as usize,
            blocks: vec![0; blocks],
            ended: vec![Vec::new(); blocks],
            links: vec![LinkTurns::default(); wiring.links().len()],
        }
    }

    /// The turn of `piece`, which fires next, and for what it waited last.
    fn tick(&mut self, piece: &Piece) -> (u32, Option<Reason>) {
        let Piece { tb, step, chunks: _, ends_step } = piece;
        let (taken, sent) = self.messages(piece);
        let mut turn = self.blocks[tb.index()];
        let mut waited = None;
        for (from, reason) in self.causes(piece, &taken, &sent) {
            if from > turn {
                (turn, waited) = (from, Some(reason));
            }
        }
        let after = turn + 1;
        self.blocks[tb.index()] = after;
        if *ends_step {
            self.ended[tb.index()].resize(*step as usize + 1, after);
        }
        taken.iter().for_each(|link| self.links[link.index()].taken.push(after));
        sent.iter().for_each(|link| self.links[link.index()].put.push(after));
        (turn, waited)
    }

    /// The links of which `piece` takes a message, and those on which it sends one.
    fn messages(&self, piece: &Piece) -> (Vec<LinkId>, Vec<LinkId>) {
        let code = &self.wiring.block(piece.tb).steps[piece.step as usize];
        let taken = code.receives().filter_map(|from| self.wiring.link_from(piece.tb, from));
        let sent = code.sends().filter_map(|to| self.wiring.link_to(piece.tb, to));
        (taken.collect(), sent.collect())
    }

    /// What `piece` needs, each with the first turn in which it is there.
    fn causes(&self, piece: &Piece, taken: &[LinkId], sent: &[LinkId]) -> Vec<(u32, Reason)> {
        let wiring = self.wiring;
        let rank = wiring.rank(piece.tb);
        let code = &wiring.block(piece.tb).steps[piece.step as usize];
        let waits = code.waits.iter().filter_map(|&wait| {
            let Wait { tb, step } = wait;
            let ended = &self.ended[wiring.tb_id(rank, tb).index()];
            Some((*ended.get(step.index())?, Reason::Signal(wait)))
        });
        let messages = taken.iter().filter_map(|link| {
            let turns = &self.links[link.index()];
            let sender = wiring.links()[link.index()].sender;
            let (from, channel) = (wiring.rank(sender), wiring.block(sender).channel);
            Some((*turns.put.get(turns.taken.len())?, Reason::Message { from, channel }))
        });
        let room = sent.iter().filter_map(|link| {
            let turns = &self.links[link.index()];
            let receiver = wiring.links()[link.index()].receiver;
            let (to, channel) = (wiring.rank(receiver), wiring.block(receiver).channel);
            let freed = turns.put.len().checked_sub(self.depth)?;
            let in_flight = self.depth as u32;
            Some((*turns.taken.get(freed)?, Reason::Room { to, channel, in_flight }))
        });
        waits.chain(messages).chain(room).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ranks that swap chunks: each sends `messages` of them before it receives any.
    fn swap(messages: u32) -> Algorithm {
        let rank = |me: u32| {
            let peer = 1 - me;
            let sends = (0..messages).map(|at| format!("    s{at}: i[{at}] -> r{peer}\n"));
            let receives =
                (0..messages).map(|at| format!("    s{}: r{peer} -> o[{at}]\n", messages + at));
            format!("r{me} scratch 0\n  tb0 ch0 send r{peer} receive r{peer}\n")
                + &sends.chain(receives).collect::<String>()
        };
        let text = format!(
            "algorithm \"swap\"\ncollective alltoall ranks 2 chunks {messages}\n\
             placement out of place\nprotocol Simple\nbytes 0..\n{}{}",
            rank(0),
            rank(1)
        );
        msccl_ir::text::parse(&text).unwrap()
    }

    #[test]
    fn a_full_link_stops_both_sides() {
        let found = replay(&swap(3), &Target::msccl(), 100).unwrap();
        let ReplayEnding::Stalled(stall) = &found.ending else { panic!("{:?}", found.ending) };
        assert_eq!(stall.blocked.len(), 2);
        assert_eq!(found.depth, 2);
        let turns: Vec<_> = found.events.iter().map(|event| event.turn).collect();
        assert_eq!(turns, [0, 0, 1, 1]);
    }

    #[test]
    fn messages_take_a_turn() {
        let found = replay(&swap(2), &Target::msccl(), 100).unwrap();
        let turns: Vec<_> = found.events.iter().map(|event| event.turn).collect();
        assert_eq!(turns, [0, 0, 1, 1, 2, 2, 3, 3]);
        let first = &found.events[4];
        assert_eq!((first.taken.as_slice(), first.sent.len()), (&[Rank(1)][..], 0));
        let [written] = first.written.as_slice() else { panic!("{first:?}") };
        assert_eq!(written.value.as_deref().unwrap().len(), 1);
        // It sends the chunks of the input for itself, too, so the result is wrong.
        assert!(matches!(found.ending, ReplayEnding::Wrong(_)), "{:?}", found.ending);
    }

    #[test]
    fn long_runs_are_refused() {
        let found = replay(&swap(2), &Target::msccl(), 7);
        assert_eq!(found, Err(NoReplay::TooLong { most_events: 7 }));
    }
}
