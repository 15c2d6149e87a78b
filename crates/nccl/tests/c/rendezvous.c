/* Ranks that never come to where others wait for them: these learn who it was, within MSCCL_JOIN_TIMEOUT_S, and what they
 * had works on. */
#include <time.h>
#include <unistd.h>

#include "ranks.h"

static const char* what;
static int absent;
static pthread_barrier_t over;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static ncclResult_t wait_for(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    OK(ncclCommGetAsyncError(comm, &state));
    usleep(1000);
  }
  return state;
}

/* Calls what the absent rank does not call; the last rank is excluded from a shrink. */
static ncclResult_t meet(struct rank* self, ncclComm_t* made) {
  int excluded[1] = {self->ranks - 1};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = strcmp(what, "polled") != 0;
  if (strcmp(what, "shrink") == 0) return ncclCommShrink(self->comm, excluded, 1, made, &config, 0);
  if (strcmp(what, "window") == 0) {
    /* A window needs no other rank. */
    static char memory[4096] __attribute__((aligned(4096)));
    ncclWindow_t window;
    OK(ncclCommWindowRegister(self->comm, memory, sizeof memory, &window, 0));
    OK(ncclCommWindowDeregister(self->comm, window));
    return ncclSuccess;
  }
  ncclResult_t code = ncclCommSplit(self->comm, 0, 0, made, &config);
  return code == ncclInProgress ? wait_for(self->comm) : code;
}

static void be_rank(struct rank* self) {
  char name[64];
  ncclComm_t made = self->comm;
  int stays = strcmp(what, "shrink") != 0 || self->rank != self->ranks - 1;
  int fails = strcmp(what, "window") != 0;
  if (self->rank != absent && stays) {
    double since = now();
    snprintf(name, sizeof name, "rank %d of %d has not ", absent, self->ranks);
    ncclResult_t code = meet(self, &made);
    CHECK(now() - since < 10);
    CHECK(code == (fails ? ncclRemoteError : ncclSuccess));
    if (fails) {
      SAYS(name);
      CHECK(made == NULL);
    }
  }
  pthread_barrier_wait(&over);
  /* The calls of what there was before need no rendezvous. */
  float value = 1;
  OK(ncclAllReduce(&value, &value, 1, ncclFloat, ncclSum, self->comm, NULL));
  CHECK(value == self->ranks);
  OK(ncclCommDestroy(self->comm));
}

int main(int count, char** arguments) {
  CHECK(count == 3);
  what = arguments[1];
  absent = atoi(arguments[2]);
  CHECK(pthread_barrier_init(&over, NULL, 4) == 0);
  on_ranks(4, be_rank);
  puts("rendezvous: ok");
  return 0;
}
