//! Ports over [`fabric::RingBuffers`](msccl_fabric::RingBuffers): links to another host for
//! executors that are threads of this one.
//!
//! The executor puts messages into ring buffers, and takes them from ring buffers, as it does with
//! ranks of its own host; the proxy holds the other ends.

use std::sync::Arc;

use msccl_fabric::{Doorbell, Receiver, RingBufferShape, RingBuffers, Sender};

use crate::endpoint::{Endpoints, Memory, Piece, ReceiveEndpoint, SendEndpoint};
use crate::error::Error;

/// Both ends of the ring buffers to and from one peer.
pub struct Pair {
    /// The memory of all of them; [`RingBuffers::stop`] ends the waits of executors at them.
    pub ring_buffers: RingBuffers,
    /// Where the executor puts messages for the peer, by link.
    pub senders: Vec<Sender>,
    /// Where the executor takes messages of the peer, by link.
    pub receivers: Vec<Receiver>,
    /// What goes to [`crate::Proxy::connect`].
    pub endpoints: Endpoints,
}

/// Makes ring buffers for links of these shapes, one to the peer and one from it for each.
/// `doorbell` is that of the proxy ([`crate::Proxy::doorbell`]), which then may sleep while nothing
/// happens.
pub fn pair(shapes: &[RingBufferShape], doorbell: &Arc<Doorbell>) -> Result<Pair, Error> {
    for shape in shapes {
        if u32::try_from(shape.slot_bytes).is_err() {
            return Err(Error::invalid(format!(
                "a slot of {} bytes is too long",
                shape.slot_bytes
            )));
        }
    }
    let ring_buffers = RingBuffers::create(&[shapes, shapes].concat())?;
    let links = shapes.len();
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    let mut send_endpoints: Vec<Box<dyn SendEndpoint>> = Vec::new();
    let mut receive_endpoints: Vec<Box<dyn ReceiveEndpoint>> = Vec::new();
    for link in 0..links {
        let (mut sender, mut receiver) =
            (ring_buffers.sender(link)?, ring_buffers.receiver(links + link)?);
        sender.attach(doorbell.clone());
        receiver.attach(doorbell.clone());
        senders.push(sender);
        receivers.push(receiver);
        send_endpoints.push(Box::new(RingBufferSendEndpoint(ring_buffers.receiver(link)?)));
        receive_endpoints
            .push(Box::new(RingBufferReceiveEndpoint(ring_buffers.sender(links + link)?)));
    }
    let memory: Arc<dyn Memory> = Arc::new(RingBufferMemory(ring_buffers.clone()));
    Ok(Pair {
        ring_buffers,
        senders,
        receivers,
        endpoints: Endpoints { memory, send_endpoints, receive_endpoints },
    })
}

/// The memory of ring buffers.
struct RingBufferMemory(RingBuffers);

impl Memory for RingBufferMemory {
    fn address(&self) -> *mut u8 {
        self.0.memory().as_ptr()
    }

    fn bytes(&self) -> u64 {
        self.0.memory().len() as u64
    }
}

/// A ring buffer into which the executor sends.
struct RingBufferSendEndpoint(Receiver);

impl SendEndpoint for RingBufferSendEndpoint {
    fn posted(&mut self) -> u64 {
        self.0.committed()
    }

    fn message(&self, number: u64) -> Piece {
        // Slots are shorter than 4 GiB, as `pair` has checked. An empty piece stands for a message
        // that there is not.
        let (offset, bytes) = self.0.locate(number).unwrap_or_default();
        Piece { offset: offset as u64, bytes: bytes as u32 }
    }

    fn release(&mut self, number: u64) {
        self.0.release_through(number);
    }

    fn wakes_proxy(&self) -> bool {
        true
    }
}

/// A ring buffer from which the executor receives.
struct RingBufferReceiveEndpoint(Sender);

impl ReceiveEndpoint for RingBufferReceiveEndpoint {
    fn depth(&self) -> u32 {
        self.0.shape().depth
    }

    fn slot_bytes(&self) -> u32 {
        // As `pair` has checked.
        self.0.shape().slot_bytes as u32
    }

    fn taken(&mut self) -> u64 {
        self.0.released()
    }

    fn slot(&self, number: u64) -> u64 {
        self.0.slot_offset(number) as u64
    }

    fn commit(&mut self, number: u64, bytes: u32) -> Result<(), String> {
        let next = self.0.sent() + 1;
        let fits = number == next && bytes <= self.slot_bytes();
        match fits && self.0.commit_next(bytes as usize) {
            true => Ok(()),
            false => Err(format!(
                "message {number} of {bytes} bytes cannot be shown: message {next} is the next of \
                 a ring buffer of {} slots of {} bytes, {} of which were taken",
                self.depth(),
                self.slot_bytes(),
                self.0.released()
            )),
        }
    }

    fn wakes_proxy(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_executor_would_not_see_is_a_failure() {
        let doorbell = Arc::new(Doorbell::new().unwrap());
        let mut pair = pair(&[RingBufferShape { depth: 2, slot_bytes: 64 }], &doorbell).unwrap();
        let receive_endpoint = &mut pair.endpoints.receive_endpoints[0];
        assert_eq!(receive_endpoint.commit(1, 64), Ok(()));
        // Out of order, too long, and without a free slot.
        let expected =
            "message 2 is the next of a ring buffer of 2 slots of 64 bytes, 0 of which were taken";
        for (number, bytes) in [(3, 8), (2, 65)] {
            let why = receive_endpoint.commit(number, bytes).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
        assert_eq!(receive_endpoint.commit(2, 8), Ok(()));
        assert!(receive_endpoint.commit(3, 8).is_err());
    }
}
