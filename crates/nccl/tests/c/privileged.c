/* A program that may have rights which its caller has not: tells whether it has, and makes a communicator. */
#include <sys/auxv.h>

#include "check.h"

int main(void) {
  ncclComm_t comm;
  ncclUniqueId id;
  printf("privileged: %s\n", getauxval(AT_SECURE) != 0 ? "yes" : "no");
  fflush(stdout);
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) {
    printf("refused: %s\n", ncclGetLastError(NULL));
    return 3;
  }
  OK(ncclCommDestroy(comm));
  puts("ok");
  return 0;
}
