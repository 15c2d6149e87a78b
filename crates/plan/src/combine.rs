//! What the kernel that combines contributions is given by value.
//!
//! `kernels/include/msccl_combine.h` declares the same record, generated from this file. It is a
//! header of its own because it has nothing to do with plans.

use crate::record::records;

/// Shared memory of each thread of the kernel, through which contributions come; without it they
/// come through registers, of which a thread has fewer.
pub const RING_BYTES: u32 = 256;

records! {
    "What the kernel that combines contributions of all ranks is given by value. They lie in \
     memory of its GPU, and are combined in the order of ranks. The result lies where this rank's \
     own contribution does, or apart from all of them."
    Combine = "msccl_combine", 56 bytes {
        to: u64, "the first element to write";
        own: u64, "the first element of this rank's contribution";
        others: u64, "the first element of the first of the others, which lie one behind the other";
        stride_bytes: u64, "from the contribution of one of them to that of the next";
        elements: u64, "how many each has";
        ranks: u32, "how many contributions there are";
        rank: u32, "this rank";
        reduction: u32, "a `MSCCL_REDUCTION_` of `msccl_plan.h`";
        divisor: u32, "what results are divided by, as `avg` of integers is; 0: they are not";
    }
}
