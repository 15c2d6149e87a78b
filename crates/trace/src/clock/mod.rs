//! One clock for all ranks.
//!
//! The common clock counts ns of UNIX time from an origin. A rank's records have the time of its
//! device; three things bring it to the common clock:
//!
//! 1. **Within a host**: readings of the device's clock between two readings of `CLOCK_MONOTONIC`
//!    ([`fit`]). The shortest round trips of several moments give offset and drift, and a bound of
//!    the error. Where clocks do not run evenly, the way goes from reading to reading
//!    ([`UnevenClock`]).
//! 2. **Between hosts**: readings of the clock of a peer's host, else the UNIX times at which the
//!    recordings began, which are as good as the synchronisation of the hosts.
//! 3. **Causality**: a message is not received before it is sent. Each pair of ranks with messages
//!    gives a difference constraint; shortest paths give the corrections that meet all of them, and
//!    what remains of the error ([`tighten`]).
//!
//! Constraints that cannot be met are faults: a clock or a recording is wrong.

mod causality;
mod fit;
mod uneven;

pub use causality::{Constraint, ConstraintOrigin, Contradiction, Tightened, tighten};
pub use fit::{DRIFT_MAX, DeviceClock, Reading, fit, shortest_of};
pub use uneven::UnevenClock;
