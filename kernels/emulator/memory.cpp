// Eight bytes at every address, and packs that are stored, of buffers that end anywhere, against
// bytes one by one. Pages before and after the buffer cannot be touched, so that a load beside it
// does not go unseen either.
//
// Ends with 0 if all are right; otherwise says what is wrong.
#include <cstdio>
#include <cstring>

#include <sys/mman.h>

#include "device/memory.cuh"

using msccl::Pack;
using msccl::Row;
using msccl::Span;
using msccl::u32;
using msccl::u64;

namespace {

constexpr u64 PAGE = 4096;
// Longer than two packs.
constexpr u32 LIMIT_MAX = 40;

unsigned char* page() {
    void* pages = mmap(nullptr, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* middle = static_cast<unsigned char*>(pages) + PAGE;
    if (pages == MAP_FAILED || mprotect(middle, PAGE, PROT_READ | PROT_WRITE) != 0) return nullptr;
    for (u64 at = 0; at < PAGE; ++at) middle[at] = static_cast<unsigned char>(at * 7 + 1);
    return middle;
}

Span span(const unsigned char* from, u32 limit) {
    u64 address = reinterpret_cast<u64>(from);
    return {address, limit, address % 16 == 0 ? Span::ALIGNED : 0};
}

// Whether `loaded` is what is at `offset`, zero where nothing is.
template <int WORDS>
bool is_right(const Pack<WORDS>& loaded, const unsigned char* from, u32 limit, u32 offset) {
    unsigned char expected[4 * WORDS] = {};
    for (u32 at = 0; at < sizeof expected; ++at) {
        if (offset + at < limit) expected[at] = from[offset + at];
    }
    return std::memcmp(&loaded, expected, sizeof expected) == 0;
}

bool loads(const unsigned char* from, u32 limit, u32 offset) {
    Span of = span(from, limit);
    Row row(of);
    u64 both = existing(of, offset, row.pick(row.word(offset), row.next(offset)));
    Pack<2> eight{{u32(both), u32(both >> 32)}};
    return is_right(eight, from, limit, offset);
}

// Stores a pack, or half of one.
bool stores(unsigned char* page, unsigned char* to, u32 limit, u32 offset, bool half) {
    unsigned char before[PAGE], pack[16];
    std::memcpy(before, page, PAGE);
    for (u32 at = 0; at < sizeof pack; ++at) pack[at] = static_cast<unsigned char>(0xa0 + at);
    for (u32 at = 0; at < (half ? 8u : 16u); ++at) {
        if (offset + at < limit) before[to + offset + at - page] = pack[at];
    }
    Pack<4> whole;
    std::memcpy(&whole, pack, sizeof pack);
    u64 eight = u64(whole.word[1]) << 32 | whole.word[0];
    if (half) {
        msccl::store_eight(span(to, limit), offset, eight);
    } else {
        msccl::store(span(to, limit), offset, whole);
    }
    return std::memcmp(before, page, PAGE) == 0;
}

bool check(unsigned char* page, unsigned char* buffer, u32 limit) {
    for (u32 offset = 0; offset <= LIMIT_MAX; offset += 8) {
        bool right = loads(buffer, limit, offset);
        for (bool half : {false, true}) {
            right = right && stores(page, buffer, limit, offset, half);
        }
        if (right) continue;
        std::fprintf(stderr, "%u bytes at %p: wrong at %u\n", limit, static_cast<void*>(buffer),
                     offset);
        return false;
    }
    return true;
}

}  // namespace

int main() {
    unsigned char* page = ::page();
    if (page == nullptr) return 2;
    for (u32 limit = 0; limit <= LIMIT_MAX; ++limit) {
        for (u32 shift = 0; shift < 16; ++shift) {
            if (!check(page, page + shift, limit)) return 1;
            if (!check(page, page + PAGE - limit - shift, limit)) return 1;
            // Nothing of an empty buffer is looked for, wherever it is said to be.
            if (limit == 0 && !check(page, page + PAGE + shift, 0)) return 1;
        }
    }
}
