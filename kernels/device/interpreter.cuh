// The interpreter: a thread block runs the program of one thread block of the plan, in one
// instance, round after round.
//
// What it needs first comes from the launch. From memory it loads only where its links stand, all
// of them at once.
#pragma once

#include "warp_specialised.cuh"

namespace msccl {

// ---- The plan -----------------------------------------------------------------------------------

// Word `at` of the plan: in the launch, or else in memory.
__device__ inline u32 plan_word(const msccl_launch& launch, u32 at) {
    u32 place = at - MSCCL_PLAN_HEADER_LENGTH;
    if (place < MSCCL_PLAN_WORDS) return launch.words[place];
    return ptx::ld_constant_u32(launch.plan + 4ull * at);
}

// Four words from `at` on, a multiple of four.
__device__ inline ptx::Words4 plan_words(const msccl_launch& launch, u32 at) {
    u32 place = at - MSCCL_PLAN_HEADER_LENGTH;
    if (place < MSCCL_PLAN_WORDS)
        return *reinterpret_cast<const ptx::Words4*>(&launch.words[place]);
    return ptx::ld_constant_4u32(launch.plan + 4ull * at);
}

static_assert(MSCCL_PLAN_WORDS % 4 == 0 && MSCCL_PLAN_HEADER_LENGTH % 4 == 0 &&
                  (sizeof(msccl_launch) - 4 * MSCCL_PLAN_WORDS) % 16 == 0,
              "four words lie in one place");

// Fills the window with the words of the steps from `at` on, from the last thread on: the first
// ones have links to open. Nobody may be reading it; a barrier must follow.
template <class Group>
__device__ inline void load_window(Shared& shared, const msccl_launch& launch, const Role& role,
                                   u32 at) {
    u32 words = min(role.step_words - at, WINDOW);
#pragma unroll 1
    for (u32 word = (Group::count() - 1 - Group::index()) * 4; word < words;
         word += Group::count() * 4) {
        ptx::Words4 four = plan_words(launch, role.first_step + at + word);
        *reinterpret_cast<ptx::Words4*>(&shared.window[word]) = four;
    }
}

// Walks through the steps of the thread block, with all threads of `Group`. At first the window
// holds the first ones.
template <class Group>
class Cursor {
public:
    __device__ explicit Cursor(const Context& context) : context_(context) {}

    __device__ void rewind() {
        at_ = 0;
        steps_ = 0;
    }

    // The step at hand. All threads call it together, and no thread still uses the one before.
    __device__ Step step() {
        Shared& shared = context_.shared;
        u32 end = min(shared.role.step_words, at_ + LARGEST_STEP);
        if (at_ < window_ || end > window_ + WINDOW) {
            Group::meet();
            load_window<Group>(shared, context_.launch, shared.role, at_);
            Group::meet();
            window_ = at_;
        }
        return Step(&shared.window[at_ - window_], steps_);
    }

    __device__ void next(const Step& step) {
        at_ += step.length();
        steps_ = step.index + 1;
    }

private:
    const Context& context_;
    u32 window_ = 0;  // the first word in the window
    u32 at_ = 0;
    u32 steps_ = 0;   // steps before it
};

// ---- Beginning ----------------------------------------------------------------------------------

__device__ inline Role role_of(const msccl_launch& launch) {
    u32 instance = blockIdx.y, tb = blockIdx.x;
    // The table follows the header without a gap.
    u32 entry = MSCCL_PLAN_HEADER_LENGTH + tb * MSCCL_PLAN_TB_LENGTH;
    auto [first_step, step_words, step_count, channel] = plan_words(launch, entry);
    auto [first_link, links, first_operand, operands] = plan_words(launch, entry + 4);
    Role role;
    role.signals = launch.signals + 8ull * instance * launch.tb_count;
    role.signal_base = 0;
    role.instance = instance;
    role.tb = tb;
    role.first_step = first_step;
    role.step_words = step_words;
    role.step_count = step_count;
    role.first_link = launch.link_table + first_link * MSCCL_PLAN_LINK_LENGTH;
    role.receives = links & 0xffff;
    role.links = role.receives + (links >> MSCCL_PLAN_TB_SENDS_SHIFT);
    role.first_operand = first_operand;
    role.operands = operands;
    return role;
}

static_assert(MSCCL_PLAN_TB_FIRST_STEP == 0 && MSCCL_PLAN_TB_STEP_WORDS == 1 &&
                  MSCCL_PLAN_TB_STEPS == 2 && MSCCL_PLAN_TB_FIRST_LINK == 4 &&
                  MSCCL_PLAN_TB_LINKS == 5 && MSCCL_PLAN_TB_FIRST_OPERAND == 6 &&
                  MSCCL_PLAN_TB_OPERANDS == 7 && MSCCL_PLAN_TB_LENGTH == 8,
              "a thread block's entry is taken apart as it is laid out");

// A link of the thread block, by its entry in the plan.
struct Entry {
    u32 peer;
    u32 messages;  // that it carries in a round where each of its steps is one
    u32 traits;
    u32 number;

    __device__ Entry(const msccl_launch& launch, const Role& role, u32 link) {
        auto words = plan_words(launch, role.first_link + link * MSCCL_PLAN_LINK_LENGTH);
        peer = words.x;
        messages = words.y;
        traits = words.z;
        number = words.w;
    }

    // Where this rank's end of its wire stands.
    __device__ u64 wire(const msccl_launch& launch, const Role& role) const {
        WireTable table{launch.links, launch.ranks, launch.wires};
        return table.entry(traits & MSCCL_PLAN_LINK_OUT, peer,
                           number * launch.instances + role.instance);
    }
};

static_assert(MSCCL_PLAN_LINK_PEER == 0 && MSCCL_PLAN_LINK_MESSAGES == 1 &&
                  MSCCL_PLAN_LINK_TRAITS == 2 && MSCCL_PLAN_LINK_NUMBER == 3 &&
                  MSCCL_PLAN_LINK_LENGTH == 4,
              "a link's entry is taken apart as it is laid out");

// Takes up the links of the thread block, one in each thread. If `prefetched`, with all their
// messages; whether there is room for those of this thread. Makes no offer if a kernel before gave
// up, as `notice` says.
template <class Protocol>
__device__ inline bool open_links(Shared& shared, const msccl_launch& launch, const Role& role,
                                  bool prefetched, const Notice& notice) {
    bool room = true;
#ifdef MSCCL_RECORDS
    Recorder& recorder = ptx::in_register(msccl::recorder());
#endif
#pragma unroll 1
    for (u32 at = threadIdx.x; at < role.links; at += blockDim.x) {
        Entry entry(launch, role, at);
        u64 wire = entry.wire(launch, role);
        Link& link = shared.links[at];
        bool out = at >= role.receives;
        if constexpr (Protocol::DIRECT) {
            bool direct = may_be_direct(launch, entry.traits);
            Earlier earlier{};
            if (direct) earlier = earlier_at<Protocol>(launch, wire, entry.traits);
            open_link(link, wire, out);
            if (direct && !notice.stopped()) {
                open_direct<Protocol>(link, launch, entry.traits, entry.peer, earlier);
            }
            if (!Protocol::LENDS && (link.traits & Link::UNREAD)) {
                shared.unread_call = u32(launch.call);
            }
        } else {
            open_link(link, wire, out);
        }
#ifdef MSCCL_RECORDS
        if (at < Recorder::COUNTS) {
            recorder.counts[at] = u32(link.count);
        } else if (!Protocol::WARP_SPECIALISED) {
            record_further_count(launch.notice, at, u32(link.count));
        }
#endif
        if (prefetched) link.count += entry.messages;
        if (prefetched && out) room = room && link.count <= link.seen + launch.link_depth;
    }
    return room;
}

// The slice of every chunk that instance `instance` handles in `round`.
__device__ inline Slice slice_of(const msccl_launch& launch, u32 instance, u32 round) {
    u64 part = instance * launch.part_bytes;
    u64 start = part + round * launch.slice_bytes;
    u64 end = min(min(part + launch.part_bytes, start + launch.slice_bytes), launch.chunk_bytes);
    return {round, start < end ? u32(end - start) : 0, start};
}

// Whether all operands of the thread block are prefetched: every step is one message, in the only
// round, and has slots that no other message of the launch has.
template <class Protocol>
__device__ inline bool prefetches_operands(const msccl_launch& launch, const Role& role) {
    return Protocol::PREFETCHES && role.operands != 0 && launch.rounds == 1 &&
           launch.chunks_per_message >= launch.longest_step &&
           launch.link_depth >= launch.most_messages;
}

// The operand that word `word` of an operand table says.
template <class Protocol>
__device__ inline Operand find(const msccl_launch& launch, const Role& role, const Slice& slice,
                               u32 word) {
    if (word >> MSCCL_PLAN_PLACE_SHIFT != MSCCL_PLAN_PLACE_LINK) {
        Operand operand = resolve_slot(launch, slice, {launch.input, launch.output}, word, 0);
        operand.traits |= raw_trait(word);
        return operand;
    }
    u32 number = word & ((1u << MSCCL_PLAN_TABLE_LINK_BITS) - 1);
    u32 fields = (word & MSCCL_PLAN_INDEX_MASK) >> MSCCL_PLAN_TABLE_LINK_BITS;
    u32 message = fields & ((1u << MSCCL_PLAN_TABLE_MESSAGE_BITS) - 1);
    u32 position = fields >> MSCCL_PLAN_TABLE_MESSAGE_BITS;
    // Some other thread takes the link up, at the same time.
    Link link = link_at(Entry(launch, role, number).wire(launch, role));
    u64 count = link.count + message + 1;
    u64 slot = slot_of(link, {launch.link_depth, launch.slot_bytes}, count);
    Operand operand = resolve_link<Protocol>(slice, number, {slot, count}, position);
    operand.traits |= raw_trait(word);
    return operand;
}

// Whether the operand is in no slot that is due to be refreshed.
template <class Protocol>
__device__ inline bool is_usual(const msccl_launch& launch, const Operand& operand) {
    if constexpr (Protocol::REFRESHES) {
        return !operand.is_link() || !Protocol::is_due(operand.message, launch.link_depth);
    }
    return true;
}

// Prefetches all operands of the thread block, one in each thread, other threads than those with
// links coming first. Whether those of this thread are usual. Records whether some are not regular.
template <class Protocol>
__device__ inline bool prefetch_all(Shared& shared, const msccl_launch& launch, const Role& role) {
    Slice slice = slice_of(launch, role.instance, 0);
    bool usual = true, regular = slice.length % 16 == 0;
#pragma unroll 1
    for (u32 at = Everyone::second(); at < role.operands; at += Everyone::count()) {
        Operand operand =
            find<Protocol>(launch, role, slice, plan_word(launch, role.first_operand + at));
        shared.operands[at] = operand;
        usual = usual && is_usual<Protocol>(launch, operand);
        regular = regular && operand.whole(0, slice.length);
    }
    if (!regular) shared.irregular_call = u32(launch.call);
    return usual;
}

static_assert(2 * OPERANDS_MAX >= MSCCL_PREFETCHED_OPERANDS_MAX, "what is prefetched fits");

// After a barrier: waits for room for all messages, one link in each thread. A barrier must follow.
__device__ inline void await_all_room(const Context& context) {
    Shared& shared = context.shared;
#pragma unroll 1
    for (u32 at = threadIdx.x; at < shared.role.links; at += blockDim.x) {
        if (at < shared.role.receives) continue;
        await_room(shared.links[at], context.wires(), at, shared.watch);
    }
}

// One thread: what it knows by itself, all threads shall know.
__device__ inline void share(Shared& shared, const msccl_launch& launch, const Role& role) {
    shared.role = role;
    shared.slice = slice_of(launch, role.instance, 0);
    if (launch.flags & MSCCL_LAUNCH_SIGNALS) {
        // All signals are equal when a launch begins, and only this thread block changes its own.
        shared.role.signal_base = ptx::ld_relaxed_gpu_u64(launch.signals + 8ull * block_number());
    }
}

// ---- Running ------------------------------------------------------------------------------------

// Takes all steps of all rounds, one after another; ends early when `run` says so, and is then
// false.
template <class Group, class Run>
__device__ __forceinline__ bool walk(Context& context, Run run) {
    Cursor<Group> cursor(context);
    if (context.shared.role.step_count == 0) return true;
#pragma unroll 1
    for (u32 round = 0; round < context.launch.rounds; ++round) {
        Slice slice = context.shared.slice;
        if (round != 0) slice = slice_of(context.launch, context.shared.role.instance, round);
        cursor.rewind();
#pragma unroll 1
        while (true) {
            Step step = cursor.step();
            if (Group::index() == 0) {
                context.shared.watch.step = step.index;
                context.shared.watch.round = round;
            }
            if (!run(slice, step)) return false;
            if (step.index + 1 == context.shared.role.step_count) break;
            cursor.next(step);
        }
    }
    return true;
}

// Runs all rounds, each warp in its role. False when the kernel is to end.
template <class Protocol, class Number>
__device__ inline bool run_warp_specialised(Context& context) {
    if (Movers::index() < Movers::count()) {
        run_movers<Protocol, Number>(context);
    } else if (threadIdx.x < blockDim.x - 32) {
        Producer<Protocol> producer(context);
        walk<Warp>(context, [&](const Slice& slice, const Step& step) {
            return producer.produce(slice, step);
        });
        producer.end();
    } else {
        run_releaser<Protocol>(context);
    }
    Everyone::meet();
    return !context.shared.watch.aborted;
}

// Runs all rounds. False when the kernel is to end: then this thread has not done its part, and
// must not say that anything is done.
template <class Protocol, class Number>
__device__ inline bool run(Context& context) {
    if constexpr (Protocol::WARP_SPECIALISED) {
        return run_warp_specialised<Protocol, Number>(context);
    } else {
#ifdef MSCCL_RECORDS
        // No move ends the launch.
        bool has_steps = context.shared.role.step_count != 0;
        if (!Protocol::LENDS && !has_steps && is_recording<Protocol>()) record(RECORD_END, 0, 0);
#endif
        return walk<Everyone>(context, [&](const Slice& slice, const Step& step) {
            return run_step<Protocol, Number>(context, slice, step);
        });
    }
}

// The same, called, so that it takes no registers from what calls it: the `Context::` bits then, or
// `GIVEN_UP`.
template <class Protocol, class Number>
__device__ __noinline__ u32 run_apart(Context context) {
    return run<Protocol, Number>(context) ? context.state : Context::GIVEN_UP;
}

// The same, without looking out for direct links if there are none.
template <class Protocol, class Number>
__device__ inline bool run_by_links(Context& context) {
    if constexpr (Protocol::DIRECT && !Protocol::LENDS) {
        bool none = context.shared.unread_call != u32(context.launch.call);
        if (__builtin_expect(none, 1)) return run<typename Protocol::Staged, Number>(context);
        context.state = run_apart<Protocol, Number>(context);
        return context.state != Context::GIVEN_UP;
    }
    return run<Protocol, Number>(context);
}

// Makes all signals equal again, past every one of this launch, which adds `signal_base` to them:
// each thread block its own, and all together those that no thread block had.
__device__ inline void end_signals(const msccl_launch& launch, u64 signal_base) {
    if (!(launch.flags & MSCCL_LAUNCH_SIGNALS)) return;
    u64 value = signal_base + u64(launch.rounds) * launch.signal_stride;
    u32 block = block_number(), blocks = launch.instances * gridDim.x;
    if (threadIdx.x == 0) ptx::st_release_gpu_u64(launch.signals + 8ull * block, value);
    u64 first = blocks + u64(block) * blockDim.x + threadIdx.x;
    u64 stride = u64(blocks) * blockDim.x;
#pragma unroll 1
    for (u64 at = launch.signals + 8 * first; at < launch.signals_end; at += 8 * stride) {
        ptx::st_weak_u64(at, value);
    }
}

static_assert(sizeof(Shared) <= MSCCL_SHARE_BYTES, "a thread block takes too much shared memory");

// What a launch does that has rounds; ends early when the kernel is to end.
template <class Protocol, class Number>
__device__ __forceinline__ void serve(Shared& shared, const msccl_launch& launch, const Role& role,
                                      const Notice& notice) {
#ifdef MSCCL_RECORDS
    if (threadIdx.x == middle_thread()) recorder().begin();
#endif
    if (is_speaker()) share(shared, launch, role);
    bool prefetched = prefetches_operands<Protocol>(launch, role);
    bool usual = open_links<Protocol>(shared, launch, role, prefetched, notice);
    if (prefetched) usual = prefetch_all<Protocol>(shared, launch, role) && usual;
    usual = Everyone::all(usual && !notice.stopped());
    shared.ending.begin(launch.control, notice);
    if (__builtin_expect(!usual, 0)) {
        if (is_speaker()) must_stop(shared.watch, notice);
        Everyone::meet();
        if (shared.watch.aborted) return;
    }
    if constexpr (Protocol::DIRECT && !Protocol::LENDS) {
        // What comes in is what it owns. Behind the barrier, for which what is sent waits.
#pragma unroll 1
        for (u32 at = threadIdx.x; at < role.receives; at += blockDim.x) {
            decline(shared.links[at], launch);
        }
    }
    bool regular = shared.irregular_call != u32(launch.call);
    u32 state = (prefetched ? Context::PREFETCHED : 0) | (usual ? Context::USUAL : 0) |
                (regular ? Context::REGULAR : 0);
    Context context{shared, launch, 0, 0, 0, state};
    if (prefetched && !usual) {
        await_all_room(context);
        Everyone::meet();
    }
    if (!run_by_links<Protocol, Number>(context)) return;
#pragma unroll 1
    for (u32 at = threadIdx.x; at < shared.role.links; at += blockDim.x) {
        Link& link = shared.links[at];
        if constexpr (Protocol::DIRECT) {
            if (Protocol::LENDS) settle(link, at >= shared.role.receives, at, shared.watch);
            close_direct(link, launch);
        }
        close_link(link);
    }
    end_signals(launch, shared.role.signal_base);
#ifdef MSCCL_RECORDS
    // Others have recorded it with their last move, or in `run`.
    if (Protocol::LENDS && is_recording<Protocol>()) {
        record(RECORD_END, 0, shared.watch.noted.word);
    }
#endif
}

// The body of every interpreter kernel.
template <class Protocol, class Number>
__device__ inline void interpret(const msccl_launch& launch) {
    __shared__ Shared memory;
    Shared& shared = ptx::in_register(memory);
    if (is_speaker()) shared.watch = watch_of(launch, block_number());
    // What no other kernel writes, while the kernel before this one may still run.
    Role role = role_of(launch);
    load_window<Everyone>(shared, launch, role, 0);
#ifdef MSCCL_RECORDS
    if (threadIdx.x == middle_thread()) record_await_begin(launch.notice, launch.call, role.links);
#endif
    ptx::griddepcontrol_wait();
    // No link would be used, and its launch not counted.
    if (launch.rounds == 0) return;
    // In the thread that speaks for all; and in those that make offers, before they do.
    Notice notice(launch.notice, is_speaker() || (Protocol::DIRECT && threadIdx.x < role.links));
    serve<Protocol, Number>(shared, launch, role, notice);
    shared.ending.end(shared.watch);
}

}  // namespace msccl

// An interpreter kernel for one protocol and element type.
#define MSCCL_INTERPRETER(name, Protocol, Number)                                               \
    extern "C" __global__ void __launch_bounds__(msccl::Protocol::THREADS, MSCCL_BLOCKS_EACH)  \
        name(const __grid_constant__ msccl_launch launch) {                                    \
        msccl::interpret<msccl::Protocol, msccl::Number>(launch);                              \
    }
