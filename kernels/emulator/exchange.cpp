// Runs the kernel of exchanges for two ranks on the host, call after call over the same wires:
// transfers of any length at any address, several in a lane, some in bulk and some not.
//
// Ends with 0 if all bytes are where they belong, and no others have changed; otherwise says what
// is wrong.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "device/machine.hpp"
#include "device/exchange.cuh"

using msccl::address;
using msccl::u32;
using msccl::u64;

namespace {

constexpr u32 RANKS = 2, THREADS = 64, CALLS = 12;
// Around every buffer: what goes astray is seen.
constexpr size_t MARGIN = 32;

struct Shape {
    u32 wires, depth, slot_bytes;
};

// A buffer of a transfer.
struct Buffer {
    std::vector<unsigned char> bytes;
    size_t start, length;

    Buffer(std::mt19937& random, size_t length, bool even)
        : bytes(length + 2 * MARGIN + 32), length(length) {
        for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
        size_t shift = even ? 0 : random() % 16;
        start = MARGIN + (16 - address(bytes.data() + MARGIN) % 16) % 16 + shift;
    }
};

// From rank `from` to the other one.
struct Transfer {
    u32 from;
    Buffer source, target;
};

struct Rank {
    char* slots;
    char* ends;
    std::vector<msccl_progress> progress;
    alignas(16) msccl_notice notice{};
};

u64 entry(const Rank& rank, const Shape& shape, bool out, u32 peer, u32 wire) {
    return msccl::WireTable{address(rank.ends), RANKS, shape.wires}.entry(out, peer, wire);
}

std::vector<Rank> wired(const Shape& shape) {
    std::vector<Rank> ranks(RANKS);
    size_t ring = size_t(shape.depth) * shape.slot_bytes;
    for (Rank& rank : ranks) {
        rank.slots = emulator::zeroed(shape.wires * ring);
        rank.ends = emulator::zeroed(2 * RANKS * shape.wires * sizeof(msccl_wire_end));
        rank.progress.resize(2 * shape.wires);
    }
    for (u32 me = 0; me < RANKS; ++me) {
        for (u32 wire = 0; wire < shape.wires; ++wire) {
            for (bool out : {false, true}) {
                auto* end =
                    reinterpret_cast<msccl_wire_end*>(entry(ranks[me], shape, out, 1 - me, wire));
                end->slots = address(ranks[out ? 1 - me : me].slots + wire * ring);
                end->far = msccl::seen_at(entry(ranks[1 - me], shape, !out, me, wire));
            }
        }
    }
    return ranks;
}

// What rank `me` launches: a lane for every wire and way.
msccl_exchange_launch launch_of(const Shape& shape, Rank& rank, u32 me,
                                std::vector<Transfer>& transfers, const std::vector<u32>& parts,
                                msccl_control& control) {
    msccl_exchange_launch launch{};
    launch.links_simple = address(rank.ends);
    launch.control = address(&control);
    launch.notice = address(&rank.notice);
    launch.progress = address(rank.progress.data());
    launch.ranks = RANKS;
    launch.simple_wires = shape.wires;
    launch.simple_depth = shape.depth;
    launch.simple_slot_bytes = shape.slot_bytes;
    unsigned short first = 0;
    for (bool out : {true, false}) {
        unsigned short count = 0;
        for (size_t at = 0; at < transfers.size(); ++at) {
            Transfer& transfer = transfers[at];
            if ((transfer.from == me) != out) continue;
            Buffer& buffer = out ? transfer.source : transfer.target;
            launch.transfers[first + count] = {address(buffer.bytes.data() + buffer.start),
                                               buffer.length, 1 - me,
                                               parts[at] | (out ? u32(MSCCL_TRANSFER_OUT) : 0)};
            ++count;
        }
        for (unsigned short wire = 0; count != 0 && wire < shape.wires; ++wire) {
            launch.lanes[launch.lane_count++] = {first, count, wire, 0};
        }
        first += count;
    }
    return launch;
}

// What the target is to hold after the call.
std::vector<unsigned char> expected(const Transfer& transfer) {
    auto bytes = transfer.target.bytes;
    const Buffer& source = transfer.source;
    std::copy_n(source.bytes.begin() + long(source.start), source.length,
                bytes.begin() + long(transfer.target.start));
    return bytes;
}

bool call(const Shape& shape, std::vector<Rank>& ranks, std::mt19937& random) {
    std::vector<Transfer> transfers;
    std::vector<u32> parts;
    for (u32 count = 1 + random() % 4; count != 0; --count) {
        size_t most = random() % 3 != 0 ? size_t(shape.slot_bytes) * 10 : 3000;
        bool even = random() % 3 != 0;
        size_t length = 1 + random() % most;
        if (even && random() % 2) length = (length + 15) / 16 * 16;
        transfers.push_back(
            {u32(random() % 2), {random, length, even}, {random, length, random() % 4 != 0}});
        parts.push_back(1 + random() % shape.wires);
    }
    std::vector<std::vector<unsigned char>> right;
    for (const Transfer& transfer : transfers) right.push_back(expected(transfer));
    msccl_control control{};
    std::vector<std::thread> streams;
    for (u32 me = 0; me < RANKS; ++me) {
        auto launch = launch_of(shape, ranks[me], me, transfers, parts, control);
        if (launch.lane_count == 0) continue;
        streams.emplace_back([launch] {
            emulator::launch({launch.lane_count, 1}, THREADS, [&] { msccl::exchange(launch); });
        });
    }
    for (auto& stream : streams) stream.join();
    for (size_t at = 0; at < transfers.size(); ++at) {
        if (transfers[at].target.bytes == right[at]) continue;
        std::fprintf(stderr, "transfer %zu of %zu bytes in %u parts is wrong\n", at,
                     transfers[at].source.length, parts[at]);
        return false;
    }
    return true;
}

}  // namespace

int main() {
    // Slots shorter than a piece of a bulk copy, longer, and of several.
    const Shape shapes[] = {{1, 4, 256}, {2, 1, 1152}, {3, 2, 9728}, {2, 4, 32768}};
    std::mt19937 random(1);
    for (const Shape& shape : shapes) {
        std::vector<Rank> ranks = wired(shape);
        for (u32 number = 0; number < CALLS; ++number) {
            if (call(shape, ranks, random)) continue;
            std::fprintf(stderr, "call %u over %u wires of %u slots of %u bytes\n", number,
                         shape.wires, shape.depth, shape.slot_bytes);
            return 1;
        }
    }
    if (emulator::bulk_copies == 0) {
        std::fprintf(stderr, "nothing was carried in bulk\n");
        return 1;
    }
}
