//! An unsafe boundary: what a device reports by itself.

#![expect(unsafe_code, reason = "calls libibverbs for events")]

use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;

use ibverbs_sys as ffi;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::{Adapter, Refused};

/// Something that a device reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Whom it is about.
    pub of: EventOf,
    /// Which, as verbs number them.
    pub code: u32,
}

/// Whom an event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventOf {
    /// The whole device.
    Device,
    /// A port.
    Port(u8),
    /// The queue pair of this number.
    Pair(u32),
    /// The completion queue at this place in memory.
    Completions(usize),
    /// What this library makes no use of.
    Other,
}

impl Adapter {
    /// From now on [`Adapter::next_event`] does not wait.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn never_wait_for_events(&self) -> Result<(), Refused> {
        let events = self.event_file();
        fcntl_getfl(events)
            .and_then(|flags| fcntl_setfl(events, flags | OFlags::NONBLOCK))
            .map_err(|error| Refused { call: "fcntl(events)", error: error.into() })
    }

    fn event_file(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open, and its descriptor is open as long.
        unsafe { BorrowedFd::borrow_raw((*self.context()).async_fd) }
    }

    /// The oldest event that was not taken yet, if there is one. This asks the kernel.
    pub fn next_event(&self) -> Option<Event> {
        let mut event = MaybeUninit::<ffi::ibv_async_event>::uninit();
        // SAFETY: the context is open, and the call fills the event if it answers 0.
        let answer = unsafe { ffi::ibv_get_async_event(self.context(), event.as_mut_ptr()) };
        if answer != 0 {
            return None;
        }
        // SAFETY: the call filled it.
        let mut event = unsafe { event.assume_init() };
        let taken = Event { of: of(&event), code: event.event_type };
        // SAFETY: it was got and is acknowledged once, which lets what it is about end.
        unsafe { ffi::ibv_ack_async_event(&raw mut event) };
        Some(taken)
    }
}

fn of(event: &ffi::ibv_async_event) -> EventOf {
    let of = event.element;
    match event.event_type {
        ffi::IBV_EVENT_DEVICE_FATAL => EventOf::Device,
        ffi::IBV_EVENT_PORT_ACTIVE
        | ffi::IBV_EVENT_PORT_ERR
        | ffi::IBV_EVENT_LID_CHANGE
        | ffi::IBV_EVENT_PKEY_CHANGE
        | ffi::IBV_EVENT_SM_CHANGE
        | ffi::IBV_EVENT_CLIENT_REREGISTER
        | ffi::IBV_EVENT_GID_CHANGE => {
            // SAFETY: events of this kind are about a port.
            EventOf::Port(u8::try_from(unsafe { of.port_num }).unwrap_or(0))
        }
        ffi::IBV_EVENT_QP_FATAL
        | ffi::IBV_EVENT_QP_REQ_ERR
        | ffi::IBV_EVENT_QP_ACCESS_ERR
        | ffi::IBV_EVENT_COMM_EST
        | ffi::IBV_EVENT_SQ_DRAINED
        | ffi::IBV_EVENT_PATH_MIG
        | ffi::IBV_EVENT_PATH_MIG_ERR
        | ffi::IBV_EVENT_QP_LAST_WQE_REACHED => {
            // SAFETY: events of this kind are about a queue pair, and none ends before the event is
            // acknowledged.
            EventOf::Pair(unsafe { (*of.qp).qp_num })
        }
        // SAFETY: this event is about a completion queue.
        ffi::IBV_EVENT_CQ_ERR => EventOf::Completions(unsafe { of.cq }.addr()),
        _ => EventOf::Other,
    }
}
