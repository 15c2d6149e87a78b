//! What has changed on a node since the last look.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use msccl_collective::Rank;

use super::super::Board;
use super::super::history::Pair;
use super::super::layout::{Field, Ring, Text};
use super::super::record;
use super::news::News;

/// Records of a rank and a kind that are told at one look, where nobody needs all.
const FEW: u64 = 4;

/// Messages of a rank that are told at one look, apart from the last one of each pair, whose history speaks for all
/// before it.
const MESSAGES: usize = 64;

/// How often messages are told.
const MESSAGES_PERIOD: Duration = Duration::from_millis(100);

/// What was told of a node so far.
pub(super) struct Reporter {
    ranks: Vec<Told>,
    /// When messages were told.
    messages_told: Option<Instant>,
    request: u64,
    reporter: u64,
}

/// What was told of a rank: words by field, and the numbers of its last records by ring.
struct Told {
    rank: Rank,
    words: [u64; Field::ALL.len()],
    records: [u64; Ring::ALL.len()],
}

impl Reporter {
    /// Nothing was told of `ranks`.
    pub fn new(ranks: &[Rank]) -> Self {
        let told = |rank: &Rank| {
            let (words, records) = ([0; Field::ALL.len()], [0; Ring::ALL.len()]);
            Told { rank: *rank, words, records }
        };
        let ranks = ranks.iter().map(told).collect();
        Self { ranks, messages_told: None, request: 0, reporter: 0 }
    }

    /// All records that are still there count as not told.
    pub fn repeat_records(&mut self) {
        for told in &mut self.ranks {
            told.records = [0; Ring::ALL.len()];
        }
    }

    /// Whether somebody on this node compares arguments.
    pub fn compares(&self, board: &Board) -> bool {
        let compares = |told: &Told| board.word(Field::Compares.of(told.rank));
        self.ranks.iter().any(|told| compares(told).load(Ordering::Acquire) != 0)
    }

    /// What has changed on `board`, with all records if `all` or somebody compares arguments. Of the ranks in
    /// `departed`, which post no more, it is said that this was all.
    pub fn look(&mut self, board: &Board, departed: &BTreeSet<Rank>, all: bool) -> Vec<News> {
        let mut news = Vec::new();
        let most = if all || self.compares(board) { u64::MAX } else { FEW };
        let messages = all || self.messages_told.is_none_or(|at| at.elapsed() >= MESSAGES_PERIOD);
        if messages {
            self.messages_told = Some(Instant::now());
        }
        for told in &mut self.ranks {
            if messages {
                told.look_at_messages(board, &mut news);
            }
            told.look(board, most, &mut news);
            if departed.contains(&told.rank) {
                told.tell_word(Field::Ended, 1, &mut news);
            }
        }
        for (value, told, item) in [
            (board.request(), &mut self.request, News::Request as fn(u64) -> News),
            (board.reporter_word(), &mut self.reporter, News::Teller),
        ] {
            if std::mem::replace(told, value) != value {
                news.push(item(value));
            }
        }
        news
    }
}

impl Told {
    fn look(&mut self, board: &Board, most: u64, news: &mut Vec<News>) {
        let value = |field: Field| board.word(field.of(self.rank)).load(Ordering::Acquire);
        let [state, answered] = [Field::State, Field::Answered].map(value);
        // Of a state that was read, all that was written before.
        let completed = value(Field::Completed);
        let others = [Field::Issued, Field::Claim].map(|of| (of, value(of)));
        self.tell_word(Field::Compares, value(Field::Compares), news);
        // A text or a record comes before the word that tells of it.
        self.look_at_records(board, Ring::Checkpoints, FEW, news);
        for ring in [Ring::Collectives, Ring::Transfers] {
            self.look_at_records(board, ring, most, news);
            self.tell_word(ring.count(), self.records[ring as usize], news);
        }
        self.tell_word(Field::Completed, completed, news);
        self.look_at_text(board, Text::Reason, (Field::State, state), news);
        self.look_at_text(board, Text::Answer, (Field::Answered, answered), news);
        for (field, value) in others {
            self.tell_word(field, value, news);
        }
    }

    fn look_at_records(&mut self, board: &Board, ring: Ring, most: u64, news: &mut Vec<News>) {
        let rank = self.rank;
        let last = board.last_number(rank, ring);
        let kept = last.saturating_sub(most.min(ring.length()));
        for number in kept.max(self.records[ring as usize]) + 1..=last {
            if let Some(contents) = board.read_contents(rank, ring, number) {
                news.push(News::Record { rank, ring, number, contents });
            }
        }
        self.records[ring as usize] = last;
    }

    /// The last message of each pair that joins two nodes, and some before it, as far as they are new.
    fn look_at_messages(&mut self, board: &Board, news: &mut Vec<News>) {
        let (rank, ring) = (self.rank, Ring::Messages);
        let last = board.last_number(rank, ring);
        let oldest = last.saturating_sub(ring.length()).max(self.records[ring as usize]);
        let mut seen: BTreeSet<(Rank, bool)> = BTreeSet::new();
        let mut found = Vec::new();
        for number in (oldest + 1..=last).rev() {
            let Some(contents) = board.read_contents(rank, ring, number) else { continue };
            let call = record::unpack(contents.shape, contents.count);
            let Some(pair) = call.and_then(|(call, _)| Pair::of(rank, &call)) else { continue };
            let is_far = !board.nodes().together(rank, pair.peer);
            if is_far && (seen.insert((pair.peer, pair.is_sent())) || found.len() < MESSAGES) {
                found.push(News::Record { rank, ring, number, contents });
            }
        }
        news.extend(found.into_iter().rev());
        self.records[ring as usize] = last;
        self.tell_word(Field::Messages, last, news);
    }

    fn look_at_text(
        &mut self,
        board: &Board,
        text: Text,
        (field, value): (Field, u64),
        news: &mut Vec<News>,
    ) {
        if *self.word(field) == value {
            return;
        }
        // If its writer stopped in the middle, the next look finds it.
        let Some(content) = board.read_text(self.rank, text) else { return };
        news.push(News::Text { rank: self.rank, text, content });
        self.tell_word(field, value, news);
    }

    fn tell_word(&mut self, field: Field, value: u64, news: &mut Vec<News>) {
        if std::mem::replace(self.word(field), value) != value {
            news.push(News::Word { rank: self.rank, field, value });
        }
    }

    fn word(&mut self, field: Field) -> &mut u64 {
        &mut self.words[field as usize]
    }
}
