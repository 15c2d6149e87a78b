//! Calls on a GPU whose thread blocks may still be reported: some ms after the launch.

use std::collections::VecDeque;

/// So many are kept; of older ones nothing more is learnt.
const KEPT: usize = 1024;

/// What is kept of each, the latest last. Records of thread blocks have the low bits of a call's
/// number alone; among those that are kept they name one.
#[derive(Clone, Debug)]
pub struct LaunchedCalls<T>(VecDeque<LaunchedCall<T>>);

#[derive(Clone, Debug)]
struct LaunchedCall<T> {
    low_bits: u32,
    kept: T,
}

impl<T> LaunchedCalls<T> {
    /// Call `number` was launched.
    pub fn push(&mut self, number: u64, kept: T) {
        if self.0.len() >= KEPT {
            self.0.pop_front();
        }
        self.0.push_back(LaunchedCall { low_bits: number as u32, kept });
    }

    /// What is kept of the call whose number has these low bits.
    pub fn get_mut(&mut self, low_bits: u32) -> Option<&mut T> {
        let found = self.0.iter_mut().find(|call| call.low_bits == low_bits);
        found.map(|call| &mut call.kept)
    }

    /// Nothing more comes of that call.
    pub fn remove(&mut self, low_bits: u32) {
        if let Some(place) = self.0.iter().position(|call| call.low_bits == low_bits) {
            self.0.remove(place);
        }
    }
}

impl<T> Default for LaunchedCalls<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_the_low_bits_of_their_numbers() {
        let mut calls = LaunchedCalls::default();
        calls.push((1 << 32) + 7, 'a');
        assert_eq!(calls.get_mut(7), Some(&mut 'a'));
        calls.remove(8);
        calls.remove(7);
        assert_eq!(calls.get_mut(7), None);
    }

    #[test]
    fn the_oldest_is_forgotten_where_there_are_too_many() {
        let mut calls = LaunchedCalls::default();
        (0..=KEPT as u64).for_each(|number| calls.push(number, number));
        assert_eq!(calls.get_mut(0), None);
        assert_eq!(calls.get_mut(1), Some(&mut 1));
        assert_eq!(calls.get_mut(KEPT as u32), Some(&mut (KEPT as u64)));
    }
}
