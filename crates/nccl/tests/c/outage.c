/* One rank, whose peers live on other hosts, calls until rank 0 has done so for long enough. A call
 * that fails is reported, and is the end. Arguments: rank, ranks, seconds, milliseconds between
 * calls. */
#include <time.h>
#include <unistd.h>

#include "check.h"

#define MOST 400000

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int rank, ranks;
static int from[MOST], to[MOST];

/* A sum of all ranks, and a message from each to the next. The first element of the sum says
 * whether to stop. */
static ncclResult_t call(ncclComm_t comm, size_t count, int stop) {
  int left = (rank + ranks - 1) % ranks;
  for (size_t i = 0; i < count; i++) from[i] = rank + (int)i;
  from[0] = rank == 0 ? stop : 0;
  ncclResult_t result = ncclAllReduce(from, to, count, ncclInt, ncclSum, comm, NULL);
  if (result != ncclSuccess) return result;
  for (size_t i = 1; i < count; i++) {
    CHECK(to[i] == ranks * (int)i + ranks * (ranks - 1) / 2);
  }
  int over = to[0];
  OK(ncclGroupStart());
  OK(ncclSend(from, count, ncclInt, (rank + 1) % ranks, comm, NULL));
  OK(ncclRecv(to, count, ncclInt, left, comm, NULL));
  result = ncclGroupEnd();
  for (size_t i = 1; result == ncclSuccess && i < count; i++) CHECK(to[i] == left + (int)i);
  to[0] = over;
  return result;
}

int main(int count, char** arguments) {
  CHECK(count == 5);
  ncclUniqueId id;
  ncclComm_t comm;
  rank = atoi(arguments[1]);
  ranks = atoi(arguments[2]);
  double seconds = atof(arguments[3]), longest = 0;
  unsigned pause_us = 1000 * (unsigned)atoi(arguments[4]);
  OK(ncclGetUniqueId(&id));
  OK(ncclCommInitRank(&comm, ranks, id, rank));
  OK(call(comm, MOST, 0));
  puts("ready");
  fflush(stdout);
  double start = now();
  for (unsigned calls = 1, stop = 0; !stop; calls++) {
    double since = now();
    size_t elements = calls % 10 == 0 ? MOST : 1 + calls % 1000;
    ncclResult_t result = call(comm, elements, since - start > seconds);
    double took = now() - since;
    longest = took > longest ? took : longest;
    if (result != ncclSuccess) {
      printf("failed after %.3f s: %s: %s\n", took, ncclGetErrorString(result),
             ncclGetLastError(NULL));
      fflush(stdout);
      /* Peers find out by themselves. */
      sleep(10);
      _exit(0);
    }
    stop = to[0] != 0;
    if (!stop) usleep(pause_us);
  }
  OK(ncclCommDestroy(comm));
  printf("right, the longest call took %.3f s\n", longest);
  return 0;
}
