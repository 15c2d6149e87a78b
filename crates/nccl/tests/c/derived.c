/* Communicators made from another one: split and shrunk. */
#include "ranks.h"

static int sum_of_ranks(ncclComm_t comm, int value) {
  int sum = 0;
  OK(ncclAllReduce(&value, &sum, 1, ncclInt, ncclSum, comm, NULL));
  return sum;
}

/* Odd and even ranks, each in reverse order. */
static void split_by_parity(struct rank* self) {
  ncclComm_t child = (ncclComm_t)1;
  OK(ncclCommSplit(self->comm, self->rank % 2, -self->rank, &child, NULL));
  int rank, count;
  OK(ncclCommUserRank(child, &rank));
  OK(ncclCommCount(child, &count));
  int members = (self->ranks + 1 - self->rank % 2) / 2;
  CHECK(count == members && rank == members - 1 - self->rank / 2);
  int expected = 0;
  for (int r = self->rank % 2; r < self->ranks; r += 2) expected += r;
  CHECK(sum_of_ranks(child, self->rank) == expected);
  CHECK(sum_of_ranks(self->comm, 1) == self->ranks);
  OK(ncclCommDestroy(child));
}

static void split_without_color(struct rank* self) {
  ncclComm_t child = (ncclComm_t)1;
  int color = self->rank == 0 ? NCCL_SPLIT_NOCOLOR : 5;
  OK(ncclCommSplit(self->comm, color, 0, &child, NULL));
  CHECK((child == NULL) == (self->rank == 0));
  if (child != NULL) {
    CHECK(sum_of_ranks(child, 1) == self->ranks - 1);
    OK(ncclCommDestroy(child));
  }
  if (self->rank == 0) {
    REFUSED(ncclInvalidArgument, ncclCommSplit(self->comm, -7, 0, &child, NULL));
    REFUSED(ncclInvalidArgument, ncclCommSplit(self->comm, 0, 0, NULL, NULL));
  }
}

/* All but rank 1, which does not take part. */
static void shrink(struct rank* self) {
  int excluded[] = {1};
  ncclComm_t child = NULL;
  if (self->rank == 1) return;
  OK(ncclCommShrink(self->comm, excluded, 1, &child, NULL, NCCL_SHRINK_DEFAULT));
  int rank;
  OK(ncclCommUserRank(child, &rank));
  CHECK(rank == (self->rank == 0 ? 0 : self->rank - 1));
  CHECK(sum_of_ranks(child, self->rank) == self->ranks * (self->ranks - 1) / 2 - 1);
  OK(ncclCommDestroy(child));
  int self_excluded[] = {self->rank};
  REFUSED(ncclInvalidArgument, ncclCommShrink(self->comm, self_excluded, 1, &child, NULL, 0));
  REFUSED(ncclInvalidArgument, ncclCommShrink(self->comm, excluded, 0, &child, NULL, 0));
}

static void derive(struct rank* self) {
  split_by_parity(self);
  split_without_color(self);
  shrink(self);
  OK(ncclCommDestroy(self->comm));
}

/* Rank 2 leaves its peers in a call that it never makes; they shrink it away. */
static void shrink_after_a_fault(struct rank* self) {
  int excluded[] = {2}, value = 1;
  ncclComm_t child = NULL;
  if (self->rank == 2) {
    OK(ncclCommAbort(self->comm));
    return;
  }
  CHECK(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, self->comm, NULL) != ncclSuccess);
  OK(ncclCommShrink(self->comm, excluded, 1, &child, NULL, NCCL_SHRINK_ABORT));
  CHECK(sum_of_ranks(child, 1) == self->ranks - 1);
  OK(ncclCommDestroy(child));
  OK(ncclCommDestroy(self->comm));
}

/* One thread that has all ranks splits them in a group. */
static void split_in_a_group(void) {
  ncclComm_t all[4], halves[4];
  OK(ncclCommInitAll(all, 4, NULL));
  OK(ncclGroupStart());
  for (int r = 0; r < 4; r++) OK(ncclCommSplit(all[r], r / 2, r, &halves[r], NULL));
  OK(ncclGroupEnd());
  for (int r = 0; r < 4; r++) {
    int rank;
    OK(ncclCommUserRank(halves[r], &rank));
    CHECK(rank == r % 2);
    OK(ncclCommDestroy(halves[r]));
    OK(ncclCommDestroy(all[r]));
  }
}

int main(int count, char** arguments) {
  if (count > 1 && strcmp(arguments[1], "fault") == 0) {
    on_ranks(4, shrink_after_a_fault);
  } else {
    on_ranks(5, derive);
    split_in_a_group();
  }
  puts("derived: ok");
  return 0;
}
