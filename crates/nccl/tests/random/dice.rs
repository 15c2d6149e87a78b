//! Random numbers that a seed decides.

/// What a seed decides; each draw leads to the next.
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number: the seed's steps through a Weyl sequence, each mixed until every bit depends on every other.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.any() % limit.max(1) as u64) as usize
    }

    /// True in one of `times` cases.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Takes the elements of all `queues` one by one, each queue in its order, otherwise in any.
    pub fn merge<T>(&mut self, queues: Vec<Vec<T>>) -> Vec<T> {
        let mut queues: Vec<_> = queues.into_iter().map(Vec::into_iter).collect();
        let mut merged = Vec::new();
        while !queues.is_empty() {
            let chosen = self.below(queues.len());
            match queues[chosen].next() {
                Some(element) => merged.push(element),
                None => drop(queues.swap_remove(chosen)),
            }
        }
        merged
    }
}
