//! The messages of every link, and how far a sender is ahead.

use msccl_machine::{LinkId, TbId};

use crate::program::{At, Program};

/// What one step sends over a link: one message, or several if it is a counted step.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    /// The sending step, in the link's sending block.
    pub(super) send: u32,
    /// The receiving step, in the link's receiving block.
    pub(super) receive: u32,
    /// Messages of the link that were sent before, in this round.
    before: u32,
}

/// What goes over one link in one round, in order.
#[derive(Default)]
struct Flow {
    sent: Vec<Sent>,
    messages: u32,
}

/// What goes over every link.
pub(super) struct Traffic {
    flows: Vec<Flow>,
}

impl Traffic {
    /// Pairs sends and receives, and counts messages of up to `chunks` chunks.
    pub(super) fn of(program: &Program<'_>, chunks: u32) -> Self {
        let mut flows = Vec::new();
        flows.resize_with(program.wiring.links().len(), Flow::default);
        for tb in (0..program.wiring.tb_count() as u32).map(TbId) {
            for (step, code) in (0..).zip(&program.wiring.block(tb).steps) {
                let senders = program.senders(program.id(At { tb, step }));
                for (from, &sender) in code.receives().zip(senders) {
                    let Some(link) = program.wiring.link_from(tb, from) else { continue };
                    let Flow { sent, messages } = &mut flows[link.index()];
                    let send = program.locate(sender).step;
                    sent.push(Sent { send, receive: step, before: *messages });
                    *messages += code.count.div_ceil(chunks.max(1));
                }
            }
        }
        Self { flows }
    }

    /// What the steps of a link send, in order.
    pub(super) fn of_link(&self, link: LinkId) -> &[Sent] {
        &self.flows[link.index()].sent
    }

    /// Messages of a link in one round.
    pub(super) fn messages(&self, link: usize) -> u32 {
        self.flows[link].messages
    }

    /// How many messages of `link` are under way at most when the sender is in step `send` of round
    /// `round` and knows that the receiver has ended `ended` steps in all rounds, of `steps` each;
    /// `None` if it knows of no message that has been received.
    pub(super) fn ahead(&self, link: LinkId, at: Moment, ended: u32) -> Option<u32> {
        let Flow { sent, messages } = &self.flows[link.index()];
        let a_round = sent.len() as u32;
        // In units of what one step sends, over all rounds.
        let position = sent.partition_point(|it| it.send < at.send) as u32;
        let sending = at.round * a_round + position;
        let of_last = sent.partition_point(|it| it.receive < ended % at.steps.max(1)) as u32;
        let received = ended / at.steps.max(1) * a_round + of_last;
        let before = |unit: u32| {
            let in_round = sent.get((unit % a_round) as usize).map_or(0, |it| it.before);
            unit / a_round * messages + in_round
        };
        // Chunk by chunk, the step under way may follow the last known to be received: their
        // messages go side by side, and either of the two may be the longer one.
        let last = received.checked_sub(1)?;
        let to_its_end = before(sending + 1) - before(received);
        Some(to_its_end.max(before(sending) - before(last)))
    }
}

/// Where a sender stands.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    /// The round.
    pub(super) round: u32,
    /// The step of the sending block.
    pub(super) send: u32,
    /// Steps of the receiving block in one round.
    pub(super) steps: u32,
}
