//! The nodes of one rank.

use std::convert::Infallible;
use std::io;

use msccl_collective::Rank;
use msccl_ir::StepRef;

use crate::call::{CREDIT_BYTES, Traced};
use crate::node::{Action, Envelope, Node};
use crate::pieces::{LinkMessage, Piece, each_piece};

/// By thread block: the node with which each step ends, round after round.
struct Ends(Vec<Vec<u64>>);

impl Ends {
    fn of(traced: &Traced<'_>, rank: Rank) -> Self {
        let blocks = &traced.algorithm.ranks[rank.index()].thread_blocks;
        let mut ends = vec![Vec::new(); blocks.len()];
        let visited = each_piece(blocks, traced.cut, traced.depth, |piece| {
            let ends = &mut ends[piece.tb.index()];
            if piece.is_first_of_step {
                ends.push(0);
            }
            if let Some(end) = ends.last_mut() {
                *end = piece.work_id();
            }
            Ok::<(), Infallible>(())
        });
        let Ok(()) = visited;
        Self(ends)
    }
}

/// Calls `write` with every node of `rank`, by ascending numbers.
///
/// # Errors
///
/// The first of `write`.
pub(crate) fn each_node(
    traced: &Traced<'_>,
    rank: Rank,
    mut write: impl FnMut(&Node) -> io::Result<()>,
) -> io::Result<()> {
    let blocks = &traced.algorithm.ranks[rank.index()].thread_blocks;
    let ends = Ends::of(traced, rank);
    let mut previous = None;
    let mut is_empty = true;
    each_piece(blocks, traced.cut, traced.depth, |piece| {
        is_empty = false;
        let before = previous.filter(|(tb, _)| *tb == piece.tb).map(|(_, work)| work);
        previous = Some((piece.tb, piece.work_id()));
        let view = View { traced, rank, piece: &piece, ends: &ends, before };
        view.nodes().iter().try_for_each(&mut write)
    })?;
    if is_empty {
        let action = Action::Work { duration_us: 0 };
        let (control, data) = (Vec::new(), Vec::new());
        write(&Node { id: 0, name: "nothing to do".to_owned(), action, control, data })?;
    }
    Ok(())
}

/// A piece, and what its nodes refer to.
struct View<'a> {
    traced: &'a Traced<'a>,
    rank: Rank,
    piece: &'a Piece<'a>,
    ends: &'a Ends,
    /// The node that works in the piece before, of the same thread block.
    before: Option<u64>,
}

/// What a message carries.
#[derive(Clone, Copy)]
enum Load {
    Data,
    Credit,
}

impl View<'_> {
    /// In the order of their numbers.
    fn nodes(&self) -> Vec<Node> {
        let Piece { received, sent, first_id, .. } = self.piece;
        let work = self.piece.work_id();
        let credited = || sent.iter().filter(|message| message.has_credit);
        let returned = || received.iter().filter(|message| message.has_credit);
        let before: Vec<u64> = self.before.into_iter().collect();
        let mut nodes = Vec::with_capacity(received.len() + sent.len() + 1);
        let mut add = |name, action, control, data| {
            let id = first_id + nodes.len() as u64;
            nodes.push(Node { id, name, action, control, data });
        };
        for message in received {
            let name = self.name(&format!("from {}", message.peer));
            add(name, self.receive(message, Load::Data), before.clone(), Vec::new());
        }
        for message in credited() {
            let name = self.name(&format!("credit from {}", message.peer));
            add(name, self.receive(message, Load::Credit), before.clone(), Vec::new());
        }
        let taken = first_id + received.len() as u64;
        let control = self.waits().chain(self.before).chain(taken..work).collect();
        let name = self.name(self.piece.step.kind().abbreviation());
        add(name, self.work(), control, (*first_id..taken).collect());
        for message in sent {
            let name = self.name(&format!("to {}", message.peer));
            add(name, self.send(message, Load::Data), Vec::new(), vec![work]);
        }
        for message in returned() {
            let name = self.name(&format!("credit to {}", message.peer));
            add(name, self.send(message, Load::Credit), vec![work], Vec::new());
        }
        nodes
    }

    /// `r0 tb1 s2: from r3`, with the round where there are several.
    fn name(&self, what: &str) -> String {
        let Piece { tb, index, round, .. } = *self.piece;
        let at = StepRef { rank: self.rank, tb, step: index };
        match self.traced.cut.rounds {
            1 => format!("{at}: {what}"),
            _ => format!("{at} round {round}: {what}"),
        }
    }

    /// The nodes with which the steps end that the piece waits for.
    fn waits(&self) -> impl Iterator<Item = u64> {
        let Piece { step, round, is_first_of_step, .. } = *self.piece;
        let waits = step.waits.iter().filter(move |_| is_first_of_step);
        waits.map(move |wait| {
            let ends = &self.ends.0[wait.tb.index()];
            let steps = ends.len() / self.traced.cut.rounds as usize;
            ends[round as usize * steps + wait.step.index()]
        })
    }

    fn work(&self) -> Action {
        let Piece { step, bytes, .. } = self.piece;
        let operands = step.sources.len().max(step.destinations.len()) as f64;
        let rate = self.traced.call.tb_bytes_per_us;
        let duration_us = rate.map_or(0.0, |rate| operands * *bytes as f64 / rate);
        Action::Work { duration_us: duration_us.round() as u64 }
    }

    /// A message of this piece that arrives: data, or the credit for which `message` waits.
    fn receive(&self, message: &LinkMessage, load: Load) -> Action {
        let number = match load {
            Load::Data => message.number,
            Load::Credit => message.number - self.traced.depth,
        };
        Action::Receive { from: message.peer, envelope: self.envelope(number, load) }
    }

    /// A message of this piece that leaves: data, or the credit that `message` returns.
    fn send(&self, message: &LinkMessage, load: Load) -> Action {
        Action::Send { to: message.peer, envelope: self.envelope(message.number, load) }
    }

    /// That `Traces::new` has checked: tags and lengths fit.
    fn envelope(&self, number: u64, load: Load) -> Envelope {
        let link = number * self.traced.channels + u64::from(self.piece.channel.0);
        let (bytes, tag) = match load {
            Load::Data => (self.piece.bytes, 2 * link),
            Load::Credit => (CREDIT_BYTES, 2 * link + 1),
        };
        Envelope { bytes: bytes as i64, tag: tag as i32 }
    }
}
