//! The state of a run over symbols: what every slot and every message holds.
//!
//! A value is a multiset of contributions, or undefined: a slot that nobody has written, and
//! whatever was computed from one.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Range;
use std::rc::Rc;

use msccl_collective::{Buffer, Collective, Contribution, Promise, Rank, Slot};
use msccl_ir::{Place, Step};
use msccl_machine::{Machine, TbId, Wiring, execute};

/// A multiset of contributions in ascending order; `None` is undefined.
pub type Value = Option<Rc<[Contribution]>>;

/// Where the slots of all ranks stand in one list, aliased ones at one position.
pub(crate) struct Layout<'a> {
    collective: &'a Collective,
    in_place: bool,
    rounds: u32,
    /// By rank: where each buffer starts, and how many chunks it has.
    buffers: Vec<[(usize, u32); 3]>,
    slots: usize,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(wiring: &Wiring<'a>, in_place: bool, rounds: u32) -> Self {
        let algorithm = wiring.algorithm();
        let collective = &algorithm.collective;
        let mut slots = 0;
        let buffers = collective.all_ranks().zip(&algorithm.ranks).map(|(rank, program)| {
            Buffer::ALL.map(|buffer| {
                let chunks = match buffer {
                    Buffer::Input | Buffer::Output => collective.buffer_chunks(rank, buffer),
                    Buffer::Scratch => program.scratch_chunks,
                };
                // In place, a shared buffer is as long as the longer of the two.
                let other = match buffer {
                    Buffer::Output => collective.buffer_chunks(rank, Buffer::Input),
                    Buffer::Input | Buffer::Scratch => 0,
                };
                let start = slots;
                let longer = if in_place { chunks.max(other) } else { chunks };
                slots += longer as usize * rounds as usize;
                (start, longer)
            })
        });
        let buffers = buffers.collect();
        Self { collective, in_place, rounds, buffers, slots }
    }

    /// The slots of all ranks in one round, aliased ones once.
    pub(crate) fn slots(&self) -> Vec<(Rank, Slot)> {
        let of_rank = |(rank, buffers): (usize, &[(usize, u32); 3])| {
            let rank = Rank::from(rank);
            let counts = Buffer::ALL.into_iter().zip(buffers.map(|(_, chunks)| chunks));
            let all = counts.flat_map(|(buffer, chunks)| {
                (0..chunks).map(move |index| Slot::new(buffer, index))
            });
            let own =
                |slot: &Slot| !self.in_place || self.collective.in_place(rank, *slot) == *slot;
            all.filter(own).map(|slot| (rank, slot)).collect::<Vec<_>>()
        };
        self.buffers.iter().enumerate().flat_map(of_rank).collect()
    }

    /// The slot that `slot` of `rank` is.
    pub(crate) fn canonical(&self, rank: Rank, slot: Slot) -> Slot {
        if self.in_place { self.collective.in_place(rank, slot) } else { slot }
    }

    /// The position of `slot` of `rank` in round `round`.
    fn position(&self, rank: Rank, slot: Slot, round: u32) -> usize {
        let slot = self.canonical(rank, slot);
        let (start, chunks) = self.buffers[rank.index()][slot.buffer as usize];
        start + round as usize * chunks as usize + slot.index as usize
    }
}

/// The state of a run.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    slots: Vec<Value>,
    /// By link: the messages under link cost, each with its chunks.
    pub(crate) links: Vec<VecDeque<Vec<Value>>>,
}

/// A slot that does not hold what the collective promises.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Wrong {
    /// Whose output.
    pub rank: Rank,
    /// Which chunk of it.
    pub index: u32,
    /// What it must hold.
    pub expected: Vec<Contribution>,
    /// What it holds; `None` if that is undefined.
    pub found: Option<Vec<Contribution>>,
}

impl World {
    /// The state at the start.
    pub(crate) fn new(wiring: &Wiring<'_>, layout: &Layout<'_>) -> Self {
        let mut slots = vec![None; layout.slots];
        for rank in layout.collective.all_ranks() {
            for index in 0..layout.collective.input_chunks(rank) {
                let given = layout.collective.given(rank, index);
                for round in 0..layout.rounds {
                    let at = layout.position(rank, Slot::new(Buffer::Input, index), round);
                    if let Some(given) = given {
                        slots[at] = Some(Rc::new([given]) as Rc<[Contribution]>);
                    }
                }
            }
        }
        Self { slots, links: vec![VecDeque::new(); wiring.links().len()] }
    }

    /// Executes the chunks `chunks` of `step` of thread block `tb` in round `round`: takes a
    /// message from every link it receives on, and sends one on every link it sends on.
    pub(crate) fn fire(
        &mut self,
        wiring: &Wiring<'_>,
        layout: &Layout<'_>,
        at: (TbId, u32),
        step: &Step,
        chunks: Range<u32>,
    ) {
        let (tb, round) = at;
        let taken = step.receives().map(|from| {
            let link = wiring.link_from(tb, from);
            let message = link.and_then(|link| self.links[link.index()].pop_front());
            (from, message.unwrap_or_default().into())
        });
        let taken = taken.collect();
        let sent = step.sends().map(|to| (to, Vec::new())).collect();
        let rank = wiring.rank(tb);
        let mut hands = Hands { world: self, layout, rank, round, taken, sent };
        match execute(step, chunks, &mut hands) {
            Ok(()) => {}
            Err(never) => match never {},
        }
        for (to, message) in hands.sent {
            if let Some(link) = wiring.link_to(tb, to) {
                self.links[link.index()].push_back(message);
            }
        }
    }

    /// What `slot` of `rank` holds in round `round`.
    pub(crate) fn value(&self, layout: &Layout<'_>, rank: Rank, slot: Slot, round: u32) -> &Value {
        &self.slots[layout.position(rank, slot, round)]
    }

    /// The first promised output slot, in any round, that holds something else.
    pub(crate) fn wrong(&self, layout: &Layout<'_>) -> Option<Wrong> {
        let ranks = layout.collective.all_ranks();
        let slots = ranks.flat_map(|rank| {
            (0..layout.collective.output_chunks(rank)).map(move |index| (rank, index))
        });
        slots.flat_map(|at| (0..layout.rounds).map(move |round| (at, round))).find_map(
            |((rank, index), round)| {
                let expected = promised(layout.collective, rank, index)?;
                let at = layout.position(rank, Slot::new(Buffer::Output, index), round);
                let found = self.slots[at].as_ref().map(|value| value.to_vec());
                (found.as_ref() != Some(&expected)).then_some(Wrong {
                    rank,
                    index,
                    expected,
                    found,
                })
            },
        )
    }
}

fn promised(collective: &Collective, rank: Rank, index: u32) -> Option<Vec<Contribution>> {
    Some(match collective.promised(rank, index)? {
        Promise::One(only) => vec![only],
        Promise::EveryRank { index } => {
            collective.all_ranks().map(|rank| Contribution { rank, index }).collect()
        }
        Promise::Sum(sum) => sum,
    })
}

/// What a step works on: the world, and the messages in its hands.
struct Hands<'a, 'l> {
    world: &'a mut World,
    layout: &'a Layout<'l>,
    rank: Rank,
    round: u32,
    taken: Vec<(Rank, VecDeque<Value>)>,
    sent: Vec<(Rank, Vec<Value>)>,
}

impl Machine for Hands<'_, '_> {
    type Sum = Value;
    type Value = Value;
    type Error = Infallible;

    fn read(&mut self, from: Place) -> Result<Value, Infallible> {
        Ok(match from {
            Place::Local(slot) => {
                self.world.slots[self.layout.position(self.rank, slot, self.round)].clone()
            }
            Place::Link(peer) => {
                let message = self.taken.iter_mut().find(|(from, _)| *from == peer);
                message.and_then(|(_, chunks)| chunks.pop_front()).flatten()
            }
        })
    }

    fn add(&mut self, sum: Value, from: Place) -> Result<Value, Infallible> {
        let (Some(sum), Some(other)) = (sum, self.read(from)?) else { return Ok(None) };
        let mut all = [&*sum, &*other].concat();
        all.sort_unstable();
        Ok(Some(all.into()))
    }

    fn round(&mut self, sum: Value) -> Value {
        sum
    }

    fn write(&mut self, to: Place, value: &Value) -> Result<(), Infallible> {
        match to {
            Place::Local(slot) => {
                let at = self.layout.position(self.rank, slot, self.round);
                self.world.slots[at] = value.clone();
            }
            Place::Link(peer) => {
                let message = self.sent.iter_mut().find(|(to, _)| *to == peer);
                message.into_iter().for_each(|(_, chunks)| chunks.push(value.clone()));
            }
        }
        Ok(())
    }
}
