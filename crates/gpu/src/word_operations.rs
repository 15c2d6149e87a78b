//! Words that a stream writes and waits for, several by one call, recorded in graphs as one node.
//! No multiprocessor takes part. An unsafe boundary.

#![expect(unsafe_code, reason = "has streams write and read memory by address")]

use cudarc::driver::sys;

use crate::address::DevicePtr;
use crate::error::Error;
use crate::stream::EnteredStream;

/// What a stream does with the bytes at an address, eight unless it says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordOperation {
    /// It writes the value, after all that it has written before.
    Write {
        /// Where.
        address: DevicePtr,
        /// What.
        value: u64,
    },
    /// It writes the value, of four bytes, after all that it has written before.
    Write32 {
        /// Where.
        address: DevicePtr,
        /// What.
        value: u32,
    },
    /// It waits until the value stands there.
    AwaitEqual {
        /// Where.
        address: DevicePtr,
        /// What.
        value: u64,
    },
}

/// The most that the driver takes at once.
pub const WORD_OPERATIONS_MAX: usize = 256;

// The driver's names for an operation that waits, for one that writes, and for the values of both.
#[rustfmt::skip]
use sys::{
    CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st as Wait,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWaitValueParams_st__bindgen_ty_1 as Awaited,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st as Write,
    CUstreamBatchMemOpParams_union_CUstreamMemOpWriteValueParams_st__bindgen_ty_1 as Written,
};

impl WordOperation {
    fn parameters(self) -> sys::CUstreamBatchMemOpParams {
        use sys::CUstreamBatchMemOpType_enum as Kind;
        const AFTER_ALL_WRITES: u32 = 0;
        const EQUAL: u32 = 1;
        // What stands behind the fields of an operation is to be zero.
        let mut parameters = sys::CUstreamBatchMemOpParams { pad: [0; 6] };
        let mut write = |operation, address: DevicePtr, value| {
            let (address, flags) = (address.0, AFTER_ALL_WRITES);
            parameters.writeValue =
                Write { operation, address, __bindgen_anon_1: value, flags, alias: 0 };
        };
        match self {
            Self::Write { address, value } => {
                write(Kind::CU_STREAM_MEM_OP_WRITE_VALUE_64, address, Written { value64: value });
            }
            Self::Write32 { address, value } => {
                write(Kind::CU_STREAM_MEM_OP_WRITE_VALUE_32, address, Written { value });
            }
            Self::AwaitEqual { address, value } => {
                parameters.waitValue = Wait {
                    operation: Kind::CU_STREAM_MEM_OP_WAIT_VALUE_64,
                    address: address.0,
                    __bindgen_anon_1: Awaited { value64: value },
                    flags: EQUAL,
                    alias: 0,
                };
            }
        }
        parameters
    }
}

impl EnteredStream<'_> {
    /// Does `operations` one after another when the stream gets there, at most
    /// [`WORD_OPERATIONS_MAX`].
    ///
    /// # Safety
    ///
    /// All words are aligned and stay valid until then, and whenever a graph that recorded them
    /// runs; whoever else uses them reckons with it.
    pub unsafe fn word_operations(self, operations: &[WordOperation]) -> Result<(), Error> {
        let mut parameters: Vec<_> = operations.iter().map(|of| of.parameters()).collect();
        let count = parameters.len() as u32;
        // SAFETY: as many parameters as are announced; the rest is promised by the caller.
        unsafe {
            self.calls().stream_word_operations(self.handle(), count, parameters.as_mut_ptr(), 0)
        }
    }
}
