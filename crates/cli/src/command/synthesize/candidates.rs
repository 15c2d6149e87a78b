//! Layouts beside one another, of calls of one size.

use msccl_synthesize::Layout;

use crate::size::ByteSize;

/// Plans whose layouts are all tried.
const PLANS_TRIED: usize = 3;

/// Layouts for large calls are compared at so many parts of the size, and so many of the best are
/// compared again at the next one: successive halving (Jamieson and Talwalkar 2016), since
/// estimates of large calls take long.
pub const HALVINGS: [Halving; 2] = [Halving { part: 16, kept: 12 }, Halving { part: 4, kept: 5 }];

/// A layout of a plan, and how long a call takes with it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timed {
    /// Which plan.
    pub plan: usize,
    pub layout: Layout,
    /// Thread blocks of the rank that has most.
    pub thread_blocks: u32,
    pub us: f64,
}

/// A comparison at a part of the size.
#[derive(Clone, Copy)]
pub struct Halving {
    pub part: u64,
    /// How many are compared again.
    pub kept: usize,
}

impl Halving {
    pub fn size(self, whole: ByteSize) -> ByteSize {
        ByteSize(whole.0 / self.part)
    }
}

/// What is compared at one size.
pub struct Candidates {
    pub size: ByteSize,
    /// The most thread blocks.
    pub most: Option<u32>,
    pub found: Vec<Timed>,
    /// The fewest thread blocks of those that have too many.
    pub too_many: Option<u32>,
}

impl Candidates {
    pub fn add(&mut self, timed: Timed) {
        let blocks = timed.thread_blocks;
        if self.most.is_some_and(|most| blocks > most) {
            self.too_many = Some(self.too_many.map_or(blocks, |least| least.min(blocks)));
        } else if !self.found.contains(&timed) {
            self.found.push(timed);
        }
    }

    /// The fastest, in order; of those as fast, the ones with fewer thread blocks.
    pub fn fastest(&self, count: usize) -> Vec<Timed> {
        let mut ordered = self.found.clone();
        ordered.sort_by(|one, other| {
            one.us.total_cmp(&other.us).then(one.thread_blocks.cmp(&other.thread_blocks))
        });
        ordered.truncate(count);
        ordered
    }

    /// The plans of the fastest layouts, a few.
    pub fn fastest_plans(&self) -> Vec<usize> {
        let mut plans = Vec::new();
        for timed in self.fastest(usize::MAX) {
            if plans.len() < PLANS_TRIED && !plans.contains(&timed.plan) {
                plans.push(timed.plan);
            }
        }
        plans
    }
}
