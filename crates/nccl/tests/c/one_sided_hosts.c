/* One-sided transfers between nodes: what a peer does meanwhile, and what becomes of it. */
#include <pthread.h>

#include "processes_of_ranks.h"

enum { LARGE = 8 << 20 }; /* ints, far more than a link holds */

static void sum(ncclComm_t comm, int ranks) {
  int one = 1;
  OK(ncclAllReduce(&one, &one, 1, ncclInt, ncclSum, comm, NULL));
  CHECK(one == ranks);
}

static void await(ncclComm_t comm, int peer, int count) {
  ncclWaitSignalDesc_t wait = {count, peer, 0, 0};
  OK(ncclWaitSignal(1, &wait, comm, NULL));
}

/* Far more signals than a link holds, to a peer that takes none of them before a collective. */
static void signals_wait_for_nobody(ncclComm_t comm, int rank, int ranks) {
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  for (int i = 0; i < 1000; i++) OK(ncclSignal(next, 0, 0, 0, comm, NULL));
  sum(comm, ranks);
  await(comm, last, 1000);
}

/* All put much at once, and meet in a collective before anybody waits. Where every rank is on a
   host of its own, memory need not be from ncclMemAlloc. */
static void puts_need_no_receiver(ncclComm_t comm, int rank, int ranks) {
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  int *given = NULL, *from = malloc(LARGE * sizeof(int));
  void* plain = NULL;
  CHECK(from != NULL && posix_memalign(&plain, 4096, LARGE * sizeof(int)) == 0);
  OK(ncclMemAlloc((void**)&given, LARGE * sizeof(int)));
  int* to = atoi(getenv("PER_HOST")) == 1 ? plain : given;
  ncclWindow_t window = NULL;
  OK(ncclCommWindowRegister(comm, to, LARGE * sizeof(int), &window, NCCL_WIN_COLL_SYMMETRIC));
  for (int i = 0; i < LARGE; i++) from[i] = i * 7 + rank;
  OK(ncclPutSignal(from, LARGE, ncclInt, next, window, 0, 0, 0, 0, comm, NULL));
  /* The source is the program's again. */
  memset(from, 0, LARGE * sizeof(int));
  sum(comm, ranks);
  await(comm, last, 1);
  for (int i = 0; i < LARGE; i++) CHECK(to[i] == i * 7 + last);
  sum(comm, ranks);
  /* Two bytes more, at its end, when everybody has looked. */
  OK(ncclPutSignal(from, 2, ncclInt8, next, window, LARGE * sizeof(int) - 2, 0, 0, 0, comm, NULL));
  await(comm, last, 1);
  CHECK(((char*)(to + LARGE))[-1] == 0 && ((char*)(to + LARGE))[-2] == 0);
  OK(ncclCommWindowDeregister(comm, window));
  OK(ncclMemFree(given));
  free(plain);
  free(from);
}

/* A rank puts and leaves; the other one looks later, and finds it all. */
static void puts_outlive_their_sender(ncclComm_t comm, int rank) {
  enum { COUNT = 100000 };
  int* memory = NULL;
  ncclWindow_t window = NULL;
  OK(ncclMemAlloc((void**)&memory, COUNT * sizeof(int)));
  OK(ncclCommWindowRegister(comm, memory, COUNT * sizeof(int), &window, NCCL_WIN_COLL_SYMMETRIC));
  if (rank == 0) {
    for (int i = 0; i < COUNT; i++) memory[i] = i;
    OK(ncclPutSignal(memory, COUNT, ncclInt, 1, window, 0, 0, 0, 0, comm, NULL));
    for (int i = 0; i < 100; i++) OK(ncclSignal(1, 0, 0, 0, comm, NULL));
  } else if (rank == 1) {
    usleep(500 * 1000);
    await(comm, 0, 101);
    for (int i = 0; i < COUNT; i++) CHECK(memory[i] == i);
    /* No more comes of a rank that has left. */
    ncclWaitSignalDesc_t wait = {1, 0, 0, 0};
    REFUSED(ncclRemoteError, ncclWaitSignal(1, &wait, comm, NULL));
    SAYS("r0");
  }
  OK(ncclCommAbort(comm));
  OK(ncclMemFree(memory));
}

static void* revoke_later(void* comm) {
  usleep(300 * 1000);
  OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
  return NULL;
}

/* A wait for a signal that does not come ends when its rank revokes the communicator. */
static void waits_end_when_revoked(ncclComm_t comm, int rank, int ranks) {
  pthread_t thread;
  ncclWaitSignalDesc_t wait = {1, (rank + 1) % ranks, 0, 0};
  CHECK(pthread_create(&thread, NULL, revoke_later, comm) == 0);
  CHECK(ncclWaitSignal(1, &wait, comm, NULL) != ncclSuccess);
  CHECK(pthread_join(thread, NULL) == 0);
  REFUSED(ncclInvalidUsage, ncclSignal(wait.peer, 0, 0, 0, comm, NULL));
  OK(ncclCommAbort(comm));
}

/* A wait for a rank that dies ends, and so does a put to it. */
static void waits_end_with_their_peer(ncclComm_t comm, int rank) {
  int *memory = NULL, *source = malloc(LARGE * sizeof(int));
  ncclWindow_t window = NULL;
  CHECK(source != NULL);
  OK(ncclMemAlloc((void**)&memory, LARGE * sizeof(int)));
  OK(ncclCommWindowRegister(comm, memory, LARGE * sizeof(int), &window, NCCL_WIN_COLL_SYMMETRIC));
  if (rank == 1) {
    usleep(300 * 1000);
    _exit(7);
  }
  memset(source, 1, LARGE * sizeof(int));
  if (rank == 0) {
    ncclWaitSignalDesc_t wait = {1, 1, 0, 0};
    CHECK(ncclWaitSignal(1, &wait, comm, NULL) != ncclSuccess);
  } else {
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess) {
      result = ncclPutSignal(source, LARGE, ncclInt, 1, window, 0, 0, 0, 0, comm, NULL);
    }
  }
  SAYS("r1");
  OK(ncclCommAbort(comm));
  exit(0);
}

static const char* what = "";

static int process(int rank, int ranks, ncclUniqueId id) {
  ncclComm_t comm = NULL;
  OK(ncclCommInitRank(&comm, ranks, id, rank));
  if (strcmp(what, "meanwhile") == 0) {
    signals_wait_for_nobody(comm, rank, ranks);
    puts_need_no_receiver(comm, rank, ranks);
    OK(ncclCommDestroy(comm));
  } else if (strcmp(what, "leave") == 0) {
    puts_outlive_their_sender(comm, rank);
  } else if (strcmp(what, "revoked") == 0) {
    waits_end_when_revoked(comm, rank, ranks);
  } else {
    waits_end_with_their_peer(comm, rank);
  }
  return 0;
}

int main(int count, char** arguments) {
  CHECK(count > 1);
  what = arguments[1];
  on_processes(3, process, strcmp(what, "killed") == 0 ? SOME_FAIL : ALL_SUCCEED);
  puts("one_sided_hosts: ok");
  return 0;
}
