/* Windows that are refused: nothing is registered, and the caller has no handle. */
#include "ranks.h"

#define NOWHERE ((void*)16)

static void* page(void) {
  void* memory = NULL;
  OK(ncclMemAlloc(&memory, 4096));
  return memory;
}

/* `symmetric` is refused with `code`; what a window need not ask peers for is not. */
static void refused(ncclComm_t comm, void* memory, ncclResult_t code, const char* text) {
  ncclWindow_t window = NOWHERE;
  REFUSED(code, ncclCommWindowRegister(comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
  CHECK(window == NULL);
  SAYS(text);
}

static void on_ended_communicators(void) {
  void* memory = page();
  for (int end = 0; end < 2; end++) {
    ncclComm_t comm = NULL;
    OK(ncclCommInitAll(&comm, 1, NULL));
    if (end == 0) OK(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
    if (end == 1) OK(ncclCommFinalize(comm));
    refused(comm, memory, ncclInvalidUsage, end == 0 ? "was revoked" : "was finalized");
    OK(ncclGroupStart());
    refused(comm, memory, ncclInvalidUsage, end == 0 ? "was revoked" : "was finalized");
    REFUSED(ncclInvalidUsage, ncclGroupEnd());
    OK(ncclCommDestroy(comm));
  }
  OK(ncclMemFree(memory));
}

static ncclComm_t polled(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  ncclResult_t state = ncclInProgress;
  config.blocking = 0;
  OK(ncclGetUniqueId(&id));
  ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  CHECK(result == ncclSuccess || result == ncclInProgress);
  while (state == ncclInProgress) OK(ncclCommGetAsyncError(comm, &state));
  CHECK(state == ncclSuccess);
  return comm;
}

/* A group takes communicators that block, or those that do not. */
static void in_mixed_groups(void) {
  ncclComm_t blocking = NULL, polling = polled(), joined = NOWHERE;
  void* memory = page();
  ncclWindow_t window = NULL;
  int value = 1;
  ncclUniqueId id;
  OK(ncclCommInitAll(&blocking, 1, NULL));
  OK(ncclGroupStart());
  OK(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, blocking, NULL));
  refused(polling, memory, ncclInvalidArgument, "not allowed in the same group");
  REFUSED(ncclInvalidArgument, ncclGroupEnd());
  OK(ncclGetUniqueId(&id));
  OK(ncclGroupStart());
  CHECK(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, polling, NULL) == ncclSuccess);
  REFUSED(ncclInvalidArgument, ncclCommInitRank(&joined, 1, id, 0));
  CHECK(joined == NULL);
  REFUSED(ncclInvalidArgument, ncclGroupEnd());
  /* Both go on. */
  OK(ncclCommWindowRegister(blocking, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
  CHECK(window != NULL);
  OK(ncclCommWindowDeregister(blocking, window));
  OK(ncclCommAbort(polling));
  OK(ncclCommDestroy(blocking));
  OK(ncclMemFree(memory));
}

/* A group that fails for another reason opens no windows. */
static void in_groups_that_fail(void) {
  ncclComm_t comm = NULL;
  ncclWindow_t window = NOWHERE;
  void *memory = page(), *user = NULL;
  OK(ncclCommInitAll(&comm, 1, NULL));
  OK(ncclGroupStart());
  OK(ncclCommWindowRegister(comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC));
  CHECK(window != NULL);
  ncclWindow_t before = window;
  REFUSED(ncclInvalidArgument, ncclSignal(7, 0, 0, 0, comm, NULL));
  REFUSED(ncclInvalidArgument, ncclGroupEnd());
  CHECK(window == NULL);
  REFUSED(ncclInvalidUsage, ncclWinGetUserPtr(comm, before, &user));
  REFUSED(ncclInvalidArgument, ncclCommWindowRegister(comm, memory, 4096, NULL, NCCL_WIN_DEFAULT));
  REFUSED(ncclInvalidArgument, ncclCommRegister(comm, memory, 4096, NULL));
  OK(ncclCommDestroy(comm));
  OK(ncclMemFree(memory));
}

int main(void) {
  on_ended_communicators();
  in_mixed_groups();
  in_groups_that_fail();
  puts("windows: ok");
  return 0;
}
