//! Which writes of a rail have completed.
//!
//! Not every write asks the device to report it: a report costs the device and the processor as
//! much as a small write. A write reports itself if few are under way, if it is large, or if it is
//! the sixteenth since the last that does. Its report is one of all writes before it, since they
//! complete in order. If the last report under way has come and writes are left, a *mark* is posted
//! behind them, a write of nothing that reports itself. So only bursts of small writes share
//! reports, and only a burst needs a mark.

use crate::verbs::Signal;

/// Writes of this size report themselves: what a report costs is nothing to them, and their memory
/// is waited for.
const LARGE_BYTES: u32 = 16 << 10;

/// At most so many writes share a report.
const RUN: u64 = 16;

/// Fewer under way than this are no burst: of two ranks that answer each other, none has more.
const FEW: u64 = 4;

/// Counts of a rail's writes. They are numbered from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sends {
    room: u64,
    posted: u64,
    reporting: u64,
    completed: u64,
    reported: u64,
}

impl Sends {
    /// For a send queue of `depth` requests, at least 2: one is kept for the mark.
    pub fn new(depth: u32) -> Self {
        Self { room: u64::from(depth - 1), posted: 0, reporting: 0, completed: 0, reported: 0 }
    }

    /// The number of the next write and whether it reports itself; none if the queue is full.
    pub fn next(&self, bytes: u32) -> Option<(u64, Signal)> {
        if self.posted - self.completed == self.room {
            return None;
        }
        let number = self.posted + 1;
        let reports =
            self.under_way() < FEW || bytes >= LARGE_BYTES || number - self.reporting >= RUN;
        Some((number, if reports { Signal::Yes } else { Signal::No }))
    }

    /// What [`Sends::next`] gave was posted.
    pub fn posted(&mut self, (number, signal): (u64, Signal)) {
        self.posted = number;
        if signal == Signal::Yes {
            self.reporting = number;
        }
    }

    /// The number that a mark must be posted with, if one is needed.
    pub fn mark(&self) -> Option<u64> {
        (self.reporting == self.completed && self.posted > self.completed).then_some(self.posted)
    }

    /// The mark was posted.
    pub fn marked(&mut self) {
        self.reporting = self.posted;
    }

    /// The report of write `number`, or of the mark behind it, has come.
    pub fn completed(&mut self, number: u64) {
        self.completed = self.completed.max(number);
    }

    /// Takes at most `room` writes that have completed and have not been reported yet; returns how
    /// many.
    pub fn report(&mut self, room: usize) -> usize {
        let count = usize::try_from(self.completed - self.reported).unwrap_or(usize::MAX).min(room);
        self.reported += count as u64;
        count
    }

    /// Writes that have not completed.
    pub fn under_way(&self) -> u64 {
        self.posted - self.completed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(sends: &mut Sends, bytes: u32) -> Option<Signal> {
        let next = sends.next(bytes)?;
        sends.posted(next);
        Some(next.1)
    }

    #[test]
    fn a_write_alone_reports_itself() {
        let mut sends = Sends::new(8);
        assert_eq!(post(&mut sends, 0), Some(Signal::Yes));
        assert_eq!(sends.mark(), None);
        sends.completed(1);
        assert_eq!((sends.report(9), sends.report(9), sends.mark()), (1, 0, None));
        assert_eq!(post(&mut sends, 0), Some(Signal::Yes));
    }

    #[test]
    fn small_ones_behind_it_share_a_report_and_large_ones_do_not() {
        let mut sends = Sends::new(64);
        let signals: Vec<_> = (0..33).map(|_| post(&mut sends, 8).unwrap()).collect();
        let reporting: Vec<_> =
            (1..).zip(signals).filter(|(_, signal)| *signal == Signal::Yes).collect();
        let reporting: Vec<u64> = reporting.into_iter().map(|(number, _)| number).collect();
        assert_eq!(reporting, [1, 2, 3, 4, 20]);
        assert_eq!(post(&mut sends, LARGE_BYTES), Some(Signal::Yes));
        assert_eq!(post(&mut sends, LARGE_BYTES - 1), Some(Signal::No));
    }

    #[test]
    fn two_ranks_that_answer_each_other_never_need_a_mark() {
        let mut sends = Sends::new(64);
        for number in 1..100 {
            assert_eq!(post(&mut sends, 8), Some(Signal::Yes));
            // The answer often comes before the report of what it answers.
            sends.completed(number - 1);
            assert_eq!(sends.mark(), None);
        }
    }

    #[test]
    fn what_is_left_over_gets_a_mark_and_is_reported_one_by_one() {
        let mut sends = Sends::new(64);
        (0..7).for_each(|_| assert!(post(&mut sends, 8).is_some()));
        sends.completed(3);
        assert_eq!(sends.mark(), None, "the report of the fourth is under way");
        sends.completed(4);
        assert_eq!(sends.mark(), Some(7));
        sends.marked();
        assert_eq!(sends.mark(), None);
        (0..2).for_each(|_| assert!(post(&mut sends, 8).is_some()));
        sends.completed(7);
        assert_eq!((sends.report(2), sends.report(9), sends.under_way()), (2, 5, 2));
    }

    #[test]
    fn a_full_queue_keeps_room_for_the_mark() {
        let mut sends = Sends::new(8);
        (0..7).for_each(|_| assert!(post(&mut sends, 8).is_some()));
        assert_eq!(sends.next(8), None);
        sends.completed(4);
        assert_eq!(sends.mark(), Some(7));
        sends.marked();
        (0..4).for_each(|_| assert!(post(&mut sends, 8).is_some()));
        assert_eq!(sends.next(8), None);
    }

    /// Whatever the order of posts and completions: all are reported, and the device's queue never
    /// overflows.
    #[test]
    fn every_write_is_reported_once_and_the_queue_holds() {
        let mut seed = 1_u64;
        let mut random = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            seed >> 33
        };
        let (mut sends, mut reports, mut count) =
            (Sends::new(8), std::collections::VecDeque::new(), 0);
        for _ in 0..10_000 {
            if random() % 2 == 0 {
                if let Some(next) = sends.next(8) {
                    sends.posted(next);
                    reports.extend((next.1 == Signal::Yes).then_some((next.0, 0)));
                }
            } else if let Some((number, _)) = reports.pop_front() {
                sends.completed(number);
            }
            if let Some(number) = sends.mark() {
                sends.marked();
                reports.push_back((number, 1));
            }
            let marks: u64 = reports.iter().map(|(_, mark)| *mark).sum();
            assert!(sends.under_way() + marks <= 8, "{sends:?}");
            count += sends.report(3) as u64;
        }
        while let Some((number, _)) = reports.pop_front() {
            sends.completed(number);
            if let Some(number) = sends.mark() {
                sends.marked();
                reports.push_back((number, 1));
            }
        }
        count += sends.report(usize::MAX) as u64;
        assert_eq!((sends.under_way(), count), (0, sends.posted));
        assert!(count > 1000);
    }
}
