/* Takes the heap of a program of the guest at once. Preloaded (LD_PRELOAD), it lets the C library have HEAP_MIB
 * mebibytes, in one piece of the guest's memory, before the program begins, and keep all that is freed. Programs that
 * this one starts have what they need and no more. README.md, "Processors and memory", says what for. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* All pages of `bytes` bytes from `start` on, but for parts of pages at the ends. */
static int populate(char *start, size_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)start + page - 1) / page * page;
    uintptr_t to = ((uintptr_t)start + bytes) / page * page;
    return madvise((void *)from, to - from, MADV_POPULATE_WRITE);
}

__attribute__((constructor)) static void take(void) {
    const char *wish = getenv("HEAP_MIB");
    if (!wish)
        return;
    size_t bytes = (size_t)strtoull(wish, NULL, 10) << 20;
    unsetenv("HEAP_MIB");
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    char *heap = malloc(bytes);
    if (!heap || populate(heap, bytes)) {
        fprintf(stderr, "heap.so: %s MiB cannot be had: %m\n", wish);
        exit(1);
    }
    free(heap);
}
