// One PTX instruction per function. Nothing else in this folder holds inline PTX but
// `ptx_copies.cuh`, which has the copies that go on beside the threads.
//
// The names say what PTX says: the operation, its memory order and its scope. `weak` accesses may
// be reordered and cached; `relaxed` ones are coherent at their scope, word by word; `acquire` and
// `release` order the accesses of this thread and, through a barrier, those of its thread block.
// Every access is to global memory, and every function is a compiler barrier to memory.
#pragma once

namespace msccl::ptx {

using u16 = unsigned short;
using u32 = unsigned;
using u64 = unsigned long long;

// An instruction of devices of compute capability 9.0 and higher; nothing on others.
#if __CUDA_ARCH__ >= 900
#define MSCCL_ASM_90(...) asm volatile(__VA_ARGS__)
#else
#define MSCCL_ASM_90(...)
#endif

struct alignas(16) Words4 {
    u32 x, y, z, w;
};

struct alignas(16) Doubles2 {
    u64 x, y;
};

// ---- Registers ----------------------------------------------------------------------------------

// The same record, which is in shared memory: its address is kept in a register from here on.
// Otherwise the compiler works it out anew wherever it is used, which takes longer than the use.
template <class Record>
__device__ inline Record& in_register(Record& record) {
    Record* place = &record;
    asm("" : "+l"(place));
    __builtin_assume(__isShared(place));
    return *place;
}

// Has the value arbitrary, without an instruction. Zeros would have to be stored in its registers,
// and so wait for whatever reads these.
__device__ inline void forget(Doubles2& value) {
    asm("" : "=l"(value.x), "=l"(value.y));
}

// What lies in shared memory, for instructions that take no other address.
__device__ inline u32 shared_address(const void* place) {
    return u32(__cvta_generic_to_shared(place));
}

// ---- Coherent loads -----------------------------------------------------------------------------

__device__ inline u64 ld_acquire_sys_u64(u64 address) {
    u64 value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

__device__ inline u64 ld_acquire_gpu_u64(u64 address) {
    u64 value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

__device__ inline u64 ld_relaxed_sys_u64(u64 address) {
    u64 value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

__device__ inline u32 ld_relaxed_sys_u32(u64 address) {
    u32 value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

__device__ inline Doubles2 ld_relaxed_sys_2u64(u64 address) {
    Doubles2 value;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(value.x), "=l"(value.y) : "l"(address) : "memory");
    return value;
}

// As it is where it is not `selected`, without a branch.
__device__ inline void ld_relaxed_sys_2u64_if(Doubles2& value, u64 address, bool selected) {
    asm volatile(
        "{ .reg .pred on; setp.ne.u32 on, %3, 0; "
        "@on ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2]; }"
        : "+l"(value.x), "+l"(value.y) : "l"(address), "r"(u32(selected)) : "memory");
}

__device__ inline u64 ld_relaxed_gpu_u64(u64 address) {
    u64 value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

// Zero where it is not `selected`. Without a branch: loads that come one after another stay
// together.
__device__ inline u64 ld_relaxed_gpu_u64_if(u64 address, bool selected) {
    u64 value = 0;
    asm volatile(
        "{ .reg .pred on; setp.ne.u32 on, %2, 0; "
        "@on ld.relaxed.gpu.global.u64 %0, [%1]; }"
        : "+l"(value) : "l"(address), "r"(u32(selected)) : "memory");
    return value;
}

__device__ inline u32 ld_relaxed_gpu_u32(u64 address) {
    u32 value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

__device__ inline u16 ld_relaxed_gpu_u16(u64 address) {
    u16 value;
    asm volatile("ld.relaxed.gpu.global.u16 %0, [%1];" : "=h"(value) : "l"(address) : "memory");
    return value;
}

__device__ inline u32 ld_relaxed_gpu_u8(u64 address) {
    u32 value;
    asm volatile("ld.relaxed.gpu.global.u8 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

// Brings what lies there into the second cache where it is `selected`. Orders nothing.
__device__ inline void prefetch_l2_if(u64 address, bool selected) {
    asm volatile(
        "{ .reg .pred on; setp.ne.u32 on, %1, 0; @on prefetch.global.L2 [%0]; }"
        ::"l"(address), "r"(u32(selected)) : "memory");
}

// ---- Plain loads --------------------------------------------------------------------------------

__device__ inline Words4 ld_weak_4u32(u64 address) {
    Words4 value;
    asm volatile("ld.weak.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "l"(address)
                 : "memory");
    return value;
}

__device__ inline u64 ld_weak_u64(u64 address) {
    u64 value;
    asm volatile("ld.weak.global.u64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
    return value;
}

__device__ inline u32 ld_weak_u32(u64 address) {
    u32 value;
    asm volatile("ld.weak.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

// For memory that nobody writes while the kernel runs.
__device__ inline Words4 ld_constant_4u32(u64 address) {
    Words4 value;
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "l"(address)
                 : "memory");
    return value;
}

__device__ inline u32 ld_constant_u32(u64 address) {
    u32 value;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

// Sixteen bytes of what a kernel is given by value. From constant memory threads would have
// different ones one after another.
__device__ inline Words4 ld_param_4u32(u64 address) {
    Words4 value;
    asm volatile("ld.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "l"(address));
    return value;
}

// ---- Coherent stores ----------------------------------------------------------------------------

__device__ inline void st_release_sys_u64(u64 address, u64 value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

__device__ inline void st_release_gpu_u64(u64 address, u64 value) {
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

__device__ inline void st_release_sys_u32(u64 address, u32 value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

__device__ inline void st_relaxed_gpu_u64(u64 address, u64 value) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

__device__ inline void st_relaxed_sys_u64(u64 address, u64 value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

__device__ inline void st_relaxed_sys_u32(u64 address, u32 value) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

__device__ inline void st_relaxed_sys_2u64(u64 address, Doubles2 value) {
    asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(address), "l"(value.x),
                 "l"(value.y)
                 : "memory");
}

// ---- Plain stores -------------------------------------------------------------------------------

__device__ inline void st_weak_4u32(u64 address, Words4 value) {
    asm volatile("st.weak.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(value.x),
                 "r"(value.y), "r"(value.z), "r"(value.w)
                 : "memory");
}

__device__ inline void st_weak_u64(u64 address, u64 value) {
    asm volatile("st.weak.global.u64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

__device__ inline void st_weak_u32(u64 address, u32 value) {
    asm volatile("st.weak.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

__device__ inline void st_weak_u16(u64 address, u16 value) {
    asm volatile("st.weak.global.u16 [%0], %1;" ::"l"(address), "h"(value) : "memory");
}

__device__ inline void st_weak_u8(u64 address, u32 value) {
    asm volatile("st.weak.global.u8 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

// ---- Order --------------------------------------------------------------------------------------

__device__ inline void fence_acq_rel_gpu() {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

__device__ inline u32 atom_add_acq_rel_gpu_u32(u64 address, u32 value) {
    u32 old;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(old) : "l"(address), "r"(value) : "memory");
    return old;
}

// ---- Barriers -----------------------------------------------------------------------------------

// Until `threads` threads of the block, whole warps, have come to barrier number `barrier`, of 16.
// Orders what they did before it, as `__syncthreads` does for all.
__device__ inline void barrier_sync(u32 barrier, u32 threads) {
    asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// The same for threads that the others need not wait for: they do not wait.
__device__ inline void barrier_arrive(u32 barrier, u32 threads) {
    asm volatile("barrier.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// ---- Words that threads of a block share --------------------------------------------------------

__device__ inline u64 ld_acquire_cta_shared_u64(const u64* word) {
    u64 value;
    asm volatile("ld.acquire.cta.shared.u64 %0, [%1];"
                 : "=l"(value) : "r"(shared_address(word)) : "memory");
    return value;
}

__device__ inline void st_release_cta_shared_u64(u64* word, u64 value) {
    asm volatile("st.release.cta.shared.u64 [%0], %1;" ::"r"(shared_address(word)), "l"(value)
                 : "memory");
}

// ---- Kernels one after another ------------------------------------------------------------------

// Until the kernel before this one in the stream has ended and what it wrote is seen; nothing is
// left to wait for unless the launch let this one start earlier.
__device__ inline void griddepcontrol_wait() {
    MSCCL_ASM_90("griddepcontrol.wait;" ::: "memory");
}

// The kernel after this one may start, if its launch says that it wants to.
__device__ inline void griddepcontrol_launch_dependents() {
    MSCCL_ASM_90("griddepcontrol.launch_dependents;" ::: "memory");
}

// ---- Standing still -----------------------------------------------------------------------------

// For about so long, a millisecond at most.
__device__ inline void nanosleep(u32 ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns) : "memory"); }

// The kernel faults, and with it everything that its process has on the device.
__device__ inline void trap() { asm volatile("trap;"); }

// The thread ends.
[[noreturn]] __device__ inline void exit() { asm volatile("exit;"); __builtin_unreachable(); }

// ---- Time ---------------------------------------------------------------------------------------

__device__ inline u64 globaltimer_ns() {
    u64 value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
    return value;
}

// ---- Numbers ------------------------------------------------------------------------------------

__device__ inline float cvt_f32_f16(u16 half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

__device__ inline u16 cvt_rn_f16_f32(float value) {
    u16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

#if __CUDA_ARCH__ >= 800
__device__ inline u16 cvt_rn_bf16_f32(float value) {
    u16 half;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}
#endif

#if __CUDA_ARCH__ >= 890
// The first argument becomes the upper byte.
__device__ inline u16 cvt_rn_satfinite_e4m3x2_f32(float upper, float lower) {
    u16 bytes;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bytes) : "f"(upper), "f"(lower));
    return bytes;
}

__device__ inline u16 cvt_rn_satfinite_e5m2x2_f32(float upper, float lower) {
    u16 bytes;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bytes) : "f"(upper), "f"(lower));
    return bytes;
}
#endif

__device__ inline u32 mul_rn_f16x2(u32 a, u32 b) {
    u32 value;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(value) : "r"(a), "r"(b));
    return value;
}

__device__ inline u32 add_rn_f16x2(u32 a, u32 b) {
    u32 value;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(value) : "r"(a), "r"(b));
    return value;
}

#if __CUDA_ARCH__ >= 900
__device__ inline u32 add_rn_bf16x2(u32 a, u32 b) {
    u32 value;
    asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(value) : "r"(a), "r"(b));
    return value;
}
#endif

__device__ inline float min_f32(float a, float b) {
    float value;
    asm("min.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
    return value;
}

__device__ inline float max_f32(float a, float b) {
    float value;
    asm("max.f32 %0, %1, %2;" : "=f"(value) : "f"(a), "f"(b));
    return value;
}

__device__ inline double min_f64(double a, double b) {
    double value;
    asm("min.f64 %0, %1, %2;" : "=d"(value) : "d"(a), "d"(b));
    return value;
}

__device__ inline double max_f64(double a, double b) {
    double value;
    asm("max.f64 %0, %1, %2;" : "=d"(value) : "d"(a), "d"(b));
    return value;
}

}  // namespace msccl::ptx
