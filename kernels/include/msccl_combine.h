// What the combining kernel is given.
// Generated from combine.rs of crates/plan/src: do not edit. Regenerate with
//     MSCCL_BLESS=1 cargo test -p msccl-plan
#pragma once

enum : unsigned { MSCCL_COMBINE_RING_BYTES = 256 };  // dynamic shared memory of each thread; with less, it needs none

// What the kernel that combines contributions of all ranks is given by value. They lie in memory of its GPU, and are combined in the order of ranks. The result lies where this rank's own contribution does, or apart from all of them.
struct msccl_combine {
    unsigned long long to;  // the first element to write
    unsigned long long own;  // the first element of this rank's contribution
    unsigned long long others;  // the first element of the first of the others, which lie one behind the other
    unsigned long long stride_bytes;  // from the contribution of one of them to that of the next
    unsigned long long elements;  // how many each has
    unsigned ranks;  // how many contributions there are
    unsigned rank;  // this rank
    unsigned reduction;  // a `MSCCL_REDUCTION_` of `msccl_plan.h`
    unsigned divisor;  // what results are divided by, as `avg` of integers is; 0: they are not
};
static_assert(sizeof(msccl_combine) == 56, "msccl_combine");
