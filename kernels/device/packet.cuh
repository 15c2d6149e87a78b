// Packets: data that carries the number of its message beside it. What LL and LL128 share.
//
// A chunk on a link is a row of units of sixteen bytes, handled by the threads in turn. The
// protocol, called `Line` here, says which of them are data and which are the message's number:
//
//     units(length)         units that carry `length` bytes of data
//     WORDS                 words of data in a unit, as far as it has all of them
//     offset(unit)          where a unit's data lies in the chunk
//     whole_units(bytes)    units that have all their data, of as many bytes
//     load, store           a unit's data in a local buffer that is aligned and has all of the
//                           chunk, or all units at hand
//     load_around           the aligned words around a unit's data in any local buffer, and
//     pick                  the data; where there are none, something arbitrary
//     store_existing        a unit's data in any local buffer, as far as it exists
//     line(data, message)   the sixteen bytes of a unit, and
//     data(line)            the data of such
//     here(line, message)   whether this thread sees the number
//     all(bool)             whether all threads that share a number say so
//     together()            before such threads read or write a unit each, together
//     CONFIRMS              whether data must be read again once its number has been seen
//
// Local buffers are *aligned* here if words of eight bytes are. They may end anywhere: a warp whose
// units all exist in all of them goes the short way, whatever others do.
//
// All threads of a warp go through this file together: whatever decides which link is read or
// written is the same for all of them. Threads beyond the last unit read that one again, and write
// nothing.
//
// Everything is inlined by force, so that arrays are registers, and arrays begin as zeros: a
// register that some path leaves as it was would be taken up to the end of the kernel.
#pragma once

#include "simple.cuh"

namespace msccl {

template <class Line>
struct Packets {
    using Unit = Line;
    // No count says which messages are committed.
    static constexpr bool TAILS = false;
    // All messages lie in slots.
    static constexpr bool DIRECT = false;
    static constexpr bool LENDS = false;
    // All threads do everything.
    static constexpr bool WARP_SPECIALISED = false;
    // Operands may be prefetched.
    static constexpr bool PREFETCHES = true;

    // Bytes that a chunk of `data` bytes takes in a slot.
    __device__ static u64 wire_bytes(u64 data) { return UNIT * Line::units(data); }

    // Moves a chunk. False when the kernel is to end.
    template <class Number>
    __device__ static bool move(const Move& move, Watch& watch) {
        if (move.bundle) return deal(move, watch);
        if (move.is_copy()) return copy(move, watch);
        return combine<Number>(move, watch);
    }

    // Copies a chunk, whatever its elements are. False when the kernel is to end.
    __device__ static bool copy(const Move& move, Watch& watch) {
        if (is_short(move)) return run<Bits, 1, 1>(move, watch);
        return run<Bits, 1, 4>(move, watch);
    }

private:
    static constexpr u32 UNIT = 16;
    static constexpr int WORDS = Line::WORDS;
    // Destinations whose addresses are at hand at once.
    static constexpr int NEXT = 4;

    using Data = Pack<WORDS>;

    // Whether no thread has more than one unit: then looking for more only takes time.
    __device__ static bool is_short(const Move& move) {
        return Line::units(move.length) <= blockDim.x;
    }

    // Units from the first one on of which every operand has all.
    __device__ static u32 whole_units(const Move& move) {
        if (move.misalignment % 8 != 0) return 0;
        return u32(move.is_whole() ? Line::units(move.length) : Line::whole_units(move.whole));
    }

    // Units in the hands of a thread that has few sources: as many as have 16 elements, or 32
    // bytes.
    template <class Number>
    __device__ static constexpr int unroll() {
        constexpr int MOST = 32 / (4 * WORDS), FITTING = 16 * Number::BYTES / (4 * WORDS);
        return FITTING < 1 ? 1 : FITTING < MOST ? FITTING : MOST;
    }

    // Moves a chunk that is no copy. False when the kernel is to end.
    template <class Number>
    __device__ __forceinline__ static bool combine(const Move& move, Watch& watch) {
        if (move.source_count > 2) return run<Number, group<Number>(), 1>(move, watch);
        if (is_short(move)) return run<Number, 2, 1>(move, watch);
        return run<Number, 2, unroll<Number>()>(move, watch);
    }

    // A unit of a chunk, in the hands of one thread.
    struct Place {
        u32 first;  // the unit of the warp's first thread
        u32 units;

        __device__ u32 unit() const { return first + threadIdx.x % 32; }
        // Whether any thread of the warp has a unit, and whether this one does.
        __device__ bool any() const { return first < units; }
        __device__ bool own() const { return unit() < units; }
        // The unit after the last one of the warp.
        __device__ u32 end() const { return min(first + 32, units); }
        __device__ u64 on_wire() const { return u64(min(unit(), units - 1)) * UNIT; }
    };

    // `MOST` sources at a time, `UNROLL` units of each.
    template <class Number, int MOST, int UNROLL>
    __device__ __forceinline__ static bool run(const Move& move, Watch& watch) {
        u32 units = u32(Line::units(move.length)), whole = whole_units(move);
#pragma unroll 1
        for (u32 first = threadIdx.x & ~31u; first < units; first += UNROLL * blockDim.x) {
            Place places[UNROLL];
#pragma unroll
            for (int at = 0; at < UNROLL; ++at) places[at] = {first + at * blockDim.x, units};
            bool goes_on = places[UNROLL - 1].end() <= whole
                               ? run_some<Number, true, MOST>(move, places, watch)
                               : run_some<Number, false, MOST>(move, places, watch);
            if (!goes_on) return false;
        }
        return true;
    }

    // The units at hand; `WHOLE` if every operand has all of them.
    template <class Number, bool WHOLE, int MOST, int UNROLL>
    __device__ __forceinline__ static bool run_some(const Move& move, const Place (&places)[UNROLL],
                                                    Watch& watch) {
        Data results[UNROLL] = {};
        if (!gather<Number, WHOLE, MOST>(move, places, watch, results)) return false;
        scatter<WHOLE>(move, places, results);
        return true;
    }

    // Moves a chunk of a bundle: each source to the destination of its number. False when the
    // kernel is to end.
    __device__ __forceinline__ static bool deal(const Move& move, Watch& watch) {
        u32 units = u32(Line::units(move.length)), whole = whole_units(move);
#pragma unroll 1
        for (u32 first = threadIdx.x & ~31u; first < units; first += blockDim.x) {
            Place places[1] = {{first, units}};
            bool goes_on = places[0].end() <= whole ? deal_all<true>(move, places, watch)
                                                    : deal_uneven(move, places[0], watch);
            if (!goes_on) return false;
        }
        return true;
    }

    // Not inlined, so that it takes no registers from what is common.
    __device__ __noinline__ static bool deal_uneven(Move move, Place place, Watch& watch) {
        Place places[1] = {place};
        return deal_all<false>(move, places, watch);
    }

    // The unit at hand of every source.
    template <bool WHOLE>
    __device__ __forceinline__ static bool deal_all(const Move& move, const Place (&places)[1],
                                                    Watch& watch) {
#pragma unroll 1
        for (u32 from = 0; from < move.source_count; from += NEXT) {
            int count = min(int(move.source_count - from), NEXT);
            Data values[1][NEXT] = {};
            if (!fetch<WHOLE>(move, from, count, places, watch, values)) return false;
            deal_some<WHOLE>(move, from, count, places[0], values[0]);
        }
        return true;
    }

    // Writes a unit to each of `count` destinations from `to` on.
    template <bool WHOLE>
    __device__ __forceinline__ static void deal_some(const Move& move, u32 to, int count,
                                                     const Place& place,
                                                     const Data (&values)[NEXT]) {
        Line::together();
#pragma unroll
        for (int next = 0; next < NEXT; ++next) {
            if (next >= count || !place.own()) continue;
            const Operand& operand = move.destinations[to + next];
            if (operand.is_link()) {
                post(operand.address + place.on_wire(), values[next], operand.message);
            } else if constexpr (WHOLE) {
                Line::store(operand, place.unit(), values[next]);
            } else {
                Line::store_existing(operand, place.unit(), values[next]);
            }
        }
    }

    // What the destinations are to hold. False when the kernel is to end.
    template <class Number, bool WHOLE, int MOST, int UNROLL>
    __device__ __forceinline__ static bool gather(const Move& move, const Place (&places)[UNROLL],
                                                  Watch& watch, Data (&results)[UNROLL]) {
        Data values[UNROLL][MOST] = {};
        if constexpr (!Number::COMPUTES) {
            if (!fetch<WHOLE>(move, 0, 1, places, watch, values)) return false;
#pragma unroll
            for (int at = 0; at < UNROLL; ++at) results[at] = values[at][0];
        } else {
            bool adds_words = MOST == 2 && Number::ADDS_WORDS && move.is_sum_of_two();
            Sum<Number, WORDS> sums[UNROLL] = {};
#pragma unroll 1
            for (u32 from = 0; from < move.source_count; from += MOST) {
                int count = min(int(move.source_count - from), MOST);
                if (!fetch<WHOLE>(move, from, count, places, watch, values)) return false;
                if constexpr (Number::SCALES) {
                    if (move.arithmetic.scales()) scale<Number>(move, from, count, values);
                }
#pragma unroll
                for (int at = 0; at < UNROLL; ++at) {
                    results[at] = values[at][0];
                    if constexpr (MOST == 2 && Number::ADDS_WORDS) {
                        if (adds_words)
                            results[at] = add_words<Number>(values[at][0], values[at][1]);
                    }
                    if (adds_words) continue;
                    if (from == 0) sums[at].start(values[at][0]);
                    sums[at].add(move.arithmetic.combination(), values[at], from == 0 ? 1 : 0,
                                 count);
                }
            }
            if (adds_words) return true;
#pragma unroll
            for (int at = 0; at < UNROLL; ++at) {
                results[at] = sums[at].finish(move.arithmetic.divisor);
            }
        }
        return true;
    }

    // Multiplies those of `count` sources from `from` on that are raw.
    template <class Number, int MOST, int UNROLL>
    __device__ __forceinline__ static void scale(const Move& move, u32 from, int count,
                                                 Data (&values)[UNROLL][MOST]) {
        Factor<Number> factor(move.arithmetic);
#pragma unroll
        for (int source = 0; source < MOST; ++source) {
            if (source >= count || !move.sources[from + source].is_raw()) continue;
#pragma unroll
            for (int at = 0; at < UNROLL; ++at) values[at][source] = factor.of(values[at][source]);
        }
    }

    // Reads `count` sources from `from` on. All loads are on their way before the first is looked
    // at. Relaxed: a number vouches for the data of its unit or line, and for nothing else.
    template <bool WHOLE, int MOST, int UNROLL>
    __device__ __forceinline__ static bool fetch(const Move& move, u32 from, int count,
                                                 const Place (&places)[UNROLL], Watch& watch,
                                                 Data (&values)[UNROLL][MOST]) {
        const Operand* sources = move.sources + from;
        Span spans[MOST];
        u64 messages[MOST];
#pragma unroll
        for (int source = 0; source < MOST; ++source) {
            const Operand& operand = sources[min(source, count - 1)];
            spans[source] = operand;
            messages[source] = operand.message;
        }
        u32 links = 0;
#pragma unroll
        for (int source = 0; source < MOST; ++source) {
            if (source < count && spans[source].is_link()) links |= 1u << source;
        }
        ptx::Words4 lines[UNROLL][MOST] = {};
        read(spans, links, places, lines);
        u32 locals = ~links & ~(~0u << count);
        load<WHOLE>(spans, locals, places, lines);
        if (!arrive(sources, spans, messages, links, places, watch, lines)) return false;
#pragma unroll
        for (int at = 0; at < UNROLL; ++at) {
#pragma unroll
            for (int source = 0; source < MOST; ++source) {
                values[at][source] = Line::data(lines[at][source]);
            }
        }
        if constexpr (!WHOLE) pick(sources, locals, places, lines, values);
        return true;
    }

    // Loads the units at hand of every buffer in `selected`, or the words around them.
    template <bool WHOLE, int MOST, int UNROLL>
    __device__ __forceinline__ static void load(const Span (&spans)[MOST], u32 selected,
                                                const Place (&places)[UNROLL],
                                                ptx::Words4 (&lines)[UNROLL][MOST]) {
#pragma unroll
        for (int source = 0; source < MOST; ++source) {
            if (!(selected >> source & 1)) continue;
#pragma unroll
            for (int at = 0; at < UNROLL; ++at) {
                if (!places[at].any()) continue;
                u32 unit = places[at].unit();
                if constexpr (WHOLE) {
                    lines[at][source] =
                        Line::line(Line::load(spans[source], unit, places[at].units), 0);
                } else {
                    lines[at][source] = Line::load_around(Row(spans[source]), unit);
                }
            }
        }
    }

    // The units at hand of every buffer in `selected`, by the words around them. Asks the operands
    // again: registers are scarce while data are on their way.
    template <int MOST, int UNROLL>
    __device__ __forceinline__ static void pick(const Operand* sources, u32 selected,
                                                const Place (&places)[UNROLL],
                                                const ptx::Words4 (&lines)[UNROLL][MOST],
                                                Data (&values)[UNROLL][MOST]) {
#pragma unroll
        for (int source = 0; source < MOST; ++source) {
            if (!(selected >> source & 1)) continue;
#pragma unroll
            for (int at = 0; at < UNROLL; ++at) {
                if (!places[at].any()) continue;
                values[at][source] = Line::pick(sources[source], lines[at][source]);
            }
        }
    }

    // Reads the units at hand of every link in `selected`.
    template <int MOST, int UNROLL>
    __device__ __forceinline__ static void read(const Span (&spans)[MOST], u32 selected,
                                                const Place (&places)[UNROLL],
                                                ptx::Words4 (&lines)[UNROLL][MOST]) {
        Line::together();
#pragma unroll
        for (int source = 0; source < MOST; ++source) {
            if (!(selected >> source & 1)) continue;
#pragma unroll
            for (int at = 0; at < UNROLL; ++at) {
                if (!places[at].any()) continue;
                ptx::Doubles2 both =
                    ptx::ld_relaxed_sys_2u64(spans[source].address + places[at].on_wire());
                lines[at][source] = {u32(both.x), u32(both.x >> 32), u32(both.y),
                                     u32(both.y >> 32)};
            }
        }
    }

    // Reads again until every unit of the sources in `links` has come. False when the kernel is to
    // end.
    template <int MOST, int UNROLL>
    __device__ __forceinline__ static bool arrive(const Operand* sources, const Span (&spans)[MOST],
                                                  const u64 (&messages)[MOST], u32 links,
                                                  const Place (&places)[UNROLL], Watch& watch,
                                                  ptx::Words4 (&lines)[UNROLL][MOST]) {
        u32 missing = links;
        Wait wait;
        while (true) {
#pragma unroll
            for (int source = 0; source < MOST; ++source) {
                if (!(missing >> source & 1)) continue;
                bool here = true;
#pragma unroll
                for (int at = 0; at < UNROLL; ++at) {
                    bool own = !places[at].any() || Line::here(lines[at][source], messages[source]);
                    here = here && own;
                }
                if (Line::all(here)) missing &= ~(1u << source);
            }
            if (missing == 0) break;
            const Operand& awaited = sources[__ffs(int(missing)) - 1];
            Reason reason{MSCCL_WAITING_MESSAGE, awaited.link, awaited.message - 1};
            if (!Line::all(wait.again(watch, reason))) return false;
            read(spans, missing, places, lines);
        }
#ifdef MSCCL_RECORDS
        wait.note_first_only(watch);
#endif
        wait.over(watch);
        if constexpr (Line::CONFIRMS) read(spans, links, places, lines);
        return true;
    }

    // Writes a unit of a message.
    __device__ __forceinline__ static void post(u64 address, const Data& data, u64 message) {
        ptx::Words4 line = Line::line(data, message);
        u64 low = u64(line.y) << 32 | line.x, high = u64(line.w) << 32 | line.z;
        ptx::st_relaxed_sys_2u64(address, {low, high});
    }

    // Writes the destinations.
    template <bool WHOLE, int UNROLL>
    __device__ __forceinline__ static void scatter(const Move& move, const Place (&places)[UNROLL],
                                                   const Data (&results)[UNROLL]) {
        u32 count = move.destination_count;
        if (count == 1) {
            scatter_some<WHOLE, 1>(move, 0, places, results);
        } else {
#pragma unroll 1
            for (u32 to = 0; to < count; to += NEXT) {
                scatter_some<WHOLE, NEXT>(move, to, places, results);
            }
        }
        if constexpr (!WHOLE) store_existing(move, places, results);
    }

    // Writes `MOST` destinations from `to` on, as far as there are so many: those that are links
    // first, and then, if they have all units at hand, those that are not.
    template <bool WHOLE, int MOST, int UNROLL>
    __device__ __forceinline__ static void scatter_some(const Move& move, u32 to,
                                                        const Place (&places)[UNROLL],
                                                        const Data (&results)[UNROLL]) {
        u32 count = move.destination_count;
        Span spans[MOST];
        u64 messages[MOST];
#pragma unroll
        for (int next = 0; next < MOST; ++next) {
            const Operand& operand = move.destinations[min(to + next, count - 1)];
            spans[next] = operand;
            messages[next] = operand.message;
        }
        Line::together();
#pragma unroll
        for (int next = 0; next < MOST; ++next) {
            if (to + next >= count || !spans[next].is_link()) continue;
#pragma unroll
            for (int at = 0; at < UNROLL; ++at) {
                if (!places[at].own()) continue;
                post(spans[next].address + places[at].on_wire(), results[at], messages[next]);
            }
        }
        if constexpr (WHOLE) {
#pragma unroll
            for (int next = 0; next < MOST; ++next) {
                if (to + next >= count || spans[next].is_link()) continue;
#pragma unroll
                for (int at = 0; at < UNROLL; ++at) {
                    if (!places[at].own()) continue;
                    Line::store(spans[next], places[at].unit(), results[at]);
                }
            }
        }
    }

    // Writes the destinations that are no links, whatever their addresses and ends.
    template <int UNROLL>
    __device__ __forceinline__ static void store_existing(const Move& move,
                                                          const Place (&places)[UNROLL],
                                                          const Data (&results)[UNROLL]) {
#pragma unroll 1
        for (u32 to = 0; to < move.destination_count; ++to) {
            Span span = move.destinations[to];
            if (span.is_link()) continue;
#pragma unroll
            for (int at = 0; at < UNROLL; ++at) {
                if (places[at].own()) Line::store_existing(span, places[at].unit(), results[at]);
            }
        }
    }
};

}  // namespace msccl
