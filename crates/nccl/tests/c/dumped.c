/* Rank 0 is in an all-reduce that rank 1 has not entered, and main dumps rank 0's communicator:
 * before, while and after. One line each; the test looks at them. */
#include <pthread.h>
#include <unistd.h>

#include "check.h"
#include "msccl.h"

enum { COUNT = 1000, CAPACITY = 65536 };

static ncclUniqueId id;
static ncclComm_t comms[2];
static float in[2][COUNT], out[2][COUNT];

static void* joins(void* argument) {
  long rank = (long)argument;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "pipeline";
  OK(ncclCommInitRankConfig(&comms[rank], 2, id, (int)rank, &config));
  OK(ncclBroadcast(in[rank], out[rank], COUNT, ncclInt32, 1, comms[rank], NULL));
  return NULL;
}

static void* reduces(void* argument) {
  long rank = (long)argument;
  OK(ncclAllReduce(in[rank], out[rank], COUNT, ncclFloat32, ncclSum, comms[rank], NULL));
  return NULL;
}

static void dump(void) {
  static char text[CAPACITY];
  OK(mscclCommDump(comms[0], text, sizeof text));
  puts(text);
}

int main(void) {
  pthread_t threads[2];
  char little[8];
  ranks_are_threads = 1;
  OK(ncclGetUniqueId(&id));
  for (long r = 0; r < 2; r++) CHECK(pthread_create(&threads[r], NULL, joins, (void*)r) == 0);
  for (int r = 0; r < 2; r++) CHECK(pthread_join(threads[r], NULL) == 0);
  REFUSED(ncclInvalidArgument, mscclCommDump(comms[0], little, sizeof little));
  CHECK(little[0] == 0);
  REFUSED(ncclInvalidArgument, mscclCommDump(comms[0], NULL, 0));
  REFUSED(ncclInvalidArgument, mscclCommDump(NULL, little, sizeof little));
  dump();
  CHECK(pthread_create(&threads[0], NULL, reduces, (void*)0L) == 0);
  sleep(1);
  dump();
  CHECK(pthread_create(&threads[1], NULL, reduces, (void*)1L) == 0);
  for (int r = 0; r < 2; r++) CHECK(pthread_join(threads[r], NULL) == 0);
  dump();
  OK(ncclGroupStart());
  for (int r = 0; r < 2; r++) OK(ncclCommDestroy(comms[r]));
  OK(ncclGroupEnd());
  return 0;
}
