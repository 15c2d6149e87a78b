//! The calls to make: a sweep over sizes, types, reductions and roots.

use msccl_collective::Reduction;
use serde::{Deserialize, Serialize};

use crate::element::{ElementType, Redop};
use crate::workload::{Bandwidth, Rounding, Workload};

/// A call, but for where its buffers lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Case {
    /// What is done.
    pub workload: Workload,
    /// The type of every element.
    pub element: ElementType,
    /// How contributions combine; sum where nothing does.
    pub redop: Redop,
    /// The special rank; 0 where there is none.
    pub root: u32,
    /// Elements of a block.
    pub count: u64,
    /// How many ranks there are.
    pub ranks: u32,
}

/// Whether input and output share memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// They do not.
    OutOfPlace,
    /// They do, in the way the collective defines.
    InPlace,
}

impl Placement {
    /// Both, in the order of nccl-tests' columns.
    pub const BOTH: [Self; 2] = [Self::OutOfPlace, Self::InPlace];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::OutOfPlace => "out-of-place",
            Self::InPlace => "in-place",
        }
    }
}

impl Case {
    /// Bytes of the larger buffer.
    pub fn size_bytes(&self) -> u64 {
        self.workload.size_bytes(self.count, self.element.size_bytes(), self.ranks)
    }

    /// Bytes of one block.
    pub fn block_bytes(&self) -> u64 {
        self.count.saturating_mul(self.element.size_bytes())
    }

    /// What a call that takes `time_us` achieves.
    pub fn bandwidth(&self, time_us: f64) -> Bandwidth {
        self.workload.bandwidth(self.size_bytes(), self.ranks, time_us)
    }

    /// The reduction's name, where contributions combine.
    pub fn redop_name(&self) -> Option<&'static str> {
        self.workload.reduces().then(|| self.redop.name())
    }

    /// The root, where there is one.
    pub fn root_rank(&self) -> Option<u32> {
        self.workload.has_root().then_some(self.root)
    }
}

/// The sizes of a sweep in bytes, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// The smallest.
    pub min_bytes: u64,
    /// The largest.
    pub max_bytes: u64,
    /// From one to the next.
    pub step: Step,
}

/// From one size to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// By multiplication; 1 and 0 end the sweep.
    Factor(u64),
    /// By addition; 0 ends the sweep.
    Add(u64),
}

impl Sizes {
    /// The sizes, ascending.
    pub fn series(self) -> impl Iterator<Item = u64> {
        let Self { min_bytes, max_bytes, step } = self;
        let next = move |&size: &u64| {
            let next = match step {
                Step::Factor(factor) => size.checked_mul(factor)?,
                Step::Add(bytes) => size.checked_add(bytes)?,
            };
            (next > size && next <= max_bytes).then_some(next)
        };
        std::iter::successors((min_bytes <= max_bytes).then_some(min_bytes), next)
    }
}

/// Everything to be called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sweep {
    /// What is done.
    pub workload: Workload,
    /// How many ranks there are.
    pub ranks: u32,
    /// The sizes.
    pub sizes: Sizes,
    /// How counts follow from sizes.
    pub rounding: Rounding,
    /// The types.
    pub elements: Vec<ElementType>,
    /// The reductions; only sum counts where nothing is combined.
    pub redops: Vec<Redop>,
    /// The roots; only rank 0 counts where there is none.
    pub roots: Vec<u32>,
}

impl Sweep {
    /// The calls: for every type, reduction and root all sizes.
    pub fn cases(&self) -> Vec<Case> {
        let Self { workload, ranks, sizes, rounding, elements, redops, roots } = self;
        let nothing = [Redop::Plain(Reduction::Sum)];
        let redops: &[Redop] = if workload.reduces() { redops } else { &nothing };
        let roots: &[u32] = if workload.has_root() { roots } else { &[0] };
        let mut cases = Vec::new();
        for &element in elements {
            for (&redop, &root) in redops.iter().flat_map(|op| roots.iter().map(move |r| (op, r))) {
                cases.extend(sizes.series().map(|size| {
                    let count = workload.count(size, element.size_bytes(), *ranks, *rounding);
                    Case { workload: *workload, element, redop, root, count, ranks: *ranks }
                }));
            }
        }
        cases
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_collective::DataType;

    fn check(min_bytes: u64, max_bytes: u64, step: Step, expected: &[u64]) {
        let sizes = Sizes { min_bytes, max_bytes, step };
        assert_eq!(sizes.series().collect::<Vec<_>>(), expected, "{sizes:?}");
    }

    #[test]
    fn sizes_grow_up_to_the_largest() {
        check(8, 64, Step::Factor(2), &[8, 16, 32, 64]);
        check(8, 65, Step::Factor(3), &[8, 24]);
        check(8, 20, Step::Add(5), &[8, 13, 18]);
        check(8, 64, Step::Factor(1), &[8]);
        check(0, 64, Step::Factor(2), &[0]);
        check(9, 8, Step::Factor(2), &[]);
        check(u64::MAX - 1, u64::MAX, Step::Factor(2), &[u64::MAX - 1]);
    }

    #[test]
    fn a_sweep_is_the_product_of_what_counts() {
        let mut sweep = Sweep {
            workload: Workload::Reduce,
            ranks: 4,
            sizes: Sizes { min_bytes: 8, max_bytes: 16, step: Step::Factor(2) },
            rounding: Rounding::Aligned,
            elements: vec![ElementType(DataType::F32), ElementType(DataType::I8)],
            redops: Redop::ALL.to_vec(),
            roots: vec![0, 3],
        };
        let cases = sweep.cases();
        assert_eq!(cases.len(), 2 * 6 * 2 * 2);
        let counts: Vec<_> = cases.iter().map(|case| case.count).take(2).collect();
        assert_eq!((counts, cases[2].root), (vec![2, 4], 3));
        sweep.workload = Workload::AllGather;
        assert_eq!(sweep.cases().len(), 2 * 2);
        assert_eq!(sweep.cases()[0].redop_name(), None);
    }
}
