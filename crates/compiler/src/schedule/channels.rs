//! Which channel carries each message, and who owns the ends of each link.
//!
//! Messages that one instruction takes or sends stand or fall together: they form a *flow* and get
//! one channel. A flow whose author requested a channel gets that one. Any other flow of instance i
//! out of k gets the lowest of the channels i, i + k, i + 2k, … that keeps these rules, for every
//! link end it uses:
//!
//! 1. *One pair of peers per thread block* (MSCCL form): an end that receives from p and an end
//!    that sends to q are paired if an instruction uses both; no end is paired with two.
//! 2. *Order*: no flow joins a link on a channel that was requested by name, because only messages
//!    of the same standing are known to use a link in different waves.
//! 3. *Room*: the thread block does not exceed the target's steps, nor the rank its peers per
//!    channel.
//! 4. *Long steps stand alone* (MSCCL form): a send of more messages than a link holds never uses
//!    an end that is paired, so that its receiver is never behind another send.

use msccl_collective::Rank;
use msccl_ir::{LinkShape, StepForm, Target};
use msccl_syntax::Diagnostic;
use rustc_hash::FxHashMap;

use crate::chunk::{self, LinkKey};
use crate::instruction::{self, Message, MessageId, fits_empty_link};

/// The channel of every message and the link ends it uses.
#[derive(Debug)]
pub struct ChannelAssignments {
    /// By message.
    pub assignments: Vec<ChannelAssignment>,
    /// By link end: the lowest end that must share its thread block.
    pub owners: Vec<EndId>,
}

/// How one message travels.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChannelAssignment {
    /// Its channel.
    pub channel: u32,
    /// The sending end.
    pub sender: EndId,
    /// The receiving end.
    pub receiver: EndId,
}

/// One end of a link: a rank, a peer, a direction and a channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct EndId(pub u32);

/// Gives every message of `dag` a channel.
///
/// # Errors
///
/// Flows for which no channel is left, at the statement of their first message.
pub fn assign(
    program: &chunk::ChunkDag,
    dag: &instruction::InstructionDag,
    target: &Target,
) -> Result<ChannelAssignments, Vec<Diagnostic>> {
    let flows = Flows::of(dag);
    let mut assigner = Assigner::new(program, dag, target);
    for requested in [true, false] {
        for flow in flows.iter() {
            let link_key = assigner.link_key(flow[0]);
            if matches!(link_key, LinkKey::Requested { .. }) == requested {
                assigner.flow(flow, link_key)?;
            }
        }
    }
    let owners = owners(dag, &assigner.assignments, assigner.ends.len());
    Ok(ChannelAssignments { assignments: assigner.assignments, owners })
}

/// Joins the ends that one instruction uses.
fn owners(
    dag: &instruction::InstructionDag,
    assignments: &[ChannelAssignment],
    ends: usize,
) -> Vec<EndId> {
    let mut parents: Vec<u32> = (0..ends as u32).collect();
    for instruction in &dag.instructions {
        let received =
            instruction.receives().map(|message| assignments[message.0 as usize].receiver);
        let sent = instruction.sends().map(|message| assignments[message.0 as usize].sender);
        let mut ends = received.chain(sent);
        if let Some(first) = ends.next() {
            for other in ends {
                join(&mut parents, first.0, other.0);
            }
        }
    }
    (0..ends as u32).map(|end| EndId(find(&mut parents, end))).collect()
}

/// Messages grouped into flows, flows and messages in the order of messages.
struct Flows {
    /// All messages, flow by flow.
    members: Vec<MessageId>,
    /// Where each flow starts, and the end.
    starts: Vec<u32>,
}

impl Flows {
    fn of(dag: &instruction::InstructionDag) -> Self {
        let mut parents: Vec<u32> = (0..dag.messages.len() as u32).collect();
        for instruction in &dag.instructions {
            let mut messages = instruction.receives().chain(instruction.sends());
            if let Some(first) = messages.next() {
                for other in messages {
                    join(&mut parents, first.0, other.0);
                }
            }
        }
        Self::group(&mut parents)
    }

    /// Counting sort by root; a root is the lowest message of its flow.
    fn group(parents: &mut [u32]) -> Self {
        let mut sizes = vec![0u32; parents.len()];
        for message in 0..parents.len() as u32 {
            sizes[find(parents, message) as usize] += 1;
        }
        let mut starts = Vec::new();
        let mut next = 0;
        for size in &mut sizes {
            let start = next;
            next += *size;
            if *size > 0 {
                starts.push(start);
            }
            *size = start;
        }
        starts.push(next);
        let mut members = vec![MessageId(0); parents.len()];
        for message in 0..parents.len() as u32 {
            let place = &mut sizes[find(parents, message) as usize];
            members[*place as usize] = MessageId(message);
            *place += 1;
        }
        Self { members, starts }
    }

    fn iter(&self) -> impl Iterator<Item = &[MessageId]> {
        self.starts.windows(2).map(|bounds| &self.members[bounds[0] as usize..bounds[1] as usize])
    }
}

/// The lowest member of `message`'s flow; halves the path on the way.
fn find(parents: &mut [u32], mut message: u32) -> u32 {
    while parents[message as usize] != message {
        let grandparent = parents[parents[message as usize] as usize];
        parents[message as usize] = grandparent;
        message = grandparent;
    }
    message
}

fn join(parents: &mut [u32], one: u32, other: u32) {
    let (one, other) = (find(parents, one), find(parents, other));
    parents[one.max(other) as usize] = one.min(other);
}

struct Assigner<'a> {
    program: &'a chunk::ChunkDag,
    dag: &'a instruction::InstructionDag,
    target: &'a Target,
    link: LinkShape,
    assignments: Vec<ChannelAssignment>,
    ends: FxHashMap<EndKey, TakenEnd>,
    /// Ends in use by rank, direction and channel.
    peers: FxHashMap<(Rank, Direction, u32), u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct EndKey {
    rank: Rank,
    peer: Rank,
    direction: Direction,
    channel: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Direction {
    Send,
    Receive,
}

/// What is known of a link end in use.
struct TakenEnd {
    id: EndId,
    /// The peer of the end it is paired with (rule 1).
    partner: Option<Rank>,
    /// Whether its channel was requested (rule 2).
    requested: bool,
    /// Steps that use it (rule 3).
    steps: u32,
    /// Whether a long step uses it (rule 4).
    long: bool,
}

/// How a flow uses one end.
struct Use {
    rank: Rank,
    peer: Rank,
    direction: Direction,
    partner: Option<Rank>,
    long: bool,
}

impl<'a> Assigner<'a> {
    fn new(
        program: &'a chunk::ChunkDag,
        dag: &'a instruction::InstructionDag,
        target: &'a Target,
    ) -> Self {
        Self {
            program,
            dag,
            target,
            link: target.link(program.protocol),
            assignments: vec![ChannelAssignment::default(); dag.messages.len()],
            ends: FxHashMap::default(),
            peers: FxHashMap::default(),
        }
    }

    /// What the author requested; one flow never mixes two lines (rule 4 of fusion).
    fn link_key(&self, message: MessageId) -> LinkKey {
        let receiver = self.dag.instruction(self.dag.message(message).receiver);
        self.program.hints[receiver.hints.0 as usize].link_key()
    }

    fn flow(&mut self, flow: &[MessageId], link_key: LinkKey) -> Result<(), Vec<Diagnostic>> {
        let uses: Vec<Use> = flow.iter().flat_map(|&message| self.uses(message)).collect();
        let (channel, requested) = match link_key {
            LinkKey::Requested { channel } => (channel, true),
            LinkKey::Open { instance } => (self.choose(&uses, instance, flow[0])?, false),
        };
        let ids: Vec<EndId> = uses.iter().map(|end| self.take(end, channel, requested)).collect();
        for (&message, ends) in flow.iter().zip(ids.chunks_exact(2)) {
            self.assignments[message.0 as usize] =
                ChannelAssignment { channel, sender: ends[0], receiver: ends[1] };
        }
        Ok(())
    }

    /// The lowest channel of `instance` that admits all `uses`.
    fn choose(
        &self,
        uses: &[Use],
        instance: u32,
        first: MessageId,
    ) -> Result<u32, Vec<Diagnostic>> {
        let channels = instance..self.target.limits.channels;
        channels
            .step_by(self.program.instances.max(1) as usize)
            .find(|&channel| uses.iter().all(|end| self.admits(end, channel)))
            .ok_or_else(|| vec![self.exhausted(first)])
    }

    /// The two ends of a message: the sending one, then the receiving one.
    fn uses(&self, id: MessageId) -> [Use; 2] {
        let Message { sender, receiver, from, to } = *self.dag.message(id);
        let sender = self.dag.instruction(sender);
        let receiver = self.dag.instruction(receiver);
        let came_from = sender.receives().next().map(|message| self.dag.message(message).from);
        let goes_to = receiver.sends().next().map(|message| self.dag.message(message).to);
        let long = !fits_empty_link(self.link, receiver.count);
        [
            Use { rank: from, peer: to, direction: Direction::Send, partner: came_from, long },
            Use { rank: to, peer: from, direction: Direction::Receive, partner: goes_to, long },
        ]
    }

    /// Whether `end` may be on `channel`, by the rules of this module.
    fn admits(&self, end: &Use, channel: u32) -> bool {
        let limits = &self.target.limits;
        let native = self.target.form == StepForm::Native;
        let room = match self.ends.get(&end.key(channel)) {
            Some(taken) => {
                (native || pairs_with(taken, end))
                    && !taken.requested
                    && taken.steps < steps_for_messages(limits.steps_per_tb)
            }
            None => {
                let peers = self.peers.get(&(end.rank, end.direction, channel)).copied();
                peers.unwrap_or(0) < limits.peers_per_channel
            }
        };
        room && (native || self.partner_admits(end, channel))
    }

    /// Whether the end that `end` is to be paired with has no other partner.
    fn partner_admits(&self, end: &Use, channel: u32) -> bool {
        let Some(partner) = end.partner else { return true };
        let key =
            EndKey { rank: end.rank, peer: partner, direction: end.direction.other(), channel };
        self.ends
            .get(&key)
            .is_none_or(|taken| taken.partner.is_none_or(|peer| peer == end.peer) && !taken.long)
    }

    fn take(&mut self, end: &Use, channel: u32, requested: bool) -> EndId {
        let id = EndId(self.ends.len() as u32);
        let entry = self.ends.entry(end.key(channel)).or_insert_with(|| {
            *self.peers.entry((end.rank, end.direction, channel)).or_insert(0) += 1;
            TakenEnd { id, partner: None, requested, steps: 0, long: false }
        });
        entry.partner = entry.partner.or(end.partner);
        entry.requested |= requested;
        entry.steps += 1;
        entry.long |= end.long;
        entry.id
    }

    fn exhausted(&self, message: MessageId) -> Diagnostic {
        let receiver = self.dag.instruction(self.dag.message(message).receiver);
        let origin = &self.program.statements[receiver.statement.0 as usize];
        Diagnostic::error(
            origin.span,
            format!(
                "this needs another channel, but the {} target has only {}",
                self.target, self.target.limits.channels
            ),
        )
    }
}

/// Rules 1 and 4 between an end in use and another use of it.
fn pairs_with(taken: &TakenEnd, end: &Use) -> bool {
    match (taken.partner, end.partner) {
        (Some(one), Some(other)) => one == other,
        (Some(_), None) => !end.long,
        (None, Some(_)) => !taken.long,
        (None, None) => true,
    }
}

/// How many messages one end of a thread block may carry: a quarter of the block's steps is left
/// for no-op steps and local steps.
fn steps_for_messages(steps_per_tb: u32) -> u32 {
    steps_per_tb - steps_per_tb / 4
}

impl Use {
    fn key(&self, channel: u32) -> EndKey {
        let Use { rank, peer, direction, .. } = *self;
        EndKey { rank, peer, direction, channel }
    }
}

impl Direction {
    fn other(self) -> Self {
        match self {
            Direction::Send => Direction::Receive,
            Direction::Receive => Direction::Send,
        }
    }
}
