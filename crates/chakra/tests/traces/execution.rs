//! Runs the traces of all ranks, one node at a time, in an order that follows from a seed.

use std::collections::{BTreeMap, HashMap};

use msccl_testkit::Numbers;

use crate::decoder::{COMP, Node, RECV, SEND};

/// What tells a message from others: sender, receiver, tag.
pub type Key = (u32, u32, i64);

/// A node of a rank, by its position in the trace.
pub type At = (usize, usize);

/// What became of a run.
pub struct Run {
    /// The nodes in the order in which they ran.
    pub order: Vec<At>,
    /// The most messages of data that a link ever held: sent, and not worked on yet.
    pub most_in_flight: u64,
}

/// Who sends the message of a node, who receives it, and its tag.
pub fn key(rank: usize, node: &Node) -> Key {
    let tag = node.attributes["comm_tag"];
    match node.node_type {
        SEND => (rank as u32, node.attributes["comm_dst"] as u32, tag),
        RECV => (node.attributes["comm_src"] as u32, rank as u32, tag),
        other => panic!("a node of type {other} has no message"),
    }
}

/// Whether a message is a credit; how tags are made is in the documentation of the crate.
pub fn is_credit(tag: i64) -> bool {
    tag % 2 == 1
}

/// Runs `traces`, by rank, until nothing can go on. `channels` are those of the algorithm.
pub fn run(traces: &[Vec<Node>], channels: i64, seed: u64) -> Run {
    let mut state = State::new(traces);
    let mut numbers = Numbers(seed);
    let mut in_flight: BTreeMap<(u32, u32, i64), u64> = BTreeMap::new();
    let mut most_in_flight = 0;
    let mut order = Vec::new();
    let link = |(from, to, tag): Key| (from, to, tag / 2 % channels);
    while !state.ready.is_empty() {
        let chosen = numbers.index(state.ready.len());
        let at = state.ready.swap_remove(chosen);
        let (rank, position) = at;
        let node = &traces[rank][position];
        match node.node_type {
            SEND if !is_credit(node.attributes["comm_tag"]) => {
                let held = in_flight.entry(link(key(rank, node))).or_default();
                *held += 1;
                most_in_flight = most_in_flight.max(*held);
            }
            COMP => {
                for received in node.data_deps.iter().map(|id| &traces[rank][*id as usize]) {
                    *in_flight.get_mut(&link(key(rank, received))).unwrap() -= 1;
                }
            }
            _ => {}
        }
        order.push(at);
        state.finish(at);
    }
    Run { order, most_in_flight }
}

struct State<'a> {
    traces: &'a [Vec<Node>],
    missing: Vec<Vec<usize>>,
    followers: Vec<Vec<Vec<usize>>>,
    receivers: HashMap<Key, At>,
    ready: Vec<At>,
}

impl<'a> State<'a> {
    fn new(traces: &'a [Vec<Node>]) -> Self {
        let mut state = Self {
            traces,
            missing: traces.iter().map(|nodes| vec![0; nodes.len()]).collect(),
            followers: traces.iter().map(|nodes| vec![Vec::new(); nodes.len()]).collect(),
            receivers: HashMap::new(),
            ready: Vec::new(),
        };
        for (rank, nodes) in traces.iter().enumerate() {
            for (position, node) in nodes.iter().enumerate() {
                let needed: Vec<_> = node.ctrl_deps.iter().chain(&node.data_deps).collect();
                needed.iter().for_each(|id| state.followers[rank][**id as usize].push(position));
                // A receive also needs its message.
                let messages = usize::from(node.node_type == RECV);
                state.missing[rank][position] = needed.len() + messages;
                if messages == 1 {
                    state.receivers.insert(key(rank, node), (rank, position));
                } else if needed.is_empty() {
                    state.ready.push((rank, position));
                }
            }
        }
        state
    }

    fn finish(&mut self, (rank, position): At) {
        let node = &self.traces[rank][position];
        for follower in std::mem::take(&mut self.followers[rank][position]) {
            self.supply((rank, follower));
        }
        if node.node_type == SEND
            && let Some(receiver) = self.receivers.get(&key(rank, node))
        {
            self.supply(*receiver);
        }
    }

    fn supply(&mut self, (rank, position): At) {
        let missing = &mut self.missing[rank][position];
        *missing -= 1;
        if *missing == 0 {
            self.ready.push((rank, position));
        }
    }
}
