/* Breaks queue pairs of a program of the guest, as a device does that gives them up. Preloaded (LD_PRELOAD), it
 * remembers the queue pairs that the program has. Each byte that is written into the named pipe
 * /run/pairs.PID, where PID is that of the program, puts the youngest of them into its error state. The pipe is
 * there as soon as there is a queue pair. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 65536

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct ibv_qp *pairs[MOST];
static int count;
static char path[64];

static void give_up(const char *what) {
    perror(what);
    abort();
}

/* The library's own function of that name. */
static void *verb(const char *name) {
    void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *function = library ? dlsym(library, name) : NULL;
    if (!function) give_up(name);
    return function;
}

static void break_youngest(void) {
    int (*modify)(struct ibv_qp *, struct ibv_qp_attr *, int) = verb("ibv_modify_qp");
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    pthread_mutex_lock(&turn);
    if (count > 0) {
        fprintf(stderr, "pairs: queue pair %u is broken now\n", pairs[count - 1]->qp_num);
        if (modify(pairs[count - 1], &error, IBV_QP_STATE)) give_up("ibv_modify_qp");
    }
    pthread_mutex_unlock(&turn);
}

static void *listen_to_pipe(void *nothing) {
    char byte;
    /* Open for writing as well, so that it never ends. */
    int pipe = open(path, O_RDWR | O_CLOEXEC);
    if (pipe < 0) give_up(path);
    while (read(pipe, &byte, 1) == 1 || errno == EINTR) break_youngest();
    return nothing;
}

static void remove_pipe(void) { unlink(path); }

static void begin(void) {
    pthread_t thread;
    snprintf(path, sizeof path, "/run/pairs.%d", getpid());
    if (mkfifo(path, 0600)) give_up(path);
    atexit(remove_pipe);
    if (pthread_create(&thread, NULL, listen_to_pipe, NULL)) give_up("pthread_create");
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *domain, struct ibv_qp_init_attr *wish) {
    struct ibv_qp *(*create)(struct ibv_pd *, struct ibv_qp_init_attr *) = verb("ibv_create_qp");
    pthread_once(&once, begin);
    struct ibv_qp *pair = create(domain, wish);
    pthread_mutex_lock(&turn);
    if (pair && count < MOST) pairs[count++] = pair;
    pthread_mutex_unlock(&turn);
    return pair;
}

int ibv_destroy_qp(struct ibv_qp *pair) {
    int (*destroy)(struct ibv_qp *) = verb("ibv_destroy_qp");
    pthread_mutex_lock(&turn);
    int at = 0;
    while (at < count && pairs[at] != pair) at++;
    if (at < count) count--;
    for (; at < count; at++) pairs[at] = pairs[at + 1];
    pthread_mutex_unlock(&turn);
    return destroy(pair);
}
