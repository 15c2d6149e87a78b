//! What thread blocks of a rank wait for, for hang reports.

use msccl_collective::Rank;

/// What one thread block has been waiting for, for some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Waiting {
    /// The call.
    pub call: u64,
    /// The peer that could help, if it is another rank.
    pub peer: Option<Rank>,
    /// Such as `tb2 s17 waits for message 41 from r5 on ch0 (round 3)`.
    pub text: String,
}

impl Waiting {
    /// Of `waits`, the one that says most of a failure at `failed_peer`, if that is known: a wait
    /// for it; or else for any rank, since thread blocks of a rank wait for one another in turn.
    pub fn most_telling(waits: &[Self], failed_peer: Option<Rank>) -> Option<&Self> {
        waits.iter().min_by_key(|waiting| match waiting.peer {
            Some(peer) if Some(peer) == failed_peer => 0,
            Some(_) => 1,
            None => 2,
        })
    }
}
