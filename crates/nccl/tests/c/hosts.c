/* Communicators across hosts and what is made from them. Every process pretends to be a host (PER_HOST), and
 * its ranks are threads. A third argument asks for what follows a fault. */
#include <sys/wait.h>
#include <unistd.h>

#include "ranks.h"

static int sum_of(ncclComm_t comm, int value) {
  int sum = 0;
  OK(ncclAllReduce(&value, &sum, 1, ncclInt, ncclSum, comm, NULL));
  return sum;
}

/* Messages of several lengths to every rank, itself too. */
static void exchange(struct rank* self) {
  enum { LONGEST = 40000 };
  size_t counts[] = {0, 1, LONGEST};
  int* sent = malloc(sizeof(int) * LONGEST);
  int* received = malloc(sizeof(int) * LONGEST * (size_t)self->ranks);
  CHECK(sent != NULL && received != NULL);
  for (int i = 0; i < LONGEST; i++) sent[i] = self->rank * 100000 + i;
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    size_t count = counts[c];
    OK(ncclGroupStart());
    for (int peer = 0; peer < self->ranks; peer++) {
      OK(ncclRecv(received + peer * LONGEST, count, ncclInt, peer, self->comm, NULL));
      OK(ncclSend(sent, count, ncclInt, peer, self->comm, NULL));
    }
    OK(ncclGroupEnd());
    for (int peer = 0; peer < self->ranks; peer++) {
      for (size_t i = 0; i < count; i++) {
        CHECK(received[peer * LONGEST + (int)i] == peer * 100000 + (int)i);
      }
    }
  }
  free(sent);
  free(received);
}

/* Odd and even ranks, which live on all hosts, each in reverse order. */
static void split(struct rank* self) {
  ncclComm_t child = NULL;
  int expected = 0;
  OK(ncclCommSplit(self->comm, self->rank % 2, -self->rank, &child, NULL));
  for (int r = self->rank % 2; r < self->ranks; r += 2) expected += r;
  CHECK(sum_of(child, self->rank) == expected);
  CHECK(sum_of(self->comm, 1) == self->ranks);
  OK(ncclCommDestroy(child));
}

/* All but rank 1, so that hosts have different numbers of ranks. */
static void shrink(struct rank* self) {
  int excluded[] = {1};
  ncclComm_t child = NULL;
  if (self->rank == 1) return;
  OK(ncclCommShrink(self->comm, excluded, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
  CHECK(sum_of(child, self->rank) == self->ranks * (self->ranks - 1) / 2 - 1);
  OK(ncclCommDestroy(child));
}

/* Rank 2 leaves its peers in a call that it never makes; they shrink it away. */
static void shrink_after_a_fault(struct rank* self) {
  int excluded[] = {2};
  ncclComm_t child = NULL;
  if (self->rank == 2) {
    OK(ncclCommAbort(self->comm));
    return;
  }
  int value = 1;
  CHECK(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, self->comm, NULL) != ncclSuccess);
  OK(ncclCommShrink(self->comm, excluded, 1, &child, NULL, NCCL_SHRINK_ABORT));
  CHECK(sum_of(child, 1) == self->ranks - 1);
  OK(ncclCommDestroy(child));
  OK(ncclCommDestroy(self->comm));
}

static void derive(struct rank* self) {
  CHECK(sum_of(self->comm, 1) == self->ranks);
  exchange(self);
  split(self);
  shrink(self);
  OK(ncclCommDestroy(self->comm));
}

int main(int count, char** arguments) {
  CHECK(count > 2);
  int ranks = atoi(arguments[1]), per_process = atoi(arguments[2]), pipes[2], processes = 0;
  CHECK(pipe(pipes) == 0);
  for (int first = 0; first < ranks; first += per_process, processes++) {
    if (fork() == 0) {
      ncclUniqueId id;
      int own = ranks - first < per_process ? ranks - first : per_process;
      pretend_host(first);
      CHECK(read(pipes[0], &id, sizeof id) == (ssize_t)sizeof id);
      on_some_ranks(first, own, ranks, id, count > 3 ? shrink_after_a_fault : derive);
      exit(0);
    }
  }
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  for (int p = 0; p < processes; p++) {
    CHECK(write(pipes[1], &id, sizeof id) == (ssize_t)sizeof id);
  }
  for (int p = 0; p < processes; p++) {
    int status = 1;
    CHECK(wait(&status) > 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  printf("hosts: ok with %d ranks in %d processes\n", ranks, processes);
  return 0;
}
