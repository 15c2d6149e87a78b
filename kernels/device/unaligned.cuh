// Moves of protocol Simple whose operands are unaligned, for kernels that are launched for such.
//
// Unaligned operands are moved in words of four bytes (of eight, where elements have eight),
// counted from the first byte of the move. A warp has rows of them: its threads' words lie side by
// side, and so does one row behind the other. A load or store of a row covers a quarter of the
// memory that one of packs does, and all of it is the row's, wherever it begins; what two rows
// share at their ends comes from the cache the second time. That is four instructions for one of a
// pack, and threads have half as many bytes in flight; so launches have as many threads as they
// may.
//
// Where an operand's words begin inside those of the memory, each of a source's words is assembled
// from two of these. They may hold bytes that are not the operand's, of the same word and so of the
// same page; those are not used. To a destination, each thread stores the word of the memory in
// which its own begins, of which the first bytes are from the thread before; only the first and the
// last of a warp's rows are stored in bytes.
//
// So what threads of a warp store they have loaded before, all of them: a destination may be a
// source, too. Of what other warps store, some may be loaded, and is not used.
//
// Copies whose operands are all equally far from aligned addresses have rows of packs, behind the
// first aligned one.
//
// Which thread handles which place depends on the move, so the thread group meets between one move
// and the next.
#pragma once

#include "unaligned_tail.cuh"

namespace msccl {

// ---- Words of either size -----------------------------------------------------------------------

// What carries elements of `BYTES` bytes, one or several.
template <int BYTES>
struct WordFor {
    using Word = u32;
};

template <>
struct WordFor<8> {
    using Word = u64;
};

__device__ inline void load_word(u32& word, u64 address) { word = ptx::ld_weak_u32(address); }
__device__ inline void load_word(u64& word, u64 address) { word = ptx::ld_weak_u64(address); }
__device__ inline void load_word(Pack<4>& word, u64 address) { word = load_whole(address); }

__device__ inline void store_word(u64 address, u32 word) { ptx::st_weak_u32(address, word); }
__device__ inline void store_word(u64 address, u64 word) { ptx::st_weak_u64(address, word); }
__device__ inline void store_word(u64 address, const Pack<4>& word) { store_whole(address, word); }

// The word that begins `bits` into `low` and ends in `high`; 0 < `bits`.
__device__ inline u32 join(u32 low, u32 high, u32 bits) { return __funnelshift_r(low, high, bits); }
__device__ inline u64 join(u64 low, u64 high, u32 bits) {
    return low >> bits | high << (64 - bits);
}

// The word of thread `lane` of the warp.
__device__ inline u32 shuffle(u32 word, u32 lane) { return __shfl_sync(~0u, word, lane); }
__device__ inline u64 shuffle(u64 word, u32 lane) {
    u64 upper = __shfl_sync(~0u, u32(word >> 32), lane);
    return upper << 32 | __shfl_sync(~0u, u32(word), lane);
}

// Bytes `first` to `last` of a word to their places in the one at `address`. Not inlined: few
// threads have to.
__device__ __noinline__ void store_part(u64 address, u64 word, u32 first, u32 last) {
#pragma unroll 1
    for (u32 at = first; at < last; ++at) ptx::st_weak_u8(address + at, u32(word >> (8 * at)));
}

// ---- Rows ---------------------------------------------------------------------------------------

// Rows of words in the hands of a warp. `WHOLE` if all of them exist.
template <class Word, int COUNT, bool WHOLE>
struct Rows {
    static constexpr u32 BYTES = sizeof(Word);

    u32 first;  // the word of this thread in the first row
    u32 end;    // words of the move

    using Values = Word[COUNT];

    __device__ bool has(int row) const { return WHOLE || first + row * 32 < end; }

    // The place of this thread's word, for an operand at `address`.
    __device__ u64 place(u64 address, int row = 0) const {
        return address + u64(first) * BYTES + row * (32 * BYTES);
    }

    __device__ __forceinline__ void load(u64 from, Values& values) const {
        u32 shift = u32(from) % BYTES;
        load_aligned(from - shift, values);
        if (shift == 0) return;
        Values next = {};
        load_aligned(from - shift + BYTES, next);
#pragma unroll
        for (int row = 0; row < COUNT; ++row) values[row] = join(values[row], next[row], shift * 8);
    }

    // From where words of the memory begin.
    __device__ __forceinline__ void load_aligned(u64 from, Values& values) const {
#pragma unroll
        for (int row = 0; row < COUNT; ++row) {
            if (has(row)) load_word(values[row], place(from, row));
        }
    }

    __device__ __forceinline__ void store(u64 to, const Values& values) const {
        u32 shift = u32(to) % BYTES;
        return shift == 0 ? store_aligned(to, values) : store_shifted(to, shift, values);
    }

    // To where words of the memory begin.
    __device__ __forceinline__ void store_aligned(u64 to, const Values& values) const {
#pragma unroll
        for (int row = 0; row < COUNT; ++row) {
            if (has(row)) store_word(place(to, row), values[row]);
        }
    }

private:
    __device__ static u32 lane() { return threadIdx.x % 32; }

    // To words of the memory that begin `shift` bytes before those of the operand.
    __device__ __forceinline__ void store_shifted(u64 to, u32 shift, const Values& values) const {
        u64 base = to - shift;
#pragma unroll
        for (int row = 0; row < COUNT; ++row) {
            Word given = row > 0 && lane() == 31 ? values[row - 1] : values[row];
            Word before = shuffle(given, (lane() + 31) % 32);
            if (!has(row) || (row == 0 && lane() == 0)) continue;
            store_word(place(base, row), join(before, values[row], (BYTES - shift) * 8));
        }
        store_ends(to, shift, values);
    }

    // The first bytes of the first word of all rows, and the last ones of the last: beside them is
    // what another warp stores, or nobody.
    __device__ __forceinline__ void store_ends(u64 to, u32 shift, const Values& values) const {
        if (lane() == 0) store_part(place(to), values[0], 0, BYTES - shift);
        int row = last();
        if (row == NONE) return;
        Word value = values[COUNT - 1];
        if constexpr (!WHOLE) {
#pragma unroll
            for (int at = 0; at + 1 < COUNT; ++at) value = at == row ? values[at] : value;
        }
        store_part(place(to, row), value, BYTES - shift, BYTES);
    }

    static constexpr int NONE = -1;

    // The row in which the word of this thread is the last of all.
    __device__ int last() const {
        if (has(COUNT - 1) && lane() == 31) return COUNT - 1;
        u32 left = end - first;
        bool ends = !WHOLE && first < end && left < COUNT * 32 && left % 32 == 1;
        return ends ? int(left / 32) : NONE;
    }
};

// ---- Moves --------------------------------------------------------------------------------------

// By the threads of `Group`.
template <class Group>
struct Unaligned {
    // All of a move whose operands are unaligned.
    template <class Number>
    __device__ __forceinline__ static void move(const Move& move) {
        TileCursor cursor;
        Unaligned::move<Number>(move, cursor);
    }

    // Which tile, the rows that a warp handles together, is the next for this one. Of several moves
    // after which the thread group meets, one goes on where the last has ended: so they are in
    // flight together.
    struct TileCursor {
        u32 tile = Group::index() / 32;
    };

    // The same, one of several.
    template <class Number>
    __device__ __forceinline__ static void move(const Move& move, TileCursor& cursor) {
        if (move.is_copy() && are_alike(move)) return copy_packs(move, cursor);
        u32 done = words<Number>(move, cursor);
        if (done < move.most) UnalignedTail<Group>::template between<Number>(move, done, move.most);
    }

private:
    // Rows in the hands of a warp: of copies and of sums, for more of which registers are lacking.
    static constexpr int COPIED = 16, SUMMED = 12;
    // Rows of packs: as many as are on their way with aligned operands.
    static constexpr int PACKS = 8;

    // Has `body` do tiles of as many rows as are `COUNT` of `u32`. All that a warp can have in its
    // hands rather than less in more warps: what counts is how many instructions all of them take.
    template <class Word, int COUNT, class Body>
    __device__ __forceinline__ static void each(u32 words, TileCursor& cursor, Body body) {
        constexpr int EACH = COUNT * 4 / sizeof(Word);
        constexpr u32 TILE = EACH * 32;
        u32 tiles = (words + TILE - 1) / TILE;
#pragma unroll 1
        for (; cursor.tile < tiles; cursor.tile += Group::count() / 32) {
            u32 own = cursor.tile * TILE + threadIdx.x % 32;
            if ((cursor.tile + 1) * TILE <= words) {
                body(Rows<Word, EACH, true>{own, words});
            } else {
                body(Rows<Word, EACH, false>{own, words});
            }
        }
        cursor.tile -= tiles;
    }

    // Whether they are all equally far from aligned addresses.
    __device__ static bool are_alike(const Move& move) {
        bool alike = true;
#pragma unroll 1
        for (u32 at = 0; at < move.destination_count; ++at) {
            alike &= (move.destinations[at].address - move.sources[0].address) % 16 == 0;
        }
        return alike;
    }

    // Operands that are alike: what comes before the packs of the memory and after them is moved
    // aside.
    __device__ __forceinline__ static void copy_packs(const Move& move, TileCursor& cursor) {
        u32 lead = min(u32(-move.sources[0].address) % 16, move.whole);
        u32 packs = (move.whole - lead) / 16;
        each<Pack<4>, 4 * PACKS>(packs, cursor, [&](auto rows) {
            typename decltype(rows)::Values values = {};
            rows.load_aligned(move.sources[0].address + lead, values);
#pragma unroll 1
            for (u32 to = 0; to < move.destination_count; ++to) {
                rows.store_aligned(move.destinations[to].address + lead, values);
            }
        });
        UnalignedTail<Group>::template between<Bits>(move, 0, lead);
        UnalignedTail<Group>::template between<Bits>(move, lead + packs * 16, move.most);
    }

    // Words that all operands have. How many bytes they are.
    template <class Number>
    __device__ __forceinline__ static u32 words(const Move& move, TileCursor& cursor) {
        if constexpr (Number::COMPUTES) {
            if (!move.is_copy()) return combine<Number>(move, cursor);
        }
        each<u32, COPIED>(move.whole / 4, cursor, [&](auto rows) {
            typename decltype(rows)::Values values = {};
            rows.load(move.sources[0].address, values);
            store_all(move, rows, values);
        });
        return move.whole / 4 * 4;
    }

    template <class Number>
    __device__ __forceinline__ static u32 combine(const Move& move, TileCursor& cursor) {
        if constexpr (Number::ADDS_WORDS) {
            if (move.is_sum_of_two()) return add_words<Number>(move, cursor);
        }
        using Word = typename WordFor<Number::BYTES>::Word;
        u32 words = move.whole / sizeof(Word);
        // Wide values of smaller elements take more registers than these.
        constexpr int COUNT = Number::BYTES < 4 ? SUMMED * Number::BYTES / 4 : SUMMED;
        each<Word, COUNT>(words, cursor, [&](auto rows) { combine_rows<Number>(move, rows); });
        return words * sizeof(Word);
    }

    template <class Number>
    __device__ __forceinline__ static u32 add_words(const Move& move, TileCursor& cursor) {
        each<u32, SUMMED>(move.whole / 4, cursor, [&](auto rows) {
            typename decltype(rows)::Values values = {}, others = {};
            rows.load(move.sources[0].address, values);
            rows.load(move.sources[1].address, others);
#pragma unroll
            for (int row = 0; row < SUMMED; ++row)
                values[row] = Number::add_words(values[row], others[row]);
            store_all(move, rows, values);
        });
        return move.whole / 4 * 4;
    }

    // Any number of sources, one after another.
    template <class Number, class Word, int COUNT, bool WHOLE>
    __device__ __forceinline__ static void combine_rows(const Move& move,
                                                        Rows<Word, COUNT, WHOLE> rows) {
        Sum<Number, sizeof(Word) / 4> sums[COUNT] = {};
        Word values[COUNT] = {};
        rows.load(move.sources[0].address, values);
        scale<Number>(move, 0, values);
#pragma unroll
        for (int row = 0; row < COUNT; ++row) sums[row].start(pack(values[row]));
#pragma unroll 1
        for (u32 from = 1; from < move.source_count; ++from) {
            rows.load(move.sources[from].address, values);
            scale<Number>(move, from, values);
#pragma unroll
            for (int row = 0; row < COUNT; ++row) {
                decltype(pack(values[row])) other[1] = {pack(values[row])};
                sums[row].add(move.arithmetic.combination(), other, 0, 1);
            }
        }
#pragma unroll
        for (int row = 0; row < COUNT; ++row) {
            values[row] = word(sums[row].finish(move.arithmetic.divisor));
        }
        store_all(move, rows, values);
    }

    // Multiplies the rows of source `from`, if they are to be.
    template <class Number, class Word, int COUNT>
    __device__ __forceinline__ static void scale(const Move& move, u32 from,
                                                 Word (&values)[COUNT]) {
        if constexpr (Number::SCALES) {
            if (!move.scales(from)) return;
            Factor<Number> factor(move.arithmetic);
#pragma unroll
            for (int row = 0; row < COUNT; ++row) values[row] = word(factor.of(pack(values[row])));
        }
    }

    template <class Rows, class Values>
    __device__ __forceinline__ static void store_all(const Move& move, const Rows& rows,
                                                     const Values& values) {
#pragma unroll 1
        for (u32 to = 0; to < move.destination_count; ++to) {
            rows.store(move.destinations[to].address, values);
        }
    }

    __device__ static Pack<1> pack(u32 word) { return {{word}}; }
    __device__ static Pack<2> pack(u64 word) { return {{u32(word), u32(word >> 32)}}; }
    __device__ static u32 word(const Pack<1>& pack) { return pack.word[0]; }
    __device__ static u64 word(const Pack<2>& pack) {
        return u64(pack.word[1]) << 32 | pack.word[0];
    }
};

}  // namespace msccl
