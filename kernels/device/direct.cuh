// Links that deliver directly: the sender stores where the receiver wants the message (push), or the
// receiver loads from where it lies at the sender (pull). docs/MEMORY.md says when that is sound, how
// the ends agree, and what orders their accesses.
//
// The *owner* of the region offers it when it opens the link, to the other end, in the words that lie
// beside that end's wire end. Where it has nothing to offer it offers 0, and the link goes through its
// slots as ever. Only under protocol Simple: packets carry flags beside the data.
#pragma once

#include "link.cuh"

namespace msccl {

// The low bits of an offer's words are an address, the others the number of a launch.
constexpr u64 OFFERED_ADDRESS = (1ull << MSCCL_OFFER_SHIFT) - 1;

__device__ inline bool is_of_launch(u64 word, u64 launch) {
    return word >> MSCCL_OFFER_SHIFT == (launch & (~0ull >> MSCCL_OFFER_SHIFT));
}

// The offer beside this end's `msccl_wire_end`, and the one beside the other end's: on every rank
// offers lie equally far from wire ends.
__device__ inline u64 offer_at(const msccl_launch& launch, u64 entry) {
    return entry + (launch.offers - launch.links);
}
__device__ inline u64 far_offer_at(const msccl_launch& launch, const Link& link) {
    return offer_at(launch, link.far - seen_at(0));
}

// Takes up a link of `traits` (`MSCCL_PLAN_LINK_` bits) to `peer`. Its owner makes its offer.
__device__ inline void open_direct(Link& link, const msccl_launch& launch, u32 traits, u32 peer) {
    bool push = traits & MSCCL_PLAN_LINK_PUSH, pull = traits & MSCCL_PLAN_LINK_PULL;
    if (launch.offers == 0 || !(push || pull)) return;
    auto own = reinterpret_cast<msccl_offer*>(offer_at(launch, link.entry));
    link.launch = ptx::ld_relaxed_sys_u64(address(&own->launches)) + 1;
    link.traits = traits & MSCCL_PLAN_LINK_RECEIPT;
    bool out = traits & MSCCL_PLAN_LINK_OUT;
    if (out == push) {
        link.traits |= Link::UNREAD;
        return;
    }
    msccl_view view = launch.views[peer];
    if (view.input | view.output) link.traits |= Link::LENT;
    u64 number = link.launch << MSCCL_OFFER_SHIFT;
    ptx::st_relaxed_sys_2u64(far_offer_at(launch, link), {number | view.input, number | view.output});
}

// The next launch has the next number.
__device__ inline void close_direct(const Link& link, const msccl_launch& launch) {
    if (link.launch == 0) return;
    auto own = reinterpret_cast<msccl_offer*>(offer_at(launch, link.entry));
    ptx::st_weak_u64(address(&own->launches), link.launch);
}

// Makes use of what has been offered, if anything.
__device__ inline void accept(Link& link, ptx::Doubles2 offer) {
    link.traits &= ~Link::UNREAD;
    link.input = offer.x & OFFERED_ADDRESS;
    link.output = offer.y & OFFERED_ADDRESS;
    if (link.input | link.output) link.traits |= Link::BORROWED;
}

// Receiver, when it has acquired the first message: the sender's offer came before it. An offer of
// another launch is a later one: the sender has gone on, which it does only if it had offered nothing.
__device__ inline void take_offer(Link& link, const msccl_launch& launch) {
    if (!(link.traits & Link::UNREAD)) return;
    ptx::Doubles2 offer = ptx::ld_relaxed_sys_2u64(offer_at(launch, link.entry));
    bool both = is_of_launch(offer.x, link.launch) && is_of_launch(offer.y, link.launch);
    accept(link, both ? offer : ptx::Doubles2{0, 0});
}

// Sender, before its first message: the receiver's offer says that its kernel has begun. Acquires at
// system scope what came before that.
__device__ inline void await_offer(Link& link, const msccl_launch& launch, u32 subject,
                                   Watch& watch) {
    if (!(link.traits & Link::UNREAD)) return;
    u64 at = offer_at(launch, link.entry);
    Wait wait;
    ptx::Doubles2 offer = ptx::ld_relaxed_sys_2u64(at);
    while (!is_of_launch(offer.x, link.launch) || !is_of_launch(offer.y, link.launch)) {
        if (!wait.again(watch, {MSCCL_WAITING_OFFER, subject, link.count})) return;
        offer = ptx::ld_relaxed_sys_2u64(at);
    }
    wait.over(watch);
    ptx::ld_acquire_sys_u64(at);
    accept(link, offer);
}

// At the end of the launch, after a barrier: whoever asks for receipts gets them, and waits for them.
__device__ inline void settle(Link& link, bool out, u32 subject, Watch& watch) {
    if (!(link.traits & MSCCL_PLAN_LINK_RECEIPT)) return;
    if (link.traits & Link::BORROWED) {
        ptx::st_release_sys_u64(link.far, link.count);
    } else if (out && (link.traits & Link::LENT)) {
        Wait wait;
        while (ptx::ld_acquire_sys_u64(seen_at(link.entry)) < link.count) {
            if (!wait.again(watch, {MSCCL_WAITING_RECEIPT, subject, link.count})) return;
        }
        wait.over(watch);
    }
}

}  // namespace msccl
