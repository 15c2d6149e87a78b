//! Random numbers that follow from a seed.

/// A stream of numbers, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    /// The next number, of 31 bits.
    #[expect(clippy::should_implement_trait, reason = "a stream without end is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// A number less than `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// The same, for numbers of 32 bits.
    pub fn below_u32(&mut self, bound: u32) -> u32 {
        self.below(u64::from(bound)) as u32
    }

    /// The same, for places in a list of that length.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True once in `times`, on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of `all`.
    ///
    /// # Panics
    ///
    /// There is none.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.index(all.len())]
    }

    /// The elements of all `queues`, each queue in its order, otherwise in any.
    pub fn merge<T>(&mut self, queues: Vec<Vec<T>>) -> Vec<T> {
        let mut queues: Vec<_> = queues.into_iter().map(Vec::into_iter).collect();
        let mut merged = Vec::new();
        while !queues.is_empty() {
            let chosen = self.index(queues.len());
            match queues[chosen].next() {
                Some(element) => merged.push(element),
                None => drop(queues.swap_remove(chosen)),
            }
        }
        merged
    }
}
