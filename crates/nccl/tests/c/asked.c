/* A job as others: a communicator of all ranks, parts of it by a split, by ids of their own and in place of it, calls of
 * each. Ranks are threads, or processes of one rank each. Ends with 3 if no communicator can be made, for the reason that
 * REASON says, or because the job is strict. The process of rank WRONG_RANK has a variable that protects and makes no
 * sense. */
#include <sys/wait.h>
#include <unistd.h>

#include "collectives.h"
#include "ranks.h"

static int ranks, processes;
static const char* refused;

static void call(ncclComm_t comm, int rank, int count) {
  struct trial trial = {.rank = rank, .ranks = count, .comm = comm};
  trial.type = ncclInt32;
  trial.count = 24;
  for (trial.in_place = 0; trial.in_place < 2; trial.in_place++) try_all(&trial);
}

static ncclUniqueId id, part_id;

static void be_rank(int rank) {
  ncclComm_t comm, part;
  ncclResult_t made = ncclCommInitRank(&comm, ranks, id, rank);
  if (made != ncclSuccess) {
    /* On all ranks alike, with what is wrong. */
    CHECK(made == ncclInvalidArgument && comm == NULL);
    const char* reason = getenv("REASON");
    SAYS(reason != NULL ? reason : "MSCCL_STRICT is set: ");
    refused = "refused";
    return;
  }
  call(comm, rank, ranks);
  OK(ncclCommSplit(comm, rank % 2, rank, &part, NULL));
  OK(ncclCommDestroy(part));
  if (rank < 2) {
    OK(ncclCommInitRank(&part, 2, part_id, rank));
    call(part, rank, 2);
    OK(ncclCommDestroy(part));
  }
  OK(ncclCommDestroy(comm));
}

static void* run(void* rank) {
  be_rank((int)(intptr_t)rank);
  return NULL;
}

static void fork_ranks(void) {
  for (int rank = 0; rank < ranks; rank++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      const char* wrong = getenv("WRONG_RANK");
      if (wrong != NULL && atoi(wrong) == rank) setenv("MSCCL_TIMEOUT_S", "soon", 1);
      be_rank(rank);
      exit(refused != NULL ? 3 : 0);
    }
  }
  int ends[4] = {0};
  for (int rank = 0; rank < ranks; rank++) {
    int status = 1;
    CHECK(wait(&status) > 0);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3));
    ends[WEXITSTATUS(status)]++;
  }
  CHECK(ends[0] == 0 || ends[3] == 0);
  if (ends[3] > 0) refused = "refused";
}

int main(int count, char** arguments) {
  pthread_t threads[8];
  CHECK(count == 3);
  ranks = atoi(arguments[1]);
  processes = atoi(arguments[2]);
  CHECK(ranks <= 8);
  OK(ncclGetUniqueId(&id));
  OK(ncclGetUniqueId(&part_id));
  if (processes) {
    fork_ranks();
  } else {
    for (intptr_t r = 0; r < ranks; r++) CHECK(!pthread_create(&threads[r], NULL, run, (void*)r));
    for (int r = 0; r < ranks; r++) CHECK(pthread_join(threads[r], NULL) == 0);
  }
  if (refused == NULL) puts("asked: ok");
  return refused != NULL ? 3 : 0;
}
