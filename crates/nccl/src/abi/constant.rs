//! Numbers of the enumerations, and what they stand for.

use std::ffi::c_int;

use msccl_collective::{DataType, Reduction};

/// `NCCL_CONFIG_UNDEF_INT`: a field that the caller left open.
pub const UNDEFINED: c_int = c_int::MIN;

/// `NCCL_SPLIT_NOCOLOR`: the caller wants no part in any of the communicators.
pub const NO_COLOR: c_int = -1;

/// `NCCL_SHRINK_ABORT`: give up what is under way first.
pub const SHRINK_ABORT: c_int = 1;

/// `NCCL_SUSPEND_MEM`: give up memory.
pub const SUSPEND_MEMORY: c_int = 1;

/// What an existing rank passes for its rank in a communicator that grows: it keeps the one it has.
pub const SAME_RANK: c_int = -1;

/// `NCCL_WIN_COLL_SYMMETRIC`: all ranks register a window together.
pub const WINDOW_SYMMETRIC: c_int = 1;

/// `NCCL_CTA_POLICY_ZERO`: multiprocessors are left alone where that can be.
pub const CTA_POLICY_ZERO: c_int = 2;

/// How windows must be aligned, in bytes.
pub const WINDOW_ALIGNMENT_BYTES: usize = 4096;

/// The first number of an operator that a caller made.
pub const FIRST_OPERATOR: c_int = 5;

/// `ncclScalarDevice`: the scalar is read when the call is executed.
pub const SCALAR_DEVICE: c_int = 0;

/// `ncclScalarHostImmediate`: the scalar is read now.
pub const SCALAR_HOST: c_int = 1;

/// The data type of a `ncclDataType_t`.
pub fn data_type(number: c_int) -> Option<DataType> {
    Some(match number {
        0 => DataType::I8,
        1 => DataType::U8,
        2 => DataType::I32,
        3 => DataType::U32,
        4 => DataType::I64,
        5 => DataType::U64,
        6 => DataType::F16,
        7 => DataType::F32,
        8 => DataType::F64,
        9 => DataType::Bf16,
        10 => DataType::F8E4M3,
        11 => DataType::F8E5M2,
        _ => return None,
    })
}

/// The reduction of a built-in `ncclRedOp_t`.
pub fn reduction(number: c_int) -> Option<Reduction> {
    Some(match number {
        0 => Reduction::Sum,
        1 => Reduction::Prod,
        2 => Reduction::Max,
        3 => Reduction::Min,
        4 => Reduction::Avg,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_and_reduction_has_one_number() {
        let types: Vec<_> = (0..12).filter_map(data_type).collect();
        assert!(DataType::ALL.iter().all(|kind| types.contains(kind)));
        assert_eq!((data_type(-1), data_type(12)), (None, None));
        let reductions: Vec<_> = (0..FIRST_OPERATOR).filter_map(reduction).collect();
        assert!(Reduction::ALL.iter().all(|kind| reductions.contains(kind)));
        assert_eq!((reduction(-1), reduction(FIRST_OPERATOR)), (None, None));
    }
}
