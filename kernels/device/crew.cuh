// The steps of a thread block under protocol Simple, by a crew: for calls of many messages, whose links do not
// deliver directly.
//
// What a thread block has to do besides moving data takes as long as moving a message: waiting for the next one and
// for room, finding operands, and a fence after the last store before the message may be announced. So three
// kinds of threads do it side by side:
//
// * one warp *takes*: it walks through the plan, waits for messages, room and steps of other thread blocks, and
//   describes one chunk after another as a task;
// * the *movers*, all other warps but one, move the chunks;
// * the last warp *hands on*: it announces the messages that have been moved, gives slots back, and signals.
//
// Two tasks are described at once, in two sets of operands: while one is moved, the next is taken or the last is
// handed on. Every task goes through the same three hands, in order, and each set has three barriers:
//
//     FULL   the task is described: the taker arrives, movers wait, for one another too
//     DONE   it has been moved: movers arrive, the hander-on waits
//     FREE   it has been handed on: the hander-on arrives, the taker waits before it describes the next but one
//
// So nobody arrives twice where the others have not been; only the taker waits for other thread blocks, and
// nothing that they may wait for stays behind: movers and the hander-on wait for nobody else.
//
// Order: what the taker acquired comes before FULL, hence before all that movers load and store; that comes before
// DONE, hence before what is released then. Movers meet at FULL, so that a chunk may be read by other
// threads than stored it a task before.
#pragma once

#include "step.cuh"

namespace msccl {

// The first threads of the thread block.
struct Movers {
    __device__ static u32 index() { return threadIdx.x; }
    __device__ static u32 count() { return blockDim.x - MSCCL_CREW_THREADS; }
};

static_assert(MSCCL_CREW_THREADS == 64, "one warp takes, one hands on");

// The barriers of set `turn`: two of each kind, number 0 being that of the whole thread block.
struct Gates {
    u32 turn;

    __device__ explicit Gates(u32 turn) : turn(turn) {}

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

// ---- Taking --------------------------------------------------------------------------------------

// The warp that takes.
template <class Protocol>
class Taker {
public:
    __device__ explicit Taker(Context& context) : context_(context) {}

    // Takes a step on one slice. False when the kernel is to end.
    __device__ bool take(const Slice& slice, const Step& step) {
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
            if (!take_chunk(slice, step, {chunk, position, stores, ends, last ? signal : 0})) return false;
            position = ends ? 0 : position + 1;
        }
        return true;
    }

    // Says that there is nothing more, and returns when all has been handed on.
    __device__ void end() {
        describe({0, 0, 0, 0, 0, Task::NONE, 0});
        if (taken_ > 1) Gates(context_.turn()).await_release();
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

    __device__ bool take_chunk(const Slice& slice, const Step& step, const Chunk& chunk) {
        open();
        bool own = resolve<Protocol, Warp>(context_, slice, step, chunk.number, chunk.position);
        bool regular = Warp::all(own);
        if (is_aborted()) return false;
        // The next kernel may take up room: this one waits for none to begin.
        if (!Protocol::DIRECT && chunk.number + 1 == step.count && ends_launch(context_, slice, step) &&
            Warp::index() == 0) {
            ptx::griddepcontrol_launch_dependents();
        }
        u32 traits = (regular ? Task::REGULAR : 0) | (chunk.ends ? Task::ENDS_MESSAGE : 0) |
                     (step.bundle() ? Task::BUNDLE : 0);
        u32 divisor = step.completes() ? context_.launch.divisor : 0;
        describe({step.sources(), step.destinations(), chunk.stores, slice.length, divisor, traits,
                  chunk.signal});
        return true;
    }

    // Until the set that comes next is free.
    __device__ void open() {
        if (open_) return;
        if (taken_ >= 2) Gates(context_.turn()).await_release();
        open_ = true;
    }

    __device__ void describe(const Task& task) {
        open();
        if (Warp::index() == 0) context_.shared.tasks[context_.turn()] = task;
        Gates(context_.turn()).describe();
        context_.take(0);
        taken_ += 1;
        open_ = false;
    }

    // Whether some thread of the warp gave up waiting.
    __device__ bool is_aborted() const {
        __syncwarp();
        return static_cast<const volatile Watch&>(context_.shared.watch).aborted;
    }

    Context& context_;
    u32 taken_ = 0;
    bool open_ = false;  // the set that comes next is free
};

// ---- Moving --------------------------------------------------------------------------------------

// What movers do.
template <class Protocol, class Number>
__device__ inline void move_tasks(const Context& context) {
#pragma unroll 1
    for (u32 turn = 0;; turn ^= 1) {
        Gates gates(turn);
        gates.await_description();
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
            Plain<Movers, Protocol::ODD>::template move<Number>(move);
        }
        gates.finish();
        if (none) return;
    }
}

// ---- Handing on ----------------------------------------------------------------------------------

// A message has been moved, and this was its last chunk: announces it on its links, and gives back its slots.
template <class Protocol>
__device__ inline void end_message(const Context& context, const Operand* set, const Task& task) {
    u32 bytes = u32(Protocol::wire_bytes(task.length));
#pragma unroll 1
    for (u32 at = Warp::index(); at < task.sources + task.destinations; at += Warp::count()) {
        const Operand& end = set[at];
        if (!end.is_link()) continue;
        const Link& link = context.shared.links[end.link];
        if (at < task.sources) {
            end_receive(link, end.message);
        } else {
            end_send(link, context.wires(), end.message, end.address + bytes);
        }
    }
}

// What the last warp does.
template <class Protocol>
__device__ inline void hand_on(const Context& context) {
    const Role& role = context.shared.role;
#pragma unroll 1
    for (u32 turn = 0;; turn ^= 1) {
        Gates gates(turn);
        gates.await_finish();
        const Task& task = context.shared.tasks[turn];
        if (task.traits & Task::NONE) return;
        if (task.traits & Task::ENDS_MESSAGE) end_message<Protocol>(context, context.shared.set(turn), task);
        if (task.signal != 0 && Warp::index() == 0) {
            ptx::st_release_gpu_u64(role.signals + 8ull * role.tb, task.signal);
        }
        gates.release();
    }
}

}  // namespace msccl
