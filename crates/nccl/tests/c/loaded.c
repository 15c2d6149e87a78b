/* The library as programs load it that were not linked against it, and may unload it: while it still has threads, and
 * a handler for a signal. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "check.h"

/* What the program knows of the library. */
static struct {
  void* library;
  ncclResult_t (*init_all)(ncclComm_t*, int, const int*);
  ncclResult_t (*all_reduce)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                             cudaStream_t);
  ncclResult_t (*group_start)(void);
  ncclResult_t (*group_end)(void);
  ncclResult_t (*destroy)(ncclComm_t);
} nccl;

static void* look_up(const char* name) {
  void* found = dlsym(nccl.library, name);
  if (found == NULL) {
    fprintf(stderr, "%s: %s\n", name, dlerror());
    exit(1);
  }
  return found;
}

static void fine(ncclResult_t result) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "a call gave %d\n", result);
  exit(1);
}

static void load(void) {
  nccl.library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (nccl.library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  *(void**)&nccl.init_all = look_up("ncclCommInitAll");
  *(void**)&nccl.all_reduce = look_up("ncclAllReduce");
  *(void**)&nccl.group_start = look_up("ncclGroupStart");
  *(void**)&nccl.group_end = look_up("ncclGroupEnd");
  *(void**)&nccl.destroy = look_up("ncclCommDestroy");
}

static void* use(void* comms) {
  int values[2] = {1, 2};
  ncclComm_t* both = comms;
  fine(nccl.init_all(both, 2, NULL));
  fine(nccl.group_start());
  for (int r = 0; r < 2; r++) {
    fine(nccl.all_reduce(&values[r], &values[r], 1, ncclInt, ncclSum, both[r], NULL));
  }
  fine(nccl.group_end());
  if (values[0] != 3 || values[1] != 3) exit(1);
  return NULL;
}

/* Loads the library, uses it in a thread that ends, and closes it; ends communicators before or leaves them. */
static void load_use_and_close(int ends) {
  ncclComm_t comms[2];
  pthread_t thread;
  load();
  if (pthread_create(&thread, NULL, use, comms) != 0 || pthread_join(thread, NULL) != 0) exit(1);
  for (int r = 0; ends && r < 2; r++) fine(nccl.destroy(comms[r]));
  if (dlclose(nccl.library) != 0) exit(1);
}

int main(int count, char** arguments) {
  (void)arguments;
  load_use_and_close(count == 1);
  /* Whoever was to be told something by it is told something still. */
  raise(SIGUSR1);
  usleep(300 * 1000);
  load_use_and_close(count == 1);
  puts("loaded: ok");
  return 0;
}
