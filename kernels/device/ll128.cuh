// Protocol LL128: lines of 128 bytes, of which 120 are data and 8 are a flag.
//
// Eight neighbouring lanes hold a line, sixteen bytes each; the second half of the last lane is the
// flag, the message's number. Each line is written by one store of the warp, and read by one load.
// NVLink, and the memory of one GPU, carry such a line as a whole, so the flag vouches for all of it;
// over PCIe it need not, so a runtime must not choose this protocol there.
//
// Nothing comes round again here: the number has 64 bits.
#pragma once

#include "simple.cuh"

namespace msccl {

struct Ll128 {
    static constexpr bool TAILS = false;
    static constexpr bool REFRESHES = false;
    static constexpr int THREADS = MSCCL_THREADS_MAX_LL128;

    // Bytes of data in a line, of a line, and of a lane.
    static constexpr u32 DATA = 120;
    static constexpr u32 LINE = 128;
    static constexpr u32 LANE = 16;
    // Lanes that hold a line.
    static constexpr u32 LANES = LINE / LANE;

    __device__ static u64 wire_bytes(u64 data) { return (data + DATA - 1) / DATA * LINE; }

    // All lanes of a warp go through it together.
    template <class Number>
    __device__ __noinline__ static bool move(Move move, Watch& watch) {
        u32 lines = (move.length + DATA - 1) / DATA;
        u32 first = threadIdx.x / 32 * (32 / LANES);
#pragma unroll 1
        for (; first < lines; first += blockDim.x / LANES) {
            Place place{first + threadIdx.x % 32 / LANES, threadIdx.x % LANES, lines};
            Pack<4> result;
            if (!combine<Number>(move, place, watch, result)) return false;
            scatter<Number>(move, place, result);
        }
        return true;
    }

private:
    // What this thread holds of a chunk.
    struct Place {
        u32 line;
        u32 lane;
        u32 lines;

        __device__ bool exists() const { return line < lines; }
        __device__ bool has_flag() const { return lane == LANES - 1; }
        __device__ u64 on_wire() const { return u64(line) * LINE + lane * LANE; }
        __device__ u32 in_data() const { return line * DATA + lane * LANE; }
    };

    template <class Number>
    __device__ static bool combine(const Move& move, const Place& place, Watch& watch,
                                   Pack<4>& result) {
        constexpr int MOST = group<Number>();
        Sum<Number, 4> sum;
#pragma unroll 1
        for (u32 from = 0; from < move.source_count; from += MOST) {
            int count = min(int(move.source_count - from), MOST);
            Pack<4> value[MOST];
            if (!fetch<Number>(move.sources + from, count, place, watch, value)) return false;
            result = value[0];
            if (move.is_copy()) return true;
            if (from == 0) sum.start(value[0]);
            sum.add(move.arithmetic.reduction, value, from == 0 ? 1 : 0, count);
        }
        result = sum.finish(move.arithmetic.divisor);
        return true;
    }

    // Reads the line of `count` sources. All loads are on their way before the first is looked at.
    template <class Number, int MOST>
    __device__ static bool fetch(const Operand* sources, int count, const Place& place, Watch& watch,
                                 Pack<4> (&value)[MOST]) {
        // A line is read as a whole only by lanes that stand together.
        __syncwarp();
#pragma unroll
        for (int at = 0; at < MOST; ++at) {
            if (at < count) value[at] = first_look<Number>(sources[at], place);
        }
        u32 missing = 0;
#pragma unroll
        for (int at = 0; at < MOST; ++at) {
            if (at < count && !complete(sources[at], place, value[at])) missing |= 1u << at;
        }
        Wait wait;
        while (missing != 0) {
            const Operand& awaited = sources[__ffs(int(missing)) - 1];
            Reason reason{MSCCL_WAITING_MESSAGE, awaited.link, awaited.message - 1};
            if (!__all_sync(~0u, wait.again(watch, reason))) return false;
#pragma unroll
            for (int at = 0; at < MOST; ++at) {
                if (missing >> at & 1) value[at] = look(sources[at], place);
            }
#pragma unroll
            for (int at = 0; at < MOST; ++at) {
                if (!(missing >> at & 1)) continue;
                if (complete(sources[at], place, value[at])) missing &= ~(1u << at);
            }
        }
        wait.over(watch);
        return true;
    }

    template <class Number>
    __device__ static Pack<4> first_look(const Operand& from, const Place& place) {
        if (from.is_link()) return look(from, place);
        Pack<2> low{}, high{};
        if (place.exists()) {
            low = load<Number::BYTES, 2, Coherence::GPU>(from, place.in_data());
            if (!place.has_flag()) {
                high = load<Number::BYTES, 2, Coherence::GPU>(from, place.in_data() + 8);
            }
        }
        return {{low.word[0], low.word[1], high.word[0], high.word[1]}};
    }

    __device__ static Pack<4> look(const Operand& from, const Place& place) {
        if (!place.exists()) return {};
        ptx::Doubles2 both = ptx::ld_relaxed_sys_2u64(from.address + place.on_wire());
        return {{u32(both.x), u32(both.x >> 32), u32(both.y), u32(both.y >> 32)}};
    }

    // Whether all lines of the warp have come; local data always has. The same for all lanes.
    __device__ static bool complete(const Operand& from, const Place& place, const Pack<4>& value) {
        if (!from.is_link()) return true;
        bool here = element<8>(value, 1) == from.message;
        return __all_sync(~0u, here || !place.has_flag() || !place.exists());
    }

    template <class Number>
    __device__ static void scatter(const Move& move, const Place& place, const Pack<4>& value) {
        Pack<2> low{{value.word[0], value.word[1]}};
        Pack<2> high{{value.word[2], value.word[3]}};
#pragma unroll 1
        for (u32 at = 0; at < move.destination_count; ++at) {
            const Operand& to = move.destinations[at];
            // And written as a whole.
            __syncwarp();
            if (!place.exists()) continue;
            if (to.is_link()) {
                u64 second = place.has_flag() ? to.message : element<8>(high, 0);
                ptx::st_relaxed_sys_2u64(to.address + place.on_wire(), {element<8>(low, 0), second});
                continue;
            }
            store<Number::BYTES, 2>(to, place.in_data(), low);
            if (!place.has_flag()) store<Number::BYTES, 2>(to, place.in_data() + 8, high);
        }
    }
};

}  // namespace msccl
