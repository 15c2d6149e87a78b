/* One rank: arguments that are refused, handles that are wrong, and everything that needs no peer. */
#include "check.h"

static ncclComm_t comm;

static void refuse_before_there_is_a_communicator(void) {
  float buffer[4] = {0};
  REFUSED(ncclInvalidArgument, ncclAllReduce(buffer, buffer, 4, ncclFloat, ncclSum, NULL, NULL));
  SAYS("AllReduce : comm argument is NULL");
  ncclComm_t nonsense = (ncclComm_t)(void*)buffer;
  REFUSED(ncclInvalidArgument, ncclCommDestroy(nonsense));
  SAYS("none of this library's");
  OK(ncclCommDestroy(NULL));
  OK(ncclCommAbort(NULL));
  REFUSED(ncclInvalidUsage, ncclGroupEnd());
  ncclUniqueId id;
  memset(&id, 7, sizeof id);
  REFUSED(ncclInvalidArgument, ncclCommInitRank(&comm, 1, id, 0));
  SAYS("not one of ours");
  REFUSED(ncclInvalidArgument, ncclGetUniqueId(NULL));
  OK(ncclGetUniqueId(&id));
  REFUSED(ncclInvalidArgument, ncclCommInitRank(NULL, 1, id, 0));
  REFUSED(ncclInvalidArgument, ncclCommInitRank(&comm, 1, id, 1));
  SAYS("Invalid rank requested : 1/1");
  REFUSED(ncclInvalidArgument, ncclCommInitRank(&comm, 0, id, 0));
  REFUSED(ncclInvalidArgument, ncclCommInitAll(&comm, 0, NULL));
}

static void refuse_configurations(void) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  REFUSED(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  SAYS("NCCL_CONFIG_INITIALIZER");
  config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
  config.blocking = 2;
  REFUSED(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
  SAYS("blocking");
  REFUSED(ncclInvalidArgument, ncclCommInitRankScalable(&comm, 1, 0, 0, &id, NULL));
  REFUSED(ncclInvalidArgument, ncclCommInitRankScalable(&comm, 1, 0, 2, &id, NULL));
}

/* A configuration as programs built against 2.14 have it: shorter, and padded with anything. */
static void accept_old_configurations(void) {
  struct {
    size_t size;
    unsigned int magic, version;
    int blocking, padding;
  } old = {24, 0xcafebeef, 21403, 1, 77};
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  OK(ncclCommInitRankConfig(&comm, 1, id, 0, (ncclConfig_t*)(void*)&old));
}

static void answer_questions(void) {
  int number = 77;
  ncclResult_t state = ncclInProgress;
  OK(ncclCommCount(comm, &number));
  CHECK(number == 1);
  OK(ncclCommUserRank(comm, &number));
  CHECK(number == 0);
  OK(ncclCommCuDevice(comm, &number));
  CHECK(number == -1);
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK(state == ncclSuccess);
  REFUSED(ncclInvalidArgument, ncclCommCount(comm, NULL));
  REFUSED(ncclInvalidArgument, ncclCommCount(NULL, &number));
  ncclTeam_t world = ncclTeamWorld(comm);
  CHECK(world.nRanks == 1 && world.rank == 0 && world.stride == 1);
  REFUSED(ncclInvalidUsage, ncclDevCommCreate(comm, NULL, NULL));
}

static void refuse_arguments(void) {
  float buffer[4] = {1, 2, 3, 4};
  REFUSED(ncclInvalidArgument,
          ncclAllReduce(buffer, buffer, 4, (ncclDataType_t)12, ncclSum, comm, NULL));
  SAYS("AllReduce : invalid type 12");
  REFUSED(ncclInvalidArgument,
          ncclAllReduce(buffer, buffer, 4, ncclFloat, (ncclRedOp_t)-1, comm, NULL));
  SAYS("invalid reduction operation -1");
  REFUSED(ncclInvalidArgument,
          ncclAllReduce(buffer, buffer, 4, ncclFloat, (ncclRedOp_t)123456, comm, NULL));
  SAYS("unknown to this communicator");
  REFUSED(ncclInvalidArgument, ncclBroadcast(buffer, buffer, 4, ncclFloat, 1, comm, NULL));
  SAYS("Broadcast : invalid root 1");
  REFUSED(ncclInvalidArgument, ncclSend(buffer, 4, ncclFloat, -1, comm, NULL));
  REFUSED(ncclInvalidArgument, ncclAllReduce(NULL, buffer, 4, ncclFloat, ncclSum, comm, NULL));
  SAYS("sendbuff argument is NULL");
  REFUSED(ncclInvalidArgument, ncclAllGather(buffer, NULL, 4, ncclFloat, comm, NULL));
  REFUSED(ncclInvalidArgument,
          ncclAllReduce(buffer, buffer, SIZE_MAX / 2, ncclFloat, ncclSum, comm, NULL));
  OK(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, comm, NULL));
}

static void call_alone(void) {
  float from[4] = {1, 2, 3, 4}, to[4] = {0};
  OK(ncclAllReduce(from, to, 4, ncclFloat, ncclAvg, comm, NULL));
  CHECK(memcmp(from, to, sizeof to) == 0);
  memset(to, 0, sizeof to);
  OK(ncclAlltoAll(from, to, 4, ncclFloat, comm, NULL));
  CHECK(memcmp(from, to, sizeof to) == 0);
  OK(ncclBcast(to, 4, ncclFloat, 0, comm, NULL));
  memset(to, 0, sizeof to);
  OK(ncclGroupStart());
  OK(ncclSend(from, 4, ncclFloat, 0, comm, NULL));
  OK(ncclRecv(to, 4, ncclFloat, 0, comm, NULL));
  OK(ncclGroupEnd());
  CHECK(memcmp(from, to, sizeof to) == 0);
  OK(ncclGroupStart());
  OK(ncclSend(NULL, 0, ncclFloat, 0, comm, NULL));
  OK(ncclRecv(NULL, 0, ncclFloat, 0, comm, NULL));
  OK(ncclGroupEnd());
}

static void make_operators(void) {
  float half = 0.5f, from[2] = {2, 8}, to[2] = {0};
  ncclRedOp_t op;
  OK(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, ncclScalarHostImmediate, comm));
  CHECK(op >= ncclNumOps);
  half = 77;
  OK(ncclAllReduce(from, to, 2, ncclFloat, op, comm, NULL));
  CHECK(to[0] == 1 && to[1] == 4);
  REFUSED(ncclInvalidArgument, ncclAllReduce(from, to, 1, ncclDouble, op, comm, NULL));
  OK(ncclRedOpDestroy(op, comm));
  REFUSED(ncclInvalidArgument, ncclRedOpDestroy(op, comm));
  REFUSED(ncclInvalidArgument, ncclRedOpDestroy(ncclSum, comm));
  OK(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, ncclScalarDevice, comm));
  half = 0.25f;
  OK(ncclGroupStart());
  OK(ncclAllReduce(from, to, 2, ncclFloat, op, comm, NULL));
  OK(ncclRedOpDestroy(op, comm));
  OK(ncclGroupEnd());
  CHECK(to[0] == 0.5f && to[1] == 2);
  REFUSED(ncclInvalidArgument,
          ncclRedOpCreatePreMulSum(&op, NULL, ncclFloat, ncclScalarDevice, comm));
}

static void have_memory(void) {
  void *memory = NULL, *handle = NULL;
  ncclWindow_t window = NULL;
  OK(ncclGroupStart());
  OK(ncclMemAlloc(&memory, 10000));
  OK(ncclGroupEnd());
  CHECK(memory != NULL && (uintptr_t)memory % 4096 == 0);
  memset(memory, 1, 10000);
  OK(ncclGroupStart());
  OK(ncclCommRegister(comm, memory, 10000, &handle));
  OK(ncclCommWindowRegister(comm, memory, 10000, &window, NCCL_WIN_COLL_SYMMETRIC));
  OK(ncclGroupEnd());
  CHECK(handle != NULL && window != NULL);
  OK(ncclCommDeregister(comm, handle));
  REFUSED(ncclInvalidUsage, ncclCommDeregister(comm, handle));
  /* Some programs take what they were given for a pointer to a window. */
  CHECK(*(ncclWindow_t*)(void*)window == window);
  OK(ncclCommWindowDeregister(comm, *(ncclWindow_t*)(void*)window));
  OK(ncclCommWindowDeregister(comm, NULL));
  REFUSED(ncclInvalidArgument, ncclCommWindowRegister(comm, (char*)memory + 1, 8, &window, 0));
  /* Flags of later versions mean as little as those of this one. */
  OK(ncclCommWindowRegister(comm, memory, 8, &window, 2));
  OK(ncclCommWindowDeregister(comm, window));
  /* Nothing is registered under no handle. */
  OK(ncclCommWindowRegister(comm, (char*)memory + 1, 0, &window, NCCL_WIN_DEFAULT));
  OK(ncclCommRegister(comm, NULL, 10, &handle));
  CHECK(window == NULL && handle == NULL);
  OK(ncclCommDeregister(comm, handle));
  OK(ncclMemFree(memory));
  REFUSED(ncclInvalidArgument, ncclMemFree(memory));
  OK(ncclMemFree(NULL));
}

static void latch_errors(void) {
  float buffer[4] = {1, 2, 3, 4}, before[4], to[4] = {0};
  memcpy(before, to, sizeof to);
  OK(ncclGroupStart());
  OK(ncclGroupStart());
  OK(ncclAllReduce(buffer, to, 4, ncclFloat, ncclSum, comm, NULL));
  REFUSED(ncclInvalidArgument, ncclBroadcast(buffer, to, 4, ncclFloat, 9, comm, NULL));
  OK(ncclGroupEnd());
  REFUSED(ncclInvalidArgument, ncclGroupEnd());
  SAYS("Broadcast : invalid root 9");
  CHECK(memcmp(before, to, sizeof to) == 0);
  OK(ncclGroupStart());
  OK(ncclGroupEnd());
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  OK(ncclGroupStart());
  OK(ncclAllReduce(buffer, to, 4, ncclFloat, ncclSum, comm, NULL));
  OK(ncclGroupSimulateEnd(NULL));
  CHECK(memcmp(before, to, sizeof to) == 0);
  /* One rank alone takes no time by the cost model. */
  OK(ncclGroupStart());
  OK(ncclAllReduce(buffer, to, 4, ncclFloat, ncclSum, comm, NULL));
  OK(ncclGroupSimulateEnd(&info));
  CHECK(memcmp(before, to, sizeof to) == 0 && info.estimatedTime == 0);
  info.magic = 0;
  OK(ncclGroupStart());
  REFUSED(ncclInvalidArgument, ncclGroupSimulateEnd(&info));
  ncclUniqueId id;
  ncclComm_t other = comm;
  OK(ncclGetUniqueId(&id));
  OK(ncclGroupStart());
  OK(ncclCommInitRank(&other, 1, id, 0));
  REFUSED(ncclInvalidUsage, ncclGroupSimulateEnd(NULL));
  CHECK(other == NULL);
}

static void end(void) {
  float buffer[1] = {0};
  OK(ncclCommFinalize(comm));
  REFUSED(ncclInvalidUsage, ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, comm, NULL));
  REFUSED(ncclInvalidArgument, ncclCommFinalize(comm));
  OK(ncclCommDestroy(comm));
  REFUSED(ncclInvalidArgument, ncclCommDestroy(comm));
  SAYS("destroyed before");
  REFUSED(ncclInvalidArgument, ncclCommAbort(comm));
  REFUSED(ncclInvalidArgument, ncclAllReduce(buffer, buffer, 1, ncclFloat, ncclSum, comm, NULL));
}

static void notice_corruption(void) {
  OK(ncclCommInitAll(&comm, 1, NULL));
  memset((void*)comm, 0, sizeof(void*));
  REFUSED(ncclInvalidArgument, ncclGroupStart() || ncclBcast(&comm, 1, ncclInt8, 0, comm, NULL)
                                   ? ncclInvalidArgument
                                   : ncclSuccess);
  SAYS("corrupted comm object");
  REFUSED(ncclInvalidArgument, ncclGroupEnd());
  OK(ncclCommAbort(comm));
}

int main(void) {
  refuse_before_there_is_a_communicator();
  refuse_configurations();
  accept_old_configurations();
  answer_questions();
  refuse_arguments();
  call_alone();
  make_operators();
  have_memory();
  latch_errors();
  end();
  notice_corruption();
  puts("alone: ok");
  return 0;
}
