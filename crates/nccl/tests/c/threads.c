/* Ranks as threads of one process: every collective on every type with every operator. */
#include "collectives.h"
#include "ranks.h"

static void try_rank(struct rank* self) {
  static const size_t counts[] = {1, 7, 1000};
  struct trial trial = {.rank = self->rank, .ranks = self->ranks, .comm = self->comm};
  int types = self->ranks == 4 ? ncclNumTypes : 3;
  for (int type = 0; type < types; type++) {
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
      for (trial.in_place = 0; trial.in_place < 2; trial.in_place++) {
        trial.type = (ncclDataType_t)type;
        trial.count = counts[c];
        try_all(&trial);
      }
    }
  }
  OK(ncclCommDestroy(self->comm));
}

/* Larger than any message of a link. */
static void try_long(struct rank* self) {
  struct trial trial = {.rank = self->rank, .ranks = self->ranks, .comm = self->comm};
  trial.type = ncclFloat32;
  trial.count = 1000003;
  try_reductions(&trial, ncclSum);
  try_moves(&trial);
  OK(ncclCommDestroy(self->comm));
}

int main(int count, char** arguments) {
  int ranks = count > 1 ? atoi(arguments[1]) : 4;
  on_ranks(ranks, try_rank);
  if (ranks == 2) on_ranks(2, try_long);
  printf("threads: ok with %d ranks\n", ranks);
  return 0;
}
