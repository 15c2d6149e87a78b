// Low-latency kernels: calls in which no thread has more than a few units of any chunk.
//
// Such calls take a few microseconds, and in an interpreter most of that is instructions. An
// interpreter has code for whatever a call may be, and every jump over code that is not needed
// costs as much as thirty instructions where it leaves the instruction cache. Here is one path, for
// launches of which the host knows (`plan::low_latency`) that
//
// * messages are packets, there is one round, every step is one message in it, and no link carries
//   more messages than it has slots;
// * no step waits for another thread block; the plan lies in the launch as a whole; every thread
//   block has an operand table, if it has any step, and no more operands, nor links, than threads;
// * unless `UNALIGNED`, every operand begins at a multiple of eight bytes. It may end anywhere.
//
// It does what an interpreter does that prefetches all operands, for the reasons that `step.cuh`
// gives: the same messages with the same numbers, in the same order, counted alike. Which of the
// two one rank runs makes no difference to the others.
//
// Two things take longer than they look (measured, `docs/results/2026-11-23-2xh200.md`). Each few
// words of a launch are waited for anew, so all of the plan is loaded together. And the launch
// before ends late: whatever does not depend on it is done by then. After it come the counts of
// links, the first source, one barrier, and the first step, if it is a copy: peers wait for that.
// While they do, the rest is prepared.
//
// Nothing on the fast path calls a function, whose code would not be there yet. Only waits do, when
// they have lasted. A thread whose wait gives up ends there. If every function returned to its
// caller instead, the kernel would take a quarter more registers, and calls of 16 and 64 KiB 5 %
// more time (`docs/results/2026-11-28.md`).
#pragma once

#include "low_latency_mover.cuh"

namespace msccl {

// ---- A thread block -----------------------------------------------------------------------------

// In one thread.
template <class Protocol, class Number, bool UNALIGNED>
class LowLatency {
    using Line = typename Protocol::Unit;
    using Data = Pack<Line::WORDS>;
    using Reading = typename Mover<Protocol, Number, UNALIGNED>::Reading;

public:
    __device__ __forceinline__ LowLatency(const msccl_launch& launch, LowLatencyShared& shared)
        : launch_(launch),
          shared_(shared),
          start_(blockIdx.y * u32(launch.part_bytes)),
          length_(start_ < u32(launch.chunk_bytes)
                      ? min(u32(launch.part_bytes), u32(launch.chunk_bytes) - start_)
                      : 0),
          mover_{shared, u32(Line::units(length_)), threadIdx.x} {}

    __device__ __forceinline__ void run() {
        read_plan();
        LowLatencyRole role(launch_, shared_);
        Share share = find(role);
#ifdef MSCCL_RECORDS
        recorder_.prefetch(record_entry());
#endif
        ptx::griddepcontrol_wait();
        if (!begin(share)) return;
        walk(role.first_step, role.steps);
        shared_.ending.end(shared_.watch);
    }

private:
    // ---- Beginning ------------------------------------------------------------------------------

    // Has the words of the plan in shared memory: in the launch each few of them would have to be
    // waited for anew.
    __device__ __forceinline__ void read_plan() {
#pragma unroll 1
        for (u32 at = 4 * threadIdx.x; at < MSCCL_PLAN_WORDS; at += 4 * blockDim.x) {
            put_words(at, ptx::ld_param_4u32(address(&launch_.words[at])));
        }
        if (is_speaker()) share();
        Everyone::meet();
    }

    __device__ __forceinline__ void put_words(u32 at, const ptx::Words4& words) {
        *reinterpret_cast<ptx::Words4*>(&shared_.words[at]) = words;
    }

    // What a thread looks after: an end of a link, and an operand.
    struct Share {
        Opening own;      // the link of the thread's number, if `has_link`
        Opening sought;   // that of its operand, if `seeks`: some other thread takes it up
        Side first;       // the first source, if it can be read early
        ptx::Words4 step; // of the first step
        u32 at;           // the operand
        u32 word;         // of the operand table
        bool has_link;
        bool seeks;

        __device__ u32 number() const { return word & ((1u << MSCCL_PLAN_TABLE_LINK_BITS) - 1); }
    };

    // Finds the links, one in each thread, and the operands, one in each thread, other threads than
    // those with links coming first. The launch before may not have ended: nothing is read but this
    // one and where wires lie.
    __device__ __forceinline__ Share find(const LowLatencyRole& role) {
        Share share{};
        share.has_link = threadIdx.x < role.links;
        share.at = Everyone::second();
        bool has_operand = share.at < role.operands;
        share.word = has_operand ? shared_.words[role.first_operand + share.at] : 0;
        share.seeks = share.word >> MSCCL_PLAN_PLACE_SHIFT == MSCCL_PLAN_PLACE_LINK;
        if (share.has_link) share.own = Opening(launch_, shared_, role, threadIdx.x);
        if (share.seeks) share.sought = Opening(launch_, shared_, role, share.number());
        if (has_operand && !share.seeks) shared_.sides[share.at] = slot(share.word);
        share.step = shared_.four_words(role.first_step);
        if (role.operands != 0)
            share.first = first_source(shared_.words[role.first_operand], share.step);
        if (!share.first.is_link()) state_ |= is_copy(share.step) ? AHEAD | ALONE : AHEAD;
        return share;
    }

    // Takes up the links with all their messages, and copies what the first step copies. False when
    // the kernel is to end.
    __device__ __forceinline__ bool begin(const Share& share) {
        const Opening& own = share.own;
        // All loads are on their way before the first is looked at.
        ptx::Doubles2 counts{}, sought{};
        Notice notice(launch_.notice, is_speaker());
        if (share.has_link) counts = ptx::ld_relaxed_sys_2u64(seen_at(own.entry));
        if (share.seeks) sought = ptx::ld_relaxed_sys_2u64(seen_at(share.sought.entry));
        mover_.read(ahead_, share.first, state_ & AHEAD);
#ifdef MSCCL_RECORDS
        recorder_.await_begin(record_entry());
        if (recorder_.in_warp()) state_ |= RECORDS;
        if (share.has_link) shared_.counts[threadIdx.x] = u32(counts.y);
#endif
        bool usual = !share.seeks || put_message(share, sought.y);
        u64 count = counts.y + own.messages;
        bool waits = share.has_link && !take_up(own, counts, count);
        if (__builtin_expect(!Everyone::all(usual && !waits && !notice.stopped()), 0)) {
            must_stop(shared_.watch, notice);
            if (waits) await_slot(own.entry, count, launch_.link_depth, shared_.watch);
            ahead_ = {};
            state_ = REFRESHES | (state_ & RECORDS);
            Everyone::meet();
            if (shared_.watch.aborted) return false;
        }
        if (state_ & ALONE) copy_first(share.first, share.step);
        // Everybody has read it: the next launch goes on after these messages.
        if (share.has_link) ptx::st_weak_u64(count_at(own.entry), count);
#ifdef MSCCL_RECORDS
        if (state_ & RECORDS) recorder_.begin();
#endif
        shared_.ending.begin(launch_.control, notice);
        return true;
    }

    // Whether the step of these words is a copy of one chunk, of which no thread has two units.
    __device__ __forceinline__ bool is_copy(const ptx::Words4& step) const {
        auto [head, operands, chunks, reserved] = step;
        bool divides = head & MSCCL_PLAN_STEP_COMPLETES && launch_.divisor != 0;
        bool plain = !divides && !(head & MSCCL_PLAN_STEP_BUNDLE) && (operands & 0xffff) == 1;
        return plain && chunks == 1 && mover_.units <= blockDim.x;
    }

    // Makes such a copy of `first`. Peers wait for it.
    __device__ __forceinline__ void copy_first(const Side& first, const ptx::Words4& step) {
        Data data = mover_.data(ahead_, first);
        Line::together();
        u32 destinations = step.y >> MSCCL_PLAN_STEP_DESTINATIONS_SHIFT;
#pragma unroll 1
        for (u32 to = 1; to <= destinations; ++to) mover_.deliver(to, data);
        state_ &= ~AHEAD;
        ahead_.forget();
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

    // The operand of `share` is a chunk of a message of a link that has had `count` before. False
    // if the message's slot is to be refreshed.
    __device__ __forceinline__ bool put_message(const Share& share, u64 count) {
        u32 fields = (share.word & MSCCL_PLAN_INDEX_MASK) >> MSCCL_PLAN_TABLE_LINK_BITS;
        u32 position = fields >> MSCCL_PLAN_TABLE_MESSAGE_BITS;
        u32 before = fields & ((1u << MSCCL_PLAN_TABLE_MESSAGE_BITS) - 1);
        u64 message = count + before + 1;
        u32 slot = u32(message - 1) & (launch_.link_depth - 1);
        u64 address = share.sought.slots + u64(slot) * launch_.slot_bytes;
        shared_.sides[share.at] = {address + position * Protocol::wire_bytes(length_), message};
        shared_.links[share.at] = share.number();
        if constexpr (Protocol::REFRESHES) return !Protocol::is_due(message, launch_.link_depth);
        return true;
    }

    // Takes up a link, of which there are `count` messages after this launch. False if they have no
    // slots yet.
    __device__ __forceinline__ bool take_up(const Opening& own, const ptx::Doubles2& counts,
                                            u64 count) {
        if (own.out) return count <= counts.x + launch_.link_depth;
        ptx::st_relaxed_sys_u64(own.far, counts.y);
        return true;
    }

    // The first source, which word `word` of the operand table says, if it lies in a buffer and is
    // of the first step, whose words `step` are: it can be read early.
    __device__ __forceinline__ Side first_source(u32 word, const ptx::Words4& step) const {
        bool lies = word >> MSCCL_PLAN_PLACE_SHIFT < MSCCL_PLAN_PLACE_SCRATCH;
        return lies && step.z != 0 ? slot(word) : Side{};
    }

    // One thread: what waits need.
    __device__ __forceinline__ void share() {
        shared_.watch = watch_of(launch_, block_number());
    }

    // ---- Steps ----------------------------------------------------------------------------------

    // Takes all `count` steps, whose words begin at `word`. Does not return when the kernel is to
    // end.
    __device__ __forceinline__ void walk(u32 word, u32 count) {
        u32 unordered = launch_.flags & MSCCL_LAUNCH_LINKS_ORDER_MEMORY ? UNORDERED : 0;
        u32 set = 0;
        // The launch before has ended, so no more than two are there. Not earlier: it takes as long
        // as a load from memory.
        if (launch_.flags & MSCCL_LAUNCH_LEAVES_ROOM) let_next_begin();
#ifdef MSCCL_RECORDS
        if (count == 0 && (state_ & RECORDS)) record_idle();
#endif
#pragma unroll 1
        for (u32 step = 0; step < count; ++step) {
            auto [head, operands, chunks, reserved] = shared_.four_words(word);
            u32 sources = operands & 0xffff,
                destinations = operands >> MSCCL_PLAN_STEP_DESTINATIONS_SHIFT;
            if (__builtin_expect(head & MSCCL_PLAN_STEP_BUNDLE, 0)) step += sources - 1;
            if (threadIdx.x == 0) shared_.watch.step = step;
            if (__builtin_expect(state_ & UNORDERED, 0)) order_stores(head);
#pragma unroll 1
            for (u32 chunk = 0; chunk < chunks; ++chunk) {
                if (!(state_ & ALONE)) move(set, sources, destinations, head, word);
                set += sources + destinations;
            }
            state_ &= ~ALONE;
#ifdef MSCCL_RECORDS
            if (state_ & RECORDS) record_step(step, count, sources, head);
#endif
            if (head & MSCCL_PLAN_STEP_STORES) state_ |= unordered;
            if (__builtin_expect(state_ & REFRESHES, 0))
                refresh(set - destinations, destinations, chunks);
            word += words_of_step(head, sources + destinations);
        }
        // Now it waits for nothing that the next kernel could keep from running.
        let_next_begin();
    }

#ifdef MSCCL_RECORDS
    // ---- Records --------------------------------------------------------------------------------
    //
    // A launch begins when all threads have met, and nothing is written before the first step is
    // over: peers wait for what comes before.

    // The entry of the table of rings.
    __device__ __forceinline__ u64 record_entry() const {
        return entry_of_table(launch_.notice, block_number());
    }

    // Step number `step` of `count` is over, the last one of a bundle.
    __device__ __forceinline__ void record_step(u32 step, u32 count, u32 sources, u32 head) {
        u32 now_ns = u32(ptx::globaltimer_ns());
        if (!recorder_.has_begun()) {
            u32 links = LowLatencyRole(launch_, shared_).links;
            recorder_.put_begin(launch_.call, shared_.counts, links);
            if (recorder_.lane != 0) {
                state_ &= ~RECORDS;
                return;
            }
        }
        u32 first = head & MSCCL_PLAN_STEP_BUNDLE ? step - (sources - 1) : step;
        u32 kind = step + 1 == count ? RECORD_LAST_MOVE : RECORD_MOVE;
        recorder_.put_move(now_ns, what_of(kind, first), record_entry());
    }

    // The launch has no step here.
    __device__ __forceinline__ void record_idle() const {
        u32 links = LowLatencyRole(launch_, shared_).links;
        record_idle_launch(recorder_, launch_.call, shared_.counts, links, record_entry());
    }
#endif

    // The first thread has data if any has.
    __device__ __forceinline__ static void let_next_begin() {
        if (threadIdx.x == 0) ptx::griddepcontrol_launch_dependents();
    }

    // Leaves no old flag in the slots of the message at hand, whose last chunk goes to the `count`
    // sides from `to` on.
    __device__ __forceinline__ void refresh(u32 to, u32 count, u32 chunks) const {
        if constexpr (Protocol::REFRESHES) {
            u32 chunk_bytes = u32(Protocol::wire_bytes(length_));
#pragma unroll 1
            for (u32 at = to; at < to + count; ++at) {
                Side side = shared_.sides[at];
                if (!side.is_link() || !Protocol::is_due(side.meaning, launch_.link_depth))
                    continue;
                u64 slot = side.address - u64(chunks - 1) * chunk_bytes;
                Protocol::refresh(side.meaning, side.address + chunk_bytes,
                                  slot + launch_.slot_bytes);
            }
        }
    }

    // Packets must not overtake what the thread block stored, where links order other memory than
    // their messages.
    __device__ __forceinline__ void order_stores(u32 head) {
        if (!(head & MSCCL_PLAN_STEP_SENDS)) return;
        ptx::fence_acq_rel_gpu();
        state_ &= ~UNORDERED;
        Everyone::meet();
    }

    // Moves one chunk of the step at `word`, whose operands are the sides from `set` on. Neither
    // this nor what it calls returns when the kernel is to end.
    __device__ __forceinline__ void move(u32 set, u32 sources, u32 destinations, u32 head,
                                         u32 word) {
        // As long as any thread of the warp has a unit.
#pragma unroll 1
        for (mover_.unit = threadIdx.x; (mover_.unit & ~31u) < mover_.units;
             mover_.unit += blockDim.x) {
            move_unit(set, sources, destinations, head, word);
        }
    }

    // The same for one unit.
    __device__ __forceinline__ void move_unit(u32 set, u32 sources, u32 destinations, u32 head,
                                              u32 word) {
        // Not kept any longer, for want of registers: one that is stored to memory is waited for.
        Reading ahead = ahead_;
        bool has_ahead = state_ & AHEAD;
        ahead_.forget();
        state_ &= ~AHEAD;
        if (__builtin_expect(head & MSCCL_PLAN_STEP_BUNDLE, 0)) return deal(set, sources);
        u32 divisor = head & MSCCL_PLAN_STEP_COMPLETES ? launch_.divisor : 0;
        Data data{};
        if (__builtin_expect(is_plain(sources, divisor), 1)) {
            Data values[2];
            mover_.fetch(set, sources, values, has_ahead, ahead);
            data = sources == 2 ? sum_of(values) : values[0];
        } else {
            data = combine(set, sources, arithmetic_of(launch_, divisor), word);
        }
        Line::together();
        u32 to = set + sources;
#pragma unroll 1
        for (u32 end = to + destinations; to < end; ++to) mover_.deliver(to, data);
    }

    // Whether it is a copy or a sum of two, and no more.
    __device__ __forceinline__ bool is_plain(u32 sources, u32 divisor) const {
        bool sums = Number::COMPUTES && launch_.reduction == MSCCL_REDUCTION_SUM;
        return divisor == 0 && (sources == 1 || (sources == 2 && sums));
    }

    __device__ __forceinline__ static Data sum_of(const Data (&values)[2]) {
        if constexpr (!Number::COMPUTES) {
            return values[0];
        } else if constexpr (Number::ADDS_WORDS) {
            return add_words<Number>(values[0], values[1]);
        } else {
            Sum<Number, Line::WORDS> sum{};
            sum.start(values[0]);
            sum.add(MSCCL_REDUCTION_SUM, values, 1, 2);
            return sum.finish(0);
        }
    }

    // What any number of sources of the step at `word` combines to.
    __device__ __forceinline__ Data combine(u32 set, u32 sources, const Arithmetic& arithmetic,
                                            u32 word) const {
        if constexpr (Number::SCALES) {
            if (arithmetic.scales()) return average(set, sources, arithmetic, word);
        }
        if constexpr (Number::COMPUTES) {
            // Lines, and units anywhere, take twice the registers.
            constexpr int MOST = UNALIGNED || Line::WORDS > 2 ? 4 : group<Number>();
            Sum<Number, Line::WORDS> sum{};
#pragma unroll 1
            for (u32 from = 0; from < sources; from += MOST) {
                u32 count = min(sources - from, u32(MOST));
                Data values[MOST];
                mover_.fetch(set + from, count, values, false, {});
                if (from == 0) sum.start(values[0]);
                sum.add(arithmetic.reduction, values, from == 0 ? 1 : 0, int(count));
            }
            return sum.finish(arithmetic.divisor);
        }
        return {};
    }

    // The average of floats. Such steps wait for nothing, so their sources follow the fixed words.
    __device__ __forceinline__ Data average(u32 set, u32 sources, const Arithmetic& arithmetic,
                                            u32 word) const {
        constexpr int MOST = 2;
        Factor<Number> factor(arithmetic);
        Sum<Number, Line::WORDS> sum{};
#pragma unroll 1
        for (u32 from = 0; from < sources; from += MOST) {
            u32 count = min(sources - from, u32(MOST));
            Data values[MOST];
            mover_.fetch(set + from, count, values, false, {});
#pragma unroll
            for (u32 source = 0; source < MOST; ++source) {
                u32 at = word + MSCCL_PLAN_STEP_LENGTH + from + source;
                bool raw = source < count && (shared_.words[at] & MSCCL_PLAN_RAW);
                if (raw) values[source] = factor.of(values[source]);
            }
            if (from == 0) sum.start(values[0]);
            sum.add(MSCCL_REDUCTION_SUM, values, from == 0 ? 1 : 0, int(count));
        }
        return sum.finish(0);
    }

    // Moves a chunk of a bundle: each source to the destination of its number.
    __device__ __forceinline__ void deal(u32 set, u32 pairs) const {
        constexpr int NEXT = 4;
#pragma unroll 1
        for (u32 from = 0; from < pairs; from += NEXT) {
            u32 count = min(pairs - from, u32(NEXT));
            Data values[NEXT];
            mover_.fetch(set + from, count, values, false, {});
            Line::together();
#pragma unroll
            for (u32 next = 0; next < NEXT; ++next) {
                if (next < count) mover_.deliver(set + pairs + from + next, values[next]);
            }
        }
    }

    const msccl_launch& launch_;
    LowLatencyShared& shared_;
    u32 start_;   // of the instance's part of a chunk
    u32 length_;  // of that part
    Mover<Protocol, Number, UNALIGNED> mover_;
#ifdef MSCCL_RECORDS
    LowLatencyRecorder recorder_{mover_.units};
#endif
    u32 state_ = 0;    // bits, in one register
    Reading ahead_{};  // the first source, if `AHEAD`

    // The first source has been read.
    static constexpr u32 AHEAD = 1;
    // The first step is a copy that is made before steps are looked at.
    static constexpr u32 ALONE = 8;
    // Some slot is to be refreshed.
    static constexpr u32 REFRESHES = 2;
    // The thread block stored to local memory since its last fence, and links order memory.
    static constexpr u32 UNORDERED = 4;
    // The thread has something to record, where kernels do.
    static constexpr u32 RECORDS = 16;
};

// The body of every low-latency kernel.
template <class Protocol, class Number, bool UNALIGNED>
__device__ inline void run_low_latency(const msccl_launch& launch) {
    __shared__ LowLatencyShared memory;
    LowLatency<Protocol, Number, UNALIGNED>(launch, ptx::in_register(memory)).run();
}

static_assert(MSCCL_PLAN_STEP_HEAD == 0 && MSCCL_PLAN_STEP_OPERANDS == 1 &&
                  MSCCL_PLAN_STEP_COUNT == 2,
              "a step's fixed words are taken apart as they are laid out");

}  // namespace msccl

// A low-latency kernel of one protocol and element type.
#define MSCCL_LOW_LATENCY(name, Protocol, Number, UNALIGNED)                                  \
    extern "C" __global__ void __launch_bounds__(msccl::Protocol::THREADS, MSCCL_BLOCKS_EACH) \
        name(const __grid_constant__ msccl_launch launch) {                                   \
        msccl::run_low_latency<msccl::Protocol, msccl::Number, UNALIGNED>(launch);            \
    }
