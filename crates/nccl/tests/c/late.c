/* Communicators that are used and ended while a thread, or the process, is being taken down: C++
 * programs do so from destructors of static and of thread-local objects. */
#include <pthread.h>

#include "check.h"

static ncclComm_t of_process[2];
static pthread_key_t key;

static void use_and_end(ncclComm_t* comms) {
  int value[2] = {1, 2};
  OK(ncclGroupStart());
  for (int r = 0; r < 2; r++) {
    OK(ncclAllReduce(&value[r], &value[r], 1, ncclInt, ncclSum, comms[r], NULL));
  }
  OK(ncclGroupEnd());
  CHECK(value[0] == 3 && value[1] == 3);
  REFUSED(ncclInvalidArgument, ncclBcast(NULL, 1, ncclInt, 0, comms[0], NULL));
  OK(ncclGroupStart());
  OK(ncclCommAbort(comms[0]));
  OK(ncclCommDestroy(comms[1]));
  OK(ncclGroupEnd());
}

static void at_end_of_process(void) {
  use_and_end(of_process);
  puts("late: ok");
}

static void at_end_of_thread(void* comms) { use_and_end(comms); }

static void* be_thread(void* comms) {
  OK(ncclCommInitAll(comms, 2, NULL));
  CHECK(pthread_setspecific(key, comms) == 0);
  return NULL;
}

int main(void) {
  pthread_t thread;
  ncclComm_t of_thread[2];
  CHECK(atexit(at_end_of_process) == 0);
  CHECK(pthread_key_create(&key, at_end_of_thread) == 0);
  OK(ncclCommInitAll(of_process, 2, NULL));
  CHECK(pthread_create(&thread, NULL, be_thread, of_thread) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  return 0;
}
