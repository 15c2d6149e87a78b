// Moves of protocol Simple, by kernels for operands that lie anywhere and by others, at any
// address, of any length, from some sources to some destinations, against elements one by one. What
// the first destination gets is copied once more, before threads meet if they need not. Pages
// before and after each buffer cannot be touched, so that a load beside it does not go unseen
// either.
//
// Ends with 0 if all are right; otherwise says what is wrong.
#include <cstdio>
#include <cstring>
#include <random>

#include <sys/mman.h>

#include "device/machine.hpp"
#include "device/wait.cuh"

#include "device/simple.cuh"

using msccl::Move;
using msccl::Operand;
using msccl::Span;
using msccl::u32;
using msccl::u64;

namespace {

constexpr u32 THREADS = 96, CASES = 500;
constexpr size_t PAGE = 4096, BYTES = 5 * PAGE;
constexpr size_t SOURCES_MAX = 3, DESTINATIONS_MAX = 2;

// Elements that are added in words.
struct Halves : msccl::Integer<unsigned short, unsigned, 2> {
    static constexpr bool ADDS_WORDS = true;

    static u32 add_words(u32 a, u32 b) {
        return ((a + b) & 0xffff) | ((a & 0xffff0000) + (b & 0xffff0000));
    }
};

struct Memory {
    unsigned char* bytes;

    Memory() {
        void* pages =
            mmap(nullptr, BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED) std::exit(2);
        bytes = static_cast<unsigned char*>(pages) + PAGE;
        if (mprotect(bytes, BYTES, PROT_READ | PROT_WRITE) != 0) std::exit(2);
    }
};

// Addresses of a case: multiples of `alignment`, or all as far from one of sixteen.
struct Places {
    u32 alignment;
    u32 shift;

    // Of `length` bytes in `memory`, at its beginning or its end.
    unsigned char* pick(const Memory& memory, u32 length, std::mt19937& random) const {
        size_t room = BYTES - length - 16;
        size_t first = random() % 2 ? 0 : room / 16 * 16;
        return memory.bytes + first +
               (alignment == 16 ? shift : u32(random()) % (16 / alignment) * alignment);
    }
};

Places places(u32 element_bytes, std::mt19937& random) {
    u32 least = random() % 2 ? element_bytes : 1;
    switch (random() % 3) {
        case 0: return {16, 0};
        case 1: return {16, u32(random()) % (16 / least) * least};
        default: return {u32(random() % 2 ? std::max(least, 4u) : least), 0};
    }
}

struct Case {
    std::vector<Operand> set;
    u32 sources, destinations, length;
    bool bundle;  // each source goes to the destination of its number
};

Case draw(std::vector<Memory>& memories, u32 element_bytes, std::mt19937& random) {
    Case drawn{{},
               1 + u32(random() % SOURCES_MAX),
               1 + u32(random() % DESTINATIONS_MAX),
               0,
               random() % 4 == 0};
    if (drawn.bundle) drawn.sources = drawn.destinations;
    u32 most = random() % 2 ? 64 : u32(BYTES) - 64;
    drawn.length = (1 + u32(random()) % (most / element_bytes)) * element_bytes;
    Places at = places(element_bytes, random);
    for (u32 number = 0; number < drawn.sources + drawn.destinations; ++number) {
        u32 missing = !drawn.bundle && random() % 8 == 0
                          ? u32(random()) % (drawn.length / element_bytes + 1) * element_bytes
                          : 0;
        auto* place = at.pick(memories[number], drawn.length, random);
        Operand operand{};
        operand.address = reinterpret_cast<u64>(place);
        operand.limit = drawn.length - missing;
        operand.traits = operand.address % 16 == 0 ? Span::ALIGNED : 0;
        // In place.
        if (number >= drawn.sources && random() % 3 == 0)
            operand = drawn.set[number - drawn.sources];
        drawn.set.push_back(operand);
    }
    return drawn;
}

template <int BYTES>
u64 element_at(const unsigned char* from) {
    u64 bits = 0;
    std::memcpy(&bits, from, BYTES);
    return bits;
}

using Image = std::vector<std::vector<unsigned char>>;

Image image_of(const std::vector<Memory>& memories) {
    Image image;
    for (const Memory& memory : memories) image.emplace_back(memory.bytes, memory.bytes + BYTES);
    return image;
}

// Where what lies at `address` is in an image.
unsigned char* find(Image& image, const std::vector<Memory>& memories, u64 address) {
    for (size_t memory = 0; memory < memories.size(); ++memory) {
        u64 offset = address - reinterpret_cast<u64>(memories[memory].bytes);
        if (offset < BYTES) return &image[memory][offset];
    }
    std::exit(2);
}

// What memories that hold `before` are to hold after `of`.
template <class Number>
Image expected(const Case& of, const std::vector<Memory>& memories, Image before) {
    Image after = before;
    for (u32 at = 0; at < of.length; at += Number::BYTES) {
        for (u32 to = of.sources; to < of.set.size(); ++to) {
            u64 sum = 0;
            bool some = false;
            for (u32 from = 0; from < of.sources; ++from) {
                if (at >= of.set[from].limit || (of.bundle && from + of.sources != to)) continue;
                sum += element_at<Number::BYTES>(find(before, memories, of.set[from].address + at));
                some = true;
            }
            if (!some || at >= of.set[to].limit) continue;
            std::memcpy(find(after, memories, of.set[to].address + at), &sum, Number::BYTES);
        }
    }
    return after;
}

template <bool UNALIGNED, class Number>
void move(const Case& of) {
    Move move(of.set.data(), of.sources, of.destinations, of.length, false,
              {MSCCL_REDUCTION_SUM, 0, 0}, of.bundle);
    msccl::Plain<msccl::Everyone, UNALIGNED>::template move<Number>(move);
}

template <bool UNALIGNED, class Number>
bool check(std::vector<Memory>& memories, u32 number) {
    std::mt19937 random(number);
    for (Memory& memory : memories) {
        for (size_t at = 0; at < BYTES; ++at)
            memory.bytes[at] = static_cast<unsigned char>(random());
    }
    Case first = draw(memories, Number::BYTES, random);
    Operand given = first.set[first.sources], last = given;
    Places at = places(Number::BYTES, random);
    last.address = reinterpret_cast<u64>(at.pick(memories.back(), first.length, random));
    last.traits = last.address % 16 == 0 ? Span::ALIGNED : 0;
    Case second{{given, last}, 1, 1, first.length, false};
    Image right = expected<Number>(first, memories, image_of(memories));
    right = expected<Number>(second, memories, right);
    emulator::launch({1, 1}, THREADS, [&] {
        move<UNALIGNED, Number>(first);
        if (UNALIGNED) msccl::Everyone::meet();
        move<UNALIGNED, Number>(second);
    });
    for (size_t memory = 0; memory < memories.size(); ++memory) {
        for (size_t at = 0; at < BYTES; ++at) {
            if (memories[memory].bytes[at] == right[memory][at]) continue;
            std::fprintf(stderr,
                         "case %u of %d-byte elements, %s: %u bytes from %u to %u, operand %zu is "
                         "wrong %zu bytes into its memory\n",
                         number, Number::BYTES, UNALIGNED ? "unaligned" : "even", first.length,
                         first.sources, first.destinations, memory, at);
            return false;
        }
    }
    return true;
}

template <class... Numbers>
bool check_all(std::vector<Memory>& memories, u32 number) {
    return ((check<true, Numbers>(memories, number) && check<false, Numbers>(memories, number)) &&
            ...);
}

}  // namespace

int main() {
    std::vector<Memory> memories(SOURCES_MAX + DESTINATIONS_MAX + 1);
    for (u32 number = 0; number < CASES; ++number) {
        if (!check_all<msccl::U8, Halves, msccl::U32, msccl::U64>(memories, number)) return 1;
    }
}
