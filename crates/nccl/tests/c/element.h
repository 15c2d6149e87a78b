/* Elements of every data type, from and to numbers that all of them hold exactly. */
#ifndef ELEMENT_H_
#define ELEMENT_H_

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "nccl.h"

static const char* const type_names[] = {"int8",   "uint8",   "int32",    "uint32",
                                         "int64",  "uint64",  "float16",  "float32",
                                         "float64", "bfloat16", "float8e4m3", "float8e5m2"};

static inline size_t size_of(ncclDataType_t type) {
  static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return sizes[type];
}

static inline int is_integer(ncclDataType_t type) { return type <= ncclUint64; }

/* The bits of a small positive number in a float of so many exponent and fraction bits. */
static inline uint32_t bits_of(double value, int exponent_bits, int fraction_bits) {
  if (value == 0) return 0;
  int exponent;
  double fraction = frexp(value, &exponent) * 2 - 1;
  int biased = exponent - 1 + (1 << (exponent_bits - 1)) - 1;
  return ((uint32_t)biased << fraction_bits) | (uint32_t)ldexp(fraction, fraction_bits);
}

/* Writes `value` as element `index`; integers drop the fraction. */
static inline void put(void* buffer, ncclDataType_t type, size_t index, double value) {
  char* to = (char*)buffer + index * size_of(type);
  int64_t integer = (int64_t)value;
  float single = (float)value;
  uint32_t bits = 0;
  switch (type) {
    case ncclFloat16: bits = bits_of(value, 5, 10); break;
    case ncclBfloat16: bits = bits_of(value, 8, 7); break;
    case ncclFloat8e4m3: bits = bits_of(value, 4, 3); break;
    case ncclFloat8e5m2: bits = bits_of(value, 5, 2); break;
    case ncclFloat32: memcpy(to, &single, sizeof single); return;
    case ncclFloat64: memcpy(to, &value, sizeof value); return;
    default: memcpy(to, &integer, size_of(type)); return;
  }
  memcpy(to, &bits, size_of(type));
}

/* What rank `rank` contributes as element `index`: 1 or 2, so that the sum of four of them, their
 * product and their mean are exact in every type. */
static inline double contribution(int rank, size_t index) {
  return 1 + (double)((index * 5 + (size_t)rank * 3 + index / 7) % 2);
}

/* What `op` makes of the contributions of `ranks` ranks. */
static inline double combined(ncclRedOp_t op, int ranks, size_t index) {
  double result = contribution(0, index);
  for (int rank = 1; rank < ranks; rank++) {
    double next = contribution(rank, index);
    switch (op) {
      case ncclProd: result *= next; break;
      case ncclMax: result = next > result ? next : result; break;
      case ncclMin: result = next < result ? next : result; break;
      default: result += next; break;
    }
  }
  return op == ncclAvg ? result / ranks : result;
}

#endif
