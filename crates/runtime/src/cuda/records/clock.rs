//! Readings of the clock of records beside the host's: a kernel of one thread answers the host, and
//! the shortest of many round trips counts.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use msccl_gpu::{CaptureModeGuard, Context, PinnedBuffer, Stream};
use msccl_kernels::recording::ClockLaunch;
use msccl_trace::recording::ClockSample;

use super::super::kernels::Launchable;
use super::super::launch;
use crate::error::Error;
use crate::recording::now_ns;

/// Round trips, of which the shortest counts.
const ROUNDS: u64 = 64;

/// How long the host waits for an answer. The kernel waits as long for a question.
const PATIENCE: Duration = Duration::from_millis(100);

/// Asks the GPU of `context` for its clock, by `kernel`.
///
/// # Errors
///
/// The driver refuses, or the GPU does not answer.
pub(super) fn sample(context: &Context, kernel: &Launchable) -> Result<ClockSample, Error> {
    let _relaxed = CaptureModeGuard::relaxed(context.device().driver())?;
    let stream = Stream::most_urgent(context)?;
    let mailbox = PinnedBuffer::new(context, 2 * size_of::<u64>())?;
    let record = ClockLaunch { mailbox: mailbox.ptr().0, rounds: ROUNDS };
    launch::launch_clock(&kernel.function, stream.borrow(), &record)?;
    let samples = (1..=ROUNDS).map_while(|round| ask(&mailbox, round));
    let best = samples.min_by_key(|sample| sample.after_ns - sample.before_ns);
    stream.borrow().synchronize()?;
    best.ok_or_else(|| Error::internal("the GPU does not answer with its clock"))
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
