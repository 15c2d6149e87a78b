/* Every collective on every type with every operator, checked against plain arithmetic. */
#ifndef COLLECTIVES_H_
#define COLLECTIVES_H_

#include "check.h"
#include "element.h"

/* One call of one rank, with room for what it reads and writes. */
struct trial {
  int rank, ranks;
  ncclComm_t comm;
  ncclDataType_t type;
  size_t count;
  int in_place;
  char *send, *receive, *expected, *memory;
};

/* What `rank` holds as element `index` of its input; blocks differ. */
static inline void fill(struct trial* t, void* buffer, int rank, size_t blocks) {
  for (size_t i = 0; i < blocks * t->count; i++) put(buffer, t->type, i, contribution(rank, i));
}

/* Memory for `input` blocks read and `output` blocks written. In place, one lies `own` blocks inside
 * the other. */
static inline void prepare(struct trial* t, size_t input, size_t output, size_t own) {
  size_t block = t->count * size_of(t->type);
  size_t bytes = (input + output + 1) * block + 16;
  t->memory = malloc(bytes);
  t->expected = malloc(bytes);
  CHECK(t->memory != NULL && t->expected != NULL);
  memset(t->memory, 0x5a, bytes);
  t->send = t->memory;
  t->receive = t->memory + input * block;
  if (t->in_place && input >= output) t->receive = t->send + (input > output ? own : 0) * block;
  if (t->in_place && input < output) {
    t->receive = t->memory;
    t->send = t->receive + own * block;
  }
  fill(t, t->send, t->rank, input);
}

static inline void compare(struct trial* t, const char* name, size_t blocks) {
  size_t bytes = blocks * t->count * size_of(t->type);
  for (size_t i = 0; i < bytes; i++) {
    if (t->receive[i] == t->expected[i]) continue;
    fprintf(stderr, "%s of %zu %s on rank %d of %d%s: byte %zu is %02x, expected %02x\n", name,
            t->count, type_names[t->type], t->rank, t->ranks, t->in_place ? " in place" : "", i,
            t->receive[i] & 0xff, t->expected[i] & 0xff);
    exit(1);
  }
  free(t->memory);
  free(t->expected);
}

static inline void expect_combined(struct trial* t, ncclRedOp_t op, size_t first) {
  for (size_t i = 0; i < t->count; i++) {
    put(t->expected, t->type, i, combined(op, t->ranks, first + i));
  }
}

static inline void try_reductions(struct trial* t, ncclRedOp_t op) {
  size_t own = (size_t)t->rank, n = (size_t)t->ranks;
  prepare(t, 1, 1, 0);
  expect_combined(t, op, 0);
  OK(ncclAllReduce(t->send, t->receive, t->count, t->type, op, t->comm, NULL));
  compare(t, "AllReduce", 1);

  prepare(t, n, 1, own);
  expect_combined(t, op, own * t->count);
  OK(ncclReduceScatter(t->send, t->receive, t->count, t->type, op, t->comm, NULL));
  compare(t, "ReduceScatter", 1);

  for (int root = 0; root < t->ranks; root++) {
    prepare(t, 1, 1, 0);
    expect_combined(t, op, 0);
    OK(ncclReduce(t->send, t->receive, t->count, t->type, op, root, t->comm, NULL));
    compare(t, "Reduce", root == t->rank ? 1 : 0);
  }
}

/* Block `block` of what is expected is block `of` of the input of rank `from`. */
static inline void expect_block(struct trial* t, size_t block, int from, size_t of) {
  for (size_t i = 0; i < t->count; i++) {
    put(t->expected, t->type, block * t->count + i, contribution(from, of * t->count + i));
  }
}

/* Even ranks count once, odd ranks twice. */
static inline void expect_scaled(struct trial* t, size_t first) {
  for (size_t i = 0; i < t->count; i++) {
    double sum = 0;
    for (int r = 0; r < t->ranks; r++) sum += contribution(r, first + i) * (1 + r % 2);
    put(t->expected, t->type, i, sum);
  }
}

/* Sums of contributions that each rank scales; the operator may go before the call is done. */
static inline void try_scaled(struct trial* t) {
  char scalar[8];
  ncclRedOp_t op;
  size_t own = (size_t)t->rank, n = (size_t)t->ranks;
  put(scalar, t->type, 0, 1 + t->rank % 2);
  OK(ncclRedOpCreatePreMulSum(&op, scalar, t->type, ncclScalarHostImmediate, t->comm));
  prepare(t, 1, 1, 0);
  expect_scaled(t, 0);
  OK(ncclAllReduce(t->send, t->receive, t->count, t->type, op, t->comm, NULL));
  compare(t, "scaled AllReduce", 1);

  prepare(t, n, 1, own);
  expect_scaled(t, own * t->count);
  OK(ncclReduceScatter(t->send, t->receive, t->count, t->type, op, t->comm, NULL));
  compare(t, "scaled ReduceScatter", 1);

  OK(ncclRedOpDestroy(op, t->comm));
  OK(ncclRedOpCreatePreMulSum(&op, scalar, t->type, ncclScalarDevice, t->comm));
  prepare(t, 1, 1, 0);
  expect_scaled(t, 0);
  OK(ncclGroupStart());
  OK(ncclReduce(t->send, t->receive, t->count, t->type, op, t->ranks - 1, t->comm, NULL));
  OK(ncclRedOpDestroy(op, t->comm));
  OK(ncclGroupEnd());
  compare(t, "scaled Reduce", t->rank == t->ranks - 1 ? 1 : 0);
}

static inline void try_moves(struct trial* t) {
  size_t own = (size_t)t->rank, n = (size_t)t->ranks;
  prepare(t, 1, n, own);
  for (size_t b = 0; b < n; b++) expect_block(t, b, (int)b, 0);
  OK(ncclAllGather(t->send, t->receive, t->count, t->type, t->comm, NULL));
  compare(t, "AllGather", n);

  prepare(t, n, n, 0);
  for (size_t b = 0; b < n; b++) expect_block(t, b, (int)b, own);
  OK(ncclAlltoAll(t->send, t->receive, t->count, t->type, t->comm, NULL));
  compare(t, "AlltoAll", n);
}

static inline void try_roots(struct trial* t, int root) {
  size_t own = (size_t)t->rank, n = (size_t)t->ranks;
  prepare(t, 1, 1, 0);
  expect_block(t, 0, root, 0);
  OK(ncclBroadcast(t->send, t->receive, t->count, t->type, root, t->comm, NULL));
  compare(t, "Broadcast", 1);

  prepare(t, 1, 1, 0);
  expect_block(t, 0, root, 0);
  OK(ncclBcast(t->send, t->count, t->type, root, t->comm, NULL));
  t->receive = t->send;
  compare(t, "Bcast", 1);

  prepare(t, 1, n, own);
  for (size_t b = 0; b < n; b++) expect_block(t, b, (int)b, 0);
  OK(ncclGather(t->send, t->receive, t->count, t->type, root, t->comm, NULL));
  compare(t, "Gather", root == t->rank ? n : 0);

  prepare(t, n, 1, own);
  expect_block(t, 0, root, own);
  OK(ncclScatter(t->send, t->receive, t->count, t->type, root, t->comm, NULL));
  compare(t, "Scatter", 1);
}

/* Everything for one type, count and placement; all operators whose results are exact. */
static inline void try_all(struct trial* t) {
  int exact_mean = (t->ranks & (t->ranks - 1)) == 0 || is_integer(t->type);
  for (int op = ncclSum; op <= ncclAvg; op++) {
    if (op == ncclAvg && !exact_mean) continue;
    try_reductions(t, (ncclRedOp_t)op);
  }
  /* Up to 12, which is more than one float can count to. */
  if (t->type != ncclFloat8e5m2 && (t->ranks <= 4 || is_integer(t->type))) try_scaled(t);
  try_moves(t);
  for (int root = 0; root < t->ranks; root++) try_roots(t, root);
}

#endif
