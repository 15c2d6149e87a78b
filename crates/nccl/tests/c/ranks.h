/* Ranks as threads: runs one function on each, with a communicator of all of them. */
#ifndef RANKS_H_
#define RANKS_H_

#include <pthread.h>

#include "check.h"

struct rank {
  int rank, ranks;
  ncclComm_t comm;
  ncclUniqueId id;
  void (*body)(struct rank*);
};

static inline void* run_rank_(void* argument) {
  struct rank* self = argument;
  OK(ncclCommInitRank(&self->comm, self->ranks, self->id, self->rank));
  self->body(self);
  return NULL;
}

/* Ranks from `first` on run `body`, which ends its communicator itself. */
static inline void on_some_ranks(int first, int count, int ranks, ncclUniqueId id,
                                 void (*body)(struct rank*)) {
  pthread_t threads[64];
  struct rank all[64];
  CHECK(count <= 64);
  ranks_are_threads = count > 1;
  for (int i = 0; i < count; i++) {
    all[i] = (struct rank){.rank = first + i, .ranks = ranks, .id = id, .body = body};
    CHECK(pthread_create(&threads[i], NULL, run_rank_, &all[i]) == 0);
  }
  for (int i = 0; i < count; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  ranks_are_threads = 0;
}

static inline void on_ranks(int ranks, void (*body)(struct rank*)) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  on_some_ranks(0, ranks, ranks, id, body);
}

#endif
