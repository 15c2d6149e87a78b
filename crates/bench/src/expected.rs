//! What goes into a call and what must come out, known without computing it at full length.
//!
//! Blocks are periodic: element `e` of a block equals element `e mod P`. What is computed element
//! by element is periodic, too, so that the runtime's plain reference computes one period only, and
//! buffers of any size are checked whole at the speed of comparing memory. `P` is a prime, so that
//! data which lands a power of two too far does not look right.
//!
//! The inputs are such that every partial result of every order of reduction is exact, and results
//! are compared bit for bit. The exception is the average of floats over a number of ranks that is
//! no power of two: a library may scale before it adds, as NCCL and the reference do, or divide
//! after. There, only one rank contributes to each element (all take turns, by
//! [`reference::inputs`]), and the result may be off by [`ExpectedData::tolerance_ulp`].

use msccl_collective::{Collective, Kind, Rank, Reduction};
use msccl_runtime::reference;

use crate::case::Case;
use crate::element::{ElementType, Redop, mulsum_exponent};
use crate::workload::Workload;

/// The longest period in elements: prime, and small enough to compute in no time.
const LONGEST_PERIOD: u64 = 8191;

/// By how much averages of floats may be off, in units of the last place.
const AVERAGE_TOLERANCE_ULP: u64 = 2;

/// One rank's part of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpectedData {
    /// A period of every block of the input.
    pub input: Vec<Vec<u8>>,
    /// A period of every block of the output about which something is promised, from the first on.
    pub output: Vec<Vec<u8>>,
    /// By how many units in the last place an element of the output may be off.
    pub tolerance_ulp: u64,
    /// The type of every element.
    pub element: ElementType,
}

impl ExpectedData {
    /// What `rank` puts in and must get out. The same for the same `seed`.
    pub fn for_rank(case: &Case, rank: u32, seed: u64) -> Self {
        let collective = Collective { kind: kind(case), ranks: case.ranks, chunks: 1 };
        let (element, is_rounded) = (case.element, is_rounded(case));
        let period = usize::try_from(case.count.min(LONGEST_PERIOD)).unwrap_or(0);
        let reduction = plain(case.redop);
        let mut inputs = reference::inputs(&collective, element.0, reduction, period, seed);
        let scaled = (case.workload.reduces() && case.redop == Redop::MulSum)
            .then(|| scale(&mut inputs, element));
        let contributions = scaled.as_ref().unwrap_or(&inputs);
        let promised =
            reference::expected(&collective, element.0, reduction, period, contributions);
        let mut output: Vec<Vec<u8>> = promised
            .into_iter()
            .filter(|part| part.rank == Rank(rank))
            .map(|part| part.bytes.to_vec())
            .collect();
        if case.workload == Workload::SendRecv {
            let sender = previous(rank, case.ranks) as usize;
            output = output.get(sender).cloned().into_iter().collect();
        }
        let blocks = collective.input_chunks(Rank(rank)) as usize;
        let input = in_blocks(inputs.get(rank as usize).map_or(&[], Vec::as_slice), blocks);
        let tolerance_ulp = if is_rounded { AVERAGE_TOLERANCE_ULP } else { 0 };
        Self { input, output, tolerance_ulp, element }
    }

    /// How many elements of `found` are wrong, where `found` is the part of output block `block`
    /// that begins at byte `start` of the block, a multiple of the element's size; and the first of
    /// them, counted from the beginning of the block.
    pub fn wrong(&self, block: usize, start: usize, found: &[u8]) -> (u64, Option<usize>) {
        let period = self.output.get(block).map_or(&[][..], Vec::as_slice);
        if period.is_empty() {
            return (0, None);
        }
        let size = self.element.0.size_bytes();
        let (mut wrong, mut first, mut at) = (0, None, 0);
        while at < found.len() {
            let phase = (start + at) % period.len();
            let length = (period.len() - phase).min(found.len() - at);
            let (expected, found) = (&period[phase..phase + length], &found[at..at + length]);
            if expected != found {
                let pairs = expected.chunks_exact(size).zip(found.chunks_exact(size));
                for (index, _) in pairs.enumerate().filter(|(_, (a, b))| self.differ(a, b)) {
                    wrong += 1;
                    first = first.or(Some((start + at) / size + index));
                }
            }
            at += length;
        }
        (wrong, first)
    }

    /// The element of the output that is promised at `element` of `block`, in hexadecimal.
    pub fn promised_bits(&self, block: usize, element: usize) -> u64 {
        let size = self.element.0.size_bytes();
        let period = self.output.get(block).map_or(&[][..], Vec::as_slice);
        let elements = (period.len() / size).max(1);
        period.chunks_exact(size).nth(element % elements).map_or(0, bits)
    }

    fn differ(&self, expected: &[u8], found: &[u8]) -> bool {
        let layout = self.element.float_layout();
        if expected == found || self.tolerance_ulp == 0 || layout.is_none() {
            return expected != found;
        }
        let sign_bit = 8 * self.element.size_bytes() - 1;
        ordered(expected, sign_bit).abs_diff(ordered(found, sign_bit))
            > u128::from(self.tolerance_ulp)
    }
}

fn kind(case: &Case) -> Kind {
    let root = Rank(case.root);
    match case.workload {
        Workload::AllReduce => Kind::AllReduce,
        Workload::AllGather | Workload::SendRecv | Workload::HyperCube => Kind::AllGather,
        Workload::ReduceScatter => Kind::ReduceScatter,
        Workload::Broadcast => Kind::Broadcast { root },
        Workload::Reduce => Kind::Reduce { root },
        Workload::AllToAll => Kind::AllToAll,
        Workload::Gather => Kind::Gather { root },
        Workload::Scatter => Kind::Scatter { root },
    }
}

/// From whom `rank` receives in a [`Workload::SendRecv`].
pub(crate) fn previous(rank: u32, ranks: u32) -> u32 {
    (rank + ranks - 1) % ranks
}

/// The reduction of the contributions once they are scaled.
fn plain(redop: Redop) -> Reduction {
    match redop {
        Redop::Plain(reduction) => reduction,
        Redop::MulSum => Reduction::Sum,
    }
}

/// Whether the library may round.
fn is_rounded(case: &Case) -> bool {
    let average = case.redop == Redop::Plain(Reduction::Avg);
    let is_float = case.element.float_layout().is_some();
    case.workload.reduces() && average && is_float && !case.ranks.is_power_of_two()
}

/// What `inputs` become once each is multiplied by its rank's factor. Floats are changed so that
/// the products are what the inputs were, whose sum is exact.
fn scale(inputs: &mut [Vec<u8>], element: ElementType) -> Vec<Vec<u8>> {
    let mut products = inputs.to_vec();
    for (rank, (input, product)) in (0..).zip(inputs.iter_mut().zip(&mut products)) {
        let exponent = mulsum_exponent(rank);
        match element.float_layout() {
            None => change(product, element, |_, bits| bits.wrapping_shl(exponent)),
            Some(layout) => {
                let zero = |bits: u64| bits << (64 - 8 * element.size_bytes() + 1) == 0;
                let step = u64::from(exponent) << layout.fraction_bits;
                change(input, element, |_, bits| if zero(bits) { bits } else { bits - step });
            }
        }
    }
    products
}

/// Replaces the bits of every element.
fn change(bytes: &mut [u8], element: ElementType, to: impl Fn(usize, u64) -> u64) {
    let size = element.0.size_bytes();
    for (index, chunk) in bytes.chunks_exact_mut(size).enumerate() {
        let changed = to(index, bits(chunk)).to_le_bytes();
        chunk.copy_from_slice(&changed[..size]);
    }
}

/// At most eight bytes as a number.
pub(crate) fn bits(element: &[u8]) -> u64 {
    element.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// A number that grows with the float of these bits, by one from each to the next.
fn ordered(element: &[u8], sign_bit: u64) -> i128 {
    let bits = bits(element);
    let magnitude = i128::from(bits & !(1 << sign_bit));
    if bits >> sign_bit == 0 { magnitude } else { -magnitude }
}

fn in_blocks(bytes: &[u8], blocks: usize) -> Vec<Vec<u8>> {
    let length = bytes.len() / blocks.max(1);
    (0..blocks).map(|block| bytes[block * length..(block + 1) * length].to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_collective::DataType;

    fn case(workload: Workload, data_type: DataType, redop: Redop, ranks: u32) -> Case {
        let element = ElementType(data_type);
        Case { workload, element, redop, root: 1, count: 100, ranks, offset_bytes: None }
    }

    fn floats(bytes: &[u8]) -> Vec<f32> {
        bytes.chunks_exact(4).map(|it| f32::from_bits(bits(it) as u32)).collect()
    }

    #[test]
    fn a_scaled_sum_counts_odd_ranks_twice() {
        let case = case(Workload::AllReduce, DataType::F32, Redop::MulSum, 3);
        let inputs = [0, 1, 2].map(|rank| floats(&ExpectedData::for_rank(&case, rank, 5).input[0]));
        let output = floats(&ExpectedData::for_rank(&case, 0, 5).output[0]);
        for (element, sum) in output.iter().enumerate() {
            let [a, b, c] = [0, 1, 2].map(|rank| inputs[rank][element]);
            assert!((a + 2.0 * b + c - sum).abs() < 1e-9, "{element}");
        }
    }

    #[test]
    fn a_scaled_sum_of_integers_wraps() {
        let case = case(Workload::AllReduce, DataType::U8, Redop::MulSum, 2);
        let [a, b] = [0, 1].map(|rank| ExpectedData::for_rank(&case, rank, 5));
        for ((a, b), sum) in a.input[0].iter().zip(&b.input[0]).zip(&a.output[0]) {
            assert_eq!(a.wrapping_add(b.wrapping_mul(2)), *sum);
        }
    }

    #[test]
    fn averages_over_three_have_one_contribution_each() {
        let case = case(Workload::AllReduce, DataType::F32, Redop::Plain(Reduction::Avg), 3);
        let all = [0, 1, 2].map(|rank| ExpectedData::for_rank(&case, rank, 5));
        let inputs = all.each_ref().map(|expected| floats(&expected.input[0]));
        for (element, mean) in floats(&all[0].output[0]).into_iter().enumerate() {
            let [one, others @ ..] =
                [0, 1, 2].map(|turn| inputs[(2 * element + turn) % 3][element]);
            assert_eq!(others, [0.0, 0.0]);
            assert!(one != 0.0 && (one / 3.0 - mean).abs() < 1e-6 * one.abs());
        }
        assert_eq!(all[0].tolerance_ulp, 2);
    }

    #[test]
    fn averages_over_powers_of_two_are_exact() {
        let case = case(Workload::AllReduce, DataType::F16, Redop::Plain(Reduction::Avg), 8);
        assert_eq!(ExpectedData::for_rank(&case, 0, 5).tolerance_ulp, 0);
    }

    #[test]
    fn blocks_are_those_of_the_workload() {
        let blocks = |workload, rank| {
            let sum = Redop::Plain(Reduction::Sum);
            let expected = ExpectedData::for_rank(&case(workload, DataType::I32, sum, 4), rank, 5);
            (expected.input.len(), expected.output.len())
        };
        assert_eq!(blocks(Workload::AllReduce, 2), (1, 1));
        assert_eq!(blocks(Workload::AllGather, 2), (1, 4));
        assert_eq!(blocks(Workload::ReduceScatter, 2), (4, 1));
        assert_eq!(blocks(Workload::AllToAll, 2), (4, 4));
        assert_eq!(blocks(Workload::Broadcast, 2), (0, 1));
        assert_eq!(blocks(Workload::Broadcast, 1), (1, 1));
        assert_eq!(blocks(Workload::Reduce, 2), (1, 0));
        assert_eq!(blocks(Workload::Gather, 1), (1, 4));
        assert_eq!(blocks(Workload::Scatter, 2), (0, 1));
        assert_eq!(blocks(Workload::SendRecv, 2), (1, 1));
        assert_eq!(blocks(Workload::HyperCube, 2), (1, 4));
    }

    #[test]
    fn send_receive_brings_the_input_of_the_rank_before() {
        let case = case(Workload::SendRecv, DataType::I64, Redop::Plain(Reduction::Sum), 3);
        assert_eq!(
            ExpectedData::for_rank(&case, 0, 5).output,
            ExpectedData::for_rank(&case, 2, 5).input
        );
    }

    #[test]
    fn wrong_elements_are_counted_and_the_first_is_named() {
        let sum = Redop::Plain(Reduction::Sum);
        let case = Case { count: 20_000, ..case(Workload::AllReduce, DataType::I32, sum, 2) };
        let expected = ExpectedData::for_rank(&case, 0, 5);
        let mut found: Vec<u8> = expected.output[0].iter().copied().cycle().take(80_000).collect();
        assert_eq!(expected.wrong(0, 0, &found), (0, None));
        found[4 * 10_000] ^= 1;
        found[4 * 19_999 + 3] ^= 1;
        assert_eq!(expected.wrong(0, 0, &found), (2, Some(10_000)));
        let second_half = 4 * 15_000;
        assert_eq!(expected.wrong(0, second_half, &found[second_half..]), (1, Some(19_999)));
        // What lies a power of two too far is not right.
        let shifted = &found[4 * 4096..4 * 8192];
        assert!(expected.wrong(0, 0, shifted).0 > 4000);
    }

    #[test]
    fn tolerance_counts_floats_in_between() {
        let is_close = |a: f32, b: f32| {
            let case = case(Workload::AllReduce, DataType::F32, Redop::Plain(Reduction::Avg), 3);
            let expected = ExpectedData::for_rank(&case, 0, 5);
            !expected.differ(&a.to_le_bytes(), &b.to_le_bytes())
        };
        assert!(is_close(1.0, f32::from_bits(1_f32.to_bits() + 2)));
        assert!(!is_close(1.0, f32::from_bits(1_f32.to_bits() + 3)));
        assert!(is_close(0.0, -0.0));
        assert!(!is_close(1.0, -1.0));
    }

    #[test]
    fn nothing_is_wrong_with_nothing() {
        let sum = Redop::Plain(Reduction::Sum);
        let case = Case { count: 0, ..case(Workload::AllToAll, DataType::F64, sum, 2) };
        let expected = ExpectedData::for_rank(&case, 1, 5);
        assert_eq!(expected.wrong(0, 0, &[]), (0, None));
        assert_eq!(expected.input, [[], []] as [[u8; 0]; 2]);
    }
}
