//! Why a rail failed, in words: what verbs call it, what it usually means, and what to do.

use std::time::Duration;

use crate::verbs::{Patience, Queue};

/// The status of a request that ended only because its queue pair was in its error state already.
pub const FLUSHED: u32 = 5;

/// The name of a completion's status, as verbs have it without the prefix `IBV_WC_`.
pub fn status_name(status: u32) -> &'static str {
    match status {
        0 => "SUCCESS",
        1 => "LOC_LEN_ERR",
        2 => "LOC_QP_OP_ERR",
        3 => "LOC_EEC_OP_ERR",
        4 => "LOC_PROT_ERR",
        5 => "WR_FLUSH_ERR",
        6 => "MW_BIND_ERR",
        7 => "BAD_RESP_ERR",
        8 => "LOC_ACCESS_ERR",
        9 => "REM_INV_REQ_ERR",
        10 => "REM_ACCESS_ERR",
        11 => "REM_OP_ERR",
        12 => "RETRY_EXC_ERR",
        13 => "RNR_RETRY_EXC_ERR",
        14 => "LOC_RDD_VIOL_ERR",
        15 => "REM_INV_RD_REQ_ERR",
        16 => "REM_ABORT_ERR",
        17 => "INV_EECN_ERR",
        18 => "INV_EEC_STATE_ERR",
        19 => "FATAL_ERR",
        20 => "RESP_TIMEOUT_ERR",
        21 => "GENERAL_ERR",
        22 => "TM_ERR",
        23 => "TM_RNDV_INCOMPLETE",
        _ => "a status without a name",
    }
}

/// What a failed request of this queue means for this library, and what to do.
pub fn meaning(queue: Queue, status: u32, patience: Patience) -> String {
    match status {
        // Devices differ in how they call what the peer did wrong.
        1 | 8..=11 if queue == Queue::Received => REFUSED.into(),
        1 => "a write was longer than the port or the peer's memory allows".into(),
        2 => "the device found the queue pair inconsistent; see the kernel's log (`dmesg`)".into(),
        4 => "the bytes to send are not, or no more, in registered memory of this side".into(),
        FLUSHED => {
            "the connection was in its error state already: this side closed it, or refused a \
            write of the peer; the peer's log may say more"
                .into()
        }
        7 => {
            "the peer answered what makes no sense here; compare firmware and driver of both".into()
        }
        8 => REFUSED.into(),
        9 => {
            "the peer's device took the write for invalid: too long, or it allows no writes".into()
        }
        10 => {
            "the peer refused the write: its memory is not registered there any more, the key is \
            wrong, or the write goes past the end"
                .into()
        }
        11 => "the peer's device could not take in the write; see the kernel's log there".into(),
        12 => gave_up(patience),
        13 => "the peer had no receive posted for too long; its proxy does not run".into(),
        19 => "the device failed; see the kernel's log (`dmesg`)".into(),
        20 => "the peer's device did not answer in time".into(),
        21 => "the device gives no reason; see the kernel's log (`dmesg`)".into(),
        3 | 6 | 14..=18 | 22 | 23 => {
            "no reliable connection should end so; the driver is at fault".into()
        }
        _ => {
            "this library does not know it; a newer device or driver than it may be at work".into()
        }
    }
}

const REFUSED: &str = "this side refused a write of the peer: it went outside of the registered \
    memory, or showed a wrong key";

fn gave_up(patience: Patience) -> String {
    let Patience { timeout, retry_count } = patience;
    format!(
        "the peer does not answer: its process has ended, its host or port is down, or the network \
         drops packets (on RoCE: is flow control set up?); {} tries of at least {:.1?} \
         (NCCL_IB_RETRY_CNT={retry_count}, NCCL_IB_TIMEOUT={timeout}; raise the latter if the \
         network recovers by itself)",
        u32::from(retry_count) + 1,
        try_time(timeout),
    )
}

/// How long a try takes: 4.096 µs · 2^timeout.
pub fn try_time(timeout: u8) -> Duration {
    Duration::from_nanos(4096 << timeout.min(31))
}

/// The name of an event, as verbs have it without the prefix `IBV_EVENT_`, and what it means, if a
/// queue pair cannot live on after it.
pub fn fatal_event(code: u32) -> Option<(&'static str, &'static str)> {
    match code {
        0 => Some(("CQ_ERR", "the completion queue was overrun or its memory was lost")),
        1 => Some((
            "QP_FATAL",
            "the device failed on this queue pair; see the kernel's log (`dmesg`)",
        )),
        2 => Some(("QP_REQ_ERR", "the peer's device sent what is no valid request")),
        3 => Some(("QP_ACCESS_ERR", REFUSED)),
        8 => Some(("DEVICE_FATAL", "the device failed; see the kernel's log (`dmesg`)")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience { timeout: 20, retry_count: 7 };

    /// Names of libibverbs itself, which is the authority.
    #[test]
    fn statuses_have_the_names_of_verbs() {
        use ibverbs_sys::ibv_wc_status as verbs;
        assert_eq!(status_name(verbs::IBV_WC_LOC_LEN_ERR), "LOC_LEN_ERR");
        assert_eq!(status_name(verbs::IBV_WC_LOC_QP_OP_ERR), "LOC_QP_OP_ERR");
        assert_eq!(status_name(verbs::IBV_WC_LOC_PROT_ERR), "LOC_PROT_ERR");
        assert_eq!(status_name(verbs::IBV_WC_WR_FLUSH_ERR), "WR_FLUSH_ERR");
        assert_eq!(status_name(verbs::IBV_WC_BAD_RESP_ERR), "BAD_RESP_ERR");
        assert_eq!(status_name(verbs::IBV_WC_LOC_ACCESS_ERR), "LOC_ACCESS_ERR");
        assert_eq!(status_name(verbs::IBV_WC_REM_INV_REQ_ERR), "REM_INV_REQ_ERR");
        assert_eq!(status_name(verbs::IBV_WC_REM_ACCESS_ERR), "REM_ACCESS_ERR");
        assert_eq!(status_name(verbs::IBV_WC_REM_OP_ERR), "REM_OP_ERR");
        assert_eq!(status_name(verbs::IBV_WC_RETRY_EXC_ERR), "RETRY_EXC_ERR");
        assert_eq!(status_name(verbs::IBV_WC_RNR_RETRY_EXC_ERR), "RNR_RETRY_EXC_ERR");
        assert_eq!(status_name(verbs::IBV_WC_FATAL_ERR), "FATAL_ERR");
        assert_eq!(status_name(verbs::IBV_WC_RESP_TIMEOUT_ERR), "RESP_TIMEOUT_ERR");
        assert_eq!(status_name(verbs::IBV_WC_GENERAL_ERR), "GENERAL_ERR");
        assert_eq!(FLUSHED, verbs::IBV_WC_WR_FLUSH_ERR);
    }

    #[test]
    fn every_status_has_a_name_and_a_meaning_of_its_own() {
        let named: Vec<_> = (0..=23).map(status_name).collect();
        let different: std::collections::BTreeSet<_> = named.iter().collect();
        assert_eq!(different.len(), named.len());
        for status in 1..=40 {
            for queue in [Queue::Sent, Queue::Received] {
                assert!(meaning(queue, status, PATIENCE).len() > 20, "{status}");
            }
        }
    }

    #[test]
    fn giving_up_names_what_to_set() {
        let text = meaning(Queue::Sent, 12, PATIENCE);
        for part in
            ["NCCL_IB_TIMEOUT=20", "NCCL_IB_RETRY_CNT=7", "8 tries", "4.3s", "process has ended"]
        {
            assert!(text.contains(part), "`{part}` in: {text}");
        }
    }

    #[test]
    fn whose_fault_a_refused_write_is_depends_on_the_side() {
        assert!(meaning(Queue::Sent, 10, PATIENCE).starts_with("the peer refused"));
        assert!(meaning(Queue::Received, 10, PATIENCE).starts_with("this side refused"));
    }

    #[test]
    fn a_try_takes_as_long_as_verbs_say() {
        assert_eq!(try_time(0), Duration::from_nanos(4096));
        assert_eq!(try_time(14), Duration::from_nanos(67_108_864));
        assert_eq!(try_time(31), Duration::from_nanos(4096 << 31));
    }

    #[test]
    fn events_that_only_inform_are_not_fatal() {
        use ibverbs_sys as ffi;
        for code in [ffi::IBV_EVENT_PORT_ERR, ffi::IBV_EVENT_PORT_ACTIVE, ffi::IBV_EVENT_COMM_EST] {
            assert_eq!(fatal_event(code), None);
        }
        assert_eq!(fatal_event(ffi::IBV_EVENT_QP_ACCESS_ERR).unwrap().0, "QP_ACCESS_ERR");
        assert_eq!(fatal_event(ffi::IBV_EVENT_DEVICE_FATAL).unwrap().0, "DEVICE_FATAL");
        assert_eq!(fatal_event(ffi::IBV_EVENT_QP_FATAL).unwrap().0, "QP_FATAL");
        assert_eq!(fatal_event(ffi::IBV_EVENT_QP_REQ_ERR).unwrap().0, "QP_REQ_ERR");
        assert_eq!(fatal_event(ffi::IBV_EVENT_CQ_ERR).unwrap().0, "CQ_ERR");
    }
}
