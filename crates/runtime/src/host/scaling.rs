//! Scaling a buffer: every element is multiplied by a scalar, or divided by a number.

use std::num::NonZeroU32;

use msccl_collective::DataType;

use super::memory::{Span, too_large};
use crate::call::Scalar;
use crate::engine::{ScaleBy, Scaling};
use crate::error::Error;
use crate::walk::{divider, scaler};

/// Bytes that are scaled at a time.
const TILE_BYTES: usize = 16 << 10;

/// Does what `scaling` says.
pub(super) fn scale(scaling: &Scaling) -> Result<(), Error> {
    let Scaling { from, to, elements, data_type, by } = *scaling;
    let size = data_type.size_bytes() as u64;
    let bytes = elements.checked_mul(size).ok_or_else(|| too_large("scaling"))?;
    let from = Span::of_caller(from, bytes, "what is scaled")?;
    let to = Span::of_caller(to, bytes, "where it is scaled to")?;
    let change = change_by(by, data_type)?;
    let mut tile = vec![0; TILE_BYTES.min(from.bytes())];
    for start in (0..from.bytes()).step_by(TILE_BYTES) {
        let tile = &mut tile[..TILE_BYTES.min(from.bytes() - start)];
        from.read(start, tile);
        match change {
            Change::Scale(scale, scalar) => scale(tile, &scalar),
            Change::Divide(divide, divisor) => divide(tile, divisor),
        }
        to.write(start, tile);
    }
    Ok(())
}

/// How a tile of elements is changed.
#[derive(Clone, Copy)]
enum Change {
    Scale(fn(&mut [u8], &[u8]), [u8; 8]),
    Divide(fn(&mut [u8], NonZeroU32), NonZeroU32),
}

fn change_by(by: ScaleBy, data_type: DataType) -> Result<Change, Error> {
    Ok(match by {
        ScaleBy::Scalar(scalar) => {
            Change::Scale(scaler(data_type), scalar_bytes(scalar, data_type.size_bytes())?)
        }
        ScaleBy::Divisor(divisor) => Change::Divide(divider(data_type), divisor),
    })
}

/// The bytes of a scalar of `size` bytes, at the start.
fn scalar_bytes(scalar: Scalar, size: usize) -> Result<[u8; 8], Error> {
    match scalar {
        // Machines with GPUs are little-endian, and so are all that this runs on.
        Scalar::Immediate(bits) => Ok(bits.to_le_bytes()),
        Scalar::At(address) => {
            let mut bytes = [0; 8];
            let span = Span::of_caller(address, size as u64, "the scalar")?;
            span.read(0, &mut bytes[..size]);
            Ok(bytes)
        }
    }
}
