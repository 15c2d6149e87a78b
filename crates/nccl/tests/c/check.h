/* What every test program needs: checks that say what they expected and end the program. */
#ifndef CHECK_H_
#define CHECK_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl.h"

#define CHECK(condition) check_((condition) != 0, __FILE__, __LINE__, #condition)
#define OK(call) code_((call), ncclSuccess, __FILE__, __LINE__, #call)
#define REFUSED(code, call) code_((call), (code), __FILE__, __LINE__, #call)
/* The last warning of the process contains this text. Where ranks are threads, any of them may have
   warned of something else since; then nothing is checked. */
#define SAYS(text) (ranks_are_threads ? (void)0 : says_((text), __FILE__, __LINE__))

static int ranks_are_threads __attribute__((unused));

static inline void check_(int holds, const char* file, int line, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s:%d: does not hold: %s\n  last error: %s\n", file, line, what,
          ncclGetLastError(NULL));
  exit(1);
}

static inline void code_(ncclResult_t found, ncclResult_t expected, const char* file, int line,
                         const char* call) {
  if (found == expected) return;
  fprintf(stderr, "%s:%d: %s\n  found %d (%s), expected %d\n  last error: %s\n", file, line, call,
          found, ncclGetErrorString(found), expected, ncclGetLastError(NULL));
  exit(1);
}

static inline void says_(const char* text, const char* file, int line) {
  const char* found = ncclGetLastError(NULL);
  if (strstr(found, text) != NULL) return;
  fprintf(stderr, "%s:%d: the last error is \"%s\", expected \"%s\"\n", file, line, found, text);
  exit(1);
}

/* This process, of which rank `rank` is the first, pretends to be one of several hosts, if PER_HOST says how
 * many ranks a host has. Before the first call of the library. */
static inline void pretend_host(int rank) {
  const char* per_host = getenv("PER_HOST");
  char name[32];
  if (per_host == NULL) return;
  snprintf(name, sizeof name, "host%d", rank / atoi(per_host));
  setenv("NCCL_HOSTID", name, 1);
}

#endif
