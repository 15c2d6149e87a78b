/* Every function of the header that gives a result through a pointer: what lies there when the call has failed, whatever was wrong, and
 * that it refuses to have no place for it. */
#include "check.h"
#include "msccl.h"

/* What a call is given wrong, apart from its communicator. */
enum wrong { NOTHING, ARGUMENT, OTHER_ARGUMENT, WRONGS };

static ncclUniqueId good_id, zero_id;
static ncclConfig_t bad_config = NCCL_CONFIG_INITIALIZER;
static float half = 0.5f;
static char buffer[8192] __attribute__((aligned(4096)));

static ncclResult_t version(ncclComm_t comm, void* out, enum wrong wrong) {
  (void)comm, (void)wrong;
  return ncclGetVersion(out);
}
static ncclResult_t unique_id(ncclComm_t comm, void* out, enum wrong wrong) {
  (void)comm, (void)wrong;
  return ncclGetUniqueId(out);
}
static ncclResult_t init_rank(ncclComm_t comm, void* out, enum wrong wrong) {
  (void)comm;
  return ncclCommInitRank(out, 1, wrong == ARGUMENT ? zero_id : good_id, wrong == OTHER_ARGUMENT);
}
static ncclResult_t init_config(ncclComm_t comm, void* out, enum wrong wrong) {
  (void)comm;
  return ncclCommInitRankConfig(out, 1, good_id, wrong == OTHER_ARGUMENT ? -1 : 0,
                                wrong == ARGUMENT ? &bad_config : NULL);
}
static ncclResult_t init_scalable(ncclComm_t comm, void* out, enum wrong wrong) {
  (void)comm;
  return ncclCommInitRankScalable(out, 1, 0, wrong == ARGUMENT ? 9 : 1,
                                  wrong == OTHER_ARGUMENT ? NULL : &good_id, NULL);
}
static ncclResult_t init_all(ncclComm_t comm, void* out, enum wrong wrong) {
  (void)comm, (void)wrong;
  return ncclCommInitAll(out, 1, NULL);
}
static ncclResult_t split(ncclComm_t comm, void* out, enum wrong wrong) {
  return ncclCommSplit(comm, wrong == ARGUMENT ? -5 : 0, 0, out,
                       wrong == OTHER_ARGUMENT ? &bad_config : NULL);
}
static ncclResult_t shrink(ncclComm_t comm, void* out, enum wrong wrong) {
  int excluded[1] = {wrong == ARGUMENT ? 99 : 0};
  return ncclCommShrink(comm, excluded, wrong == OTHER_ARGUMENT ? 0 : 1, out, NULL, 0);
}
static ncclResult_t state(ncclComm_t comm, void* out, enum wrong wrong) {
  (void)wrong;
  return ncclCommGetAsyncError(comm, out);
}
static ncclResult_t count(ncclComm_t comm, void* out, enum wrong wrong) {
  (void)wrong;
  return ncclCommCount(comm, out);
}
static ncclResult_t user_rank(ncclComm_t comm, void* out, enum wrong wrong) {
  (void)wrong;
  return ncclCommUserRank(comm, out);
}
static ncclResult_t device(ncclComm_t comm, void* out, enum wrong wrong) {
  (void)wrong;
  return ncclCommCuDevice(comm, out);
}
static ncclResult_t operator(ncclComm_t comm, void* out, enum wrong wrong) {
  return ncclRedOpCreatePreMulSum(out, wrong == OTHER_ARGUMENT ? NULL : &half,
                                  wrong == ARGUMENT ? (ncclDataType_t)77 : ncclFloat,
                                  ncclScalarHostImmediate, comm);
}
static ncclResult_t allocate(ncclComm_t comm, void* out, enum wrong wrong) {
  (void)comm;
  return ncclMemAlloc(out, wrong == ARGUMENT ? (size_t)1 << 60 : 64);
}
static ncclResult_t announce(ncclComm_t comm, void* out, enum wrong wrong) {
  (void)wrong;
  return ncclCommRegister(comm, buffer, 64, out);
}
static ncclResult_t window(ncclComm_t comm, void* out, enum wrong wrong) {
  return ncclCommWindowRegister(comm, buffer + (wrong == ARGUMENT), 64, out, 0);
}
static ncclResult_t memory_figure(ncclComm_t comm, void* out, enum wrong wrong) {
  return ncclCommMemStats(comm, wrong == ARGUMENT ? (ncclCommMemStat_t)-1 : ncclStatGpuMemSuspended,
                          out);
}
static ncclResult_t growth_id(ncclComm_t comm, void* out, enum wrong wrong) {
  (void)wrong;
  return ncclCommGetUniqueId(comm, out);
}
static ncclResult_t grow(ncclComm_t comm, void* out, enum wrong wrong) {
  return ncclCommGrow(comm, wrong == ARGUMENT ? 1 : 2, NULL, wrong == OTHER_ARGUMENT ? 1 : -1, out,
                      NULL);
}
static ncclWindow_t known_window = NULL;
static ncclResult_t user_pointer(ncclComm_t comm, void* out, enum wrong wrong) {
  ncclWindow_t other = wrong == ARGUMENT ? NULL : (ncclWindow_t)(void*)buffer;
  return ncclWinGetUserPtr(comm, wrong == NOTHING ? known_window : other, out);
}
static ncclResult_t choices(ncclComm_t comm, void* out, enum wrong wrong) {
  return mscclCommChoices(comm, wrong == ARGUMENT ? "allfun" : "allreduce", 0, ncclFloat, ncclSum,
                          0, 1024, out, wrong == OTHER_ARGUMENT ? 1 : 128);
}
static ncclResult_t blocks(ncclComm_t comm, void* out, enum wrong wrong) {
  return mscclCommChoiceBlocks(comm, "allreduce", 0, ncclFloat, ncclSum, 0, 1024,
                               wrong == OTHER_ARGUMENT ? NULL : "Simple staged 1 512 no/such",
                               out);
}

/* How many bytes a result has, those of a result that is none; whether a communicator is asked for; whether wrong arguments
 * other than it are refused; whether it can succeed. */
static const struct row {
  const char* name;
  ncclResult_t (*call)(ncclComm_t, void*, enum wrong);
  size_t bytes;
  int none, takes_comm, wrongs, succeeds;
} rows[] = {
    {"ncclGetVersion", version, 4, -1, 0, 0, 1},
    {"ncclGetUniqueId", unique_id, 128, 0, 0, 0, 1},
    {"ncclCommInitRank", init_rank, 8, 0, 0, 2, 0},
    {"ncclCommInitRankConfig", init_config, 8, 0, 0, 2, 0},
    {"ncclCommInitRankScalable", init_scalable, 8, 0, 0, 2, 0},
    {"ncclCommInitAll", init_all, 8, 0, 0, 0, 0},
    {"ncclCommSplit", split, 8, 0, 1, 2, 0},
    {"ncclCommShrink", shrink, 8, 0, 1, 2, 0},
    {"ncclCommGetAsyncError", state, 4, ncclInvalidArgument, 1, 0, 1},
    {"ncclCommCount", count, 4, -1, 1, 0, 1},
    {"ncclCommUserRank", user_rank, 4, -1, 1, 0, 1},
    {"ncclCommCuDevice", device, 4, -1, 1, 0, 1},
    {"ncclRedOpCreatePreMulSum", operator, 4, -1, 1, 2, 1},
    {"ncclMemAlloc", allocate, 8, 0, 0, 1, 1},
    {"ncclCommRegister", announce, 8, 0, 1, 0, 1},
    {"ncclCommWindowRegister", window, 8, 0, 1, 1, 1},
    {"ncclCommMemStats", memory_figure, 8, 0, 1, 1, 0},
    {"ncclCommGetUniqueId", growth_id, 128, 0, 1, 0, 1},
    {"ncclCommGrow", grow, 8, 0, 1, 2, 0},
    {"ncclWinGetUserPtr", user_pointer, 8, 0, 1, 2, 1},
    {"mscclCommChoices", choices, 1, 0, 1, 2, 0},
    {"mscclCommChoiceBlocks", blocks, 4, -1, 1, 2, 0},
};

static void expect(const struct row* row, const char* what, int holds) {
  if (holds) return;
  fprintf(stderr, "%s, %s: last error: %s\n", row->name, what, ncclGetLastError(NULL));
  exit(1);
}

/* A call that fails leaves nothing that looks like a result, alone or in a group. */
static void fail(const struct row* row, const char* what, ncclComm_t comm, enum wrong wrong) {
  unsigned char none[128] = {0}, place[128] __attribute__((aligned(8)));
  for (int in_group = 0; in_group < 2; in_group++) {
    memcpy(none, &row->none, sizeof row->none);
    memset(place, 0x5a, sizeof place);
    if (in_group) OK(ncclGroupStart());
    ncclResult_t code = row->call(comm, place, wrong);
    if (in_group) expect(row, "the group succeeded", ncclGroupEnd() != ncclSuccess);
    expect(row, what, code != ncclSuccess && code != ncclInProgress);
    expect(row, "its result", memcmp(place, none, row->bytes) == 0);
    expect(row, "what lies behind it", place[row->bytes] == 0x5a || row->bytes == 128);
  }
}

static void try_row(const struct row* row, ncclComm_t comm, ncclComm_t gone) {
  expect(row, "no place", row->call(comm, NULL, NOTHING) == ncclInvalidArgument);
  for (int wrong = 1; wrong <= row->wrongs; wrong++) fail(row, "an argument", comm, wrong);
  if (row->takes_comm) {
    fail(row, "no communicator", NULL, NOTHING);
    fail(row, "a wild communicator", (ncclComm_t)(void*)buffer, NOTHING);
    fail(row, "a destroyed communicator", gone, NOTHING);
  }
  if (row->succeeds) {
    unsigned char place[129] __attribute__((aligned(8))), before[128];
    memset(before, 0x5a, sizeof before);
    memset(place, 0x5a, sizeof place);
    expect(row, "nothing wrong", row->call(comm, place, NOTHING) == ncclSuccess);
    expect(row, "its result", memcmp(place, before, row->bytes) != 0 && place[128] == 0x5a);
  }
}

/* A communicator that failed to be made is none, at each place of an array. */
static void array(void) {
  ncclComm_t comms[3] = {(ncclComm_t)buffer, (ncclComm_t)buffer, (ncclComm_t)buffer};
  REFUSED(ncclInvalidArgument, ncclCommInitAll(comms, 0, NULL));
  REFUSED(ncclInvalidArgument, ncclCommInitAll(comms, -1, NULL));
  CHECK(comms[0] == (ncclComm_t)buffer);
  OK(ncclGroupStart());
  ncclCommCount(NULL, NULL);
  OK(ncclCommInitAll(comms, 2, NULL));
  CHECK(ncclGroupEnd() != ncclSuccess);
  CHECK(comms[0] == NULL && comms[1] == NULL && comms[2] == (ncclComm_t)buffer);
}

int main(void) {
  ncclComm_t comm, gone;
  bad_config.blocking = 7;
  OK(ncclGetUniqueId(&good_id));
  OK(ncclCommInitAll(&comm, 1, NULL));
  OK(ncclCommInitAll(&gone, 1, NULL));
  OK(ncclCommDestroy(gone));
  OK(ncclCommWindowRegister(comm, buffer, 64, &known_window, 0));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) try_row(&rows[i], comm, gone);
  array();
  OK(ncclCommDestroy(comm));
  puts("results: ok");
  return 0;
}
