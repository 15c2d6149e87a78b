// What `device/ptx_copies.cuh` declares, for the host.
#pragma once

#include "ptx.cuh"

namespace msccl::ptx {

inline u32 dynamic_smem_size() { return emulator::dynamic_bytes; }
inline unsigned char* dynamic_shared() {
    alignas(128) static thread_local unsigned char dynamic[MSCCL_BULK_BUFFER_BYTES];
    return dynamic;
}
inline void mbarrier_init(u64* barrier, u32) { emulator::BulkEngine::own().begin(barrier); }
inline void mbarrier_arrive_expect_tx(u64* barrier, u32 bytes) {
    emulator::BulkEngine::own().expect(barrier, bytes);
}
inline bool mbarrier_try_wait_parity(u64* barrier, u32 parity) {
    emulator::yield();
    return emulator::BulkEngine::own().phases(barrier) % 2 != parity;
}
inline void cp_async_bulk_load(void* to, u64 from, u32 bytes, u64* barrier) {
    emulator::BulkEngine::own().load(to, reinterpret_cast<const void*>(from), bytes, barrier);
}
inline void cp_async_bulk_store(u64 to, const void* from, u32 bytes) {
    emulator::BulkEngine::own().store(reinterpret_cast<void*>(to), from, bytes);
}
inline void cp_async_bulk_commit_group() { emulator::BulkEngine::own().commit(); }
template <int PENDING>
inline void cp_async_bulk_wait_group() {
    emulator::yield();
    emulator::BulkEngine::own().read(PENDING);
    emulator::BulkEngine::own().write(PENDING);
}
template <int PENDING>
inline void cp_async_bulk_wait_group_read() {
    emulator::BulkEngine::own().read(PENDING);
}
inline void fence_proxy_async() {}

// Who may do without does.
constexpr bool HAS_CP_ASYNC = false;
inline void cp_async_16(void* to, u64 from) {
    emulator::AsyncCopies::own().begin(to, reinterpret_cast<const void*>(from));
}
inline void cp_async_commit_group() { emulator::AsyncCopies::own().commit(); }
template <int PENDING>
inline void cp_async_wait_group() {
    emulator::AsyncCopies::own().end(PENDING);
}
inline void cp_async_wait_all() {
    emulator::AsyncCopies::own().commit();
    emulator::AsyncCopies::own().end(0);
}

}  // namespace msccl::ptx
