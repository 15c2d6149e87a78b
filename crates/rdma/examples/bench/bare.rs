//! An unsafe boundary: bare verbs, as one would write them with nothing but speed in mind: nothing
//! is counted, checked or explained. What the rail is measured against.

#![expect(unsafe_code, reason = "calls libibverbs")]

use std::ptr::null_mut;

use ibverbs_sys as ffi;

/// One end of a connection.
pub struct Bare {
    context: *mut ffi::ibv_context,
    domain: *mut ffi::ibv_pd,
    pair: *mut ffi::ibv_qp,
    sent: *mut ffi::ibv_cq,
    received: *mut ffi::ibv_cq,
    region: *mut ffi::ibv_mr,
    memory: Vec<u8>,
    gid: ffi::ibv_gid,
    peer: Option<End>,
}

// SAFETY: libibverbs lets any thread use its objects.
unsafe impl Send for Bare {}

/// What the peer must know.
#[derive(Clone, Copy)]
pub struct End {
    pair: u32,
    gid: ffi::ibv_gid,
    address: u64,
    key: u32,
}

/// In the rig, where the IPv4 address is.
const GID_INDEX: u8 = 1;
const DEPTH: u32 = 256;

impl Bare {
    pub fn new(device: &str, bytes: usize) -> Self {
        let mut memory = vec![0; bytes];
        // SAFETY: plain verbs in their order; what a call answers is looked at before the next uses
        // it. The memory lives as long as the region, which is never ended before.
        unsafe {
            let context = open(device);
            let domain = ffi::ibv_alloc_pd(context);
            let access = ffi::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0
                | ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
            let region = ffi::ibv_reg_mr(domain, memory.as_mut_ptr().cast(), bytes, access as i32);
            let sent = ffi::ibv_create_cq(context, DEPTH as i32, null_mut(), null_mut(), 0);
            let received = ffi::ibv_create_cq(context, DEPTH as i32, null_mut(), null_mut(), 0);
            let mut attributes = ffi::ibv_qp_init_attr {
                send_cq: sent,
                recv_cq: received,
                qp_type: ffi::ibv_qp_type::IBV_QPT_RC,
                ..Default::default()
            };
            attributes.cap.max_send_wr = DEPTH;
            attributes.cap.max_recv_wr = DEPTH;
            (attributes.cap.max_send_sge, attributes.cap.max_recv_sge) = (1, 1);
            attributes.cap.max_inline_data = 64;
            let pair = ffi::ibv_create_qp(domain, &raw mut attributes);
            assert!(!pair.is_null() && !region.is_null());
            let mut gid = ffi::ibv_gid::default();
            assert_eq!(ffi::ibv_query_gid(context, 1, i32::from(GID_INDEX), &raw mut gid), 0);
            Self { context, domain, pair, sent, received, region, memory, gid, peer: None }
        }
    }

    pub fn end(&self) -> End {
        let address = self.memory.as_ptr().addr() as u64;
        // SAFETY: both live as long as `self`.
        let (pair, key) = unsafe { ((*self.pair).qp_num, (*self.region).rkey) };
        End { pair, gid: self.gid, address, key }
    }

    pub fn connect(&mut self, peer: &End) {
        use ffi::ibv_qp_attr_mask as has;
        let mut attributes = ffi::ibv_qp_attr {
            qp_state: ffi::ibv_qp_state::IBV_QPS_INIT,
            port_num: 1,
            qp_access_flags: ffi::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0,
            ..Default::default()
        };
        let given = has::IBV_QP_STATE
            | has::IBV_QP_PKEY_INDEX
            | has::IBV_QP_PORT
            | has::IBV_QP_ACCESS_FLAGS;
        self.modify(&mut attributes, given);
        attributes.qp_state = ffi::ibv_qp_state::IBV_QPS_RTR;
        attributes.path_mtu = ffi::IBV_MTU_4096;
        attributes.dest_qp_num = peer.pair;
        (attributes.max_dest_rd_atomic, attributes.min_rnr_timer) = (1, 12);
        (attributes.ah_attr.is_global, attributes.ah_attr.port_num) = (1, 1);
        attributes.ah_attr.grh.dgid = peer.gid;
        (attributes.ah_attr.grh.sgid_index, attributes.ah_attr.grh.hop_limit) = (GID_INDEX, 255);
        let given = has::IBV_QP_STATE
            | has::IBV_QP_AV
            | has::IBV_QP_PATH_MTU
            | has::IBV_QP_DEST_QPN
            | has::IBV_QP_RQ_PSN
            | has::IBV_QP_MAX_DEST_RD_ATOMIC
            | has::IBV_QP_MIN_RNR_TIMER;
        self.modify(&mut attributes, given);
        attributes.qp_state = ffi::ibv_qp_state::IBV_QPS_RTS;
        (
            attributes.timeout,
            attributes.retry_cnt,
            attributes.rnr_retry,
            attributes.max_rd_atomic,
        ) = (14, 6, 7, 1);
        let given = has::IBV_QP_STATE
            | has::IBV_QP_SQ_PSN
            | has::IBV_QP_TIMEOUT
            | has::IBV_QP_RETRY_CNT
            | has::IBV_QP_RNR_RETRY
            | has::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(&mut attributes, given);
        self.peer = Some(*peer);
    }

    fn modify(&mut self, attributes: &mut ffi::ibv_qp_attr, given: ffi::ibv_qp_attr_mask) {
        // SAFETY: the pair is alive, and `attributes` holds what `given` names.
        let answer = unsafe { ffi::ibv_modify_qp(self.pair, attributes, given.0.cast_signed()) };
        assert_eq!(answer, 0);
    }

    /// Posts a write of the first `bytes` bytes that reports itself; with immediate data if there
    /// are any.
    pub fn write(&mut self, bytes: u32, immediate: Option<u32>) {
        let peer = self.peer.unwrap();
        // SAFETY: the region is alive.
        let lkey = unsafe { (*self.region).lkey };
        let mut piece =
            ffi::ibv_sge { addr: self.memory.as_ptr().addr() as u64, length: bytes, lkey };
        let signaled = ffi::ibv_send_flags::IBV_SEND_SIGNALED.0;
        let inline = if bytes <= 64 { ffi::ibv_send_flags::IBV_SEND_INLINE.0 } else { 0 };
        let mut attributes = ffi::ibv_send_wr {
            sg_list: &raw mut piece,
            num_sge: 1,
            opcode: match immediate {
                None => ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE,
                Some(_) => ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM,
            },
            send_flags: signaled | inline,
            ..Default::default()
        };
        attributes.__bindgen_anon_1.imm_data = immediate.unwrap_or(0).to_be();
        attributes.wr.rdma.remote_addr = peer.address;
        attributes.wr.rdma.rkey = peer.key;
        let mut refused = null_mut();
        // SAFETY: the pair is alive, the request is complete, its memory is registered.
        let answer = unsafe {
            let post = (*(*self.pair).context).ops.post_send.unwrap();
            post(self.pair, &raw mut attributes, &raw mut refused)
        };
        assert_eq!(answer, 0);
    }

    pub fn receive(&mut self, count: u32) {
        for _ in 0..count {
            let mut attributes = ffi::ibv_recv_wr::default();
            let mut refused = null_mut();
            // SAFETY: the pair is alive, the request is complete.
            let answer = unsafe {
                let post = (*(*self.pair).context).ops.post_recv.unwrap();
                post(self.pair, &raw mut attributes, &raw mut refused)
            };
            assert_eq!(answer, 0);
        }
    }

    /// How many writes have completed since the last call.
    pub fn sent(&mut self) -> u32 {
        poll(self.sent).0
    }

    /// What the peer has written, if it has.
    pub fn arrived(&mut self) -> Option<u32> {
        match poll(self.received) {
            (0, _) => None,
            (_, entry) => Some(u32::from_be(entry.imm_data)),
        }
    }
}

/// Takes one completion.
fn poll(queue: *mut ffi::ibv_cq) -> (u32, ffi::ibv_wc) {
    let mut entry = ffi::ibv_wc::default();
    // SAFETY: the queue is alive, and there is room for one.
    let count = unsafe { (*(*queue).context).ops.poll_cq.unwrap()(queue, 1, &raw mut entry) };
    assert!(count == 0 || entry.error().is_none(), "{entry:?}");
    (u32::try_from(count).unwrap(), entry)
}

/// # Safety
/// None beyond calling libibverbs.
unsafe fn open(name: &str) -> *mut ffi::ibv_context {
    // SAFETY: the list has so many entries until it is freed; the opened device outlives it.
    unsafe {
        let mut count = 0;
        let list = ffi::ibv_get_device_list(&raw mut count);
        assert!(!list.is_null());
        let devices = std::slice::from_raw_parts(list, count as usize);
        let found = devices.iter().find(|device| {
            let found = std::ffi::CStr::from_ptr(ffi::ibv_get_device_name(**device));
            found.to_str() == Ok(name)
        });
        let context = ffi::ibv_open_device(*found.unwrap());
        ffi::ibv_free_device_list(list);
        assert!(!context.is_null());
        context
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // SAFETY: they were made, and end once, in the order that verbs want.
        unsafe {
            let answers = [
                ffi::ibv_destroy_qp(self.pair),
                ffi::ibv_destroy_cq(self.sent),
                ffi::ibv_destroy_cq(self.received),
                ffi::ibv_dereg_mr(self.region),
                ffi::ibv_dealloc_pd(self.domain),
                ffi::ibv_close_device(self.context),
            ];
            assert_eq!(answers, [0; 6]);
        }
    }
}
