/* Ranks as threads: runs one function on each, with a communicator of all of them. */
#ifndef RANKS_H_
#define RANKS_H_

#include <pthread.h>

#include "check.h"

struct rank {
  int rank, ranks;
  ncclComm_t comm;
  ncclUniqueId id;
  ncclConfig_t* config;
  void (*body)(struct rank*);
};

static inline void* run_rank_(void* argument) {
  struct rank* self = argument;
  OK(ncclCommInitRankConfig(&self->comm, self->ranks, self->id, self->rank, self->config));
  self->body(self);
  return NULL;
}

/* `body` ends its communicator itself. */
static inline void on_ranks(int ranks, void (*body)(struct rank*)) {
  pthread_t threads[64];
  struct rank all[64];
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  for (int i = 0; i < ranks; i++) {
    all[i] = (struct rank){.rank = i, .ranks = ranks, .id = id, .config = NULL, .body = body};
    CHECK(pthread_create(&threads[i], NULL, run_rank_, &all[i]) == 0);
  }
  for (int i = 0; i < ranks; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

#endif
