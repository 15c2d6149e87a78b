//! The last few values made, each found again by what it serves.
//!
//! Programs repeat a few calls: all-reduces of two sizes by turns, or a reduce-scatter and an
//! all-gather. What follows from the shape of such a call is kept, so that it is neither looked up
//! in a larger table nor made again. There are so few values that they are compared one by one, the
//! one used last first. Nothing is allocated.

use smallvec::SmallVec;

/// Up to `N` values. The one that was made first gives way to a new one.
pub struct Recent<T, const N: usize> {
    values: SmallVec<[T; N]>,
    /// The place of the value used last.
    last: usize,
    /// The place of the value made last.
    newest: usize,
}

impl<T, const N: usize> Default for Recent<T, N> {
    fn default() -> Self {
        Self { values: SmallVec::new(), last: 0, newest: 0 }
    }
}

impl<T, const N: usize> Recent<T, N> {
    /// The value for which `serves` holds, made by `make` if there is none.
    ///
    /// # Errors
    ///
    /// That of `make`; all values then stay.
    #[inline]
    pub fn find_or_make<E>(
        &mut self,
        serves: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<&mut T, E> {
        if !self.values.get(self.last).is_some_and(&serves) {
            self.last = self.find_or_keep(serves, make)?;
        }
        Ok(&mut self.values[self.last])
    }

    /// The place of the value for which `serves` holds. Apart, so that the value used last is found
    /// by few instructions.
    #[inline(never)]
    fn find_or_keep<E>(
        &mut self,
        serves: impl Fn(&T) -> bool,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<usize, E> {
        match self.values.iter().position(serves) {
            Some(place) => Ok(place),
            None => Ok(self.keep(make()?)),
        }
    }

    /// The place of `value`, which is new.
    fn keep(&mut self, value: T) -> usize {
        if self.values.len() < N {
            self.values.push(value);
            self.newest = self.values.len() - 1;
        } else {
            self.newest = (self.newest + 1) % N;
            self.values[self.newest] = value;
        }
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for `key` of values that are pairs of a key and how often `made` has grown.
    fn ask(recent: &mut Recent<(u32, u32), 3>, made: &mut u32, key: u32) -> (u32, u32) {
        let make = || {
            *made += 1;
            Ok::<_, ()>((key, *made))
        };
        *recent.find_or_make(|(of, _)| *of == key, make).unwrap()
    }

    #[test]
    fn a_value_is_made_once_until_n_others_were() {
        let (mut recent, mut made) = (Recent::default(), 0);
        for key in [1, 2, 3, 3, 1, 2, 1] {
            assert_eq!(ask(&mut recent, &mut made, key), (key, key));
        }
        assert_eq!(made, 3);
        // 1 was made first, however often it is used.
        assert_eq!(ask(&mut recent, &mut made, 4), (4, 4));
        assert_eq!(ask(&mut recent, &mut made, 2), (2, 2));
        assert_eq!(ask(&mut recent, &mut made, 1), (1, 5));
        assert_eq!(ask(&mut recent, &mut made, 3), (3, 3));
        assert_eq!(ask(&mut recent, &mut made, 2), (2, 6));
    }

    #[test]
    fn all_values_stay_if_one_cannot_be_made() {
        let (mut recent, mut made) = (Recent::default(), 0);
        ask(&mut recent, &mut made, 1);
        assert_eq!(recent.find_or_make(|(of, _)| *of == 2, || Err("no memory")), Err("no memory"));
        assert_eq!(ask(&mut recent, &mut made, 1), (1, 1));
        assert_eq!(made, 1);
    }
}
