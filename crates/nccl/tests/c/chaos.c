/* Ranks call this and that without end, and another thread aborts all of their communicators at some moment: while they
 * are made, in a call, while others are made of them. Everyone must come back. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"

#define RANKS 3
#define COUNT 20000

struct rank {
  int rank;
  unsigned seed;
  int blocking;
  ncclUniqueId id;
  _Atomic(ncclComm_t) comm;
  int from[COUNT], to[COUNT];
};

/* What the call has come to, if need be in the background. */
static ncclResult_t outcome(ncclComm_t comm, ncclResult_t result) {
  while (result == ncclInProgress) {
    usleep(50);
    ncclResult_t asked = ncclCommGetAsyncError(comm, &result);
    if (asked != ncclSuccess) return asked;
  }
  return result;
}

static ncclResult_t reduce(struct rank* self, ncclComm_t comm, size_t count) {
  return outcome(comm, ncclAllReduce(self->from, self->to, count, ncclInt, ncclSum, comm, NULL));
}

static ncclResult_t pass_on(struct rank* self, ncclComm_t comm) {
  int left = (self->rank + RANKS - 1) % RANKS, right = (self->rank + 1) % RANKS;
  OK(ncclGroupStart());
  ncclSend(self->from, 100, ncclInt, right, comm, NULL);
  ncclRecv(self->to, 100, ncclInt, left, comm, NULL);
  return outcome(comm, ncclGroupEnd());
}

/* The child is not aborted by the thread beside; a peer that did not get it has left it. */
static ncclResult_t split(struct rank* self, ncclComm_t comm, int destroys) {
  _Atomic(ncclComm_t) child = NULL;
  ncclResult_t result = outcome(comm, ncclCommSplit(comm, 0, 0, (ncclComm_t*)&child, NULL));
  if (child == NULL) return result;
  result = reduce(self, child, 10);
  ncclResult_t ended = destroys ? ncclCommDestroy(child) : ncclCommAbort(child);
  CHECK(ended == ncclSuccess);
  return result;
}

static void* be_rank(void* argument) {
  struct rank* self = argument;
  unsigned seed = self->seed;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = self->blocking;
  ncclComm_t* place = (ncclComm_t*)&self->comm;
  ncclResult_t result = ncclCommInitRankConfig(place, RANKS, self->id, self->rank, &config);
  ncclComm_t comm = atomic_load(&self->comm);
  result = outcome(comm, result);
  while (result == ncclSuccess) {
    switch (rand_r(&seed) % 5) {
      case 0: result = reduce(self, comm, 1); break;
      case 1: result = reduce(self, comm, COUNT); break;
      case 2: result = pass_on(self, comm); break;
      case 3: result = split(self, comm, 1); break;
      default: result = split(self, comm, 0); break;
    }
  }
  return NULL;
}

/* A communicator whose making has failed may be gone already. */
static void abort_it(struct rank* rank) {
  ncclResult_t result = ncclCommAbort(atomic_load(&rank->comm));
  CHECK(result == ncclSuccess || result == ncclInvalidArgument);
}

static void play(unsigned seed) {
  static struct rank ranks[RANKS];
  pthread_t threads[RANKS];
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  for (int r = 0; r < RANKS; r++) {
    ranks[r].rank = r;
    ranks[r].seed = seed;
    ranks[r].blocking = seed % 2;
    ranks[r].id = id;
    atomic_store(&ranks[r].comm, NULL);
    CHECK(pthread_create(&threads[r], NULL, be_rank, &ranks[r]) == 0);
  }
  usleep(rand_r(&seed) % 20000);
  for (int r = 0; r < RANKS; r++) {
    while (atomic_load(&ranks[r].comm) == NULL) usleep(10);
  }
  int in_a_group = rand_r(&seed) % 2;
  if (in_a_group) OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) abort_it(&ranks[r]);
  if (in_a_group) {
    ncclResult_t result = ncclGroupEnd();
    CHECK(result == ncclSuccess || result == ncclInvalidArgument);
  }
  for (int r = 0; r < RANKS; r++) CHECK(pthread_join(threads[r], NULL) == 0);
}

int main(int count, char** arguments) {
  int plays = count > 1 ? atoi(arguments[1]) : 100;
  for (int seed = 0; seed < plays; seed++) play((unsigned)seed);
  puts("chaos: ok");
  return 0;
}
