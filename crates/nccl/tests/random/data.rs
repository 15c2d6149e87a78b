//! What ranks contribute, and what must come of it, by plain arithmetic.

use super::program::{Collective, Kind, Reduction, Type};

/// What rank `rank` contributes as element `index`: small enough that every result is exact in
/// every type, of as many ranks as programs have.
pub fn contribution(collective: &Collective, rank: usize, index: usize) -> u64 {
    let mixed = (collective.salt ^ (rank as u64) << 32 ^ index as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        >> 40;
    let ranks = collective.ranks as u64;
    match collective.kind {
        Kind::AllReduce(by) | Kind::ReduceScatter(by) | Kind::Reduce(by, _) => match by {
            Reduction::Sum | Reduction::Max | Reduction::Min | Reduction::Scaled => mixed % 4,
            Reduction::Product => 1 + mixed % 2,
            // A multiple of the number of ranks, so that means are whole.
            Reduction::Mean => ranks * (mixed % 3),
        },
        Kind::AllGather
        | Kind::AllToAll
        | Kind::Broadcast(_)
        | Kind::Gather(_)
        | Kind::Scatter(_) => mixed % 100,
    }
}

/// By what rank `rank` scales its contribution.
pub fn scalar(rank: usize) -> u64 {
    1 + rank as u64 % 2
}

/// Element `index` of all contributions combined.
fn combined(collective: &Collective, by: Reduction, index: usize) -> u64 {
    let all = (0..collective.ranks).map(|rank| contribution(collective, rank, index));
    match by {
        Reduction::Sum => all.sum(),
        Reduction::Product => all.product(),
        Reduction::Max => all.max().unwrap_or(0),
        Reduction::Min => all.min().unwrap_or(0),
        Reduction::Mean => all.sum::<u64>() / collective.ranks as u64,
        Reduction::Scaled => all.enumerate().map(|(rank, value)| value * scalar(rank)).sum(),
    }
}

/// The input of rank `rank`.
pub fn input(collective: &Collective, rank: usize) -> Vec<u8> {
    let elements = collective.blocks(rank).0 * collective.count;
    encode(collective.element, (0..elements).map(|index| contribution(collective, rank, index)))
}

/// What rank `rank` must receive.
pub fn output(collective: &Collective, rank: usize) -> Vec<u8> {
    let Collective { kind, count, ranks, element, .. } = *collective;
    if collective.blocks(rank).1 == 0 {
        return Vec::new();
    }
    let block = |from: usize, of: usize| {
        (of * count..(of + 1) * count).map(move |index| contribution(collective, from, index))
    };
    let reduced = |by: Reduction, first: usize| {
        (first..first + count).map(move |index| combined(collective, by, index))
    };
    match kind {
        Kind::AllReduce(by) | Kind::Reduce(by, _) => encode(element, reduced(by, 0)),
        Kind::ReduceScatter(by) => encode(element, reduced(by, rank * count)),
        Kind::AllGather | Kind::Gather(_) => {
            encode(element, (0..ranks).flat_map(|from| block(from, 0)))
        }
        Kind::AllToAll => encode(element, (0..ranks).flat_map(|from| block(from, rank))),
        Kind::Broadcast(root) => encode(element, block(root, 0)),
        Kind::Scatter(root) => encode(element, block(root, rank)),
    }
}

/// `values` as elements of type `element`, which holds them exactly.
pub fn encode(element: Type, values: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        let whole = value.to_le_bytes();
        match element {
            Type::I8 | Type::U8 => bytes.extend(&whole[..1]),
            Type::I32 | Type::U32 => bytes.extend(&whole[..4]),
            Type::I64 | Type::U64 => bytes.extend(&whole),
            Type::F16 => bytes.extend(short_float(value, 10, 15).to_le_bytes()),
            Type::Bf16 => bytes.extend(short_float(value, 7, 127).to_le_bytes()),
            Type::F32 => bytes.extend((value as f32).to_le_bytes()),
            Type::F64 => bytes.extend((value as f64).to_le_bytes()),
        }
    }
    bytes
}

/// `value` as a float of 16 bits, `fraction` of them behind the point.
fn short_float(value: u64, fraction: u32, bias: u64) -> u16 {
    let Some(exponent) = value.checked_ilog2() else { return 0 };
    assert!(value.trailing_zeros() + fraction >= exponent, "{value} is not exact");
    let behind = (value << fraction >> exponent) & ((1 << fraction) - 1);
    ((u64::from(exponent) + bias) << fraction | behind) as u16
}
