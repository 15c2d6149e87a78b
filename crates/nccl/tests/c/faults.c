/* Ranks that die, do not come, or ask for something else: everyone else learns of it in time and can
 * go on. Each rank is a process. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static int ranks = 3;
static ncclComm_t comm;

static ncclResult_t all_reduce(size_t count) {
  static int from[1000], to[1000];
  return ncclAllReduce(from, to, count, ncclInt, ncclSum, comm, NULL);
}

/* The communicator has failed: it says so again, and can be destroyed. */
static void fail_and_end(ncclResult_t expected, const char* text) {
  ncclResult_t state = ncclSuccess;
  REFUSED(expected, all_reduce(10));
  if (text != NULL) SAYS(text);
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK(state == expected);
  REFUSED(expected, all_reduce(10));
  OK(ncclCommDestroy(comm));
}

static void killed(int rank) {
  OK(all_reduce(10));
  if (rank == 1) {
    usleep(300 * 1000);
    raise(SIGKILL);
  }
  time_t start = time(NULL);
  fail_and_end(ncclRemoteError, NULL);
  CHECK(time(NULL) - start <= 3);
}

/* Rank 1 lives, and never makes the call. MSCCL_TIMEOUT_S is set. */
static void absent(int rank) {
  OK(all_reduce(10));
  if (rank == 1) {
    sleep(6);
    OK(ncclCommAbort(comm));
    return;
  }
  fail_and_end(ncclRemoteError, NULL);
}

/* Rank 1 gives up from another thread while all wait for rank 0, which never comes. */
static void* abort_soon(void* nothing) {
  (void)nothing;
  usleep(300 * 1000);
  OK(ncclCommAbort(comm));
  return NULL;
}

static void aborted(int rank) {
  pthread_t thread;
  OK(all_reduce(10));
  if (rank == 0) {
    sleep(4);
    OK(ncclCommAbort(comm));
  } else if (rank == 1) {
    CHECK(pthread_create(&thread, NULL, abort_soon, NULL) == 0);
    CHECK(all_reduce(10) != ncclSuccess);
    CHECK(pthread_join(thread, NULL) == 0);
  } else {
    time_t start = time(NULL);
    fail_and_end(ncclRemoteError, NULL);
    CHECK(time(NULL) - start <= 2);
  }
}

/* No rank can reach another one. */
static void unreachable(int rank) {
  (void)rank;
  fail_and_end(ncclRemoteError, "have failed");
}

/* Rank 1 asks for another count. MSCCL_CHECK is set. */
static void mismatched(int rank) {
  OK(all_reduce(10));
  CHECK(all_reduce(rank == 1 ? 11 : 10) != ncclSuccess);
  OK(ncclCommDestroy(comm));
}

/* Rank 0 is asked what it waits for, and goes on waiting. */
static void signalled(int rank) {
  OK(all_reduce(10));
  if (rank == 0) {
    if (fork() == 0) {
      usleep(500 * 1000);
      kill(getppid(), SIGUSR1);
      _exit(0);
    }
  } else {
    sleep(3);
  }
  OK(all_reduce(10));
  OK(ncclCommDestroy(comm));
}

static const struct {
  const char* name;
  void (*body)(int rank);
} modes[] = {{"killed", killed},           {"absent", absent},         {"aborted", aborted},
             {"unreachable", unreachable}, {"mismatched", mismatched}, {"signalled", signalled}};

static void be_rank(const char* mode, int rank, ncclUniqueId id) {
  OK(ncclCommInitRank(&comm, ranks, id, rank));
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    if (strcmp(mode, modes[i].name) == 0) modes[i].body(rank);
  }
  exit(0);
}

int main(int count, char** arguments) {
  CHECK(count > 1);
  int pipes[2];
  CHECK(pipe(pipes) == 0);
  for (int rank = 0; rank < ranks; rank++) {
    if (fork() == 0) {
      ncclUniqueId id;
      pretend_host(rank);
      CHECK(read(pipes[0], &id, sizeof id) == (ssize_t)sizeof id);
      be_rank(arguments[1], rank, id);
    }
  }
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  for (int rank = 0; rank < ranks; rank++) {
    CHECK(write(pipes[1], &id, sizeof id) == (ssize_t)sizeof id);
  }
  for (int rank = 0; rank < ranks; rank++) {
    int status = 1;
    CHECK(wait(&status) > 0);
    int was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0) || was_killed);
  }
  printf("faults: %s ok\n", arguments[1]);
  return 0;
}
