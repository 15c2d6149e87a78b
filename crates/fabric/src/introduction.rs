//! What a rank and the root of its id say to one another: one introduction, one answer.
//!
//! Both come behind the [`crate::handshake`] and are sealed with what its two ends share, so that
//! nobody on the way can change them. They are not hidden, apart from the token of another id.

use std::fmt;
use std::net::SocketAddr;

use msccl_collective::Rank;

use crate::error::{Error, ErrorKind};
use crate::handshake::{Session, Side};
use crate::identity::Peer;
use crate::key::{MAC_BYTES, digest};
use crate::table;
use crate::wire::{Malformed, Reader, WIRE_VERSION, Writer};

/// The longest introduction: a rank's facts and description, not its data.
const INTRODUCTION_LIMIT_BYTES: usize = 1 << 20;

/// The longest answer of a root: the identities of all ranks.
pub(crate) const ANSWER_LIMIT_BYTES: usize = 1 << 30;

/// Where the root of the first id listens, and its token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) address: SocketAddr,
    pub(crate) token: u128,
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token is a secret.
        write!(f, "Head({})", self.address)
    }
}

/// `body`, message `number` of `side` in `session`, behind its length and in front of its code.
pub(crate) fn sealed(session: &Session, side: Side, number: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_le_bytes().to_vec();
    bytes.extend(body);
    bytes.extend(session.seal(side, number, &digest(body)));
    bytes
}

/// The body of message `number` of `side` at the front of `inbox` and the length of all of it, once
/// it is complete.
pub(crate) fn opened<'a>(
    session: &Session,
    side: Side,
    number: u64,
    inbox: &'a [u8],
    limit: usize,
) -> Result<Option<(&'a [u8], usize)>, Malformed> {
    let Some(length) = inbox.first_chunk() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > limit {
        return Err(Malformed("a message is too long"));
    }
    let end = 4 + length + MAC_BYTES;
    let Some(message) = inbox.get(4..end) else { return Ok(None) };
    let (body, code) = message.split_at(length);
    match session.opens(side, number, body, code) {
        true => Ok(Some((body, end))),
        false => Err(Malformed("a message was changed on its way")),
    }
}

/// The first introduction of a rank, or the next one of a relay.
pub(crate) fn next_introduction(
    session: &Session,
    number: u64,
    inbox: &[u8],
) -> Result<Option<(Introduction, usize)>, Malformed> {
    let message = opened(session, Side::Dialler, number, inbox, INTRODUCTION_LIMIT_BYTES)?;
    message.map(|(body, length)| Ok((Introduction::from_bytes(body, session)?, length))).transpose()
}

/// A rank introduces itself to the root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Introduction {
    pub(crate) ranks: u32,
    /// Random for each call of join, so that a rank that comes again is not taken for two.
    pub(crate) attempt: u64,
    /// Where the root that judges is, if it is not the one that is talked to.
    pub(crate) head: Option<Head>,
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) peer: Peer,
}

impl Introduction {
    pub(crate) fn to_bytes(&self, session: &Session) -> Vec<u8> {
        let Self { ranks, attempt, head, facts, peer } = self;
        let mut writer = Writer::default();
        writer.u16(WIRE_VERSION);
        writer.u32(*ranks);
        writer.u64(*attempt);
        writer.u8(u8::from(head.is_some()));
        if let Some(Head { address, token }) = *head {
            writer.address(address);
            writer.u128(session.mask(token));
        }
        writer.u32(facts.len() as u32);
        for (name, value) in facts {
            writer.text(name);
            writer.text(value);
        }
        peer.write(&mut writer);
        writer.0
    }

    pub(crate) fn from_bytes(bytes: &[u8], session: &Session) -> Result<Self, Malformed> {
        let mut reader = Reader(bytes);
        if reader.u16()? != WIRE_VERSION {
            return Err(Malformed("it speaks another version of the protocol"));
        }
        let introduction = Self {
            ranks: reader.u32()?,
            attempt: reader.u64()?,
            head: match reader.u8()? {
                0 => None,
                _ => Some(Head { address: reader.address()?, token: session.mask(reader.u128()?) }),
            },
            facts: reader.list(|reader| Ok((reader.text()?, reader.text()?)))?,
            peer: Peer::read(&mut reader)?,
        };
        reader.end()?;
        match introduction.peer.rank.0 < introduction.ranks {
            true => Ok(introduction),
            false => Err(Malformed("its rank is not below the number of ranks")),
        }
    }
}

/// The root's last word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// All came: what their own key is derived with, which is no secret, and everyone's identity,
    /// by rank.
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
    use crate::handshake::{Challenger, Dialler, Kind, Purpose};
    use crate::identity;
    use crate::key::Key;

    fn introduction(rank: u32, ranks: u32) -> Introduction {
        let address = "10.0.0.1:9".parse().unwrap();
        let peer = identity::here(Rank(rank), address, None, b"gpu").unwrap();
        let facts = vec![("version".to_owned(), "1".to_owned())];
        Introduction { ranks, attempt: 7, head: None, facts, peer }
    }

    /// Both ends of a connection.
    fn session() -> Session {
        let key = Key::from_secret(b"test");
        let purpose = Purpose { kind: Kind::Root, from: Rank(1), to: Rank(0), channel: 0 };
        let dialler = Dialler::new(&key, purpose).unwrap();
        Challenger::new(&key, &[Kind::Root], Rank(0), dialler.opening()).unwrap().0.session()
    }

    #[test]
    fn introduction_and_answers_survive_the_wire() {
        let session = session();
        let again = |introduction: &Introduction| {
            Introduction::from_bytes(&introduction.to_bytes(&session), &session)
        };
        assert_eq!(again(&introduction(1, 2)), Ok(introduction(1, 2)));
        let head = Some(Head { address: "10.0.0.1:9".parse().unwrap(), token: 3 << 100 | 7 });
        let elsewhere = Introduction { head, ..introduction(1, 2) };
        assert_eq!(again(&elsewhere), Ok(elsewhere.clone()));
        let plain = (3_u128 << 100 | 7).to_le_bytes();
        assert!(!elsewhere.to_bytes(&session).windows(16).any(|bytes| bytes == plain));
        assert!(again(&introduction(2, 2)).is_err());
        let refusal = Error::mismatch("no").of_ranks([Rank(4), Rank(1)]);
        let peers = vec![introduction(0, 2).peer, introduction(1, 2).peer];
        for answer in [Answer::Refusal(refusal), Answer::Table { world: 5, peers }] {
            assert_eq!(Answer::from_bytes(&answer.to_bytes()), Ok(answer));
        }
    }

    #[test]
    fn messages_come_in_pieces_and_unchanged() {
        let session = session();
        let open = |inbox: &[u8], number| {
            opened(&session, Side::Dialler, number, inbox, 100)
                .map(|found| found.map(|(body, length)| (body.to_vec(), length)))
        };
        let whole = sealed(&session, Side::Dialler, 4, b"body");
        for length in 0..whole.len() {
            assert_eq!(open(&whole[..length], 4), Ok(None));
        }
        let more = [&whole[..], b"next"].concat();
        assert_eq!(open(&more, 4), Ok(Some((b"body".to_vec(), whole.len()))));
        let changed = Err(Malformed("a message was changed on its way"));
        assert_eq!(open(&whole, 5), changed);
        assert_eq!(open(&sealed(&session, Side::Listener, 4, b"body"), 4), changed);
        assert_eq!(open(&[255; 4], 4), Err(Malformed("a message is too long")));
    }
}
