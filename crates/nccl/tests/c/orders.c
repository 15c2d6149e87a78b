/* An order of additions that one communicator requires: pieces have the bits of the whole, and what cannot be is an
 * error on all ranks, after which the communicator goes on. */
#include <msccl.h>
#include <string.h>

#include "ranks.h"

enum { RANKS = 4, COUNT = 70000 };

static float input[RANKS][COUNT];

static float number(int rank, int at) { return (float)((at * 7919 + rank * 104729) % 10007) / 97.0f; }

static void reduce(ncclComm_t comm, int rank, int start, int count, float* output) {
  OK(ncclAllReduce(input[rank] + start, output + start, count, ncclFloat, ncclSum, comm, NULL));
}

/* How many of the first sums have other bits than the ranks' numbers, added in their order. */
static int others_than_flat(const float* output) {
  int others = 0;
  for (int at = 0; at < COUNT; at++) {
    float sum = number(0, at);
    for (int rank = 1; rank < RANKS; rank++) sum += number(rank, at);
    others += memcmp(&sum, &output[at], sizeof sum) != 0;
  }
  return others;
}

static void body(struct rank* self) {
  ncclComm_t comm = self->comm;
  static float whole[RANKS][COUNT], pieces[RANKS][COUNT];
  float *one = whole[self->rank], *other = pieces[self->rank];
  for (int at = 0; at < COUNT; at++) input[self->rank][at] = number(self->rank, at);
  /* What is fastest for so many numbers is a ring, which adds each chunk in an order of its own. */
  reduce(comm, self->rank, 0, COUNT, one);
  CHECK(others_than_flat(one) > 0);
  OK(mscclCommRequireOrder(comm, "flat"));
  reduce(comm, self->rank, 0, COUNT, one);
  CHECK(others_than_flat(one) == 0);
  for (int start = 0, count = 1; start < COUNT; start += count, count = 3 * count + 1) {
    if (count > COUNT - start) count = COUNT - start;
    reduce(comm, self->rank, start, count, other);
  }
  CHECK(memcmp(one, other, sizeof whole[0]) == 0);
  /* A communicator that comes of it has the order as well. */
  ncclComm_t child;
  OK(ncclCommSplit(comm, 0, self->rank, &child, NULL));
  memset(other, 0, sizeof pieces[0]);
  reduce(child, self->rank, 0, COUNT, other);
  CHECK(memcmp(one, other, sizeof whole[0]) == 0);
  OK(ncclCommDestroy(child));
  /* Ranks that differ. */
  REFUSED(ncclInvalidUsage, mscclCommRequireOrder(comm, self->rank == 2 ? "tree" : "any"));
  SAYS("ranks require different orders of additions");
  reduce(comm, self->rank, 0, COUNT, other);
  CHECK(memcmp(one, other, sizeof whole[0]) == 0);
  REFUSED(ncclInvalidArgument, mscclCommRequireOrder(comm, "ring"));
  REFUSED(ncclInvalidArgument, mscclCommRequireOrder(comm, NULL));
  OK(mscclCommRequireOrder(comm, "any"));
  reduce(comm, self->rank, 0, COUNT, other);
  CHECK(others_than_flat(other) > 0);
  OK(ncclCommDestroy(comm));
}

int main(void) {
  on_ranks(RANKS, body);
  puts("orders: ok");
  return 0;
}
