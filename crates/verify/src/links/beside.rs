//! Direct links of a rank whose peers run another program that sends the same messages.
//!
//! Ranks of one call may run two programs, as its placement is each rank's own affair. Take an
//! `own` program without direct links, whose receivers may not be stored to before they have sent,
//! and a `peers` program whose links push. A rank of `own` can still push to a rank of `peers`: the
//! condition of a push (`docs/MEMORY.md`, section 2) is about the steps of the receiver, if no step
//! of the receiver touches the region but the one that takes the message. The other way the rank
//! of `own` offers nothing, so that what it receives comes through slots.

use std::collections::BTreeMap;

use msccl_collective::{Channel, Rank, Region, StepIndex};
use msccl_ir::{Algorithm, Place, StepRef};
use msccl_machine::LinkId;

use super::direct::{Delivery, DirectLink, DirectMessage};
use super::traffic::Traffic;
use crate::Verified;
use crate::program::{At, Program};

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
    let own = messages(own)?;
    let chunks = |of: &Messages| -> Vec<_> {
        let links = of.iter();
        links
            .map(|(ends, sent)| (*ends, sent.iter().map(|it| it.chunks).collect::<Vec<_>>()))
            .collect()
    };
    if chunks(&own) != chunks(&messages(peers)?) {
        return None;
    }
    links.into_iter().map(|link| translated(link, &own)).collect()
}

/// The same link between steps of a program with these messages.
fn translated(link: DirectLink, own: &Messages) -> Option<DirectLink> {
    let DirectLink { from, to, channel, delivery, messages } = link;
    let steps = own.get(&(from, to, channel))?.iter().zip(messages);
    let messages = steps.map(|(own, DirectMessage { send: _, receive: _, region })| {
        let SentMessage { send, receive, chunks: _ } = *own;
        DirectMessage { send, receive, region }
    });
    let messages = messages.collect();
    Some(DirectLink { from, to, channel, delivery, messages })
}

/// What goes over every link, in order; links by sender, receiver and channel.
type Messages = BTreeMap<(Rank, Rank, Channel), Vec<SentMessage>>;

/// A message, and the steps at its two ends.
struct SentMessage {
    send: StepRef,
    receive: StepRef,
    chunks: u32,
}

fn messages(algorithm: &Algorithm) -> Option<Messages> {
    // A proved algorithm is well formed.
    let program = Program::new(algorithm).ok()?;
    // Into how many messages a step is cut makes no difference here.
    let traffic = Traffic::of(&program, 1);
    let wiring = &program.wiring;
    let links = (0..).map(LinkId).zip(wiring.links()).map(|(link, ends)| {
        let sent = traffic.of_link(link).iter().map(|sent| {
            let send = At { tb: ends.sender, step: sent.send };
            let receive = At { tb: ends.receiver, step: sent.receive };
            let chunks = program.step(send).count;
            SentMessage { send: program.step_ref(send), receive: program.step_ref(receive), chunks }
        });
        let (from, to) = (wiring.rank(ends.sender), wiring.rank(ends.receiver));
        ((from, to, wiring.block(ends.sender).channel), sent.collect())
    });
    Some(links.collect())
}

/// Whether nothing of the receiving rank touches the region of a message but the step that takes
/// it, and that only takes it.
fn is_untouched(algorithm: &Algorithm, message: &DirectMessage) -> bool {
    let DirectMessage { send: _, receive, region } = *message;
    let blocks = algorithm.thread_blocks().filter(|(rank, ..)| *rank == receive.rank);
    let mut steps = blocks.flat_map(|(rank, tb, block)| {
        let numbered = block.steps.iter().enumerate();
        numbered.map(move |(step, code)| (StepRef { rank, tb, step: StepIndex::from(step) }, code))
    });
    steps.all(|(at, step)| {
        if at == receive {
            return matches!(step.sources[..], [Place::Link(_)])
                && matches!(step.destinations[..], [Place::Local(_)]);
        }
        let overlaps = |touched: Region| touched.overlaps(region);
        !step.reads().chain(step.writes()).any(overlaps)
    })
}
