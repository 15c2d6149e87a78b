/* Ranks as processes, or several in each: every process starts this program anew and learns the id
 * through a pipe, or makes it itself where NCCL_COMM_ID fixes the address. */
#include <sys/wait.h>
#include <unistd.h>

#include "collectives.h"
#include "ranks.h"

static void try_rank(struct rank* self) {
  struct trial trial = {.rank = self->rank, .ranks = self->ranks, .comm = self->comm};
  trial.type = ncclInt32;
  trial.count = 33;
  for (trial.in_place = 0; trial.in_place < 2; trial.in_place++) try_all(&trial);
  trial.type = ncclBfloat16;
  trial.count = 4096;
  trial.in_place = 0;
  try_moves(&trial);
  OK(ncclCommFinalize(self->comm));
  OK(ncclCommDestroy(self->comm));
}

static void be_process(int first, int per_process, int ranks, int from) {
  ncclUniqueId id;
  if (getenv("NCCL_COMM_ID") != NULL) {
    OK(ncclGetUniqueId(&id));
  } else {
    CHECK(read(from, &id, sizeof id) == (ssize_t)sizeof id);
  }
  on_some_ranks(first, per_process, ranks, id, try_rank);
}

static void start_process(const char* self, int first, int per_process, int ranks, int from) {
  char numbers[4][16];
  snprintf(numbers[0], 16, "%d", ranks);
  snprintf(numbers[1], 16, "%d", per_process);
  snprintf(numbers[2], 16, "%d", first);
  snprintf(numbers[3], 16, "%d", from);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    pretend_host(first);
    execl(self, self, numbers[0], numbers[1], numbers[2], numbers[3], (char*)NULL);
    _exit(127);
  }
}

int main(int count, char** arguments) {
  CHECK(count > 2);
  int ranks = atoi(arguments[1]), per_process = atoi(arguments[2]), pipes[2];
  if (count > 4) {
    be_process(atoi(arguments[3]), per_process, ranks, atoi(arguments[4]));
    return 0;
  }
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  CHECK(pipe(pipes) == 0);
  for (int first = 0; first < ranks; first += per_process) {
    start_process(arguments[0], first, per_process, ranks, pipes[0]);
    CHECK(write(pipes[1], &id, sizeof id) == (ssize_t)sizeof id);
  }
  for (int first = 0; first < ranks; first += per_process) {
    int status = 1;
    CHECK(wait(&status) > 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  printf("processes: ok with %d ranks\n", ranks);
  return 0;
}
