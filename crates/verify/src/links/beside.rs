//! Direct links of a rank whose peers run another program that sends the same messages.
//!
//! Ranks of one call may run two programs, as its placement is each rank's own affair. Take an
//! `own` program without direct links, whose receivers may not be stored to before they have sent,
//! and a `peers` program whose links push. A rank of `own` can still push to a rank of `peers`: the
//! condition of a push (`docs/MEMORY.md`, section 2) is about the steps of the receiver, if no step
//! of the receiver touches the region but the one that takes the message. The other way the rank
//! of `own` offers nothing, so that what it receives comes through slots.

use std::collections::BTreeMap;

use msccl_collective::{Channel, Rank, Region};
use msccl_ir::{Algorithm, Place, Step, StepRef};

use super::direct::{Delivery, DirectLink, DirectMessage};
use crate::Verified;

/// A link, by its ends.
type Ends = (Rank, Rank, Channel);

/// The direct links of `peers` as links of `own`; `None` if the two send different messages, or a
/// rank of `own` could not do without offers of its own.
pub(crate) fn of(own: &Verified, peers: &Verified) -> Option<Vec<DirectLink>> {
    let links = peers.direct_links();
    let (own, peers) = (own.algorithm(), peers.algorithm());
    let alone = |link: &DirectLink| {
        link.delivery == Delivery::Push && link.messages.iter().all(|of| is_untouched(peers, of))
    };
    // In place, regions of the input are regions of the output.
    if peers.placement.serves_in_place() || !links.iter().all(alone) {
        return None;
    }
    let (sent, received) = (Steps::that_send(own), Steps::that_receive(own));
    if sent.counts != Steps::that_send(peers).counts {
        return None;
    }
    links.into_iter().map(|link| translated(link, &sent, &received)).collect()
}

/// The same link between steps of another program.
fn translated(link: DirectLink, sent: &Steps, received: &Steps) -> Option<DirectLink> {
    let DirectLink { from, to, channel, delivery, messages } = link;
    let ends = (from, to, channel);
    let (sends, receives) = (sent.at.get(&ends)?, received.at.get(&ends)?);
    if sends.len() != messages.len() || receives.len() != messages.len() {
        return None;
    }
    let steps = sends.iter().zip(receives).zip(messages);
    let messages = steps.map(|((&send, &receive), of)| {
        let DirectMessage { send: _, receive: _, region } = of;
        DirectMessage { send, receive, region }
    });
    Some(DirectLink { from, to, channel, delivery, messages: messages.collect() })
}

/// The steps at one end of every link, in order, and the chunks of each.
#[derive(Default)]
struct Steps {
    at: BTreeMap<Ends, Vec<StepRef>>,
    counts: BTreeMap<Ends, Vec<u32>>,
}

impl Steps {
    fn that_send(algorithm: &Algorithm) -> Self {
        Self::of(algorithm, |step| &step.destinations, |own, peer| (own, peer))
    }

    fn that_receive(algorithm: &Algorithm) -> Self {
        Self::of(algorithm, |step| &step.sources, |own, peer| (peer, own))
    }

    fn of(
        algorithm: &Algorithm,
        places: fn(&Step) -> &[Place],
        ends: fn(Rank, Rank) -> (Rank, Rank),
    ) -> Self {
        let mut steps = Self::default();
        for (at, channel, step) in all_steps(algorithm) {
            for place in places(step) {
                let Place::Link(peer) = *place else { continue };
                let (from, to) = ends(at.rank, peer);
                steps.at.entry((from, to, channel)).or_default().push(at);
                steps.counts.entry((from, to, channel)).or_default().push(step.count);
            }
        }
        steps
    }
}

/// Whether nothing of the receiving rank touches the region of a message but the step that takes
/// it, and that only takes it.
fn is_untouched(algorithm: &Algorithm, message: &DirectMessage) -> bool {
    let DirectMessage { send: _, receive, region } = *message;
    all_steps(algorithm).filter(|(at, ..)| at.rank == receive.rank).all(|(at, _, step)| {
        if at == receive {
            return matches!(step.sources[..], [Place::Link(_)])
                && matches!(step.destinations[..], [Place::Local(_)]);
        }
        let overlaps = |touched: Region| touched.overlaps(region);
        !step.reads().chain(step.writes()).any(overlaps)
    })
}

fn all_steps(algorithm: &Algorithm) -> impl Iterator<Item = (StepRef, Channel, &Step)> {
    (0..).map(Rank).zip(&algorithm.ranks).flat_map(|(rank, program)| {
        let blocks = (0..).zip(&program.thread_blocks);
        blocks.flat_map(move |(tb, block)| {
            let steps = (0..).zip(&block.steps);
            steps.map(move |(step, code)| {
                let tb = msccl_collective::TbIndex(tb);
                (StepRef { rank, tb, step: msccl_collective::StepIndex(step) }, block.channel, code)
            })
        })
    })
}
