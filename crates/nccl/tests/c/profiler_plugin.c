/* A profiler plugin that writes a line for each thing that it learns, to the file PROFILE_TO.
 * Compiled with -DVERSION=4, 5 or 6; with -DFAILS its init fails. The mask comes from
 * NCCL_PROFILE_EVENT_MASK. Events are numbered; a parent is named by its number. The structures are
 * those of NCCL's interface. */
#include <nccl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  GROUP = 1,
  COLL = 2,
  P2P = 4,
  KERNEL_CH = 64,
  GROUP_API = 256,
  COLL_API = 512,
  P2P_API = 1024,
  LAUNCH = 2048
};

typedef void (*logger)(int level, unsigned long flags, const char* file, int line,
                       const char* format, ...);

struct coll {
  uint64_t number;
  const char* function;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* type;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
#if VERSION >= 5
  void* group;
#endif
};

struct p2p {
  const char* function;
  void* buffer;
  const char* type;
  size_t count;
  int peer;
  uint8_t channels;
#if VERSION >= 5
  void* group;
#endif
};

struct descriptor {
#if VERSION >= 5
  uint64_t type;
#else
  uint8_t type;
#endif
  void* parent;
  int rank;
  union {
#if VERSION >= 5
    struct {
      bool captured;
      int depth;
    } group_api;
    struct {
      const char* function;
      size_t count;
      const char* type;
      int root;
      void* stream;
      bool captured;
    } coll_api;
    struct {
      const char* function;
      size_t count;
      const char* type;
      void* stream;
      bool captured;
    } p2p_api;
    struct {
      void* stream;
    } launch;
#endif
    struct coll coll;
    struct p2p p2p;
    struct {
      uint8_t channel;
      uint64_t timer;
    } kernel;
  };
};

union arguments {
  uint64_t timer;
};

/* One for each communicator, and one for each event. */
struct context {
  int rank;
  int open;
};
struct event {
  long number;
  int stopped;
  uint64_t timer;
  struct context* context;
};

static FILE* out;
static long events, open_contexts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static long number_of(void* event) { return event == NULL ? 0 : ((struct event*)event)->number; }

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void say(const char* format, ...) {
  va_list list;
  va_start(list, format);
  pthread_mutex_lock(&lock);
  if (out == NULL) out = fopen(getenv("PROFILE_TO"), "w");
  fprintf(out, "%llu ", (unsigned long long)now());
  vfprintf(out, format, list);
  fputc('\n', out);
  fflush(out);
  pthread_mutex_unlock(&lock);
  va_end(list);
}

static ncclResult_t init_any(void** context, int* mask, const char* name, uint64_t id, int nodes,
                             int ranks, int rank, logger log) {
#ifdef FAILS
  (void)context, (void)mask, (void)name, (void)id, (void)nodes, (void)ranks, (void)rank, (void)log;
  return ncclSystemError;
#else
  struct context* made = malloc(sizeof *made);
  made->rank = rank;
  made->open = 0;
  *context = made;
  *mask = getenv("NCCL_PROFILE_EVENT_MASK") ? atoi(getenv("NCCL_PROFILE_EVENT_MASK")) : 0;
  log(3, 1, __FILE__, __LINE__, "plugin says %s %d %.2f %ld %ld %s", "text", -7, 1.5,
      1234567890123L, 5L, "end");
  say("init rank=%d ranks=%d nodes=%d name=%s id=%d", rank, ranks, nodes, name == NULL ? "-" : name,
      id != 0);
  __atomic_add_fetch(&open_contexts, 1, __ATOMIC_SEQ_CST);
  return ncclSuccess;
#endif
}

#if VERSION == 4
static ncclResult_t init(void** context, int* mask, const char* name, uint64_t id, int nodes,
                         int ranks, int rank, logger log) {
  return init_any(context, mask, name, id, nodes, ranks, rank, log);
}
#else
static ncclResult_t init(void** context, uint64_t id, int* mask, const char* name, int nodes,
                         int ranks, int rank, logger log) {
  return init_any(context, mask, name, id, nodes, ranks, rank, log);
}
#endif

static ncclResult_t start(void* context, void** handle, struct descriptor* of) {
  struct event* event = calloc(1, sizeof *event);
  int rank = ((struct context*)context)->rank;
  event->number = __atomic_add_fetch(&events, 1, __ATOMIC_SEQ_CST);
  event->context = context;
  __atomic_add_fetch(&event->context->open, 1, __ATOMIC_SEQ_CST);
  *handle = event;
  long own = event->number, parent = number_of(of->parent);
  if (of->parent != NULL && rank != of->rank && of->type != GROUP) abort();
  switch (of->type) {
    case GROUP:
      say("start %ld Group in=%ld rank=%d", own, parent, rank);
      break;
    case COLL: {
      long group = 0;
#if VERSION >= 5
      group = number_of(of->coll.group);
#endif
      say("start %ld Coll in=%ld rank=%d func=%s count=%zu type=%s root=%d number=%llu channels=%d "
          "warps=%d algo=%s "
          "proto=%s send=%d receive=%d group=%ld",
          own, parent, rank, of->coll.function, of->coll.count, of->coll.type, of->coll.root,
          (unsigned long long)of->coll.number, of->coll.channels, of->coll.warps,
          of->coll.algorithm, of->coll.protocol, of->coll.send != NULL, of->coll.receive != NULL,
          group);
      break;
    }
    case P2P: {
      long group = 0;
#if VERSION >= 5
      group = number_of(of->p2p.group);
#endif
      say("start %ld P2p in=%ld rank=%d func=%s count=%zu type=%s peer=%d channels=%d buffer=%d "
          "group=%ld",
          own, parent, rank, of->p2p.function, of->p2p.count, of->p2p.type, of->p2p.peer,
          of->p2p.channels, of->p2p.buffer != NULL, group);
      break;
    }
    case KERNEL_CH:
      event->timer = of->kernel.timer;
      say("start %ld KernelCh in=%ld rank=%d channel=%d timer=%llu", own, parent, rank,
          of->kernel.channel, (unsigned long long)of->kernel.timer);
      break;
#if VERSION >= 5
    case GROUP_API:
      say("start %ld GroupApi in=%ld rank=%d depth=%d captured=%d", own, parent, rank,
          of->group_api.depth, of->group_api.captured);
      break;
    case COLL_API:
      say("start %ld CollApi in=%ld rank=%d func=%s count=%zu type=%s root=%d captured=%d", own,
          parent, rank, of->coll_api.function, of->coll_api.count, of->coll_api.type,
          of->coll_api.root, of->coll_api.captured);
      break;
    case P2P_API:
      say("start %ld P2pApi in=%ld rank=%d func=%s count=%zu type=%s captured=%d", own, parent,
          rank, of->p2p_api.function, of->p2p_api.count, of->p2p_api.type, of->p2p_api.captured);
      break;
    case LAUNCH:
      say("start %ld KernelLaunch in=%ld rank=%d", own, parent, rank);
      break;
#endif
    default:
      say("start %ld unknown type %llu", own, (unsigned long long)of->type);
      break;
  }
  return ncclSuccess;
}

/* Events are kept, so that one that is used after its end is noticed. */
static ncclResult_t stop(void* handle) {
  struct event* event = handle;
  say("stop %ld%s", event->number, event->stopped ? " again" : "");
  event->stopped = 1;
  __atomic_sub_fetch(&event->context->open, 1, __ATOMIC_SEQ_CST);
  return ncclSuccess;
}

static ncclResult_t record(void* handle, int state, union arguments* arguments) {
  struct event* event = handle;
  if (state == 22) {
    say("state %ld 22 timer=%llu took=%lld", event->number, (unsigned long long)arguments->timer,
        (long long)(arguments->timer - event->timer));
  } else {
    say("state %ld %d", event->number, state);
  }
  return ncclSuccess;
}

/* No event of a communicator outlives it. */
static ncclResult_t finalize(void* context) {
  if (((struct context*)context)->open != 0) abort();
  say("finalize rank=%d open=%ld", ((struct context*)context)->rank,
      __atomic_sub_fetch(&open_contexts, 1, __ATOMIC_SEQ_CST));
  free(context);
  return ncclSuccess;
}

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

__attribute__((visibility("default"))) struct {
  const char* name;
  ncclResult_t (*init)();
  ncclResult_t (*start)(void*, void**, struct descriptor*);
  ncclResult_t (*stop)(void*);
  ncclResult_t (*record)(void*, int, union arguments*);
  ncclResult_t (*finalize)(void*);
} JOIN(ncclProfiler_v, VERSION) = {"recorder", (ncclResult_t (*)())init, start, stop, record,
                                   finalize};
