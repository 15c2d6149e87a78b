//! An unsafe boundary: what a queue pair is to do, and how that ended.

#![expect(unsafe_code, reason = "posts requests that name memory by address")]

use std::mem::MaybeUninit;
use std::ptr;

use ibverbs_sys as ffi;

use super::Pair;
use crate::verbs::{Mapped, Refused, Region};

/// Receives that one call posts.
pub const RECEIVES_AT_ONCE: u32 = 64;

/// Completions that one call takes.
pub const COMPLETIONS_AT_ONCE: usize = 16;

const OUTSIDE: i32 = rustix::io::Errno::RANGE.raw_os_error();
const NO_SUCH_CALL: i32 = rustix::io::Errno::NOSYS.raw_os_error();

/// Which of the two completion queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queue {
    /// Of this side's writes.
    Sent,
    /// Of the peer's.
    Received,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The number that the request was posted with.
    pub request: u64,
    /// As verbs number them; 0 is success.
    pub status: u32,
    /// The vendor's own number for a failure.
    pub vendor: u32,
    /// Of a received write: how many bytes it brought.
    pub bytes: u32,
    /// Of a received write: its tag.
    pub tag: u32,
}

/// Where a write goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The peer's address.
    pub address: u64,
    /// Its remote key.
    pub key: u32,
    /// What it does.
    pub tag: u32,
}

/// Whether a request reports its success. Failure is always reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// It does.
    Yes,
    /// It does not.
    No,
}

impl Pair {
    /// Posts `count` receives, at most [`RECEIVES_AT_ONCE`]. They have no memory: a write brings
    /// its own address.
    ///
    /// # Errors
    /// What the driver said.
    pub fn receive(&mut self, count: u32) -> Result<(), Refused> {
        let mut requests = [ffi::ibv_recv_wr::default(); RECEIVES_AT_ONCE as usize];
        let requests = &mut requests[..count.min(RECEIVES_AT_ONCE) as usize];
        let mut next = ptr::null_mut();
        for request in requests.iter_mut().rev() {
            request.next = next;
            next = ptr::from_mut(request);
        }
        if next.is_null() {
            return Ok(());
        }
        let pair = self.pair.0.as_ptr();
        let mut refused = ptr::null_mut();
        // SAFETY: the pair is alive, its context has all operations, and the list of requests is
        // complete; the driver keeps nothing of it.
        let answer = unsafe {
            (*(*pair).context).ops.post_recv.map(|post| post(pair, next, &raw mut refused))
        };
        Refused::check("ibv_post_recv", answer.unwrap_or(NO_SUCH_CALL))
    }

    /// Posts a write of `bytes` bytes from `offset` of `region`, and notifies the peer. No bytes
    /// are a mere signal.
    ///
    /// # Errors
    /// If the bytes do not lie in the region; or what the driver said.
    pub fn write(
        &mut self,
        (region, offset, bytes): (&Region, u64, u32),
        to: Target,
        request: u64,
        signal: Signal,
    ) -> Result<(), Refused> {
        if offset.checked_add(u64::from(bytes)).is_none_or(|end| end > region.bytes()) {
            return Refused::check("ibv_post_send", OUTSIDE);
        }
        let mut piece = ffi::ibv_sge {
            addr: region.address() + offset,
            length: bytes,
            lkey: region.local_key(),
        };
        let copied = bytes > 0 && bytes <= self.inline_bytes && region.mapped() == Mapped::Yes;
        let request = ffi::ibv_send_wr {
            wr_id: request,
            sg_list: &raw mut piece,
            num_sge: i32::from(bytes > 0),
            opcode: ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM,
            send_flags: flags(signal, copied),
            __bindgen_anon_1: ffi::ibv_send_wr__bindgen_ty_1 { imm_data: to.tag.to_be() },
            wr: ffi::ibv_send_wr__bindgen_ty_2 {
                rdma: ffi::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 {
                    remote_addr: to.address,
                    rkey: to.key,
                },
            },
            ..Default::default()
        };
        self.send(request)
    }

    /// Posts a write of nothing of which the peer is not notified. It completes after all writes
    /// before it.
    ///
    /// # Errors
    /// What the driver said.
    pub fn mark(&mut self, request: u64) -> Result<(), Refused> {
        self.send(ffi::ibv_send_wr {
            wr_id: request,
            opcode: ffi::ibv_wr_opcode::IBV_WR_RDMA_WRITE,
            send_flags: flags(Signal::Yes, false),
            ..Default::default()
        })
    }

    fn send(&mut self, mut request: ffi::ibv_send_wr) -> Result<(), Refused> {
        let pair = self.pair.0.as_ptr();
        let mut refused = ptr::null_mut();
        // SAFETY: the pair is alive and its context has all operations. The request is complete and
        // lies in a region that lives: bytes that the driver copies here are mapped
        // (`Region::new`), others the device checks by key.
        let answer = unsafe {
            let post = (*(*pair).context).ops.post_send;
            post.map(|post| post(pair, &raw mut request, &raw mut refused))
        };
        Refused::check("ibv_post_send", answer.unwrap_or(NO_SUCH_CALL))
    }

    /// Takes at most `room` completions, at most [`COMPLETIONS_AT_ONCE`], oldest first; answers how
    /// many. It does not ask the kernel.
    ///
    /// # Errors
    /// What the driver said.
    pub fn poll(
        &mut self,
        queue: Queue,
        room: usize,
        mut each: impl FnMut(Completion),
    ) -> Result<usize, Refused> {
        let queue = match queue {
            Queue::Sent => self.sent.0.as_ptr(),
            Queue::Received => self.received.0.as_ptr(),
        };
        let mut taken = [const { MaybeUninit::<ffi::ibv_wc>::uninit() }; COMPLETIONS_AT_ONCE];
        let room = i32::try_from(room.min(COMPLETIONS_AT_ONCE)).unwrap_or(0);
        // SAFETY: the queue is alive and its context has all operations; `taken` has room for
        // `room`.
        let count = unsafe {
            let poll = (*(*queue).context).ops.poll_cq;
            poll.map(|poll| poll(queue, room, taken.as_mut_ptr().cast()))
        };
        let count =
            usize::try_from(count.unwrap_or(-1)).map_err(|_| Refused::by_errno("ibv_poll_cq"))?;
        for entry in taken.iter().take(count) {
            // SAFETY: the driver filled the first `count`.
            each(completion(unsafe { entry.assume_init_ref() }));
        }
        Ok(count)
    }
}

fn flags(signal: Signal, copied: bool) -> u32 {
    let signal = match signal {
        Signal::Yes => ffi::ibv_send_flags::IBV_SEND_SIGNALED.0,
        Signal::No => 0,
    };
    signal | if copied { ffi::ibv_send_flags::IBV_SEND_INLINE.0 } else { 0 }
}

fn completion(entry: &ffi::ibv_wc) -> Completion {
    let (status, vendor) = entry.error().unwrap_or((0, 0));
    Completion {
        request: entry.wr_id(),
        status,
        vendor,
        bytes: u32::try_from(entry.len()).unwrap_or(u32::MAX),
        tag: u32::from_be(entry.imm_data),
    }
}
