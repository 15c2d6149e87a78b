//! What has changed on a node, in the order in which others must write it down, and as bytes.

use std::sync::atomic::Ordering;

use msccl_collective::Rank;

use super::super::Board;
use super::super::layout::{Field, Ring, Text};
use super::super::record::Contents;

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum News {
    /// A report was asked for.
    Request(u64),
    /// Somebody tells it: the word of the header.
    Teller(u64),
    /// A rank's word.
    Word { rank: Rank, field: Field, value: u64 },
    /// A rank's record.
    Record { rank: Rank, ring: Ring, number: u64, contents: Contents },
    /// A rank's text.
    Text { rank: Rank, text: Text, content: String },
}

impl News {
    /// Puts it on `board`, if `from` lives where it happened, unless what stands there is newer: words only grow, and
    /// the words of two voices of a node may come in any order.
    pub fn write_down(&self, board: &Board, from: Rank) {
        let of_sender = |rank: Rank| {
            board.nodes().together(from, rank) && !board.nodes().together(board.me(), rank)
        };
        match self {
            News::Request(request) => board.note_request(*request),
            News::Teller(word) => board.note_reporter(*word),
            News::Word { rank, field, value } if of_sender(*rank) => {
                board.word(field.of(*rank)).fetch_max(*value, Ordering::AcqRel);
            }
            News::Record { rank, ring, number, contents }
                if of_sender(*rank) && board.guard(*rank, *ring, *number) < *number =>
            {
                board.write_record(*rank, *ring, *number, *contents);
            }
            News::Text { rank, text, content } if of_sender(*rank) => {
                board.write_text(*rank, *text, content);
            }
            News::Word { .. } | News::Record { .. } | News::Text { .. } => {}
        }
    }
}

/// The bytes of `news`: each a kind and its numbers, little-endian.
pub(super) fn encode(news: &[News]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for item in news {
        match item {
            News::Request(request) => put(&mut bytes, 0, 0, &[*request]),
            News::Teller(word) => put(&mut bytes, 1, 0, &[*word]),
            News::Word { rank, field, value } => {
                put(&mut bytes, 2, rank.0, &[*field as u64, *value]);
            }
            News::Record { rank, ring, number, contents } => {
                put(&mut bytes, 3, rank.0, &[*ring as u64, *number]);
                contents.words().iter().for_each(|word| bytes.extend(word.to_le_bytes()));
            }
            News::Text { rank, text, content } => {
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
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<News>> {
    let mut news = Vec::new();
    while let Some((kind, rest)) = bytes.split_first() {
        bytes = rest;
        let rank = Rank(u32::from_le_bytes(take(&mut bytes)?));
        let mut number = || Some(u64::from_le_bytes(take(&mut bytes)?));
        news.push(match kind {
            0 => News::Request(number()?),
            1 => News::Teller(number()?),
            2 => {
                let field = number()?;
                let field = Field::ALL.into_iter().find(|known| *known as u64 == field)?;
                News::Word { rank, field, value: number()? }
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
                News::Record { rank, ring, number: number_of, contents }
            }
            4 => {
                let text = number()?;
                let texts = [Text::Reason, Text::Answer];
                let text = texts.into_iter().find(|known| *known as u64 == text)?;
                let length = usize::try_from(number()?).ok()?;
                let (content, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                News::Text { rank, text, content: str::from_utf8(content).ok()?.to_owned() }
            }
            _ => return None,
        });
    }
    Some(news)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Vec<News> {
        let rank = Rank(7);
        let words = Field::ALL.map(|field| News::Word { rank, field, value: 1 << 40 });
        let contents = Contents::from_words([1, 2, 3, 4, u64::MAX]);
        let records = Ring::ALL.map(|ring| News::Record { rank, ring, number: 9, contents });
        let texts = [Text::Reason, Text::Answer].map(|text| News::Text {
            rank,
            text,
            content: "müde".to_owned(),
        });
        let head = [News::Request(3), News::Teller(4)];
        head.into_iter().chain(words).chain(records).chain(texts).collect()
    }

    #[test]
    fn only_a_node_itself_is_believed_of_its_ranks() {
        let board = Board::of_nodes(Rank(0), 6, 2);
        let issued = |rank, value| News::Word { rank, field: Field::Issued, value };
        let reason = |rank, content: &str| News::Text {
            rank,
            text: Text::Reason,
            content: content.to_owned(),
        };
        for from in [Rank(2), Rank(3)] {
            issued(Rank(2), 5 + u64::from(from.0)).write_down(&board, from);
            reason(Rank(2), "enough").write_down(&board, from);
        }
        for from in [Rank(4), Rank(1), Rank(0)] {
            issued(Rank(2), 99).write_down(&board, from);
            reason(Rank(2), "no").write_down(&board, from);
        }
        // This node's own board is nobody else's to write, whoever claims to speak for it.
        for from in [Rank(1), Rank(2)] {
            issued(Rank(1), 99).write_down(&board, from);
        }
        assert_eq!((board.issued(Rank(2)), board.reason(Rank(2)).as_str()), (8, "enough"));
        assert_eq!(board.issued(Rank(1)), 0);
    }

    #[test]
    fn what_is_older_takes_nothing_away() {
        let board = Board::of_nodes(Rank(0), 4, 2);
        let (rank, ring) = (Rank(2), Ring::Collectives);
        let contents = |number| Contents::from_words([number; 5]);
        let record = |number| News::Record { rank, ring, number, contents: contents(number) };
        let word = |value| News::Word { rank, field: Field::Collectives, value };
        // Both have one place.
        let (old, new) = (7, 7 + ring.length());
        for number in [new, old] {
            record(number).write_down(&board, rank);
            word(number).write_down(&board, rank);
        }
        assert_eq!(board.collectives(rank), new);
        assert_eq!(board.read_contents(rank, ring, new), Some(contents(new)));
        assert_eq!(board.read_contents(rank, ring, old), None);
    }

    #[test]
    fn news_come_back() {
        assert_eq!(decode(&encode(&some())), Some(some()));
        assert_eq!(decode(&[]), Some(Vec::new()));
    }

    #[test]
    fn nonsense_is_no_news() {
        let bytes = encode(&some());
        let whole = |length: usize| decode(&bytes[..length]).is_some();
        assert!((0..=bytes.len()).filter(|length| whole(*length)).count() == some().len() + 1);
        assert_eq!(decode(&[9; 40]), None);
        let mut strange = encode(&[News::Word { rank: Rank(0), field: Field::Claim, value: 0 }]);
        strange[5] = 200;
        assert_eq!(decode(&strange), None);
    }
}
