// Links that deliver directly: the sender stores where the receiver wants the message (push), or
// the receiver loads from where it lies at the sender (pull). docs/MEMORY.md says when that is
// sound, how the ends agree, and what orders their accesses.
//
// The *owner* of the region offers it when it opens the link, to the other end, in the words that
// lie beside that end's wire end. Where it has nothing to offer it offers 0, and the link goes
// through its slots as ever. An owner whose kernel lends nothing says so of its next launch, too,
// and keeps to that: then senders to it do not wait for its kernel to begin. Only under protocol
// Simple: packets carry flags beside the data.
#pragma once

#include "link.cuh"

namespace msccl {

// The low bits of an offer's words are an address, the others the number of a launch.
constexpr u64 OFFERED_ADDRESS = (1ull << MSCCL_OFFER_SHIFT) - 1;

// Beside a number of launches: this rank, which owns the region, has offered nothing in the next.
constexpr u64 NEXT_DECLINED = 1ull << 32;

// A thread block has at most one such link from and one to each peer.
constexpr u32 DIRECT_LINKS_MAX = 2 * MSCCL_DIRECT_RANKS_MAX;

// The buffers of a rank, as they lie here.
struct Buffers {
    u64 input;
    u64 output;
};

// By how many launches the word of an offer is later than `launch`; the two are never far apart.
__device__ inline int lateness(u64 word, u32 launch) {
    return short(u32(word >> MSCCL_OFFER_SHIFT) - launch);
}

// Whether an offer says by now that there is none for `launch`. It needs no order, since nothing is
// borrowed then.
__device__ inline bool is_declined(ptx::Doubles2 offer, u32 launch) {
    bool stands = lateness(offer.x, launch) >= 0 && lateness(offer.y, launch) >= 0;
    return stands && ((offer.x | offer.y) & OFFERED_ADDRESS) == 0;
}

// The offer beside the `msccl_wire_end` at `entry`: on every rank offers lie equally far from ends.
__device__ inline u64 offer_at(const msccl_launch& launch, u64 entry) {
    return entry + (launch.offers - launch.links);
}

// Where launches are counted: apart by who offers, so that the words are never far behind.
__device__ inline u64 launches_at(const msccl_launch& launch, u64 entry, u32 traits) {
    auto offer = reinterpret_cast<msccl_offer*>(offer_at(launch, entry));
    return address(traits & MSCCL_PLAN_LINK_PUSH ? &offer->pushes : &offer->pulls);
}

// What stands beside a wire end when a launch takes it up.
struct Earlier {
    u64 launches;           // so many have been before
    ptx::Doubles2 offered;  // looked at by ranks that offer nothing: as it lies
};

// The same, all of it on its way while the rest is loaded.
template <class Protocol>
__device__ inline Earlier earlier_at(const msccl_launch& launch, u64 entry, u32 traits) {
    Earlier earlier{};
    earlier.launches = ptx::ld_relaxed_sys_u64(launches_at(launch, entry, traits));
    if (!Protocol::LENDS) earlier.offered = ptx::ld_relaxed_sys_2u64(offer_at(launch, entry));
    return earlier;
}

// Whether a link of `traits` (`MSCCL_PLAN_LINK_` bits) may deliver directly in this launch.
__device__ inline bool may_be_direct(const msccl_launch& launch, u32 traits) {
    return launch.offers != 0 && (traits & (MSCCL_PLAN_LINK_PUSH | MSCCL_PLAN_LINK_PULL));
}

// Writes the offer of `view` in launch number `number` to the other end.
__device__ inline void offer(const Link& link, const msccl_launch& launch, u32 number,
                             const msccl_view& view) {
    u64 far = offer_at(launch, link.far - seen_at(0)), high = u64(number) << MSCCL_OFFER_SHIFT;
    ptx::st_relaxed_sys_2u64(far, {high | view.input, high | view.output});
}

// Takes up such a link to `peer`. Its owner makes its offer, if it lends and has not declined.
template <class Protocol>
__device__ inline void open_direct(Link& link, const msccl_launch& launch, u32 traits, u32 peer,
                                   const Earlier& earlier) {
    // A wire to another host.
    if (link.far & 1) return;
    link.launch = u32(earlier.launches) + 1;
    link.traits = traits & (MSCCL_PLAN_LINK_PUSH | MSCCL_PLAN_LINK_ACK);
    bool pushes = traits & MSCCL_PLAN_LINK_PUSH, out = traits & MSCCL_PLAN_LINK_OUT;
    if (pushes == out) {
        bool declined = !Protocol::LENDS && is_declined(earlier.offered, link.launch);
        if (!declined) link.traits |= Link::UNREAD;
    } else if (!Protocol::LENDS) {
        link.traits |= Link::DECLINES;
    } else if (!(earlier.launches & NEXT_DECLINED)) {
        const msccl_view& view = launch.views[peer];
        if (view.input | view.output) link.traits |= Link::LENT;
        offer(link, launch, link.launch, view);
    }
}

// The owner that lends nothing: declines this launch and the next one, before it waits for
// anything, since peers may wait for that.
__device__ inline void decline(const Link& link, const msccl_launch& launch) {
    if (!(link.traits & Link::DECLINES)) return;
    offer(link, launch, link.launch + 1, {});
    u64 launches = link.launch | NEXT_DECLINED;
    ptx::st_weak_u64(launches_at(launch, link.entry, link.traits), launches);
}

// The next launch has the next number: of 32 bits, of which 16 are compared.
__device__ inline void close_direct(const Link& link, const msccl_launch& launch) {
    if (link.launch == 0 || link.traits & Link::DECLINES) return;
    ptx::st_weak_u64(launches_at(launch, link.entry, link.traits), link.launch);
}

// Before the first message of link number `subject`, whose offer is unread: waits for the owner's
// offer, and makes use of it. Where it is an address the owner's kernel has begun; acquires at
// system scope what came before that. An offer of a later launch says that there is none for this
// one: the owner declines both, or has gone on without anybody having used what it had offered.
__device__ __noinline__ void await_offer(Link& link, Buffers* theirs, const msccl_launch& launch,
                                         u32 subject, Watch& watch) {
    auto offer = reinterpret_cast<msccl_offer*>(offer_at(launch, link.entry));
    u64 output, input;
    Wait wait;
    while (true) {
        output = ptx::ld_relaxed_sys_u64(address(&offer->output));
        input = ptx::ld_acquire_sys_u64(address(&offer->input));
        if (lateness(input, link.launch) >= 0 && lateness(output, link.launch) >= 0) break;
        if (!wait.again(watch, {MSCCL_WAITING_OFFER, subject, link.count})) return;
    }
    wait.over(watch);
    link.traits &= ~Link::UNREAD;
    if (lateness(input, link.launch) != 0 || lateness(output, link.launch) != 0) return;
    theirs[subject] = {input & OFFERED_ADDRESS, output & OFFERED_ADDRESS};
    if (theirs[subject].input | theirs[subject].output) link.traits |= Link::BORROWED;
}

// At the end of the launch, after a barrier: sends the acknowledgements that the plan requires, and
// waits for them.
__device__ inline void settle(Link& link, bool out, u32 subject, Watch& watch) {
    if (!(link.traits & MSCCL_PLAN_LINK_ACK)) return;
    if (link.traits & Link::BORROWED) {
        ptx::st_release_sys_u64(link.far, link.count);
    } else if (out && (link.traits & Link::LENT)) {
        Wait wait;
        while (ptx::ld_acquire_sys_u64(seen_at(link.entry)) < link.count) {
            if (!wait.again(watch, {MSCCL_WAITING_ACK, subject, link.count})) return;
        }
        wait.over(watch);
    }
}

}  // namespace msccl
