/* Two ranks as threads whose calls are counted; as many of each as the test expects. A failure of a
   third rank's communicator is counted, too. */
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { RANKS = 2, COUNT = 1 << 16 };

static ncclUniqueId id;
static pthread_barrier_t barrier;

static void* rank_of(void* argument) {
  int rank = (int)(long)argument, other = 1 - rank;
  ncclComm_t comm;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "data \"parallel\"";
  float* in = calloc(2 * COUNT, sizeof *in);
  float* out = calloc(2 * COUNT, sizeof *out);
  OK(ncclCommInitRankConfig(&comm, RANKS, id, rank, &config));
  for (int i = 0; i < 7; i++) OK(ncclAllReduce(in, out, COUNT, ncclFloat32, ncclSum, comm, NULL));
  for (int i = 0; i < 3; i++) OK(ncclAllGather(in, out, COUNT, ncclFloat32, comm, NULL));
  OK(ncclGroupStart());
  OK(ncclSend(in, COUNT, ncclFloat32, other, comm, NULL));
  OK(ncclRecv(out, COUNT, ncclFloat32, other, comm, NULL));
  OK(ncclGroupEnd());
  pthread_barrier_wait(&barrier);
  /* Long enough for the file to be written by itself. */
  if (getenv("WAIT_S") != NULL) sleep((unsigned)atoi(getenv("WAIT_S")));
  if (getenv("EXIT") != NULL) _exit(0);
  pthread_barrier_wait(&barrier);
  /* One aborts while the other waits for it. */
  if (rank == 0) {
    usleep(500000);
    OK(ncclCommAbort(comm));
  } else {
    CHECK(ncclAllReduce(in, out, COUNT, ncclFloat32, ncclSum, comm, NULL) != ncclSuccess);
    OK(ncclCommAbort(comm));
  }
  free(in);
  free(out);
  return NULL;
}

int main(void) {
  pthread_t threads[RANKS];
  ranks_are_threads = 1;
  CHECK(pthread_barrier_init(&barrier, NULL, RANKS) == 0);
  OK(ncclGetUniqueId(&id));
  for (long r = 0; r < RANKS; r++) CHECK(pthread_create(&threads[r], NULL, rank_of, (void*)r) == 0);
  for (int r = 0; r < RANKS; r++) CHECK(pthread_join(threads[r], NULL) == 0);
  return 0;
}
