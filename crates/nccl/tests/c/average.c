/* Averages of numbers so large that their sum overflows, and of integers whose sum wraps. */
#include "ranks.h"

#include <math.h>
#include <stdint.h>

struct format {
  ncclDataType_t type;
  int bytes, exponent_bits, fraction_bits;
  uint64_t largest; /* the bits of the largest finite number */
};

static const struct format formats[] = {
    {ncclFloat16, 2, 5, 10, 0x7bff},     {ncclBfloat16, 2, 8, 7, 0x7f7f},
    {ncclFloat32, 4, 8, 23, 0x7f7fffff}, {ncclFloat64, 8, 11, 52, 0x7fefffffffffffff},
    {ncclFloat8e4m3, 1, 4, 3, 0x7e},     {ncclFloat8e5m2, 1, 5, 2, 0x7b},
};

/* Of a finite normal number without its sign. */
static double number(const struct format* of, uint64_t bits) {
  uint64_t fraction = bits & ((1ull << of->fraction_bits) - 1);
  int exponent = (int)(bits >> of->fraction_bits) - (1 << (of->exponent_bits - 1)) + 1;
  return ldexp((double)(fraction | 1ull << of->fraction_bits), exponent - of->fraction_bits);
}

/* The largest, less than it and their negatives, the same on all ranks, in place and scattered. */
static void try_floats(struct rank* self, const struct format* of) {
  enum { BLOCK = 4 };
  uint64_t sign = 1ull << (8 * of->bytes - 1), less = of->largest - 2;
  uint64_t given[BLOCK] = {of->largest, of->largest | sign, less, less | sign};
  char all[64 * BLOCK * 8], part[BLOCK * 8];
  for (int at = 0; at < self->ranks * BLOCK; at++) {
    memcpy(all + at * of->bytes, &given[at % BLOCK], (size_t)of->bytes);
  }
  OK(ncclReduceScatter(all, part, BLOCK, of->type, ncclAvg, self->comm, NULL));
  OK(ncclAllReduce(all, all, BLOCK, of->type, ncclAvg, self->comm, NULL));
  for (int at = 0; at < 2 * BLOCK; at++) {
    uint64_t found = 0;
    memcpy(&found, (at < BLOCK ? all : part) + at % BLOCK * of->bytes, (size_t)of->bytes);
    CHECK((found & sign) == (given[at % BLOCK] & sign));
    CHECK((found & ~sign) <= of->largest);
    double expected = number(of, given[at % BLOCK] & ~sign), mean = number(of, found & ~sign);
    /* The factor and every product and sum are rounded once. */
    double off = (self->ranks + 1) * ldexp(expected, -of->fraction_bits - 1);
    CHECK(fabs(mean - expected) <= off);
  }
}

static void try_integers(struct rank* self) {
  int n = self->ranks;
  int8_t small[] = {100, -100, (int8_t)(-1 - self->rank), 7};
  const int8_t sums[] = {(int8_t)(100 * n), (int8_t)(-100 * n), (int8_t)(-n * (n + 1) / 2), (int8_t)(7 * n)};
  OK(ncclAllReduce(small, small, 4, ncclInt8, ncclAvg, self->comm, NULL));
  for (int at = 0; at < 4; at++) CHECK(small[at] == sums[at] / n);
  uint8_t natural[] = {200, 255};
  OK(ncclAllReduce(natural, natural, 2, ncclUint8, ncclAvg, self->comm, NULL));
  CHECK(natural[0] == (uint8_t)(200 * n) / n && natural[1] == (uint8_t)(255 * n) / n);
  int64_t large[] = {1ll << 62, -(1ll << 62)};
  OK(ncclAllReduce(large, large, 2, ncclInt64, ncclAvg, self->comm, NULL));
  CHECK(large[0] == (int64_t)((uint64_t)n << 62) / n);
  CHECK(large[1] == (int64_t)(-(uint64_t)n << 62) / n);
}

/* The same as a sum that is scaled by one over the number of ranks. */
static void try_scaled(struct rank* self) {
  enum { COUNT = 3000 };
  static _Thread_local float mean[COUNT], sum[COUNT];
  float factor = 1.0f / (float)self->ranks;
  for (int at = 0; at < COUNT; at++) mean[at] = sum[at] = (float)(at * 7 + self->rank) / 3;
  ncclRedOp_t op;
  OK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, self->comm));
  OK(ncclAllReduce(sum, sum, COUNT, ncclFloat32, op, self->comm, NULL));
  OK(ncclAllReduce(mean, mean, COUNT, ncclFloat32, ncclAvg, self->comm, NULL));
  CHECK(memcmp(mean, sum, sizeof mean) == 0);
  OK(ncclRedOpDestroy(op, self->comm));
}

static void try_rank(struct rank* self) {
  for (size_t at = 0; at < sizeof formats / sizeof *formats; at++) try_floats(self, &formats[at]);
  try_integers(self);
  try_scaled(self);
  OK(ncclCommDestroy(self->comm));
}

int main(void) {
  static const int sizes[] = {1, 2, 3, 4, 7, 16};
  for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) on_ranks(sizes[at], try_rank);
  return 0;
}
