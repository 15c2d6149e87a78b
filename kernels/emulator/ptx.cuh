// What `device/ptx.cuh` declares, for the host: the test of the emulator puts this file in its
// place.
//
// Every access is the host's, sequentially consistent where PTX says acquire or release, so what an
// emulated kernel shows is its logic and not the order of its memory accesses. Loads that may be
// part of a wait let other threads go on.
#pragma once

#include "../include/msccl_plan.h"
#include "machine.hpp"

namespace msccl::ptx {

using u16 = unsigned short;
using u32 = unsigned;
using u64 = unsigned long long;

struct alignas(16) Words4 {
    u32 x, y, z, w;
};

struct alignas(16) Doubles2 {
    u64 x, y;
};

template <class Record>
inline Record& in_register(Record& record) {
    return record;
}

inline void forget(Doubles2& value) {
    value = {~0ull, ~0ull};
}

template <class Word>
inline Word load(u64 address) {
    return __atomic_load_n(reinterpret_cast<const Word*>(address), __ATOMIC_SEQ_CST);
}

template <class Word>
inline void store(u64 address, Word value) {
    __atomic_store_n(reinterpret_cast<Word*>(address), value, __ATOMIC_SEQ_CST);
}

inline Words4 load4(u64 address) {
    return {load<u32>(address), load<u32>(address + 4), load<u32>(address + 8),
            load<u32>(address + 12)};
}

inline u64 ld_acquire_sys_u64(u64 address) { return emulator::yield(), load<u64>(address); }
inline u64 ld_acquire_gpu_u64(u64 address) { return emulator::yield(), load<u64>(address); }
inline u64 ld_relaxed_sys_u64(u64 address) { return emulator::yield(), load<u64>(address); }
inline u32 ld_relaxed_sys_u32(u64 address) { return emulator::yield(), load<u32>(address); }
inline Doubles2 ld_relaxed_sys_2u64(u64 address) {
    emulator::yield();
    return {load<u64>(address), load<u64>(address + 8)};
}
inline void ld_relaxed_sys_2u64_if(Doubles2& value, u64 address, bool selected) {
    if (selected) value = ld_relaxed_sys_2u64(address);
}
inline u64 ld_relaxed_gpu_u64(u64 address) { return load<u64>(address); }
inline u64 ld_relaxed_gpu_u64_if(u64 address, bool selected) {
    return selected ? load<u64>(address) : 0;
}
inline u32 ld_relaxed_gpu_u32(u64 address) { return load<u32>(address); }
inline u16 ld_relaxed_gpu_u16(u64 address) { return load<u16>(address); }
inline u32 ld_relaxed_gpu_u8(u64 address) { return load<unsigned char>(address); }
inline void prefetch_l2_if(u64, bool) {}
inline Words4 ld_weak_4u32(u64 address) { return emulator::stumble(), load4(address); }
inline u64 ld_weak_u64(u64 address) { return emulator::stumble(), load<u64>(address); }
inline u32 ld_weak_u32(u64 address) { return emulator::stumble(), load<u32>(address); }
inline Words4 ld_constant_4u32(u64 address) { return load4(address); }
inline Words4 ld_param_4u32(u64 address) { return load4(address); }
inline u32 ld_constant_u32(u64 address) { return load<u32>(address); }

inline void st_release_sys_u64(u64 address, u64 value) { store(address, value); }
inline void st_release_gpu_u64(u64 address, u64 value) { store(address, value); }
inline void st_release_sys_u32(u64 address, u32 value) { store(address, value); }
inline void st_relaxed_gpu_u64(u64 address, u64 value) { store(address, value); }
inline void st_relaxed_sys_u64(u64 address, u64 value) { store(address, value); }
inline void st_relaxed_sys_u32(u64 address, u32 value) { store(address, value); }
inline void st_relaxed_sys_2u64(u64 address, Doubles2 value) {
    store(address, value.x);
    store(address + 8, value.y);
}
inline void st_weak_4u32(u64 address, Words4 value) {
    emulator::stumble();
    store(address, value.x);
    store(address + 4, value.y);
    store(address + 8, value.z);
    store(address + 12, value.w);
}
inline void st_weak_u64(u64 address, u64 value) { store(address, value); }
inline void st_weak_u32(u64 address, u32 value) { store(address, value); }
inline void st_weak_u16(u64 address, u16 value) { store(address, value); }
inline void st_weak_u8(u64 address, u32 value) { store(address, (unsigned char)(value)); }

inline void fence_acq_rel_gpu() {}
inline void barrier_sync(u32 barrier, u32 threads) {
    emulator::Block::current->sync(barrier, threads);
}
inline void barrier_arrive(u32 barrier, u32 threads) {
    emulator::Block::current->arrive(barrier, threads);
}

inline u64 ld_acquire_cta_shared_u64(const u64* word) {
    return emulator::yield(), load<u64>(u64(word));
}
inline void st_release_cta_shared_u64(u64* word, u64 value) { store(u64(word), value); }

inline void nanosleep(u32) { emulator::yield(); }
[[noreturn]] inline void trap() { std::abort(); }
[[noreturn]] inline void exit() { emulator::Block::current->exit(); }

inline void griddepcontrol_wait() {}
inline void griddepcontrol_launch_dependents() {}
inline u64 globaltimer_ns() { return emulator::now_ns(); }

inline float cvt_f32_f16(u16 half) {
    u32 exponent = half >> 10 & 0x1f, mantissa = half & 0x3ff;
    float value = exponent == 0 ? float(mantissa) * 0x1p-24f
                                : __uint_as_float((exponent + 112) << 23 | mantissa << 13);
    if (exponent == 0x1f) value = __uint_as_float(0x7f800000 | mantissa << 13);
    return half & 0x8000 ? -value : value;
}
inline u16 cvt_rn_f16_f32(float value) {
    u32 bits = __float_as_uint(value) & 0x7fffffff, sign = __float_as_uint(value) >> 16 & 0x8000;
    if (bits > 0x7f800000) return 0x7fff;
    // As far from zero as the least normal number a float has the spacing of those below it, and
    // rounds for us.
    u32 half = __float_as_uint(__uint_as_float(bits) + 0.5f) - __float_as_uint(0.5f);
    if (bits >= 0x38800000)
        half = std::min((bits + 0xfff + (bits >> 13 & 1)) >> 13, 0x23c00u) - (112 << 10);
    return u16(sign | half);
}
inline u32 mul_rn_f16x2(u32 a, u32 b) {
    u16 low = cvt_rn_f16_f32(cvt_f32_f16(u16(a)) * cvt_f32_f16(u16(b)));
    u16 high = cvt_rn_f16_f32(cvt_f32_f16(u16(a >> 16)) * cvt_f32_f16(u16(b >> 16)));
    return u32(high) << 16 | low;
}
inline u32 add_rn_f16x2(u32 a, u32 b) {
    u16 low = cvt_rn_f16_f32(cvt_f32_f16(u16(a)) + cvt_f32_f16(u16(b)));
    u16 high = cvt_rn_f16_f32(cvt_f32_f16(u16(a >> 16)) + cvt_f32_f16(u16(b >> 16)));
    return u32(high) << 16 | low;
}
inline float min_f32(float a, float b) { return a < b ? a : b; }
inline float max_f32(float a, float b) { return a < b ? b : a; }
inline double min_f64(double a, double b) { return a < b ? a : b; }
inline double max_f64(double a, double b) { return a < b ? b : a; }

}  // namespace msccl::ptx
