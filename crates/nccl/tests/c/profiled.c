/* Two ranks as threads make calls of every sort, for a profiler plugin to follow. */
#include <pthread.h>

#include "check.h"

enum { RANKS = 2, COUNT = 1000 };

static ncclUniqueId id;

static void* rank_of(void* argument) {
  int rank = (int)(long)argument, other = 1 - rank;
  ncclComm_t comm, part;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "tensor parallel";
  float in[2 * COUNT], out[2 * COUNT];
  for (int i = 0; i < 2 * COUNT; i++) in[i] = (float)i;
  OK(ncclCommInitRankConfig(&comm, RANKS, id, rank, &config));
  /* A call alone, twice. */
  for (int i = 0; i < 2; i++) OK(ncclAllReduce(in, out, COUNT, ncclFloat32, ncclSum, comm, NULL));
  CHECK(out[7] == 14);
  /* A group in a group, with two collectives. */
  OK(ncclGroupStart());
  OK(ncclGroupStart());
  OK(ncclBroadcast(in, out, COUNT, ncclFloat32, 1, comm, NULL));
  OK(ncclAllGather(in, out, COUNT, ncclFloat32, comm, NULL));
  OK(ncclGroupEnd());
  OK(ncclGroupEnd());
  /* Sends and receives. */
  OK(ncclGroupStart());
  OK(ncclSend(in, COUNT, ncclFloat32, other, comm, NULL));
  OK(ncclRecv(out, COUNT, ncclFloat32, other, comm, NULL));
  OK(ncclGroupEnd());
  CHECK(out[7] == 7);
  /* A call that moves nothing. */
  OK(ncclAllReduce(NULL, NULL, 0, ncclFloat32, ncclSum, comm, NULL));
  /* A group of which a call fails. */
  OK(ncclGroupStart());
  OK(ncclAllReduce(in, out, COUNT, ncclFloat32, ncclSum, comm, NULL));
  REFUSED(ncclInvalidArgument, ncclBroadcast(in, out, COUNT, ncclFloat32, 7, comm, NULL));
  REFUSED(ncclInvalidArgument, ncclGroupEnd());
  OK(ncclCommSplit(comm, 0, rank, &part, NULL));
  OK(ncclAllReduce(in, out, COUNT, ncclFloat32, ncclMax, part, NULL));
  /* A group that ends the communicator that its first call was on. */
  OK(ncclGroupStart());
  OK(ncclAllReduce(in, out, COUNT, ncclFloat32, ncclMax, part, NULL));
  OK(ncclCommDestroy(part));
  OK(ncclGroupEnd());
  OK(ncclCommDestroy(comm));
  return NULL;
}

int main(void) {
  pthread_t threads[RANKS];
  ranks_are_threads = 1;
  OK(ncclGetUniqueId(&id));
  for (long r = 0; r < RANKS; r++) CHECK(pthread_create(&threads[r], NULL, rank_of, (void*)r) == 0);
  for (int r = 0; r < RANKS; r++) CHECK(pthread_join(threads[r], NULL) == 0);
  return 0;
}
