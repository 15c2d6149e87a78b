//! How connections outlast a network that is away for a while.
//!
//! What was not acknowledged TCP sends again, after times that double: after a minute without a
//! network the next attempt may be a minute away. So a connection that is to bear so many seconds
//! must try more often. Linux 6.15 has an option for that ([`Retransmission::Paced`]). Where it is
//! missing, the limit for what is not acknowledged does it ([`Retransmission::Watched`]): the
//! kernel sends again no later than when that limit is over, and gives the connection up only if it
//! is over *then*. So while something is being sent again, the limit is kept [`LEAD`] ahead of the
//! clock until the real one is over. Whoever does that must not be held up for as long as that, or
//! the connection ends early.
//!
//! **When it ends.** A connection bears every outage that is shorter than its limit, and ends at
//! most [`IDLE_MAX`] and a few seconds after one that is longer: whoever has sent nothing asks for
//! a sign of life only after some quiet.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use options::Unacknowledged;

mod options;

/// The longest time between two attempts to send again.
const PACE: Duration = Duration::from_secs(2);

/// How far the limit is ahead of the clock, where the owner keeps it there; and how often that is
/// looked after.
const LEAD: Duration = Duration::from_secs(6);
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Quiet after which the peer is asked for a sign of life, at most.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Questions without an answer that the kernel can count.
const QUESTIONS_MAX: u64 = 127;

/// What makes a connection try often enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retransmission {
    /// The kernel.
    Paced,
    /// The owner of the connection.
    Watched,
}

/// The endurance of one connection.
#[derive(Debug)]
pub struct Endurance {
    limit: Duration,
    by: Retransmission,
    looked: Option<Instant>,
    /// Since when something has been sent again.
    stalled: Option<Instant>,
}

impl Endurance {
    /// Lets `stream` outlast whatever is shorter than `limit`.
    ///
    /// # Errors
    ///
    /// The connection is over.
    pub fn new(stream: &TcpStream, limit: Duration) -> io::Result<Self> {
        let by = match options::set_longest_pause(stream, PACE) {
            Ok(()) => Retransmission::Paced,
            // The kernel is older, or there is no such option here.
            Err(_) => Retransmission::Watched,
        };
        Self::by(stream, limit, by)
    }

    /// The same, by the means that is named.
    ///
    /// # Errors
    ///
    /// The connection is over.
    pub fn by(stream: &TcpStream, limit: Duration, by: Retransmission) -> io::Result<Self> {
        let idle = (limit / 8).clamp(Duration::from_secs(1), IDLE_MAX);
        // The kernel counts whole seconds.
        let every_s = (idle.as_secs() / 2).max(1);
        let questions = (limit.as_secs() / every_s + 1).min(QUESTIONS_MAX);
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, idle)?;
        sockopt::set_tcp_keepintvl(stream, Duration::from_secs(every_s))?;
        sockopt::set_tcp_keepcnt(stream, questions as u32)?;
        // The quiet before an outage counts, too.
        let limit = limit.saturating_add(idle);
        set_limit(stream, limit)?;
        Ok(Self { limit, by, looked: None, stalled: None })
    }

    /// Looks after `stream`, which it belongs to. To be called once a second at least; costs
    /// nothing where the kernel does it.
    pub fn look_after(&mut self, stream: &TcpStream) {
        let is_time = self.looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY);
        if self.by == Retransmission::Paced || !is_time {
            return;
        }
        self.looked = Some(Instant::now());
        let is_stalled = match options::unacknowledged(stream) {
            Ok(Unacknowledged { packets, attempts }) => packets > 0 && attempts > 0,
            // The connection is over, or the kernel reports nothing: then it keeps its own time.
            Err(_) => false,
        };
        match (is_stalled, self.stalled) {
            (false, None) => return,
            (false, Some(_)) => self.stalled = None,
            (true, None) => self.stalled = Some(Instant::now()),
            (true, Some(_)) => {}
        }
        // A connection that is over needs no limit.
        let _ = set_limit(stream, self.next_limit());
    }

    /// For how long what was sent may stay without an acknowledgement, for now.
    fn next_limit(&self) -> Duration {
        let ahead = |since: Instant| since.elapsed().saturating_add(LEAD);
        self.stalled.map_or(self.limit, |since| self.limit.min(ahead(since)))
    }
}

fn set_limit(stream: impl AsFd, limit: Duration) -> io::Result<()> {
    // The kernel's numbers are signed.
    let limit_ms = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).unsigned_abs();
    Ok(sockopt::set_tcp_user_timeout(stream, limit_ms)?)
}

/// Lets a connection that is being made ask often enough, where the kernel can.
pub(crate) fn hasten(stream: &TcpStream) {
    // Elsewhere whoever connects begins anew from time to time.
    let _ = options::set_longest_pause(stream, PACE);
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (stream, listener.accept().unwrap().0)
    }

    fn limit_ms(stream: &TcpStream) -> u32 {
        sockopt::tcp_user_timeout(stream).unwrap()
    }

    #[test]
    fn the_limit_counts_from_the_last_sign_of_life() {
        let (stream, _peer) = connection();
        for (limit_s, idle_s, every_s, ms) in
            [(90, 10, 5, 100_000), (8, 1, 1, 9_000), (40, 5, 2, 45_000)]
        {
            Endurance::new(&stream, Duration::from_secs(limit_s)).unwrap();
            assert_eq!(sockopt::tcp_keepidle(&stream).unwrap().as_secs(), idle_s);
            assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap().as_secs(), every_s);
            assert_eq!(limit_ms(&stream), ms);
        }
        let endless = Endurance::new(&stream, Duration::MAX).unwrap();
        endless.next_limit();
        assert_eq!(limit_ms(&stream), i32::MAX.unsigned_abs());
    }

    #[test]
    fn the_limit_is_ahead_of_the_clock_while_nothing_is_acknowledged() {
        let (stream, _peer) = connection();
        let by = Retransmission::Watched;
        let mut endurance = Endurance::by(&stream, Duration::from_secs(90), by).unwrap();
        endurance.look_after(&stream);
        assert_eq!((limit_ms(&stream), endurance.stalled), (100_000, None));
        for (since_s, expected_s) in [(0, 6), (20, 26), (93, 99), (94, 100), (500, 100)] {
            endurance.stalled = Instant::now().checked_sub(Duration::from_secs(since_s));
            assert_eq!(endurance.next_limit().as_secs(), expected_s);
        }
        endurance.looked = None;
        endurance.look_after(&stream);
        assert_eq!((limit_ms(&stream), endurance.stalled), (100_000, None), "all was acknowledged");
    }
}
