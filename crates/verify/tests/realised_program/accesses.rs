//! The loads and stores of one chunk of a step.

use msccl_collective::{Rank, Slot};
use msccl_ir::{Place, Step};
use msccl_verify::{Actor, Delivery, DeliveryKind, LinkAccess, Payload, Touch};

use super::parts::{Met, Micro, Target};

/// A chunk of a step, and the messages that the step takes and sends.
#[derive(Clone, Copy)]
pub struct Accesses<'a> {
    pub code: &'a Step,
    pub rank: Rank,
    pub step: usize,
    pub chunk: u32,
    pub takes: &'a [Met],
    pub sends: &'a [Met],
}

impl Accesses<'_> {
    /// The loads, then the stores.
    ///
    /// The sum of a chunk whose only load is left out, since it has landed, is read by nobody.
    pub fn micros(self) -> Vec<Micro> {
        let sources = self.code.sources.iter().enumerate();
        let loads = sources.filter_map(|(source, place)| self.load(source, *place));
        loads.chain(self.stores()).collect()
    }

    fn load(self, source: usize, place: Place) -> Option<Micro> {
        let (target, access) = match place {
            Place::Local(slot) => self.local(slot, Touch::Load, Payload::Sources),
            Place::Link(peer) => self.load_from(peer)?,
        };
        Some(self.micro(Touch::Load, target, source, access))
    }

    fn load_from(self, peer: Rank) -> Option<(Target, Option<LinkAccess>)> {
        let of = |met: &&Met| met.message.send.rank == peer;
        let met = self.takes.iter().find(of).expect("a message of the step");
        let access = |payload| Some(link_access(Actor::Receive, met, Touch::Load, payload));
        match &met.direct {
            None => Some((Target::Slot { link: met.link }, access(Payload::Slot))),
            Some((Delivery::Push, sent)) => {
                let has_further = self.code.destinations.len() > 1;
                let slot = sent.region.start.offset(self.chunk);
                let cell = Target::Cell(self.rank, slot);
                has_further.then(|| (cell, access(Payload::RegionForFurther)))
            }
            Some((_, sent)) => {
                let slot = sent.region.start.offset(self.chunk);
                Some((Target::Cell(met.message.send.rank, slot), access(Payload::Region)))
            }
        }
    }

    /// Where a message has landed, the first local destination holds the sum already.
    fn stores(self) -> Vec<Micro> {
        let landed = self.takes.iter().any(|met| matches!(met.direct, Some((Delivery::Push, _))));
        let payload = if landed { Payload::FurtherDestinations } else { Payload::Destinations };
        let source = self.code.sources.len().saturating_sub(1);
        let (mut stores, mut is_first) = (Vec::new(), true);
        for &destination in &self.code.destinations {
            let store = match destination {
                Place::Local(slot) => {
                    let is_there = landed && is_first;
                    is_first = false;
                    (!is_there).then(|| self.local(slot, Touch::Store, payload))
                }
                Place::Link(peer) => self.store_to(peer),
            };
            let store =
                store.map(|(target, access)| self.micro(Touch::Store, target, source, access));
            stores.extend(store);
        }
        stores
    }

    fn store_to(self, peer: Rank) -> Option<(Target, Option<LinkAccess>)> {
        let of = |met: &&Met| met.message.receive.rank == peer;
        let met = self.sends.iter().find(of).expect("a message of the step");
        let access = |payload| Some(link_access(Actor::Send, met, Touch::Store, payload));
        match &met.direct {
            None => Some((Target::Slot { link: met.link }, access(Payload::Slot))),
            Some((Delivery::Push, sent)) => {
                let slot = sent.region.start.offset(self.chunk);
                Some((Target::Cell(met.message.receive.rank, slot), access(Payload::Region)))
            }
            Some(_) => None,
        }
    }

    /// What is local is recorded with the message it goes with: a taken one first.
    fn local(self, slot: Slot, touch: Touch, payload: Payload) -> (Target, Option<LinkAccess>) {
        let taken = self.takes.first().map(|met| (Actor::Receive, met));
        let message = taken.or(self.sends.first().map(|met| (Actor::Send, met)));
        let access = message.map(|(actor, met)| link_access(actor, met, touch, payload));
        (Target::Cell(self.rank, slot.offset(self.chunk)), access)
    }

    fn micro(
        self,
        touch: Touch,
        target: Target,
        source: usize,
        access: Option<LinkAccess>,
    ) -> Micro {
        Micro { touch, target, step: self.step, chunk: self.chunk, source, access }
    }
}

fn link_access(actor: Actor, met: &Met, touch: Touch, payload: Payload) -> LinkAccess {
    let delivery = match met.direct {
        None => DeliveryKind::Staged,
        Some((Delivery::Push, _)) => DeliveryKind::Push,
        Some((Delivery::Pull { .. }, _)) => DeliveryKind::Pull,
        Some((Delivery::Staged, _)) => panic!("a direct link that is staged"),
    };
    LinkAccess { delivery, actor, touch, payload }
}
