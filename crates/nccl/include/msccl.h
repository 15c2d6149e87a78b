/* What libnccl.so.2 of this project has beyond NCCL: the order of additions, recordings, and
 * trying out what could serve a call, with which `msccl tune` measures. Every function is there
 * under a second name with a `p` in front, as those of nccl.h are. */
#ifndef MSCCL_H_
#define MSCCL_H_

#include <nccl.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every way to serve calls of `count` elements a block, one a line as in the last five columns
 * of a tuning table (`LL staged 16 512 allreduce/one_shot`), first what does serve them.
 * `collective` is a name as in such tables; `op` counts only where contributions are combined,
 * `root` only where there is one. `text` has room for `capacity` bytes and ends with a zero
 * byte; with less room than is needed the answer is ncclInvalidArgument. All ranks get the
 * same. */
ncclResult_t mscclCommChoices(ncclComm_t comm, const char* collective, int inPlace,
                              ncclDataType_t datatype, ncclRedOp_t op, int root, size_t count,
                              char* text, size_t capacity);

/* How many thread blocks such a call has that is served by `choice`, one of these lines, on the
 * rank that has most: no more multiprocessors are busy with it. A choice that cannot serve such
 * calls is ncclInvalidUsage. */
ncclResult_t mscclCommChoiceBlocks(ncclComm_t comm, const char* collective, int inPlace,
                                   ncclDataType_t datatype, ncclRedOp_t op, int root, size_t count,
                                   const char* choice, int* blocks);

/* Serves every collective from now on by `choice`, such a line, exactly so: one that cannot be
 * is ncclInvalidUsage. With `direct` links a call waits for up to 100 ms until peers have
 * mapped buffers that are new to them; those that cannot be mapped go through slots. NULL ends
 * that. All ranks call it with the same between the same calls; graphs that were captured
 * earlier stay as they are. */
ncclResult_t mscclCommPin(ncclComm_t comm, const char* choice);

/* Adds every reduction of `comm`, and of communicators that are split or shrunk from it later,
 * in this order from now on: "flat", "tree" or "any", as the variable MSCCL_ORDER has them.
 * What cannot be added so is an error. All ranks call it with the same order between the same
 * calls and wait for one another; ranks that name different orders get ncclInvalidUsage, and
 * nothing changes. Graphs that were captured earlier stay as they are. */
ncclResult_t mscclCommRequireOrder(ncclComm_t comm, const char* order);

/* The next collective of `comm` sets one of these words for each block of its output: to 0 when
 * it begins, to 1 when the block is there for whatever the device reads later. Blocks are what
 * each rank contributes to an all-gather, or sends in an all-to-all; other outputs are one. Where
 * copy engines carry the call (NCCL_CTA_POLICY=2) and the words lie in a window as outputs do, on
 * all ranks, each is set as soon as its block is there; otherwise all are set in the end. NULL
 * takes the request back. The words are what `torch.ops.symm_mem._async_input_mm` waits for. */
ncclResult_t mscclCommSignalBlocks(ncclComm_t comm, uint32_t* signals);

/* The next collective of `comm` need not bring the block of its output that comes from this rank
 * itself: what lies there afterwards is undefined. Copy engines then save a copy within the GPU;
 * kernels bring the block as always. Each rank decides for itself. A request that no collective
 * has followed yet is not taken back. */
ncclResult_t mscclCommOmitOwnBlock(ncclComm_t comm);

/* Every rank of this process records its calls into this folder from the next one on, as the
 * variable MSCCL_TRACE does from the begin (docs/TRACING.md); the folder is made if it does not
 * exist. Ranks of other processes record if these call it, too, between the same calls. */
ncclResult_t mscclTraceStart(const char* folder);

/* No rank of this process records any longer, from its next call on. */
ncclResult_t mscclTraceStop(void);

/* What `comm` is doing, as a JSON object of strings with the names that ncclCommDump of NCCLX
 * and RCCL has (docs/TRACING.md). May be called while calls are under way, from any thread;
 * needs no other rank and does not wait. `text` is as that of mscclCommChoices; 64 KiB suffice
 * for some hundred ranks. */
ncclResult_t mscclCommDump(ncclComm_t comm, char* text, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
