//! Which ends of links one thread block joins.

use msccl_collective::Rank;
use msccl_ir::StepForm;
use rustc_hash::FxHashMap;

use super::dag::MessageId;
use crate::chunk::LinkKey;

/// The pairs of link ends that passing on has joined so far.
///
/// A thread block of the MSCCL form takes from one peer and sends to one, on one channel. So among
/// messages that will be on one channel, an end that is joined with one peer's cannot be joined
/// with another's: among all on a channel that the author requested, and among those that pass one
/// chain of messages on.
#[derive(Debug, Default)]
pub struct Partners {
    joined: FxHashMap<(PartnerScope, Rank, PartnerEnd), Rank>,
    /// By message: the first message of its chain.
    chains: Vec<MessageId>,
}

/// Messages that will be on one channel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum PartnerScope {
    Channel(u32),
    Chain(MessageId),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum PartnerEnd {
    From(Rank),
    To(Rank),
}

/// A step that would take from one rank and send to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Joint {
    /// Whose step.
    pub rank: Rank,
    /// The message that it takes.
    pub taken: MessageId,
    /// Where that message comes from.
    pub from: Rank,
    /// Where it would send to.
    pub to: Rank,
}

impl Partners {
    /// Whether one thread block may take and send as `joint` says, on `link_key`.
    pub fn admit(&self, form: StepForm, link_key: LinkKey, joint: Joint) -> bool {
        if form == StepForm::Native {
            return true;
        }
        let scope = self.scope(link_key, joint.taken);
        let partner = |end| self.joined.get(&(scope, joint.rank, end)).copied();
        partner(PartnerEnd::From(joint.from)).is_none_or(|peer| peer == joint.to)
            && partner(PartnerEnd::To(joint.to)).is_none_or(|peer| peer == joint.from)
    }

    /// Notes that it does. The next message belongs to the chain of the one taken.
    pub fn join(&mut self, form: StepForm, link_key: LinkKey, joint: Joint) {
        if form == StepForm::Native {
            return;
        }
        let scope = self.scope(link_key, joint.taken);
        self.joined.insert((scope, joint.rank, PartnerEnd::From(joint.from)), joint.to);
        self.joined.insert((scope, joint.rank, PartnerEnd::To(joint.to)), joint.from);
        self.chains.push(self.chains[joint.taken.0 as usize]);
    }

    /// Notes that the next message starts a chain.
    pub fn start(&mut self, form: StepForm) {
        if form == StepForm::Msccl {
            self.chains.push(MessageId(self.chains.len() as u32));
        }
    }

    fn scope(&self, link_key: LinkKey, taken: MessageId) -> PartnerScope {
        match link_key {
            LinkKey::Requested { channel } => PartnerScope::Channel(channel),
            LinkKey::Open { .. } => PartnerScope::Chain(self.chains[taken.0 as usize]),
        }
    }
}
