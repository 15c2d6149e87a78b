/* What many processes of one machine cost until each has made its first call: every rank is a process that starts this
 * program anew. Tells the time by the clock, and that of all processors together, which does not depend on what else
 * the machine does. */
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { COUNT = 1024 };

static double seconds(struct timeval time) { return (double)time.tv_sec + time.tv_usec * 1e-6; }

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + time.tv_nsec * 1e-9;
}

static void be_rank(int rank, int ranks, int from) {
  static float input[COUNT], output[COUNT];
  ncclUniqueId id;
  ncclComm_t comm;
  CHECK(read(from, &id, sizeof id) == (ssize_t)sizeof id);
  OK(ncclCommInitRank(&comm, ranks, id, rank));
  for (int i = 0; i < COUNT; i++) input[i] = (float)(rank + i);
  OK(ncclAllReduce(input, output, COUNT, ncclFloat32, ncclSum, comm, NULL));
  float all = (float)ranks * (float)(ranks - 1) / 2;
  for (int i = 0; i < COUNT; i++) CHECK(output[i] == all + (float)(ranks * i));
  OK(ncclCommFinalize(comm));
  OK(ncclCommDestroy(comm));
}

static void start_rank(const char* self, int rank, const char* ranks, int from) {
  char numbers[2][16];
  snprintf(numbers[0], 16, "%d", rank);
  snprintf(numbers[1], 16, "%d", from);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    pretend_host(rank);
    execl(self, self, ranks, numbers[0], numbers[1], (char*)NULL);
    _exit(127);
  }
}

int main(int count, char** arguments) {
  CHECK(count > 1);
  int ranks = atoi(arguments[1]), pipes[2];
  if (count > 3) {
    be_rank(atoi(arguments[2]), ranks, atoi(arguments[3]));
    return 0;
  }
  double started = now();
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  CHECK(pipe(pipes) == 0);
  for (int rank = 0; rank < ranks; rank++) {
    start_rank(arguments[0], rank, arguments[1], pipes[0]);
    CHECK(write(pipes[1], &id, sizeof id) == (ssize_t)sizeof id);
  }
  for (int rank = 0; rank < ranks; rank++) {
    int status = 1;
    CHECK(wait(&status) > 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  struct rusage used;
  CHECK(getrusage(RUSAGE_CHILDREN, &used) == 0);
  double processor = seconds(used.ru_utime) + seconds(used.ru_stime);
  printf("crowd: ok with %d ranks, %.2f s by the clock, %.2f s of the processors\n", ranks,
         now() - started, processor);
  return 0;
}
