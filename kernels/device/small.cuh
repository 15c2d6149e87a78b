// Small calls: no thread has more than one unit of any chunk.
//
// Such calls take a few microseconds, and in an interpreter most of that is instructions. It has ways for whatever a
// call may be, and every jump over one that is not needed costs as much as thirty instructions where it leads out of
// what is at hand of the code. Here is one way through, for launches of which the host knows (`plan::small`) that
//
// * messages are packets, there is one round, every step is one message in it, and no link carries more messages than
//   it has slots;
// * no step waits for another thread block; the plan lies in the launch as a whole; every thread block has an operand
//   table, if it has any step, and no more operands, nor links, than threads;
// * it has at least as many threads as its part of a chunk has units;
// * unless `ODD`, every operand begins at a multiple of eight bytes. It may end anywhere.
//
// It does what an interpreter does that finds all operands at once, for the reasons that `step.cuh` gives: the same
// messages with the same numbers, in the same order, counted alike. What one rank runs is nothing to the others.
//
// Calls would cost what all need its registers; waits alone make any, when they have lasted.
#pragma once

#include "interpreter.cuh"

namespace msccl {

// ---- Sides ---------------------------------------------------------------------------------------

// An operand, as much of it as threads need. One load from shared memory fetches it.
struct alignas(16) Side {
    u64 address;
    u64 meaning;  // of a link: the message's number, counted from 1; of a buffer: the bytes that exist, and `BUFFER`

    static constexpr u64 BUFFER = 1ull << 63;

    __device__ bool is_link() const { return !(meaning & BUFFER); }
    // Of a buffer.
    __device__ Span span() const { return {address, u32(meaning), 0}; }
};

// What the threads of a thread block share.
struct SmallShared {
    Side sides[MSCCL_PLAN_WORDS];
    u32 links[MSCCL_PLAN_WORDS];  // of sides that are links: their numbers
    Watch watch;
};

// ---- Links ---------------------------------------------------------------------------------------

// Four words of the plan from `at` on, a multiple of four.
__device__ inline ptx::Words4 small_words(const msccl_launch& launch, u32 at) {
    return *reinterpret_cast<const ptx::Words4*>(&launch.words[at - MSCCL_PLAN_HEADER_LENGTH]);
}

__device__ inline u32 small_word(const msccl_launch& launch, u32 at) {
    return launch.words[at - MSCCL_PLAN_HEADER_LENGTH];
}

// The end of a wire, on its way from memory.
struct Opening {
    u64 entry;
    u32 messages;  // that its link carries
    bool out;
    ptx::Doubles2 places;  // the first slot, and where the other end sees this end's count
    ptx::Doubles2 counts;  // the other end's count, and this end's

    // That of the link whose entry in the plan is word `at`.
    __device__ __forceinline__ void start(const msccl_launch& launch, u32 at) {
        auto [peer, carried, traits, number] = small_words(launch, at);
        messages = carried;
        out = traits & MSCCL_PLAN_LINK_OUT;
        // As in `WireTable`; there are fewer ends than 2^32.
        u32 place = ((out ? launch.ranks : 0) + peer) * launch.wires + number * launch.instances + blockIdx.y;
        entry = launch.links + u64(sizeof(msccl_wire_end)) * place;
        load();
    }

    // An entry without slots only says where this end lies.
    __device__ __forceinline__ void settle() {
        if (__builtin_expect(places.x != 0, 1)) return;
        entry = places.y;
        load();
    }

private:
    __device__ __forceinline__ void load() {
        places = ptx::ld_relaxed_sys_2u64(entry);
        counts = ptx::ld_relaxed_sys_2u64(seen_at(entry));
    }
};

// Sender: waits until message number `count` of link number `threadIdx.x` has a slot. When the kernel is to end, returns.
__device__ __noinline__ void await_slot(u64 entry, u64 count, u32 depth, Watch& watch) {
    Wait wait;
    while (count > ptx::ld_relaxed_sys_u64(seen_at(entry)) + depth) {
        if (!wait.again(watch, {MSCCL_WAITING_ROOM, threadIdx.x, count - 1})) return;
    }
    wait.over(watch);
}

// ---- Moving --------------------------------------------------------------------------------------

// What a thread block has when it moves chunks, in one thread.
template <class Protocol, class Number, bool ODD>
struct Mover {
    using Line = typename Protocol::Unit;
    using Data = Pack<Line::WORDS>;
    // Words of eight bytes of data in a unit.
    static constexpr int EIGHTS = Line::WORDS / 2;

    SmallShared& shared;
    u32 units;  // of a chunk; at most one in each thread

    // Where this thread's unit lies in a message. Threads that have none read the last one.
    __device__ u64 on_wire() const { return 16ull * min(threadIdx.x, units - 1); }

    // This thread's unit of a buffer; what does not exist of it is arbitrary.
    __device__ __forceinline__ static Data load(const Span& span) {
        Data data;
#pragma unroll
        for (int at = 0; at < EIGHTS; ++at) {
            u32 offset = Line::offset(threadIdx.x) + 8 * at;
            u64 both;
            if constexpr (ODD) {
                Row row(span);
                both = row.pick(row.word(offset), row.next(offset));
            } else {
                both = ptx::ld_relaxed_gpu_u64_if(span.address + offset, offset < span.limit);
            }
            data.word[2 * at] = u32(both);
            data.word[2 * at + 1] = u32(both >> 32);
        }
        return data;
    }

    // This thread's unit of a message.
    __device__ __forceinline__ ptx::Words4 read(u64 address) const {
        ptx::Doubles2 both = ptx::ld_relaxed_sys_2u64(address + on_wire());
        return {u32(both.x), u32(both.x >> 32), u32(both.y), u32(both.y >> 32)};
    }

    // This thread's units of `count` sources from `from` on, all at the same time; of others, something arbitrary. That of
    // the first is `ahead` if it was loaded before. Relaxed: a number vouches for the data of its unit or line, and for
    // nothing else. False when the kernel is to end.
    template <int MOST>
    __device__ __forceinline__ bool fetch(u32 from, u32 count, Data (&values)[MOST], bool has_ahead,
                                          const Data& ahead) const {
        // Beyond the last one, that again.
        Side sides[MOST];
#pragma unroll
        for (u32 source = 0; source < MOST; ++source) {
            sides[source] = shared.sides[from + min(source, count - 1)];
        }
        ptx::Words4 lines[MOST] = {};
        u64 first = sides[0].meaning;
        u32 links = 0;
        Line::together();
#pragma unroll
        for (u32 source = 0; source < MOST; ++source) {
            const Side& side = sides[source];
            if (side.is_link()) {
                links |= 1u << source;
                lines[source] = read(side.address);
            } else if (source == 0 && has_ahead) {
                lines[source] = Line::line(ahead, 0);
            } else {
                lines[source] = Line::line(load(side.span()), 0);
            }
        }
        links &= ~(~0u << count);
        if (links != 0 && !arrive(from, links, first, lines)) return false;
#pragma unroll
        for (int source = 0; source < MOST; ++source) values[source] = Line::data(lines[source]);
        return true;
    }

    // Reads again until the units of all `links` among the sides from `from` on have come; `first` is the message of that.
    template <int MOST>
    __device__ __forceinline__ bool arrive(u32 from, u32 links, u64 first,
                                           ptx::Words4 (&lines)[MOST]) const {
        u32 missing = links;
        Wait wait;
        while (true) {
#pragma unroll
            for (int source = 0; source < MOST; ++source) {
                if (!(missing >> source & 1)) continue;
                u64 message = source == 0 ? first : shared.sides[from + source].meaning;
                if (Line::all(Line::here(lines[source], message))) missing &= ~(1u << source);
            }
            if (missing == 0) break;
            u32 at = from + u32(__ffs(int(missing)) - 1);
            Reason reason{MSCCL_WAITING_MESSAGE, shared.links[at], shared.sides[at].meaning - 1};
            if (!Line::all(wait.again_apart(shared.watch, reason))) return false;
            read_again(from, missing, lines);
        }
        wait.over_apart(shared.watch);
        if constexpr (Line::CONFIRMS) read_again(from, links, lines);
        return true;
    }

    template <int MOST>
    __device__ __forceinline__ void read_again(u32 from, u32 wanted, ptx::Words4 (&lines)[MOST]) const {
        Line::together();
#pragma unroll
        for (int source = 0; source < MOST; ++source) {
            if (wanted >> source & 1) lines[source] = read(shared.sides[from + source].address);
        }
    }

    // Writes this thread's unit to side `to`.
    __device__ __forceinline__ void deliver(u32 to, const Data& data) const {
        if (threadIdx.x >= units) return;
        Side side = shared.sides[to];
        if (side.is_link()) {
            ptx::Words4 line = Line::line(data, side.meaning);
            u64 low = u64(line.y) << 32 | line.x, high = u64(line.w) << 32 | line.z;
            return ptx::st_relaxed_sys_2u64(side.address + on_wire(), {low, high});
        }
        Span span = side.span();
#pragma unroll
        for (int at = 0; at < EIGHTS; ++at) {
            if (at != 0 && Line::has_flag()) continue;
            u32 offset = Line::offset(threadIdx.x) + 8 * at;
            u64 both = u64(data.word[2 * at + 1]) << 32 | data.word[2 * at];
            if constexpr (ODD) {
                store_eight(span, offset, both);
            } else if (__builtin_expect(offset + 8 <= span.limit, 1)) {
                ptx::st_weak_u64(span.address + offset, both);
            } else if (offset < span.limit) {
                store_few(span.address + offset, both, span.limit - offset);
            }
        }
    }
};

// ---- A thread block ------------------------------------------------------------------------------

// In one thread.
template <class Protocol, class Number, bool ODD>
class Small {
    using Line = typename Protocol::Unit;
    using Data = Pack<Line::WORDS>;

public:
    __device__ __forceinline__ Small(const msccl_launch& launch, SmallShared& shared)
        : launch_(launch), shared_(shared), start_(blockIdx.y * u32(launch.part_bytes)),
          length_(start_ < u32(launch.chunk_bytes) ? min(u32(launch.part_bytes), u32(launch.chunk_bytes) - start_) : 0),
          mover_{shared, u32(Line::units(length_))} {}

    __device__ __forceinline__ void run() {
        u32 entry = MSCCL_PLAN_HEADER_LENGTH + blockIdx.x * MSCCL_PLAN_TB_LENGTH;
        auto [first_step, step_words, step_count, channel] = small_words(launch_, entry);
        auto [first_link, links, first_operand, operands] = small_words(launch_, entry + 4);
        first_link_ = launch_.link_table + first_link * MSCCL_PLAN_LINK_LENGTH;
        // Before this nothing is read but the launch.
        ptx::griddepcontrol_wait();
        u32 ends = (links & 0xffff) + (links >> MSCCL_PLAN_TB_SENDS_SHIFT);
        if (begin(ends, first_operand, operands, first_step)) walk(first_step, step_count);
    }

private:
    // ---- Beginning

    // Takes up the links, one in each thread, with all their messages, and finds the operands, one in each thread, other
    // threads than those with links coming first. False when the kernel is to end.
    __device__ __forceinline__ bool begin(u32 links, u32 first_operand, u32 operands, u32 first_step) {
        // All loads are on their way before the first is looked at.
        bool has_link = threadIdx.x < links;
        Opening own{}, sought{};
        if (has_link) own.start(launch_, first_link_ + threadIdx.x * MSCCL_PLAN_LINK_LENGTH);
        u32 at = Everyone::second();
        u32 word = at < operands ? small_word(launch_, first_operand + at) : 0;
        bool seeks = word >> MSCCL_PLAN_PLACE_SHIFT == MSCCL_PLAN_PLACE_LINK;
        u32 number = word & ((1u << MSCCL_PLAN_TABLE_LINK_BITS) - 1);
        // Some other thread takes that link up, at the same time.
        if (seeks) sought.start(launch_, first_link_ + number * MSCCL_PLAN_LINK_LENGTH);
        if (operands != 0) look_ahead(small_word(launch_, first_operand), small_words(launch_, first_step));
        if (threadIdx.x == blockDim.x - 1) share();
        if (at < operands && !seeks) shared_.sides[at] = slot(word);
        bool usual = !seeks || put_message(at, word, number, sought);
        u64 count = 0;
        bool waits = has_link && !take_up(own, count);
        if (__builtin_expect(!Everyone::all(usual && !waits), 0)) {
            if (waits) await_slot(own.entry, count, launch_.link_depth, shared_.watch);
            ahead_ = {};
            state_ = REFRESHES;
            Everyone::meet();
            if (shared_.watch.aborted) return false;
        }
        // Everybody has read it: the next launch goes on after these messages.
        if (has_link) ptx::st_weak_u64(count_at(own.entry), count);
        return true;
    }

    // The slot that word `word` of the operand table says. All but addresses have 32 bits.
    __device__ __forceinline__ Side slot(u32 word) const {
        u32 place = word >> MSCCL_PLAN_PLACE_SHIFT, chunk = word & MSCCL_PLAN_INDEX_MASK;
        u32 chunk_bytes = u32(launch_.chunk_bytes), block_bytes = u32(launch_.block_bytes);
        if (__builtin_expect(place == MSCCL_PLAN_PLACE_SCRATCH, 0)) {
            u64 before = u64(chunk) * ((chunk_bytes + 15) & ~15u);
            return {launch_.scratch + before + start_, Side::BUFFER | length_};
        }
        u32 chunks = launch_.block_chunks, block = 0;
        if (chunks == 1) {
            block = chunk;
        } else if (__builtin_expect(chunk >= chunks, 0)) {
            block = chunk / chunks;
        }
        u32 in_block = (chunk - block * chunks) * chunk_bytes + start_;
        u32 exists = in_block < block_bytes ? block_bytes - in_block : 0;
        u64 base = place == MSCCL_PLAN_PLACE_INPUT ? launch_.input : launch_.output;
        return {base + u64(block) * block_bytes + in_block, Side::BUFFER | min(exists, length_)};
    }

    // Operand `at` is a chunk of a message of link `number`. False if the message's slot is to be refreshed.
    __device__ __forceinline__ bool put_message(u32 at, u32 word, u32 number, Opening& sought) {
        u32 fields = (word & MSCCL_PLAN_INDEX_MASK) >> MSCCL_PLAN_TABLE_LINK_BITS;
        u32 position = fields >> MSCCL_PLAN_TABLE_MESSAGE_BITS;
        u32 before = fields & ((1u << MSCCL_PLAN_TABLE_MESSAGE_BITS) - 1);
        sought.settle();
        u64 message = sought.counts.y + before + 1;
        u32 slot = u32(message - 1) & (launch_.link_depth - 1);
        u64 address = sought.places.x + u64(slot) * launch_.slot_bytes;
        shared_.sides[at] = {address + position * Protocol::wire_bytes(length_), message};
        shared_.links[at] = number;
        if constexpr (Protocol::REFRESHES) return !Protocol::is_due(message, launch_.link_depth);
        return true;
    }

    // Takes up a link; `count` is that of its messages after this launch. False if they have no slots yet.
    __device__ __forceinline__ bool take_up(Opening& own, u64& count) {
        own.settle();
        count = own.counts.y + own.messages;
        if (own.out) return count <= own.counts.x + launch_.link_depth;
        ptx::st_relaxed_sys_u64(own.places.y, own.counts.y);
        return true;
    }

    // Loads this thread's unit of the first source, which word `word` of the operand table says, if it lies in a buffer
    // and is of the first step, whose words `step` are. The loads of `begin` take as long.
    __device__ __forceinline__ void look_ahead(u32 word, const ptx::Words4& step) {
        bool lies = word >> MSCCL_PLAN_PLACE_SHIFT < MSCCL_PLAN_PLACE_SCRATCH;
        if (!lies || step.z == 0) return;
        state_ |= AHEAD;
        ahead_ = mover_.load(slot(word).span());
    }

    // One thread: what waits need.
    __device__ __forceinline__ void share() {
        auto control = reinterpret_cast<msccl_control*>(launch_.control);
        auto progress = reinterpret_cast<msccl_progress*>(launch_.progress);
        shared_.watch = {control, progress + block_number(), launch_.call, launch_.report_after_us, 0, 0, 0, 0};
    }

    // ---- Steps

    // Takes all `count` steps, whose words begin at `word`; ends early when the host says so.
    __device__ __forceinline__ void walk(u32 word, u32 count) {
        u32 unordered = launch_.flags & MSCCL_LAUNCH_LINKS_ORDER_MEMORY ? UNORDERED : 0;
        u32 set = 0;
#pragma unroll 1
        for (u32 step = 0; step < count; ++step) {
            auto [head, operands, chunks, reserved] = small_words(launch_, word);
            u32 sources = operands & 0xffff, destinations = operands >> MSCCL_PLAN_STEP_DESTINATIONS_SHIFT;
            if (__builtin_expect(head & MSCCL_PLAN_STEP_BUNDLE, 0)) step += sources - 1;
            if (threadIdx.x == 0) shared_.watch.step = step;
            if (__builtin_expect(state_ & UNORDERED, 0)) order_stores(head);
#pragma unroll 1
            for (u32 chunk = 0; chunk < chunks; ++chunk) {
                if (!move(set, sources, destinations, head)) return;
                set += sources + destinations;
            }
            if (head & MSCCL_PLAN_STEP_STORES) state_ |= unordered;
            if (__builtin_expect(state_ & REFRESHES, 0)) refresh(set - destinations, destinations, chunks);
            u32 far = head & MSCCL_PLAN_STEP_FAR ? sources + destinations : 0;
            u32 used = MSCCL_PLAN_STEP_LENGTH + sources + destinations + far;
            word += (used + MSCCL_PLAN_STEP_ALIGNMENT - 1) & ~(MSCCL_PLAN_STEP_ALIGNMENT - 1);
        }
        // The next kernel may take up room: this one waits for none to begin. The first thread has data if any has.
        if (threadIdx.x == 0) ptx::griddepcontrol_launch_dependents();
    }

    // Leaves no old flag in the slots of the message at hand, whose last chunk goes to the `count` sides from `to` on.
    __device__ __forceinline__ void refresh(u32 to, u32 count, u32 chunks) const {
        if constexpr (Protocol::REFRESHES) {
            u32 chunk_bytes = u32(Protocol::wire_bytes(length_));
#pragma unroll 1
            for (u32 at = to; at < to + count; ++at) {
                Side side = shared_.sides[at];
                if (!side.is_link() || !Protocol::is_due(side.meaning, launch_.link_depth)) continue;
                u64 slot = side.address - u64(chunks - 1) * chunk_bytes;
                Protocol::refresh(side.meaning, side.address + chunk_bytes, slot + launch_.slot_bytes);
            }
        }
    }

    // Packets must not overtake what the thread block stored, where links order other memory than their messages.
    __device__ __forceinline__ void order_stores(u32 head) {
        if (!(head & MSCCL_PLAN_STEP_SENDS)) return;
        ptx::fence_acq_rel_gpu();
        state_ &= ~UNORDERED;
        Everyone::meet();
    }

    // Moves one chunk, whose operands are the sides from `set` on. False when the kernel is to end.
    __device__ __forceinline__ bool move(u32 set, u32 sources, u32 destinations, u32 head) {
        // No thread of the warp has a unit.
        if ((threadIdx.x & ~31u) >= mover_.units) return true;
        // Not kept any longer, for want of registers: one that is stored to memory is waited for.
        Data ahead = ahead_;
        bool has_ahead = state_ & AHEAD;
        ahead_ = {};
        state_ &= ~AHEAD;
        if (__builtin_expect(head & MSCCL_PLAN_STEP_BUNDLE, 0)) return deal(set, sources);
        u32 divisor = head & MSCCL_PLAN_STEP_COMPLETES ? launch_.divisor : 0;
        Data data{};
        if (__builtin_expect(sources == 1 && divisor == 0, 1)) {
            Data values[1];
            if (!mover_.fetch(set, 1, values, has_ahead, ahead)) return false;
            data = values[0];
        } else if (sources == 2 && adds_words(divisor)) {
            Data values[2];
            if (!mover_.fetch(set, 2, values, has_ahead, ahead)) return false;
            if constexpr (Number::COMPUTES && Number::ADDS_WORDS) data = add_words<Number>(values[0], values[1]);
        } else {
            Arithmetic arithmetic{launch_.reduction, divisor};
            if (!combine(set, sources, arithmetic, data)) return false;
        }
        Line::together();
        u32 to = set + sources;
#pragma unroll 1
        for (u32 end = to + destinations; to < end; ++to) mover_.deliver(to, data);
        return true;
    }

    // Whether the sum of two is all that is wanted, and comes word by word.
    __device__ __forceinline__ bool adds_words(u32 divisor) const {
        if constexpr (Number::COMPUTES && Number::ADDS_WORDS) {
            return divisor == 0 && launch_.reduction == MSCCL_REDUCTION_SUM;
        }
        return false;
    }

    // What any number of sources combines to.
    __device__ __forceinline__ bool combine(u32 set, u32 sources, const Arithmetic& arithmetic, Data& result) const {
        if constexpr (Number::COMPUTES) {
            constexpr int MOST = group<Number>();
            Sum<Number, Line::WORDS> sum{};
#pragma unroll 1
            for (u32 from = 0; from < sources; from += MOST) {
                u32 count = min(sources - from, u32(MOST));
                Data values[MOST];
                if (!mover_.fetch(set + from, count, values, false, {})) return false;
                if (from == 0) sum.start(values[0]);
                sum.add(arithmetic.reduction, values, from == 0 ? 1 : 0, int(count));
            }
            result = sum.finish(arithmetic.divisor);
        }
        return true;
    }

    // Moves a chunk of a bundle: each source to the destination of its number. False when the kernel is to end.
    __device__ __forceinline__ bool deal(u32 set, u32 pairs) const {
        constexpr int NEXT = 4;
#pragma unroll 1
        for (u32 from = 0; from < pairs; from += NEXT) {
            u32 count = min(pairs - from, u32(NEXT));
            Data values[NEXT];
            if (!mover_.fetch(set + from, count, values, false, {})) return false;
            Line::together();
#pragma unroll
            for (u32 next = 0; next < NEXT; ++next) {
                if (next < count) mover_.deliver(set + pairs + from + next, values[next]);
            }
        }
        return true;
    }

    const msccl_launch& launch_;
    SmallShared& shared_;
    u32 start_;   // of the instance's part of a chunk
    u32 length_;  // of that part
    Mover<Protocol, Number, ODD> mover_;
    u32 first_link_ = 0;  // the word of the plan
    u32 state_ = 0;       // bits, in one register
    Data ahead_{};        // the first source, if `AHEAD`

    // The first source has been loaded.
    static constexpr u32 AHEAD = 1;
    // Some slot is to be refreshed.
    static constexpr u32 REFRESHES = 2;
    // The thread block stored to local memory since its last fence, and links order memory.
    static constexpr u32 UNORDERED = 4;
};

// The body of every kernel for small calls.
template <class Protocol, class Number, bool ODD>
__device__ inline void run_small(const msccl_launch& launch) {
    __shared__ SmallShared memory;
    Small<Protocol, Number, ODD>(launch, ptx::in_register(memory)).run();
}

static_assert(MSCCL_PLAN_STEP_HEAD == 0 && MSCCL_PLAN_STEP_OPERANDS == 1 && MSCCL_PLAN_STEP_COUNT == 2,
              "a step's fixed words are taken apart as they are laid out");

}  // namespace msccl

// A kernel for small calls, of one protocol and element type.
#define MSCCL_SMALL(name, Protocol, Number, ODD)                                               \
    extern "C" __global__ void __launch_bounds__(msccl::Protocol::THREADS, MSCCL_BLOCKS_EACH)  \
        name(const __grid_constant__ msccl_launch launch) {                                    \
        msccl::run_small<msccl::Protocol, msccl::Number, ODD>(launch);                         \
    }
