/* Ways to serve a call, each pinned in turn: what is pinned serves and is right, what cannot serve is an error. */
#include <msccl.h>

#include "ranks.h"

enum { COUNT = 1000, TEXT = 1 << 16 };

static void reduce(struct rank* self) {
  float input[COUNT], output[COUNT];
  for (int i = 0; i < COUNT; i++) input[i] = (float)(i + self->rank);
  OK(ncclAllReduce(input, output, COUNT, ncclFloat, ncclSum, self->comm, NULL));
  for (int i = 0; i < COUNT; i++) CHECK(output[i] == (float)(2 * i + 1));
}

/* By one rank alone: the last error is the process's. */
static void refuse(ncclComm_t comm) {
  char text[TEXT];
  REFUSED(ncclInvalidArgument,
          mscclCommChoices(comm, "allreduce", 0, ncclFloat, ncclSum, 0, COUNT, text, 8));
  SAYS("found 8");
  REFUSED(ncclInvalidArgument,
          mscclCommChoices(comm, "gossip", 0, ncclFloat, ncclSum, 0, COUNT, text, TEXT));
  SAYS("expected a collective (allreduce, ");
  REFUSED(ncclInvalidArgument,
          mscclCommChoices(comm, NULL, 0, ncclFloat, ncclSum, 0, COUNT, text, TEXT));
  /* Operator and root count where the collective has them, and nowhere else. */
  const int no_op = 99, no_root = 2;
  REFUSED(ncclInvalidArgument,
          mscclCommChoices(comm, "reduce", 0, ncclFloat, ncclSum, no_root, COUNT, text, TEXT));
  SAYS("there is no root 2 among 2 ranks");
  REFUSED(ncclInvalidArgument,
          mscclCommChoices(comm, "allreduce", 0, ncclFloat, (ncclRedOp_t)no_op, 0, COUNT, text, TEXT));
  SAYS("invalid operator 99");
  OK(mscclCommChoices(comm, "allgather", 0, ncclFloat, (ncclRedOp_t)no_op, no_root, COUNT, text, TEXT));
  int blocks;
  REFUSED(ncclInvalidArgument,
          mscclCommChoiceBlocks(comm, "allreduce", 0, ncclFloat, ncclSum, 0, COUNT, NULL, &blocks));
  const char* absent = "Simple staged 1 512 gossip";
  REFUSED(ncclInvalidUsage,
          mscclCommChoiceBlocks(comm, "allreduce", 0, ncclFloat, ncclSum, 0, COUNT, absent, &blocks));
  SAYS("it is not at hand");
  REFUSED(ncclInvalidArgument, mscclCommPin(comm, "LL staged 4"));
  SAYS("expected threads");
  REFUSED(ncclInvalidArgument, mscclCommPin(comm, "LL 4 512 allreduce/ring"));
  SAYS("expected links (staged, direct), found `4`");
}

static void body(struct rank* self) {
  ncclComm_t comm = self->comm;
  if (self->rank == 0) refuse(comm);
  char text[TEXT];
  OK(mscclCommChoices(comm, "allreduce", 0, ncclFloat, ncclSum, 0, COUNT, text, TEXT));
  int choices = 0;
  char* rest = NULL;
  for (char* line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    int blocks = 0;
    OK(mscclCommChoiceBlocks(comm, "allreduce", 0, ncclFloat, ncclSum, 0, COUNT, line, &blocks));
    CHECK(blocks > 0);
    OK(mscclCommPin(comm, line));
    reduce(self);
    choices++;
  }
  CHECK(choices > 5);
  OK(mscclCommPin(comm, "LL staged 1 512 allreduce/ring"));
  float buffer[COUNT] = {0};
  REFUSED(ncclInvalidUsage, ncclAllReduce(buffer, buffer, COUNT, ncclFloat, ncclSum, comm, NULL));
  SAYS("it would run with Simple staged 1 512 allreduce/ring");
  OK(mscclCommPin(comm, NULL));
  reduce(self);
  OK(ncclCommDestroy(comm));
}

int main(void) {
  on_ranks(2, body);
  puts("trial: ok");
  return 0;
}
