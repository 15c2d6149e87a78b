//! What two ranks send each other before they connect, as JSON in a message of the group.

use std::net::SocketAddr;

use msccl_fabric::Group;
use serde::{Deserialize, Serialize};

use crate::endpoint::{Endpoints, Memory, ReceiveEndpoint};
use crate::session::RemoteEndpoint;

/// Ranks that say another number do not understand each other.
pub(crate) const VERSION: u32 = 3;

/// The first message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Introduction {
    pub(crate) version: u32,
    /// How many links lead to the receiver of this.
    #[serde(rename = "outlets")]
    pub(crate) send_endpoints: usize,
    #[serde(rename = "inlets")]
    pub(crate) receive_endpoints: Vec<EndpointFacts>,
    pub(crate) tcp: TcpOffer,
    /// The ports of this host in their order, or why none can be used.
    pub(crate) rdma: Result<Vec<RdmaPort>, String>,
    /// Whether a rail may join ports of different places.
    pub(crate) crosses: bool,
}

/// A receive endpoint of the sender.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct EndpointFacts {
    pub(crate) slot_bytes: u32,
    /// Where each slot lies; as many as the ring buffer is deep.
    pub(crate) slots: Vec<u64>,
}

/// Where a rank can be reached.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct TcpOffer {
    pub(crate) address: SocketAddr,
    pub(crate) sockets: u32,
}

/// A port for RDMA.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RdmaPort {
    pub(crate) device: String,
    /// Whether this rank uses it: it is near, and reaches the memory.
    pub(crate) near: bool,
}

/// The second message, if both can use RDMA: this rank's ends of the rails that both have in mind,
/// or why they cannot be had.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Offers {
    pub(crate) rdma: Vec<Result<RdmaOffer, String>>,
}

/// An end of a rail that the peer may connect with its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RdmaOffer {
    pub(crate) address: Vec<u8>,
}

/// The third message: whether connecting succeeded. If it did not on one rank, more offers may
/// follow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) rdma: Result<(), String>,
}

/// A message that comes instead of what else is expected: there will be no links.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum ConnectRefusal {
    /// Something is wrong, in words.
    Failed(String),
    /// The sender leaves in order.
    Left,
}

impl EndpointFacts {
    pub(crate) fn of(receive_endpoint: &dyn ReceiveEndpoint) -> Self {
        let slots = (1..=u64::from(receive_endpoint.depth()))
            .map(|number| receive_endpoint.slot(number))
            .collect();
        Self { slot_bytes: receive_endpoint.slot_bytes(), slots }
    }

    fn shape(&self) -> (usize, u32) {
        (self.slots.len(), self.slot_bytes)
    }
}

/// Checks that what `theirs` says fits to what this rank has said; the text names both.
pub(crate) fn check(ours: &Introduction, theirs: &Introduction) -> Result<(), String> {
    if ours.version != theirs.version {
        return Err(format!(
            "this rank speaks version {} of the protocol between proxies, the peer version {}; \
             run the same library everywhere",
            ours.version, theirs.version
        ));
    }
    let counts = |introduction: &Introduction| {
        (introduction.send_endpoints, introduction.receive_endpoints.len())
    };
    let (here, there) = (counts(ours), counts(theirs));
    if here != (there.1, there.0) {
        return Err(format!(
            "this rank has {} links to the peer and {} from it, the peer has {} from this rank \
             and {} to it",
            here.0, here.1, there.1, there.0
        ));
    }
    let pairs = ours.receive_endpoints.iter().zip(&theirs.receive_endpoints).enumerate();
    for (link, (ours, theirs)) in pairs {
        if ours.shape() != theirs.shape() {
            let ((depth, slot_bytes), (far_depth, far_slot_bytes)) = (ours.shape(), theirs.shape());
            return Err(format!(
                "link {link} has {depth} slots of {slot_bytes} bytes on this rank, {far_depth} of \
                 {far_slot_bytes} on the peer; both must be configured alike"
            ));
        }
    }
    Ok(())
}

/// Checks that ports are what this crate can serve.
pub(crate) fn check_endpoints(endpoints: &Endpoints) -> Result<(), String> {
    use crate::tag::{DEPTH_LIMIT, LINKS_LIMIT};
    let links = endpoints.send_endpoints.len().max(endpoints.receive_endpoints.len());
    if links > LINKS_LIMIT {
        return Err(format!("{links} links to one peer, at most {LINKS_LIMIT} are possible"));
    }
    for (link, receive_endpoint) in endpoints.receive_endpoints.iter().enumerate() {
        let depth = receive_endpoint.depth();
        if depth == 0 || depth > DEPTH_LIMIT {
            return Err(format!("link {link} has {depth} slots, 1 to {DEPTH_LIMIT} are possible"));
        }
        check_slots(link, receive_endpoint.as_ref(), endpoints.memory.as_ref())?;
    }
    Ok(())
}

fn check_slots(
    link: usize,
    receive_endpoint: &dyn ReceiveEndpoint,
    memory: &dyn Memory,
) -> Result<(), String> {
    let end = |number| {
        receive_endpoint.slot(number).checked_add(u64::from(receive_endpoint.slot_bytes()))
    };
    let inside = |number| end(number).is_some_and(|end| end <= memory.bytes());
    match (1..=u64::from(receive_endpoint.depth())).find(|number| !inside(*number)) {
        None => Ok(()),
        Some(number) => Err(format!(
            "slot {number} of link {link}, at {}, lies outside of memory of {} bytes",
            receive_endpoint.slot(number),
            memory.bytes()
        )),
    }
}

/// What the send endpoints of a rank must know of the peer that said `theirs`.
pub(crate) fn remote_endpoints(theirs: &Introduction) -> impl Iterator<Item = RemoteEndpoint> {
    theirs.receive_endpoints.iter().map(|receive_endpoint| RemoteEndpoint {
        slot_bytes: receive_endpoint.slot_bytes,
        slots: receive_endpoint.slots.clone(),
    })
}

/// Sends `message` to the peer.
pub(crate) fn send(
    group: &Group,
    peer: msccl_collective::Rank,
    tag: u64,
    message: &impl Serialize,
) -> Result<(), crate::Error> {
    let bytes = serde_json::to_vec(message);
    let bytes = bytes.map_err(|error| crate::Error::system("cannot write a message", error))?;
    Ok(group.send(peer, tag, &bytes)?)
}

/// The peer's next message, if it has come; the text says why none will, or what is wrong with it.
pub(crate) fn receive<T: for<'a> Deserialize<'a>>(
    group: &Group,
    peer: msccl_collective::Rank,
    tag: u64,
) -> Result<Option<T>, NotReceived> {
    let bytes =
        group.try_receive(peer, tag).map_err(|error| NotReceived::Gone(error.to_string()))?;
    let read = |bytes: Vec<u8>| serde_json::from_slice(&bytes);
    bytes.map(read).transpose().map_err(|_: serde_json::Error| {
        let advice = "use the same build of the library on all ranks";
        NotReceived::Odd(format!("its message is of a form that is not known here; {advice}"))
    })
}

/// Why a message cannot be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NotReceived {
    Gone(String),
    Odd(String),
}
