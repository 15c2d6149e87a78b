//! What to look at in a round, of more than is worth looking at each time.
//!
//! Ports of GPUs are counts in memory that nobody announces, and a proxy may have thousands of
//! them, of which a call uses a few. So a round looks at those that are *awake*, where something
//! has happened lately, and at a part of the others in turn. Something new where all was asleep is
//! seen after [`PART`] rounds at the latest, which cost together what one round over everything
//! costs; from then on it is seen in every round.

/// Of those asleep, a round looks at one in so many.
const PART: usize = 16;

/// But at so many at least.
const LEAST: usize = 4;

/// Rounds without anything new after which one falls asleep.
const AWAKE_ROUNDS: u16 = 1024;

/// How many rounds something is awake yet; none if it is asleep.
type Awake = u16;

/// Which of many things are awake, by their numbers.
#[derive(Default)]
pub(crate) struct PollSchedule {
    left: Vec<Awake>,
    awake: Vec<usize>,
    /// The next one to look at, whether or not it is awake.
    next: usize,
    chosen: Vec<usize>,
}

/// How thorough a round is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// At everything. Whoever goes to sleep, and may be woken by what changes, must have looked so.
    Whole,
    /// As this module says.
    Part,
}

impl PollSchedule {
    /// For `count` things, all asleep.
    pub(crate) fn new(count: usize) -> Self {
        Self { left: vec![0; count], ..Self::default() }
    }

    /// What to look at in the next round, to be given back to [`PollSchedule::end`]. Those asleep
    /// come first, so that the others never use up everything before them; those awake begin with
    /// another one each time.
    pub(crate) fn begin(&mut self, look: Look) -> Vec<usize> {
        let mut chosen = std::mem::take(&mut self.chosen);
        chosen.clear();
        let count = self.left.len();
        let part = match look {
            Look::Whole => count,
            Look::Part => count.div_ceil(PART).max(LEAST).min(count),
        };
        for _ in 0..part {
            if self.left[self.next] == 0 {
                chosen.push(self.next);
            }
            self.next = if self.next + 1 < count { self.next + 1 } else { 0 };
        }
        if !self.awake.is_empty() {
            self.awake.rotate_left(1);
        }
        chosen.extend(&self.awake);
        chosen
    }

    /// Something has happened at number `one`.
    pub(crate) fn wake(&mut self, one: usize) {
        if let Some(left) = self.left.get_mut(one) {
            if *left == 0 {
                self.awake.push(one);
            }
            *left = AWAKE_ROUNDS;
        }
    }

    /// How thoroughly to look at number `one`, which has things of its own to look at: what sleeps
    /// is rarely looked at, and then at all of it.
    pub(crate) fn within(&self, one: usize, look: Look) -> Look {
        match self.left.get(one) {
            Some(0) | None => Look::Whole,
            Some(_) => look,
        }
    }

    /// The round for which [`PollSchedule::begin`] chose these is over.
    pub(crate) fn end(&mut self, chosen: Vec<usize>) {
        self.chosen = chosen;
        let left = &mut self.left;
        self.awake.retain(|one| {
            left[*one] -= 1;
            left[*one] > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn round(poll_schedule: &mut PollSchedule, look: Look) -> Vec<usize> {
        let chosen = poll_schedule.begin(look);
        let looked = chosen.clone();
        poll_schedule.end(chosen);
        looked
    }

    #[test]
    fn everything_is_looked_at_within_sixteen_rounds() {
        for count in [0, 1, 5, 100, 448, 4096] {
            let mut poll_schedule = PollSchedule::new(count);
            [3, 90].into_iter().for_each(|one| poll_schedule.wake(one));
            let rounds: Vec<_> = (0..PART).map(|_| round(&mut poll_schedule, Look::Part)).collect();
            assert!(rounds.iter().all(|round| round.len() <= count.div_ceil(PART).max(LEAST) + 2));
            let seen: BTreeSet<_> = rounds.into_iter().flatten().collect();
            assert_eq!(seen.len(), count);
        }
    }

    #[test]
    fn a_whole_look_is_at_everything_once() {
        let mut poll_schedule = PollSchedule::new(100);
        poll_schedule.wake(42);
        for _ in 0..3 {
            let mut looked = round(&mut poll_schedule, Look::Whole);
            assert_eq!(looked[99], 42);
            looked.sort_unstable();
            assert_eq!(looked, (0..100).collect::<Vec<_>>());
        }
    }

    #[test]
    fn who_is_awake_is_looked_at_until_nothing_happens_for_long() {
        let mut poll_schedule = PollSchedule::new(1000);
        poll_schedule.wake(7);
        for rounds in 0..2 * AWAKE_ROUNDS {
            let looked = round(&mut poll_schedule, Look::Part);
            let awake = poll_schedule.awake.contains(&7);
            assert_eq!(awake, rounds + 1 < AWAKE_ROUNDS);
            assert!(!awake || looked.contains(&7));
        }
    }

    #[test]
    fn those_awake_take_turns_at_being_first() {
        let mut poll_schedule = PollSchedule::new(3);
        (0..3).for_each(|one| poll_schedule.wake(one));
        let firsts: BTreeSet<_> =
            (0..3).map(|_| round(&mut poll_schedule, Look::Part)[0]).collect();
        assert_eq!(firsts.len(), 3);
    }
}
