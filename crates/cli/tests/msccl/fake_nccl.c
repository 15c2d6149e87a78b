/* A library with the NCCL interface that works on host memory, for tests of `msccl bench`: ranks
 * meet in a file named by the unique id, and every rank computes its output from all inputs.
 *
 * What it can: float, int32 and bytes; sum, max and the rest by copying; every collective that the
 * benchmark calls by name, but no sends and receives. What goes wrong on purpose is asked for by
 * variables: FAKE_HANG, FAKE_DIE, FAKE_FAIL and FAKE_WRONG hold a rank; FAKE_SAY is printed; FAKE_JOINED is a file
 * in which rank 0 notes FAKE_NAME when it joins; FAKE_NEEDS is 1 or 2
 * and makes calls fail unless their buffers are the library's own, and registered or windows. For tests of
 * `msccl tune`, FAKE_CHOICES holds ways to serve calls: `good`, `slow`, `wrong`, `dying` or `broken`, with commas
 * between; after a `broken` one nothing works before ranks join again. */

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM (4u << 20)

typedef struct { char bytes[128]; } Id;
typedef struct { _Atomic uint64_t arrivals; char pad[4088]; char data[]; } Shared;
typedef struct { char *start; size_t bytes; int own, kind; } Range;
typedef struct {
    Shared *shared;
    int rank, ranks;
    uint64_t passed;
    char path[160], pinned[16];
    int broken, registered;
    Range ranges[2];
} Comm;

static Range given[64];
static _Atomic int given_count;

static int is(const char *name, int rank) {
    const char *value = getenv(name);
    return value && atoi(value) == rank;
}

static void meet(Comm *comm) {
    uint64_t all = ++comm->passed * comm->ranks;
    atomic_fetch_add(&comm->shared->arrivals, 1);
    while (atomic_load(&comm->shared->arrivals) < all) sched_yield();
}

static char *part(Comm *comm, int rank) { return comm->shared->data + (size_t)rank * ROOM; }

static size_t size_of(int type) {
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return sizes[type];
}

int ncclGetVersion(int *version) { *version = 22809; return 0; }

int ncclGetUniqueId(Id *id) {
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "/dev/shm/fake-nccl-%d-%d", getpid(), rand());
    return 0;
}

int ncclCommInitRank(Comm **comm, int ranks, Id id, int rank) {
    const char *say = getenv("FAKE_SAY");
    if (say) printf("%s\n", say), fflush(stdout);
    const char *joined = getenv("FAKE_JOINED");
    FILE *notes = joined && rank == 0 ? fopen(joined, "a") : NULL;
    if (notes) fprintf(notes, "%s\n", getenv("FAKE_NAME")), fclose(notes);
    *comm = calloc(1, sizeof **comm);
    (*comm)->rank = rank, (*comm)->ranks = ranks;
    memcpy((*comm)->path, id.bytes, sizeof id.bytes);
    size_t size = sizeof(Shared) + (size_t)ranks * ROOM;
    int file = open(id.bytes, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, size)) return 2;
    (*comm)->shared = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    meet(*comm);
    if (rank == 0) unlink(id.bytes);
    return 0;
}

int ncclCommDestroy(Comm *comm) {
    int forgotten = comm->registered;
    meet(comm);
    free(comm);
    return forgotten ? 5 : 0;
}

int ncclMemAlloc(void **memory, size_t bytes) {
    int index = atomic_fetch_add(&given_count, 1);
    if (index >= 64 || posix_memalign(memory, 4096, bytes)) return 2;
    memset(*memory, 0x55, bytes);
    given[index] = (Range){*memory, bytes, 1, 0};
    return 0;
}

/* Takes up a range of the given kind; its handle is its number, from 1. */
static int take_up(Comm *comm, void *buffer, size_t bytes, void **handle, int kind) {
    if (comm->registered == 2) return 5;
    int own = 0;
    for (int i = 0; i < given_count && i < 64; i++) own |= given[i].start == buffer && given[i].bytes == bytes;
    comm->ranges[comm->registered] = (Range){buffer, bytes, own, kind};
    *handle = (void *)(intptr_t)++comm->registered;
    return 0;
}

static int give_back(Comm *comm, void *handle, int kind) {
    intptr_t number = (intptr_t)handle;
    if (number < 1 || number > 2 || comm->ranges[number - 1].kind != kind) return 4;
    comm->ranges[number - 1].kind = 0, comm->registered--;
    return 0;
}

int ncclCommRegister(Comm *comm, void *buffer, size_t bytes, void **handle) {
    return take_up(comm, buffer, bytes, handle, 1);
}

int ncclCommWindowRegister(Comm *comm, void *buffer, size_t bytes, void **window, int flags) {
    if (flags != 1) return 4;
    meet(comm);
    return take_up(comm, buffer, bytes, window, 2);
}

int ncclCommDeregister(Comm *comm, void *handle) { return give_back(comm, handle, 1); }
int ncclCommWindowDeregister(Comm *comm, void *window) { return give_back(comm, window, 2); }

/* Whether `bytes` bytes at `at` are what FAKE_NEEDS asks for. */
static int suits(Comm *comm, const char *at, size_t bytes) {
    const char *needs = getenv("FAKE_NEEDS");
    int found = !needs;
    for (int i = 0; i < 2 && needs; i++) {
        Range *range = &comm->ranges[i];
        int inside = at >= range->start && at + bytes <= range->start + range->bytes;
        found |= inside && range->own && range->kind == atoi(needs);
    }
    return found;
}

int ncclCommGetAsyncError(Comm *comm, int *error) { (void)comm; *error = 0; return 0; }
const char *ncclGetErrorString(int code) { return code == 4 ? "invalid argument" : "fake"; }
const char *ncclGetLastError(Comm *comm) { (void)comm; return "as the test wants it"; }

int mscclCommChoices(Comm *comm, const char *collective, int in_place, int type, int op, int root, size_t count,
                     char *text, size_t capacity) {
    (void)comm, (void)collective, (void)in_place, (void)type, (void)op, (void)root, (void)count;
    const char *choices = getenv("FAKE_CHOICES");
    for (const char *name = choices; name && *name; name += strcspn(name, ","), name += *name == ',') {
        int length = strcspn(name, ",");
        int written = snprintf(text, capacity, "Simple staged 1 512 %.*s\n", length, name);
        text += written, capacity -= written;
    }
    return 0;
}

/* Groups: calls are made at once as they come, and an end without a begin is refused. */
static _Thread_local int open_groups;
int ncclGroupStart(void) { open_groups++; return 0; }
int ncclGroupEnd(void) { return open_groups-- > 0 ? 0 : 5; }

int mscclCommPin(Comm *comm, const char *choice) {
    const char *name = choice ? strrchr(choice, ' ') + 1 : "";
    snprintf(comm->pinned, sizeof comm->pinned, "%s", name);
    return strcmp(name, "strange") == 0 ? 4 : 0;
}

static void add(char *to, const char *from, size_t count, int type, int op) {
    for (size_t i = 0; i < count; i++) {
        if (type == 7) {
            float *a = (float *)to + i, b = ((const float *)from)[i];
            *a = op == 0 ? *a + b : op == 1 ? *a * b : op == 2 ? (*a > b ? *a : b) : (*a < b ? *a : b);
        } else {
            int32_t *a = (int32_t *)to + i, b = ((const int32_t *)from)[i];
            *a = op == 0 ? (int32_t)((uint32_t)*a + (uint32_t)b)
               : op == 1 ? (int32_t)((uint32_t)*a * (uint32_t)b)
               : op == 2 ? (*a > b ? *a : b) : (*a < b ? *a : b);
        }
    }
}

static int begin(Comm *comm, const void *send, size_t bytes) {
    if (is("FAKE_FAIL", comm->rank) || !suits(comm, send, bytes)) return 4;
    comm->broken |= strcmp(comm->pinned, "broken") == 0;
    if (comm->broken) return 1;
    if (is("FAKE_DIE", comm->rank) || strcmp(comm->pinned, "dying") == 0) { fprintf(stderr, "alas\n"); abort(); }
    if (is("FAKE_HANG", comm->rank)) for (;;) sleep(1);
    if (bytes > ROOM) return 5;
    memcpy(part(comm, comm->rank), send, bytes);
    meet(comm);
    return 0;
}

static int end(Comm *comm, char *receive, size_t bytes) {
    if (!suits(comm, receive, bytes)) return 4;
    int wrong = is("FAKE_WRONG", comm->rank) || strcmp(comm->pinned, "wrong") == 0;
    if (bytes && wrong) receive[bytes - 1] ^= 1;
    if (strcmp(comm->pinned, "slow") == 0) usleep(2000);
    meet(comm);
    return 0;
}

/* Block `block` of every input, reduced. */
static void reduced(Comm *comm, char *to, size_t block, size_t count, int type, int op) {
    size_t bytes = count * size_of(type);
    memcpy(to, part(comm, 0) + block * bytes, bytes);
    for (int rank = 1; rank < comm->ranks; rank++)
        add(to, part(comm, rank) + block * bytes, count, type, op);
}

int ncclAllReduce(const void *send, void *receive, size_t count, int type, int op, Comm *comm, void *stream) {
    (void)stream;
    int error = begin(comm, send, count * size_of(type));
    if (error) return error;
    reduced(comm, receive, 0, count, type, op);
    return end(comm, receive, count * size_of(type));
}

int ncclReduceScatter(const void *send, void *receive, size_t count, int type, int op, Comm *comm, void *stream) {
    (void)stream;
    int error = begin(comm, send, count * size_of(type) * comm->ranks);
    if (error) return error;
    reduced(comm, receive, comm->rank, count, type, op);
    return end(comm, receive, count * size_of(type));
}

int ncclAllGather(const void *send, void *receive, size_t count, int type, Comm *comm, void *stream) {
    (void)stream;
    size_t bytes = count * size_of(type);
    int error = begin(comm, send, bytes);
    if (error) return error;
    for (int rank = 0; rank < comm->ranks; rank++)
        memcpy((char *)receive + rank * bytes, part(comm, rank), bytes);
    return end(comm, receive, bytes * comm->ranks);
}

int ncclAlltoAll(const void *send, void *receive, size_t count, int type, Comm *comm, void *stream) {
    (void)stream;
    size_t bytes = count * size_of(type);
    int error = begin(comm, send, bytes * comm->ranks);
    if (error) return error;
    for (int rank = 0; rank < comm->ranks; rank++)
        memcpy((char *)receive + rank * bytes, part(comm, rank) + comm->rank * bytes, bytes);
    return end(comm, receive, bytes * comm->ranks);
}

int ncclBroadcast(const void *send, void *receive, size_t count, int type, int root, Comm *comm, void *stream) {
    (void)stream;
    size_t bytes = count * size_of(type);
    int error = begin(comm, send, bytes);
    if (error) return error;
    memcpy(receive, part(comm, root), bytes);
    return end(comm, receive, bytes);
}
