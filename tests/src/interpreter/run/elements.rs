//! Elements of a slice: their loads, lines and stores, in random order.

use std::collections::VecDeque;

use msccl_collective::{Buffer, Protocol, Slot};
use msccl_testkit::Numbers;

use super::super::REDUCE_FUSION;
use super::super::parse::{Block, Kind, Transfer};
use super::{Cell, Run, Thread, Value};

#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Load(Cell),
    Take(usize, u64, u64),
    Put(usize, u64, u64),
    Store(Cell),
}

#[derive(Default)]
pub(super) struct Element {
    acts: VecDeque<Act>,
    value: Option<Value>,
}

impl Run<'_> {
    /// What is to be done for every element of the slice at hand.
    pub(super) fn elements(
        &mut self,
        at: usize,
        code: &Block,
        transfer: &Transfer,
    ) -> Vec<Element> {
        let (outgoing, incoming) =
            (self.outgoing(at, code, transfer), self.incoming(at, code, transfer));
        let Thread { rank, round, chunk, slice, .. } = self.blocks[at];
        let count = (transfer.count - chunk).min(self.max_count) as u64;
        let length = self.length(round);
        let number = length * count;
        let simple = self.protocol() == Protocol::Simple;
        // `max(divUp(nelem, 32) * 16, stepSize * StepPerSlice / 32)`
        let boundary = (number.div_ceil(32) * 16).max(self.slice_elements / 64);
        let links = incoming.is_some() || outgoing.is_some();
        let mut elements = Vec::new();
        for position in 0..count {
            for sample in 0..self.samples(round) {
                let linear = position * length + sample * (length - 1);
                let own_slice = u64::from(simple && links && linear >= boundary);
                if own_slice != slice {
                    continue;
                }
                let place = |(buffer, offset): (Buffer, i64)| {
                    let index = (offset + chunk) as u64 + position;
                    self.cell(rank, Slot::new(buffer, index as u32), round, sample)
                };
                let line = position * 2 + sample;
                let mut acts = VecDeque::new();
                match transfer.kind {
                    Kind::Reduce => {
                        self.overrun |= self.reduce(code, transfer, number, &place, &mut acts)
                    }
                    kind => {
                        if kind.reads() {
                            acts.push_back(Act::Load(place(transfer.src)));
                        }
                        if let Some(link) = incoming {
                            acts.push_back(Act::Take(link, self.fifos[link].taken, line));
                        }
                        if let Some(link) = outgoing {
                            acts.push_back(Act::Put(link, self.fifos[link].sent, line));
                        }
                        if kind.writes() {
                            acts.push_back(Act::Store(place(transfer.dst)));
                        }
                    }
                }
                elements.push(Element { acts, value: None });
            }
        }
        elements
    }

    /// One element of a chain of reductions. Whether an array is overrun.
    pub(super) fn reduce(
        &self,
        code: &Block,
        transfer: &Transfer,
        elements: u64,
        place: &dyn Fn((Buffer, i64)) -> Cell,
        acts: &mut VecDeque<Act>,
    ) -> bool {
        let (first, number) = transfer.reductions;
        let sources = &code.reduction_sources[first..first + number];
        let sources = sources.iter().map(|&offset| Act::Load(place((transfer.src.0, offset))));
        let own = Act::Load(place(transfer.dst));
        let is_small = elements < self.threads;
        if is_small || self.protocol() != Protocol::Simple {
            acts.push_back(own);
            acts.extend(sources);
        } else {
            acts.extend(sources.chain([own]));
            acts.truncate(REDUCE_FUSION.max(2));
        }
        acts.push_back(Act::Store(place(transfer.dst)));
        let room =
            if self.protocol() == Protocol::Simple { REDUCE_FUSION } else { REDUCE_FUSION + 1 };
        !is_small && number > room
    }

    /// One load, store or line of a random element; the end of the slice if nothing is left.
    pub(super) fn element(
        &mut self,
        at: usize,
        code: &Block,
        transfer: &Transfer,
        numbers: &mut Numbers,
    ) -> bool {
        let elements = &self.blocks[at].elements;
        if elements.is_empty() {
            self.end_slice(at, code, transfer);
            return true;
        }
        let start = numbers.below(elements.len() as u64) as usize;
        let ready = (0..elements.len()).map(|next| (start + next) % elements.len()).find(|&pick| {
            match elements[pick].acts.front() {
                Some(&Act::Take(link, message, line)) => {
                    self.fifos[link].lines.contains_key(&(message, line))
                }
                _ => true,
            }
        });
        let Some(pick) = ready else { return false };
        let act = self.blocks[at].elements[pick].acts.pop_front();
        let loaded = match act {
            Some(Act::Load(cell)) => {
                let own = self.blocks[at].pending.iter().rev().find(|(other, _)| *other == cell);
                let junk = || Value::one(0xdead ^ u64::from(cell.0) << 20 ^ cell.2 << 30);
                Some(own.map_or_else(
                    || self.memory.get(&cell).copied().unwrap_or_else(junk),
                    |(_, value)| *value,
                ))
            }
            Some(Act::Take(link, message, line)) => self.fifos[link].lines.remove(&(message, line)),
            Some(Act::Put(link, message, line)) => {
                let value = self.blocks[at].elements[pick].value;
                self.fifos[link].lines.extend(value.map(|value| ((message, line), value)));
                None
            }
            Some(Act::Store(cell)) => {
                let value = self.blocks[at].elements[pick].value;
                self.blocks[at].pending.extend(value.map(|value| (cell, value)));
                None
            }
            None => None,
        };
        let element = &mut self.blocks[at].elements[pick];
        if let Some(loaded) = loaded {
            element.value = Some(element.value.map_or(loaded, |value| value.plus(loaded)));
        }
        if element.acts.is_empty() {
            self.blocks[at].elements.swap_remove(pick);
        }
        true
    }
}
