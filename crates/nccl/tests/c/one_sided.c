/* One-sided transfers between ranks of one node, or of several. */
#include "processes_of_ranks.h"
#include "ranks.h"

enum { SLOT = 10000 };

struct shown {
  int* memory;
  ncclWindow_t window;
};

static struct shown show(ncclComm_t comm, int ranks) {
  struct shown shown = {NULL, NULL};
  size_t bytes = (size_t)ranks * SLOT * sizeof(int);
  OK(ncclMemAlloc((void**)&shown.memory, bytes));
  memset(shown.memory, 0xff, bytes);
  OK(ncclCommWindowRegister(comm, shown.memory, bytes, &shown.window, NCCL_WIN_COLL_SYMMETRIC));
  void* user = NULL;
  OK(ncclWinGetUserPtr(comm, shown.window, &user));
  CHECK(shown.window != NULL && user == shown.memory);
  int rank = -1;
  OK(ncclCommUserRank(comm, &rank));
  OK(ncclGetPeerDevicePointer(shown.window, 8, rank, &user));
  CHECK(user == (char*)shown.memory + 8);
  REFUSED(ncclInvalidArgument, ncclGetPeerDevicePointer(shown.window, bytes + 1, rank, &user));
  REFUSED(ncclInvalidArgument, ncclGetPeerDevicePointer(shown.window, 0, ranks, &user));
  REFUSED(ncclInvalidArgument, ncclGetLsaDevicePointer(shown.window, 0, 1, &user));
  return shown;
}

static void hide(ncclComm_t comm, struct shown shown) {
  void* user = NULL;
  OK(ncclCommWindowDeregister(comm, shown.window));
  REFUSED(ncclInvalidUsage, ncclWinGetUserPtr(comm, shown.window, &user));
  CHECK(user == NULL);
  OK(ncclMemFree(shown.memory));
}

static int value_of(int from, int to, int turn, int i) {
  return from * 1000000 + to * 100000 + turn * SLOT + i;
}

/* Everyone puts into the memory of everyone, itself too, and waits for all. */
static void all_to_all(ncclComm_t comm, int rank, int ranks) {
  struct shown shown = show(comm, ranks), source = show(comm, ranks);
  ncclWaitSignalDesc_t waits[16];
  for (int turn = 0; turn < 5; turn++) {
    int count = turn == 4 ? SLOT : 1 + turn * 777;
    for (int step = 0; step < ranks; step++) {
      int peer = (rank + step) % ranks;
      int* from = source.memory + (size_t)peer * SLOT;
      for (int i = 0; i < count; i++) from[i] = value_of(rank, peer, turn, i);
      OK(ncclPutSignal(from, (size_t)count, ncclInt, peer, shown.window,
                       (size_t)rank * SLOT * sizeof(int), 0, 0, 0, comm, NULL));
      waits[step] = (ncclWaitSignalDesc_t){1, peer, 0, 0};
    }
    OK(ncclWaitSignal(ranks, waits, comm, NULL));
    /* What a peer has got is where its address leads; on other nodes that is nowhere. */
    const char* per_host = getenv("PER_HOST");
    for (int peer = 0; peer < ranks; peer++) {
      int is_near = per_host == NULL || peer / atoi(per_host) == rank / atoi(per_host);
      void* place = NULL;
      OK(ncclGetPeerDevicePointer(shown.window, (size_t)rank * SLOT * sizeof(int), peer, &place));
      CHECK((place != NULL) == is_near);
      if (is_near) CHECK(*(int*)place == value_of(rank, peer, turn, 0));
    }
    for (int peer = 0; peer < ranks; peer++) {
      int* got = shown.memory + (size_t)peer * SLOT;
      for (int i = 0; i < count; i++) CHECK(got[i] == value_of(peer, rank, turn, i));
    }
    /* Nobody overwrites what somebody still looks at. */
    int one = 1;
    OK(ncclAllReduce(&one, &one, 1, ncclInt, ncclSum, comm, NULL));
    CHECK(one == ranks);
  }
  hide(comm, source);
  hide(comm, shown);
}

/* Signals are counted: many of one peer, in any portions, and without data. */
static void signals(ncclComm_t comm, int rank, int ranks) {
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  for (int i = 0; i < 12; i++) OK(ncclSignal(next, 0, 0, 0, comm, NULL));
  ncclWaitSignalDesc_t waits[2] = {{4, last, 0, 0}, {1, last, 0, 0}};
  OK(ncclWaitSignal(2, waits, comm, NULL));
  waits[0].opCnt = 7;
  OK(ncclWaitSignal(1, waits, comm, NULL));
  /* A put of nothing is a signal, too; it stays where a window ends. */
  struct shown shown = show(comm, ranks);
  size_t end = (size_t)ranks * SLOT * sizeof(int);
  OK(ncclPutSignal(shown.memory, 0, ncclInt, next, shown.window, end, 0, 0, 0, comm, NULL));
  waits[0].opCnt = 1;
  OK(ncclWaitSignal(1, waits, comm, NULL));
  hide(comm, shown);
}

/* One rank writes, the other answers, a thousand times: what was put before a signal is there. */
static void ping_pong(ncclComm_t comm, int rank, int ranks) {
  struct shown shown = show(comm, ranks), source = show(comm, ranks);
  if (rank < 2) {
    int peer = 1 - rank;
    ncclWaitSignalDesc_t wait = {1, peer, 0, 0};
    for (int turn = 0; turn < 1000; turn++) {
      if (turn % 2 != rank) {
        OK(ncclWaitSignal(1, &wait, comm, NULL));
        CHECK(shown.memory[0] == turn + 1 && shown.memory[99] == turn + 100);
        continue;
      }
      for (int i = 0; i < 100; i++) source.memory[i] = turn + 1 + i;
      OK(ncclPutSignal(source.memory, 100, ncclInt, peer, shown.window, 0, 0, 0, 0, comm, NULL));
    }
  }
  int one = 1;
  OK(ncclAllReduce(&one, &one, 1, ncclInt, ncclSum, comm, NULL));
  hide(comm, source);
  hide(comm, shown);
}

static void refused(ncclComm_t comm, int rank, int ranks) {
  struct shown shown = show(comm, ranks);
  int value = 1, next = (rank + 1) % ranks;
  size_t end = (size_t)ranks * SLOT * sizeof(int);
  ncclWindow_t local = NULL;
#define PUT(buffer, type, peer, window, offset, index, context, flags) \
  ncclPutSignal(buffer, 1, type, peer, window, offset, index, context, flags, comm, NULL)
  REFUSED(ncclInvalidArgument, PUT(NULL, ncclInt, next, shown.window, 0, 0, 0, 0));
  REFUSED(ncclInvalidArgument, PUT(&value, ncclInt, next, NULL, 0, 0, 0, 0));
  SAYS("peerWin argument is NULL");
  REFUSED(ncclInvalidArgument, PUT(&value, ncclInt, next, (ncclWindow_t)&value, 0, 0, 0, 0));
  REFUSED(ncclInvalidArgument, PUT(&value, ncclInt, ranks, shown.window, 0, 0, 0, 0));
  REFUSED(ncclInvalidArgument, PUT(&value, ncclInt, -1, shown.window, 0, 0, 0, 0));
  REFUSED(ncclInvalidArgument, PUT(&value, (ncclDataType_t)12, next, shown.window, 0, 0, 0, 0));
  REFUSED(ncclInvalidArgument, PUT(&value, ncclInt, next, shown.window, 0, 1, 0, 0));
  REFUSED(ncclInvalidArgument, PUT(&value, ncclInt, next, shown.window, 0, 0, 1, 0));
  SAYS("ctx is 1, expected 0");
  REFUSED(ncclInvalidArgument, PUT(&value, ncclInt, next, shown.window, 0, 0, 0, 1));
  REFUSED(ncclInvalidArgument, PUT(&value, ncclInt, next, shown.window, end - 3, 0, 0, 0));
  SAYS("exceed the window");
  REFUSED(ncclInvalidArgument, PUT(&value, ncclInt, next, shown.window, SIZE_MAX, 0, 0, 0));
  /* One that ranks did not register together. */
  OK(ncclCommWindowRegister(comm, shown.memory, 4096, &local, NCCL_WIN_DEFAULT));
  REFUSED(ncclInvalidArgument, PUT(&value, ncclInt, next, local, 0, 0, 0, 0));
  SAYS("NCCL_WIN_COLL_SYMMETRIC");
  OK(ncclCommWindowDeregister(comm, local));
  REFUSED(ncclInvalidArgument, ncclSignal(ranks, 0, 0, 0, comm, NULL));
  REFUSED(ncclInvalidArgument, ncclSignal(next, 0, 0, 7, comm, NULL));
  ncclWaitSignalDesc_t wait = {1, next, 0, 0};
  REFUSED(ncclInvalidArgument, ncclWaitSignal(0, &wait, comm, NULL));
  REFUSED(ncclInvalidArgument, ncclWaitSignal(1, NULL, comm, NULL));
  wait.opCnt = 0;
  REFUSED(ncclInvalidArgument, ncclWaitSignal(1, &wait, comm, NULL));
  wait = (ncclWaitSignalDesc_t){1, ranks, 0, 0};
  REFUSED(ncclInvalidArgument, ncclWaitSignal(1, &wait, comm, NULL));
  wait = (ncclWaitSignalDesc_t){1, next, 0, 2};
  REFUSED(ncclInvalidArgument, ncclWaitSignal(1, &wait, comm, NULL));
  /* None of that has signalled anybody, or failed the communicator. */
  ncclResult_t state = ncclInternalError;
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK(state == ncclSuccess);
  OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
  REFUSED(ncclInvalidUsage, ncclSignal(next, 0, 0, 0, comm, NULL));
  REFUSED(ncclInvalidUsage, PUT(&value, ncclInt, next, shown.window, 0, 0, 0, 0));
  SAYS("suspended");
  OK(ncclCommResume(comm));
  /* A window outlives what was suspended. */
  OK(PUT(&value, ncclInt, next, shown.window, 0, 0, 0, 0));
  wait = (ncclWaitSignalDesc_t){1, (rank + ranks - 1) % ranks, 0, 0};
  OK(ncclWaitSignal(1, &wait, comm, NULL));
  CHECK(shown.memory[0] == 1);
  int one = 1;
  OK(ncclAllReduce(&one, &one, 1, ncclInt, ncclSum, comm, NULL));
  hide(comm, shown);
}

static void everything(ncclComm_t comm, int rank, int ranks) {
  ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
  OK(ncclCommQueryProperties(comm, &properties));
  CHECK(properties.hostRmaSupport);
  all_to_all(comm, rank, ranks);
  signals(comm, rank, ranks);
  refused(comm, rank, ranks);
  if (ranks > 1) ping_pong(comm, rank, ranks);
  OK(ncclCommDestroy(comm));
}

static void thread(struct rank* self) { everything(self->comm, self->rank, self->ranks); }

/* One thread has all ranks: a group puts and waits. Windows of one group are many. */
static void in_groups(void) {
  enum { RANKS = 3 };
  ncclComm_t comms[RANKS];
  int* memory[RANKS][2];
  ncclWindow_t windows[RANKS][2];
  OK(ncclCommInitAll(comms, RANKS, NULL));
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) {
    for (int w = 0; w < 2; w++) {
      OK(ncclMemAlloc((void**)&memory[r][w], 4096));
      memory[r][w][0] = 100 * r + w;
      OK(ncclCommWindowRegister(comms[r], memory[r][w], 4096, &windows[r][w],
                                NCCL_WIN_COLL_SYMMETRIC));
    }
  }
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) {
    int next = (r + 1) % RANKS, last = (r + RANKS - 1) % RANKS;
    OK(ncclPutSignal(&memory[r][0][0], 1, ncclInt, next, windows[r][1], 8, 0, 0, 0, comms[r],
                     NULL));
    OK(ncclPutSignal(&memory[r][1][0], 1, ncclInt, next, windows[r][0], 16, 0, 0, 0, comms[r],
                     NULL));
    ncclWaitSignalDesc_t wait = {2, last, 0, 0};
    OK(ncclWaitSignal(1, &wait, comms[r], NULL));
  }
  OK(ncclGroupEnd());
  for (int r = 0; r < RANKS; r++) {
    int last = (r + RANKS - 1) % RANKS;
    CHECK(memory[r][1][2] == 100 * last && memory[r][0][4] == 100 * last + 1);
  }
  for (int r = 0; r < RANKS; r++) {
    OK(ncclCommDestroy(comms[r]));
    for (int w = 0; w < 2; w++) OK(ncclMemFree(memory[r][w]));
  }
}

/* A wait for a rank that gives up ends, and so does one that is given up itself. */
static void given_up(struct rank* self) {
  ncclWaitSignalDesc_t wait = {1, 1, 0, 0};
  if (self->rank == 0) {
    ncclResult_t result = ncclWaitSignal(1, &wait, self->comm, NULL);
    CHECK(result == ncclRemoteError || result == ncclInvalidUsage);
    SAYS("signal");
  } else {
    usleep(200 * 1000);
  }
  OK(ncclCommAbort(self->comm));
}

/* What `process` does. */
static const char* what = "";

static int process(int rank, int ranks, ncclUniqueId id) {
  ncclComm_t comm = NULL;
  OK(ncclCommInitRank(&comm, ranks, id, rank));
  if (strcmp(what, "killed") == 0) {
    ncclWaitSignalDesc_t wait = {1, 1, 0, 0};
    if (rank == 1) {
      usleep(300 * 1000);
      _exit(7);
    }
    REFUSED(ncclRemoteError, ncclWaitSignal(1, &wait, comm, NULL));
    SAYS("r1");
    OK(ncclCommAbort(comm));
    return 0;
  }
  if (strcmp(what, "hosts") == 0) {
    everything(comm, rank, ranks);
    return 0;
  }
  /* Memory of another process that is not from ncclMemAlloc is out of reach. */
  static char plain[3 * 4096];
  void* aligned = (void*)(((size_t)plain + 4095) & ~(size_t)4095);
  ncclWindow_t window = NULL;
  int value = 5, next = (rank + 1) % ranks;
  OK(ncclCommWindowRegister(comm, aligned, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
  REFUSED(ncclInvalidUsage,
          ncclPutSignal(&value, 1, ncclInt, next, window, 0, 0, 0, 0, comm, NULL));
  SAYS("not from ncclMemAlloc");
  OK(ncclCommWindowDeregister(comm, window));
  everything(comm, rank, ranks);
  return 0;
}

int main(int count, char** arguments) {
  CHECK(count > 1);
  if (strcmp(arguments[1], "threads") == 0) {
    for (int ranks = 1; ranks <= 4; ranks++) on_ranks(ranks, thread);
    in_groups();
    on_ranks(2, given_up);
  } else {
    what = arguments[1];
    on_processes(what[0] == 'h' ? 4 : 3, process,
                 strcmp(what, "killed") == 0 ? SOME_FAIL : ALL_SUCCEED);
  }
  puts("one_sided: ok");
  return 0;
}
