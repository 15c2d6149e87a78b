//! Readings of the clock of records beside the host's: a kernel of one thread answers the host many
//! times, and what all the answers say together counts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use msccl_gpu::{CaptureModeGuard, Context, PinnedBuffer, Stream};
use msccl_kernels::recording::ClockLaunch;
use msccl_trace::clock::DRIFT_MAX;
use msccl_trace::recording::ClockSample;

use super::super::kernels::Launchable;
use super::super::launch;
use crate::error::Error;
use crate::recording::now_ns;

/// Round trips of a sample.
const ROUNDS: u64 = 64;

/// How long the host waits for an answer. The kernel waits as long for a question.
const PATIENCE: Duration = Duration::from_millis(100);

/// Asks the GPU of a rank for its clock.
///
/// It has all that it needs from the beginning: the driver may wait for all kernels where pinned
/// memory comes and goes, and so for ever if one of them hangs.
pub(super) struct DeviceClock {
    /// What answers.
    kernel: Arc<Launchable>,
    stream: Stream,
    /// A question, and its answer.
    mailbox: PinnedBuffer,
}

impl DeviceClock {
    /// That of the GPU of `context`, where `kernel` answers.
    ///
    /// # Errors
    ///
    /// The driver refuses.
    pub fn new(context: &Context, kernel: Arc<Launchable>) -> Result<Self, Error> {
        let stream = Stream::most_urgent(context)?;
        let mailbox = PinnedBuffer::new(context, 2 * size_of::<u64>())?;
        Ok(Self { kernel, stream, mailbox })
    }

    /// Asks; `None` if the GPU does not answer now, since other kernels take all of it.
    ///
    /// # Errors
    ///
    /// The driver refuses.
    pub fn sample(&self) -> Result<Option<ClockSample>, Error> {
        let stream = self.stream.borrow();
        let _relaxed = CaptureModeGuard::relaxed(stream.context().device().driver())?;
        // The kernel of an earlier time may not have begun.
        if !stream.is_idle()? {
            return Ok(None);
        }
        self.mailbox.words64().iter().for_each(|word| word.store(0, Ordering::Relaxed));
        let record = ClockLaunch { mailbox: self.mailbox.ptr().0, rounds: ROUNDS };
        launch::launch_clock(&self.kernel.function, stream, &record)?;
        let rounds: Vec<_> = (1..=ROUNDS).map_while(|round| ask(&self.mailbox, round)).collect();
        Ok(tightest(&rounds))
    }
}

impl Drop for DeviceClock {
    fn drop(&mut self) {
        // The kernel has the mailbox. If the driver refuses to wait, no kernel runs any more.
        let _ = self.stream.borrow().synchronize();
    }
}

/// Asks once; `None` if no answer comes.
fn ask(mailbox: &PinnedBuffer, round: u64) -> Option<ClockSample> {
    let [question, answer] = mailbox.words64().first_chunk()?;
    let (start, known) = (Instant::now(), answer.load(Ordering::Relaxed));
    let before_ns = now_ns();
    question.store(round, Ordering::Release);
    loop {
        let device_ns = answer.load(Ordering::Acquire);
        let after_ns = now_ns();
        if device_ns != known {
            return Some(ClockSample { before_ns, device_ns, after_ns });
        }
        if start.elapsed() > PATIENCE {
            return None;
        }
        std::hint::spin_loop();
    }
}

/// The sample with the smallest bounds that hold in all of `rounds`, close to the shortest one;
/// `None` without any.
///
/// The device has read its clock between two readings of the host's, so each round bounds by how
/// much the device's clock is ahead. The question may be fastest in one round and the answer in
/// another. A clock that counts in steps is up to a step ahead of what it shows.
fn tightest(rounds: &[ClockSample]) -> Option<ClockSample> {
    let shortest = *rounds.iter().min_by_key(|round| round.after_ns - round.before_ns)?;
    let shown = rounds.iter().map(|round| round.device_ns);
    let step_ns = shown.fold(0, greatest_common_divisor);
    let drift_ns = |round: &ClockSample| {
        (DRIFT_MAX * round.device_ns.abs_diff(shortest.device_ns) as f64).ceil() as i64
    };
    let ahead_ns = |device_ns: u64, host_ns: u64| device_ns.wrapping_sub(host_ns).cast_signed();
    let most_ns = rounds
        .iter()
        .map(|round| ahead_ns(round.device_ns + step_ns, round.before_ns) + drift_ns(round));
    let least_ns =
        rounds.iter().map(|round| ahead_ns(round.device_ns, round.after_ns) - drift_ns(round));
    let (most_ns, least_ns) = (most_ns.min()?, least_ns.max()?);
    let at = |ahead_ns: i64| shortest.device_ns.wrapping_sub(ahead_ns.cast_unsigned());
    let tight = ClockSample { before_ns: at(most_ns), after_ns: at(least_ns), ..shortest };
    // Otherwise a clock has been set meanwhile.
    Some(if least_ns <= most_ns { tight } else { shortest })
}

fn greatest_common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By how much the device's clock is ahead.
    const AHEAD_NS: u64 = 1 << 60;

    /// A round that begins at `start_ns`, whose question and answer take so long, with a clock that
    /// counts in steps of `step_ns`.
    fn round(start_ns: u64, question_ns: u64, answer_ns: u64, step_ns: u64) -> ClockSample {
        let read_ns = start_ns + question_ns;
        let device_ns = (read_ns + AHEAD_NS) / step_ns * step_ns;
        ClockSample { before_ns: start_ns, device_ns, after_ns: read_ns + answer_ns }
    }

    fn is_within(sample: &ClockSample) -> bool {
        let host_ns = sample.device_ns - AHEAD_NS;
        (sample.before_ns..=sample.after_ns).contains(&host_ns)
    }

    #[test]
    fn the_fastest_question_and_the_fastest_answer_count() {
        let rounds =
            [round(10_000, 500, 1500, 1), round(13_000, 901, 900, 1), round(16_000, 1700, 400, 1)];
        let found = tightest(&rounds).expect("there are rounds");
        assert!(is_within(&found), "{found:?}");
        let [shortest_ns, width_ns] = [1800, found.after_ns - found.before_ns];
        assert!((900..910).contains(&width_ns), "{width_ns} of {shortest_ns} ns");
    }

    #[test]
    fn the_true_time_lies_within_whatever_the_steps_of_the_clock() {
        let mut random = 7_u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % end
        };
        for step_ns in [1, 32, 1024] {
            for _ in 0..200 {
                let mut start_ns = 1_000_000;
                let mut next = || {
                    start_ns += 2500 + below(500);
                    round(start_ns, 500 + below(900), 400 + below(600), step_ns)
                };
                let rounds: Vec<_> = (0..ROUNDS).map(|_| next()).collect();
                let found = tightest(&rounds).expect("there are rounds");
                assert!(is_within(&found), "{found:?}, steps of {step_ns} ns");
                assert!(found.after_ns - found.before_ns < 1100 + 2 * step_ns, "{found:?}");
            }
        }
    }

    #[test]
    fn a_clock_that_was_set_leaves_the_shortest_round() {
        let late = round(20_000, 500, 500, 1);
        let set = ClockSample { device_ns: late.device_ns + 1_000_000, ..late };
        let rounds = [round(10_000, 400, 400, 1), set];
        assert_eq!(tightest(&rounds), Some(rounds[0]));
        assert_eq!(tightest(&[]), None);
    }
}
