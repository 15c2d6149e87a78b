// A GPU of sorts: every thread block is a thread of the host, every one of its threads a fibre.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include <sched.h>

#include "../include/msccl_plan.h"

#define __device__
#define __global__
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static thread_local
#define __CUDA_ARCH__ 700

struct Dim {
    unsigned x, y;
};
inline thread_local Dim threadIdx, blockIdx, blockDim, gridDim;

using std::max;
using std::min;
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return unsigned(((unsigned long long)(high) << 32 | low) >> (shift & 31));
}
inline int __ffs(int value) { return __builtin_ffs(value); }
inline unsigned atomicCAS(unsigned* at, unsigned expected, unsigned value) {
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
inline unsigned atomicExch(unsigned* at, unsigned value) {
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);
}
template <class To, class From>
inline To bits_as(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &value, sizeof to);
    return to;
}
inline float __uint_as_float(unsigned bits) { return bits_as<float>(bits); }
inline unsigned __float_as_uint(float value) { return bits_as<unsigned>(value); }
inline double __longlong_as_double(long long bits) { return bits_as<double>(bits); }
inline long long __double_as_longlong(double value) { return bits_as<long long>(value); }

namespace emulator {

// The threads of one block, which take turns.
class Block {
public:
    Block(unsigned threads, std::function<void()> kernel)
        : kernel_(std::move(kernel)), warps_(threads / WARP), alive_(threads) {
        for (unsigned thread = 0; thread < threads; ++thread) fibres_.emplace_back(new Fibre);
    }

    void run() {
        for (auto& fibre : fibres_) {
            getcontext(&fibre->context);
            fibre->context.uc_stack = {.ss_sp = fibre->stack, .ss_flags = 0, .ss_size = STACK};
            fibre->context.uc_link = &scheduler_;
            makecontext(&fibre->context, reinterpret_cast<void (*)()>(&Block::enter), 0);
        }
        for (; alive_ > 0; sched_yield()) {
            for (at_ = 0; at_ < fibres_.size(); ++at_) {
                Fibre& fibre = *fibres_[at_];
                if (fibre.ended || fibre.generation > barrier_.generation) continue;
                if (fibre.exchange != 0 && !may_leave(fibre.exchange)) continue;
                threadIdx = {unsigned(at_), 0};
                swapcontext(&scheduler_, &fibre.context);
            }
        }
    }

    void yield() { swapcontext(&fibres_[at_]->context, &scheduler_); }

    // All threads that have not ended come here; whether all say so.
    bool barrier(bool own) {
        barrier_.all = barrier_.all && own;
        fibres_[at_]->generation = barrier_.generation + 1;
        ++barrier_.arrived;
        open_if_all_are_here();
        while (fibres_[at_]->generation > barrier_.generation) yield();
        return barrier_.last;
    }

    // Comes to barrier number `at`, which `threads` threads come to before it opens.
    void arrive(unsigned at, size_t threads) {
        Named& named = named_[at];
        if (++named.arrived < threads) return;
        named.arrived = 0;
        ++named.generation;
    }

    // The same, and waits until it has opened.
    void sync(unsigned at, size_t threads) {
        unsigned long generation = named_[at].generation;
        arrive(at, threads);
        while (named_[at].generation == generation) yield();
    }

    // Every thread of the warp brings a value, and sees those of all. They go on in their order:
    // what each does before it yields, the threads before it have done.
    std::array<unsigned, 32> exchange(unsigned own) {
        Warp& warp = warps_[at_ / WARP];
        unsigned lane = at_ % WARP;
        unsigned long exchange = warp.generation + 1;
        warp.values[lane] = own;
        if (++warp.arrived == WARP) {
            warp.all = warp.values;
            warp.arrived = warp.gone = 0;
            ++warp.generation;
        }
        fibres_[at_]->exchange = exchange;
        while (!may_leave(exchange)) yield();
        fibres_[at_]->exchange = 0;
        ++warp.gone;
        return warp.all;
    }

    // The thread at hand ends.
    [[noreturn]] void exit() {
        end();
        swapcontext(&fibres_[at_]->context, &scheduler_);
        std::abort();
    }

    static thread_local Block* current;

private:
    static constexpr size_t WARP = 32;
    static constexpr size_t STACK = 128 << 10;

    struct Fibre {
        ucontext_t context;
        unsigned long generation = 0;
        unsigned long exchange = 0;  // that of its warp in which it is; 0 if in none
        bool ended = false;
        alignas(16) char stack[STACK];
    };

    struct Barrier {
        size_t arrived = 0;
        unsigned long generation = 0;
        bool all = true, last = true;
    };

    struct Warp {
        unsigned arrived = 0, gone = 0;
        unsigned long generation = 0;
        std::array<unsigned, WARP> values{}, all{};
    };

    struct Named {
        size_t arrived = 0;
        unsigned long generation = 0;
    };

    void open_if_all_are_here() {
        if (barrier_.arrived == 0 || barrier_.arrived < alive_) return;
        barrier_.last = barrier_.all;
        barrier_.all = true;
        barrier_.arrived = 0;
        ++barrier_.generation;
    }

    // Whether it is this thread's turn to leave exchange number `exchange` of its warp.
    bool may_leave(unsigned long exchange) const {
        const Warp& warp = warps_[at_ / WARP];
        return warp.generation >= exchange && warp.gone == at_ % WARP;
    }

    static void enter() {
        Block& block = *current;
        block.kernel_();
        block.end();
    }

    void end() {
        fibres_[at_]->ended = true;
        --alive_;
        open_if_all_are_here();
    }

    std::function<void()> kernel_;
    std::vector<std::unique_ptr<Fibre>> fibres_;
    Barrier barrier_;
    std::vector<Warp> warps_;
    std::array<Named, 16> named_;
    ucontext_t scheduler_;
    size_t at_ = 0, alive_;
};

inline thread_local Block* Block::current = nullptr;

inline void yield() { Block::current->yield(); }

// Now and then the whole block is late.
inline void stumble() {
    static thread_local unsigned random =
        unsigned(std::hash<std::thread::id>{}(std::this_thread::get_id()));
    random = random * 1664525 + 1013904223;
    if (random >> 20 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

inline unsigned long long now_ns() {
    return (unsigned long long)(std::chrono::steady_clock::now().time_since_epoch().count());
}

// Memory of a GPU, never given back.
inline char* zeroed(size_t count) {
    size_t rounded = (count + 511) / 256 * 256;
    void* memory = std::aligned_alloc(256, rounded);
    std::memset(memory, 0, rounded);
    return static_cast<char*>(memory);
}

// Copies in bulk that some thread block has begun, of all of the process.
inline std::atomic<unsigned long> bulk_copies;

// What carries the bulk copies of a thread block, of which one thread begins all. It does
// everything as late as it may, and now and then at once: what nobody has waited for has not come,
// or has been overwritten.
class BulkEngine {
public:
    static BulkEngine& own() {
        static thread_local BulkEngine engine;
        return engine;
    }

    void begin(const void* barrier) { barriers_[barrier] = {}; }

    void expect(const void* barrier, unsigned bytes) { barriers_[barrier].expected += bytes; }

    // How many phases of the barrier have ended, with all that has been loaded.
    unsigned long phases(const void* barrier) {
        Barrier& of = barriers_[barrier];
        for (const Load& load : of.loads) {
            std::memcpy(load.to, load.from, load.bytes);
            of.expected -= load.bytes;
        }
        if (!of.loads.empty() && of.expected == 0) ++of.phases;
        of.loads.clear();
        return of.phases;
    }

    void load(void* to, const void* from, unsigned bytes, const void* barrier) {
        check(to, from, bytes);
        std::memset(to, 0xee, bytes);
        barriers_[barrier].loads.push_back({to, from, bytes});
    }

    void store(void* to, const void* from, unsigned bytes) {
        check(to, from, bytes);
        open_.push_back({to, from, bytes, {}});
    }

    void commit() {
        groups_.push_back(std::move(open_));
        open_.clear();
        if (++committed_ % 5 != 0) return;
        read(0);
        write(0);
    }

    // Reads the sources of all groups but the last `pending`.
    void read(size_t pending) {
        for (size_t at = 0; at + pending < groups_.size(); ++at) {
            for (Store& store : groups_[at]) {
                if (!store.data.empty()) continue;
                auto* from = static_cast<const char*>(store.from);
                store.data.assign(from, from + store.bytes);
            }
        }
    }

    // Writes what they have read.
    void write(size_t pending) {
        for (; groups_.size() > pending; groups_.erase(groups_.begin())) {
            for (const Store& store : groups_.front())
                std::memcpy(store.to, store.data.data(), store.bytes);
        }
    }

private:
    struct Load {
        void* to;
        const void* from;
        unsigned bytes;
    };
    struct Store {
        void* to;
        const void* from;
        unsigned bytes;
        std::vector<char> data;
    };
    struct Barrier {
        unsigned long phases = 0, expected = 0;
        std::vector<Load> loads;
    };

    static void check(const void* to, const void* from, unsigned bytes) {
        ++bulk_copies;
        bool even =
            (reinterpret_cast<size_t>(to) | reinterpret_cast<size_t>(from) | bytes) % 16 == 0;
        if (!even || bytes == 0) std::abort();
    }

    std::map<const void*, Barrier> barriers_;
    std::vector<Store> open_;
    std::vector<std::vector<Store>> groups_;
    unsigned long committed_ = 0;
};

// The dynamic shared memory that a thread block is said to have.
inline unsigned dynamic_bytes = MSCCL_BULK_BUFFER_BYTES;

// What carries the asynchronous copies of a thread block, of which one thread at a time begins any.
// It makes them as late as it may, so that who has not waited finds something else.
class AsyncCopies {
public:
    static AsyncCopies& own() {
        static thread_local AsyncCopies copies;
        return copies;
    }

    void begin(void* to, const void* from) {
        std::memset(to, 0xee, BYTES);
        open_.push_back({to, from});
    }

    void commit() {
        groups_.push_back(std::move(open_));
        open_.clear();
    }

    // Makes the copies of all groups but the last `pending`.
    void end(size_t pending) {
        for (; groups_.size() > pending; groups_.pop_front()) {
            for (const Copy& copy : groups_.front()) std::memcpy(copy.to, copy.from, BYTES);
        }
    }

private:
    static constexpr size_t BYTES = 16;
    struct Copy {
        void* to;
        const void* from;
    };

    std::vector<Copy> open_;
    std::deque<std::vector<Copy>> groups_;
};

// Runs `kernel` in a grid of blocks of `threads` threads; returns when all of it has ended.
inline void launch(Dim grid, unsigned threads, const std::function<void()>& kernel) {
    std::vector<std::thread> running;
    for (unsigned block = 0; block < grid.x * grid.y; ++block) {
        running.emplace_back([=] {
            blockIdx = {block % grid.x, block / grid.x};
            blockDim = {threads, 1};
            gridDim = grid;
            Block own(threads, kernel);
            Block::current = &own;
            own.run();
        });
    }
    for (auto& thread : running) thread.join();
}

}  // namespace emulator

inline void __syncthreads() { emulator::Block::current->barrier(true); }
inline int __syncthreads_and(int own) { return emulator::Block::current->barrier(own != 0); }

// Of whole warps, all of whose threads come here.
inline void __syncwarp() { emulator::Block::current->exchange(0); }
inline bool __all_sync(unsigned, bool own) {
    auto all = emulator::Block::current->exchange(own);
    return std::count(all.begin(), all.end(), 0u) == 0;
}
inline unsigned __shfl_sync(unsigned, unsigned own, unsigned from) {
    return emulator::Block::current->exchange(own)[from % 32];
}
inline unsigned __shfl_up_sync(unsigned, unsigned own, unsigned distance) {
    auto all = emulator::Block::current->exchange(own);
    unsigned lane = threadIdx.x % 32;
    return lane >= distance ? all[lane - distance] : own;
}
inline unsigned __shfl_down_sync(unsigned, unsigned own, unsigned distance) {
    auto all = emulator::Block::current->exchange(own);
    unsigned from = threadIdx.x % 32 + distance;
    return from < 32 ? all[from] : own;
}
