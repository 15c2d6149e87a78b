//! What a realisation may leave out on a link, by the algorithm's own dependencies.
//!
//! The facts are about a proved algorithm, whose links are bounded queues. They say where a sender
//! is held back by the algorithm itself, and where a message need not be copied into a queue at
//! all. `docs/VERIFICATION.md`, section 10, defines each of them; the modules follow it:
//!
//! | module | question |
//! |---|---|
//! | [`traffic`] | which steps send and receive each message of a link? |
//! | [`regions`] | who touches the memory that a message comes from or goes to? |
//! | [`knowledge`] | which of those steps have ended, as far as another step can know? |
//! | [`access`] | who touches the payload of a message, and where? |
//! | [`direct`] | which links may leave out a copy, all at once? |
//! | [`beside`] | which of them may where a peer runs another program? |
//! | [`copies`] | is the algorithm nothing but independent copies? |
//!
//! Order is happens-before as in `race`, for equal positions in messages: chunk `i` of one step
//! before chunk `i` of the other.

pub(crate) mod access;
pub(crate) mod beside;
pub(crate) mod copies;
pub(crate) mod direct;
mod knowledge;
mod regions;
mod traffic;

use msccl_collective::{Channel, Rank};

use crate::deadlock;
use crate::program::Program;
use crate::{Facts, Verified};
use traffic::Traffic;

/// What is known of one link of a proved algorithm, in every round of every call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkFacts {
    /// The rank that sends.
    pub from: Rank,
    /// The rank that receives.
    pub to: Rank,
    /// The channel.
    pub channel: Channel,
    /// Messages in one round of a call with the fewest chunks per message.
    pub messages: u32,
    /// How many messages the sender can be ahead of the receiver with no credits at all, counting
    /// the one that it sends: before it may send message `k + ahead`, message `k` has been
    /// received. Rounds count on, and so do calls that follow on one stream. `None` if nothing
    /// within three rounds holds it back.
    pub messages_ahead_max: Option<u32>,
    /// Whether the sender may write messages straight to where they go. `None` if some receiving
    /// step does not simply copy its message to a region of its rank.
    pub direct_write: Option<DirectWrite>,
    /// Whether the receiver may read messages straight from where they lie. `None` if some message
    /// lies in no region of the sender's rank.
    pub direct_read: Option<DirectRead>,
}

/// When the regions that messages go to are free for the sender to write. Each fact speaks for all
/// messages of the link, in one round, with all other links queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectWrite {
    /// No step of the receiving rank touches such a region before the receiving step: it is free
    /// when the receiving rank has begun the call.
    pub untouched: bool,
    /// Every step of the receiving rank that touches such a region before the receiving step has
    /// ended before the sending step: it is free without a word from the receiver, once that has
    /// begun the call.
    pub ordered: bool,
    /// It is free for message `k` when message `k - credits` of the round has been received, and
    /// for messages below `credits` when the receiving rank has begun the call: a queue of that
    /// depth gives the credits. 0 if no credits will do, [`u32::MAX`] if all regions are untouched.
    pub credits: u32,
}

/// How long messages stay where they lie. Each fact speaks for all messages of the link, in one
/// round, with all other links queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectRead {
    /// No step of the sending rank writes such a region, after the sending step, before the
    /// receiving step is known to have ended.
    pub kept: bool,
    /// When the last step of the sending rank has ended, every receiving step of the round is known
    /// to have: nothing need keep the call from returning.
    pub taken_by_end: bool,
}

/// The facts of every link, in the order of sending thread blocks, then of receiving ranks.
pub(crate) fn of(verified: &Verified) -> Vec<LinkFacts> {
    let Facts { fewest_chunks_per_message, least_link_depth, .. } = *verified.facts();
    // A proved algorithm is well formed, and ends so.
    let Ok(program) = Program::new(verified.algorithm()) else { return Vec::new() };
    let order = deadlock::order(&program, fewest_chunks_per_message, least_link_depth);
    let Some(order) = order else { return Vec::new() };

    let traffic = Traffic::of(&program, fewest_chunks_per_message);
    let (mut direct, questions) = regions::scan(&program, &order, &traffic);
    let answers = knowledge::ask(&program, &order, &traffic, questions);
    answers.denied.iter().for_each(|&(link, about)| direct[link.index()].deny(about));
    answers.not_taken.iter().for_each(|link| direct[link.index()].not_taken());
    let links = program.wiring.links().iter().zip(direct).enumerate();
    links
        .map(|(link, (ends, direct))| LinkFacts {
            from: program.wiring.rank(ends.sender),
            to: program.wiring.rank(ends.receiver),
            channel: program.wiring.block(ends.sender).channel,
            messages: traffic.messages(link),
            messages_ahead_max: answers.ahead[link],
            direct_write: direct.write,
            direct_read: direct.read,
        })
        .collect()
}
