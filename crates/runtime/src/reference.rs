//! What a call must give, computed the plain way: element by element from the collective's promise.
//!
//! The reference shares no code with the executors. It combines contributions (of an average of
//! floats, the rounded share of each) exactly and rounds once; an algorithm may combine them in any
//! order and round after every step. The two agree bit for bit wherever every partial result is
//! exact, and [`inputs`] are such that it is.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use msccl_collective::{Collective, Contribution, DataType, Kind, Promise, Rank, Reduction};

use crate::number::{Number, exact_integers};

/// A part of an output about which the collective promises something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Promised {
    /// Whose output.
    pub rank: Rank,
    /// The first element of the part.
    pub start: usize,
    /// The elements.
    pub bytes: Arc<[u8]>,
}

/// The elements of chunk `index` of an input or output, for blocks of `count` elements.
fn elements(collective: &Collective, index: u32, count: usize) -> Range<usize> {
    let chunks = collective.chunks.max(1) as usize;
    let (block, column) = (index as usize / chunks, index as usize % chunks);
    let length = count.div_ceil(chunks);
    let at = |column: usize| block * count + (column * length).min(count);
    at(column)..at(column + 1)
}

/// Everything that the outputs of a call on `inputs` must hold.
pub fn expected(
    collective: &Collective,
    data_type: DataType,
    reduction: Reduction,
    count: usize,
    inputs: &[Vec<u8>],
) -> Vec<Promised> {
    let sum = |promise| {
        let sources: Vec<_> = contributions(collective, promise)
            .into_iter()
            .map(|Contribution { rank, index }| {
                let range = elements(collective, index, count);
                &inputs[rank.index()][bytes_of(range, data_type)]
            })
            .collect();
        combined(&sources, data_type, reduction).into()
    };
    // All ranks may share one sum, which need not be formed for each.
    let mut of_every_rank = BTreeMap::<u32, Arc<[u8]>>::new();
    let mut all = Vec::new();
    for rank in collective.all_ranks() {
        for index in 0..collective.output_chunks(rank) {
            let Some(promise) = collective.promised(rank, index) else { continue };
            let bytes = match promise {
                Promise::EveryRank { index } => {
                    of_every_rank.entry(index).or_insert_with(|| sum(promise)).clone()
                }
                Promise::One(_) | Promise::Sum(_) => sum(promise),
            };
            let start = elements(collective, index, count).start;
            all.push(Promised { rank, start, bytes });
        }
    }
    all
}

fn bytes_of(elements: Range<usize>, data_type: DataType) -> Range<usize> {
    let size = data_type.size_bytes();
    elements.start * size..elements.end * size
}

fn contributions(collective: &Collective, promise: Promise) -> Vec<Contribution> {
    match promise {
        Promise::One(only) => vec![only],
        Promise::EveryRank { index } => {
            collective.all_ranks().map(|rank| Contribution { rank, index }).collect()
        }
        Promise::Sum(sum) => sum,
    }
}

/// The sources, all of the same length, combined element by element.
fn combined(sources: &[&[u8]], data_type: DataType, reduction: Reduction) -> Vec<u8> {
    let first = match sources {
        [] => return Vec::new(),
        [only] => return only.to_vec(),
        [first, ..] => first,
    };
    let mut bytes = Vec::with_capacity(first.len());
    for element in 0..first.len() / data_type.size_bytes() {
        let at = bytes_of(element..element + 1, data_type);
        let numbers = sources.iter().map(|source| {
            let number = Number::load(data_type, &source[at.clone()]);
            match reduction {
                Reduction::Avg => number.share(data_type, sources.len()),
                Reduction::Sum | Reduction::Prod | Reduction::Min | Reduction::Max => number,
            }
        });
        let result = numbers.reduce(|a, b| a.combine(reduction, b)).unwrap_or(Number::Float(0.0));
        let result = match reduction {
            Reduction::Avg => result.average(data_type, sources.len()),
            Reduction::Sum | Reduction::Prod | Reduction::Min | Reduction::Max => result,
        };
        result.store(data_type, &mut bytes);
    }
    bytes
}

/// Pseudo-random inputs for a call, the same for the same `seed`, such that every partial result of
/// every order of combination is exact in `data_type`. What is only copied has any bits.
pub fn inputs(
    collective: &Collective,
    data_type: DataType,
    reduction: Reduction,
    count: usize,
    seed: u64,
) -> Vec<Vec<u8>> {
    let source = Source::new(collective, data_type, reduction, seed);
    let input = |rank: Rank| {
        let mut bytes = Vec::new();
        for index in 0..collective.input_chunks(rank) {
            let id = match collective.kind {
                Kind::Custom(_) => rank.0 * collective.input_chunks(rank) + index,
                _ => rank.0,
            };
            for element in elements(collective, index, count) {
                source.append(u64::from(id), element as u64, &mut bytes);
            }
        }
        bytes
    };
    collective.all_ranks().map(input).collect()
}

/// `elements` pseudo-random numbers, the same for the same `seed`, whose sums are rounded, so that
/// the bits of a sum depend on the order of its additions: floats of either sign and several
/// magnitudes around 1, so small that sums over some dozens of ranks stay finite; any integers.
///
/// ```
/// use msccl_collective::DataType;
/// use msccl_runtime::reference::rounded;
///
/// let bytes = rounded(DataType::F32, 1000, 7);
/// let numbers = bytes.chunks_exact(4).map(|of| f32::from_ne_bytes([of[0], of[1], of[2], of[3]]));
/// let numbers: Vec<f32> = numbers.collect();
/// assert_ne!(numbers.iter().sum::<f32>(), numbers.iter().rev().sum::<f32>());
/// ```
pub fn rounded(data_type: DataType, elements: usize, seed: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(elements * data_type.size_bytes());
    // Types of one byte have a largest number that some dozens of larger ones would exceed.
    let magnitudes = if data_type.size_bytes() == 1 { 4 } else { 9 };
    for element in 0..elements as u64 {
        let random = mix(mix(seed) ^ element);
        let number = if exact_integers(data_type).is_none() {
            Number::Integer(i128::from(random))
        } else {
            let sign = if random & 1 == 0 { 1.0 } else { -1.0 };
            let exponent = (random >> 1) % magnitudes;
            let fraction = (random >> 11) as f64 / (1_u64 << 53) as f64;
            Number::Float(sign * (1.0 + fraction) * 2_f64.powi(exponent as i32 - 3))
        };
        number.store(data_type, &mut bytes);
    }
    bytes
}

/// Where inputs come from. Contributions to one sum have different ids and the same element.
struct Source {
    /// Whether contributions are only copied, and so may have any bits.
    copies: bool,
    data_type: DataType,
    reduction: Reduction,
    /// What sums may reach; `None` where any bits will do.
    exact: Option<u64>,
    /// How many ids there are.
    ids: u64,
    seed: u64,
}

impl Source {
    fn new(collective: &Collective, data_type: DataType, reduction: Reduction, seed: u64) -> Self {
        let of_rank = match &collective.kind {
            Kind::Custom(custom) => custom.input_chunks,
            _ => 1,
        };
        let ids = u64::from(collective.ranks) * u64::from(of_rank);
        let copies = !collective.reduces();
        let exact = exact_integers(data_type);
        Self { copies, data_type, reduction, exact, ids: ids.max(1), seed }
    }

    /// Appends element `element` of contribution `id`.
    fn append(&self, id: u64, element: u64, bytes: &mut Vec<u8>) {
        let random = mix(self.seed ^ mix(id ^ mix(element)));
        if self.copies {
            bytes.extend(&random.to_ne_bytes()[..self.data_type.size_bytes()]);
        } else {
            self.number(id, element, random).store(self.data_type, bytes);
        }
    }

    fn number(&self, id: u64, element: u64, random: u64) -> Number {
        let Some(limit) = self.exact else {
            // An odd factor keeps a product from ending at zero.
            let odd = u64::from(self.reduction == Reduction::Prod);
            return Number::Integer(i128::from(random | odd));
        };
        let sign = if random & 1 == 0 { 1.0 } else { -1.0 };
        let turn = (id + element) % self.ids;
        Number::Float(match self.reduction {
            // One factor of 2 in every product.
            Reduction::Prod => sign * if turn == 0 { 2.0 } else { 1.0 },
            Reduction::Min | Reduction::Max => sign * between(random >> 1, limit.min(100)),
            // Shares are not exact: one contribution to every average.
            Reduction::Avg if !self.ids.is_power_of_two() => {
                if turn == 0 {
                    sign * between(random >> 1, limit.min(100))
                } else {
                    0.0
                }
            }
            // Terms so small that all of them together stay within the limit.
            Reduction::Sum | Reduction::Avg if self.ids <= limit => {
                sign * between(random >> 1, (limit / self.ids).min(100))
            }
            // Too many terms for that: only as many as the limit allows are not zero.
            Reduction::Sum | Reduction::Avg => {
                if turn < limit {
                    sign
                } else {
                    0.0
                }
            }
        })
    }
}

/// An integer from 1 to `limit`.
fn between(random: u64, limit: u64) -> f64 {
    (random % limit.max(1) + 1) as f64
}

/// A bijection on 64 bits that leaves no visible pattern (the finaliser of SplitMix64).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_combination_agrees() {
        let reductions = [Reduction::Sum, Reduction::Prod];
        for (ranks, data_type) in
            [2, 8, 300].into_iter().flat_map(|n| DataType::ALL.map(|t| (n, t)))
        {
            let collective = Collective { kind: Kind::AllReduce, ranks, chunks: 1 };
            for reduction in reductions {
                let inputs = inputs(&collective, data_type, reduction, 40, 1);
                let forward = rounded_fold(inputs.iter(), data_type, reduction);
                let backward = rounded_fold(inputs.iter().rev(), data_type, reduction);
                assert_eq!(forward, backward, "{data_type} {reduction} over {ranks}");
                let expected = expected(&collective, data_type, reduction, 40, &inputs);
                assert_eq!(*expected[0].bytes, *forward, "{data_type} {reduction} over {ranks}");
            }
        }
    }

    /// Combines two at a time, rounding after each.
    fn rounded_fold<'a>(
        inputs: impl Iterator<Item = &'a Vec<u8>>,
        data_type: DataType,
        reduction: Reduction,
    ) -> Vec<u8> {
        let pairwise = |a: Vec<u8>, b: Vec<u8>| combined(&[&a, &b], data_type, reduction);
        inputs.cloned().reduce(pairwise).unwrap()
    }

    #[test]
    fn chunks_of_a_gathered_output_follow_their_block() {
        let collective = Collective { kind: Kind::AllGather, ranks: 2, chunks: 4 };
        let ranges: Vec<_> = (0..8).map(|index| elements(&collective, index, 5)).collect();
        assert_eq!(ranges, [0..2, 2..4, 4..5, 5..5, 5..7, 7..9, 9..10, 10..10]);
    }

    #[test]
    fn an_all_gather_is_the_inputs_in_order() {
        let collective = Collective { kind: Kind::AllGather, ranks: 3, chunks: 2 };
        let inputs = inputs(&collective, DataType::F16, Reduction::Sum, 5, 7);
        let expected = expected(&collective, DataType::F16, Reduction::Sum, 5, &inputs);
        let of_last = expected.iter().filter(|part| part.rank == Rank(2));
        let bytes: Vec<u8> = of_last.flat_map(|part| part.bytes.to_vec()).collect();
        assert_eq!(bytes, inputs.concat());
    }
}
