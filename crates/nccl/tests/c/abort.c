/* Giving up: whoever waits is let go, whoever waits elsewhere learns of it. */
#include <pthread.h>
#include <unistd.h>

#include "ranks.h"

static ncclComm_t waiting;

static void* abort_soon(void* nothing) {
  (void)nothing;
  usleep(200 * 1000);
  OK(ncclCommAbort(waiting));
  return NULL;
}

static void* revoke_soon(void* comm) {
  usleep(300 * 1000);
  OK(ncclCommRevoke(comm, 0));
  return NULL;
}

/* Rank 1 never makes the call of its peer, and gives up after that; whether this is it. */
static int stays_away(struct rank* self) {
  if (self->rank != 1) return 0;
  usleep(600 * 1000);
  OK(ncclCommAbort(self->comm));
  return 1;
}

/* A call that its peer never makes is let go by an abort in another thread. */
static void in_a_call(struct rank* self) {
  int value = 1;
  if (stays_away(self)) return;
  pthread_t thread;
  waiting = self->comm;
  CHECK(pthread_create(&thread, NULL, abort_soon, NULL) == 0);
  CHECK(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, self->comm, NULL) != ncclSuccess);
  CHECK(pthread_join(thread, NULL) == 0);
  REFUSED(ncclInvalidArgument, ncclCommDestroy(self->comm));
}

/* So is one that waits for its peers to come at all. */
static void in_a_join(void) {
  pthread_t thread;
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  CHECK(pthread_create(&thread, NULL, abort_soon, NULL) == 0);
  CHECK(ncclCommInitRank(&waiting, 2, id, 0) != ncclSuccess);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(waiting == NULL);
}

/* And one that makes another communicator, which its peer does not. */
static void in_a_split(struct rank* self) {
  ncclComm_t child = NULL;
  if (stays_away(self)) return;
  pthread_t thread;
  waiting = self->comm;
  CHECK(pthread_create(&thread, NULL, abort_soon, NULL) == 0);
  CHECK(ncclCommSplit(self->comm, 0, 0, &child, NULL) != ncclSuccess);
  CHECK(pthread_join(thread, NULL) == 0 && child == NULL);
}

static ncclComm_t both[2];

static void* abort_both_soon(void* nothing) {
  (void)nothing;
  usleep(200 * 1000);
  OK(ncclGroupStart());
  for (int i = 0; i < 2; i++) OK(ncclCommAbort(both[i]));
  OK(ncclGroupEnd());
  return NULL;
}

/* So is a group of calls of several communicators, which are aborted as a group, too. */
static void in_a_group_of_calls(struct rank* self) {
  int values[2] = {1, 1};
  ncclComm_t comms[2] = {self->comm, NULL};
  OK(ncclCommSplit(self->comm, 0, 0, &comms[1], NULL));
  if (self->rank == 1) {
    usleep(600 * 1000);
  } else {
    pthread_t thread;
    memcpy(both, comms, sizeof both);
    CHECK(pthread_create(&thread, NULL, abort_both_soon, NULL) == 0);
    OK(ncclGroupStart());
    for (int i = 0; i < 2; i++) {
      OK(ncclAllReduce(&values[i], &values[i], 1, ncclInt, ncclSum, comms[i], NULL));
    }
    CHECK(ncclGroupEnd() != ncclSuccess);
    CHECK(pthread_join(thread, NULL) == 0);
    return;
  }
  for (int i = 0; i < 2; i++) OK(ncclCommAbort(comms[i]));
}

/* A rank that gives up lets its peers go, too. */
static void of_a_peer(struct rank* self) {
  int value = 1;
  ncclResult_t state = ncclSuccess;
  if (self->rank == 1) {
    usleep(200 * 1000);
    OK(ncclCommAbort(self->comm));
    return;
  }
  CHECK(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, self->comm, NULL) != ncclSuccess);
  OK(ncclCommGetAsyncError(self->comm, &state));
  CHECK(state != ncclSuccess && state != ncclInProgress);
  CHECK(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, self->comm, NULL) == state);
  OK(ncclCommDestroy(self->comm));
}

/* One thread aborts all of its communicators in a group. */
static void in_a_group(void) {
  ncclComm_t comms[4];
  OK(ncclCommInitAll(comms, 4, NULL));
  OK(ncclGroupStart());
  for (int r = 0; r < 4; r++) OK(ncclCommAbort(comms[r]));
  OK(ncclGroupEnd());
  for (int r = 0; r < 4; r++) REFUSED(ncclInvalidArgument, ncclCommAbort(comms[r]));
}

static void taken_back(void) {
  ncclComm_t comm;
  int value = 1;
  OK(ncclCommRevoke(NULL, 0));
  OK(ncclCommInitAll(&comm, 1, NULL));
  REFUSED(ncclInvalidArgument, ncclCommRevoke(comm, 1));
  OK(ncclCommRevoke(comm, 0));
  REFUSED(ncclInvalidArgument, ncclCommRevoke(comm, 0));
  REFUSED(ncclInvalidUsage, ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, comm, NULL));
  OK(ncclCommDestroy(comm));
  OK(ncclCommInitAll(&comm, 1, NULL));
  OK(ncclCommFinalize(comm));
  REFUSED(ncclInvalidArgument, ncclCommRevoke(comm, 0));
  OK(ncclCommDestroy(comm));
}

/* Rank 2 never makes the call of its peers; all take the communicator back, and go on with new ones. */
static void taken_back_and_divided(struct rank* self) {
  int value = 1, sum = 0;
  ncclResult_t state = ncclInProgress;
  ncclComm_t half = NULL, rest = NULL;
  if (self->rank == 2) {
    usleep(100 * 1000);
  } else {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, revoke_soon, self->comm) == 0);
    CHECK(ncclAllReduce(&value, &sum, 1, ncclInt, ncclSum, self->comm, NULL) != ncclSuccess);
    CHECK(pthread_join(thread, NULL) == 0);
  }
  if (self->rank == 2) OK(ncclCommRevoke(self->comm, 0));
  OK(ncclCommGetAsyncError(self->comm, &state));
  CHECK(state == ncclSuccess);
  OK(ncclCommSplit(self->comm, self->rank % 2, 0, &half, NULL));
  OK(ncclAllReduce(&value, &sum, 1, ncclInt, ncclSum, half, NULL));
  CHECK(sum == (self->ranks + 1 - self->rank % 2) / 2);
  OK(ncclCommDestroy(half));
  if (self->rank != 1) {
    int excluded[] = {1};
    OK(ncclCommShrink(self->comm, excluded, 1, &rest, NULL, NCCL_SHRINK_DEFAULT));
    OK(ncclAllReduce(&value, &sum, 1, ncclInt, ncclSum, rest, NULL));
    CHECK(sum == self->ranks - 1);
    OK(ncclCommDestroy(rest));
  }
  OK(ncclCommDestroy(self->comm));
}

int main(void) {
  on_ranks(2, in_a_call);
  in_a_join();
  on_ranks(2, in_a_split);
  on_ranks(2, in_a_group_of_calls);
  on_ranks(3, of_a_peer);
  in_a_group();
  taken_back();
  on_ranks(5, taken_back_and_divided);
  puts("abort: ok");
  return 0;
}
