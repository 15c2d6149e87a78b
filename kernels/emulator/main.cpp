// Runs the kernels for all ranks of a collective on the host: the interpreters of protocol Simple,
// or those of MSCCL_PROTOCOL and its low-latency kernels; and if MSCCL_SPECIALISED is defined, in
// every other launch of a rank, the specialised kernels in the file of that name. Elements are
// those that the emulator has for every size, or floats if MSCCL_FLOATS is defined; with
// specialised kernels, MSCCL_NUMBER.
//
// Standard input says what to run, in 64-bit words and bytes, in the order in which `main` takes
// them. The launches of a rank follow one another in one piece of memory, without waiting for other
// ranks: it is filled before a launch, and spoilt as soon as the launch has ended. Standard output
// gets what it was in between, whether it was done and not given up, and how many bytes of the
// rank's slots have ever been written. If MSCCL_RECORDS is defined, it gets the records of every
// thread block of a rank behind that: how many words were before, how many there are, and these.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <type_traits>

#include "device/machine.hpp"
#ifdef MSCCL_SPECIALISED
#include MSCCL_SPECIALISED
#else
#include "device/interpreter.cuh"
#include "device/ll.cuh"
#include "device/ll128.cuh"
#include "device/low_latency.cuh"
#endif
#ifdef MSCCL_RECORDS
#include "device/rings.hpp"
#endif

using msccl::address;
using msccl::u32;
using msccl::u64;

namespace {

u64 word() {
    u64 value;
    if (std::fread(&value, sizeof value, 1, stdin) != 1) std::exit(3);
    return value;
}

void bytes(void* to, size_t count) {
    if (count != 0 && std::fread(to, count, 1, stdin) != 1) std::exit(3);
}

// What runs a launch: an interpreter, perhaps one for operands that lie anywhere, or a low-latency
// kernel, or the interpreter for ranks that offer nothing.
enum class Kind : u64 { ALIGNED, UNALIGNED, LOW_LATENCY, LOW_LATENCY_UNALIGNED, PUSH_ONLY };

// What a rank is given, and what it has.
struct Rank {
    std::vector<std::vector<u32>> plans;
    std::vector<std::vector<char>> before, after;
    char* memory = nullptr;
    char* arena = nullptr;
    std::vector<u64> signals, scratch;
    std::vector<msccl_progress> progress;
    std::vector<msccl_notice> notice;  // the first one; the others are the table of rings
    std::vector<u64> rings;
    std::unique_ptr<msccl_control> control = std::make_unique<msccl_control>();
    std::vector<bool> done;  // of every launch: it came to its end, and was not given up
    std::vector<msccl_launch> launches;
    std::vector<Kind> kinds;  // of the kernels that run them
};

// The arena of a rank: rings of slots, then wire ends, then offers.
struct Layout {
    u64 ranks, wires, depth, slot_bytes;

    u64 ring(u64 peer, u64 wire) const { return (peer * wires + wire) * depth * slot_bytes; }
    u64 slots_end() const { return ring(ranks, 0); }
    u64 entry(bool out, u64 peer, u64 wire) const {
        return slots_end() + ((out * ranks + peer) * wires + wire) * sizeof(msccl_wire_end);
    }
    u64 offers() const { return entry(true, ranks, 0); }
    u64 bytes() const { return 2 * offers() - slots_end(); }
};

void wire(const Layout& layout, std::vector<Rank>& ranks) {
    for (u64 me = 0; me < layout.ranks; ++me) {
        for (u64 peer = 0; peer < layout.ranks; ++peer) {
            for (u64 wire = 0; wire < layout.wires; ++wire) {
                for (bool out : {false, true}) {
                    char* receiver = ranks[out ? peer : me].arena;
                    char* far = ranks[peer].arena + layout.entry(!out, me, wire);
                    msccl_wire_end end{};
                    end.slots = address(receiver + layout.ring(out ? me : peer, wire));
                    end.far = msccl::seen_at(address(far));
                    std::memcpy(ranks[me].arena + layout.entry(out, peer, wire), &end, sizeof end);
                }
            }
        }
    }
}

msccl_launch take_launch(const Layout& layout, Rank& rank, u64 number) {
    const std::vector<u32>& plan = rank.plans.at(word());
    const u32* header = plan.data();
    msccl_launch launch{};
    launch.plan = address(header);
    launch.links = address(rank.arena + layout.entry(false, 0, 0));
    launch.input = address(rank.memory) + word();
    launch.output = address(rank.memory) + word();
    launch.offers = word() ? launch.links + layout.offers() - layout.slots_end() : 0;
    u64 offered = word();
    for (u64 peer = 0; peer < layout.ranks && launch.offers; ++peer) {
        if (offered >> peer & 1) launch.views[peer] = {launch.input, launch.output};
    }
    launch.block_bytes = word();
    launch.chunk_bytes = word();
    launch.part_bytes = word();
    launch.slice_bytes = word();
    launch.rounds = u32(word());
    launch.instances = u32(word());
    launch.chunks_per_message = u32(word());
    launch.flags = u32(word());
    launch.reduction = u32(word());
    launch.divisor = u32(word());
    u64 scratch_chunk = (launch.chunk_bytes + 15) / 16 * 16;
    u64 scratch = header[MSCCL_PLAN_HEADER_SCRATCH_CHUNKS] * scratch_chunk / 8 + 2;
    rank.scratch.resize(std::max<size_t>(rank.scratch.size(), scratch));
    launch.call = number;
    launch.control = address(rank.control.get());
    launch.notice = address(rank.notice.data());
    launch.ranks = u32(layout.ranks);
    launch.wires = u32(layout.wires);
    launch.link_depth = u32(layout.depth);
    launch.slot_bytes = u32(layout.slot_bytes);
    launch.tb_count = header[MSCCL_PLAN_HEADER_TB_COUNT];
    launch.link_table = header[MSCCL_PLAN_HEADER_LINK_TABLE];
    launch.signal_stride = header[MSCCL_PLAN_HEADER_SIGNAL_STRIDE];
    launch.block_chunks = header[MSCCL_PLAN_HEADER_BLOCK_CHUNKS];
    launch.longest_step = header[MSCCL_PLAN_HEADER_LONGEST_STEP];
    launch.most_messages = header[MSCCL_PLAN_HEADER_MOST_MESSAGES];
    size_t words = std::min<size_t>(plan.size() - MSCCL_PLAN_HEADER_LENGTH, MSCCL_PLAN_WORDS);
    std::memcpy(launch.words, header + MSCCL_PLAN_HEADER_LENGTH, words * sizeof(u32));
    rank.kinds.push_back(Kind(word()));
    return launch;
}

// The addresses of what has grown while launches were taken.
void place(Rank& rank, msccl_launch& launch) {
    launch.scratch = (address(rank.scratch.data()) + 15) / 16 * 16;
    launch.signals = address(rank.signals.data());
    launch.signals_end = launch.signals + 8 * rank.signals.size();
    launch.progress = address(rank.progress.data());
}

// The interpreter of `Protocol` for elements that are `Number`s. Thread blocks are warp-specialised
// where the host has them be so.
template <class Protocol, class Number>
void interpret_over(const msccl_launch& launch) {
    if constexpr (Protocol::TAILS && !Protocol::DIRECT) {
        using WarpSpecialised =
            std::conditional_t<Protocol::UNALIGNED, msccl::WarpSpecialisedUnaligned,
                               msccl::WarpSpecialised>;
        if (launch.rounds > 1) return msccl::interpret<WarpSpecialised, Number>(launch);
    }
    msccl::interpret<Protocol, Number>(launch);
}

template <class Number>
void run(const msccl_launch& launch, Kind kind) {
#ifdef MSCCL_PROTOCOL
#ifndef MSCCL_SPECIALISED
    if (kind == Kind::LOW_LATENCY)
        return msccl::run_low_latency<msccl::MSCCL_PROTOCOL, Number, false>(launch);
    if (kind == Kind::LOW_LATENCY_UNALIGNED)
        return msccl::run_low_latency<msccl::MSCCL_PROTOCOL, Number, true>(launch);
#endif
    interpret_over<msccl::MSCCL_PROTOCOL, Number>(launch);
#else
    bool unaligned = kind == Kind::UNALIGNED;
    if (kind == Kind::PUSH_ONLY) {
        interpret_over<msccl::PushOnly, Number>(launch);
    } else if (launch.offers) {
        unaligned ? interpret_over<msccl::DirectUnaligned, Number>(launch)
                  : interpret_over<msccl::Direct, Number>(launch);
    } else {
        unaligned ? interpret_over<msccl::SimpleUnaligned, Number>(launch)
                  : interpret_over<msccl::Simple, Number>(launch);
    }
#endif
    (void)kind;
}

// The body of one thread of a launch of rank `rank`, whose elements are of type `number`, as
// `DataType` counts.
void kernel(const msccl_launch& launch, size_t rank, u64 number, Kind kind) {
#ifdef MSCCL_SPECIALISED
    if ((rank + launch.call) % 2 == 0) return SPECIAL[rank](launch);
    (void)number;
    run<msccl::MSCCL_NUMBER>(launch, kind);
#else
    (void)rank;
    switch (number) {
#ifdef MSCCL_FLOATS
        case 6: return run<msccl::F16>(launch, kind);
        case 7: return run<msccl::Bf16>(launch, kind);
        case 8: return run<msccl::F32>(launch, kind);
        case 9: return run<msccl::F64>(launch, kind);
        case 10: return run<msccl::F8E4M3>(launch, kind);
        case 11: return run<msccl::F8E5M2>(launch, kind);
#else
        case 0: return run<msccl::I8>(launch, kind);
        case 1: return run<msccl::U8>(launch, kind);
        case 2: return run<msccl::I32>(launch, kind);
        case 5: return run<msccl::U64>(launch, kind);
        case 7: return run<msccl::Bf16>(launch, kind);
#endif
        default: std::exit(5);
    }
#endif
}

// The end of a communicator that fails: one rank gives up or fails, a little later the others fail,
// and at last all are released. `seed` says who and when.
void fail(std::vector<Rank>& ranks, u64 seed) {
    std::mt19937_64 random(seed);
    auto pause = [&](u64 us) {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % us));
    };
    auto set = [](Rank& rank, u32 state) {
        __atomic_store_n(&rank.control->state, state, __ATOMIC_SEQ_CST);
    };
    Rank& first = ranks[random() % ranks.size()];
    pause(150000);
    set(first, random() % 2 ? MSCCL_CONTROL_RELEASE : MSCCL_CONTROL_HOLD);
    pause(60000);
    for (Rank& rank : ranks) {
        if (rank.control->state == MSCCL_CONTROL_RUN) set(rank, MSCCL_CONTROL_HOLD);
        pause(5000);
    }
    for (Rank& rank : ranks) {
        set(rank, MSCCL_CONTROL_RELEASE);
        pause(20000);
    }
}

void put(u64 value) { std::fwrite(&value, sizeof value, 1, stdout); }

#ifdef MSCCL_RECORDS
using emulator::WORDS_BEFORE;

void prepare_rings(Rank& rank) { emulator::prepare_rings(rank.notice, rank.rings); }

void put_records(const Rank& rank) {
    for (size_t block = 0; block + 1 < rank.notice.size(); ++block) {
        const u64* ring = &rank.rings[block * msccl::RING_WORDS];
        u64 written = rank.notice[1 + block].looked_ns - WORDS_BEFORE;
        if (written > msccl::RING_WORDS) std::exit(6);
        put(WORDS_BEFORE);
        put(written);
        for (u64 at = 0; at < written; ++at) put(ring[(WORDS_BEFORE + at) % msccl::RING_WORDS]);
    }
}
#else
void prepare_rings(Rank&) {}
void put_records(const Rank&) {}
#endif

}  // namespace

int main() {
    Layout layout{word(), word(), word(), word()};
    u64 threads = word(), launches = word(), blocks_max = word();
    u64 memory_bytes = word(), plans = word(), type = word();
    u64 failure = word();  // 0: nothing fails
    std::vector<Rank> ranks(layout.ranks);
    for (Rank& rank : ranks) {
        for (u64 at = 0; at < plans; ++at) {
            rank.plans.emplace_back(word());
            bytes(rank.plans.back().data(), rank.plans.back().size() * sizeof(u32));
        }
        rank.memory = emulator::zeroed(memory_bytes);
        rank.arena = emulator::zeroed(layout.bytes());
        rank.signals.resize(blocks_max);
        rank.notice.resize(1 + blocks_max);
        prepare_rings(rank);
        rank.progress.resize(blocks_max);
        for (u64 at = 0; at < launches; ++at) {
            rank.before.emplace_back(memory_bytes);
            bytes(rank.before.back().data(), memory_bytes);
            rank.launches.push_back(take_launch(layout, rank, at));
        }
    }
    wire(layout, ranks);
    std::vector<std::thread> streams;
    for (Rank& rank : ranks) {
        size_t number = streams.size();
        streams.emplace_back([&rank, number, threads, memory_bytes, type] {
            for (size_t at = 0; at < rank.launches.size(); ++at) {
                msccl_launch& launch = rank.launches[at];
                place(rank, launch);
                // Peers may still use the buffers of a call that was given up.
                if (rank.notice[0].stopped == 0)
                    std::memcpy(rank.memory, rank.before[at].data(), memory_bytes);
                emulator::launch({launch.tb_count, launch.instances}, unsigned(threads),
                                 [&] { kernel(launch, number, type, rank.kinds[at]); });
                rank.after.emplace_back(rank.memory, rank.memory + memory_bytes);
                rank.done.push_back(rank.notice[0].stopped == 0);
                if (rank.notice[0].stopped == 0) std::memset(rank.memory, 0xa5, memory_bytes);
            }
        });
    }
    if (failure != 0) fail(ranks, failure);
    for (auto& stream : streams) stream.join();
    for (Rank& rank : ranks) {
        u64 used = layout.slots_end() -
                   u64(std::count(rank.arena, rank.arena + layout.slots_end(), '\0'));
        put(used);
        for (size_t at = 0; at < rank.after.size(); ++at) {
            put(rank.done[at]);
            std::fwrite(rank.after[at].data(), rank.after[at].size(), 1, stdout);
        }
        put_records(rank);
    }
    return 0;
}
