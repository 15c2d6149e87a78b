//! From one end to the other: which packets lead there, and which writes may go.

use std::hash::{BuildHasher, RandomState};

use msccl_proxy::rdma::abi;

use crate::address::End;
use crate::machine::Settings;
use crate::verbs::{Refused, Route};

/// The number of a first packet: not guessed by what is left in the network of an earlier
/// connection.
pub(super) fn first_packet() -> u32 {
    (RandomState::new().hash_one(0_u8) & 0xff_ffff) as u32
}

/// The path from `own`, whose GID has that index, to `peer`; the text says why there can be none.
pub(super) fn route(
    settings: &Settings,
    own: &End,
    own_gid_index: u8,
    peer: &End,
) -> Result<Route, String> {
    if own.ethernet != peer.ethernet {
        let layer = |end: &End| if end.ethernet { "Ethernet" } else { "InfiniBand" };
        return Err(format!(
            "{} is {}, but {} is {}; let NCCL_IB_HCA name ports of one network on all hosts",
            own.describe(),
            layer(own),
            peer.describe(),
            layer(peer),
        ));
    }
    // On InfiniBand, packets need global addresses only between subnets, the first half of a GID.
    let global = own.ethernet || own.gid[..8] != peer.gid[..8];
    Ok(Route {
        port: own.port,
        pair: peer.pair,
        packet: peer.packet,
        mtu_code: own.mtu_code.min(peer.mtu_code),
        lid: peer.lid,
        global: global.then_some((peer.gid, own_gid_index)),
        service_level: settings.service_level,
        traffic_class: settings.traffic_class,
    })
}

/// That the driver has `refused` the path to `peer`, and what to look at.
pub(super) fn no_path(own: &End, peer: &End, refused: &Refused) -> String {
    format!(
        "{} cannot be connected with {}: {refused}; both ports must be in one \
         network, with addresses of the same kind (see `ip route get` and NCCL_IB_GID_INDEX)",
        own.describe(),
        peer.describe(),
    )
}

/// Whether a write stays within the memory of both sides and a message's limit.
pub(super) fn check(write: &abi::RawWrite, own: &End, peer: &End, most: u32) -> Result<(), String> {
    let abi::RawWrite { from, to, bytes, tag } = *write;
    let within = |start: u64, end: &End| {
        start.checked_add(u64::from(bytes)).is_some_and(|last| last <= end.memory_bytes)
    };
    if bytes > most {
        return Err(format!(
            "a write of {bytes} bytes (tag {tag:#x}); the port sends at most {most}"
        ));
    }
    for (start, end, side) in [(from, own, "this side"), (to, peer, "the peer")] {
        if bytes > 0 && !within(start, end) {
            let has = end.memory_bytes;
            return Err(format!(
                "a write of {bytes} bytes (tag {tag:#x}) at {start} of {side}'s memory, which has \
                 {has} bytes"
            ));
        }
    }
    Ok(())
}
