//! Inputs whose sums are rounded, so that the order of every addition shows in the bits.

use msccl_collective::DataType;

use crate::dice::Dice;

/// The parts of a floating-point number in memory, and which exponents are used: around 1, so that
/// sums of few numbers neither overflow nor vanish.
struct Layout {
    mantissa_bits: u32,
    exponents: std::ops::Range<u64>,
    sign_bit: u32,
}

/// `elements` elements of `data_type`: any bits for integers, numbers of many magnitudes else.
pub fn rounded(data_type: DataType, elements: usize, dice: &mut Dice) -> Vec<u8> {
    let size = data_type.size_bytes();
    let layout = layout(data_type);
    let mut bytes = Vec::with_capacity(elements * size);
    for _ in 0..elements {
        let bits = match &layout {
            None => dice.next(),
            Some(layout) => layout.number(dice),
        };
        bytes.extend(&bits.to_le_bytes()[..size]);
    }
    bytes
}

fn layout(data_type: DataType) -> Option<Layout> {
    let (mantissa_bits, exponents, sign_bit) = match data_type {
        DataType::I8
        | DataType::U8
        | DataType::I32
        | DataType::U32
        | DataType::I64
        | DataType::U64 => return None,
        DataType::F16 => (10, 10..19, 15),
        DataType::Bf16 => (7, 118..135, 15),
        DataType::F32 => (23, 118..135, 31),
        DataType::F64 => (52, 1010..1036, 63),
        DataType::F8E4M3 => (3, 4..10, 7),
        DataType::F8E5M2 => (2, 12..18, 7),
    };
    Some(Layout { mantissa_bits, exponents, sign_bit })
}

impl Layout {
    fn number(&self, dice: &mut Dice) -> u64 {
        let random = dice.next();
        let mantissa = random & ((1 << self.mantissa_bits) - 1);
        let span = self.exponents.end - self.exponents.start;
        let exponent = self.exponents.start + (random >> 53) % span;
        let sign = random >> 52 & 1;
        sign << self.sign_bit | exponent << self.mantissa_bits | mantissa
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_finite_and_vary() {
        let bytes = rounded(DataType::F32, 1000, &mut Dice::new(7));
        let numbers = bytes.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]));
        let numbers: Vec<_> = numbers.collect();
        assert!(numbers.iter().all(|x| x.is_normal() && x.abs() < 256.0));
        assert!(numbers.iter().any(|x| *x < 0.0) && numbers.iter().any(|x| x.fract() != 0.0));
    }
}
