/* Communicators that do not block: calls go on in the background, and are asked how far they are. */
#include <unistd.h>

#include "ranks.h"

static ncclResult_t settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  for (int tries = 0; state == ncclInProgress && tries < 60000; tries++) {
    OK(ncclCommGetAsyncError(comm, &state));
    if (state == ncclInProgress) usleep(1000);
  }
  return state;
}

static void taken_up(ncclResult_t result) {
  CHECK(result == ncclSuccess || result == ncclInProgress);
}

/* One thread makes all ranks, without a group: nothing of it blocks. */
static void one_thread(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comms[3] = {NULL, NULL, NULL};
  int value[3] = {1, 2, 3}, sum[3] = {0}, count = 0;
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  for (int r = 0; r < 3; r++) {
    taken_up(ncclCommInitRankConfig(&comms[r], 3, id, r, &config));
    CHECK(comms[r] != NULL);
    if (r == 0) {
      REFUSED(ncclInvalidArgument, ncclCommCount(comms[0], &count));
      SAYS("before the previous operation returned ncclSuccess");
    }
  }
  for (int r = 0; r < 3; r++) CHECK(settle(comms[r]) == ncclSuccess);
  OK(ncclGroupStart());
  for (int r = 0; r < 3; r++) {
    taken_up(ncclAllReduce(&value[r], &sum[r], 1, ncclInt, ncclSum, comms[r], NULL));
  }
  taken_up(ncclGroupEnd());
  for (int r = 0; r < 3; r++) CHECK(settle(comms[r]) == ncclSuccess);
  CHECK(sum[0] == 6 && sum[1] == 6 && sum[2] == 6);
  ncclComm_t halves[3] = {(ncclComm_t)1, (ncclComm_t)1, (ncclComm_t)1};
  for (int r = 0; r < 3; r++) {
    int color = r == 1 ? NCCL_SPLIT_NOCOLOR : 0;
    taken_up(ncclCommSplit(comms[r], color, 0, &halves[r], NULL));
  }
  for (int r = 0; r < 3; r++) CHECK(settle(comms[r]) == ncclSuccess);
  CHECK(halves[0] != NULL && halves[1] == NULL && halves[2] != NULL);
  for (int r = 0; r < 3; r++) {
    if (halves[r] != NULL) OK(ncclCommDestroy(halves[r]));
    taken_up(ncclCommFinalize(comms[r]));
  }
  for (int r = 0; r < 3; r++) {
    CHECK(settle(comms[r]) == ncclSuccess);
    OK(ncclCommDestroy(comms[r]));
  }
}

/* A group makes them. */
static void in_a_group(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comms[2];
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  OK(ncclGroupStart());
  for (int r = 0; r < 2; r++) taken_up(ncclCommInitRankConfig(&comms[r], 2, id, r, &config));
  REFUSED(ncclInProgress, ncclGroupEnd());
  for (int r = 0; r < 2; r++) {
    CHECK(settle(comms[r]) == ncclSuccess);
    OK(ncclCommDestroy(comms[r]));
  }
}

/* The other rank never comes; the one that did gives up. */
static void give_up(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = NULL;
  ncclUniqueId id;
  ncclResult_t state;
  OK(ncclGetUniqueId(&id));
  REFUSED(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, 0, &config));
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK(state == ncclInProgress);
  REFUSED(ncclInvalidArgument, ncclCommDestroy(comm));
  SAYS("CommDestroy : Attempt to use communicator before");
  REFUSED(ncclInvalidArgument, ncclCommFinalize(comm));
  OK(ncclCommAbort(comm));
  REFUSED(ncclInvalidArgument, ncclCommGetAsyncError(comm, &state));
}

/* Rank 0 waits in the background for rank 1, which never comes; both take the communicator back and
 * split it, once as they should and once not, which both learn. */
static void revoked(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comms[2] = {NULL, NULL}, halves[2] = {NULL, NULL};
  int value[2] = {1, 1}, sum = 0;
  ncclResult_t state;
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  for (int r = 0; r < 2; r++) taken_up(ncclCommInitRankConfig(&comms[r], 2, id, r, &config));
  for (int r = 0; r < 2; r++) CHECK(settle(comms[r]) == ncclSuccess);
  REFUSED(ncclInProgress, ncclAllReduce(&value[0], &sum, 1, ncclInt, ncclSum, comms[0], NULL));
  for (int r = 0; r < 2; r++) OK(ncclCommRevoke(comms[r], 0));
  for (int r = 0; r < 2; r++) CHECK(settle(comms[r]) == ncclSuccess);
  for (int r = 0; r < 2; r++) taken_up(ncclCommSplit(comms[r], 0, 0, &halves[r], NULL));
  for (int r = 0; r < 2; r++) CHECK(settle(comms[r]) == ncclSuccess && halves[r] != NULL);
  for (int r = 0; r < 2; r++) OK(ncclCommDestroy(halves[r]));
  REFUSED(ncclInProgress, ncclCommSplit(comms[0], 0, 0, &halves[0], NULL));
  OK(ncclCommAbort(comms[1]));
  state = settle(comms[0]);
  CHECK(state != ncclSuccess && state != ncclInProgress && halves[0] == NULL);
  OK(ncclCommDestroy(comms[0]));
}

static void mixing_is_refused(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t blocking, polling;
  int value = 1;
  ncclUniqueId id;
  OK(ncclCommInitAll(&blocking, 1, NULL));
  OK(ncclGetUniqueId(&id));
  taken_up(ncclCommInitRankConfig(&polling, 1, id, 0, &config));
  CHECK(settle(polling) == ncclSuccess);
  OK(ncclGroupStart());
  OK(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, blocking, NULL));
  REFUSED(ncclInvalidArgument, ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, polling, NULL));
  REFUSED(ncclInvalidArgument, ncclGroupEnd());
  OK(ncclCommDestroy(blocking));
  OK(ncclCommDestroy(polling));
}

int main(void) {
  one_thread();
  in_a_group();
  give_up();
  revoked();
  mixing_is_refused();
  puts("polling: ok");
  return 0;
}
