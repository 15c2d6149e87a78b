//! Point-to-point transfers: launches of the exchange kernel.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use msccl_collective::{Protocol, Rank};
use msccl_kernels::recording::{LINK_OF_LL, LINK_OF_SIMPLE, RecordingKernel};
use msccl_plan::Direction;
use msccl_plan::exchange::{self, Shape, Transfer};
use msccl_plan::launch::{
    self, EXCHANGE_LANES, Exchange, TRANSFER_LL, TRANSFER_OUT, TRANSFER_PARTS_MASK, WireEnd,
};
use msccl_select::{CARRIED, TRANSFER_WIRES};
use msccl_trace::recording::{KernelDescription, LaunchKind, Transfer as TransferDescription};

use super::arena::View;
use super::kernels::Launchable;
use super::launch::Grid;
use super::{CudaRank, TRANSFERS, tagged};
use crate::engine::Waiting;
use crate::error::Error;
use crate::recording::{RecordedExchange, transfer_direction};

impl CudaRank {
    /// Launches what `transfers` take, as call number `call`.
    pub(super) fn exchange(
        &self,
        transfers: &[Transfer],
        stream: u64,
        call: u64,
    ) -> Result<(), Error> {
        let view = &self.links.view;
        transfers.iter().try_for_each(|transfer| self.ensure_wires_to(transfer.peer))?;
        self.in_order(stream, |site| {
            let launches = launches(view, self.room, transfers);
            let recording = self.record_exchange(call, transfers, &launches, site.launch_kind());
            let kernel = recording.as_deref().unwrap_or(self.kernels.exchange());
            for launch in launches {
                let record = Exchange {
                    links_simple: table(view, Protocol::Simple),
                    links_ll: table(view, Protocol::Ll),
                    control: self.control_block.control(),
                    progress: self.control_block.progress(),
                    call: tagged(TRANSFERS, call),
                    notice: self.control_block.notice(),
                    ..launch
                };
                let row = Grid::row(record.lane_count, launch::THREADS_MAX_EXCHANGE);
                let shared_bytes = kernel.exchange_bytes(exchange::is_bulky(&record));
                let grid = Grid { shared_bytes, ..row };
                self.launch(&kernel.function, site, grid, &record)?;
            }
            self.inter_node.as_ref().inspect(|inter_node| inter_node.stir());
            self.launched.store(call, Ordering::Release);
            Ok(())
        })
    }

    /// Notes call number `call` for the recording, if there is one, and gives the kernel that
    /// records its `launches`.
    fn record_exchange(
        &self,
        call: u64,
        transfers: &[Transfer],
        launches: &[Exchange],
        launch: LaunchKind,
    ) -> Option<Arc<Launchable>> {
        let records = self.records.as_ref()?;
        let module = msccl_kernels::Module::Exchange;
        let kernel = RecordingKernel::Call { module, data_type: CARRIED };
        let describe = || describe(&self.links.view, launches);
        records.record(kernel, self.device_users.is_one_rank(), |recording| {
            recording.transfers(call, transfers, launch, describe);
        })
    }
}

/// The launches for `transfers`, in order, without what only the communicator knows. Each has
/// `room` thread blocks at most, or two: a rank may have to send and to receive at once. All ranks
/// have the same room, by which transfers are cut.
fn launches(view: &View, room: u32, transfers: &[Transfer]) -> Vec<Exchange> {
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

/// The first of the wires for transfers of each pair: they are the last ones.
fn first_wire(view: &View, protocol: Protocol) -> u32 {
    view.layout.wires(protocol).wires.saturating_sub(TRANSFER_WIRES)
}

/// Where the ends of the wires for transfers begin.
fn table(view: &View, protocol: Protocol) -> u64 {
    view.table(protocol) + u64::from(first_wire(view, protocol)) * size_of::<WireEnd>() as u64
}

/// What `launches` do, which are all of a call, as recordings have it.
fn describe(view: &View, launches: &[Exchange]) -> RecordedExchange {
    let transfers = launches.iter().flat_map(|launch| {
        let of_launch = (0..).zip(exchange::transfers_of(launch));
        of_launch.map(move |(place, of)| describe_one(view, launch, place, of))
    });
    let transfers: Vec<_> = transfers.collect();
    let mut protocols: Vec<_> = transfers.iter().map(|of| of.protocol.as_str()).collect();
    protocols.sort_unstable();
    protocols.dedup();
    let kernel = KernelDescription {
        kind: "exchange".to_owned(),
        protocol: protocols.join(" and "),
        delivery: "staged".to_owned(),
        threads: launch::THREADS_MAX_EXCHANGE,
    };
    RecordedExchange { kernel, transfers }
}

/// Transfer number `place` of `launch`.
fn describe_one(
    view: &View,
    launch: &Exchange,
    place: u16,
    transfer: &launch::Transfer,
) -> TransferDescription {
    let launch::Transfer { address: _, bytes, peer, traits } = *transfer;
    let way = if traits & TRANSFER_OUT != 0 { Direction::Out } else { Direction::In };
    let (protocol, link, slot_bytes) = match traits & TRANSFER_LL {
        0 => (Protocol::Simple, LINK_OF_SIMPLE, launch.simple_slot_bytes),
        _ => (Protocol::Ll, LINK_OF_LL, launch.ll_slot_bytes),
    };
    let mut lanes = launch.lanes.iter().take(launch.lane_count as usize);
    let has_it = |of: &launch::Lane| (of.first..of.first + of.count).contains(&place);
    TransferDescription {
        peer,
        direction: transfer_direction(way),
        bytes,
        parts: traits & TRANSFER_PARTS_MASK,
        message_bytes: exchange::message_bytes(protocol, slot_bytes),
        protocol: protocol.to_string(),
        wire: first_wire(view, protocol),
        link,
        track: lanes.position(|of| of.copies == 0 && has_it(of)).unwrap_or_default() as u32,
    }
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
