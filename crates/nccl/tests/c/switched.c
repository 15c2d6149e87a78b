/* Two ranks as threads call while recordings begin and end. `functions` switches by the library's
 * functions, `signal` by SIGUSR2; `served` calls until the file STOP is there, while another
 * process switches. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "check.h"
#include "msccl.h"

enum { RANKS = 2, COUNT = 4096 };

static ncclUniqueId id;
static pthread_barrier_t barrier;
static const char* mode;
static const char* folder;
static volatile int stopped;

static void calls(ncclComm_t comm, int count) {
  float in[COUNT] = {1}, out[COUNT];
  for (int i = 0; i < count; i++)
    OK(ncclAllReduce(in, out, COUNT, ncclFloat32, ncclSum, comm, NULL));
  CHECK(out[0] == 2);
}

/* Between the same calls of all ranks. */
static void step(int rank, void (*change)(int), int argument) {
  pthread_barrier_wait(&barrier);
  if (rank == 0) change(argument);
  pthread_barrier_wait(&barrier);
}

static void by_function(int number) {
  char name[4096];
  if (number == 0) {
    OK(mscclTraceStop());
    return;
  }
  snprintf(name, sizeof name, "%s/%d", folder, number);
  OK(mscclTraceStart(name));
}

/* A thread of the library does what the signal says, soon. */
static void by_signal(int number) {
  (void)number;
  CHECK(kill(getpid(), SIGUSR2) == 0);
  usleep(300000);
}

static void look(int number) {
  (void)number;
  stopped = access(getenv("STOP"), F_OK) == 0;
}

static void* rank_of(void* argument) {
  int rank = (int)(long)argument;
  ncclComm_t comm;
  OK(ncclCommInitRank(&comm, RANKS, id, rank));
  calls(comm, 3);
  if (strcmp(mode, "served") == 0) {
    for (int served = 0; !stopped; served++) {
      calls(comm, 1);
      if (served == 0 && rank == 0) printf("%d\n", (int)getpid()), fflush(stdout);
      step(rank, look, 0);
    }
  } else {
    void (*change)(int) = strcmp(mode, "signal") == 0 ? by_signal : by_function;
    step(rank, change, 1);
    calls(comm, 5);
    step(rank, change, 0);
    calls(comm, 7);
    step(rank, change, 2);
    calls(comm, 11);
  }
  OK(ncclCommDestroy(comm));
  return NULL;
}

int main(int count, char** arguments) {
  pthread_t threads[RANKS];
  CHECK(count >= 2);
  mode = arguments[1];
  folder = count > 2 ? arguments[2] : NULL;
  ranks_are_threads = 1;
  CHECK(pthread_barrier_init(&barrier, NULL, RANKS) == 0);
  OK(ncclGetUniqueId(&id));
  if (strcmp(mode, "functions") == 0) {
    REFUSED(ncclInvalidArgument, mscclTraceStart(NULL));
    REFUSED(ncclInvalidArgument, mscclTraceStart("/proc/no/such/folder"));
    SAYS("/proc/no/such/folder");
  }
  for (long r = 0; r < RANKS; r++) CHECK(pthread_create(&threads[r], NULL, rank_of, (void*)r) == 0);
  for (int r = 0; r < RANKS; r++) CHECK(pthread_join(threads[r], NULL) == 0);
  return 0;
}
