/* Memory that is given up and comes back: what changes in between, and what does not. */
#include <dlfcn.h>

#include "processes_of_ranks.h"
#include "ranks.h"
#include "usage.h"

enum { COUNT = 3000 };

static void all_reduce(ncclComm_t comm, int ranks) {
  static __thread float values[COUNT];
  for (int i = 0; i < COUNT; i++) values[i] = (float)i;
  OK(ncclAllReduce(values, values, COUNT, ncclFloat, ncclSum, comm, NULL));
  for (int i = 0; i < COUNT; i++) CHECK(values[i] == (float)i * (float)ranks);
}

static void exchange(ncclComm_t comm, int rank, int ranks) {
  int sent = rank, received = -1;
  OK(ncclGroupStart());
  OK(ncclSend(&sent, 1, ncclInt, (rank + 1) % ranks, comm, NULL));
  OK(ncclRecv(&received, 1, ncclInt, (rank + ranks - 1) % ranks, comm, NULL));
  OK(ncclGroupEnd());
  CHECK(received == (rank + ranks - 1) % ranks);
}

static uint64_t figure(ncclComm_t comm, ncclCommMemStat_t of) {
  uint64_t value = 77;
  OK(ncclCommMemStats(comm, of, &value));
  return value;
}

static void check_suspended(ncclComm_t comm, uint64_t bytes, int rank, int ranks) {
  int value = 1, count = 0, own = -1;
  ncclResult_t state = ncclInternalError;
  CHECK(figure(comm, ncclStatGpuMemSuspended) == 1);
  CHECK(figure(comm, ncclStatGpuMemSuspend) == bytes);
  REFUSED(ncclInvalidUsage, ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, comm, NULL));
  SAYS("the communicator is suspended");
  OK(ncclGroupStart());
  OK(ncclSend(&value, 1, ncclInt, (rank + 1) % ranks, comm, NULL));
  REFUSED(ncclInvalidUsage, ncclGroupEnd());
  REFUSED(ncclInvalidUsage, ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
  /* None of that has failed it. */
  OK(ncclCommGetAsyncError(comm, &state));
  OK(ncclCommCount(comm, &count));
  OK(ncclCommUserRank(comm, &own));
  CHECK(state == ncclSuccess && count == ranks && own == rank);
}

static void once(struct rank* self) {
  ncclComm_t comm = self->comm;
  all_reduce(comm, self->ranks);
  exchange(comm, self->rank, self->ranks);
  uint64_t bytes = figure(comm, ncclStatGpuMemSuspend), kept = figure(comm, ncclStatGpuMemPersist);
  CHECK(bytes > 0 || self->ranks == 1);
  CHECK(figure(comm, ncclStatGpuMemTotal) == bytes + kept);
  CHECK(figure(comm, ncclStatGpuMemSuspended) == 0);
  REFUSED(ncclInvalidUsage, ncclCommResume(comm));
  SAYS("is not suspended");
  REFUSED(ncclInvalidArgument, ncclCommSuspend(comm, 6));
  REFUSED(ncclInvalidArgument, ncclCommMemStats(comm, (ncclCommMemStat_t)4, &kept));
  REFUSED(ncclInvalidArgument, ncclCommMemStats(comm, ncclStatGpuMemTotal, NULL));
  OK(ncclCommSuspend(comm, 0));
  for (int turn = 0; turn < 3; turn++) {
    OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
    check_suspended(comm, bytes, self->rank, self->ranks);
    OK(ncclCommResume(comm));
    CHECK(figure(comm, ncclStatGpuMemSuspended) == 0);
    all_reduce(comm, self->ranks);
    exchange(comm, self->rank, self->ranks);
    /* Some calls had needed more than those since. */
    CHECK(figure(comm, ncclStatGpuMemSuspend) <= bytes);
    bytes = figure(comm, ncclStatGpuMemSuspend);
  }
  /* One that is suspended can be split, and ended. */
  ncclComm_t half = NULL;
  OK(ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
  OK(ncclCommSplit(comm, 0, self->rank, &half, NULL));
  all_reduce(half, self->ranks);
  OK(ncclCommDestroy(half));
  if (self->rank % 2 == 0) {
    OK(ncclCommDestroy(comm));
  } else {
    OK(ncclCommAbort(comm));
  }
}

/* One thread has all ranks: a group suspends them. */
static void in_groups(void) {
  ncclComm_t comms[3];
  int values[3] = {1, 2, 3};
  OK(ncclCommInitAll(comms, 3, NULL));
  for (int turn = 0; turn < 2; turn++) {
    OK(ncclGroupStart());
    for (int r = 0; r < 3; r++) OK(ncclCommSuspend(comms[r], NCCL_SUSPEND_MEM));
    OK(ncclGroupEnd());
    for (int r = 0; r < 3; r++) CHECK(figure(comms[r], ncclStatGpuMemSuspended) == 1);
    OK(ncclGroupStart());
    for (int r = 0; r < 3; r++) OK(ncclCommResume(comms[r]));
    OK(ncclGroupEnd());
    OK(ncclGroupStart());
    for (int r = 0; r < 3; r++) {
      OK(ncclAllReduce(&values[r], &values[r], 1, ncclInt, ncclMax, comms[r], NULL));
    }
    OK(ncclGroupEnd());
    for (int r = 0; r < 3; r++) CHECK(values[r] == 3);
  }
  for (int r = 0; r < 3; r++) OK(ncclCommDestroy(comms[r]));
}

/* Communicators that do not block are asked until they are through. */
static void settle(ncclComm_t comm, ncclResult_t taken_up) {
  CHECK(taken_up == ncclSuccess || taken_up == ncclInProgress);
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    OK(ncclCommGetAsyncError(comm, &state));
    usleep(200);
  }
  CHECK(state == ncclSuccess);
}

static void polled(struct rank* self) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = NULL;
  OK(ncclCommSplit(self->comm, 0, self->rank, &comm, &config));
  for (int turn = 0; turn < 3; turn++) {
    settle(comm, ncclCommSuspend(comm, NCCL_SUSPEND_MEM));
    CHECK(figure(comm, ncclStatGpuMemSuspended) == 1);
    settle(comm, ncclCommResume(comm));
    int value = 1;
    settle(comm, ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, comm, NULL));
    CHECK(value == self->ranks);
  }
  settle(comm, ncclCommFinalize(comm));
  OK(ncclCommDestroy(comm));
  OK(ncclCommDestroy(self->comm));
}

static int cycles = 0;

static void again_and_again(struct rank* self) {
  int open_before = 0;
  struct pages before = {0, 0};
  for (int turn = 0; turn < cycles; turn++) {
    OK(ncclCommSuspend(self->comm, NCCL_SUSPEND_MEM));
    OK(ncclCommResume(self->comm));
    all_reduce(self->comm, self->ranks);
    if (turn == cycles / 10) {
      open_before = descriptors();
      before = pages();
    }
  }
  exchange(self->comm, self->rank, self->ranks);
  if (self->rank == 0) {
    printf("suspend: %d cycles, descriptors %d -> %d, pages mapped %ld -> %ld, resident %ld -> "
           "%ld\n",
           cycles, open_before, descriptors(), before.mapped, pages().mapped, before.resident,
           pages().resident);
    /* Other ranks may be a step ahead: some rings more or less. */
    CHECK(descriptors() <= open_before + 16);
    CHECK(pages().mapped < before.mapped + 8000);
    CHECK(pages().resident < before.resident + 2000);
  }
  OK(ncclCommDestroy(self->comm));
}

/* As the sleep mode of vLLM does it: it finds the library among what is mapped, by a part of its
 * name, and calls what it exports on every communicator of its process, by number. */
static void* mapped_library(void) {
  char line[4096], path[4096] = "";
  FILE* maps = fopen("/proc/self/maps", "r");
  CHECK(maps != NULL);
  while (fgets(line, sizeof line, maps) != NULL) {
    char* start = strchr(line, '/');
    if (start == NULL || strstr(start, "libnccl.so") == NULL) continue;
    start[strcspn(start, "\n")] = 0;
    snprintf(path, sizeof path, "%s", start);
    break;
  }
  fclose(maps);
  CHECK(path[0] != 0);
  void* library = dlopen(path, RTLD_NOW);
  CHECK(library != NULL);
  return library;
}

static int sleeper(int rank, int ranks, ncclUniqueId id) {
  ncclComm_t world = NULL, pair = NULL;
  OK(ncclCommInitRank(&world, ranks, id, rank));
  OK(ncclCommSplit(world, rank / 2, rank, &pair, NULL));
  void* library = mapped_library();
  int (*suspend)(void*, int) = NULL;
  int (*resume)(void*) = NULL;
  void* found[2] = {dlsym(library, "ncclCommSuspend"), dlsym(library, "ncclCommResume")};
  CHECK(found[0] != NULL && found[1] != NULL);
  memcpy(&suspend, &found[0], sizeof suspend);
  memcpy(&resume, &found[1], sizeof resume);
  for (int turn = 0; turn < 3; turn++) {
    all_reduce(world, ranks);
    all_reduce(pair, 2);
    CHECK(suspend(world, 1) == 0 && suspend(pair, 1) == 0);
    usleep(1000);
    CHECK(resume(world) == 0 && resume(pair) == 0);
  }
  all_reduce(pair, 2);
  all_reduce(world, ranks);
  OK(ncclCommDestroy(pair));
  OK(ncclCommDestroy(world));
  return 0;
}

int main(int count, char** arguments) {
  CHECK(count > 1);
  if (strcmp(arguments[1], "sleep") == 0) {
    on_processes(4, sleeper, ALL_SUCCEED);
  } else if (strcmp(arguments[1], "cycles") == 0) {
    cycles = atoi(arguments[2]);
    on_ranks(2, again_and_again);
  } else {
    on_ranks(1, once);
    on_ranks(2, once);
    on_ranks(4, once);
    on_ranks(3, polled);
    in_groups();
  }
  puts("suspend: ok");
  return 0;
}
