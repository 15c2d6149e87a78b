//! Inputs that repeat, and the table of what their reduction must be.
//!
//! Element `i` of every input is number `i` of the pattern, modulo [`PERIOD`]. So what an element
//! of a result must be does not depend on the size of a call: one table is right for all calls, at
//! any offset, if the order of additions is one.

use msccl_collective::{CollectiveKind, DataType, Rank, Reduction};
use msccl_runtime::oracle::{OracleCall, Workers};
use msccl_runtime::{Combine, RequiredOrder, Scalar};

use crate::Trouble;
use crate::oracle::Oracle;
use crate::random::Random;
use crate::values::{multiplied, rounded, scalar_bits};

/// After how many elements inputs repeat. A prime, so that calls of all sizes and the chunks of
/// their ranks meet the numbers at other places.
pub const PERIOD: usize = 4099;

/// How contributions combine.
#[derive(Clone, Copy, Debug)]
pub enum Sums {
    /// As they are.
    Plain(Reduction),
    /// Each multiplied by the scalar of its rank, then added.
    Scaled,
}

/// What ranks contribute, and what must come of it.
pub struct Pattern {
    /// The type of every element.
    pub data_type: DataType,
    sums: Sums,
    /// By rank.
    inputs: Vec<Vec<u8>>,
    /// The results in the order that is required.
    table: Vec<u8>,
}

impl Pattern {
    /// Numbers that follow from `seed`, and their reduction in `order` on host threads.
    pub fn new(
        data_type: DataType,
        sums: Sums,
        order: RequiredOrder,
        ranks: u32,
        seed: u64,
        oracle: &mut Oracle,
    ) -> Result<Self, Trouble> {
        let mut random = Random::new(seed);
        let inputs: Vec<_> = (0..ranks).map(|_| rounded(data_type, PERIOD, &mut random)).collect();
        let (contributions, reduction) = match sums {
            Sums::Plain(reduction) => (inputs.clone(), reduction),
            Sums::Scaled => {
                let scaled = |(rank, input): (usize, &Vec<u8>)| {
                    multiplied(data_type, input, Rank::from(rank))
                };
                (inputs.iter().enumerate().map(scaled).collect(), Reduction::Sum)
            }
        };
        let call = OracleCall {
            data_type,
            reduction,
            count: PERIOD,
            in_place: false,
            inputs: contributions,
            workers: Workers::Available,
            timeout: None,
        };
        let mut outputs = oracle.outputs(example(order), CollectiveKind::AllReduce, &call)?;
        let table = outputs.swap_remove(0);
        Ok(Self { data_type, sums, inputs, table })
    }

    /// How the call of `rank` combines contributions.
    pub fn combine(&self, rank: Rank) -> Combine {
        match self.sums {
            Sums::Plain(reduction) => Combine::Plain(reduction),
            Sums::Scaled => Combine::Scaled(Scalar::Immediate(scalar_bits(self.data_type, rank))),
        }
    }

    /// `elements` elements of the input of `rank`, from its beginning.
    pub fn input(&self, rank: Rank, elements: usize) -> Vec<u8> {
        let input = &self.inputs[rank.index()];
        let length = elements * self.data_type.size_bytes();
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            bytes.extend_from_slice(&input[..input.len().min(length - bytes.len())]);
        }
        bytes
    }

    /// Fails unless `found` is what the reduction must be from element `first` on.
    pub fn check(&self, found: &[u8], first: usize) -> Result<(), Trouble> {
        let size = self.data_type.size_bytes();
        let (mut done, mut differ, mut example) = (0, 0, None);
        while done < found.len() {
            let start = (first + done / size) % PERIOD * size;
            let length = (self.table.len() - start).min(found.len() - done);
            let (expected, part) = (&self.table[start..][..length], &found[done..][..length]);
            if expected != part {
                let pairs = expected.chunks_exact(size).zip(part.chunks_exact(size)).enumerate();
                for (at, (expected, found)) in pairs.filter(|(_, (a, b))| a != b) {
                    differ += 1;
                    example.get_or_insert_with(|| {
                        let element = first + done / size + at;
                        format!("element {element}: expected {expected:02x?}, found {found:02x?}")
                    });
                }
            }
            done += length;
        }
        match example {
            None => Ok(()),
            Some(example) => {
                let all = found.len() / size;
                Err(format!("{differ} of {all} elements have other bits; {example}").into())
            }
        }
    }

    /// How many results of `other`, which has the same inputs, have other bits.
    pub fn differences(&self, other: &Self) -> usize {
        let size = self.data_type.size_bytes();
        let pairs = self.table.chunks_exact(size).zip(other.table.chunks_exact(size));
        pairs.filter(|(one, other)| one != other).count()
    }

    /// In a few words, for failures.
    pub fn describe(&self) -> String {
        match self.sums {
            Sums::Plain(reduction) => format!("{reduction} of {}", self.data_type),
            Sums::Scaled => format!("scaled sum of {}", self.data_type),
        }
    }
}

/// The built-in algorithm that stands for an order.
fn example(order: RequiredOrder) -> &'static str {
    match order {
        RequiredOrder::Any | RequiredOrder::Flat => "allreduce/two_shot",
        RequiredOrder::Tree => "allreduce/two_shot_balanced",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(order: RequiredOrder) -> Pattern {
        let sum = Sums::Plain(Reduction::Sum);
        Pattern::new(DataType::F32, sum, order, 4, 7, &mut Oracle::new(4, &[])).unwrap()
    }

    /// The bits of element `at` of the sum, added as `add` says.
    fn sum(pattern: &Pattern, at: usize, add: fn([f32; 4]) -> f32) -> [u8; 4] {
        let number = |rank| {
            let bytes = &pattern.input(Rank(rank), PERIOD)[4 * at..][..4];
            f32::from_le_bytes(bytes.try_into().unwrap())
        };
        add([0, 1, 2, 3].map(number)).to_le_bytes()
    }

    #[test]
    fn tables_hold_sums_in_their_order() {
        let (flat, tree) = (pattern(RequiredOrder::Flat), pattern(RequiredOrder::Tree));
        for at in 0..PERIOD {
            let expected = sum(&flat, at, |[a, b, c, d]| a + b + c + d);
            flat.check(&expected, at + 3 * PERIOD).unwrap();
            let expected = sum(&tree, at, |[a, b, c, d]| (a + b) + (c + d));
            tree.check(&expected, at).unwrap();
        }
        assert!(flat.differences(&tree) > PERIOD / 10);
    }

    #[test]
    fn elements_with_other_bits_are_counted() {
        let pattern = pattern(RequiredOrder::Flat);
        let mut bytes = [&pattern.table[4 * 4000..], &pattern.table[..]].concat();
        pattern.check(&bytes, 4000).unwrap();
        bytes[401] ^= 1;
        bytes[4 * 99] ^= 1;
        let error = pattern.check(&bytes, 4000).unwrap_err().to_string();
        assert!(error.starts_with("2 of 4198 elements have other bits; element 4099"), "{error}");
    }
}
