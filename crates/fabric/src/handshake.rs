//! How two ends of a connection prove to each other that they know the same key, without saying it.
//!
//! | from | message | bytes |
//! |---|---|---|
//! | dialler | opening: magic, version, kind, from, to, channel, nonce | 40 |
//! | listener | challenge: nonce, code | 48 |
//! | dialler | proof: code | 32 |
//!
//! Both codes are HMACs over the opening and the listener's nonce, each under a label of its own;
//! the proof is also over what the dialler sends with it. So a code is of use in one direction, for
//! one kind of connection, between two ranks, once: nothing that was overheard can be said again.
//! The listener proves itself first, and a dialler reveals nothing to an impostor. Until the proof
//! holds a connection costs its listener 40 bytes.
//!
//! This file does no input or output; [`crate::acceptor`] and those who dial do.

use msccl_collective::Rank;

use crate::error::Error;
use crate::identity::random_u128;
use crate::key::{Key, MAC_BYTES, digest};
use crate::wire::{Malformed, Reader, WIRE_VERSION, Writer};

const MAGIC: u64 = u64::from_le_bytes(*b"msccl-hi");

/// Length of an opening.
pub const OPENING_BYTES: usize = 8 + 2 + 1 + 1 + 4 + 4 + 4 + 16;

/// Length of a challenge.
pub const CHALLENGE_BYTES: usize = 16 + MAC_BYTES;

/// Length of a proof.
pub const PROOF_BYTES: usize = MAC_BYTES;

const LISTENER: &str = "listener";
const DIALLER: &str = "dialler";
const SESSION: &str = "session";

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A rank asks a root for the others.
    Root,
    /// The root of a further id speaks for its ranks to the first one's root.
    Relay,
    /// Messages between two ranks.
    Peer,
    /// A file descriptor for a rank.
    Descriptor,
    /// A rail between two proxies.
    Rail,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Root, Self::Relay, Self::Peer, Self::Descriptor, Self::Rail];
}

/// Who connects to whom, and what for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Purpose {
    /// What for.
    pub kind: Kind,
    /// Who dials.
    pub from: Rank,
    /// Who listens; rank 0 for a root.
    pub to: Rank,
    /// Which of several connections between the two.
    pub channel: u32,
}

/// The dialling end.
#[derive(Debug)]
pub struct Dialler {
    key: Key,
    opening: [u8; OPENING_BYTES],
}

/// The listening end, after the opening.
#[derive(Debug)]
pub struct Challenger {
    key: Key,
    purpose: Purpose,
    opening: [u8; OPENING_BYTES],
    nonce: [u8; 16],
}

/// What both ends of one connection share, and nobody else.
#[derive(Clone, Debug)]
pub(crate) struct Session(Key);

impl Dialler {
    /// Begins a connection for `purpose` to a listener that knows `key`.
    pub fn new(key: &Key, purpose: Purpose) -> Result<Self, Error> {
        let Purpose { kind, from, to, channel } = purpose;
        let mut writer = Writer::default();
        writer.u64(MAGIC);
        writer.u16(WIRE_VERSION);
        writer.u8(kind as u8);
        writer.u8(0);
        writer.u32(from.0);
        writer.u32(to.0);
        writer.u32(channel);
        writer.u128(random_u128()?);
        let mut opening = [0; OPENING_BYTES];
        opening.copy_from_slice(&writer.0);
        Ok(Self { key: key.clone(), opening })
    }

    /// What to say first.
    pub fn opening(&self) -> &[u8; OPENING_BYTES] {
        &self.opening
    }

    /// The proof to answer `challenge` with, for which `payload` is sent too; `None` if the
    /// listener does not know the key.
    pub fn prove(
        &self,
        challenge: &[u8; CHALLENGE_BYTES],
        payload: &[u8],
    ) -> Option<[u8; PROOF_BYTES]> {
        let (nonce, code) = challenge.split_at(16);
        let known = self.key.verifies(LISTENER, &[&self.opening, nonce], code);
        known.then(|| self.key.mac(DIALLER, &[&self.opening, nonce, payload]))
    }

    /// What is shared with the listener that sent `challenge`.
    pub(crate) fn session(&self, challenge: &[u8; CHALLENGE_BYTES]) -> Session {
        Session(self.key.derive(SESSION, &[&self.opening, &challenge[..16]]))
    }
}

/// Whether `bytes` can be the beginning of an opening of one of `kinds` to `to`; the text says why
/// not. A wrong byte is found at once, before the rest has come.
pub(crate) fn check_beginning(bytes: &[u8]) -> Result<(), &'static str> {
    let magic = MAGIC.to_le_bytes();
    let compared = bytes.len().min(magic.len());
    if bytes[..compared] != magic[..compared] {
        return Err("it speaks another protocol");
    }
    match bytes.get(8..10) {
        Some(version) if version != WIRE_VERSION.to_le_bytes() => {
            Err("it speaks another version of the protocol")
        }
        Some(_) | None => Ok(()),
    }
}

impl Challenger {
    /// Answers `opening`, which must be of one of `kinds` and be meant for `me`. Also gives what to
    /// say. The text says what is wrong with it.
    pub fn new(
        key: &Key,
        kinds: &[Kind],
        me: Rank,
        opening: &[u8; OPENING_BYTES],
    ) -> Result<(Self, [u8; CHALLENGE_BYTES]), &'static str> {
        check_beginning(opening)?;
        let purpose = read(opening).map_err(|Malformed(why)| why)?;
        if !kinds.contains(&purpose.kind) {
            return Err("its connection is of another kind than is accepted here");
        }
        if purpose.to != me {
            return Err("it looks for another rank");
        }
        let nonce = random_u128().map_err(|_| "there are no random numbers")?.to_le_bytes();
        let mut challenge = [0; CHALLENGE_BYTES];
        challenge[..16].copy_from_slice(&nonce);
        challenge[16..].copy_from_slice(&key.mac(LISTENER, &[opening, &nonce]));
        Ok((Self { key: key.clone(), purpose, opening: *opening, nonce }, challenge))
    }

    /// What the dialler says that it wants; true if [`Challenger::accepts`] says so.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// Whether `proof`, with which `payload` came, shows that the dialler knows the key.
    pub fn accepts(&self, proof: &[u8], payload: &[u8]) -> bool {
        self.key.verifies(DIALLER, &[&self.opening, &self.nonce, payload], proof)
    }

    /// What is shared with the dialler.
    pub(crate) fn session(&self) -> Session {
        Session(self.key.derive(SESSION, &[&self.opening, &self.nonce]))
    }
}

fn read(opening: &[u8; OPENING_BYTES]) -> Result<Purpose, Malformed> {
    let mut reader = Reader(&opening[10..]);
    let (kind, zero) = (reader.u8()?, reader.u8()?);
    let known = Kind::ALL.into_iter().find(|known| *known as u8 == kind);
    let kind =
        known.filter(|_| zero == 0).ok_or(Malformed("its opening message makes no sense"))?;
    let (from, to) = (Rank(reader.u32()?), Rank(reader.u32()?));
    Ok(Purpose { kind, from, to, channel: reader.u32()? })
}

/// Which end says something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Dialler,
    Listener,
}

impl Session {
    /// The code behind message `number` that `side` sends, of which only the digest is needed.
    pub(crate) fn seal(
        &self,
        side: Side,
        number: u64,
        digest: &[u8; MAC_BYTES],
    ) -> [u8; MAC_BYTES] {
        self.0.mac(label(side), &[&number.to_le_bytes(), digest])
    }

    /// Whether `code` is that of message `number` with `body`, sent by `side`.
    pub(crate) fn opens(&self, side: Side, number: u64, body: &[u8], code: &[u8]) -> bool {
        self.0.verifies(label(side), &[&number.to_le_bytes(), &digest(body)], code)
    }

    /// Hides a secret of 16 bytes from all but the other end, or shows it there again. Once a
    /// session.
    pub(crate) fn mask(&self, secret: u128) -> u128 {
        let pad = self.0.mac("mask", &[]);
        let (pad, _) = pad.split_at(16);
        secret ^ pad.iter().rev().fold(0, |pad, byte| pad << 8 | u128::from(*byte))
    }
}

fn label(side: Side) -> &'static str {
    match side {
        Side::Dialler => "message of the dialler",
        Side::Listener => "message of the listener",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::from_secret(b"test")
    }

    const PURPOSE: Purpose = Purpose { kind: Kind::Peer, from: Rank(3), to: Rank(1), channel: 9 };

    fn listen(
        key: &Key,
        opening: &[u8; OPENING_BYTES],
    ) -> Result<(Challenger, [u8; CHALLENGE_BYTES]), &'static str> {
        Challenger::new(key, &[Kind::Peer, Kind::Rail], Rank(1), opening)
    }

    #[test]
    fn who_knows_the_key_is_let_in_and_shares_a_session() {
        let dialler = Dialler::new(&key(), PURPOSE).unwrap();
        let (challenger, challenge) = listen(&key(), dialler.opening()).unwrap();
        let proof = dialler.prove(&challenge, b"load").unwrap();
        assert!(challenger.accepts(&proof, b"load") && !challenger.accepts(&proof, b"lead"));
        assert_eq!(challenger.purpose(), PURPOSE);
        let (here, there) = (dialler.session(&challenge), challenger.session());
        let code = here.seal(Side::Dialler, 0, &digest(b"body"));
        assert!(there.opens(Side::Dialler, 0, b"body", &code));
        for (side, number, body) in
            [(Side::Listener, 0, "body"), (Side::Dialler, 1, "body"), (Side::Dialler, 0, "bodx")]
        {
            assert!(!there.opens(side, number, body.as_bytes(), &code));
        }
        assert_eq!(there.mask(here.mask(77)), 77);
        assert_ne!(here.mask(77), 77);
    }

    #[test]
    fn an_end_without_the_key_is_noticed_by_the_other() {
        let guess = Key::from_secret(b"guess");
        let dialler = Dialler::new(&key(), PURPOSE).unwrap();
        let (_, challenge) = listen(&guess, dialler.opening()).unwrap();
        assert_eq!(dialler.prove(&challenge, b""), None);
        let (challenger, _) = listen(&key(), dialler.opening()).unwrap();
        let forged = guess.mac(DIALLER, &[dialler.opening(), &challenger.nonce, b""]);
        assert!(!challenger.accepts(&forged, b""));
    }

    #[test]
    fn what_was_overheard_is_of_no_use() {
        let dialler = Dialler::new(&key(), PURPOSE).unwrap();
        let (first, challenge) = listen(&key(), dialler.opening()).unwrap();
        let proof = dialler.prove(&challenge, b"").unwrap();
        assert!(first.accepts(&proof, b""));
        // The same opening and proof again, and the listener's own code turned round.
        let (again, _) = listen(&key(), dialler.opening()).unwrap();
        assert!(!again.accepts(&proof, b""));
        assert!(!first.accepts(&challenge[16..], b""));
        // An old challenge does not fit a new opening.
        assert_eq!(Dialler::new(&key(), PURPOSE).unwrap().prove(&challenge, b""), None);
    }

    #[test]
    fn every_field_of_an_opening_is_bound() {
        let dialler = Dialler::new(&key(), PURPOSE).unwrap();
        for position in 0..OPENING_BYTES {
            let mut opening = *dialler.opening();
            opening[position] ^= 1;
            // Whoever is not refused at once gets a challenge that the dialler does not take.
            if let Ok((_, challenge)) = listen(&key(), &opening) {
                assert_eq!(dialler.prove(&challenge, b""), None, "byte {position}");
            }
        }
    }

    #[test]
    fn wrong_openings_are_refused_with_the_reason() {
        let check = |position: usize, value: u8, why| {
            let mut opening = *Dialler::new(&key(), PURPOSE).unwrap().opening();
            opening[position] = value;
            assert_eq!(listen(&key(), &opening).unwrap_err(), why);
        };
        check(0, b'G', "it speaks another protocol");
        check(8, 99, "it speaks another version of the protocol");
        check(10, 77, "its opening message makes no sense");
        check(10, Kind::Root as u8, "its connection is of another kind than is accepted here");
        check(16, 7, "it looks for another rank");
        assert_eq!(check_beginning(b"GE"), Err("it speaks another protocol"));
        assert_eq!(check_beginning(b"msccl"), Ok(()));
    }
}
