/* Four ranks, each a process, sum an array with ncclAllReduce.
 *
 * The buffers are host memory, so run it with MSCCL_DEVICE=host; on GPUs, allocate them with
 * cudaMalloc, call cudaSetDevice first, and wait with cudaStreamSynchronize. docs/C.md has the
 * commands. With an argument, the rank of that number leaves out the second call. */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, COUNT = 1024 };

static void check(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", call, ncclGetErrorString(result), ncclGetLastError(NULL));
  exit(1);
}
#define CHECK(call) check(call, #call)

static void run(int rank, ncclUniqueId id, int absent) {
  static float data[COUNT];
  ncclComm_t comm;
  CHECK(ncclCommInitRank(&comm, RANKS, id, rank));
  for (int call = 0; call < 2; call++) {
    if (call == 1 && rank == absent) {
      sleep(5); /* Computes for too long, or waits for something else. */
      exit(1);
    }
    for (int i = 0; i < COUNT; i++) data[i] = (float)(rank + i);
    CHECK(ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, comm, NULL));
    for (int i = 0; i < COUNT; i++) {
      if (data[i] != (float)(0 + 1 + 2 + 3 + RANKS * i)) exit(2);
    }
  }
  CHECK(ncclCommDestroy(comm));
}

int main(int argc, char** argv) {
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id)); /* With MPI: on rank 0, then broadcast. */
  int bad = 0;
  for (int rank = 1; rank < RANKS; rank++) {
    if (fork() == 0) {
      run(rank, id, argc > 1 ? atoi(argv[1]) : -1);
      return 0;
    }
  }
  run(0, id, argc > 1 ? atoi(argv[1]) : -1);
  for (int status; wait(&status) > 0;) bad |= status;
  puts(bad ? "failed" : "all ranks have the sum");
  return bad != 0;
}
