//! What has changed on a node since the last look.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use msccl_collective::Rank;

use super::super::SharedState;
use super::super::history::Pair;
use super::super::layout::{Field, Ring, Text};
use super::super::record;
use super::state_update::StateUpdate;

/// Records of a rank and a kind that are published at one look, where nobody needs all.
const FEW: u64 = 4;

/// Messages of a rank that are published at one look, apart from the last one of each pair, whose
/// history speaks for all before it.
const MESSAGES: usize = 64;

/// How often messages are published.
const MESSAGES_PERIOD: Duration = Duration::from_millis(100);

/// What was published of a node so far.
pub(super) struct UpdateScan {
    ranks: Vec<Published>,
    /// When messages were published.
    messages_published: Option<Instant>,
    request: u64,
    reporter: u64,
}

/// What was published of a rank: words by field, and the numbers of its last records by ring.
struct Published {
    rank: Rank,
    words: [u64; Field::ALL.len()],
    records: [u64; Ring::ALL.len()],
}

impl UpdateScan {
    /// Nothing was published of `ranks`.
    pub fn new(ranks: &[Rank]) -> Self {
        let published = |rank: &Rank| {
            let (words, records) = ([0; Field::ALL.len()], [0; Ring::ALL.len()]);
            Published { rank: *rank, words, records }
        };
        let ranks = ranks.iter().map(published).collect();
        Self { ranks, messages_published: None, request: 0, reporter: 0 }
    }

    /// All records that are still there count as not published.
    pub fn repeat_records(&mut self) {
        for published in &mut self.ranks {
            published.records = [0; Ring::ALL.len()];
        }
    }

    /// Whether somebody on this node compares arguments.
    pub fn compares(&self, shared_state: &SharedState) -> bool {
        let compares =
            |published: &Published| shared_state.word(Field::Compares.of(published.rank));
        self.ranks.iter().any(|published| compares(published).load(Ordering::Acquire) != 0)
    }

    /// What has changed on `shared_state`, with all records if `all` or somebody compares
    /// arguments. Of the ranks in `departed`, which post no more, it is said that this was all.
    pub fn look(
        &mut self,
        shared_state: &SharedState,
        departed: &BTreeSet<Rank>,
        all: bool,
    ) -> Vec<StateUpdate> {
        let mut updates = Vec::new();
        let most = if all || self.compares(shared_state) { u64::MAX } else { FEW };
        let messages =
            all || self.messages_published.is_none_or(|at| at.elapsed() >= MESSAGES_PERIOD);
        if messages {
            self.messages_published = Some(Instant::now());
        }
        for published in &mut self.ranks {
            if messages {
                published.look_at_messages(shared_state, &mut updates);
            }
            published.look(shared_state, most, &mut updates);
            if departed.contains(&published.rank) {
                published.publish_word(Field::Ended, 1, &mut updates);
            }
        }
        for (value, published, item) in [
            (
                shared_state.request(),
                &mut self.request,
                StateUpdate::Request as fn(u64) -> StateUpdate,
            ),
            (shared_state.reporter_word(), &mut self.reporter, StateUpdate::Reporter),
        ] {
            if std::mem::replace(published, value) != value {
                updates.push(item(value));
            }
        }
        updates
    }
}

impl Published {
    fn look(&mut self, shared_state: &SharedState, most: u64, updates: &mut Vec<StateUpdate>) {
        let value = |field: Field| shared_state.word(field.of(self.rank)).load(Ordering::Acquire);
        let [state, answered] = [Field::RankState, Field::Answered].map(value);
        // Of a state that was read, all that was written before.
        let completed = value(Field::Completed);
        let others = [Field::Issued, Field::Claim].map(|of| (of, value(of)));
        self.publish_word(Field::Compares, value(Field::Compares), updates);
        // A text or a record comes before the word that announces it.
        self.look_at_records(shared_state, Ring::Checkpoints, FEW, updates);
        for ring in [Ring::Collectives, Ring::Transfers] {
            self.look_at_records(shared_state, ring, most, updates);
            self.publish_word(ring.count(), self.records[ring as usize], updates);
        }
        self.publish_word(Field::Completed, completed, updates);
        self.look_at_text(shared_state, Text::Reason, (Field::RankState, state), updates);
        self.look_at_text(shared_state, Text::Answer, (Field::Answered, answered), updates);
        for (field, value) in others {
            self.publish_word(field, value, updates);
        }
    }

    fn look_at_records(
        &mut self,
        shared_state: &SharedState,
        ring: Ring,
        most: u64,
        updates: &mut Vec<StateUpdate>,
    ) {
        let rank = self.rank;
        let last = shared_state.last_number(rank, ring);
        let kept = last.saturating_sub(most.min(ring.length()));
        for number in kept.max(self.records[ring as usize]) + 1..=last {
            if let Some(contents) = shared_state.read_contents(rank, ring, number) {
                updates.push(StateUpdate::Record { rank, ring, number, contents });
            }
        }
        self.records[ring as usize] = last;
    }

    /// The last message of each pair that joins two nodes, and examples before it, as far as they
    /// are new.
    fn look_at_messages(&mut self, shared_state: &SharedState, updates: &mut Vec<StateUpdate>) {
        let (rank, ring) = (self.rank, Ring::Messages);
        let last = shared_state.last_number(rank, ring);
        let oldest = last.saturating_sub(ring.length()).max(self.records[ring as usize]);
        let mut seen: BTreeSet<(Rank, bool)> = BTreeSet::new();
        let mut found = Vec::new();
        for number in (oldest + 1..=last).rev() {
            let Some(contents) = shared_state.read_contents(rank, ring, number) else { continue };
            let call = record::unpack(contents.shape, contents.count);
            let Some(pair) = call.and_then(|(call, _)| Pair::of(rank, &call.operation)) else {
                continue;
            };
            let is_inter_node = !shared_state.nodes().together(rank, pair.peer);
            if is_inter_node && (seen.insert((pair.peer, pair.is_sent())) || found.len() < MESSAGES)
            {
                found.push(StateUpdate::Record { rank, ring, number, contents });
            }
        }
        updates.extend(found.into_iter().rev());
        self.records[ring as usize] = last;
        self.publish_word(Field::Messages, last, updates);
    }

    fn look_at_text(
        &mut self,
        shared_state: &SharedState,
        text: Text,
        (field, value): (Field, u64),
        updates: &mut Vec<StateUpdate>,
    ) {
        if *self.word(field) == value {
            return;
        }
        // If its writer stopped in the middle, the next look finds it.
        let Some(content) = shared_state.read_text(self.rank, text) else { return };
        updates.push(StateUpdate::Text { rank: self.rank, text, content });
        self.publish_word(field, value, updates);
    }

    fn publish_word(&mut self, field: Field, value: u64, updates: &mut Vec<StateUpdate>) {
        if std::mem::replace(self.word(field), value) != value {
            updates.push(StateUpdate::Word { rank: self.rank, field, value });
        }
    }

    fn word(&mut self, field: Field) -> &mut u64 {
        &mut self.words[field as usize]
    }
}
