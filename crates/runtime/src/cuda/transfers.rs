//! Point-to-point transfers: launches of the exchange kernel.

use msccl_collective::{Protocol, Rank};
use msccl_plan::exchange::{self, Shape, Transfer};
use msccl_plan::launch::{self, EXCHANGE_LANES, Exchange, WireEnd};
use msccl_select::TRANSFER_WIRES;

use super::arena::View;
use crate::engine::Waiting;

/// The launches for `transfers`, in order, without what only the communicator knows. Each has
/// `room` thread blocks at most, or two: a rank may have to send and to receive at once. All ranks
/// have the same room, by which transfers are cut.
pub(super) fn launches(view: &View, room: u32, transfers: &[Transfer]) -> Vec<Exchange> {
    let shape = Shape {
        me: view.me,
        ranks: view.layout.ranks(),
        blocks: room.clamp(2, EXCHANGE_LANES as u32),
        simple: view.layout.wires(Protocol::Simple),
        ll: view.layout.wires(Protocol::Ll),
        near: view.layout.intra_node(),
    };
    exchange::launches(&shape, transfers, &[])
}

// Parts of transfers never outnumber the wires that are theirs.
const _: () = assert!(exchange::PARTS_MAX <= TRANSFER_WIRES);

/// Where the ends of the wires for transfers begin: the last ones of each pair.
pub(super) fn table(view: &View, protocol: Protocol) -> u64 {
    let first = view.layout.wires(protocol).wires.saturating_sub(TRANSFER_WIRES);
    view.table(protocol) + u64::from(first) * size_of::<WireEnd>() as u64
}

/// In words, what a part waits for, as its progress entry says.
pub(super) fn waiting(call: u64, entry: &launch::Progress) -> Waiting {
    let launch::Progress { kind, step, round, subject, number, call: _ } = *entry;
    let peer = Rank(subject);
    let what = match kind {
        launch::WAITING_MESSAGE => format!("message {number} from {peer}"),
        launch::WAITING_ROOM => format!("room for message {number} to {peer}"),
        _ => "something unknown".to_owned(),
    };
    let text = format!("transfer {step} waits for {what} (part {round})");
    Waiting { call, peer: Some(peer), text }
}
