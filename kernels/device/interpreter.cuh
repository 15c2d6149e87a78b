// The interpreter: one thread block of the grid runs the program of one thread block of the plan, in
// one instance, round after round.
#pragma once

#include "step.cuh"

namespace msccl {

// Word `at` of the plan: in the launch, or else in memory.
__device__ inline u32 plan_word(const msccl_launch& launch, u32 at) {
    u32 place = at - MSCCL_PLAN_HEADER_LENGTH;
    return place < MSCCL_PLAN_WORDS ? launch.words[place] : ptx::ld_constant_u32(launch.plan + 4ull * at);
}

// Four words from `at` on, a multiple of four.
__device__ inline ptx::Words4 plan_words(const msccl_launch& launch, u32 at) {
    u32 place = at - MSCCL_PLAN_HEADER_LENGTH;
    if (place < MSCCL_PLAN_WORDS) return *reinterpret_cast<const ptx::Words4*>(&launch.words[place]);
    return ptx::ld_constant_4u32(launch.plan + 4ull * at);
}

static_assert(MSCCL_PLAN_WORDS % 4 == 0 && MSCCL_PLAN_HEADER_LENGTH % 4 == 0 &&
                  (sizeof(msccl_launch) - 4 * MSCCL_PLAN_WORDS) % 16 == 0,
              "four words lie in one place");

// What the entry of this thread block in the plan says.
struct Entry {
    u32 first_step;  // the word
    u32 step_words;
    u32 step_count;
    u32 first_link;  // the word of its entry
    u32 receives;
    u32 links;
};

__device__ inline Entry read_entry(const msccl_launch& launch, u32 tb) {
    // The table follows the header without a gap.
    u32 entry = MSCCL_PLAN_HEADER_LENGTH + tb * MSCCL_PLAN_TB_LENGTH;
    auto word = [&](u32 at) { return plan_word(launch, entry + at); };
    u32 receives = word(MSCCL_PLAN_TB_RECEIVES);
    return {word(MSCCL_PLAN_TB_FIRST_STEP),
            word(MSCCL_PLAN_TB_STEP_WORDS),
            word(MSCCL_PLAN_TB_STEPS),
            launch.link_table + word(MSCCL_PLAN_TB_FIRST_LINK) * MSCCL_PLAN_LINK_LENGTH,
            receives,
            receives + word(MSCCL_PLAN_TB_SENDS)};
}

// Takes up the links of the thread block, one in each thread.
__device__ inline void open_links(Shared& shared, const msccl_launch& launch, const Entry& entry,
                                  u32 instance) {
    WireTable table{launch.links, launch.ranks, launch.wires};
#pragma unroll 1
    for (u32 at = threadIdx.x; at < entry.links; at += blockDim.x) {
        u32 words = entry.first_link + at * MSCCL_PLAN_LINK_LENGTH;
        u32 peer = plan_word(launch, words + MSCCL_PLAN_LINK_PEER);
        u32 number = plan_word(launch, words + MSCCL_PLAN_LINK_NUMBER);
        bool out = at >= entry.receives;
        u64 end = table.entry(out, peer, number * launch.instances + instance);
        open_link(shared.links[at], end, out);
    }
}

// Fills the window with the words of the steps from `at` on, from the last thread on: the first ones
// have links to open. Nobody may be reading it; a barrier must follow.
__device__ inline void load_window(Shared& shared, const msccl_launch& launch, const Entry& entry,
                                   u32 at) {
    u32 words = min(entry.step_words - at, WINDOW);
#pragma unroll 1
    for (u32 word = (blockDim.x - 1 - threadIdx.x) * 4; word < words; word += blockDim.x * 4) {
        ptx::Words4 four = plan_words(launch, entry.first_step + at + word);
        *reinterpret_cast<ptx::Words4*>(&shared.window[word]) = four;
    }
}

// Walks through the steps of the thread block. The window holds the first ones.
class Cursor {
public:
    __device__ Cursor(Shared& shared, const msccl_launch& launch, const Entry& entry)
        : shared_(shared), launch_(launch), entry_(entry) {}

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
            load_window(shared_, launch_, entry_, at_);
            __syncthreads();
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
    const msccl_launch& launch_;
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
    Cursor cursor(context.shared, launch, entry);
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
    if (!(launch.flags & MSCCL_LAUNCH_SIGNALS) || threadIdx.x != 0) return;
    auto clock = reinterpret_cast<msccl_clock*>(launch.clock);
    if (ptx::atom_add_acq_rel_gpu_u32(address(&clock->finished), 1) + 1 != gridDim.x) return;
    ptx::st_weak_u32(address(&clock->finished), 0);
    ptx::st_weak_u64(address(&clock->base),
                     context.signal_base + u64(launch.rounds) * context.stride);
}

// Where signals stand, if there are any.
__device__ inline u64 signal_base(const msccl_launch& launch) {
    if (!(launch.flags & MSCCL_LAUNCH_SIGNALS)) return 0;
    return ptx::ld_relaxed_gpu_u64(address(&reinterpret_cast<msccl_clock*>(launch.clock)->base));
}

// The body of every interpreter kernel.
//
// What a thread block needs first comes from the launch; from memory it loads only where its links
// stand, all of them at once.
template <class Protocol, class Number>
__device__ inline void interpret(const msccl_launch& launch) {
    __shared__ Shared shared;
    u32 instance = blockIdx.x / launch.tb_count;
    u32 tb = blockIdx.x % launch.tb_count;
    Entry entry = read_entry(launch, tb);
    open_links(shared, launch, entry, instance);
    load_window(shared, launch, entry, 0);
    if (threadIdx.x == 0) start_watch(shared.watch, launch);
    Context context{shared,
                    {launch.link_depth, launch.slot_bytes},
                    launch.signals + 8ull * instance * launch.tb_count,
                    signal_base(launch),
                    launch.signal_stride,
                    tb,
                    launch.block_chunks,
                    0,
                    false,
                    nullptr,
                    0};
    __syncthreads();
    run_rounds<Protocol, Number>(context, launch, entry, instance);
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
