/* Ranks as processes: each starts this program anew and learns the id through a pipe. */
#include <sys/wait.h>
#include <unistd.h>

#include "collectives.h"

static void be_rank(int rank, int ranks, int from) {
  ncclUniqueId id;
  CHECK(read(from, &id, sizeof id) == (ssize_t)sizeof id);
  struct trial trial = {.rank = rank, .ranks = ranks, .type = ncclInt32, .count = 33};
  OK(ncclCommInitRank(&trial.comm, ranks, id, rank));
  for (trial.in_place = 0; trial.in_place < 2; trial.in_place++) try_all(&trial);
  trial.type = ncclBfloat16;
  trial.count = 4096;
  trial.in_place = 0;
  try_moves(&trial);
  OK(ncclCommFinalize(trial.comm));
  OK(ncclCommDestroy(trial.comm));
}

static void start_rank(const char* self, int rank, int ranks, int pipes[2]) {
  char numbers[3][16];
  snprintf(numbers[0], 16, "%d", ranks);
  snprintf(numbers[1], 16, "%d", rank);
  snprintf(numbers[2], 16, "%d", pipes[0]);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    execl(self, self, numbers[0], numbers[1], numbers[2], (char*)NULL);
    _exit(127);
  }
}

int main(int count, char** arguments) {
  int ranks = count > 1 ? atoi(arguments[1]) : 4, pipes[2];
  if (count > 3) {
    be_rank(atoi(arguments[2]), ranks, atoi(arguments[3]));
    return 0;
  }
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  CHECK(pipe(pipes) == 0);
  for (int rank = 0; rank < ranks; rank++) {
    start_rank(arguments[0], rank, ranks, pipes);
    CHECK(write(pipes[1], &id, sizeof id) == (ssize_t)sizeof id);
  }
  for (int rank = 0; rank < ranks; rank++) {
    int status = 1;
    CHECK(wait(&status) > 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  printf("processes: ok with %d ranks\n", ranks);
  return 0;
}
