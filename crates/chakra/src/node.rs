//! Nodes and the head of a trace, as `et_def.proto` has them.

use msccl_collective::Rank;

use crate::protobuf::Message;

/// The schema that files name which ASTRA-sim's own converter writes.
const SCHEMA: &str = "1.0.2-chakra.0.0.4";

/// A node of a rank's graph.
pub(crate) struct Node {
    /// Its number; no two nodes of a rank have the same.
    pub id: u64,
    /// Its name, for people.
    pub name: String,
    /// What it does.
    pub action: Action,
    /// Nodes that must have ended because of the order of things.
    pub control: Vec<u64>,
    /// Nodes that must have ended because this one uses what they made.
    pub data: Vec<u64>,
}

/// What a node does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Works for so long, in µs.
    Work {
        /// Zero is the least that the simulator knows.
        duration_us: u64,
    },
    /// Sends a message.
    Send {
        /// Its receiver.
        to: Rank,
        /// Its length and tag.
        envelope: Envelope,
    },
    /// Receives a message.
    Receive {
        /// Its sender.
        from: Rank,
        /// Its length and tag.
        envelope: Envelope,
    },
}

/// What both ends of a message say alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Envelope {
    /// Its length in bytes.
    pub bytes: i64,
    /// What distinguishes it from other messages of its sender to its receiver.
    pub tag: i32,
}

impl Node {
    /// The message `Node`.
    pub(crate) fn encode(&self) -> Message {
        let Self { id, name, action, control, data } = self;
        let mut node = Message::default();
        node.number(1, *id);
        node.text(2, name);
        node.number(3, action.node_type());
        node.numbers(4, control);
        node.numbers(5, data);
        match *action {
            Action::Work { duration_us } => node.number(7, duration_us),
            Action::Send { to, envelope } => {
                attributes(&mut node, "comm_dst", to, envelope);
            }
            Action::Receive { from, envelope } => {
                attributes(&mut node, "comm_src", from, envelope);
            }
        }
        node
    }
}

impl Action {
    /// The value of `NodeType`.
    fn node_type(self) -> u64 {
        match self {
            Action::Work { .. } => 4,
            Action::Send { .. } => 5,
            Action::Receive { .. } => 6,
        }
    }
}

/// Ranks are below 2³¹ in every valid algorithm.
fn attributes(node: &mut Message, peer_name: &str, peer: Rank, envelope: Envelope) {
    let Envelope { bytes, tag } = envelope;
    node.message(10, &attribute("comm_size", Value::Int64(bytes)));
    node.message(10, &attribute(peer_name, Value::Int32(peer.0 as i32)));
    node.message(10, &attribute("comm_tag", Value::Int32(tag)));
}

/// Values of attributes.
enum Value<'a> {
    Int32(i32),
    Int64(i64),
    Text(&'a str),
}

/// The message `AttributeProto`.
fn attribute(name: &str, value: Value<'_>) -> Message {
    let mut attribute = Message::default();
    attribute.text(1, name);
    match value {
        // Negative numbers take ten bytes, as the format has it.
        Value::Int32(value) => attribute.number_even_zero(7, i64::from(value) as u64),
        Value::Int64(value) => attribute.number_even_zero(9, value as u64),
        Value::Text(value) => attribute.text(29, value),
    }
    attribute
}

/// The message `GlobalMetadata`, with what people want to know of a trace.
pub(crate) fn head(facts: &[(&str, &str)]) -> Message {
    let mut head = Message::default();
    head.message(2, &attribute("schema", Value::Text(SCHEMA)));
    for (name, value) in facts {
        head.message(2, &attribute(name, Value::Text(value)));
    }
    head
}
