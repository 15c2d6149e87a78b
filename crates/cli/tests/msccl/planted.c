/* All-reduces with a fault that reports on recordings must find. Each host is a process (PER_HOST),
 * whose ranks are threads. Arguments: ranks, elements, calls, and a fault:
 *
 *   none
 *   late RANK US           the rank enters every fourth call later
 *   cold RANK PART US      the last PART-th of what the rank writes is on pages that each take US
 *   paced RANK MB_PER_S    what the process of the rank sends to other hosts has this pace */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include "processes_of_ranks.h"
#include "ranks.h"

enum { PAGE = 4096 };

static struct {
  const char* kind;
  int rank;
  long amount, more;
} fault;
static size_t elements;
static int calls;
/* Ranks in all, and on a host. */
static int all, per_host;
/* The pages that are cold, and what each takes. */
static char* cold;
static size_t cold_bytes;
static long cold_us;

static int is(const char* kind, int rank) {
  return strcmp(fault.kind, kind) == 0 && fault.rank == rank;
}

static void sleep_us(long us) {
  struct timespec time = {us / 1000000, us % 1000000 * 1000};
  while (nanosleep(&time, &time) != 0 && errno == EINTR) continue;
}

/* A cold page is touched: it comes after a while. */
static void fetch(int number, siginfo_t* info, void* context) {
  char* page = (char*)((uintptr_t)info->si_addr / PAGE * PAGE);
  (void)context;
  if (page < cold || page >= cold + cold_bytes) {
    signal(number, SIG_DFL);
    return;
  }
  sleep_us(cold_us);
  mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

/* From now on all that this process sends over TCP has a pace. */
static void pace(long mb_per_s) {
  for (int at = 3; at < 1024; at++) {
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    if (getpeername(at, (struct sockaddr*)&peer, &length) != 0) continue;
    if (peer.sin_family != AF_INET) continue;
    uint64_t bytes_per_s = (uint64_t)mb_per_s * 1000000;
    CHECK(setsockopt(at, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_s, sizeof bytes_per_s) == 0);
  }
}

static int* pages(void) {
  size_t bytes = elements * sizeof(int);
  int* pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED);
  memset(pages, 0, bytes);
  return pages;
}

static void chill(int* to) {
  size_t bytes = elements * sizeof(int);
  cold_bytes = bytes / (size_t)fault.amount / PAGE * PAGE;
  cold_us = fault.more;
  cold = (char*)to + bytes - cold_bytes;
  CHECK(mprotect(cold, cold_bytes, PROT_NONE) == 0);
}

static void body(struct rank* self) {
  int *from = pages(), *to = pages();
  /* Sleeps are as long as they are said to be. */
  CHECK(prctl(PR_SET_TIMERSLACK, 1) == 0);
  for (size_t i = 0; i < elements; i++) from[i] = self->rank + (int)i;
  for (int call = 0; call < calls; call++) {
    /* Links are made by the first call. */
    if (call == 1 && is("paced", self->rank)) pace(fault.amount);
    if (call % 4 == 3 && is("late", self->rank)) sleep_us(fault.amount);
    if (is("cold", self->rank)) chill(to);
    OK(ncclAllReduce(from, to, elements, ncclInt, ncclSum, self->comm, NULL));
    for (size_t i = 0; i < elements; i += 1000) {
      CHECK(to[i] == self->ranks * (int)i + self->ranks * (self->ranks - 1) / 2);
    }
  }
  OK(ncclCommDestroy(self->comm));
}

/* The ranks of a host, by its number. */
static int on_host(int host, int hosts, ncclUniqueId id) {
  (void)hosts;
  pretend_host(host * per_host);
  on_some_ranks(host * per_host, per_host, all, id, body);
  return 0;
}

int main(int count, char** arguments) {
  CHECK(count >= 5);
  int ranks = atoi(arguments[1]);
  elements = strtoul(arguments[2], NULL, 10);
  calls = atoi(arguments[3]);
  fault.kind = arguments[4];
  if (count > 6) {
    fault.rank = atoi(arguments[5]);
    fault.amount = atol(arguments[6]);
    fault.more = count > 7 ? atol(arguments[7]) : 0;
  }
  struct sigaction action = {.sa_sigaction = fetch, .sa_flags = SA_SIGINFO | SA_NODEFER};
  CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
  all = ranks;
  const char* text = getenv("PER_HOST");
  per_host = text == NULL ? ranks : atoi(text);
  on_processes((ranks + per_host - 1) / per_host, on_host, ALL_SUCCEED);
  return 0;
}
