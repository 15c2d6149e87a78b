// Combines contributions that lie anywhere, of any number of ranks, in place and apart, in grids of
// any size, against one element after another.
//
// Ends with 0 if all elements are right, and no other byte has changed; otherwise says what is
// wrong.
#include <cstdio>
#include <random>

#include "device/machine.hpp"
#include "device/combine.cuh"

using msccl::address;
using msccl::u32;
using msccl::u64;

namespace {

// Around everything: what goes astray is seen.
constexpr size_t MARGIN = 32;

struct Case {
    u32 ranks, rank, reduction, blocks, threads;
    size_t elements, shift;
    bool in_place, has_rings;
};

template <class Number>
struct Memory {
    static constexpr size_t BYTES = Number::BYTES;
    std::vector<unsigned char> bytes;
    size_t own, others, to, stride;

    Memory(const Case& of, std::mt19937& random) {
        size_t block = (of.elements * BYTES + 15) / 16 * 16 + of.shift * BYTES;
        size_t start = MARGIN + of.shift * BYTES;
        stride = block + MARGIN;
        own = start;
        to = of.in_place ? own : own + stride;
        others = own + 2 * stride;
        bytes.resize(others + of.ranks * stride + MARGIN + 16);
        // Exponents of floats stay small, so that nothing overflows.
        for (auto& byte : bytes) byte = static_cast<unsigned char>(random() & 0x3f);
    }

    unsigned char* base() {
        return bytes.data() + (16 - address(bytes.data()) % 16) % 16;
    }

    size_t contribution(const Case& of, u32 rank) const {
        return rank == of.rank ? own : others + (rank - (rank > of.rank)) * stride;
    }
};

template <class Number>
typename Number::Wide combined(u32 reduction, typename Number::Wide a, typename Number::Wide b) {
    switch (reduction) {
        case MSCCL_REDUCTION_PROD: return msccl::product(a, b);
        case MSCCL_REDUCTION_MIN: return b < a ? b : a;
        case MSCCL_REDUCTION_MAX: return a < b ? b : a;
        default: return msccl::sum(a, b);
    }
}

template <class Number>
u64 expected(const Case& of, Memory<Number>& memory, size_t at) {
    typename Number::Wide value{};
    for (u32 rank = 0; rank < of.ranks; ++rank) {
        u64 from = address(memory.base()) + memory.contribution(of, rank) + at * Number::BYTES;
        auto next = Number::widen(msccl::load_element<Number::BYTES>(from));
        if constexpr (Number::SCALES) {
            if (of.reduction == MSCCL_REDUCTION_AVERAGE) {
                auto one = Number::widen(Number::narrow(Number::divide(1, of.ranks)));
                next = Number::widen(Number::narrow(msccl::product(next, one)));
            }
        }
        value = rank == 0 ? next : combined<Number>(of.reduction, value, next);
    }
    return Number::narrow(value);
}

template <class Number>
bool check(const Case& of, std::mt19937& random) {
    Memory<Number> memory(of, random);
    std::vector<unsigned char> wanted = memory.bytes;
    size_t lead = memory.base() - memory.bytes.data();
    for (size_t at = 0; at < of.elements; ++at) {
        u64 bits = expected<Number>(of, memory, at);
        std::memcpy(&wanted[lead + memory.to + at * Number::BYTES], &bits, Number::BYTES);
    }
    u64 base = address(memory.base());
    emulator::dynamic_bytes = of.has_rings ? of.threads * MSCCL_COMBINE_RING_BYTES : 0;
    msccl_combine launch = {base + memory.to, base + memory.own, base + memory.others,
                            memory.stride, of.elements, of.ranks, of.rank, of.reduction, 0};
    gridDim = {of.blocks, 1};
    blockDim = {of.threads, 1};
    for (unsigned block = 0; block < of.blocks; ++block) {
        for (unsigned thread = 0; thread < of.threads; ++thread) {
            blockIdx = {block, 0};
            threadIdx = {thread, 0};
            msccl::combine<Number>(launch);
        }
    }
    if (memory.bytes == wanted) return true;
    std::fprintf(stderr,
                 "%u ranks, rank %u, reduction %u, %zu elements of %d bytes, shift %zu%s%s\n",
                 of.ranks, of.rank, of.reduction, of.elements, Number::BYTES, of.shift,
                 of.in_place ? ", in place" : "", of.has_rings ? ", through rings" : "");
    return false;
}

template <class Number>
bool check_all(std::mt19937& random, bool averages) {
    for (int number = 0; number < 400; ++number) {
        Case of{};
        of.ranks = 1 + random() % 6;
        of.rank = random() % of.ranks;
        of.reduction = random() % 4;
        if (averages && number % 5 == 0) of.reduction = MSCCL_REDUCTION_AVERAGE;
        of.blocks = 1 + random() % 3;
        of.threads = 1 + random() % 40;
        of.elements = random() % 1500;
        of.shift = number % 3 == 0 ? random() % 16 : 0;
        of.in_place = random() % 2 == 0;
        of.has_rings = number % 4 != 0;
        if (!check<Number>(of, random)) return false;
    }
    return true;
}

}  // namespace

int main() {
    std::mt19937 random(1);
    bool right = check_all<msccl::F32>(random, true) && check_all<msccl::F64>(random, true) &&
                 check_all<msccl::F16>(random, true) && check_all<msccl::U8>(random, false) &&
                 check_all<msccl::I32>(random, false) && check_all<msccl::U64>(random, false);
    return right ? 0 : 1;
}
