//! How long the thread of a proxy goes on and sleeps while nothing happens.
//!
//! Sockets and the doorbell wake it. Rails and ports that cannot are looked at from time to time:
//! after a sixteenth of the time for which all has been quiet, from 50 µs to a millisecond. So what
//! has taken long takes hardly longer, and a proxy that nobody needs costs little.
//!
//! Ports of GPUs cannot wake it, and what they wait for takes microseconds. Such a proxy goes on
//! for a millisecond after anything has happened, and after its owner has said that something will
//! ([`crate::Proxy::wake`]). Owners of graphs cannot say that of every launch: where there are
//! graphs, it sleeps no longer than a tenth of a millisecond at a time, until all has been quiet
//! for ten seconds.

use std::time::{Duration, Instant};

/// Rounds without any work before the first sleep.
const SPINS: u32 = 64;

/// How long the thread goes on without any work, where executors cannot wake it.
const WATCH: Duration = Duration::from_millis(1);

/// The shortest sleep when something must be looked at from time to time.
const SHORT: Duration = Duration::from_micros(50);

/// The longest sleep in that case.
const LONG: Duration = Duration::from_millis(1);

/// The longest sleep while graphs may be launched again any time, and for how long of quiet they
/// may.
const BESIDE_GRAPHS: Duration = Duration::from_micros(100);
const GRAPHS_LAST: Duration = Duration::from_secs(10);

/// Such a sleep is this part of the time for which all has been quiet.
const PART_OF_IDLE_TIME: u32 = 16;

/// The longest sleep when everything can wake the thread; an abort cannot.
const WAKEABLE: Duration = Duration::from_millis(10);

/// For how long nothing has happened.
pub(crate) struct IdleTime {
    pub(crate) since: Instant,
    pub(crate) rounds: u32,
}

impl IdleTime {
    pub(crate) fn begins() -> Self {
        Self { since: Instant::now(), rounds: 0 }
    }
}

/// What must be looked at from time to time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PollTarget {
    Nothing,
    /// Rails, or connections that are being made.
    Rails,
    /// Ports, whose executors are quick; and perhaps in graphs.
    Endpoints {
        graphs: bool,
    },
}

/// How long to sleep after `rounds` rounds and the time `idle` in which nothing has happened;
/// `None` goes on at once.
pub(crate) fn pause(rounds: u32, idle: Duration, target: PollTarget) -> Option<Duration> {
    let longest = match target {
        _ if rounds <= SPINS => return None,
        PollTarget::Nothing => return Some(WAKEABLE),
        PollTarget::Endpoints { .. } if idle < WATCH => return None,
        PollTarget::Endpoints { graphs: true } if idle < GRAPHS_LAST => BESIDE_GRAPHS,
        PollTarget::Rails | PollTarget::Endpoints { .. } => LONG,
    };
    Some((idle / PART_OF_IDLE_TIME).clamp(SHORT, longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_goes_on_and_then_sleeps_ever_longer() {
        const ENDPOINTS: PollTarget = PollTarget::Endpoints { graphs: false };
        const GRAPHS: PollTarget = PollTarget::Endpoints { graphs: true };
        let us = Duration::from_micros;
        let cases = [
            (SPINS, us(999_999), PollTarget::Nothing, None),
            (SPINS + 1, us(10), PollTarget::Nothing, Some(WAKEABLE)),
            (SPINS + 1, us(10), PollTarget::Rails, Some(us(50))),
            (SPINS + 1, us(8000), PollTarget::Rails, Some(us(500))),
            (SPINS + 1, us(999), ENDPOINTS, None),
            (SPINS + 1, us(1000), ENDPOINTS, Some(us(62) + Duration::from_nanos(500))),
            (u32::MAX, us(1_000_000), ENDPOINTS, Some(LONG)),
            (SPINS + 1, us(999), GRAPHS, None),
            (SPINS + 1, us(1000), GRAPHS, Some(us(62) + Duration::from_nanos(500))),
            (u32::MAX, us(9_999_999), GRAPHS, Some(us(100))),
            (u32::MAX, us(10_000_000), GRAPHS, Some(LONG)),
        ];
        for (rounds, idle, target, expected) in cases {
            assert_eq!(pause(rounds, idle, target), expected, "{rounds} {idle:?} {target:?}");
        }
    }
}
