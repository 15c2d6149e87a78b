/* Ranks that call different things: each learns it within a second, without MSCCL_CHECK, whether or not the calls
 * end. And what may differ is left alone. Each rank is a process. */
#include <msccl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { RANKS = 3, COUNT = 256, ODD = 1 };

/* Blocks for every rank, twice. */
static float from[RANKS * COUNT * 2], to[RANKS * COUNT * 2];
static ncclComm_t comm;

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* What calls answer is looked at where it matters: those that differ may succeed, fail, or wait until the
 * communicator has failed. */
static ncclResult_t sum_of(size_t count) {
  return ncclAllReduce(from, to, count, ncclFloat, ncclSum, comm, NULL);
}

static ncclResult_t sum(void) { return sum_of(COUNT); }

static ncclResult_t gather(void) { return ncclAllGather(from, to, COUNT, ncclFloat, comm, NULL); }

static void count(int odd) { sum_of(odd ? COUNT / 2 : COUNT); }

static void type(int odd) {
  ncclAllReduce(from, to, COUNT, odd ? ncclInt32 : ncclFloat, ncclSum, comm, NULL);
}

static void size(int odd) { ncclAllGather(from, to, COUNT, odd ? ncclDouble : ncclFloat, comm, NULL); }

static void operator(int odd) {
  ncclAllReduce(from, to, COUNT, ncclFloat, odd ? ncclMax : ncclSum, comm, NULL);
}

static void average(int odd) {
  ncclReduceScatter(from, to, COUNT, ncclFloat, odd ? ncclAvg : ncclSum, comm, NULL);
}

static void scaled(int odd) {
  ncclRedOp_t op = ncclSum;
  float scalar = 2;
  if (odd) OK(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, comm));
  ncclAllReduce(from, to, COUNT, ncclFloat, op, comm, NULL);
}

static void root(int odd) { ncclBroadcast(from, to, COUNT, ncclFloat, odd ? 1 : 0, comm, NULL); }

static void root_of_reduce(int odd) {
  ncclReduce(from, to, COUNT, ncclFloat, ncclSum, odd ? 2 : 0, comm, NULL);
}

static void kind(int odd) { odd ? gather() : sum(); }

static void rooted_kind(int odd) {
  odd ? ncclScatter(from, to, COUNT, ncclFloat, 0, comm, NULL)
      : ncclGather(from, to, COUNT, ncclFloat, 0, comm, NULL);
}

static void order(int odd) {
  odd ? gather() : sum();
  odd ? sum() : gather();
}

static void skipped(int odd) {
  sum();
  if (!odd) gather();
  sum();
}

static void extra(int odd) {
  sum();
  if (odd) gather();
  sum();
}

/* The last call of one rank has nothing to be compared with; but the others leave. */
static void last(int odd) {
  if (odd) sum();
}

static void message(size_t sent, ncclDataType_t sent_as, size_t received, int odd) {
  if (odd) {
    ncclRecv(to, received, ncclFloat, 0, comm, NULL);
  } else {
    ncclSend(from, sent, sent_as, ODD, comm, NULL);
  }
}

/* Between ranks 0 and 1; rank 2 has no part in it. */
static void message_count(int odd, int rank) {
  if (rank < 2) message(COUNT, ncclFloat, COUNT / 2, odd);
}

static void message_type(int odd, int rank) {
  if (rank < 2) message(COUNT, ncclInt32, COUNT, odd);
}

static void message_order(int odd, int rank) {
  if (rank == 2) return;
  message(COUNT, ncclFloat, COUNT / 2, odd);
  message(COUNT / 2, ncclFloat, COUNT, odd);
}

static void setting(int odd) {
  char choices[1 << 16];
  OK(mscclCommChoices(comm, "allreduce", 0, ncclFloat, ncclSum, 0, COUNT, choices, sizeof choices));
  *strchr(choices, '\n') = 0;
  if (odd) OK(mscclCommPin(comm, choices));
  sum();
}

static const struct kind {
  const char* name;
  void (*of_ranks)(int odd);
  void (*of_pairs)(int odd, int rank);
  /* What all ranks learn, if it is not a mismatch. */
  ncclResult_t result;
} kinds[] = {
    {"count", count, NULL, 0},
    {"type", type, NULL, 0},
    {"size", size, NULL, 0},
    {"operator", operator, NULL, 0},
    {"average", average, NULL, 0},
    {"scaled", scaled, NULL, 0},
    {"root", root, NULL, 0},
    {"root_of_reduce", root_of_reduce, NULL, 0},
    {"kind", kind, NULL, 0},
    {"rooted_kind", rooted_kind, NULL, 0},
    {"order", order, NULL, 0},
    {"skipped", skipped, NULL, 0},
    {"extra", extra, NULL, 0},
    {"message_count", NULL, message_count, 0},
    {"message_type", NULL, message_type, 0},
    {"message_order", NULL, message_order, 0},
    {"setting", setting, NULL, 0},
    {"last", last, NULL, ncclRemoteError},
};

/* Rank `rank` does what differs, and learns it in time. */
static void differ(const struct kind* kind, int rank) {
  for (int i = 0; i < 3; i++) OK(sum());
  double start = now_s();
  int odd = rank == ODD;
  kind->of_ranks ? kind->of_ranks(odd) : kind->of_pairs(odd, rank);
  ncclResult_t expected = kind->result ? kind->result : ncclInvalidUsage, state = ncclSuccess;
  if (kind->result && !odd) {
    OK(ncclCommDestroy(comm));
    usleep(1500 * 1000);
    return;
  }
  while (state == ncclSuccess && now_s() - start < 3) {
    usleep(2000);
    OK(ncclCommGetAsyncError(comm, &state));
  }
  double took = now_s() - start;
  fprintf(stderr, "%s: rank %d after %.3f s\n", kind->name, rank, took);
  CHECK(state == expected);
  CHECK(took <= 1);
  REFUSED(expected, sum());
  if (!kind->result) SAYS(" call different things: ");
  /* Others may need this rank alive to tell what they wait for. */
  usleep(700 * 1000);
  OK(ncclCommAbort(comm));
}

/* Every rank does what is its own affair in another way. */
static void legal_calls(int rank, int turn) {
  int mine = (rank + turn) % RANKS == 0;
  float* receive = mine ? from : to;
  OK(ncclAllReduce(from, receive, COUNT, ncclFloat, ncclSum, comm, NULL));
  OK(ncclAllGather(mine ? to + rank * COUNT : from, to, COUNT, ncclFloat, comm, NULL));
  OK(ncclReduceScatter(from, mine ? from + rank * COUNT : to, COUNT, ncclFloat, ncclMax, comm, NULL));
  OK(ncclAlltoAll(from, receive, COUNT, ncclFloat, comm, NULL));
  int root = turn % RANKS, is_root = rank == root;
  OK(ncclBroadcast(is_root ? from : NULL, to, COUNT, ncclFloat, root, comm, NULL));
  OK(ncclReduce(from, is_root ? to : NULL, COUNT, ncclFloat, ncclSum, root, comm, NULL));
  OK(ncclGather(from, is_root ? to : NULL, COUNT, ncclFloat, root, comm, NULL));
  OK(ncclScatter(is_root ? from : NULL, to, COUNT, ncclFloat, root, comm, NULL));
  ncclRedOp_t op;
  float scalar = (float)rank;
  OK(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, comm));
  OK(ncclAllReduce(from, to, COUNT, ncclFloat, op, comm, NULL));
  OK(ncclRedOpDestroy(op, comm));
  /* One rank groups what others do not, sends what has no elements, and rank 2 has no part in it. */
  if (rank == 0) {
    OK(ncclGroupStart());
    OK(ncclSend(from, 5, ncclFloat, 1, comm, NULL));
    OK(ncclSend(from, 0, ncclInt8, 2, comm, NULL));
    OK(ncclSend(from, 6, ncclDouble, 1, comm, NULL));
    OK(ncclGroupEnd());
  } else if (rank == 1) {
    OK(ncclRecv(to, 5, ncclFloat, 0, comm, NULL));
    OK(ncclRecv(to, 6, ncclDouble, 0, comm, NULL));
  }
}

static void legal(int rank) {
  ncclResult_t state = ncclSuccess;
  for (int turn = 0; turn < 200; turn++) legal_calls(rank, turn);
  usleep(500 * 1000);
  OK(sum());
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK(state == ncclSuccess);
  OK(ncclCommDestroy(comm));
}

static void be_rank(const struct kind* kind, int rank, ncclUniqueId id) {
  OK(ncclCommInitRank(&comm, RANKS, id, rank));
  kind ? differ(kind, rank) : legal(rank);
  exit(0);
}

/* All ranks, each as a process. */
static void start(const struct kind* kind, int pipes[2]) {
  for (int rank = 0; rank < RANKS; rank++) {
    if (fork() == 0) {
      ncclUniqueId id;
      pretend_host(rank);
      if (rank == 0) {
        OK(ncclGetUniqueId(&id));
        for (int i = 1; i < RANKS; i++) CHECK(write(pipes[1], &id, sizeof id) == sizeof id);
      } else {
        CHECK(read(pipes[0], &id, sizeof id) == (ssize_t)sizeof id);
      }
      be_rank(kind, rank, id);
    }
  }
}

static void run(const struct kind* kind) {
  int pipes[2], status = 1;
  CHECK(pipe(pipes) == 0);
  start(kind, pipes);
  for (int rank = 0; rank < RANKS; rank++) {
    CHECK(wait(&status) > 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  printf("mismatches: %s ok\n", kind ? kind->name : "legal");
  fflush(stdout);
}

int main(int count, char** arguments) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (count < 2 || strcmp(arguments[1], kinds[i].name) == 0) run(&kinds[i]);
  }
  if (count < 2 || strcmp(arguments[1], "legal") == 0) run(NULL);
  return 0;
}
