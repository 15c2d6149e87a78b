//! On which processors the thread of a proxy runs, and how soon it runs again after a sleep.

use std::num::NonZeroU64;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};

/// Lets the calling thread run on those of `preferred` on which it may run; if there are none, or
/// the system does not say, on all of these.
pub(crate) fn prefer(preferred: &[usize]) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let mut chosen = CpuSet::new();
    let usable = |number: &&usize| **number < CpuSet::MAX_CPU && allowed.is_set(**number);
    preferred.iter().filter(usable).for_each(|number| chosen.set(*number));
    if chosen.count() > 0 {
        // It is no more than a preference.
        let _ = sched_setaffinity(None, &chosen);
    }
}

/// Lets sleeps of the calling thread end when they should: by default the kernel adds up to 50 µs,
/// which is as long as the shortest of them.
pub(crate) fn wake_in_time() {
    // It is no more than a hint.
    let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
}

/// The processors on which the calling thread may run; none if the system does not say.
pub(crate) fn allowed() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).collect()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn after(preferred: &[usize]) -> CpuSet {
        thread::scope(|scope| {
            let preferring = scope.spawn(|| {
                prefer(preferred);
                sched_getaffinity(None).unwrap()
            });
            preferring.join().unwrap()
        })
    }

    #[test]
    fn a_thread_stays_where_it_may_run() {
        let allowed = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|number| allowed.is_set(*number)).unwrap();
        let chosen = after(&[usize::MAX, first, CpuSet::MAX_CPU]);
        assert!(chosen.count() == 1 && chosen.is_set(first));
        assert_eq!(super::allowed().len(), allowed.count() as usize);
        for nothing in [&[][..], &[CpuSet::MAX_CPU]] {
            assert_eq!(after(nothing).count(), allowed.count());
        }
    }
}
