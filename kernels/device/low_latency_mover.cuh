// The operands of low-latency kernels (`low_latency.cuh`): where they lie, and how a thread reads
// and writes its units of them.
#pragma once

#include "interpreter.cuh"

namespace msccl {

// ---- Sides --------------------------------------------------------------------------------------

// An operand, as much of it as threads need. One load from shared memory fetches it.
struct alignas(16) Side {
    u64 address;
    u64 meaning;  // of a link: the message's number, counted from 1; of a buffer: the bytes that
                  // exist, and `BUFFER`

    static constexpr u64 BUFFER = 1ull << 63;

    __device__ bool is_link() const { return !(meaning & BUFFER); }
    // Of a buffer.
    __device__ Span span() const { return {address, u32(meaning), 0}; }
};

// Most operands that are read at the same time.
constexpr u32 FETCHED_MAX = 8;

// What the threads of a thread block share.
struct LowLatencyShared {
    Side sides[MSCCL_PLAN_WORDS + FETCHED_MAX];  // those after the last are looked at, and not used
    u32 links[MSCCL_PLAN_WORDS];  // of sides that are links: their numbers
    alignas(16) u32 words[MSCCL_PLAN_WORDS];  // of the plan, after its header
    Watch watch;
    Ending ending;
#ifdef MSCCL_RECORDS
    // How many messages each link had before the launch.
    u32 counts[u32(MSCCL_PLAN_WORDS) / MSCCL_PLAN_LINK_LENGTH];
#endif

    // Four words of the plan from `at` on, a multiple of four; words of its header do not count.
    __device__ __forceinline__ ptx::Words4 four_words(u32 at) const {
        return *reinterpret_cast<const ptx::Words4*>(&words[at]);
    }
};

// ---- The thread block ---------------------------------------------------------------------------

// What a thread block is, by its entry in the plan. Its words do not count those of the header.
struct LowLatencyRole {
    u32 first_step;
    u32 steps;
    u32 first_link;
    u32 links;
    u32 first_operand;
    u32 operands;

    __device__ __forceinline__ LowLatencyRole(const msccl_launch& launch,
                                              const LowLatencyShared& shared) {
        u32 entry = blockIdx.x * MSCCL_PLAN_TB_LENGTH;
        ptx::Words4 of_steps = shared.four_words(entry), rest = shared.four_words(entry + 4);
        first_step = of_steps.x - MSCCL_PLAN_HEADER_LENGTH;
        steps = of_steps.z;
        first_link =
            launch.link_table - MSCCL_PLAN_HEADER_LENGTH + rest.x * MSCCL_PLAN_LINK_LENGTH;
        links = (rest.y & 0xffff) + (rest.y >> MSCCL_PLAN_TB_SENDS_SHIFT);
        first_operand = rest.z - MSCCL_PLAN_HEADER_LENGTH;
        operands = rest.w;
    }
};

// Words of a step of `operands` operands, up to the next one: no step waits for others.
__device__ __forceinline__ u32 words_of_step(u32 head, u32 operands) {
    u32 far = head & MSCCL_PLAN_STEP_FAR ? operands : 0;
    u32 used = MSCCL_PLAN_STEP_LENGTH + operands + far;
    return (used + MSCCL_PLAN_STEP_ALIGNMENT - 1) & ~(MSCCL_PLAN_STEP_ALIGNMENT - 1);
}

// ---- Links --------------------------------------------------------------------------------------

// The end of a wire. Where it lies never changes; its counts are those that the launch before left.
struct Opening {
    u64 entry;
    u64 slots;  // the first slot
    u64 far;    // where the other end sees this end's count
    u32 messages;  // that its link carries
    bool out;

    // That of link number `link` of the thread block.
    __device__ __forceinline__ Opening(const msccl_launch& launch, const LowLatencyShared& shared,
                                       const LowLatencyRole& role, u32 link) {
        auto [peer, carried, traits, number] =
            shared.four_words(role.first_link + link * MSCCL_PLAN_LINK_LENGTH);
        messages = carried;
        out = traits & MSCCL_PLAN_LINK_OUT;
        // As in `WireTable`; there are fewer ends than 2^32.
        u32 place = ((out ? launch.ranks : 0) + peer) * launch.wires + number * launch.instances +
                    blockIdx.y;
        entry = launch.links + u64(sizeof(msccl_wire_end)) * place;
        load();
        // An entry without slots only says where this end lies.
        if (__builtin_expect(slots == 0, 0)) {
            entry = far;
            load();
        }
    }
    Opening() = default;

private:
    __device__ __forceinline__ void load() {
        ptx::Doubles2 places = ptx::ld_relaxed_sys_2u64(entry);
        slots = places.x;
        far = places.y;
    }
};

// Sender: waits until message number `count` of link number `threadIdx.x` has a slot. When the
// kernel is to end, returns.
__device__ __noinline__ void await_slot(u64 entry, u64 count, u32 depth, Watch& watch) {
    Wait wait;
    while (count > ptx::ld_relaxed_sys_u64(seen_at(entry)) + depth) {
        if (!wait.again(watch, {MSCCL_WAITING_ROOM, threadIdx.x, count - 1})) return;
    }
    wait.over(watch);
}

// ---- Moving -------------------------------------------------------------------------------------

// What a thread block has when it moves chunks, in one thread.
template <class Protocol, class Number, bool UNALIGNED>
struct Mover {
    using Line = typename Protocol::Unit;
    using Data = Pack<Line::WORDS>;
    // Words of eight bytes of data in a unit.
    static constexpr int EIGHTS = Line::WORDS / 2;

    LowLatencyShared& shared;
    u32 units;  // of a chunk
    u32 unit;   // the one at hand

    // Where the unit lies in a message. Threads that have none read the last one.
    __device__ u64 on_wire() const { return 16ull * min(unit, units - 1); }

    // What has been read of an operand: a unit of a message, or the one or two aligned packs of a
    // buffer in which the unit lies. No two loads have the same registers, and none stands behind a
    // branch: either would wait for what came before.
    struct Reading {
        ptx::Doubles2 pack;
        ptx::Doubles2 next;

        // It is not used any more, and takes no registers up to when it is read again.
        __device__ __forceinline__ void forget() {
            ptx::forget(pack);
            ptx::forget(next);
        }
    };

    // Has the unit of a side read, if that is `selected`; what does not exist of it is arbitrary.
    // Of a buffer other bytes of the same packs, and so of the same page, are read with it and not
    // used.
    __device__ __forceinline__ void read(Reading& into, const Side& side, bool selected) const {
        bool link = side.is_link();
        u64 first = side.address + (link ? on_wire() : Line::offset(unit)), pack = first & ~15ull;
        u64 end = side.address + u32(side.meaning);
        ptx::ld_relaxed_sys_2u64_if(into.pack, pack, selected && (link || first < end));
        if constexpr (UNALIGNED || EIGHTS > 1) {
            bool reaches = pack + 16 < first + 8 * EIGHTS && pack + 16 < end;
            ptx::ld_relaxed_sys_2u64_if(into.next, pack + 16, selected && !link && reaches);
        }
    }

    __device__ __forceinline__ static ptx::Words4 line(const Reading& reading) {
        auto [x, y] = reading.pack;
        return {u32(x), u32(x >> 32), u32(y), u32(y >> 32)};
    }

    // The unit that has been read of a side.
    __device__ __forceinline__ Data data(const Reading& reading, const Side& side) const {
        u32 before = u32(side.address + Line::offset(unit)) % 16;
        auto [first, second] = reading.pack;
        u64 third = reading.next.x;
        if (before >= 8) {
            first = second;
            second = third;
            third = reading.next.y;
        }
        if constexpr (UNALIGNED) {
            u32 shift = before % 8 * 8;
            first = pick(first, second, shift);
            second = pick(second, third, shift);
        }
        Data of_link = Line::data(line(reading)), data;
#pragma unroll
        for (int word = 0; word < Line::WORDS; ++word) {
            u64 both = word < 2 ? first : second;
            data.word[word] = u32(word % 2 == 0 ? both : both >> 32);
            if (side.is_link()) data.word[word] = of_link.word[word];
        }
        return data;
    }

    // This thread's units of `count` sources from `from` on, all at the same time; of others,
    // something arbitrary. That of the first is `ahead` if it has been read before. Relaxed: a
    // number vouches for the data of its unit or line, and for nothing else. Does not return when
    // the kernel is to end.
    template <int MOST>
    __device__ __forceinline__ void fetch(u32 from, u32 count, Data (&values)[MOST], bool has_ahead,
                                          const Reading& ahead) const {
        static_assert(MOST <= FETCHED_MAX, "sides may be looked at that are none");
        Reading readings[MOST] = {ahead};
        u32 links = 0;
        Line::together();
#pragma unroll
        for (u32 source = 0; source < MOST; ++source) {
            Side side = shared.sides[from + source];
            bool selected = source < count && !(source == 0 && has_ahead);
            read(readings[source], side, selected);
            links |= u32(selected && side.is_link()) << source;
        }
        if (links != 0) arrive(from, links, readings);
#pragma unroll
        for (int source = 0; source < MOST; ++source) {
            values[source] = data(readings[source], shared.sides[from + source]);
        }
    }

    // Reads again until the units of all `links` among the sides from `from` on have come.
    template <int MOST>
    __device__ __forceinline__ void arrive(u32 from, u32 links, Reading (&readings)[MOST]) const {
        u32 missing = links;
        Wait wait;
        while (true) {
#pragma unroll
            for (int source = 0; source < MOST; ++source) {
                bool here = Line::here(line(readings[source]), shared.sides[from + source].meaning);
                if (Line::all(here)) missing &= ~(1u << source);
            }
            if (missing == 0) break;
            u32 at = from + u32(__ffs(int(missing)) - 1);
            Reason reason{MSCCL_WAITING_MESSAGE, shared.links[at], shared.sides[at].meaning - 1};
            if (!Line::all(wait.again_apart(shared.watch, reason))) ptx::exit();
            read_again(from, missing, readings);
        }
        wait.over_apart(shared.watch);
        if constexpr (Line::CONFIRMS) read_again(from, links, readings);
    }

    template <int MOST>
    __device__ __forceinline__ void read_again(u32 from, u32 selected,
                                               Reading (&readings)[MOST]) const {
        Line::together();
#pragma unroll
        for (int source = 0; source < MOST; ++source) {
            u64 address = shared.sides[from + source].address + on_wire();
            ptx::ld_relaxed_sys_2u64_if(readings[source].pack, address, selected >> source & 1);
        }
    }

    // Writes this thread's unit to side `to`.
    __device__ __forceinline__ void deliver(u32 to, const Data& data) const {
        if (unit >= units) return;
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
            u32 offset = Line::offset(unit) + 8 * at;
            u64 both = u64(data.word[2 * at + 1]) << 32 | data.word[2 * at];
            if constexpr (UNALIGNED) {
                store_eight(span, offset, both);
            } else if (__builtin_expect(offset + 8 <= span.limit, 1)) {
                ptx::st_weak_u64(span.address + offset, both);
            } else if (offset < span.limit) {
                store_few(span.address + offset, both, span.limit - offset);
            }
        }
    }
};

}  // namespace msccl
