/* The orders of calls in which frameworks use the library, as far as no other program here has them. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <unistd.h>

#include "ranks.h"

static void settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  for (int tries = 0; state == ncclInProgress && tries < 60000; tries++) {
    OK(ncclCommGetAsyncError(comm, &state));
    if (state == ncclInProgress) usleep(1000);
  }
  CHECK(state == ncclSuccess);
}

static void taken_up(ncclResult_t result) {
  CHECK(result == ncclSuccess || result == ncclInProgress);
}

/* Bindings that look every function up by its name, in a library that they open themselves (vLLM,
 * SGLang, TensorRT-LLM, CuPy, nccl4py). A failed look-up would end them. What they register, they have
 * from the library. */
static void looked_up(struct rank* self) {
  static const char* const names[] = {
      "ncclGetErrorString", "ncclGetVersion",    "ncclGetUniqueId",        "ncclCommInitRank",
      "ncclAllReduce",      "ncclReduce",        "ncclAllGather",          "ncclReduceScatter",
      "ncclSend",           "ncclRecv",          "ncclBroadcast",          "ncclCommDestroy",
      "ncclGroupStart",     "ncclGroupEnd",      "ncclCommWindowRegister", "ncclCommWindowDeregister",
      "ncclMemAlloc",       "ncclMemFree",       "ncclCommInitAll",        "ncclCommCuDevice",
      "ncclCommGetAsyncError"};
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) CHECK(dlsym(library, names[i]) != NULL);
  ncclResult_t (*all_reduce)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                             cudaStream_t);
  *(void**)&all_reduce = dlsym(library, "ncclAllReduce");
  int version = 0;
  OK(ncclGetVersion(&version));
  CHECK(version >= NCCL_VERSION(2, 27, 3) && version == NCCL_VERSION_CODE);
  int *fine = NULL, *buffer = NULL;
  ncclWindow_t window = NULL;
  OK(ncclMemAlloc((void**)&fine, sizeof *fine));
  OK(ncclMemAlloc((void**)&buffer, 3 << 20));
  *fine = 1;
  OK(all_reduce(fine, fine, 1, ncclInt32, ncclMin, self->comm, NULL));
  CHECK(*fine == 1);
  OK(ncclCommWindowRegister(self->comm, buffer, 3 << 20, &window, NCCL_WIN_COLL_SYMMETRIC));
  CHECK(window != NULL);
  buffer[7] = self->rank;
  OK(all_reduce(buffer, buffer, 1000, ncclInt32, ncclSum, self->comm, NULL));
  CHECK(buffer[7] == self->ranks * (self->ranks - 1) / 2);
  OK(ncclCommWindowDeregister(self->comm, window));
  OK(ncclMemFree(buffer));
  OK(ncclMemFree(fine));
  OK(ncclCommDestroy(self->comm));
  CHECK(dlclose(library) == 0);
}

/* Asks again and again how a communicator is, until it is told to stop (PyTorch's watchdog). */
struct watchdog {
  ncclComm_t comm;
  atomic_int stop;
  pthread_t thread;
};

static void* watch(void* argument) {
  struct watchdog* self = argument;
  while (!atomic_load(&self->stop)) {
    ncclResult_t state;
    OK(ncclCommGetAsyncError(self->comm, &state));
    CHECK(state == ncclSuccess || state == ncclInProgress);
    usleep(100);
  }
  return NULL;
}

/* Communicators that do not block, split from another one as soon as that is there; registered segments,
 * gathered calls, estimates, several communicators aborted at once (PyTorch). */
static void eager(struct rank* self) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 1;
  config.commName = "default_pg";
  struct watchdog dog = {.comm = self->comm};
  CHECK(pthread_create(&dog.thread, NULL, watch, &dog) == 0);
  ncclComm_t children[2] = {NULL, NULL};
  for (int turn = 0; turn < 2; turn++) {
    int stays_out = turn == 1 && self->rank == 0;
    int color = stays_out ? NCCL_SPLIT_NOCOLOR : 7;
    taken_up(ncclCommSplit(self->comm, color, self->rank, &children[turn], &config));
    settle(self->comm);
    CHECK((children[turn] == NULL) == stays_out);
    if (children[turn] != NULL) settle(children[turn]);
  }
  float segment[1024] = {0}, sum = 0, one = 1;
  void* handle = NULL;
  OK(ncclCommRegister(self->comm, segment, sizeof segment, &handle));
  for (int turn = 0; turn < 20; turn++) {
    OK(ncclGroupStart());
    taken_up(ncclAllReduce(&one, &sum, 1, ncclFloat, ncclSum, children[0], NULL));
    taken_up(ncclAllGather(&one, segment, 1, ncclFloat, children[0], NULL));
    taken_up(
        ncclReduceScatter(segment + 512, segment + 600, 1, ncclFloat, ncclAvg, children[0], NULL));
    taken_up(ncclGroupEnd());
    settle(children[0]);
    CHECK(sum == self->ranks && segment[self->ranks - 1] == 1);
  }
  ncclSimInfo_t estimate = NCCL_SIM_INFO_INITIALIZER;
  OK(ncclGroupStart());
  OK(ncclAllReduce(segment, segment, 1024, ncclFloat, ncclSum, children[0], NULL));
  OK(ncclGroupSimulateEnd(&estimate));
  CHECK(estimate.estimatedTime > 0);
  OK(ncclCommDeregister(self->comm, handle));
  atomic_store(&dog.stop, 1);
  CHECK(pthread_join(dog.thread, NULL) == 0);
  OK(ncclGroupStart());
  for (int i = 0; i < 2; i++) OK(ncclCommAbort(children[i]));
  OK(ncclCommAbort(self->comm));
  OK(ncclGroupEnd());
}

/* A window is registered in a group of its own, and given back through a pointer; every call is
 * followed by a look at how the communicator is (XLA). */
static void polled(struct rank* self) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 1;
  config.maxCTAs = 32;
  ncclComm_t comm = NULL;
  taken_up(ncclCommSplit(self->comm, 0, self->ranks - self->rank, &comm, &config));
  settle(self->comm);
  int count = 0;
  OK(ncclCommCount(comm, &count));
  CHECK(count == self->ranks);
  void *buffer = NULL, *handle = NULL;
  OK(ncclMemAlloc(&buffer, 1 << 16));
  OK(ncclGroupStart());
  ncclWindow_t* window = (ncclWindow_t*)&handle;
  OK(ncclCommWindowRegister(comm, buffer, 1 << 16, window, NCCL_WIN_COLL_SYMMETRIC));
  taken_up(ncclGroupEnd());
  settle(comm);
  int* values = buffer;
  for (int turn = 0; turn < 20; turn++) {
    OK(ncclGroupStart());
    OK(ncclGroupStart());
    for (int peer = 0; peer < count; peer++) {
      values[peer] = peer;
      taken_up(ncclSend(&values[peer], 1, ncclInt32, peer, comm, NULL));
      taken_up(ncclRecv(&values[100 + peer], 1, ncclInt32, peer, comm, NULL));
    }
    OK(ncclGroupEnd());
    taken_up(ncclGroupEnd());
    settle(comm);
    for (int peer = 0; peer < count; peer++) CHECK(values[100 + peer] == count - 1 - self->rank);
  }
  OK(ncclCommWindowDeregister(comm, *(ncclWindow_t*)handle));
  OK(ncclMemFree(buffer));
  OK(ncclCommDestroy(comm));
  OK(ncclCommDestroy(self->comm));
}

/* A gather of blocks of any length, the root's own too, and broadcasts of all to all, in place (RAFT). */
static void gathered(struct rank* self) {
  int own[8], all[36] = {0}, where = 0;
  for (int i = 0; i <= self->rank; i++) own[i] = 10 * self->rank + i;
  OK(ncclGroupStart());
  for (int r = 0; self->rank == 1 && r < self->ranks; where += ++r) {
    OK(ncclRecv(&all[where], (size_t)r + 1, ncclInt32, r, self->comm, NULL));
  }
  OK(ncclSend(own, (size_t)self->rank + 1, ncclInt32, 1, self->comm, NULL));
  OK(ncclGroupEnd());
  int mine = self->rank * (self->rank + 1) / 2;
  if (self->rank != 1) memcpy(&all[mine], own, sizeof(int) * ((size_t)self->rank + 1));
  OK(ncclGroupStart());
  for (int r = 0; r < self->ranks; r++) {
    int* block = &all[r * (r + 1) / 2];
    OK(ncclBroadcast(&all[mine], block, (size_t)r + 1, ncclInt32, r, self->comm, NULL));
  }
  OK(ncclGroupEnd());
  for (int r = 0, i = 0; r < self->ranks; r++) {
    for (int k = 0; k <= r; k++, i++) CHECK(all[i] == 10 * r + k);
  }
  ncclResult_t state;
  OK(ncclCommGetAsyncError(self->comm, &state));
  CHECK(state == ncclSuccess);
  OK(ncclCommDestroy(self->comm));
}

/* Configurations of programs that know more fields, and say which version they were built with, or
 * which they found. */
static void of_the_future(void) {
  struct {
    ncclConfig_t known;
    int newer[6];
  } config = {.known = NCCL_CONFIG_INITIALIZER};
  _Static_assert(sizeof config == 120, "as 2.32 has it");
  ncclUniqueId id;
  ncclComm_t comm;
  for (int turn = 0; turn < 4; turn++) {
    for (int i = 0; i < 6; i++) config.newer[i] = turn < 2 ? NCCL_CONFIG_UNDEF_INT : 3;
    config.known.size = turn % 2 ? 120 : 96;
    config.known.version = turn % 2 ? 23203 : NCCL_VERSION_CODE;
    config.known.cgaClusterSize = 16;
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRankConfig(&comm, 1, id, 0, &config.known));
    OK(ncclCommDestroy(comm));
  }
}

int main(void) {
  on_ranks(3, looked_up);
  on_ranks(3, eager);
  on_ranks(4, polled);
  on_ranks(5, gathered);
  of_the_future();
  puts("frameworks: ok");
  return 0;
}
