/* Ranks end their communicators as soon as their own part is done, while peers may still be in the
 * same call: by an abort, by destroying, or by finalising first; the last time their processes end
 * right after that. No call of a peer may fail. Arguments: ranks, ranks in a process, jobs, how.
 * LATE_MS is how late one rank comes to the last call. */
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"

#define MOST 300000

static const char* how;
static unsigned late_us = 20000;
static unsigned job;
/* By job: how many ranks failed; shared among all processes. */
static atomic_int* failed;

static int draw(unsigned* seed, int below) { return (int)(rand_r(seed) % (unsigned)below); }

/* One call, the same on all ranks; whether it went well. */
static int call(struct rank* self, unsigned* seed, int* from, int* to) {
  static const int counts[] = {1, 1000, 50000, MOST};
  int n = self->ranks, kind = draw(seed, 5), root = draw(seed, n), right = 0, sum = 0;
  size_t count = (size_t)counts[draw(seed, 4)];
  ncclResult_t result = ncclSuccess;
  for (size_t i = 0; i < count; i++) from[i] = self->rank + 1, to[i] = -1;
  int left = (self->rank + n - 1) % n;
  switch (kind) {
    case 0:
      result = ncclAllReduce(from, to, count, ncclInt, ncclSum, self->comm, NULL);
      right = n * (n + 1) / 2;
      break;
    case 1:
      result = ncclBroadcast(from, to, count, ncclInt, root, self->comm, NULL);
      right = root + 1;
      break;
    case 2:
      result = ncclReduce(from, to, count, ncclInt, ncclSum, root, self->comm, NULL);
      right = root == self->rank ? n * (n + 1) / 2 : -1;
      break;
    case 3:
      OK(ncclGroupStart());
      OK(ncclSend(from, count, ncclInt, (self->rank + 1) % n, self->comm, NULL));
      OK(ncclRecv(to, count, ncclInt, left, self->comm, NULL));
      result = ncclGroupEnd();
      right = left + 1;
      break;
    default:
      count = (count + (size_t)n - 1) / (size_t)n;
      result = ncclAllGather(from, to, count, ncclInt, self->comm, NULL);
      for (int r = 0; r < n; r++) sum += to[(size_t)r * count];
      right = result == ncclSuccess && sum == n * (n + 1) / 2 ? 1 : 0;
      count = 1, to[0] = right;
      right = 1;
      break;
  }
  if (result != ncclSuccess) {
    fprintf(stderr, "job %u: r%d of %d in a call of kind %d, %zu elements: %s: %s\n", job,
            self->rank, n, kind, count, ncclGetErrorString(result), ncclGetLastError(NULL));
    return 0;
  }
  for (size_t i = 0; i < count; i++) {
    if (to[i] == right) continue;
    fprintf(stderr, "job %u: r%d, kind %d: element %zu is %d, not %d\n", job, self->rank, kind, i,
            to[i], right);
    return 0;
  }
  return 1;
}

static void end(struct rank* self) {
  if (strcmp(how, "abort") == 0) {
    OK(ncclCommAbort(self->comm));
    return;
  }
  if (strcmp(how, "finalize") == 0) OK(ncclCommFinalize(self->comm));
  OK(ncclCommDestroy(self->comm));
}

/* Calls, before the last of which ranks part: one of them comes late. */
static void play(struct rank* self) {
  unsigned shared = job * 7919 + 1, own = shared + 31 * (unsigned)(self->rank + 1);
  int calls = 1 + draw(&shared, 4), late = draw(&shared, self->ranks), good = 1;
  int* from = malloc(sizeof(int) * (MOST + 64));
  int* to = malloc(sizeof(int) * (MOST + 64));
  CHECK(from != NULL && to != NULL);
  for (int c = 0; c < calls && good; c++) {
    if (c == calls - 1) usleep((unsigned)draw(&own, 3000));
    if (c == calls - 1 && late == self->rank) usleep(late_us);
    good = call(self, &shared, from, to);
  }
  if (!good) atomic_fetch_add(&failed[job], 1);
  end(self);
  free(from);
  free(to);
}

static void be_process(int first, int count, int ranks, unsigned jobs, int from) {
  ncclUniqueId id;
  pretend_host(first);
  for (job = 0; job < jobs; job++) {
    CHECK(read(from, &id, sizeof id) == (ssize_t)sizeof id);
    on_some_ranks(first, count, ranks, id, play);
  }
  exit(0);
}

int main(int count, char** arguments) {
  CHECK(count == 5);
  int ranks = atoi(arguments[1]), per_process = atoi(arguments[2]), processes = 0, bad = 0;
  unsigned jobs = (unsigned)atoi(arguments[3]);
  int pipes[64][2];
  how = arguments[4];
  if (getenv("LATE_MS") != NULL) late_us = 1000 * (unsigned)atoi(getenv("LATE_MS"));
  failed = mmap(NULL, sizeof *failed * jobs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                0);
  CHECK(failed != MAP_FAILED && ranks <= 64 && per_process > 0);
  for (int first = 0; first < ranks; first += per_process, processes++) {
    CHECK(pipe(pipes[processes]) == 0);
    int own = ranks - first < per_process ? ranks - first : per_process;
    if (fork() == 0) be_process(first, own, ranks, jobs, pipes[processes][0]);
  }
  for (unsigned j = 0; j < jobs; j++) {
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    for (int p = 0; p < processes; p++) {
      CHECK(write(pipes[p][1], &id, sizeof id) == (ssize_t)sizeof id);
    }
  }
  for (int p = 0; p < processes; p++) {
    int status = 1;
    CHECK(wait(&status) > 0);
    bad += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  unsigned lost = 0;
  for (unsigned j = 0; j < jobs; j++) lost += atomic_load(&failed[j]) != 0;
  printf("endings: %u of %u jobs failed, %d of %d processes ended badly\n", lost, jobs, bad,
         processes);
  return lost != 0 || bad != 0;
}
