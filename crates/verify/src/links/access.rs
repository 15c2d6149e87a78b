//! Who touches the payload of a message, and where: the list that `docs/MEMORY.md`, section 2,
//! shows.
//!
//! Of a message, S is the step that sends it and R the step that takes it. [`LINK_ACCESSES`] names
//! every load and store of payload that either makes, for every kind of delivery. What
//! [`super::direct`] takes into account is this list, and an executor may do nothing else.

use std::fmt;

use msccl_collective::Region;
use msccl_ir::Step;
use smallvec::SmallVec;

/// How a message gets to its receiver, for [`LinkAccess`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DeliveryKind {
    /// Through a slot of the link.
    Staged,
    /// S stores into the region.
    Push,
    /// R loads from the region.
    Pull,
}

/// The step that makes an access.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Actor {
    /// S.
    Send,
    /// R.
    Receive,
}

/// A load or a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Touch {
    /// It reads.
    Load,
    /// It writes.
    Store,
}

/// What is touched.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Payload {
    /// The local sources of the step.
    Sources,
    /// The local destinations of the step.
    Destinations,
    /// The local destinations of the step after the first.
    FurtherDestinations,
    /// The slot of the link.
    Slot,
    /// The region of the message: Y of a push, Z of a pull.
    Region,
    /// The region of the message, if the step has further destinations, local or on links.
    RegionForFurther,
}

/// An access of payload that a step of a message makes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkAccess {
    /// How the message is delivered.
    pub delivery: DeliveryKind,
    /// Who makes it.
    pub actor: Actor,
    /// Whether it loads or stores.
    pub touch: Touch,
    /// What it touches.
    pub payload: Payload,
}

const fn access(
    delivery: DeliveryKind,
    actor: Actor,
    touch: Touch,
    payload: Payload,
) -> LinkAccess {
    LinkAccess { delivery, actor, touch, payload }
}

/// All of them.
pub const LINK_ACCESSES: [LinkAccess; 16] = [
    access(DeliveryKind::Staged, Actor::Send, Touch::Load, Payload::Sources),
    access(DeliveryKind::Staged, Actor::Send, Touch::Store, Payload::Slot),
    access(DeliveryKind::Staged, Actor::Send, Touch::Store, Payload::Destinations),
    access(DeliveryKind::Staged, Actor::Receive, Touch::Load, Payload::Slot),
    access(DeliveryKind::Staged, Actor::Receive, Touch::Load, Payload::Sources),
    access(DeliveryKind::Staged, Actor::Receive, Touch::Store, Payload::Destinations),
    access(DeliveryKind::Push, Actor::Send, Touch::Load, Payload::Sources),
    access(DeliveryKind::Push, Actor::Send, Touch::Store, Payload::Region),
    access(DeliveryKind::Push, Actor::Send, Touch::Store, Payload::Destinations),
    access(DeliveryKind::Push, Actor::Receive, Touch::Load, Payload::RegionForFurther),
    access(DeliveryKind::Push, Actor::Receive, Touch::Store, Payload::FurtherDestinations),
    access(DeliveryKind::Pull, Actor::Send, Touch::Load, Payload::Sources),
    access(DeliveryKind::Pull, Actor::Send, Touch::Store, Payload::Destinations),
    access(DeliveryKind::Pull, Actor::Receive, Touch::Load, Payload::Region),
    access(DeliveryKind::Pull, Actor::Receive, Touch::Load, Payload::Sources),
    access(DeliveryKind::Pull, Actor::Receive, Touch::Store, Payload::Destinations),
];

/// What a step touches in the memory of its own rank, by itself.
pub(super) struct Local {
    pub(super) loads: SmallVec<[Region; 4]>,
    pub(super) stores: SmallVec<[Region; 4]>,
}

/// The local accesses of `step`, whose message, if `landing` is given, has been stored there.
pub(super) fn local(step: &Step, landing: Option<Region>) -> Local {
    let further = step.destinations.len() > 1;
    let landed = landing.filter(|_| further);
    Local {
        loads: step.reads().chain(landed).collect(),
        stores: step.writes().skip(usize::from(landing.is_some())).collect(),
    }
}

impl fmt::Display for LinkAccess {
    /// A row of the table in `docs/MEMORY.md`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { delivery, actor, touch, payload } = self;
        let delivery = match delivery {
            DeliveryKind::Staged => "staged",
            DeliveryKind::Push => "push",
            DeliveryKind::Pull => "pull",
        };
        let actor = match actor {
            Actor::Send => "S",
            Actor::Receive => "R",
        };
        let touch = match touch {
            Touch::Load => "loads",
            Touch::Store => "stores",
        };
        let payload = match (payload, actor) {
            (Payload::Sources, _) => "its local sources",
            (Payload::Destinations, _) => "its local destinations",
            (Payload::FurtherDestinations, _) => "its local destinations after the first",
            (Payload::Slot, _) => "the slot",
            (Payload::Region, "S") => "Y",
            (Payload::Region, _) => "Z",
            (Payload::RegionForFurther, _) => {
                "Y, if it has further destinations, local or on links"
            }
        };
        write!(f, "| {delivery} | {actor} | {touch} | {payload} |")
    }
}
