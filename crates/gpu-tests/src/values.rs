//! Numbers for cases that the reference does not make: sums that are rounded, so that the order of
//! every addition shows in the bits, extreme ones, and scalars.

use msccl_collective::{DataType, Rank};
use msccl_runtime::reference;

use crate::random::Random;

/// Some bits of a floating-point number in memory.
struct FloatLayout {
    sign_bit: u32,
    /// The bits of the largest finite number.
    largest: u64,
}

/// `elements` elements of `data_type`: any bits for integers, numbers of many magnitudes else.
pub fn rounded(data_type: DataType, elements: usize, random: &mut Random) -> Vec<u8> {
    reference::rounded(data_type, elements, random.next())
}

/// `elements` elements of `data_type`, a third of them the largest or the least of either sign, the
/// others any finite ones.
pub fn extreme(data_type: DataType, elements: usize, random: &mut Random) -> Vec<u8> {
    let size = data_type.size_bytes();
    let mut bytes = Vec::with_capacity(elements * size);
    let float_layout = float_layout(data_type);
    for _ in 0..elements {
        let bits = random.next();
        let bits = match &float_layout {
            None => [bits, u64::MAX, 1 << (8 * size - 1), !(1 << (8 * size - 1))][random.below(4)],
            Some(FloatLayout { sign_bit, largest }) => {
                let magnitude = match random.below(6) {
                    0 => *largest,
                    1 => 1,
                    _ => bits % (largest + 1),
                };
                (bits >> 63) << sign_bit | magnitude
            }
        };
        bytes.extend(&bits.to_le_bytes()[..size]);
    }
    bytes
}

fn float_layout(data_type: DataType) -> Option<FloatLayout> {
    let (sign_bit, largest) = match data_type {
        DataType::I8
        | DataType::U8
        | DataType::I32
        | DataType::U32
        | DataType::I64
        | DataType::U64 => return None,
        DataType::F16 => (15, 0x7bff),
        DataType::Bf16 => (15, 0x7f7f),
        DataType::F32 => (31, 0x7f7f_ffff),
        DataType::F64 => (63, 0x7fef_ffff_ffff_ffff),
        DataType::F8E4M3 => (7, 0x7e),
        DataType::F8E5M2 => (7, 0x7b),
    };
    Some(FloatLayout { sign_bit, largest })
}

/// By what the contribution of a rank is multiplied.
enum Factor {
    Integer(u64),
    Wide(f64),
    /// 1 or -1, in a type so narrow that any other factor would round: where its sign bit is, and
    /// the bits of 1.
    Sign {
        negative: bool,
        sign_bit: u32,
        one: u64,
    },
}

/// The scalar of `rank`: such that exact sums stay exact.
fn factor(data_type: DataType, rank: Rank) -> Factor {
    let odd = rank.0 % 2 == 1;
    let sign = |sign_bit, one| Factor::Sign { negative: odd, sign_bit, one };
    match data_type {
        DataType::I8
        | DataType::U8
        | DataType::I32
        | DataType::U32
        | DataType::I64
        | DataType::U64 => Factor::Integer(u64::from(rank.0 % 3) + 1),
        DataType::F32 | DataType::F64 => Factor::Wide([1.0, 2.0, -0.5][rank.index() % 3]),
        DataType::F16 => sign(15, 0x3c00),
        DataType::Bf16 => sign(15, 0x3f80),
        DataType::F8E4M3 => sign(7, 0x38),
        DataType::F8E5M2 => sign(7, 0x3c),
    }
}

/// The bits of the scalar of `rank`, in the low bytes.
pub fn scalar_bits(data_type: DataType, rank: Rank) -> u64 {
    match factor(data_type, rank) {
        Factor::Integer(value) => value,
        Factor::Wide(value) if data_type == DataType::F32 => u64::from((value as f32).to_bits()),
        Factor::Wide(value) => value.to_bits(),
        Factor::Sign { negative, sign_bit, one } => u64::from(negative) << sign_bit | one,
    }
}

/// `input`, multiplied by the scalar of `rank`.
pub fn multiplied(data_type: DataType, input: &[u8], rank: Rank) -> Vec<u8> {
    let size = data_type.size_bytes();
    let product = |element: &[u8]| {
        let mut bits = [0; 8];
        bits[..size].copy_from_slice(element);
        let bits = u64::from_le_bytes(bits);
        let product = match factor(data_type, rank) {
            Factor::Integer(value) => bits.wrapping_mul(value),
            Factor::Wide(value) if data_type == DataType::F32 => {
                u64::from((f32::from_bits(bits as u32) * value as f32).to_bits())
            }
            Factor::Wide(value) => (f64::from_bits(bits) * value).to_bits(),
            Factor::Sign { negative, sign_bit, one: _ } => bits ^ u64::from(negative) << sign_bit,
        };
        product.to_le_bytes()
    };
    input.chunks_exact(size).flat_map(|element| product(element).into_iter().take(size)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_multiplied_in_their_type() {
        let check = |data_type, input: &[u8], rank, expected: &[u8]| {
            assert_eq!(multiplied(data_type, input, Rank(rank)), expected, "{data_type}");
        };
        check(DataType::U8, &[100, 7], 2, &[44, 21]);
        check(DataType::F32, &3f32.to_le_bytes(), 2, &(-1.5f32).to_le_bytes());
        check(DataType::F64, &3f64.to_le_bytes(), 1, &6f64.to_le_bytes());
        check(DataType::F8E4M3, &[0x40], 1, &[0xc0]);
    }

    #[test]
    fn numbers_are_finite_and_vary() {
        let bytes = rounded(DataType::F32, 1000, &mut Random::new(7));
        let numbers = bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]));
        let numbers: Vec<_> = numbers.collect();
        assert!(numbers.iter().all(|x| x.is_normal() && x.abs() < 256.0));
        assert!(numbers.iter().any(|x| *x < 0.0) && numbers.iter().any(|x| x.fract() != 0.0));
    }
}
