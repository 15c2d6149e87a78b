// Copies that go on beside the threads that begin them, one PTX instruction per function.
#pragma once

#include "ptx.cuh"

namespace msccl::ptx {

// ---- Bulk copies --------------------------------------------------------------------------------
// The bulk copy engine of a multiprocessor moves multiples of sixteen bytes between multiples of
// sixteen, of global memory and of shared memory. It works beside the threads, by the *async
// proxy*: only the functions below order what threads have done and what it does.

// Only where the compute capability is 9.0 or higher; elsewhere none of these does anything.

// How much shared memory the launch gives beside what the kernel declares, and where it lies.
__device__ inline u32 dynamic_smem_size() {
    u32 bytes;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
    return bytes;
}

__device__ inline unsigned char* dynamic_shared() {
    extern __shared__ __align__(128) unsigned char dynamic[];
    return dynamic;
}

// The first phase of a barrier begins; it ends when `arrivals` threads and their bytes have come.
__device__ inline void mbarrier_init(u64* barrier, u32 arrivals) {
    MSCCL_ASM_90("mbarrier.init.shared::cta.b64 [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Comes to the barrier, and says how many bytes will.
__device__ inline void mbarrier_arrive_expect_tx(u64* barrier, u32 bytes) {
    MSCCL_ASM_90("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// Whether the barrier's phase of that parity, of phases counted from 0, has ended; waits for it a
// little. Acquires at the scope of the thread block, what bulk copies have brought included.
__device__ inline bool mbarrier_try_wait_parity(u64* barrier, u32 parity) {
    u32 ended = 1;
    MSCCL_ASM_90(
        "{ .reg .pred ended; mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2; "
        "selp.u32 %0, 1, 0, ended; }"
        : "=r"(ended) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    return ended;
}

// From global memory to shared memory; the bytes come to `barrier`.
__device__ inline void cp_async_bulk_load(void* to, u64 from, u32 bytes, u64* barrier) {
    MSCCL_ASM_90(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        ::"r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

// From shared memory to global memory, in the group of this thread that is not committed yet.
__device__ inline void cp_async_bulk_store(u64 to, const void* from, u32 bytes) {
    MSCCL_ASM_90("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(to), "r"(shared_address(from)), "r"(bytes) : "memory");
}

// The thread's copies since the last call are a group.
__device__ inline void cp_async_bulk_commit_group() {
    MSCCL_ASM_90("cp.async.bulk.commit_group;" ::: "memory");
}

// Until all groups of the thread but its last `PENDING` are where they go. What it releases after
// that covers them.
template <int PENDING>
__device__ inline void cp_async_bulk_wait_group() {
    MSCCL_ASM_90("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Until all groups of the thread but its last `PENDING` have been read from where they come.
template <int PENDING>
__device__ inline void cp_async_bulk_wait_group_read() {
    MSCCL_ASM_90("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// What the thread has done or acquired comes before the bulk copies that it begins from here on.
__device__ inline void fence_proxy_async() {
    MSCCL_ASM_90("fence.proxy.async;" ::: "memory");
}

// ---- Asynchronous copies ------------------------------------------------------------------------

// Whether this device has them: compute capability 8.0 or higher. None of these does anything on
// others.
#if __CUDA_ARCH__ >= 800
constexpr bool HAS_CP_ASYNC = true;
#define MSCCL_ASM_80(...) asm volatile(__VA_ARGS__)
#else
constexpr bool HAS_CP_ASYNC = false;
#define MSCCL_ASM_80(...)
#endif

// Sixteen bytes from global memory to shared memory, past the first cache.
__device__ inline void cp_async_16(void* to, u64 from) {
    MSCCL_ASM_80("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
                 : "memory");
}

// Makes a group of the copies that the thread has begun since the last one.
__device__ inline void cp_async_commit_group() {
    MSCCL_ASM_80("cp.async.commit_group;" ::: "memory");
}

// Until the copies of all groups of the thread are there, but those of the last `PENDING`: the
// thread itself reads what they brought.
template <int PENDING>
__device__ inline void cp_async_wait_group() {
    MSCCL_ASM_80("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Until all such copies of the thread are there.
__device__ inline void cp_async_wait_all() {
    MSCCL_ASM_80("cp.async.wait_all;" ::: "memory");
}

}  // namespace msccl::ptx
