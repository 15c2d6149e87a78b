/* Forks of a process that has communicators: whatever they call is refused, says whose they are, and disturbs nobody. What
 * they make themselves works. */
#include <sys/wait.h>
#include <unistd.h>

#include "msccl.h"
#include "ranks.h"

static ncclComm_t comm;
static pid_t maker;
static void *memory, *handle;
static ncclWindow_t window;
static ncclRedOp_t op;
static float buffer[4] = {1, 2, 3, 4};
static char text[256];

/* `call` is refused, and the error names the process that made what it was given. */
#define FOREIGN(call) foreign((call), #call)

static void foreign(ncclResult_t code, const char* call) {
  char expected[128];
  snprintf(expected, sizeof expected, "made by process %d; process %d is its fork", (int)maker,
           (int)getpid());
  if (code == ncclInvalidUsage && strstr(ncclGetLastError(NULL), expected) != NULL) return;
  fprintf(stderr, "%s: found %d (%s), expected %s\n", call, code, ncclGetLastError(NULL), expected);
  _exit(1);
}

static void call_everything(void) {
  ncclComm_t other = (ncclComm_t)buffer;
  ncclResult_t state = ncclSuccess;
  ncclRedOp_t made;
  ncclWindow_t win;
  void* registered;
  int number = 77, excluded[1] = {1};
  FOREIGN(ncclAllReduce(buffer, buffer, 4, ncclFloat, ncclSum, comm, NULL));
  FOREIGN(ncclReduceScatter(buffer, buffer, 1, ncclFloat, ncclSum, comm, NULL));
  FOREIGN(ncclAllGather(buffer, buffer, 1, ncclFloat, comm, NULL));
  FOREIGN(ncclAlltoAll(buffer, buffer, 1, ncclFloat, comm, NULL));
  FOREIGN(ncclReduce(buffer, buffer, 1, ncclFloat, ncclSum, 0, comm, NULL));
  FOREIGN(ncclBroadcast(buffer, buffer, 1, ncclFloat, 0, comm, NULL));
  FOREIGN(ncclBcast(buffer, 1, ncclFloat, 0, comm, NULL));
  FOREIGN(ncclGather(buffer, buffer, 1, ncclFloat, 0, comm, NULL));
  FOREIGN(ncclScatter(buffer, buffer, 1, ncclFloat, 0, comm, NULL));
  FOREIGN(ncclSend(buffer, 1, ncclFloat, 1, comm, NULL));
  FOREIGN(ncclRecv(buffer, 1, ncclFloat, 1, comm, NULL));
  FOREIGN(ncclCommSplit(comm, 0, 0, &other, NULL));
  CHECK(other == NULL);
  FOREIGN(ncclCommShrink(comm, excluded, 1, &other, NULL, 0));
  FOREIGN(ncclCommShrink(comm, excluded, 1, &other, NULL, NCCL_SHRINK_ABORT));
  FOREIGN(ncclCommFinalize(comm));
  FOREIGN(ncclCommRevoke(comm, 0));
  FOREIGN(ncclCommGetAsyncError(comm, &state));
  CHECK(state == ncclInvalidUsage);
  FOREIGN(ncclCommCount(comm, &number));
  FOREIGN(ncclCommUserRank(comm, &number));
  FOREIGN(ncclCommCuDevice(comm, &number));
  CHECK(number == -1);
  FOREIGN(ncclRedOpCreatePreMulSum(&made, buffer, ncclFloat, ncclScalarHostImmediate, comm));
  FOREIGN(ncclRedOpDestroy(op, comm));
  FOREIGN(ncclCommRegister(comm, buffer, 16, &registered));
  FOREIGN(ncclCommDeregister(comm, handle));
  FOREIGN(ncclCommWindowRegister(comm, memory, 16, &win, 0));
  FOREIGN(ncclCommWindowDeregister(comm, window));
  FOREIGN(ncclMemFree(memory));
  FOREIGN(mscclCommChoices(comm, "allreduce", 0, ncclFloat, ncclSum, 0, 4, text, sizeof text));
  FOREIGN(mscclCommChoiceBlocks(comm, "allreduce", 0, ncclFloat, ncclSum, 0, 4, "x", &number));
  FOREIGN(mscclCommPin(comm, NULL));
  FOREIGN(mscclCommRequireOrder(comm, "flat"));
  CHECK(ncclTeamWorld(comm).nRanks == 0 && ncclTeamLsa(comm).nRanks == 0);
  CHECK(ncclTeamRankToWorld(comm, (ncclTeam_t){1, 0, 1}, 0) == -1);
  /* A group of calls is refused as they are. */
  OK(ncclGroupStart());
  FOREIGN(ncclAllReduce(buffer, buffer, 4, ncclFloat, ncclSum, comm, NULL));
  FOREIGN(ncclGroupEnd());
  /* Nothing of the parent's ends. */
  FOREIGN(ncclCommAbort(comm));
  FOREIGN(ncclCommDestroy(comm));
  FOREIGN(ncclCommDestroy(comm));
}

static void make_own(void) {
  ncclComm_t own[2];
  float values[2] = {1, 2};
  void* mine;
  OK(ncclCommInitAll(own, 2, NULL));
  OK(ncclGroupStart());
  for (int r = 0; r < 2; r++) {
    OK(ncclAllReduce(&values[r], &values[r], 1, ncclFloat, ncclSum, own[r], NULL));
  }
  OK(ncclGroupEnd());
  CHECK(values[0] == 3 && values[1] == 3);
  for (int r = 0; r < 2; r++) OK(ncclCommDestroy(own[r]));
  OK(ncclMemAlloc(&mine, 64));
  OK(ncclMemFree(mine));
}

/* Runs `body` in a fork, which ends as programs do, with its destructors. */
static void in_fork(void (*body)(void)) {
  int status = 1;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(60);
    body();
    exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The parent's group is open, and has calls; in the fork there is none. */
static void end_the_parents_group(void) {
  FOREIGN(ncclGroupEnd());
  REFUSED(ncclInvalidUsage, ncclGroupEnd());
  SAYS("not in a group call");
  OK(ncclGroupStart());
  OK(ncclGroupEnd());
}

static void forget_the_parents_group(void) {
  FOREIGN(ncclGroupSimulateEnd(NULL));
  make_own();
}

static void fork_again(void) {
  in_fork(call_everything);
  make_own();
}

static void everything_and_own(void) {
  call_everything();
  make_own();
  call_everything();
}

static void all_reduce(struct rank* self) {
  float value = 1;
  OK(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, self->comm, NULL));
  CHECK(value == self->ranks);
}

static void be_rank(struct rank* self) {
  all_reduce(self);
  if (self->rank == 0) {
    comm = self->comm;
    OK(ncclMemAlloc(&memory, 8192));
    OK(ncclCommRegister(comm, buffer, 16, &handle));
    OK(ncclCommWindowRegister(comm, memory, 4096, &window, 0));
    OK(ncclRedOpCreatePreMulSum(&op, buffer, ncclFloat, ncclScalarHostImmediate, comm));
    in_fork(everything_and_own);
    in_fork(fork_again);
    OK(ncclGroupStart());
    float value = 1;
    OK(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, self->comm, NULL));
    in_fork(end_the_parents_group);
    in_fork(forget_the_parents_group);
    OK(ncclGroupEnd());
    CHECK(value == self->ranks);
  } else {
    all_reduce(self);
  }
  /* Forks have left everything as it was. */
  all_reduce(self);
  if (self->rank == 0) {
    OK(ncclRedOpDestroy(op, comm));
    OK(ncclCommDeregister(comm, handle));
    OK(ncclCommWindowDeregister(comm, window));
    OK(ncclMemFree(memory));
  }
  OK(ncclCommDestroy(self->comm));
}

int main(void) {
  maker = getpid();
  on_ranks(2, be_rank);
  puts("forks: ok");
  return 0;
}
