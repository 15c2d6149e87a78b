//! What has changed on a node, in the order in which others must write it down, and as bytes.

use std::sync::atomic::Ordering;

use msccl_collective::Rank;

use super::super::SharedState;
use super::super::layout::{Field, Ring, Text};
use super::super::record::Contents;

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum StateUpdate {
    /// A report was requested.
    Request(u64),
    /// A rank became the reporter: the word of the header.
    Reporter(u64),
    /// A rank's word.
    Word { rank: Rank, field: Field, value: u64 },
    /// A rank's record.
    Record { rank: Rank, ring: Ring, number: u64, contents: Contents },
    /// A rank's text.
    Text { rank: Rank, text: Text, content: String },
}

impl StateUpdate {
    /// Puts it on `shared_state`, if `from` lives where it happened, unless what stands there is
    /// newer: words only grow, and the words of two leaders of a node may come in any order.
    pub fn store(&self, shared_state: &SharedState, from: Rank) {
        let of_sender = |rank: Rank| {
            shared_state.nodes().together(from, rank)
                && !shared_state.nodes().together(shared_state.me(), rank)
        };
        match self {
            StateUpdate::Request(request) => shared_state.note_request(*request),
            StateUpdate::Reporter(word) => shared_state.note_reporter(*word),
            StateUpdate::Word { rank, field, value } if of_sender(*rank) => {
                shared_state.word(field.of(*rank)).fetch_max(*value, Ordering::AcqRel);
            }
            StateUpdate::Record { rank, ring, number, contents }
                if of_sender(*rank) && shared_state.guard(*rank, *ring, *number) < *number =>
            {
                shared_state.write_record(*rank, *ring, *number, *contents);
            }
            StateUpdate::Text { rank, text, content } if of_sender(*rank) => {
                shared_state.write_text(*rank, *text, content);
            }
            StateUpdate::Word { .. } | StateUpdate::Record { .. } | StateUpdate::Text { .. } => {}
        }
    }
}

/// The bytes of `updates`: each a kind and its numbers, little-endian.
pub(super) fn encode(updates: &[StateUpdate]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for item in updates {
        match item {
            StateUpdate::Request(request) => put(&mut bytes, 0, 0, &[*request]),
            StateUpdate::Reporter(word) => put(&mut bytes, 1, 0, &[*word]),
            StateUpdate::Word { rank, field, value } => {
                put(&mut bytes, 2, rank.0, &[*field as u64, *value]);
            }
            StateUpdate::Record { rank, ring, number, contents } => {
                put(&mut bytes, 3, rank.0, &[*ring as u64, *number]);
                contents.words().iter().for_each(|word| bytes.extend(word.to_le_bytes()));
            }
            StateUpdate::Text { rank, text, content } => {
                put(&mut bytes, 4, rank.0, &[*text as u64, content.len() as u64]);
                bytes.extend(content.as_bytes());
            }
        }
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, kind: u8, rank: u32, numbers: &[u64]) {
    bytes.push(kind);
    bytes.extend(rank.to_le_bytes());
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
}

/// What [`encode`] wrote; `None` for anything else.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<StateUpdate>> {
    let mut updates = Vec::new();
    while let Some((kind, rest)) = bytes.split_first() {
        bytes = rest;
        let rank = Rank(u32::from_le_bytes(take(&mut bytes)?));
        let mut number = || Some(u64::from_le_bytes(take(&mut bytes)?));
        updates.push(match kind {
            0 => StateUpdate::Request(number()?),
            1 => StateUpdate::Reporter(number()?),
            2 => {
                let field = number()?;
                let field = Field::ALL.into_iter().find(|known| *known as u64 == field)?;
                StateUpdate::Word { rank, field, value: number()? }
            }
            3 => {
                let ring = number()?;
                let ring = Ring::ALL.into_iter().find(|known| *known as u64 == ring)?;
                let number_of = number()?;
                let mut words = [0; 5];
                for word in &mut words {
                    *word = number()?;
                }
                let contents = Contents::from_words(words);
                StateUpdate::Record { rank, ring, number: number_of, contents }
            }
            4 => {
                let text = number()?;
                let texts = [Text::Reason, Text::Answer];
                let text = texts.into_iter().find(|known| *known as u64 == text)?;
                let length = usize::try_from(number()?).ok()?;
                let (content, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                StateUpdate::Text { rank, text, content: str::from_utf8(content).ok()?.to_owned() }
            }
            _ => return None,
        });
    }
    Some(updates)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_state::Reason;

    fn examples() -> Vec<StateUpdate> {
        let rank = Rank(7);
        let words = Field::ALL.map(|field| StateUpdate::Word { rank, field, value: 1 << 40 });
        let contents = Contents::from_words([1, 2, 3, 4, u64::MAX]);
        let records = Ring::ALL.map(|ring| StateUpdate::Record { rank, ring, number: 9, contents });
        let texts = [Text::Reason, Text::Answer].map(|text| StateUpdate::Text {
            rank,
            text,
            content: "müde".to_owned(),
        });
        let head = [StateUpdate::Request(3), StateUpdate::Reporter(4)];
        head.into_iter().chain(words).chain(records).chain(texts).collect()
    }

    #[test]
    fn only_a_node_itself_is_believed_of_its_ranks() {
        let shared_state = SharedState::of_nodes(Rank(0), 6, 2);
        let issued = |rank, value| StateUpdate::Word { rank, field: Field::Issued, value };
        let reason = |rank, words: &str| StateUpdate::Text {
            rank,
            text: Text::Reason,
            content: Reason::from(words).to_text(),
        };
        for from in [Rank(2), Rank(3)] {
            issued(Rank(2), 5 + u64::from(from.0)).store(&shared_state, from);
            reason(Rank(2), "enough").store(&shared_state, from);
        }
        for from in [Rank(4), Rank(1), Rank(0)] {
            issued(Rank(2), 99).store(&shared_state, from);
            reason(Rank(2), "no").store(&shared_state, from);
        }
        // This node's own shared state is nobody else's to write, whoever claims to speak for it.
        for from in [Rank(1), Rank(2)] {
            issued(Rank(1), 99).store(&shared_state, from);
        }
        assert_eq!(
            (shared_state.issued(Rank(2)), shared_state.reason(Rank(2)).words.as_str()),
            (8, "enough")
        );
        assert_eq!(shared_state.issued(Rank(1)), 0);
    }

    #[test]
    fn what_is_older_takes_nothing_away() {
        let shared_state = SharedState::of_nodes(Rank(0), 4, 2);
        let (rank, ring) = (Rank(2), Ring::Collectives);
        let contents = |number| Contents::from_words([number; 5]);
        let record =
            |number| StateUpdate::Record { rank, ring, number, contents: contents(number) };
        let word = |value| StateUpdate::Word { rank, field: Field::Collectives, value };
        // Both have one place.
        let (old, new) = (7, 7 + ring.length());
        for number in [new, old] {
            record(number).store(&shared_state, rank);
            word(number).store(&shared_state, rank);
        }
        assert_eq!(shared_state.collectives(rank), new);
        assert_eq!(shared_state.read_contents(rank, ring, new), Some(contents(new)));
        assert_eq!(shared_state.read_contents(rank, ring, old), None);
    }

    #[test]
    fn updates_come_back() {
        assert_eq!(decode(&encode(&examples())), Some(examples()));
        assert_eq!(decode(&[]), Some(Vec::new()));
    }

    #[test]
    fn nonsense_is_no_update() {
        let bytes = encode(&examples());
        let whole = |length: usize| decode(&bytes[..length]).is_some();
        assert!((0..=bytes.len()).filter(|length| whole(*length)).count() == examples().len() + 1);
        assert_eq!(decode(&[9; 40]), None);
        let mut strange =
            encode(&[StateUpdate::Word { rank: Rank(0), field: Field::Claim, value: 0 }]);
        strange[5] = 200;
        assert_eq!(decode(&strange), None);
    }
}
