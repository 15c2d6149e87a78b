/* Callers that were built with other versions of NCCL's header: structures are read and written as
 * far as the caller has them. Each ends where memory ends, so that one byte more is a crash. */
#include <sys/mman.h>
#include <unistd.h>

#include "ranks.h"
#include "versions.h"

/* `bytes` bytes before memory that nobody may touch, filled with what is no sensible value. */
static void* at_an_edge(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* pages =
      mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
  memset(pages, 0x5a, page);
  return pages + page - bytes;
}

/* A configuration of `bytes` bytes, as an initialiser of `version` leaves it, and its padding
 * filled with nonsense. */
static void* config_of(size_t bytes, unsigned version, size_t last_field) {
  struct config_30_7 all = {.size = bytes, .magic = 0xcafebeef, .version = version};
  char* config = at_an_edge(bytes);
  all.blocking = all.cgaClusterSize = all.minCTAs = all.maxCTAs = all.splitShare = INT_MIN;
  all.trafficClass = all.collnetEnable = all.CTAPolicy = all.shrinkShare = INT_MIN;
  all.nvlsCTAs = all.nChannelsPerNetPeer = all.nvlinkCentricSched = all.graphUsageMode = INT_MIN;
  all.numRmaCtx = all.maxP2pPeers = all.graphStreamOrdering = INT_MIN;
  memcpy(config, &all, last_field + sizeof(int));
  return config;
}

#define CONFIG(shape, version, last) \
  config_of(sizeof(struct shape), (version), offsetof(struct shape, last))

static void use(ncclComm_t comm) {
  int value = 1;
  OK(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, comm, NULL));
  CHECK(value == 1);
  OK(ncclCommDestroy(comm));
}

static ncclResult_t make(ncclComm_t* comm, void* config) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  return ncclCommInitRankConfig(comm, 1, id, 0, config);
}

static void accepted(void* config) {
  ncclComm_t comm = NULL;
  OK(make(&comm, config));
  use(comm);
}

/* The field at `offset` is looked at: `wrong` is refused. */
static void looked_at(void* config, size_t offset, int wrong) {
  ncclComm_t comm = (ncclComm_t)1;
  memcpy((char*)config + offset, &wrong, sizeof wrong);
  REFUSED(ncclInvalidArgument, make(&comm, config));
  SAYS("attribute value");
  CHECK(comm == NULL);
}

static void configs(void) {
  static const unsigned of_19[] = {CODE(19, 1), CODE(19, 3), CODE(20, 5), CODE(21, 5),
                                   CODE(22, 3), CODE(23, 4), CODE(24, 3), CODE(25, 1)};
  for (size_t i = 0; i < sizeof of_19 / sizeof *of_19; i++) {
    accepted(CONFIG(config_19, of_19[i], splitShare));
    looked_at(CONFIG(config_19, of_19[i], splitShare), offsetof(struct config_19, splitShare), 2);
  }
  static const unsigned of_26[] = {CODE(26, 2), CODE(26, 6)};
  for (size_t i = 0; i < 2; i++) accepted(CONFIG(config_26, of_26[i], trafficClass));
  static const unsigned of_27[] = {CODE(27, 3), CODE(27, 7)};
  for (size_t i = 0; i < 2; i++) {
    accepted(CONFIG(config_27, of_27[i], nvlsCTAs));
    looked_at(CONFIG(config_27, of_27[i], nvlsCTAs), offsetof(struct config_27, nvlsCTAs), 0);
  }
  static const unsigned of_28[] = {CODE(28, 3), CODE(28, 9)};
  for (size_t i = 0; i < 2; i++) {
    accepted(CONFIG(config_28, of_28[i], nvlinkCentricSched));
    looked_at(CONFIG(config_28, of_28[i], nvlinkCentricSched),
              offsetof(struct config_28, nvlinkCentricSched), 2);
  }
  static const unsigned of_29[] = {CODE(29, 2), CODE(29, 3), CODE(29, 7)};
  for (size_t i = 0; i < 3; i++) {
    accepted(CONFIG(config_29, of_29[i], numRmaCtx));
    looked_at(CONFIG(config_29, of_29[i], numRmaCtx), offsetof(struct config_29, numRmaCtx), -1);
    looked_at(CONFIG(config_29, of_29[i], numRmaCtx), offsetof(struct config_29, graphUsageMode),
              3);
  }
  /* The last four bytes are padding. */
  static const unsigned of_30_3[] = {CODE(30, 3), CODE(30, 4)};
  for (size_t i = 0; i < 2; i++) {
    accepted(CONFIG(config_30_3, of_30_3[i], maxP2pPeers));
    looked_at(CONFIG(config_30_3, of_30_3[i], maxP2pPeers),
              offsetof(struct config_30_3, maxP2pPeers), 0);
  }
  accepted(CONFIG(config_30_7, CODE(30, 7), graphStreamOrdering));
  looked_at(CONFIG(config_30_7, CODE(30, 7), graphStreamOrdering),
            offsetof(struct config_30_7, graphStreamOrdering), 2);
}

static void config_of_this_header(void) {
#define SAME(field)                                                             \
  _Static_assert(offsetof(ncclConfig_t, field) == offsetof(struct config_30_7, field), #field)
  SAME(blocking); SAME(netName); SAME(splitShare); SAME(trafficClass); SAME(commName);
  SAME(collnetEnable); SAME(nvlsCTAs); SAME(nvlinkCentricSched); SAME(graphUsageMode);
  SAME(numRmaCtx); SAME(maxP2pPeers); SAME(graphStreamOrdering);
#undef SAME
#define SAME(field)                                                                     \
  _Static_assert(offsetof(ncclCommProperties_t, field) ==                               \
                     offsetof(struct properties_29_7, field),                           \
                 #field)
  SAME(rank); SAME(nRanks); SAME(cudaDev); SAME(nvmlDev); SAME(deviceApiSupport);
  SAME(multimemSupport); SAME(ginType); SAME(nLsaTeams); SAME(hostRmaSupport);
  SAME(railedGinType);
#undef SAME
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  accepted(&config);
}

static void* properties_at_an_edge(size_t bytes, unsigned version) {
  struct properties_29_7 header = {.size = bytes, .magic = 0xcafebeef, .version = version};
  char* place = at_an_edge(bytes);
  memcpy(place, &header, offsetof(struct properties_29_7, rank));
  return place;
}

static void properties(struct rank* self) {
  for (int i = 0; i < 2; i++) {
    unsigned version = i == 0 ? CODE(29, 2) : CODE(29, 3);
    struct properties_29_3* old = properties_at_an_edge(sizeof *old, version);
    OK(ncclCommQueryProperties(self->comm, (ncclCommProperties_t*)old));
    CHECK(old->rank == self->rank && old->nRanks == self->ranks && old->cudaDev == -1);
    CHECK(!old->deviceApiSupport && !old->multimemSupport && old->ginType == 0);
    CHECK(old->version == version && old->size == sizeof *old);
  }
  static const unsigned since[] = {CODE(29, 7), CODE(30, 3), CODE(30, 7), CODE(32, 3)};
  for (size_t i = 0; i < sizeof since / sizeof *since; i++) {
    struct properties_29_7* new = properties_at_an_edge(sizeof *new, since[i]);
    OK(ncclCommQueryProperties(self->comm, (ncclCommProperties_t*)new));
    CHECK(new->rank == self->rank && new->nRanks == self->ranks);
    CHECK(new->cudaDev == -1 && new->nvmlDev == -1);
    CHECK(!new->deviceApiSupport && !new->multimemSupport && new->ginType == 0);
    CHECK(new->nLsaTeams == self->ranks && new->railedGinType == 0);
    CHECK(new->version == since[i] && new->size == sizeof *new);
  }
  ncclCommProperties_t ours = NCCL_COMM_PROPERTIES_INITIALIZER;
  OK(ncclCommQueryProperties(self->comm, &ours));
  CHECK(ours.rank == self->rank && ours.nRanks == self->ranks);
  ours.magic = 0;
  REFUSED(ncclInvalidUsage, ncclCommQueryProperties(self->comm, &ours));
  SAYS("NCCL_COMM_PROPERTIES_INITIALIZER");
  REFUSED(ncclInvalidArgument, ncclCommQueryProperties(self->comm, NULL));
  REFUSED(ncclInvalidArgument, ncclCommQueryProperties(NULL, &ours));
  OK(ncclCommDestroy(self->comm));
}

static float estimate_us(ncclComm_t comm, size_t count, unsigned version) {
  struct simulation_22* info = at_an_edge(sizeof *info);
  *info = (struct simulation_22){sizeof *info, 0x74685283, version, -1.0f};
  static char memory[64];
  OK(ncclGroupStart());
  OK(ncclAllReduce(memory, memory, count, ncclFloat, ncclSum, comm, NULL));
  OK(ncclGroupSimulateEnd((ncclSimInfo_t*)info));
  CHECK(info->size == sizeof *info && info->version == version);
  return info->estimatedTime;
}

/* Nothing of it is executed: the buffers are far too small. */
static void simulations(struct rank* self) {
  static const unsigned versions[] = {CODE(22, 3), CODE(27, 3), CODE(28, 9), CODE(30, 7)};
  for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
    float small_us = estimate_us(self->comm, 64, versions[i]);
    float large_us = estimate_us(self->comm, 64 << 20, versions[i]);
    CHECK(small_us > 0 && large_us > 2 * small_us);
  }
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  int value = 1;
  /* Two calls take as long as both; of sends and receives nothing is known. */
  OK(ncclGroupStart());
  OK(ncclAllGather(&value, &value, 1 << 20, ncclInt, self->comm, NULL));
  OK(ncclAllReduce(&value, &value, 64 << 20, ncclFloat, ncclSum, self->comm, NULL));
  OK(ncclGroupSimulateEnd(&info));
  CHECK(info.estimatedTime > estimate_us(self->comm, 64 << 20, CODE(30, 7)));
  info.estimatedTime = NCCL_UNDEF_FLOAT;
  OK(ncclGroupStart());
  OK(ncclSend(&value, 1, ncclInt, (self->rank + 1) % self->ranks, self->comm, NULL));
  OK(ncclGroupSimulateEnd(&info));
  CHECK(info.estimatedTime == NCCL_UNDEF_FLOAT);
  OK(ncclAllReduce(&value, &value, 1, ncclInt, ncclSum, self->comm, NULL));
  CHECK(value == self->ranks);
  OK(ncclCommDestroy(self->comm));
}

int main(void) {
  configs();
  config_of_this_header();
  on_ranks(3, properties);
  on_ranks(2, simulations);
  puts("versions: ok");
  return 0;
}
