// The interpreter: one thread block of the grid runs the program of one thread block of the plan, in
// one instance, round after round.
#pragma once

#include "step.cuh"

namespace msccl {

// The words of this thread block's entry in the plan.
struct Entry {
    u64 steps;       // the address of its first step
    u32 step_words;
    u32 step_count;
    u32 first_link;
    u32 links;
};

__device__ inline Entry read_entry(const msccl_launch& launch, u32 tb) {
    // The table follows the header without a gap.
    u64 entry = launch.plan + 4ull * (MSCCL_PLAN_HEADER_LENGTH + tb * MSCCL_PLAN_TB_LENGTH);
    auto word = [&](u32 at) { return ptx::ld_constant_u32(entry + 4 * at); };
    return {launch.plan + 4ull * word(MSCCL_PLAN_TB_FIRST_STEP),
            word(MSCCL_PLAN_TB_STEP_WORDS),
            word(MSCCL_PLAN_TB_STEPS),
            word(MSCCL_PLAN_TB_FIRST_LINK),
            word(MSCCL_PLAN_TB_RECEIVES) + word(MSCCL_PLAN_TB_SENDS)};
}

// Fills the window with the words from `at` on. Nobody may be reading it.
__device__ inline void load_window(Shared& shared, const Entry& entry, u32 at) {
    u32 words = min(entry.step_words - at, WINDOW);
#pragma unroll 1
    for (u32 word = threadIdx.x * 4; word < words; word += blockDim.x * 4) {
        ptx::Words4 four = ptx::ld_constant_4u32(entry.steps + 4ull * (at + word));
        *reinterpret_cast<ptx::Words4*>(&shared.window[word]) = four;
    }
    __syncthreads();
}

// Walks through the steps of the thread block.
class Cursor {
public:
    __device__ Cursor(Shared& shared, const Entry& entry) : shared_(shared), entry_(entry) {
        load_window(shared_, entry_, 0);
    }

    __device__ void rewind() {
        at_ = 0;
        index_ = 0;
    }

    __device__ bool at_end() const { return index_ == entry_.step_count; }

    // The step at hand. All threads ask together, and no thread still holds the one before.
    __device__ Step step() {
        constexpr u32 LONGEST = WINDOW / 2;
        u32 rest = entry_.step_words - at_;
        bool inside = at_ >= window_ && at_ + min(rest, LONGEST) <= window_ + WINDOW;
        if (!inside) {
            __syncthreads();
            load_window(shared_, entry_, at_);
            window_ = at_;
        }
        return Step(&shared_.window[at_ - window_], index_);
    }

    __device__ void next(const Step& step) {
        at_ += step.words();
        index_ += 1;
    }

private:
    static_assert(WINDOW / 2 >= 4 + MSCCL_PLAN_STEP_LENGTH + MSCCL_WAITS_MAX + MSCCL_SOURCES_MAX +
                                    MSCCL_DESTINATIONS_MAX,
                  "a step may be longer than half the window");

    Shared& shared_;
    const Entry& entry_;
    u32 window_ = 0;  // the first word in the window
    u32 at_ = 0;
    u32 index_ = 0;
};

__device__ inline void start_watch(Watch& watch, const msccl_launch& launch) {
    auto control = reinterpret_cast<msccl_control*>(launch.control);
    auto progress = reinterpret_cast<msccl_progress*>(launch.progress);
    watch = {control, progress + blockIdx.x, launch.call, launch.report_after_us, 0, 0, 0, 0};
}

// The slice of every chunk that instance `instance` handles in `round`.
__device__ inline Slice slice_of(const msccl_launch& launch, u32 instance, u32 round) {
    u64 part = instance * launch.part_bytes;
    u64 start = part + round * launch.slice_bytes;
    u64 end = min(min(part + launch.part_bytes, start + launch.slice_bytes), launch.chunk_bytes);
    return {round, start, start < end ? u32(end - start) : 0};
}

// Runs all rounds; ends early when the host says so.
template <class Protocol, class Number>
__device__ inline void run_rounds(Context& context, const msccl_launch& launch, const Entry& entry,
                                  u32 instance) {
    Cursor cursor(context.shared, entry);
#pragma unroll 1
    for (u32 round = 0; round < launch.rounds; ++round) {
        Slice slice = slice_of(launch, instance, round);
#pragma unroll 1
        for (cursor.rewind(); !cursor.at_end();) {
            Step step = cursor.step();
            if (threadIdx.x == 0) {
                context.shared.watch.step = step.index;
                context.shared.watch.round = round;
            }
            if (!run_step<Protocol, Number>(context, launch, slice, step)) return;
            cursor.next(step);
        }
    }
}

// The last thread block of the grid to end moves the clock on, past every signal of this launch.
__device__ inline void end_launch(const Context& context, const msccl_launch& launch) {
    if (threadIdx.x != 0) return;
    auto clock = reinterpret_cast<msccl_clock*>(launch.clock);
    if (ptx::atom_add_acq_rel_gpu_u32(address(&clock->finished), 1) + 1 != gridDim.x) return;
    ptx::st_weak_u32(address(&clock->finished), 0);
    ptx::st_weak_u64(address(&clock->base),
                     context.signal_base + u64(launch.rounds) * context.stride);
}

// The body of every interpreter kernel.
template <class Protocol, class Number>
__device__ inline void interpret(const msccl_launch& launch) {
    __shared__ Shared shared;
    u32 tb_count = gridDim.x / launch.instances;
    u32 instance = blockIdx.x / tb_count;
    u32 tb = blockIdx.x % tb_count;
    auto clock = reinterpret_cast<msccl_clock*>(launch.clock);
    auto header = [&](u32 at) { return ptx::ld_constant_u32(launch.plan + 4 * at); };
    u32 link_count = header(MSCCL_PLAN_HEADER_LINK_COUNT);
    Context context{shared,
                    {launch.link_depth, launch.slot_bytes},
                    launch.signals + 8ull * instance * tb_count,
                    ptx::ld_relaxed_gpu_u64(address(&clock->base)),
                    header(MSCCL_PLAN_HEADER_SIGNAL_STRIDE),
                    tb,
                    header(MSCCL_PLAN_HEADER_BLOCK_CHUNKS),
                    0,
                    false};
    Entry entry = read_entry(launch, tb);
    u64 ends = launch.links + sizeof(msccl_link_end) * (u64(instance) * link_count + entry.first_link);
#pragma unroll 1
    for (u32 at = threadIdx.x; at < entry.links; at += blockDim.x) {
        open_link(shared.links[at], ends + sizeof(msccl_link_end) * at, context.links);
    }
    if (threadIdx.x == 0) start_watch(shared.watch, launch);
    run_rounds<Protocol, Number>(context, launch, entry, instance);
    __syncthreads();
#pragma unroll 1
    for (u32 at = threadIdx.x; at < entry.links; at += blockDim.x) close_link(shared.links[at]);
    end_launch(context, launch);
}

}  // namespace msccl

// An interpreter kernel for one protocol and element type.
#define MSCCL_INTERPRETER(name, Protocol, Number)                                               \
    extern "C" __global__ void __launch_bounds__(msccl::Protocol::THREADS)                            \
        name(const __grid_constant__ msccl_launch launch) {                                    \
        msccl::interpret<msccl::Protocol, msccl::Number>(launch);                              \
    }
