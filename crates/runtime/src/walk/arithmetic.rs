//! Reductions over bytes: one object for each pair of data type and reduction.

use std::marker::PhantomData;
use std::num::NonZeroU32;

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use msccl_collective::{DataType, Reduction};

use super::element::{Element, Wide};

/// Elements that are combined at a time, so that sums stay in the nearest cache.
const TILE: usize = 512;

/// How elements of one type combine under one reduction.
pub(crate) trait Arithmetic: Send + Sync {
    /// Combines operands in order, element by element, divides by `divisor` if there is one, rounds
    /// once, and writes `into`. The operands stand one after another in
    /// `sources`, each as long as `into`.
    fn combine(&self, sources: &[u8], divisor: Option<NonZeroU32>, into: &mut [u8]);
}

/// The arithmetic of `reduction` on elements of `data_type`.
pub(crate) fn arithmetic(data_type: DataType, reduction: Reduction) -> &'static dyn Arithmetic {
    match data_type {
        DataType::I8 => of::<i8>(reduction),
        DataType::U8 => of::<u8>(reduction),
        DataType::I32 => of::<i32>(reduction),
        DataType::U32 => of::<u32>(reduction),
        DataType::I64 => of::<i64>(reduction),
        DataType::U64 => of::<u64>(reduction),
        DataType::F16 => of::<f16>(reduction),
        DataType::Bf16 => of::<bf16>(reduction),
        DataType::F32 => of::<f32>(reduction),
        DataType::F64 => of::<f64>(reduction),
        DataType::F8E4M3 => of::<F8E4M3>(reduction),
        DataType::F8E5M2 => of::<F8E5M2>(reduction),
    }
}

/// What multiplies elements of `data_type`, in place, by a scalar of that type: each is widened,
/// multiplied and rounded once.
pub(crate) fn scaler(data_type: DataType) -> fn(elements: &mut [u8], scalar: &[u8]) {
    match data_type {
        DataType::I8 => scale::<i8>,
        DataType::U8 => scale::<u8>,
        DataType::I32 => scale::<i32>,
        DataType::U32 => scale::<u32>,
        DataType::I64 => scale::<i64>,
        DataType::U64 => scale::<u64>,
        DataType::F16 => scale::<f16>,
        DataType::Bf16 => scale::<bf16>,
        DataType::F32 => scale::<f32>,
        DataType::F64 => scale::<f64>,
        DataType::F8E4M3 => scale::<F8E4M3>,
        DataType::F8E5M2 => scale::<F8E5M2>,
    }
}

/// What divides elements of `data_type`, in place, by a number of contributions, as an average of
/// integers is divided.
pub(crate) fn divider(data_type: DataType) -> fn(elements: &mut [u8], divisor: NonZeroU32) {
    match data_type {
        DataType::I8 => divide::<i8>,
        DataType::U8 => divide::<u8>,
        DataType::I32 => divide::<i32>,
        DataType::U32 => divide::<u32>,
        DataType::I64 => divide::<i64>,
        DataType::U64 => divide::<u64>,
        DataType::F16 => divide::<f16>,
        DataType::Bf16 => divide::<bf16>,
        DataType::F32 => divide::<f32>,
        DataType::F64 => divide::<f64>,
        DataType::F8E4M3 => divide::<F8E4M3>,
        DataType::F8E5M2 => divide::<F8E5M2>,
    }
}

/// One over `of`, rounded to an element of `data_type`, in the first bytes.
pub(crate) fn reciprocal(data_type: DataType, of: NonZeroU32) -> [u8; 8] {
    match data_type {
        DataType::I8 => one_over::<i8>(of),
        DataType::U8 => one_over::<u8>(of),
        DataType::I32 => one_over::<i32>(of),
        DataType::U32 => one_over::<u32>(of),
        DataType::I64 => one_over::<i64>(of),
        DataType::U64 => one_over::<u64>(of),
        DataType::F16 => one_over::<f16>(of),
        DataType::Bf16 => one_over::<bf16>(of),
        DataType::F32 => one_over::<f32>(of),
        DataType::F64 => one_over::<f64>(of),
        DataType::F8E4M3 => one_over::<F8E4M3>(of),
        DataType::F8E5M2 => one_over::<F8E5M2>(of),
    }
}

fn one_over<E: Element>(of: NonZeroU32) -> [u8; 8] {
    let mut bytes = [0; 8];
    E::narrow(E::Wide::ONE.divide(of)).store(&mut bytes);
    bytes
}

fn divide<E: Element>(elements: &mut [u8], divisor: NonZeroU32) {
    for element in elements.chunks_exact_mut(size_of::<E>()) {
        E::narrow(E::load(element).widen().divide(divisor)).store(element);
    }
}

fn scale<E: Element>(elements: &mut [u8], scalar: &[u8]) {
    let scalar = E::load(scalar).widen();
    for element in elements.chunks_exact_mut(size_of::<E>()) {
        E::narrow(E::load(element).widen().prod(scalar)).store(element);
    }
}

fn of<E: Element>(reduction: Reduction) -> &'static dyn Arithmetic {
    match reduction {
        // What an average does beside adding follows from steps: see [`super::Average`].
        Reduction::Sum | Reduction::Avg => &Typed::<E, Sum>(PhantomData),
        Reduction::Prod => &Typed::<E, Prod>(PhantomData),
        Reduction::Min => &Typed::<E, Min>(PhantomData),
        Reduction::Max => &Typed::<E, Max>(PhantomData),
    }
}

/// How two wide values combine.
trait Operator: Send + Sync + 'static {
    fn apply<W: Wide>(a: W, b: W) -> W;
}

struct Sum;
struct Prod;
struct Min;
struct Max;

impl Operator for Sum {
    #[inline]
    fn apply<W: Wide>(a: W, b: W) -> W {
        a.sum(b)
    }
}

impl Operator for Prod {
    #[inline]
    fn apply<W: Wide>(a: W, b: W) -> W {
        a.prod(b)
    }
}

impl Operator for Min {
    #[inline]
    fn apply<W: Wide>(a: W, b: W) -> W {
        a.smaller(b)
    }
}

impl Operator for Max {
    #[inline]
    fn apply<W: Wide>(a: W, b: W) -> W {
        a.larger(b)
    }
}

/// Elements of type `E` under operator `O`.
struct Typed<E, O>(PhantomData<(E, O)>);

impl<E: Element, O: Operator> Arithmetic for Typed<E, O> {
    fn combine(&self, sources: &[u8], divisor: Option<NonZeroU32>, into: &mut [u8]) {
        let length = into.len();
        if sources.len() == length && divisor.is_none() {
            // Not through the wide type, which may change the payload of a NaN.
            return into.copy_from_slice(sources);
        }
        let tile_bytes = TILE * size_of::<E>();
        for (tile, into) in into.chunks_mut(tile_bytes).enumerate() {
            let range = tile * tile_bytes..tile * tile_bytes + into.len();
            let operands = sources.chunks_exact(length).map(|operand| &operand[range.clone()]);
            combine_tile::<E, O>(operands, divisor, into);
        }
    }
}

fn combine_tile<'a, E: Element, O: Operator>(
    mut operands: impl Iterator<Item = &'a [u8]>,
    divisor: Option<NonZeroU32>,
    into: &mut [u8],
) {
    let mut wide = [E::Wide::default(); TILE];
    let first = operands.next().unwrap_or_default();
    for (sum, bytes) in wide.iter_mut().zip(first.chunks_exact(size_of::<E>())) {
        *sum = E::load(bytes).widen();
    }
    for source in operands {
        for (sum, bytes) in wide.iter_mut().zip(source.chunks_exact(size_of::<E>())) {
            *sum = O::apply(*sum, E::load(bytes).widen());
        }
    }
    for (&sum, bytes) in wide.iter().zip(into.chunks_exact_mut(size_of::<E>())) {
        let value = divisor.map_or(sum, |divisor| sum.divide(divisor));
        E::narrow(value).store(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reduction: Reduction, sources: [f32; 3], divisor: Option<u32>, expected: f32) {
        let bytes = sources.map(|x| f16::from_f32(x).to_ne_bytes().repeat(TILE + 1)).concat();
        let mut into = vec![0; 2 * (TILE + 1)];
        arithmetic(DataType::F16, reduction).combine(
            &bytes,
            divisor.and_then(NonZeroU32::new),
            &mut into,
        );
        assert_eq!(into, f16::from_f32(expected).to_ne_bytes().repeat(TILE + 1), "{reduction}");
    }

    #[test]
    fn every_reduction_combines_in_order() {
        check(Reduction::Sum, [1.0, 2.0, 4.0], None, 7.0);
        check(Reduction::Prod, [3.0, -2.0, 4.0], None, -24.0);
        check(Reduction::Min, [3.0, -2.0, f32::NAN], None, -2.0);
        check(Reduction::Max, [3.0, -2.0, f32::NAN], None, 3.0);
        check(Reduction::Avg, [3.0, 2.0, 1.0], Some(3), 2.0);
        check(Reduction::Avg, [3.0, 2.0, 1.0], None, 6.0);
    }

    #[test]
    fn scaling_rounds_once_and_wraps() {
        let mut halves = [2049.0_f32, -3.0].map(|x| f16::from_f32(x).to_ne_bytes()).concat();
        scaler(DataType::F16)(&mut halves, &f16::from_f32(0.25).to_ne_bytes());
        assert_eq!(halves, [512.0_f32, -0.75].map(|x| f16::from_f32(x).to_ne_bytes()).concat());
        let mut bytes = [100_i8, -100].map(|x| x as u8);
        scaler(DataType::I8)(&mut bytes, &[3]);
        assert_eq!(bytes, [44, 212]);
    }

    #[test]
    fn a_half_sum_rounds_once() {
        // In f16 alone, 2048 + 1 + 1 stays at 2048.
        check(Reduction::Sum, [2048.0, 1.0, 1.0], None, 2050.0);
    }

    #[test]
    fn a_lone_source_keeps_the_payload_of_a_nan() {
        let nan = 0x7c01_u16.to_ne_bytes();
        let mut into = [0; 2];
        arithmetic(DataType::F16, Reduction::Max).combine(&nan, None, &mut into);
        assert_eq!(into, nan);
    }
}
