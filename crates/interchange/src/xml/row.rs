//! One `<step>` as values, and what it means as a step of the IR.
//!
//! | `type` | sources → destinations |
//! |---|---|
//! | `s` | src → link |
//! | `r` | link → dst |
//! | `rcs` | link → dst, link |
//! | `rrc` | link + src → dst |
//! | `rrs` | link + src → link |
//! | `rrcs` | link + src → dst, link |
//! | `cpy` | src → dst |
//! | `re` | dst + src → dst |
//! | `nop` | nothing: it only waits |
//!
//! A pair that a type does not use is informational; we write the place that it does use.

use msccl_collective::{Buffer, Rank, Slot, StepIndex, TbIndex};
use msccl_ir::{Operands, Place, Step, Wait, Waits};

use super::vocabulary::MOST;

/// The `type` of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Send,
    Recv,
    RecvCopySend,
    RecvReduceCopy,
    RecvReduceSend,
    RecvReduceCopySend,
    Copy,
    Reduce,
    Nop,
}

impl Type {
    const ALL: [Type; 9] = [
        Type::Send,
        Type::Recv,
        Type::RecvCopySend,
        Type::RecvReduceCopy,
        Type::RecvReduceSend,
        Type::RecvReduceCopySend,
        Type::Copy,
        Type::Reduce,
        Type::Nop,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Type::Send => "s",
            Type::Recv => "r",
            Type::RecvCopySend => "rcs",
            Type::RecvReduceCopy => "rrc",
            Type::RecvReduceSend => "rrs",
            Type::RecvReduceCopySend => "rrcs",
            Type::Copy => "cpy",
            Type::Reduce => "re",
            Type::Nop => "nop",
        }
    }

    pub(super) fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)
    }

    /// Whether it takes a message.
    pub(super) fn receives(self) -> bool {
        matches!(
            self,
            Type::Recv
                | Type::RecvCopySend
                | Type::RecvReduceCopy
                | Type::RecvReduceSend
                | Type::RecvReduceCopySend
        )
    }

    /// Whether it sends a message.
    pub(super) fn sends(self) -> bool {
        matches!(
            self,
            Type::Send | Type::RecvCopySend | Type::RecvReduceSend | Type::RecvReduceCopySend
        )
    }

    /// Whether its src pair means anything.
    pub(super) fn uses_src(self) -> bool {
        !matches!(self, Type::Recv | Type::RecvCopySend | Type::Nop)
    }

    /// Whether its dst pair means anything.
    pub(super) fn uses_dst(self) -> bool {
        !matches!(self, Type::Send | Type::RecvReduceSend | Type::Nop)
    }
}

/// One `<step>`, apart from its number. Pairs that the type does not use repeat the other pair;
/// those of a no-op are `i[0]`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row {
    pub kind: Type,
    pub src: Slot,
    pub dst: Slot,
    pub count: u32,
    pub wait: Option<Wait>,
    pub signals: bool,
}

impl Row {
    /// The row that says what `step` says, or why there is none. Peers and signals are the
    /// caller's affair.
    pub(super) fn from_step(step: &Step) -> Result<Self, &'static str> {
        let Step { waits, sources, destinations, count } = step;
        let (kind, src, dst) = shape(sources, destinations).ok_or(NO_SUCH_TYPE)?;
        match (kind, *count) {
            (Type::Nop, 0) => {}
            (Type::Nop, _) => return Err("a no-op moves nothing, yet its count is not 0"),
            (_, 0) => return Err("its count is 0, so it must have no sources or destinations"),
            (_, _) => {}
        }
        if i64::from(*count.max(&src.index.max(dst.index))) > MOST {
            return Err("its count or one of its slots is beyond what can be read: 2^24");
        }
        let wait = match waits.as_slice() {
            [] => None,
            [wait] => Some(*wait),
            _ => return Err("a step of MSCCL XML waits for one step; put the others in no-ops"),
        };
        Ok(Row { kind, src, dst, count: *count, wait, signals: false })
    }

    /// The step that this row says, in a thread block that sends to `send` and receives from
    /// `receive`; `None` where it needs a peer that the block lacks.
    pub(super) fn to_step(self, send: Option<Rank>, receive: Option<Rank>) -> Option<Step> {
        let Row { kind, src, dst, count, wait, signals: _ } = self;
        let (sources, destinations) = operands(kind, src, dst, send, receive)?;
        Some(Step { waits: wait.into_iter().collect::<Waits>(), sources, destinations, count })
    }
}

const NO_SUCH_TYPE: &str = "MSCCL XML has no step type with these sources and destinations; \
                            compile for the target `msccl`, which splits it";

fn shape(sources: &Operands, destinations: &Operands) -> Option<(Type, Slot, Slot)> {
    use Place::{Link, Local};
    Some(match (sources.as_slice(), destinations.as_slice()) {
        ([], []) => (Type::Nop, NOWHERE, NOWHERE),
        ([Local(src)], [Link(_)]) => (Type::Send, *src, *src),
        ([Link(_)], [Local(dst)]) => (Type::Recv, *dst, *dst),
        ([Local(src)], [Local(dst)]) => (Type::Copy, *src, *dst),
        ([Local(first), Local(src)], [Local(dst)]) if first == dst => (Type::Reduce, *src, *dst),
        ([Link(_)], [Local(dst), Link(_)]) => (Type::RecvCopySend, *dst, *dst),
        ([Link(_), Local(src)], [Local(dst)]) => (Type::RecvReduceCopy, *src, *dst),
        ([Link(_), Local(src)], [Link(_)]) => (Type::RecvReduceSend, *src, *src),
        ([Link(_), Local(src)], [Local(dst), Link(_)]) => (Type::RecvReduceCopySend, *src, *dst),
        _ => return None,
    })
}

/// The pairs of a no-op.
pub(super) const NOWHERE: Slot = Slot { buffer: Buffer::Input, index: 0 };

fn operands(
    kind: Type,
    src: Slot,
    dst: Slot,
    send: Option<Rank>,
    receive: Option<Rank>,
) -> Option<(Operands, Operands)> {
    let (src, dst) = (Place::Local(src), Place::Local(dst));
    let incoming = || receive.map(Place::Link);
    let outgoing = || send.map(Place::Link);
    Some(match kind {
        Type::Send => (one(src), one(outgoing()?)),
        Type::Recv => (one(incoming()?), one(dst)),
        Type::RecvCopySend => (one(incoming()?), two(dst, outgoing()?)),
        Type::RecvReduceCopy => (two(incoming()?, src), one(dst)),
        Type::RecvReduceSend => (two(incoming()?, src), one(outgoing()?)),
        Type::RecvReduceCopySend => (two(incoming()?, src), two(dst, outgoing()?)),
        Type::Copy => (one(src), one(dst)),
        Type::Reduce => (two(dst, src), one(dst)),
        Type::Nop => (Operands::new(), Operands::new()),
    })
}

fn one(place: Place) -> Operands {
    [place].into_iter().collect()
}

fn two(first: Place, second: Place) -> Operands {
    Operands::from_buf([first, second])
}

/// The wait for step `step` of thread block `tb`.
pub(super) fn wait(tb: u32, step: u32) -> Wait {
    Wait { tb: TbIndex(tb), step: StepIndex(step) }
}
