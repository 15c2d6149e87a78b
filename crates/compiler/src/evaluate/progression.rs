//! Integers at even distances: what ranges and their reversals are, without a list being made.

/// `count` integers, the first `from`, each `step` after the one before. All fit in 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Progression {
    pub from: i64,
    /// Not 0.
    pub step: i64,
    pub count: u64,
}

impl Progression {
    /// Every `step`-th integer from `from` up to and without `to`; `step` must be positive.
    pub fn new(from: i64, to: i64, step: i64) -> Self {
        let distance = if from < to { to.abs_diff(from) } else { 0 };
        Self { from, step, count: distance.div_ceil(step.unsigned_abs()) }
    }

    /// Element `index`, which must exist. A product that wraps comes right with the sum.
    pub fn nth(self, index: u64) -> i64 {
        self.from.wrapping_add(self.step.wrapping_mul(index as i64))
    }

    /// All of them, in order.
    pub fn iter(self) -> impl Iterator<Item = i64> {
        (0..self.count).map(move |index| self.nth(index))
    }

    /// The same integers backwards.
    pub fn reversed(self) -> Self {
        let Self { from: _, step, count } = self;
        let from = self.nth(count.saturating_sub(1));
        Self { from, step: step.wrapping_neg(), count }
    }

    /// Elements `from` up to and without `to`, which must exist.
    pub fn part(self, from: u64, to: u64) -> Self {
        Self { from: self.nth(from), step: self.step, count: to - from }
    }

    /// The index of an integer.
    pub fn position(self, expected: i64) -> Option<u64> {
        let distance = i128::from(expected) - i128::from(self.from);
        let step = i128::from(self.step);
        let index = u64::try_from(distance / step).ok()?;
        (distance % step == 0 && index < self.count).then_some(index)
    }

    /// Whether both are the same integers in the same order.
    pub fn equals(self, other: Self) -> bool {
        let same_first = self.count == 0 || self.from == other.from;
        self.count == other.count && same_first && (self.count < 2 || self.step == other.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(progression: Progression, expected: &[i64]) {
        assert_eq!(progression.iter().collect::<Vec<_>>(), expected);
        for (index, &element) in expected.iter().enumerate() {
            assert_eq!(progression.position(element), Some(index as u64));
        }
    }

    #[test]
    fn steps_stop_before_the_end() {
        check(Progression::new(0, 7, 3), &[0, 3, 6]);
        check(Progression::new(0, 6, 3), &[0, 3]);
        check(Progression::new(-3, 2, 2), &[-3, -1, 1]);
        check(Progression::new(2, 2, 1), &[]);
        check(Progression::new(5, 2, 2), &[]);
        check(Progression::new(i64::MIN, i64::MAX, i64::MAX), &[i64::MIN, -1, i64::MAX - 1]);
    }

    #[test]
    fn parts_and_reversals() {
        let odd = Progression::new(1, 10, 2);
        check(odd.reversed(), &[9, 7, 5, 3, 1]);
        check(odd.reversed().reversed(), &[1, 3, 5, 7, 9]);
        check(odd.part(1, 3), &[3, 5]);
        check(odd.part(5, 5), &[]);
        check(Progression::new(0, 0, 4).reversed(), &[]);
    }

    #[test]
    fn what_lies_between_has_no_position() {
        let even = Progression::new(0, 10, 2);
        assert_eq!([-2, 3, 10].map(|one| even.position(one)), [None; 3]);
        assert_eq!(even.reversed().position(10), None);
    }

    #[test]
    fn equal_elements_make_equal_progressions() {
        assert!(Progression::new(0, 1, 1).equals(Progression::new(0, 5, 7)));
        assert!(Progression::new(3, 1, 1).equals(Progression::new(9, 9, 2)));
        assert!(!Progression::new(0, 4, 2).equals(Progression::new(0, 2, 1)));
    }
}
