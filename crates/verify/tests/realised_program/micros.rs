//! The loads and stores of one chunk of a step, in order.

use msccl_collective::Rank;
use msccl_ir::{Place, Step};
use msccl_verify::{Actor, Delivery, DeliveryKind, LinkAccess, Payload, Touch};

use super::parts::{Met, Micro, Target};

/// Which chunk of which step of a rank, and the messages that the step meets.
#[derive(Clone, Copy)]
pub struct ChunkOfStep<'a> {
    pub rank: Rank,
    pub step: usize,
    pub code: &'a Step,
    pub chunk: u32,
    pub takes: &'a [Met],
    pub sends: &'a [Met],
}

/// Its loads and stores.
pub fn micros(of: ChunkOfStep<'_>) -> Vec<Micro> {
    let mut micros = Micros { of, source: 0, all: Vec::new() };
    for (number, &place) in of.code.sources.iter().enumerate() {
        micros.source = number;
        match place {
            Place::Local(slot) => {
                let access = micros.local(Touch::Load, Payload::Sources);
                micros.add(Touch::Load, Target::Cell(of.rank, slot.offset(of.chunk)), access);
            }
            Place::Link(peer) => micros.take(peer),
        }
    }
    micros.store();
    // The sum of a chunk whose only load is left out, since it has landed, is read by nobody.
    micros.all
}

struct Micros<'a> {
    of: ChunkOfStep<'a>,
    source: usize,
    all: Vec<Micro>,
}

impl Micros<'_> {
    fn add(&mut self, touch: Touch, target: Target, access: Option<LinkAccess>) {
        let ChunkOfStep { step, chunk, .. } = self.of;
        self.all.push(Micro { touch, target, step, chunk, source: self.source, access });
    }

    /// What is local is recorded with the message it goes with: a taken one first.
    fn local(&self, touch: Touch, payload: Payload) -> Option<LinkAccess> {
        let taken = self.of.takes.first().map(|met| (Actor::Receive, met));
        let (actor, met) = taken.or(self.of.sends.first().map(|met| (Actor::Send, met)))?;
        Some(access(actor, met, touch, payload))
    }

    /// The loads of a message.
    fn take(&mut self, peer: Rank) {
        let ChunkOfStep { rank, chunk, .. } = self.of;
        let met = self.of.takes.iter().find(|met| met.message.send.rank == peer);
        let met = *met.expect("a message of the step");
        let load = |payload| Some(access(Actor::Receive, &met, Touch::Load, payload));
        match met.direct {
            None => self.add(Touch::Load, Target::Slot { link: met.link }, load(Payload::Slot)),
            Some((Delivery::Push, sent)) => {
                if self.of.code.destinations.len() > 1 {
                    let cell = Target::Cell(rank, sent.region.start.offset(chunk));
                    self.add(Touch::Load, cell, load(Payload::RegionForFurther));
                }
            }
            Some((_, sent)) => {
                let cell = Target::Cell(met.message.send.rank, sent.region.start.offset(chunk));
                self.add(Touch::Load, cell, load(Payload::Region));
            }
        }
    }

    /// The stores to all destinations; a message that was pushed has made the first local one.
    fn store(&mut self) {
        let ChunkOfStep { rank, chunk, code, takes, .. } = self.of;
        let landed = takes.iter().any(|met| matches!(met.direct, Some((Delivery::Push, _))));
        let payload = if landed { Payload::FurtherDestinations } else { Payload::Destinations };
        let mut is_first = true;
        for &destination in &code.destinations {
            match destination {
                Place::Local(slot) => {
                    if !(landed && is_first) {
                        let access = self.local(Touch::Store, payload);
                        self.add(Touch::Store, Target::Cell(rank, slot.offset(chunk)), access);
                    }
                    is_first = false;
                }
                Place::Link(peer) => self.send(peer),
            }
        }
    }

    /// The store of a message, unless its receiver pulls it.
    fn send(&mut self, peer: Rank) {
        let met = self.of.sends.iter().find(|met| met.message.receive.rank == peer);
        let met = *met.expect("a message of the step");
        let store = |payload| Some(access(Actor::Send, &met, Touch::Store, payload));
        match met.direct {
            None => self.add(Touch::Store, Target::Slot { link: met.link }, store(Payload::Slot)),
            Some((Delivery::Push, sent)) => {
                let slot = sent.region.start.offset(self.of.chunk);
                let cell = Target::Cell(met.message.receive.rank, slot);
                self.add(Touch::Store, cell, store(Payload::Region));
            }
            Some(_) => {}
        }
    }
}

fn access(actor: Actor, met: &Met, touch: Touch, payload: Payload) -> LinkAccess {
    let delivery = match met.direct {
        None => DeliveryKind::Staged,
        Some((Delivery::Push, _)) => DeliveryKind::Push,
        Some((Delivery::Pull { .. }, _)) => DeliveryKind::Pull,
        Some((Delivery::Staged, _)) => panic!("a direct link that is staged"),
    };
    LinkAccess { delivery, actor, touch, payload }
}
