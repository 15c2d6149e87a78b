//! Rung 2: link ends. Every end has one owner, and an owner at the other side.

use std::fmt;

use msccl_collective::{Channel, Rank, TbIndex};

use super::{Report, Tb, ViolationClass};
use crate::{Algorithm, StepForm, Target, ThreadBlock};

/// Checks the peers of every thread block, then joins the ends of all links.
pub(super) fn check(algorithm: &Algorithm, target: &Target, report: &mut Report) {
    let mut senders = Vec::new();
    let mut receivers = Vec::new();
    for (rank, tb, block) in algorithm.thread_blocks() {
        let ThreadBlock { channel, sends, receives, steps: _ } = block;
        let at = Tb(rank, tb);
        peers(algorithm, &at, sends, "sends to", report);
        peers(algorithm, &at, receives, "receives from", report);
        if target.form == StepForm::Msccl && (sends.len() > 1 || receives.len() > 1) {
            one_peer_each(&at, block, target, report);
        }
        let end = |from, to| End { link: Link { from, to, channel: *channel }, tb };
        senders.extend(sends.iter().map(|&to| end(rank, to)));
        receivers.extend(receives.iter().map(|&from| end(from, rank)));
    }
    if report.violations.is_empty() {
        join(senders, receivers, report);
    }
}

fn structure(report: &mut Report, message: impl FnOnce() -> String) {
    report.add(ViolationClass::Structure, None, message);
}

fn peers(algorithm: &Algorithm, at: &Tb, peers: &[Rank], verb: &str, report: &mut Report) {
    let ranks = algorithm.collective.ranks;
    for &peer in peers {
        if peer.0 >= ranks {
            structure(report, || format!("{at} {verb} {peer}, but there are only {ranks} ranks"));
        } else if peer == at.0 {
            structure(report, || format!("{at} {verb} its own rank; use a local copy instead"));
        }
    }
    if let Some(pair) = peers.windows(2).find(|pair| pair[0] >= pair[1]) {
        let (first, second) = (pair[0], pair[1]);
        structure(report, || {
            format!("{at} {verb} {first} and then {second}; peers must be ascending and unique")
        });
    }
}

fn one_peer_each(at: &Tb, block: &ThreadBlock, target: &Target, report: &mut Report) {
    let (sends, receives) = (block.sends.len(), block.receives.len());
    structure(report, || {
        format!(
            "{at} sends to {sends} ranks and receives from {receives}; a thread block of target \
             {target} has at most one of each"
        )
    });
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Link {
    from: Rank,
    to: Rank,
    channel: Channel,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the link from {} to {} on {}", self.from, self.to, self.channel)
    }
}

/// One side of a link, and the thread block of that side's rank that owns it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    link: Link,
    tb: TbIndex,
}

fn join(mut senders: Vec<End>, mut receivers: Vec<End>, report: &mut Report) {
    senders.sort_unstable();
    receivers.sort_unstable();
    one_owner(&senders, |link| link.from, "sending", report);
    one_owner(&receivers, |link| link.to, "receiving", report);
    partners(&senders, &receivers, |link| link.from, "no thread block of it receives", report);
    partners(&receivers, &senders, |link| link.to, "no thread block of it sends", report);
}

fn one_owner(ends: &[End], side: fn(Link) -> Rank, name: &str, report: &mut Report) {
    for pair in ends.windows(2).filter(|pair| pair[0].link == pair[1].link) {
        let (link, first, second) = (pair[0].link, pair[0].tb, pair[1].tb);
        let rank = side(link);
        structure(report, || {
            format!(
                "{} and {} both own the {name} end of {link}; a link end belongs to one thread \
                 block (use another channel)",
                Tb(rank, first),
                Tb(rank, second),
            )
        });
    }
}

/// Every end in `ends` needs one of the same link in `others`; both are sorted.
fn partners(ends: &[End], others: &[End], side: fn(Link) -> Rank, lack: &str, report: &mut Report) {
    for end in ends {
        if others.binary_search_by_key(&end.link, |other| other.link).is_ok() {
            continue;
        }
        let Link { from, to, .. } = end.link;
        let owner = side(end.link);
        let peer = if owner == from { to } else { from };
        structure(report, || {
            let (at, link, channel) = (Tb(owner, end.tb), end.link, end.link.channel);
            format!("{at} owns an end of {link}, but {peer} lacks the other: {lack} on {channel}")
        });
    }
}
