//! Where peers knock, and how they are told from strangers.
//!
//! Whoever connects says a preface of 40 bytes: a word that names the protocol, the token of the rank that
//! listens, who it is, and which of its rails this shall be. Tokens are random and known to the ranks of
//! the group alone. Whoever says something else, or nothing for ten seconds, is closed and changes nothing.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use msccl_collective::Rank;

use super::socket;
use crate::log::{Event, Log};

const MAGIC: u64 = u64::from_le_bytes(*b"msccl-p1");
pub(super) const PREFACE_BYTES: usize = 40;
pub(super) const REPLY_BYTES: usize = 16;

/// How long a stranger may take to introduce itself.
const MANNERS: Duration = Duration::from_secs(10);

/// Strangers at a time; the oldest must go when there are more.
const STRANGERS: usize = 1024;

/// What a rank says when it connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Preface {
    /// The token of the rank that listens.
    pub(crate) token: u128,
    /// Who connects.
    pub(crate) from: Rank,
    /// Which rail between the two.
    pub(crate) rail: u32,
}

impl Preface {
    pub(super) fn to_bytes(self) -> [u8; PREFACE_BYTES] {
        let Self { token, from, rail } = self;
        let mut bytes = [0; PREFACE_BYTES];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..24].copy_from_slice(&token.to_le_bytes());
        bytes[24..28].copy_from_slice(&from.0.to_le_bytes());
        bytes[28..32].copy_from_slice(&rail.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let (token, rest) = rest.split_first_chunk()?;
        let (from, rest) = rest.split_first_chunk()?;
        let (rail, _) = rest.split_first_chunk()?;
        let (token, from) = (u128::from_le_bytes(*token), Rank(u32::from_le_bytes(*from)));
        let rail = u32::from_le_bytes(*rail);
        (u64::from_le_bytes(*magic) == MAGIC).then_some(Self { token, from, rail })
    }
}

/// A peer that has introduced itself.
pub(crate) struct Knock {
    pub(crate) stream: TcpStream,
    pub(crate) from: Rank,
    pub(crate) rail: u32,
}

/// Takes connections of peers.
pub(crate) struct Listener {
    listener: TcpListener,
    token: u128,
    silence: Duration,
    strangers: Vec<Stranger>,
    /// When it could not accept last; it looks away for a moment then.
    trouble: Option<Instant>,
}

struct Stranger {
    stream: TcpStream,
    address: SocketAddr,
    since: Instant,
    said: Vec<u8>,
}

impl Listener {
    /// Listens at `address`; `token` is what peers must know.
    pub(crate) fn open(address: SocketAddr, token: u128, silence: Duration) -> io::Result<Self> {
        let listener = socket::listen(address)?;
        Ok(Self { listener, token, silence, strangers: Vec::new(), trouble: None })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts who waits, and answers the peers that have introduced themselves.
    pub(crate) fn listen(&mut self, log: &dyn Log) -> Vec<Knock> {
        self.accept(log);
        let surplus = self.strangers.len().saturating_sub(STRANGERS);
        let mut knocks = Vec::new();
        for (index, mut stranger) in std::mem::take(&mut self.strangers).into_iter().enumerate() {
            let said = match index < surplus {
                true => Err("too many wait to introduce themselves".to_owned()),
                false => stranger.introduction(self.token),
            };
            match said {
                Ok(None) => self.strangers.push(stranger),
                Ok(Some(Preface { token: _, from, rail })) => {
                    knocks.push(Knock { stream: stranger.stream, from, rail });
                }
                Err(why) => {
                    log.event(&Event::StrayConnection { from: Some(stranger.address), why });
                }
            }
        }
        knocks
    }

    fn accept(&mut self, log: &dyn Log) {
        let pause = Duration::from_millis(100);
        if self.trouble.is_some_and(|trouble| trouble.elapsed() < pause) {
            return;
        }
        self.trouble = None;
        loop {
            match socket::accept(&self.listener, self.silence) {
                Ok(Some((stream, address))) => {
                    let since = Instant::now();
                    self.strangers.push(Stranger { stream, address, since, said: Vec::new() });
                }
                Ok(None) => return,
                Err(error) => {
                    log.event(&Event::Trouble(format!(
                        "connections of peers cannot be accepted: {error}"
                    )));
                    self.trouble = Some(Instant::now());
                    return;
                }
            }
        }
    }

    /// What to poll for input; nothing while accepting is in trouble.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let own = self.trouble.is_none().then(|| self.listener.as_fd());
        own.into_iter().chain(self.strangers.iter().map(|stranger| stranger.stream.as_fd()))
    }
}

impl Stranger {
    fn introduction(&mut self, token: u128) -> Result<Option<Preface>, String> {
        let said = socket::read_up_to(&self.stream, &mut self.said, PREFACE_BYTES);
        if !said.map_err(|error| error.to_string())? {
            return match self.since.elapsed() < MANNERS {
                true => Ok(None),
                false => Err("it said nothing".to_owned()),
            };
        }
        let preface = Preface::from_bytes(&self.said).ok_or("it speaks something else")?;
        match preface.token == token {
            true => Ok(Some(preface)),
            false => Err("it looks for another group".to_owned()),
        }
    }
}
