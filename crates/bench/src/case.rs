//! The calls to make: a sweep over sizes, types, reductions and roots.

use std::fmt;
use std::str::FromStr;

use msccl_collective::Reduction;
use serde::{Deserialize, Serialize};

use crate::element::{ElementType, Redop};
use crate::workload::{Bandwidth, Rounding, Workload};

/// Of addresses from which an offset counts; those of whole allocations are such.
const ALIGNMENT_BYTES: u64 = 256;

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
    /// How far the buffers of each call lie behind addresses that are multiples of 256; if it is
    /// not said, successive calls lie one right behind the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_bytes: Option<u64>,
}

impl Case {
    /// Bytes of the larger buffer.
    pub fn size_bytes(&self) -> u64 {
        self.workload.size_bytes(self.count, self.element.size_bytes(), self.ranks)
    }

    /// From one such call to the next, if they lie behind one another; what precedes the first
    /// included.
    pub fn stride_bytes(&self) -> u64 {
        let size = self.size_bytes();
        let aligned = |offset: u64| {
            let bytes = size.saturating_add(offset);
            bytes.checked_next_multiple_of(ALIGNMENT_BYTES).unwrap_or(u64::MAX)
        };
        self.offset_bytes.map_or(size, aligned)
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
    /// By multiplication; no more than 1 ends the sweep.
    Factor(Factor),
    /// By addition; 0 ends the sweep.
    Add(u64),
}

impl Step {
    /// The size behind `size`; `None` if it exceeds 64 bits.
    fn next(self, size: u64) -> Option<u64> {
        match self {
            Step::Factor(factor) => factor.times(size),
            Step::Add(bytes) => size.checked_add(bytes),
        }
    }
}

/// A number such as 2, 1.4 or 7/5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Factor {
    numerator: u64,
    denominator: u64,
}

impl Factor {
    /// A whole number.
    pub fn whole(number: u64) -> Self {
        Self { numerator: number, denominator: 1 }
    }

    /// Whether it is more than 1.
    pub fn grows(self) -> bool {
        self.numerator > self.denominator
    }

    /// The least size that it makes larger, where it is more than 1.
    pub fn least_bytes(self) -> u64 {
        let Self { numerator, denominator } = self;
        denominator.div_ceil(numerator.saturating_sub(denominator).max(1))
    }

    /// As often `bytes`, without what is less than a byte; `None` if that exceeds 64 bits.
    fn times(self, bytes: u64) -> Option<u64> {
        let Self { numerator, denominator } = self;
        let product = u128::from(bytes) * u128::from(numerator) / u128::from(denominator.max(1));
        u64::try_from(product).ok()
    }
}

impl FromStr for Factor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected a factor such as 2, 1.4 or 7/5, found `{text}`");
        let number = |digits: &str| {
            let is_number =
                !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
            digits.parse::<u64>().ok().filter(|_| is_number).ok_or_else(wrong)
        };
        let (numerator, denominator) = match (text.split_once('/'), text.split_once('.')) {
            (Some((above, below)), _) => (number(above)?, number(below)?),
            (None, Some((whole, part))) if part.len() <= 9 => {
                (number(&format!("{whole}{part}"))?, 10_u64.pow(part.len() as u32))
            }
            (None, Some(_)) => return Err(wrong()),
            (None, None) => (number(text)?, 1),
        };
        if denominator == 0 { Err(wrong()) } else { Ok(Self { numerator, denominator }) }
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { numerator, denominator } = self;
        write!(f, "{}", *numerator as f64 / *denominator as f64)
    }
}

impl Sizes {
    /// Whether it gets from the smallest size towards the largest.
    pub fn grows(self) -> bool {
        let Self { min_bytes, max_bytes, step } = self;
        min_bytes >= max_bytes || step.next(min_bytes).is_none_or(|next| next > min_bytes)
    }

    /// The sizes, ascending.
    pub fn series(self) -> impl Iterator<Item = u64> {
        let Self { min_bytes, max_bytes, step } = self;
        let next =
            move |&size: &u64| step.next(size).filter(|&next| next > size && next <= max_bytes);
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
    /// Where buffers lie.
    pub offset_bytes: Option<u64>,
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
        let Self { workload, ranks, sizes, rounding, offset_bytes, elements, redops, roots } = self;
        let nothing = [Redop::Plain(Reduction::Sum)];
        let redops: &[Redop] = if workload.reduces() { redops } else { &nothing };
        let roots: &[u32] = if workload.has_root() { roots } else { &[0] };
        let mut cases = Vec::new();
        for &element in elements {
            for (&redop, &root) in redops.iter().flat_map(|op| roots.iter().map(move |r| (op, r))) {
                cases.extend(sizes.series().map(|size| {
                    let count = workload.count(size, element.size_bytes(), *ranks, *rounding);
                    let (workload, ranks, offset_bytes) = (*workload, *ranks, *offset_bytes);
                    Case { workload, element, redop, root, count, ranks, offset_bytes }
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
        let by = |text: &str| Step::Factor(text.parse().unwrap());
        check(8, 64, by("2"), &[8, 16, 32, 64]);
        check(8, 65, by("3"), &[8, 24]);
        check(1000, 4000, by("1.4"), &[1000, 1400, 1960, 2744, 3841]);
        check(1000, 4000, by("7/5"), &[1000, 1400, 1960, 2744, 3841]);
        check(1, 9, by("1.4"), &[1]);
        check(8, 20, Step::Add(5), &[8, 13, 18]);
        check(8, 64, by("1"), &[8]);
        check(0, 64, by("2"), &[0]);
        check(9, 8, by("2"), &[]);
        check(u64::MAX - 1, u64::MAX, by("2"), &[u64::MAX - 1]);
    }

    #[test]
    fn sweeps_that_stand_still_are_known() {
        let grows = |min_bytes, max_bytes, step| Sizes { min_bytes, max_bytes, step }.grows();
        let by = |text: &str| Step::Factor(text.parse().unwrap());
        assert!(grows(8, 64, by("2")) && grows(8, 9, by("2")) && grows(0, 0, by("2")));
        assert!(!grows(0, 64, by("2")) && !grows(8, 64, by("1")) && !grows(1, 9, by("1.4")));
        assert!(grows(0, 64, Step::Add(4)) && !grows(8, 64, Step::Add(0)));
        for text in ["2", "1.4", "7/5", "1.01", "1.000000001"] {
            let factor: Factor = text.parse().unwrap();
            let least = factor.least_bytes();
            assert!(grows(least, u64::MAX, Step::Factor(factor)), "{text}");
            assert!(!grows(least - 1, u64::MAX, Step::Factor(factor)), "{text}");
        }
    }

    #[test]
    fn factors_are_numbers_in_either_spelling() {
        let spelt = |text: &str| text.parse::<Factor>().map(|factor| factor.to_string());
        assert_eq!(spelt("7/5").as_deref(), Ok("1.4"));
        assert_eq!(spelt("1.4").as_deref(), Ok("1.4"));
        assert_eq!(spelt("2"), Ok(Factor::whole(2).to_string()));
        for wrong in ["", ".", "x", "-2", "1e3", "7/0", "1.0123456789"] {
            assert!(spelt(wrong).unwrap_err().contains("such as 2, 1.4 or 7/5"), "{wrong}");
        }
    }

    #[test]
    fn a_sweep_is_the_product_of_what_counts() {
        let mut sweep = Sweep {
            workload: Workload::Reduce,
            ranks: 4,
            sizes: Sizes { min_bytes: 8, max_bytes: 16, step: Step::Factor(Factor::whole(2)) },
            rounding: Rounding::Aligned,
            offset_bytes: None,
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
