// Runs the kernel of exchanges for two ranks on the host, call after call over the same wires:
// transfers of any length at any address, several in a lane, some in bulk, some as packets, and
// some as neither.
//
// Ends with 0 if all bytes are where they belong, and no others have changed; and, if
// MSCCL_RECORDS is defined, if each lane has recorded its moves, and nothing but waits beside them.
// Otherwise says what is wrong.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "device/machine.hpp"
#include "device/exchange.cuh"
#ifdef MSCCL_RECORDS
#include "device/rings.hpp"
#endif

using msccl::address;
using msccl::u32;
using msccl::u64;

namespace {

constexpr u32 RANKS = 2, CALLS = 12;
#ifdef MSCCL_RECORDS
constexpr u32 THREADS = 128;  // while bulk copies carry messages, the third warp records
#else
constexpr u32 THREADS = 64;
#endif
// Around every buffer: what goes astray is seen.
constexpr size_t MARGIN = 32;

struct Shape {
    u32 wires, depth, slot_bytes;

    size_t ring_bytes() const { return size_t(depth) * slot_bytes; }
};

// The wires of both protocols.
struct Shapes {
    Shape simple, ll;

    u32 lanes() const { return max(simple.wires, ll.wires); }
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
    u32 parts;
    bool packets;
};

// The ends of the wires of a rank under one protocol, and the slots of those that come in.
struct Wires {
    char* slots;
    char* ends;

    explicit Wires(const Shape& shape)
        : slots(emulator::zeroed(shape.wires * shape.ring_bytes() + 1)),
          ends(emulator::zeroed(2 * RANKS * shape.wires * sizeof(msccl_wire_end) + 1)) {}
};

struct Rank {
    Wires simple, ll;
    std::vector<msccl_progress> progress;
    // The notice, and behind it the table of rings.
    std::vector<msccl_notice> notice;
    // If lanes record: their rings, and how many words of each are checked.
    std::vector<u64> rings;
    std::vector<u64> checked;
    // By protocol and direction: how many messages each wire has had.
    std::map<std::array<u32, 3>, u32> counts;

    explicit Rank(const Shapes& shapes)
        : simple(shapes.simple),
          ll(shapes.ll),
          progress(2 * shapes.lanes()),
          notice(1 + 2 * shapes.lanes()) {}
};

u64 entry(const Wires& of, const Shape& shape, bool out, u32 peer, u32 wire) {
    return msccl::WireTable{address(of.ends), RANKS, shape.wires}.entry(out, peer, wire);
}

void connect(std::vector<Rank>& ranks, Wires Rank::* of, const Shape& shape) {
    for (u32 me = 0; me < RANKS; ++me) {
        const Wires &own = ranks[me].*of, &other = ranks[1 - me].*of;
        for (u32 wire = 0; wire < shape.wires; ++wire) {
            for (bool out : {false, true}) {
                auto* end =
                    reinterpret_cast<msccl_wire_end*>(entry(own, shape, out, 1 - me, wire));
                end->slots = address((out ? other : own).slots + wire * shape.ring_bytes());
                end->far = msccl::seen_at(entry(other, shape, !out, me, wire));
            }
        }
    }
}

#ifdef MSCCL_RECORDS
void prepare_rings(Rank& rank) {
    emulator::prepare_rings(rank.notice, rank.rings);
    rank.checked.assign(rank.notice.size() - 1, emulator::WORDS_BEFORE);
}

// The words of a lane that have not been checked.
class Words {
public:
    Words(Rank& rank, u32 lane)
        : ring_(&rank.rings[lane * msccl::RING_WORDS]),
          at_(rank.checked[lane]),
          end_(rank.notice[1 + lane].looked_ns) {}

    // Whether the next one has these, and is of its turn; and its value, if that is given. Then it
    // is taken.
    bool expect(u32 kind, u32 step, const u32* value = nullptr) {
        if (at_ == end_) return false;
        u64 word = ring_[at_ % msccl::RING_WORDS];
        u32 what = msccl::what_of(kind, step) | msccl::Ring::turn(u32(at_));
        if (u32(word >> 32) != what || (value && u32(word) != *value)) return false;
        take();
        return true;
    }

    void take() { last_ = u32(ring_[at_++ % msccl::RING_WORDS]); }

    // The value of the one that was taken last.
    u32 last() const { return last_; }

    bool is_over() const { return at_ == end_; }

    u64 at() const { return at_; }

private:
    const u64* ring_;
    u64 at_, end_;
    u32 last_ = 0;
};

// How many waits all lanes have recorded, by link and direction.
u32 waits[msccl::LINKS_OF_LANE][2];

// Whether a lane has recorded the launch.
bool check_lane(Rank& rank, const msccl_exchange_launch& launch, u32 lane) {
    const msccl_lane& work = launch.lanes[lane];
    Words words(rank, lane);
    bool out = launch.transfers[work.first].traits & MSCCL_TRANSFER_OUT;
    u32 call = u32(launch.call);
    words.take();
    u32 moved_ns = words.last();
    bool right = words.expect(msccl::RECORD_CALL, launch.first_transfer, &call);
    for (u32 link : {msccl::LINK_OF_SIMPLE, msccl::LINK_OF_LL}) {
        right = right && words.expect(msccl::RECORD_COUNT, link,
                                      &rank.counts[{link, u32(out), work.part}]);
    }
    for (u32 at = work.first; right && at < u32(work.first) + work.count; ++at) {
        const msccl_transfer& transfer = launch.transfers[at];
        u32 parts = transfer.traits & MSCCL_TRANSFER_PARTS_MASK;
        if (work.part >= parts) continue;
        bool ll = transfer.traits & MSCCL_TRANSFER_LL;
        u32 link = ll ? msccl::LINK_OF_LL : msccl::LINK_OF_SIMPLE;
        u64 most = ll ? msccl::Ll::data_bytes(launch.ll_slot_bytes) : launch.simple_slot_bytes;
        msccl::Part part(transfer.bytes, parts, work.part);
        u32 step = launch.first_transfer + at;
        for (u64 start = part.start; right && start < part.end; start += most) {
            u32 wait = out ? msccl::RECORD_WAIT_ROOM : msccl::RECORD_WAIT_DATA;
            if (words.expect(wait, step)) {
                waits[link][out] += 1;
                // That of a message in bulk may be over while the one before is on its way.
                right = !ll || int(words.last() - moved_ns) >= 0;
            }
            right = right && words.expect(msccl::RECORD_MOVE, step);
            moved_ns = words.last();
            rank.counts[{link, u32(out), work.part}] += 1;
        }
    }
    right = right && words.expect(msccl::RECORD_END, 0) && words.is_over();
    rank.checked[lane] = words.at();
    return right;
}

bool check_records(Rank& rank, const msccl_exchange_launch& launch) {
    for (u32 lane = 0; lane < launch.lane_count; ++lane) {
        if (check_lane(rank, launch, lane)) continue;
        std::fprintf(stderr, "lane %u has not recorded what it did\n", lane);
        return false;
    }
    return true;
}
#else
void prepare_rings(Rank&) {}
bool check_records(Rank&, const msccl_exchange_launch&) { return true; }
#endif

std::vector<Rank> wired(const Shapes& shapes) {
    std::vector<Rank> ranks;
    for (u32 me = 0; me < RANKS; ++me) ranks.emplace_back(shapes);
    connect(ranks, &Rank::simple, shapes.simple);
    connect(ranks, &Rank::ll, shapes.ll);
    for (Rank& rank : ranks) prepare_rings(rank);
    return ranks;
}

// What rank `me` launches: a lane for every wire and way.
msccl_exchange_launch launch_of(const Shapes& shapes, Rank& rank, u32 me, u32 number,
                                std::vector<Transfer>& transfers, msccl_control& control) {
    msccl_exchange_launch launch{};
    launch.links_simple = address(rank.simple.ends);
    launch.links_ll = address(rank.ll.ends);
    launch.control = address(&control);
    launch.notice = address(rank.notice.data());
    launch.progress = address(rank.progress.data());
    launch.call = number;
    launch.ranks = RANKS;
    // As if launches of the same call had come before.
    launch.first_transfer = number % 3 * 7;
    launch.simple_wires = shapes.simple.wires;
    launch.simple_depth = shapes.simple.depth;
    launch.simple_slot_bytes = shapes.simple.slot_bytes;
    launch.ll_wires = shapes.ll.wires;
    launch.ll_depth = shapes.ll.depth;
    launch.ll_slot_bytes = shapes.ll.slot_bytes;
    unsigned short first = 0;
    for (bool out : {true, false}) {
        unsigned short count = 0;
        for (size_t at = 0; at < transfers.size(); ++at) {
            Transfer& transfer = transfers[at];
            if ((transfer.from == me) != out) continue;
            Buffer& buffer = out ? transfer.source : transfer.target;
            u32 traits = transfer.parts | (out ? u32(MSCCL_TRANSFER_OUT) : 0) |
                         (transfer.packets ? u32(MSCCL_TRANSFER_LL) : 0);
            launch.transfers[first + count] = {address(buffer.bytes.data() + buffer.start),
                                               buffer.length, 1 - me, traits};
            ++count;
        }
        for (unsigned short wire = 0; count != 0 && wire < shapes.lanes(); ++wire) {
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

bool call(const Shapes& shapes, std::vector<Rank>& ranks, u32 number, std::mt19937& random) {
    std::vector<Transfer> transfers;
    for (u32 count = 1 + random() % 4; count != 0; --count) {
        bool packets = random() % 4 == 0;
        const Shape& shape = packets ? shapes.ll : shapes.simple;
        size_t most = random() % 3 != 0 ? size_t(shape.slot_bytes) * 10 : 3000;
        bool even = random() % 3 != 0;
        size_t length = 1 + random() % most;
        if (even && random() % 2) length = (length + 15) / 16 * 16;
        transfers.push_back({u32(random() % 2),
                             {random, length, even},
                             {random, length, random() % 4 != 0},
                             u32(1 + random() % shape.wires),
                             packets});
    }
    std::vector<std::vector<unsigned char>> right;
    for (const Transfer& transfer : transfers) right.push_back(expected(transfer));
    msccl_control control{};
    std::vector<std::thread> streams;
    std::vector<msccl_exchange_launch> launches;
    for (u32 me = 0; me < RANKS; ++me) {
        launches.push_back(launch_of(shapes, ranks[me], me, number, transfers, control));
    }
    for (const auto& launch : launches) {
        if (launch.lane_count == 0) continue;
        streams.emplace_back([&launch] {
            emulator::launch({launch.lane_count, 1}, THREADS, [&] { msccl::exchange(launch); });
        });
    }
    for (auto& stream : streams) stream.join();
    for (u32 me = 0; me < RANKS; ++me) {
        if (!check_records(ranks[me], launches[me])) return false;
    }
    for (size_t at = 0; at < transfers.size(); ++at) {
        if (transfers[at].target.bytes == right[at]) continue;
        std::fprintf(stderr, "transfer %zu of %zu bytes in %u parts is wrong\n", at,
                     transfers[at].source.length, transfers[at].parts);
        return false;
    }
    return true;
}

}  // namespace

int main() {
    // Slots shorter than a piece of a bulk copy, longer, and of several.
    const Shapes all_shapes[] = {{{1, 4, 256}, {2, 2, 512}},
                                 {{2, 1, 1152}, {1, 4, 1024}},
                                 {{3, 2, 9728}, {2, 4, 256}},
                                 {{2, 4, 32768}, {2, 1, 8192}}};
    std::mt19937 random(1);
    for (const Shapes& shapes : all_shapes) {
        std::vector<Rank> ranks = wired(shapes);
        for (u32 number = 0; number < CALLS; ++number) {
            if (call(shapes, ranks, number, random)) continue;
            const Shape& shape = shapes.simple;
            std::fprintf(stderr, "call %u over %u wires of %u slots of %u bytes\n", number,
                         shape.wires, shape.depth, shape.slot_bytes);
            return 1;
        }
    }
#ifdef MSCCL_RECORDS
    for (auto& of_link : waits) {
        if (of_link[0] != 0 && of_link[1] != 0) continue;
        std::fprintf(stderr, "under one protocol no wait for data or room was recorded\n");
        return 1;
    }
#endif
    if (emulator::bulk_copies == 0) {
        std::fprintf(stderr, "nothing was carried in bulk\n");
        return 1;
    }
}
