/* Many communicators, one after another: nothing is left of them. */
#include <unistd.h>

#include "usage.h"

static void once(void) {
  ncclComm_t comms[2];
  int value[2] = {1, 2};
  OK(ncclCommInitAll(comms, 2, NULL));
  OK(ncclGroupStart());
  for (int r = 0; r < 2; r++) {
    OK(ncclAllReduce(&value[r], &value[r], 1, ncclInt, ncclSum, comms[r], NULL));
  }
  OK(ncclGroupEnd());
  CHECK(value[0] == 3 && value[1] == 3);
  for (int r = 0; r < 2; r++) OK(ncclCommDestroy(comms[r]));
}

int main(int count, char** arguments) {
  int times = count > 1 ? atoi(arguments[1]) : 30;
  for (int i = 0; i < 10; i++) once();
  usleep(500 * 1000);
  int open_before = descriptors();
  long pages_before = pages().resident;
  for (int i = 0; i < times; i++) once();
  usleep(500 * 1000);
  printf("again: %d times, descriptors %d -> %d, pages %ld -> %ld\n", times, open_before,
         descriptors(), pages_before, pages().resident);
  CHECK(descriptors() <= open_before + 2);
  CHECK(pages().resident < pages_before + 2000);
  return 0;
}
