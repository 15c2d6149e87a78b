// The steps of a thread block under protocol Simple with warp specialisation: for calls of many
// messages, whose links do not deliver directly.
//
// What a thread block has to do besides moving data takes as long as moving a message: waiting for
// the next message and for a free entry, finding operands, and a fence after the last store before
// the message is committed. So warps have three roles, and work side by side:
//
// * the *producer*, one warp, walks through the plan, waits for messages, free entries and steps of
//   other thread blocks, and describes one chunk after another as a task;
// * the *movers*, all other warps but one, move the chunks;
// * the *releaser*, the last warp, commits the messages that have been moved, releases those that
//   have been read, and signals.
//
// Two tasks are described at the same time, in two sets of operands: while the movers have one, the
// producer or the releaser has the other. Every task goes through the three roles in order, and
// each set has three barriers:
//
//     FULL   the task is described: the producer arrives, movers wait, for one another too
//     DONE   it has been moved: movers arrive, the releaser waits
//     FREE   it has been released: the releaser arrives, the producer waits before it describes the
//            next task but one
//
// So no warp arrives twice where the others have not been. Only the producer waits for other thread
// blocks, and nothing that they may wait for stays behind: movers and the releaser wait for nobody
// else.
//
// Order: what the producer acquired comes before FULL, hence before all that movers load and store;
// that comes before DONE, hence before what is released then. Movers meet at FULL, so that a chunk
// may be read by other threads than stored it a task before.
#pragma once

#include "step.cuh"

namespace msccl {

// The first threads of the thread block.
struct Movers {
    __device__ static u32 index() { return threadIdx.x; }
    __device__ static u32 count() { return blockDim.x - MSCCL_NON_MOVER_THREADS; }
};

static_assert(MSCCL_NON_MOVER_THREADS == 64, "one warp produces, one releases");

// The barriers of set `turn`: two of each kind, number 0 being that of the whole thread block.
struct TaskBarriers {
    u32 turn;

    __device__ explicit TaskBarriers(u32 turn) : turn(turn) {}

    __device__ void describe() const { ptx::barrier_arrive(FULL + turn, with_movers()); }
    __device__ void await_description() const { ptx::barrier_sync(FULL + turn, with_movers()); }
    __device__ void finish() const { ptx::barrier_arrive(DONE + turn, with_movers()); }
    __device__ void await_finish() const { ptx::barrier_sync(DONE + turn, with_movers()); }
    __device__ void release() const { ptx::barrier_arrive(FREE + turn, 64); }
    __device__ void await_release() const { ptx::barrier_sync(FREE + turn, 64); }

private:
    static constexpr u32 FULL = 1, DONE = 3, FREE = 5;

    __device__ static u32 with_movers() { return Movers::count() + 32; }
};

// ---- Producing ----------------------------------------------------------------------------------

// The producer warp.
template <class Protocol>
class Producer {
public:
    __device__ explicit Producer(Context& context) : context_(context) {}

    // Describes a step on one slice. False when the kernel is to end.
    __device__ bool produce(const Slice& slice, const Step& step) {
#ifdef MSCCL_RECORDS
        step_ = step.first();
#endif
        wait_for_steps<Warp>(context_, slice, step);
        u64 signal = step.signals() ? signal_value(context_, slice, step.index) : 0;
        if (step.count == 0) {
            if (step.waits() > 0 && is_aborted()) return false;
            if (signal != 0) describe({0, 0, 0, 0, 0, Task::ENDS_MESSAGE, signal});
            return true;
        }
        u32 most = context_.launch.chunks_per_message;
        u32 stores = stores_of<Protocol>(context_, step, 0).count;
#pragma unroll 1
        for (u32 chunk = 0, position = 0; chunk < step.count; ++chunk) {
            bool last = chunk + 1 == step.count, ends = last || position + 1 == most;
            if (!produce_chunk(slice, step, {chunk, position, stores, ends, last ? signal : 0}))
                return false;
            position = ends ? 0 : position + 1;
        }
        return true;
    }

    // Says that there are no more tasks, and returns when all have been released.
    __device__ void end() {
        describe({0, 0, 0, 0, 0, Task::NONE, 0});
        if (produced_ > 1) TaskBarriers(context_.turn()).await_release();
    }

private:
    // A chunk of a step: number `position` of its message.
    struct Chunk {
        u32 number;
        u32 position;
        u32 stores;  // destinations that are stored to
        bool ends;   // its message
        u64 signal;
    };

    __device__ bool produce_chunk(const Slice& slice, const Step& step, const Chunk& chunk) {
        open();
        bool own = resolve<Protocol, Warp>(context_, slice, step, chunk.number, chunk.position);
        bool regular = Warp::all(own);
        if (is_aborted()) return false;
        bool last = ends_launch(context_, slice, step, chunk.number + 1);
        // The next kernel may take up room: this one waits for none to begin.
        if (!Protocol::LENDS && last && Warp::index() == 0) {
            ptx::griddepcontrol_launch_dependents();
        }
        u32 traits = (regular ? Task::REGULAR : 0) | (chunk.ends ? Task::ENDS_MESSAGE : 0) |
                     (step.bundle() ? Task::BUNDLE : 0);
#ifdef MSCCL_RECORDS
        if (last) traits |= Task::ENDS_LAUNCH;
#endif
        u32 divisor = step.completes() ? context_.launch.divisor : 0;
        describe({step.sources(), step.destinations(), chunk.stores, slice.length, divisor, traits,
                  chunk.signal});
        return true;
    }

    // Until the set that comes next is free.
    __device__ void open() {
        if (open_) return;
        if (produced_ >= 2) TaskBarriers(context_.turn()).await_release();
        open_ = true;
    }

    __device__ void describe(const Task& task) {
        open();
        if (Warp::index() == 0) context_.shared.tasks[context_.turn()] = task;
#ifdef MSCCL_RECORDS
        if (Warp::index() == 0) {
            // The wait before it: movers wait for its description as long.
            Task& described = context_.shared.tasks[context_.turn()];
            described.wait = context_.shared.watch.noted.take();
            described.step = step_;
        }
#endif
        TaskBarriers(context_.turn()).describe();
        context_.take(0);
        produced_ += 1;
        open_ = false;
    }

    // Whether some thread of the warp gave up waiting.
    __device__ bool is_aborted() const {
        __syncwarp();
        return static_cast<const volatile Watch&>(context_.shared.watch).aborted;
    }

    Context& context_;
    u32 produced_ = 0;
#ifdef MSCCL_RECORDS
    u32 step_ = 0;  // of the task at hand
#endif
    bool open_ = false;  // the set that comes next is free
};

// ---- Moving -------------------------------------------------------------------------------------

// What movers do.
template <class Protocol, class Number>
__device__ inline void run_movers(const Context& context) {
#pragma unroll 1
    for (u32 turn = 0;; turn ^= 1) {
        TaskBarriers barriers(turn);
        barriers.await_description();
        const Task& task = context.shared.tasks[turn];
        bool none = task.traits & Task::NONE;
        if (task.stores != 0) {
            bool regular = task.traits & Task::REGULAR;
            Move move{context.shared.set(turn),
                      task.sources,
                      task.stores,
                      task.length,
                      regular,
                      arithmetic_of(context.launch, task.divisor),
                      (task.traits & Task::BUNDLE) != 0};
            Plain<Movers, Protocol::UNALIGNED>::template move<Number>(move);
        }
        barriers.finish();
        if (none) return;
    }
}

// ---- Releasing ----------------------------------------------------------------------------------

// A message has been moved, and this was its last chunk: commits it on the links that it goes to,
// and releases the entries that it came from.
template <class Protocol>
__device__ inline void end_message(const Context& context, const Operand* set, const Task& task) {
    u32 bytes = u32(Protocol::wire_bytes(task.length));
#pragma unroll 1
    for (u32 at = Warp::index(); at < task.sources + task.destinations; at += Warp::count()) {
        const Operand& end = set[at];
        if (!end.is_link()) continue;
        const Link& link = context.shared.links[end.link];
        if (at < task.sources) {
            release(link, end.message);
        } else {
            commit(link, context.wires(), end.message, end.address + bytes);
        }
    }
}

#ifdef MSCCL_RECORDS
// What the releaser records, in all its threads. Peers wait for what it releases, so that it must
// not take long: it loads nothing from memory, and threads write several words at once. No other
// warp comes by its code.
class ReleaserRecorder {
public:
    // Behind the barrier behind which roles begin. There is nothing to release yet: writes what a
    // launch begins with. The table of links has the counts of the launch before until all roles
    // have ended.
    __device__ __forceinline__ explicit ReleaserRecorder(const Context& context)
        : entry_(recorder().entry), ring_(recorder().ring()) {
        recorder().put_words(ring_, Warp::index(), Warp::count());
        u32 links = context.shared.role.links;
#pragma unroll 1
        for (u32 at = Recorder::COUNTS + Warp::index(); at < links; at += Warp::count()) {
            u64 count = ptx::ld_relaxed_sys_u64(count_at(context.shared.links[at].entry));
            ring_.put_count(at, u32(count));
        }
        ring_.begun(links);
    }

    // Something of `step` has ended, as in `Recorder::add`. The first thread writes the wait, if
    // there was one, and the second one what has ended.
    __device__ __forceinline__ void add(u32 kind, u32 step, u64 wait) {
        u32 now_ns = u32(ptx::globaltimer_ns()), words = wait != 0 ? 2 : 1;
        bool is_first = Warp::index() == 0;
        u32 value = is_first ? u32(wait) : now_ns;
        u32 what = (is_first ? u32(wait >> 32) : what_of(kind, 0)) | step;
        u32 at = Warp::index() + words - 2;
        if (at < words) ring_.put(ring_.written + at, value, what);
        ring_.written += words;
        if (is_first && ring_.must_show(kind)) ring_.show(entry_);
    }

private:
    u64 entry_;  // of the table
    Ring ring_;
};
#endif

// What the releaser does.
template <class Protocol>
__device__ inline void run_releaser(const Context& context) {
    const Role& role = context.shared.role;
#ifdef MSCCL_RECORDS
    ReleaserRecorder recorder(context);
    bool ended = false;  // recorded, with the last move
#endif
#pragma unroll 1
    for (u32 turn = 0;; turn ^= 1) {
        TaskBarriers barriers(turn);
        barriers.await_finish();
        const Task& task = context.shared.tasks[turn];
#ifdef MSCCL_RECORDS
        // Once it is released, the task is described anew.
        u32 traits = task.traits, step = task.step;
        u64 wait = task.wait;
        if (traits & Task::NONE && !ended && !context.shared.watch.aborted) {
            recorder.add(RECORD_END, 0, wait);
        }
#endif
        if (task.traits & Task::NONE) return;
        if (task.traits & Task::ENDS_MESSAGE)
            end_message<Protocol>(context, context.shared.set(turn), task);
        if (task.signal != 0 && Warp::index() == 0) {
            ptx::st_release_gpu_u64(role.signals + 8ull * role.tb, task.signal);
        }
        barriers.release();
#ifdef MSCCL_RECORDS
        // The wait before a later chunk of a message counts to its move.
        ended = traits & Task::ENDS_LAUNCH;
        if (traits & Task::ENDS_MESSAGE) {
            recorder.add(ended ? RECORD_LAST_MOVE : RECORD_MOVE, step, wait);
        }
#endif
    }
}

}  // namespace msccl
