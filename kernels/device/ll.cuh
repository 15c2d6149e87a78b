// Protocol LL: packets of 16 bytes, of which 8 are data and 8 are flags.
//
// A packet is `data flag data flag`, four bytes each, written by one store. The hardware keeps eight
// aligned bytes together, so a flag vouches for the data beside it; it is the low half of the message's
// number. A reader needs no other word from the sender, and a writer no fence.
//
// A flag comes round again after 2^32 messages. A packet that no message of those overwrote would then
// pass for new, so once in 2^20 messages a sender fills the whole slot with its flag.
#pragma once

#include "simple.cuh"

namespace msccl {

struct Ll {
    static constexpr bool TAILS = false;
    static constexpr bool REFRESHES = true;
    static constexpr int THREADS = MSCCL_THREADS_MAX_LL;

    // Bytes of data in a packet, and of a packet.
    static constexpr u32 DATA = 8;
    static constexpr u32 PACKET = 16;
    // Messages between two that fill their slot, a power of two.
    static constexpr u32 REFRESH = 1 << 20;

    __device__ static u64 wire_bytes(u64 data) { return (data + DATA - 1) / DATA * PACKET; }

    template <class Number>
    __device__ __noinline__ static bool move(Move move, Watch& watch) {
        u32 packets = (move.length + DATA - 1) / DATA;
#pragma unroll 1
        for (u32 packet = threadIdx.x; packet < packets; packet += blockDim.x) {
            Pack<2> result;
            if (!combine<Number>(move, packet, watch, result)) return false;
            scatter<Number>(move, packet, result);
        }
        return true;
    }

    // Marks what the message does not fill of its slot, which lies from `begin` to `end`.
    __device__ static void refresh(u64 message, u64 begin, u64 end) {
        u32 flag = u32(message);
#pragma unroll 1
        for (u64 at = begin + PACKET * threadIdx.x; at < end; at += PACKET * blockDim.x) {
            ptx::st_relaxed_sys_4u32(at, {0, flag, 0, flag});
        }
    }

private:
    // What packet `packet` of the destinations is to hold. False when the kernel is to end.
    template <class Number>
    __device__ static bool combine(const Move& move, u32 packet, Watch& watch, Pack<2>& result) {
        constexpr int MOST = group<Number>();
        Sum<Number, 2> sum;
#pragma unroll 1
        for (u32 from = 0; from < move.source_count; from += MOST) {
            int count = min(int(move.source_count - from), MOST);
            Pack<2> value[MOST];
            if (!fetch<Number>(move.sources + from, count, packet, watch, value)) return false;
            result = value[0];
            if (move.is_copy()) return true;
            if (from == 0) sum.start(value[0]);
            sum.add(move.arithmetic.reduction, value, from == 0 ? 1 : 0, count);
        }
        result = sum.finish(move.arithmetic.divisor);
        return true;
    }

    // Reads packet `packet` of `count` sources. All loads are on their way before the first is looked
    // at. Relaxed: the flag vouches for the data beside it and for nothing else.
    template <class Number, int MOST>
    __device__ static bool fetch(const Operand* sources, int count, u32 packet, Watch& watch,
                                 Pack<2> (&value)[MOST]) {
        ptx::Words4 line[MOST];
#pragma unroll
        for (int at = 0; at < MOST; ++at) {
            if (at < count) line[at] = first_look<Number>(sources[at], packet);
        }
        u32 missing = 0;
#pragma unroll
        for (int at = 0; at < MOST; ++at) {
            if (at < count && !complete(sources[at], line[at])) missing |= 1u << at;
        }
        Wait wait;
        while (missing != 0) {
            const Operand& awaited = sources[__ffs(int(missing)) - 1];
            Reason reason{MSCCL_WAITING_MESSAGE, awaited.link, awaited.message - 1};
            if (!wait.again(watch, reason)) return false;
#pragma unroll
            for (int at = 0; at < MOST; ++at) {
                if (missing >> at & 1) line[at] = look(sources[at], packet);
            }
#pragma unroll
            for (int at = 0; at < MOST; ++at) {
                if (!(missing >> at & 1)) continue;
                if (complete(sources[at], line[at])) missing &= ~(1u << at);
            }
        }
        wait.over(watch);
#pragma unroll
        for (int at = 0; at < MOST; ++at) value[at] = {{line[at].x, line[at].z}};
        return true;
    }

    template <class Number>
    __device__ static ptx::Words4 first_look(const Operand& from, u32 packet) {
        if (from.is_link()) return look(from, packet);
        Pack<2> data = load<Number::BYTES, 2, Coherence::GPU>(from, packet * DATA);
        return {data.word[0], 0, data.word[1], 0};
    }

    __device__ static ptx::Words4 look(const Operand& link, u32 packet) {
        return ptx::ld_relaxed_sys_4u32(link.address + u64(packet) * PACKET);
    }

    // Local data always is.
    __device__ static bool complete(const Operand& from, const ptx::Words4& line) {
        u32 flag = u32(from.message);
        return !from.is_link() || (line.y == flag && line.w == flag);
    }

    template <class Number>
    __device__ static void scatter(const Move& move, u32 packet, const Pack<2>& value) {
#pragma unroll 1
        for (u32 at = 0; at < move.destination_count; ++at) {
            const Operand& to = move.destinations[at];
            if (to.is_link()) {
                u32 flag = u32(to.message);
                ptx::st_relaxed_sys_4u32(to.address + u64(packet) * PACKET,
                                         {value.word[0], flag, value.word[1], flag});
            } else {
                store<Number::BYTES, 2>(to, packet * DATA, value);
            }
        }
    }
};

}  // namespace msccl
