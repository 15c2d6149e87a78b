//! Operators that callers make.

use std::ffi::c_int;

use msccl_runtime::Scalar;

use crate::abi::constant::{self, SCALAR_DEVICE, SCALAR_HOST};
use crate::abi::{CommHandle, In, Out};
use crate::comm::handles;
use crate::comm::operators::Operator;
use crate::fault::Fault;

const CREATE: &str = "RedOpCreatePreMulSum";

exported! {
    /// A sum of contributions, each multiplied before by its rank's scalar.
    fn ncclRedOpCreatePreMulSum | pncclRedOpCreatePreMulSum(
        number: Out<c_int>, scalar: In<u8>, data_type: c_int, residence: c_int, comm: CommHandle
    ) {
        let found = handles::find_ready(comm, CREATE)?.comm;
        if number.is_null() {
            return Err(Fault::null(CREATE, "op"));
        }
        let data_type = constant::data_type(data_type)
            .ok_or_else(|| Fault::argument(format!("{CREATE} : invalid type {data_type}")))?;
        let scalar = scalar_at(scalar, residence, data_type.size_bytes())?;
        number.set(found.operators.create(Operator { scalar, data_type }));
        Ok(())
    }

    /// Forgets an operator; calls that were made with it keep what they need.
    fn ncclRedOpDestroy | pncclRedOpDestroy(number: c_int, comm: CommHandle) {
        handles::find(comm, "RedOpDestroy")?.operators.destroy(number)
    }
}

fn scalar_at(scalar: In<u8>, residence: c_int, bytes: usize) -> Result<Scalar, Fault> {
    let null = || Fault::null(CREATE, "scalar");
    match residence {
        SCALAR_HOST => scalar.read_low_bytes(bytes).map(Scalar::Immediate).ok_or_else(null),
        SCALAR_DEVICE if scalar.address() == 0 => Err(null()),
        SCALAR_DEVICE => Ok(Scalar::At(scalar.address() as u64)),
        other => Err(Fault::argument(format!("{CREATE} : invalid residence {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_read_now_or_later() {
        let half = 0.5_f32.to_bits();
        let bytes = half.to_le_bytes();
        let immediate = scalar_at(In::of(&bytes[0]), SCALAR_HOST, 1);
        assert_eq!(immediate, Ok(Scalar::Immediate(u64::from(bytes[0]))));
        let address = (&raw const bytes).addr() as u64;
        assert_eq!(scalar_at(In::of(&bytes[0]), SCALAR_DEVICE, 4), Ok(Scalar::At(address)));
        assert!(scalar_at(In::of(&bytes[0]), 2, 4).is_err());
    }
}
