/* One rank of a job that a test attacks. It does what its standard input says, and answers a line to each command:
 *
 *   id          makes an id                       id <hexadecimal digits>
 *   join <id>   joins                             joined <milliseconds>, or failed <code>: <last error>
 *   work <n>    so many sums, each checked        worked
 *   all         a message to and from every rank  worked
 *   open        opens as many files as it could   opened <files> of <files before it joined>
 *   memory      in KiB                            memory <resident> <most resident so far>
 *   end         destroys the communicator         ended
 */
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { COUNT = 20000, FILES = 4096 };

static int rank, ranks, files_before;
static ncclComm_t comm;

/* How many files can be opened now; all are closed again. */
static int open_files(int most) {
  static int files[FILES];
  int opened = 0;
  while (opened < most && (files[opened] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) opened++;
  for (int i = 0; i < opened; i++) close(files[i]);
  return opened;
}

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void make_id(void) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  printf("id ");
  for (size_t i = 0; i < sizeof id; i++) printf("%02x", (unsigned char)id.internal[i]);
  printf("\n");
}

static void join(const char* digits) {
  ncclUniqueId id;
  for (size_t i = 0; i < sizeof id; i++) {
    unsigned byte;
    CHECK(sscanf(digits + 2 * i, "%2x", &byte) == 1);
    id.internal[i] = (char)byte;
  }
  long began = now_ms();
  ncclResult_t code = ncclCommInitRank(&comm, ranks, id, rank);
  long took = now_ms() - began;
  if (code == ncclSuccess) {
    printf("joined %ld\n", took);
  } else {
    printf("failed %d after %ld ms: %s\n", code, took, ncclGetLastError(NULL));
  }
}

static void work(int rounds) {
  static int sent[COUNT], sums[COUNT];
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < COUNT; i++) sent[i] = rank * 7 + i + round;
    OK(ncclAllReduce(sent, sums, COUNT, ncclInt, ncclSum, comm, NULL));
    for (int i = 0; i < COUNT; i++) {
      CHECK(sums[i] == ranks * (i + round) + 7 * ranks * (ranks - 1) / 2);
    }
  }
  printf("worked\n");
}

static void meet_all(void) {
  int sent = rank, received[64];
  OK(ncclGroupStart());
  for (int peer = 0; peer < ranks; peer++) {
    OK(ncclSend(&sent, 1, ncclInt, peer, comm, NULL));
    OK(ncclRecv(received + peer, 1, ncclInt, peer, comm, NULL));
  }
  OK(ncclGroupEnd());
  for (int peer = 0; peer < ranks; peer++) CHECK(received[peer] == peer);
  printf("worked\n");
}

static void tell_memory(void) {
  char line[256];
  long resident = 0, most = 0;
  FILE* status = fopen("/proc/self/status", "r");
  CHECK(status != NULL);
  while (fgets(line, sizeof line, status) != NULL) {
    if (strncmp(line, "VmRSS:", 6) == 0) resident = atol(line + 6);
    if (strncmp(line, "VmHWM:", 6) == 0) most = atol(line + 6);
  }
  fclose(status);
  printf("memory %ld %ld\n", resident, most);
}

int main(int count, char** arguments) {
  char line[512];
  CHECK(count == 3);
  rank = atoi(arguments[1]);
  ranks = atoi(arguments[2]);
  files_before = open_files(FILES);
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = 0;
    if (strcmp(line, "id") == 0) make_id();
    else if (strncmp(line, "join ", 5) == 0) join(line + 5);
    else if (strncmp(line, "work ", 5) == 0) work(atoi(line + 5));
    else if (strcmp(line, "all") == 0) meet_all();
    else if (strcmp(line, "open") == 0) printf("opened %d of %d\n", open_files(files_before), files_before);
    else if (strcmp(line, "memory") == 0) tell_memory();
    else if (strcmp(line, "end") == 0) {
      OK(ncclCommDestroy(comm));
      printf("ended\n");
    } else CHECK(0);
    fflush(stdout);
  }
  return 0;
}
