//! Links between nodes: how many steps the host tells their proxies, and how those carry what
//! kernels post.
//!
//! From `enqueue.cc` (`computeColl`) and `proxy.cc` (`ncclProxySaveColl`) of the first runtime,
//! `msccl_setup.cc` (`mscclSetupProxyImpl`) of the executor, `prims_simple.h` (`waitPeer`,
//! `postPeer`) and `transport/net.cc` (`sendProxyProgress`, `recvProxyProgress`) of both. Both
//! proxies of a link are one here, and the network delivers at once.

use msccl_collective::Protocol;

/// `NCCL_STEPS`.
const STEPS: u64 = 8;

/// `MSCCL_SLICESTEPS`.
const KERNEL_SLICE_STEPS: u64 = 2;

/// A link between nodes, over all rounds of a call.
pub struct Wire {
    protocol: Protocol,
    /// Steps of a slice, as the host reckons.
    slice_steps: u64,
    /// Steps of the call, as the host reckons.
    steps: u64,
    /// Whether a slot has the size of what was put there: `sizesFifo`, where -1 is none.
    sizes: [bool; STEPS as usize],
    /// Steps that the sender's kernel has posted, that have crossed, and that the receiver's kernel
    /// gave back.
    tail: u64,
    transmitted: u64,
    head: u64,
}

impl Wire {
    /// `messages` are those of one round by the counts of the file; a chunk has `chunk_bytes`, and
    /// `effective_bytes` of one make a round for the host.
    pub fn new(
        protocol: Protocol,
        collective: &str,
        messages: u64,
        chunk_bytes: u64,
        effective_bytes: u64,
    ) -> Self {
        let (chunk_steps, slice_steps) = match (protocol, collective) {
            // `BROADCAST_CHUNKSTEPS`, `BROADCAST_SLICESTEPS`, and those of reduce.
            (Protocol::Simple, "broadcast" | "reduce") => (1, 1),
            (Protocol::Simple, _) => (STEPS / 2, STEPS / 4),
            (Protocol::Ll | Protocol::Ll128, _) => (1, 1),
        };
        Self {
            protocol,
            slice_steps,
            steps: chunk_bytes.div_ceil(effective_bytes) * chunk_steps * messages,
            sizes: [false; STEPS as usize],
            tail: 0,
            transmitted: 0,
            head: 0,
        }
    }

    fn kernel_steps(&self) -> u64 {
        match self.protocol {
            Protocol::Simple => KERNEL_SLICE_STEPS,
            Protocol::Ll | Protocol::Ll128 => 1,
        }
    }

    /// Whether the sender's kernel finds room for a slice.
    pub fn has_room(&self) -> bool {
        self.transmitted + STEPS >= self.tail + self.kernel_steps()
    }

    /// Whether a slice has come for the receiver's kernel.
    pub fn has_slice(&self) -> bool {
        self.transmitted >= self.head + self.kernel_steps()
    }

    /// The sender's kernel has found room, and says how much it will put there.
    pub fn announce(&mut self) {
        self.sizes[(self.tail % STEPS) as usize] = true;
    }

    pub fn post(&mut self) {
        self.tail += self.kernel_steps();
    }

    pub fn free(&mut self) {
        self.head += self.kernel_steps();
    }

    /// The proxies carry a slice on, if there is one for them.
    pub fn progress(&mut self) -> bool {
        let slot = (self.transmitted % STEPS) as usize;
        let is_posted = self.tail > self.transmitted;
        let is_expected = self.transmitted < self.steps && self.transmitted < self.head + STEPS;
        let moves = is_expected && is_posted && self.sizes[slot];
        if moves {
            self.sizes[slot] = false;
            self.transmitted += self.slice_steps;
        }
        moves
    }

    /// Whether proxies have done what the host told them: the next call would find others waiting
    /// else.
    pub fn is_done(&self) -> bool {
        self.transmitted == self.steps && self.tail == self.steps
    }
}
