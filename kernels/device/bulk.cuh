// Messages of protocol Simple, moved by the bulk copy engine of the multiprocessor: from the source
// to shared memory, and from there to the destination, piece by piece.
//
// Two threads are enough, whatever the others of the thread block could do. The *copier* begins all
// copies and keeps a few pieces in flight in either direction, across messages. The *notifier*
// exchanges counts with the peer meanwhile, since every word from or to it takes as long as a
// piece: it reads what the peer has committed or released, and publishes what has been moved. A
// message counts as moved when all of it lies where it goes, some pieces after the last one was
// begun. Before the copier waits it publishes all that it has moved, so nobody ever waits for what
// is done already.
//
// Serves multiples of sixteen bytes at multiples of sixteen, on wires of this host. A peer sees the
// same as from other senders and receivers.
//
// Order. Out: the copies of a message are done (`cp_async_bulk_wait_group`), the copier releases
// its number to the notifier, and the notifier releases it to the peer. In: the notifier acquires
// the peer's count, puts it before all bulk copies (`fence_proxy_async`), and releases it to the
// copier; a message is released when its last piece has come to shared memory.
#pragma once

#include "link.cuh"
#include "ptx_copies.cuh"
#ifdef MSCCL_RECORDS
#include "exchange_records.cuh"
#endif

namespace msccl {

// Bytes of a piece, how many pieces shared memory holds, and how many of them may be loading.
constexpr u32 PIECE_BYTES = 16 << 10;
constexpr u32 PIECES = MSCCL_BULK_BUFFER_BYTES / PIECE_BYTES;
constexpr u32 PIECES_AHEAD = 3;

// After so many further pieces a message has probably arrived.
constexpr u32 PIECES_BEHIND = 3;

// The barriers of the pieces, which lie in the launch's dynamic shared memory.
struct BulkBuffer {
    u64 full[PIECES];  // the piece has come
    u64 moved;         // the last message that the copier has moved

    // Whether the launch has such memory.
    __device__ static bool exists() { return ptx::dynamic_smem_size() >= MSCCL_BULK_BUFFER_BYTES; }

    __device__ static unsigned char* piece(u32 at) {
        return ptx::dynamic_shared() + at * PIECE_BYTES;
    }

    // One thread, once; a barrier of the thread block need not follow.
    __device__ void prepare() {
        for (u32 at = 0; at < PIECES; ++at) ptx::mbarrier_init(&full[at], 1);
        ptx::fence_proxy_async();
    }
};

// The pieces of a transfer, in their order. None lies in two messages.
struct PieceSchedule {
    u64 left;      // bytes of the transfer from the piece at hand on
    u32 most;      // bytes of a message, but for the last one
    u32 message;   // those of the message at hand from the piece on
    u32 length;    // of the piece; 0: there are no more
    bool begins;   // it is the first one of its message

    __device__ PieceSchedule(u64 bytes, u32 most) : left(bytes), most(most) { begin(); }

    __device__ bool ends_message() const { return length == message; }

    __device__ void next() {
        left -= length;
        message -= length;
        begins = false;
        length = min(PIECE_BYTES, message);
        if (message == 0) begin();
    }

private:
    __device__ void begin() {
        message = u32(min(left, u64(most)));
        length = min(PIECE_BYTES, message);
        begins = true;
    }
};

// Places in the bulk buffer, one after another.
struct Place {
    u32 at = 0;
    u32 parity = 0;  // that of the phase in which the place is filled

    __device__ void next() {
        if (++at == PIECES) {
            at = 0;
            parity ^= 1;
        }
    }
};

// A transfer of one lane, as its two threads see it.
struct BulkTransfer {
    Link& link;  // the copier counts its messages, the notifier those of the peer
    LinkShape shape;
    u32 peer;
    Watch& watch;
    u64& moved;  // in shared memory: the last message that has been moved, at first the one before

    // Whether the kernel is to end.
    __device__ bool is_aborted() const {
        return static_cast<const volatile Watch&>(watch).aborted;
    }
};

// What the copier does: out, from here to slots, or in.
template <bool OUT>
class Copier {
public:
    // `place` is the one that the next piece has.
    __device__ Copier(const BulkTransfer& transfer, BulkBuffer& buffer, Place place)
        : transfer_(transfer),
          buffer_(buffer),
          loading_(place),
          storing_(place),
          ended_(transfer.link.count) {}

    // Copies `bytes` bytes from, or to, `local` on. The place that the next piece will have.
    __device__ Place carry(u64 local, u64 bytes) {
        PieceSchedule loads(bytes, transfer_.shape.slot_bytes), stores = loads;
        from_ = to_ = local;
#pragma unroll 1
        while (stores.length != 0) {
            if (!(may_load(loads) ? load(loads) : store(stores))) break;
        }
        drain();
        return loading_;
    }

private:
    // Until the peer has committed, or released, that many messages, so that the next one can be
    // taken up; false when the kernel is to end.
    __device__ bool await_peer(u64 messages) {
        const Link& link = transfer_.link;
#ifdef MSCCL_RECORDS
        bool waits = false;
#endif
        while (ptx::ld_acquire_cta_shared_u64(&link.seen) < messages) {
            if (transfer_.is_aborted()) return false;
#ifdef MSCCL_RECORDS
            waits = true;
#endif
        }
#ifdef MSCCL_RECORDS
        if (waits) lane_waits().note(link.count + 1, OUT);
#endif
        return true;
    }

    // Whether to load the next piece before the one that is here is stored: if there is a place for
    // it, and it has come.
    __device__ bool may_load(const PieceSchedule& schedule) {
        if (ahead_ == 0) return true;
        if (ahead_ == PIECES_AHEAD || schedule.length == 0) return false;
        const Link& link = transfer_.link;
        return OUT || !schedule.begins || ptx::ld_acquire_cta_shared_u64(&link.seen) > link.count;
    }

    // Begins to load the next piece. False when the kernel is to end.
    __device__ bool load(PieceSchedule& schedule) {
        if (!OUT && schedule.begins) {
            if (!await_peer(transfer_.link.count + 1)) return false;
            from_ = advance(transfer_.link, transfer_.shape).address;
        }
        // The piece that lay here is `PIECES` back, and fewer than `PIECES_AHEAD` have been loaded
        // and not stored since.
        ptx::cp_async_bulk_wait_group_read<PIECES - PIECES_AHEAD>();
        u64& full = buffer_.full[loading_.at];
        ptx::mbarrier_arrive_expect_tx(&full, schedule.length);
        ptx::cp_async_bulk_load(BulkBuffer::piece(loading_.at), from_, schedule.length, &full);
        from_ += schedule.length;
        ahead_ += 1;
        loading_.next();
        schedule.next();
        return true;
    }

    // Begins to store the piece that has been loading for longest. False when the kernel is to end.
    __device__ bool store(PieceSchedule& schedule) {
        if (OUT && schedule.begins && !begin_out()) return false;
        await_piece();
        ptx::cp_async_bulk_store(to_, BulkBuffer::piece(storing_.at), schedule.length);
        ptx::cp_async_bulk_commit_group();
        to_ += schedule.length;
        ahead_ -= 1;
        storing_.next();
        if (OUT && ++behind_ == PIECES_BEHIND) publish_moved<PIECES_BEHIND>();
        if (schedule.ends_message()) end();
        schedule.next();
        return true;
    }

    // Takes up the next message out when it has a slot. Whoever waits for the one before need not
    // wait for that.
    __device__ bool begin_out() {
        Link& link = transfer_.link;
        u64 taken = link.count + 1 - min(link.count + 1, u64(transfer_.shape.depth));
        if (ptx::ld_acquire_cta_shared_u64(&link.seen) < taken) {
            publish_moved<0>();
            if (!await_peer(taken)) return false;
        }
        to_ = advance(link, transfer_.shape).address;
        return true;
    }

    // The piece last stored ends a message. Of those out at most one is unpublished.
    __device__ void end() {
        if (OUT) publish_moved<0>();
        ended_ += 1;
        behind_ = 0;
        if (!OUT) ptx::st_release_cta_shared_u64(&transfer_.moved, ended_);
    }

    // Out: publishes the messages that have ended, after which came at least `LATER` pieces, when
    // they have arrived.
    template <u32 LATER>
    __device__ void publish_moved() {
        if (transfer_.moved == ended_) return;
        ptx::cp_async_bulk_wait_group<LATER>();
        ptx::st_release_cta_shared_u64(&transfer_.moved, ended_);
    }

    __device__ void await_piece() {
        while (!ptx::mbarrier_try_wait_parity(&buffer_.full[storing_.at], storing_.parity)) {
        }
    }

    // Nothing is on its way any more.
    __device__ void drain() {
        for (; ahead_ != 0; --ahead_) {
            await_piece();
            storing_.next();
        }
        ptx::cp_async_bulk_wait_group<0>();
        if (OUT) publish_moved<0>();
    }

    const BulkTransfer& transfer_;
    BulkBuffer& buffer_;
    Place loading_, storing_;
    u32 ahead_ = 0;          // pieces loaded and not stored
    u64 from_ = 0, to_ = 0;  // where the next piece lies, and goes
    u64 ended_;              // the last message of which all has been stored
    u32 behind_ = 0;         // pieces stored since
};

// What the notifier does while messages `published + 1` to `last` are moved: returns when it has
// published all of them; of those that come in, all but the last, which the caller releases.
template <bool OUT>
__device__ inline void run_notifier(const BulkTransfer& transfer, u64 published, u64 last) {
    Link& link = transfer.link;
    // Out: what the peer has released before there is an entry for the last one. In: all that it
    // commits.
    u64 needed = OUT ? last - min(last, u64(transfer.shape.depth)) : last;
    u64 until = OUT ? last : last - 1, seen = link.seen;
    Wait wait;
#pragma unroll 1
    while (published < until || seen < needed) {
        u64 moved = ptx::ld_acquire_cta_shared_u64(&transfer.moved), latest = seen;
        if (seen < needed) {
            u64 entry = seen_at(link.entry);
            latest = OUT ? ptx::ld_relaxed_sys_u64(entry) : ptx::ld_acquire_sys_u64(entry);
        }
        if (latest > seen) {
            if (!OUT) ptx::fence_proxy_async();
            ptx::st_release_cta_shared_u64(&link.seen, latest);
        }
        if (moved > published && published < until) {
            published = min(moved, until);
            if (OUT) {
                ptx::st_release_sys_u64(link.far, published);
            } else {
                release(link, published);
            }
        } else if (latest == seen) {
            u32 kind = OUT ? MSCCL_WAITING_ROOM : MSCCL_WAITING_MESSAGE;
            if (!wait.again(transfer.watch, {kind, transfer.peer, seen})) return;
#ifdef MSCCL_RECORDS
            wait.note_nothing();  // The copier notes what it waits for.
#endif
            continue;
        }
        seen = latest;
        wait.over(transfer.watch);
        wait = {};
    }
    wait.over(transfer.watch);
}

}  // namespace msccl
