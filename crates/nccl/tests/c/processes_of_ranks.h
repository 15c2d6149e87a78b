/* Ranks as processes of one node. */
#ifndef PROCESSES_OF_RANKS_H_
#define PROCESSES_OF_RANKS_H_

#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* Which ends of processes are right. */
enum endings { ALL_SUCCEED, SOME_FAIL };

/* Runs `body` as so many processes, each with the id that all have; it gives the exit status. */
static inline void on_processes(int ranks, int (*body)(int rank, int ranks, ncclUniqueId id),
                                enum endings endings) {
  int pipes[8][2];
  pid_t children[8];
  CHECK(ranks <= 8);
  for (int r = 0; r < ranks; r++) {
    CHECK(pipe(pipes[r]) == 0);
    children[r] = fork();
    CHECK(children[r] >= 0);
    if (children[r] == 0) {
      ncclUniqueId id;
      CHECK(read(pipes[r][0], &id, sizeof id) == sizeof id);
      pretend_host(r);
      exit(body(r, ranks, id));
    }
  }
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  for (int r = 0; r < ranks; r++) CHECK(write(pipes[r][1], &id, sizeof id) == sizeof id);
  for (int r = 0; r < ranks; r++) {
    int status = 0;
    CHECK(waitpid(children[r], &status, 0) == children[r]);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || endings == SOME_FAIL));
  }
}

#endif
