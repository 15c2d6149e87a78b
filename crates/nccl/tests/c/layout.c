/* The interface as programs compiled elsewhere expect it: layouts, numbers, symbols, the name. */
#include <dlfcn.h>
#include <stddef.h>

#include "check.h"

#define AT(field, offset) \
  _Static_assert(offsetof(ncclConfig_t, field) == (offset), "layout of " #field)

AT(size, 0);
AT(magic, 8);
AT(version, 12);
AT(blocking, 16);
AT(cgaClusterSize, 20);
AT(minCTAs, 24);
AT(maxCTAs, 28);
AT(netName, 32);
AT(splitShare, 40);
AT(trafficClass, 44);
AT(commName, 48);
AT(collnetEnable, 56);
AT(CTAPolicy, 60);
AT(shrinkShare, 64);
AT(nvlsCTAs, 68);
AT(nChannelsPerNetPeer, 72);
AT(nvlinkCentricSched, 76);
AT(graphUsageMode, 80);
AT(numRmaCtx, 84);
AT(maxP2pPeers, 88);
AT(graphStreamOrdering, 92);
_Static_assert(sizeof(ncclConfig_t) == 96, "size of ncclConfig_t");
_Static_assert(offsetof(ncclSimInfo_t, estimatedTime) == 16, "layout of ncclSimInfo_t");
_Static_assert(ncclNumResults == 9 && ncclNumTypes == 12 && ncclNumOps == 5, "numbers");
_Static_assert(NCCL_VERSION(2, 30, 7) == NCCL_VERSION_CODE, "version");

/* What 2.28.9 exports, each also with a `p` in front. */
static const char* const of_2_28[] = {
    "ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank", "ncclCommInitAll", "ncclCommDestroy",
    "ncclCommCount", "ncclCommCuDevice", "ncclCommUserRank", "ncclGetErrorString", "ncclAllReduce",
    "ncclReduceScatter", "ncclAllGather", "ncclReduce", "ncclBroadcast", "ncclBcast",
    "ncclGroupStart", "ncclGroupEnd", "ncclCommAbort", "ncclCommGetAsyncError", "ncclSend",
    "ncclRecv", "ncclRedOpCreatePreMulSum", "ncclRedOpDestroy", "ncclGetLastError",
    "ncclCommFinalize", "ncclCommInitRankConfig", "ncclCommSplit", "ncclCommRegister",
    "ncclCommDeregister", "ncclMemAlloc", "ncclMemFree", "ncclGroupSimulateEnd",
    "ncclCommInitRankScalable", "ncclResetDebugInit", "ncclCommShrink", "ncclCommWindowRegister",
    "ncclCommWindowDeregister", "ncclAlltoAll", "ncclGather", "ncclScatter", "ncclDevCommCreate",
    "ncclDevCommDestroy", "ncclTeamWorld", "ncclTeamLsa", "ncclTeamRail", "ncclTeamRankToWorld",
    "ncclTeamRankToLsa", "ncclLsaBarrierCreateRequirement", "ncclLLA2ACalcSlots",
    "ncclLLA2ACreateRequirement", "ncclCommRevoke", "ncclGinBarrierCreateRequirement"};
_Static_assert(sizeof of_2_28 / sizeof *of_2_28 == 52, "functions of 2.28.9");

/* What 2.29 and 2.30 added, and is answered. */
static const char* const of_2_30[] = {
    "ncclCommGetUniqueId", "ncclCommGrow", "ncclPutSignal", "ncclSignal", "ncclWaitSignal",
    "ncclWinGetUserPtr", "ncclCommQueryProperties", "ncclGetLsaMultimemDevicePointer",
    "ncclGetPeerDevicePointer", "ncclGetLsaDevicePointer", "ncclCommSuspend", "ncclCommResume",
    "ncclCommMemStats"};

/* What is refused, whatever is passed: the device interface, parameters, what came after 2.30.7.
 * Again each also with a `p` in front. */
static const char* const refused[] = {
    "ncclDevCommCreate", "ncclDevCommDestroy", "ncclLsaBarrierCreateRequirement",
    "ncclLLA2ACreateRequirement", "ncclGinBarrierCreateRequirement",
    "ncclGetMultimemDevicePointer",
    "ncclGinInboxA2ACreateRequirement", "ncclGinOutboxCreateRequirement", "ncclParamBind",
    "ncclParamGetI8", "ncclParamGetI16", "ncclParamGetI32", "ncclParamGetI64",
    "ncclParamGetU8", "ncclParamGetU16", "ncclParamGetU32",
    "ncclParamGetU64", "ncclParamGetStr", "ncclParamGet", "ncclParamGetParameter",
    "ncclParamGetAllParameterKeys", "ncclParamDumpAll", "ncclAllReduceConfig",
    "ncclBroadcastConfig", "ncclReduceConfig", "ncclAllGatherConfig", "ncclReduceScatterConfig",
    "ncclAlltoAllConfig", "ncclGatherConfig", "ncclScatterConfig", "ncclSetEncryption",
    "ncclGetCftDeviceLeInfo", "ncclGetPeerDeviceLeInfo", "ncclGetMultimemDeviceLeInfo"};

static void* find(void* library, const char* prefix, const char* name) {
  char full[64];
  snprintf(full, sizeof full, "%s%s", prefix, name);
  void* found = dlsym(library, full);
  if (found == NULL) fprintf(stderr, "%s is not exported\n", full);
  CHECK(found != NULL);
  return found;
}

static void check_symbols(void* library) {
  for (size_t i = 0; i < sizeof of_2_28 / sizeof *of_2_28; i++) {
    find(library, "", of_2_28[i]);
    find(library, "p", of_2_28[i]);
  }
  for (size_t i = 0; i < sizeof of_2_30 / sizeof *of_2_30; i++) {
    find(library, "", of_2_30[i]);
    find(library, "p", of_2_30[i]);
  }
  find(library, "", "ncclResetDebugInitInternal");
  find(library, "", "ncclTeamCft");
  find(library, "p", "ncclTeamCftMultimem");
}

static void check_refused(void* library) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    ncclResult_t (*call)(void*, size_t, void*) = NULL;
    void* found = find(library, i % 2 == 0 ? "" : "p", refused[i]);
    memcpy(&call, &found, sizeof call);
    REFUSED(ncclInvalidUsage, call(NULL, 1, NULL));
    SAYS(refused[i]);
  }
}

int main(void) {
  int version = 0;
  OK(ncclGetVersion(&version));
  CHECK(version == 23007);
  OK(pncclGetVersion(&version));
  REFUSED(ncclInvalidArgument, ncclGetVersion(NULL));
  /* Found by its soname: this program is linked against it. */
  void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  CHECK(library != NULL);
  check_symbols(library);
  check_refused(library);
  CHECK(strcmp(ncclGetErrorString(ncclSuccess), "no error") == 0);
  CHECK(strcmp(ncclGetErrorString((ncclResult_t)99), "unknown result code") == 0);
  puts("layout: ok");
  return 0;
}
