/* What a process uses of the system. */
#ifndef USAGE_H_
#define USAGE_H_

#include <dirent.h>

#include "check.h"

/* Pages of memory: mapped, and of these in memory. */
struct pages {
  long mapped, resident;
};

static inline struct pages pages(void) {
  struct pages found = {0, 0};
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%ld %ld", &found.mapped, &found.resident) == 2);
  fclose(file);
  return found;
}

static inline int descriptors(void) {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  CHECK(folder != NULL);
  while (readdir(folder) != NULL) count++;
  closedir(folder);
  return count;
}

#endif
