//! What a rank and the root of its id say to one another: one hello, one answer.

use msccl_collective::Rank;

use crate::error::{Error, ErrorKind};
use crate::identity::Peer;
use crate::root::Head;
use crate::table;
use crate::unique_id::WIRE_VERSION;
use crate::wire::{Malformed, Reader, Writer};

/// Opens every connection of this protocol, before a token of 16 bytes and a length of 4.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"msccl-hi");

/// The bytes before the body of a first message.
pub(crate) const PREFACE_BYTES: usize = 8 + 16 + 4;

/// The longest hello: a rank's facts and description, not its data.
const HELLO_LIMIT_BYTES: usize = 16 << 20;

/// A body behind the preface that tells friends from strangers.
pub(crate) fn with_preface(token: u128, body: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.u64(MAGIC);
    writer.u128(token);
    writer.u32(body.len() as u32);
    writer.0.extend(body);
    writer.0
}

/// The body of a first message at the front of `inbox` and the length of both, once it is complete.
/// A stranger is told by its first wrong byte.
pub(crate) fn first_message(
    inbox: &[u8],
    token: u128,
) -> Result<Option<(&[u8], usize)>, Malformed> {
    let mut expected = Writer::default();
    expected.u64(MAGIC);
    expected.u128(token);
    let compared = inbox.len().min(expected.0.len());
    if inbox[..compared] != expected.0[..compared] {
        let foreign = inbox[..compared.min(8)] != expected.0[..compared.min(8)];
        let why = if foreign { "it speaks another protocol" } else { "it looks for another group" };
        return Err(Malformed(why));
    }
    let Some(length) = inbox.get(PREFACE_BYTES - 4..PREFACE_BYTES) else { return Ok(None) };
    let length = Reader(length).u32()? as usize;
    if length > HELLO_LIMIT_BYTES {
        return Err(Malformed("its first message is too long"));
    }
    let end = PREFACE_BYTES + length;
    Ok(inbox.get(PREFACE_BYTES..end).map(|body| (body, end)))
}

/// A rank introduces itself to the root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hello {
    pub(crate) ranks: u32,
    /// Random for each call of join, so that a rank that comes again is not taken for two.
    pub(crate) attempt: u64,
    /// Where the root that judges is, if it is not the one that is talked to.
    pub(crate) head: Option<Head>,
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) peer: Peer,
}

impl Hello {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let Self { ranks, attempt, head, facts, peer } = self;
        let mut writer = Writer::default();
        writer.u16(WIRE_VERSION);
        writer.u32(*ranks);
        writer.u64(*attempt);
        writer.u8(u8::from(head.is_some()));
        if let Some(Head { address, token }) = *head {
            writer.address(address);
            writer.u128(token);
        }
        writer.u32(facts.len() as u32);
        for (name, value) in facts {
            writer.text(name);
            writer.text(value);
        }
        peer.write(&mut writer);
        writer.0
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        if reader.u16()? != WIRE_VERSION {
            return Err(Malformed("it speaks another version of the protocol"));
        }
        let hello = Self {
            ranks: reader.u32()?,
            attempt: reader.u64()?,
            head: match reader.u8()? {
                0 => None,
                _ => Some(Head { address: reader.address()?, token: reader.u128()? }),
            },
            facts: reader.list(|reader| Ok((reader.text()?, reader.text()?)))?,
            peer: Peer::read(&mut reader)?,
        };
        reader.end()?;
        match hello.peer.rank.0 < hello.ranks {
            true => Ok(hello),
            false => Err(Malformed("its rank is not below the number of ranks")),
        }
    }
}

/// The root's last word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// All came: a token of their own and everyone's identity, by rank.
    Table { world: u128, peers: Vec<Peer> },
    /// They can't form a group.
    Refusal(Error),
}

impl Answer {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Table { world, peers } => {
                writer.u8(0);
                writer.u128(*world);
                table::write(peers, &mut writer);
            }
            Self::Refusal(error) => {
                writer.u8(1);
                write_error(error, &mut writer);
            }
        }
        writer.0
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        let answer = match reader.u8()? {
            0 => Self::Table { world: reader.u128()?, peers: table::read(&mut reader)? },
            1 => Self::Refusal(read_error(&mut reader)?),
            _ => return Err(Malformed("the answer is of no known kind")),
        };
        reader.end().map(|()| answer)
    }
}

pub(crate) fn write_error(error: &Error, writer: &mut Writer) {
    writer.u8(match error.kind() {
        ErrorKind::Aborted => 0,
        ErrorKind::TimedOut => 1,
        ErrorKind::RankLost => 2,
        ErrorKind::Mismatch => 3,
        ErrorKind::InvalidArgument => 4,
        ErrorKind::Network => 5,
        ErrorKind::System => 6,
    });
    writer.text(error.text());
    writer.u32(error.ranks().len() as u32);
    error.ranks().iter().for_each(|rank| writer.u32(rank.0));
}

pub(crate) fn read_error(reader: &mut Reader<'_>) -> Result<Error, Malformed> {
    let kind = match reader.u8()? {
        0 => ErrorKind::Aborted,
        1 => ErrorKind::TimedOut,
        2 => ErrorKind::RankLost,
        3 => ErrorKind::Mismatch,
        4 => ErrorKind::InvalidArgument,
        5 => ErrorKind::Network,
        6 => ErrorKind::System,
        _ => return Err(Malformed("an error is of no known kind")),
    };
    let text = reader.text()?;
    let ranks = reader.list(|reader| reader.u32().map(Rank))?;
    Ok(Error::new(kind, text).of_ranks(ranks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity;

    fn hello(rank: u32, ranks: u32) -> Hello {
        let address = "10.0.0.1:9".parse().unwrap();
        let peer = identity::here(Rank(rank), address, None, b"gpu").unwrap();
        let facts = vec![("version".to_owned(), "1".to_owned())];
        Hello { ranks, attempt: 7, head: None, facts, peer }
    }

    #[test]
    fn hello_and_answers_survive_the_wire() {
        assert_eq!(Hello::from_bytes(&hello(1, 2).to_bytes()), Ok(hello(1, 2)));
        let head = Some(Head { address: "10.0.0.1:9".parse().unwrap(), token: 3 });
        let elsewhere = Hello { head, ..hello(1, 2) };
        assert_eq!(Hello::from_bytes(&elsewhere.to_bytes()), Ok(elsewhere));
        assert!(Hello::from_bytes(&hello(2, 2).to_bytes()).is_err());
        let refusal = Error::mismatch("no").of_ranks([Rank(4), Rank(1)]);
        let peers = vec![hello(0, 2).peer, hello(1, 2).peer];
        for answer in [Answer::Refusal(refusal), Answer::Table { world: 5, peers }] {
            assert_eq!(Answer::from_bytes(&answer.to_bytes()), Ok(answer));
        }
    }

    #[test]
    fn first_messages_come_in_pieces_and_from_strangers() {
        let whole = with_preface(9, b"body");
        for length in 0..whole.len() {
            assert_eq!(first_message(&whole[..length], 9), Ok(None));
        }
        assert_eq!(first_message(&whole, 9), Ok(Some((&b"body"[..], whole.len()))));
        let check = |inbox: &[u8], why| assert_eq!(first_message(inbox, 9), Err(Malformed(why)));
        check(b"GET / HTTP/1.1", "it speaks another protocol");
        check(&with_preface(8, b""), "it looks for another group");
        check(&[&with_preface(9, b"")[..24], &[255; 4]].concat(), "its first message is too long");
    }
}
