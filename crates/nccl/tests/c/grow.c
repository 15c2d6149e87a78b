/* Communicators that grow. */
#include <unistd.h>

#include "ranks.h"

enum { OLD = 2, NEW = 3, ALL = OLD + NEW };

/* What ranks tell one another beside the library. */
static pthread_barrier_t broadcast;
static ncclUniqueId growth_id;
static int coordinator = 0;

static void all_reduce(ncclComm_t comm, int ranks) {
  int value = 1, count = 0;
  OK(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, comm, NULL));
  OK(ncclCommCount(comm, &count));
  CHECK(value == ranks && count == ranks);
}

static void check_rank(ncclComm_t comm, int rank) {
  int found = -1;
  OK(ncclCommUserRank(comm, &found));
  CHECK(found == rank);
}

static void old(struct rank* self) {
  ncclComm_t grown = NULL;
  ncclUniqueId other;
  if (self->rank == coordinator) {
    OK(ncclCommGetUniqueId(self->comm, &growth_id));
    /* One at a time. */
    REFUSED(ncclInvalidUsage, ncclCommGetUniqueId(self->comm, &other));
    SAYS("has not grown since");
  }
  pthread_barrier_wait(&broadcast);
  REFUSED(ncclInvalidArgument, ncclCommGrow(self->comm, OLD, NULL, -1, &grown, NULL));
  SAYS("expected more than 2");
  REFUSED(ncclInvalidArgument, ncclCommGrow(self->comm, ALL, NULL, 1, &grown, NULL));
  REFUSED(ncclInvalidArgument, ncclCommGrow(self->comm, ALL, NULL, -1, NULL, NULL));
  CHECK(grown == NULL);
  /* The coordinator may pass the id, or not. */
  ncclUniqueId* passed = self->rank == coordinator && coordinator == 0 ? &growth_id : NULL;
  OK(ncclCommGrow(self->comm, ALL, passed, -1, &grown, NULL));
  check_rank(grown, self->rank);
  all_reduce(grown, ALL);
  all_reduce(self->comm, OLD);
  /* The id is used up: the next one can be made. */
  if (self->rank == coordinator) OK(ncclCommGetUniqueId(self->comm, &other));
  OK(ncclCommDestroy(self->comm));
  all_reduce(grown, ALL);
  OK(ncclCommDestroy(grown));
}

static void* new_rank(void* argument) {
  int rank = OLD + (int)(size_t)argument;
  ncclComm_t comm = NULL;
  pthread_barrier_wait(&broadcast);
  REFUSED(ncclInvalidArgument, ncclCommGrow(NULL, ALL, NULL, rank, &comm, NULL));
  REFUSED(ncclInvalidArgument, ncclCommGrow(NULL, ALL, &growth_id, ALL, &comm, NULL));
  REFUSED(ncclInvalidArgument, ncclCommGrow(NULL, ALL, &growth_id, -1, &comm, NULL));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = rank % 2;
  ncclResult_t state = ncclCommGrow(NULL, ALL, &growth_id, rank, &comm, &config);
  CHECK(comm != NULL && (state == ncclSuccess || state == ncclInProgress));
  do {
    OK(ncclCommGetAsyncError(comm, &state));
    usleep(500);
  } while (state == ncclInProgress);
  CHECK(state == ncclSuccess);
  check_rank(comm, rank);
  for (int turn = 0; turn < 2; turn++) {
    int value = 1;
    ncclResult_t taken_up = ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, comm, NULL);
    CHECK(taken_up == ncclSuccess || taken_up == ncclInProgress);
    do {
      OK(ncclCommGetAsyncError(comm, &state));
    } while (state == ncclInProgress);
    CHECK(state == ncclSuccess && value == ALL);
  }
  OK(ncclCommDestroy(comm));
  return NULL;
}

static void grow_once(void) {
  pthread_t threads[NEW];
  CHECK(pthread_barrier_init(&broadcast, NULL, ALL) == 0);
  for (size_t i = 0; i < NEW; i++) {
    CHECK(pthread_create(&threads[i], NULL, new_rank, (void*)i) == 0);
  }
  on_ranks(OLD, old);
  for (int i = 0; i < NEW; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  pthread_barrier_destroy(&broadcast);
}

/* Nobody has made an id. */
static void without_id(struct rank* self) {
  ncclComm_t grown = NULL;
  REFUSED(ncclInvalidArgument, ncclCommGrow(self->comm, ALL, NULL, -1, &grown, NULL));
  SAYS("no rank has an id");
  CHECK(grown == NULL);
  all_reduce(self->comm, self->ranks);
  OK(ncclCommDestroy(self->comm));
}

/* Whoever waits for ranks that do not come can give up. */
static void give_up(struct rank* self) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t grown = NULL;
  ncclUniqueId id;
  if (self->rank == 0) OK(ncclCommGetUniqueId(self->comm, &id));
  CHECK(ncclCommGrow(self->comm, ALL, NULL, -1, &grown, &config) == ncclInProgress);
  CHECK(grown != NULL);
  usleep(100 * 1000);
  ncclResult_t state = ncclSuccess;
  OK(ncclCommGetAsyncError(grown, &state));
  CHECK(state == ncclInProgress);
  OK(ncclCommAbort(grown));
  all_reduce(self->comm, self->ranks);
  OK(ncclCommDestroy(self->comm));
}

/* Grown, then shrunk, revoked, and grown again from what is left. */
static void there_and_back(struct rank* self) {
  ncclComm_t rest = NULL;
  int excluded[1] = {2};
  ncclUniqueId unused;
  if (self->rank == 2) {
    pthread_barrier_wait(&broadcast);
    OK(ncclCommDestroy(self->comm));
    ncclComm_t again = NULL;
    OK(ncclCommGrow(NULL, 3, &growth_id, 2, &again, NULL));
    all_reduce(again, 3);
    OK(ncclCommDestroy(again));
    return;
  }
  OK(ncclCommRevoke(self->comm, NCCL_REVOKE_DEFAULT));
  REFUSED(ncclInvalidUsage, ncclCommGetUniqueId(self->comm, &unused));
  OK(ncclCommShrink(self->comm, excluded, 1, &rest, NULL, NCCL_SHRINK_DEFAULT));
  all_reduce(rest, 2);
  if (self->rank == 1) OK(ncclCommGetUniqueId(rest, &growth_id));
  pthread_barrier_wait(&broadcast);
  ncclComm_t again = NULL;
  OK(ncclCommGrow(rest, 3, NULL, -1, &again, NULL));
  all_reduce(again, 3);
  OK(ncclCommDestroy(rest));
  OK(ncclCommDestroy(self->comm));
  OK(ncclCommDestroy(again));
}

int main(void) {
  grow_once();
  coordinator = 1;
  grow_once();
  on_ranks(2, without_id);
  on_ranks(2, give_up);
  CHECK(pthread_barrier_init(&broadcast, NULL, 3) == 0);
  on_ranks(3, there_and_back);
  puts("grow: ok");
  return 0;
}
