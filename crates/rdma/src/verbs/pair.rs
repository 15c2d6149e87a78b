//! An unsafe boundary: a reliable-connected queue pair with its two completion queues, from its
//! making through its states to its end. What it is asked for in between is in [`requests`].

#![expect(unsafe_code, reason = "calls libibverbs for queue pairs")]

mod requests;

use std::ptr::{self, NonNull};
use std::sync::Arc;

use ibverbs_sys as ffi;

pub use requests::{Completion, Queue, RECEIVES_AT_ONCE, Signal, Target};

use super::{Adapter, Refused};

/// How many requests a pair holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Depth {
    /// Writes that have not completed.
    pub send: u32,
    /// Receives that wait for a write of the peer.
    pub receive: u32,
    /// Bytes of a write that may be copied into its request.
    pub inline_bytes: u32,
}

/// How to reach the peer's queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// This side's port.
    pub port: u8,
    /// The peer's queue pair.
    pub pair: u32,
    /// The sequence number of its first packet.
    pub packet: u32,
    /// Bytes of a packet, as verbs number them.
    pub mtu_code: u8,
    /// The peer's InfiniBand address; 0 on Ethernet.
    pub lid: u16,
    /// The peer's global address and the index of this side's, if packets carry them.
    pub global: Option<([u8; 16], u8)>,
    /// InfiniBand's service level, or the priority.
    pub service_level: u8,
    /// The traffic class of packets with global addresses.
    pub traffic_class: u8,
}

/// How long to try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// Time before a packet is sent again: 4.096 µs · 2^`timeout`.
    pub timeout: u8,
    /// How often; devices may take 7 for "for ever".
    pub retry_count: u8,
}

/// How events call a queue pair. When the pair has ended, another may be called so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePairId {
    /// Its number.
    pub pair: u32,
    /// The places of its completion queues in memory.
    pub completions: [usize; 2],
}

/// A queue pair. When it has ended, nothing of the peer lands any more.
pub struct Pair {
    // Fields end in this order, and verbs wants this order.
    pair: Handle,
    sent: Completions,
    received: Completions,
    _adapter: Arc<Adapter>,
    inline_bytes: u32,
}

// SAFETY: libibverbs lets any thread use a queue pair.
unsafe impl Send for Pair {}

struct Handle(NonNull<ffi::ibv_qp>);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it was made, is ended once, before its completion queues; its events are
        // acknowledged when taken.
        unsafe { ffi::ibv_destroy_qp(self.0.as_ptr()) };
    }
}

struct Completions(NonNull<ffi::ibv_cq>);

impl Completions {
    fn new(adapter: &Adapter, depth: u32) -> Result<Self, Refused> {
        let depth = i32::try_from(depth).unwrap_or(i32::MAX);
        // SAFETY: the context is open; neither a channel nor a context of ours is given.
        let queue = unsafe {
            ffi::ibv_create_cq(adapter.context(), depth, ptr::null_mut(), ptr::null_mut(), 0)
        };
        NonNull::new(queue).map(Self).ok_or_else(|| Refused::by_errno("ibv_create_cq"))
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: it was made, is ended once, after the queue pair.
        unsafe { ffi::ibv_destroy_cq(self.0.as_ptr()) };
    }
}

impl Pair {
    /// Makes one; it is of no use before [`Pair::prepare`].
    ///
    /// # Errors
    /// What the driver said.
    pub fn new(adapter: &Arc<Adapter>, depth: Depth) -> Result<Self, Refused> {
        let sent = Completions::new(adapter, depth.send)?;
        let received = Completions::new(adapter, depth.receive)?;
        let mut attributes = ffi::ibv_qp_init_attr {
            send_cq: sent.0.as_ptr(),
            recv_cq: received.0.as_ptr(),
            qp_type: ffi::ibv_qp_type::IBV_QPT_RC,
            cap: ffi::ibv_qp_cap {
                max_send_wr: depth.send,
                max_recv_wr: depth.receive,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: depth.inline_bytes,
            },
            ..Default::default()
        };
        // SAFETY: the domain and both queues are alive, and of one context.
        let pair = unsafe { ffi::ibv_create_qp(adapter.domain(), &raw mut attributes) };
        let pair = NonNull::new(pair).ok_or_else(|| Refused::by_errno("ibv_create_qp"))?;
        Ok(Self {
            pair: Handle(pair),
            sent,
            received,
            _adapter: Arc::clone(adapter),
            inline_bytes: depth.inline_bytes,
        })
    }

    /// Its number, which the peer must know.
    pub fn number(&self) -> u32 {
        // SAFETY: it is alive, and its number never changes.
        unsafe { (*self.pair.0.as_ptr()).qp_num }
    }

    /// How events call it and its completion queues.
    pub fn queue_pair_id(&self) -> QueuePairId {
        let completions = [&self.sent, &self.received].map(|queue| queue.0.as_ptr().addr());
        QueuePairId { pair: self.number(), completions }
    }

    /// Lets it take receives, and binds it to a port. Verbs call that state INIT.
    ///
    /// # Errors
    /// What the driver said.
    pub fn prepare(&mut self, port: u8) -> Result<(), Refused> {
        use ffi::ibv_qp_attr_mask as has;
        let attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_INIT,
            port_num: port,
            qp_access_flags: ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0,
            ..Default::default()
        };
        let given = has::IBV_QP_STATE
            | has::IBV_QP_PKEY_INDEX
            | has::IBV_QP_PORT
            | has::IBV_QP_ACCESS_FLAGS;
        self.modify("ibv_modify_qp(INIT)", attributes, given)
    }

    /// Lets it take in what the peer sends. Verbs call that state RTR.
    ///
    /// # Errors
    /// What the driver said: often that there is no way to the address.
    pub fn accept(&mut self, route: &Route) -> Result<(), Refused> {
        use ffi::ibv_qp_attr_mask as has;
        let attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_RTR,
            path_mtu: u32::from(route.mtu_code),
            dest_qp_num: route.pair,
            rq_psn: route.packet,
            max_dest_rd_atomic: 1,
            min_rnr_timer: NOT_READY_TIMER,
            ah_attr: way(route),
            ..Default::default()
        };
        let given = has::IBV_QP_STATE
            | has::IBV_QP_AV
            | has::IBV_QP_PATH_MTU
            | has::IBV_QP_DEST_QPN
            | has::IBV_QP_RQ_PSN
            | has::IBV_QP_MAX_DEST_RD_ATOMIC
            | has::IBV_QP_MIN_RNR_TIMER;
        self.modify("ibv_modify_qp(RTR)", attributes, given)
    }

    /// Lets it send, beginning with packet number `packet`. Verbs call that state RTS.
    ///
    /// # Errors
    /// What the driver said.
    pub fn start(&mut self, packet: u32, patience: Patience) -> Result<(), Refused> {
        use ffi::ibv_qp_attr_mask as has;
        let attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_RTS,
            sq_psn: packet,
            timeout: patience.timeout,
            retry_cnt: patience.retry_count,
            rnr_retry: NOT_READY_FOR_EVER,
            max_rd_atomic: 1,
            ..Default::default()
        };
        let given = has::IBV_QP_STATE
            | has::IBV_QP_SQ_PSN
            | has::IBV_QP_TIMEOUT
            | has::IBV_QP_RETRY_CNT
            | has::IBV_QP_RNR_RETRY
            | has::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify("ibv_modify_qp(RTS)", attributes, given)
    }

    /// Puts it into its error state: all requests are flushed, and nothing is taken in any more.
    ///
    /// # Errors
    /// What the driver said.
    pub fn break_off(&mut self) -> Result<(), Refused> {
        let attributes =
            ffi::ibv_qp_attr { qp_state: ffi::ibv_qp_state::IBV_QPS_ERR, ..Default::default() };
        self.modify("ibv_modify_qp(ERR)", attributes, ffi::ibv_qp_attr_mask::IBV_QP_STATE)
    }

    fn modify(
        &mut self,
        call: &'static str,
        mut attributes: ffi::ibv_qp_attr,
        given: ffi::ibv_qp_attr_mask,
    ) -> Result<(), Refused> {
        let given = given.0.cast_signed();
        // SAFETY: it is alive; `attributes` holds whatever `given` names.
        let answer =
            unsafe { ffi::ibv_modify_qp(self.pair.0.as_ptr(), &raw mut attributes, given) };
        Refused::check(call, answer)
    }
}

/// How long the peer is asked to wait if no receive is posted: 0.64 ms, as verbs number times.
const NOT_READY_TIMER: u8 = 12;

/// How often to try again if the peer has no receive posted: verbs' number for "for ever". A peer
/// that is slow is not broken; whether it is, is not this layer's to say.
const NOT_READY_FOR_EVER: u8 = 7;

fn way(route: &Route) -> ffi::ibv_ah_attr {
    let mut way = ffi::ibv_ah_attr {
        dlid: route.lid,
        sl: route.service_level,
        port_num: route.port,
        ..Default::default()
    };
    if let Some((peer, own_index)) = route.global {
        way.is_global = 1;
        way.grh = ffi::ibv_global_route {
            dgid: ffi::ibv_gid { raw: peer },
            flow_label: 0,
            sgid_index: own_index,
            hop_limit: u8::MAX,
            traffic_class: route.traffic_class,
        };
    }
    way
}
