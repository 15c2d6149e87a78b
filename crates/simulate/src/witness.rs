//! Witnesses: what an algorithm does under interleavings that somebody chose.
//!
//! They are independent of the proof and weaker: a run that goes well says only that this run does.
//! Pieces of steps happen one at a time here, so a conflict inside two pieces that run beside one
//! another is seen as one order or the other, never as a mixture.

use std::collections::{BTreeSet, HashSet};
use std::convert::Infallible;

use msccl_ir::{Algorithm, Step, Target, Violation, ViolationClass, validate};
use msccl_machine::{Messages, Outcome, Piece, Stall, TbId, Wiring, pieces};

use crate::rounds::unroll;
use crate::world::{Layout, World, Wrong};

/// Under which conditions an algorithm runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Messages in flight on a link before its sender waits.
    pub depth: u32,
    /// Chunks of a counted step that share one message.
    pub chunks_per_message: u32,
    /// Whether input and output share memory.
    pub in_place: bool,
    /// How often the program runs, each time on other memory; at least once.
    pub rounds: u32,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Every promised slot holds what is promised, and no message is left.
    Right,
    /// It ended, and a slot holds something else.
    Wrong(Wrong),
    /// It ended with a right result, and this many messages are left.
    Leftover(u32),
    /// It came to a standstill. Blocks and steps are those of the unrolled program: round `k` has
    /// the steps from `k` times their number on.
    Stalled(Stall),
}

/// What the interleavings of a small algorithm come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explored {
    /// The different ways in which runs end wrong: the slots found wrong.
    pub wrong: BTreeSet<Wrong>,
    /// Whether some run comes to a standstill.
    pub stalls: bool,
    /// Whether some run leaves messages.
    pub leaves_messages: bool,
    /// States seen.
    pub states: usize,
    /// Whether these were all; if not, the search reached its bound.
    pub complete: bool,
}

impl Explored {
    /// Whether every interleaving was seen, and every one ends right.
    pub fn is_right(&self) -> bool {
        let Explored { wrong, stalls, leaves_messages, states: _, complete } = self;
        *complete && wrong.is_empty() && !stalls && !leaves_messages
    }
}

/// Runs the algorithm once, in an order that follows from `seed`.
///
/// # Errors
///
/// The algorithm is malformed. Limits of targets do not matter here.
pub fn random_run(
    algorithm: &Algorithm,
    setting: Setting,
    seed: u64,
) -> Result<Ending, Vec<Violation>> {
    well_formed(algorithm)?;
    let unrolled = unroll(algorithm, setting.rounds);
    let wiring = wire(&unrolled)?;
    let layout = Layout::new(&wiring, setting.in_place, setting.rounds);
    let mut world = World::new(&wiring, &layout);
    let mut random = seed;
    let pick = |ready: usize| {
        random = next_random(random);
        (random >> 33) as usize % ready.max(1)
    };
    let fired = |piece: Piece| -> Result<(), Infallible> {
        let Piece { tb, step, chunks, ends_step: _ } = piece;
        let round = step / round_steps(&wiring, tb, setting.rounds);
        let code = &wiring.block(tb).steps[step as usize];
        world.fire(&wiring, &layout, (tb, round), code, chunks);
        Ok(())
    };
    let messages =
        Messages { chunks_per_message: setting.chunks_per_message, depth: setting.depth };
    let outcome = match msccl_machine::run(&wiring, messages, pick, fired) {
        Ok(outcome) => outcome,
        Err(never) => match never {},
    };
    Ok(match outcome {
        Outcome::Stalled(stall) => Ending::Stalled(stall),
        Outcome::Completed { leftover } => match (world.wrong(&layout), leftover.as_slice()) {
            (Some(wrong), _) => Ending::Wrong(wrong),
            (None, []) => Ending::Right,
            (None, left) => Ending::Leftover(left.iter().map(|(_, messages)| messages).sum()),
        },
    })
}

/// Runs the algorithm in every order, for algorithms of a few dozen pieces; gives up after `bound`
/// states.
///
/// # Errors
///
/// The algorithm is malformed.
pub fn exhaustive(
    algorithm: &Algorithm,
    setting: Setting,
    bound: usize,
) -> Result<Explored, Vec<Violation>> {
    well_formed(algorithm)?;
    let unrolled = unroll(algorithm, setting.rounds);
    let wiring = wire(&unrolled)?;
    let layout = Layout::new(&wiring, setting.in_place, setting.rounds);
    let search = Search { wiring: &wiring, layout: &layout, setting };
    Ok(search.run(bound))
}

pub(crate) fn well_formed(algorithm: &Algorithm) -> Result<(), Vec<Violation>> {
    let structure = |violation: &Violation| violation.class == ViolationClass::Structure;
    match validate(algorithm, &Target::native()) {
        Err(violations) if violations.iter().any(structure) => Err(violations),
        Err(_) | Ok(()) => Ok(()),
    }
}

pub(crate) fn wire(algorithm: &Algorithm) -> Result<Wiring<'_>, Vec<Violation>> {
    Wiring::new(algorithm).map_err(|unwired| {
        let (class, message) = (ViolationClass::Structure, unwired.to_string());
        vec![Violation { class, at: None, message }]
    })
}

/// Steps of one round of `tb`; at least one.
fn round_steps(wiring: &Wiring<'_>, tb: TbId, rounds: u32) -> u32 {
    (wiring.block(tb).steps.len() as u32 / rounds.max(1)).max(1)
}

/// The next state of a 64-bit linear congruential generator.
fn next_random(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// A search through all states that any order of pieces can lead to.
struct Search<'a> {
    wiring: &'a Wiring<'a>,
    layout: &'a Layout<'a>,
    setting: Setting,
}

/// Where every thread block stands, and what everything holds.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    /// By thread block: the step, and how many of its pieces have fired.
    positions: Vec<(u32, u32)>,
    world: World,
}

impl Search<'_> {
    fn run(&self, bound: usize) -> Explored {
        let start = State {
            positions: vec![(0, 0); self.wiring.tb_count()],
            world: World::new(self.wiring, self.layout),
        };
        let mut explored = Explored {
            wrong: BTreeSet::new(),
            stalls: false,
            leaves_messages: false,
            states: 0,
            complete: true,
        };
        let mut seen = HashSet::from([start.clone()]);
        let mut open = vec![start];
        while let Some(state) = open.pop() {
            let next: Vec<_> = self.blocks().filter_map(|tb| self.fire(&state, tb)).collect();
            if next.is_empty() {
                self.note_end(&state, &mut explored);
            }
            for next in next {
                if seen.len() >= bound && !seen.contains(&next) {
                    explored.complete = false;
                } else if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        explored.states = seen.len();
        explored
    }

    fn blocks(&self) -> impl Iterator<Item = TbId> + use<> {
        (0..self.wiring.tb_count() as u32).map(TbId)
    }

    fn step(&self, state: &State, tb: TbId) -> Option<&Step> {
        self.wiring.block(tb).steps.get(state.positions[tb.index()].0 as usize)
    }

    fn note_end(&self, state: &State, explored: &mut Explored) {
        if self.blocks().any(|tb| self.step(state, tb).is_some()) {
            explored.stalls = true;
            return;
        }
        explored.wrong.extend(state.world.wrong(self.layout));
        explored.leaves_messages |= state.world.links.iter().any(|link| !link.is_empty());
    }

    /// The state after the next piece of `tb`, if it may fire.
    fn fire(&self, state: &State, tb: TbId) -> Option<State> {
        let step = self.step(state, tb)?;
        if !self.may_fire(state, tb, step) {
            return None;
        }
        let (index, piece) = state.positions[tb.index()];
        let mut pieces = pieces(step, self.setting.chunks_per_message);
        let last = piece as usize + 1 == pieces.len();
        let chunks = pieces.nth(piece as usize)?;
        let mut next = state.clone();
        let round = index / round_steps(self.wiring, tb, self.setting.rounds);
        next.world.fire(self.wiring, self.layout, (tb, round), step, chunks);
        next.positions[tb.index()] = if last { (index + 1, 0) } else { (index, piece + 1) };
        Some(next)
    }

    fn may_fire(&self, state: &State, tb: TbId, step: &Step) -> bool {
        let wiring = self.wiring;
        let ended = step.waits.iter().all(|wait| {
            let other = wiring.tb_id(wiring.rank(tb), wait.tb);
            state.positions[other.index()].0 > wait.step.0
        });
        let full = self.setting.depth as usize;
        let links = &state.world.links;
        ended
            && step
                .receives()
                .filter_map(|from| wiring.link_from(tb, from))
                .all(|link| !links[link.index()].is_empty())
            && step
                .sends()
                .filter_map(|to| wiring.link_to(tb, to))
                .all(|link| links[link.index()].len() < full)
    }
}
