/* The C interface of libnccl.so.2, as NCCL 2.30.7 has it.
 *
 * Programs compiled with NVIDIA's headers of 2.19 to 2.30 run with this library unchanged, and
 * programs compiled with this header run with NVIDIA's library. What differs is said where it
 * differs: functions marked "not supported" return ncclInvalidUsage, and ncclGetLastError says why.
 *
 * On a machine without a GPU, or with MSCCL_DEVICE=host in the environment, ranks run on the host:
 * buffers are host memory, streams are ignored, and calls return when they are done.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_MAJOR 2
#define NCCL_MINOR 30
#define NCCL_PATCH 7
#define NCCL_SUFFIX ""
#define NCCL_VERSION_CODE 23007
#define NCCL_VERSION(major, minor, patch)                                  \
  (((major) <= 2 && (minor) <= 8) ? (major) * 1000 + (minor) * 100 + (patch) \
                                  : (major) * 10000 + (minor) * 100 + (patch))

#ifdef __cplusplus
extern "C" {
#endif

/* As CUDA declares it, so that this header needs none of CUDA's. */
typedef struct CUstream_st* cudaStream_t;

/* ---- Handles ------------------------------------------------------------------------------- */

typedef struct ncclComm* ncclComm_t;
#define NCCL_COMM_NULL NULL

/* Names a registered window on the host. It leads nowhere on a device. */
typedef struct ncclWindow_vidmem* ncclWindow_t;

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

/* ---- Numbers ------------------------------------------------------------------------------- */

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  /* Of functions of this library none returns it. */
  ncclTimeout = 8,
  ncclNumResults = 9
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

/* Operators that a caller makes have numbers from ncclNumOps on. */
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

/* When the scalar of an operator is read: when a call is executed, or when the operator is made. */
typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00
#define NCCL_SUSPEND_MEM 0x01
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02
#define NCCL_API_MAGIC 0xcafebeef

/* Figures of a communicator's memory on its rank, for ncclCommMemStats. */
typedef enum {
  ncclStatGpuMemSuspend = 0,   /* bytes that ncclCommSuspend frees, or has freed */
  ncclStatGpuMemSuspended = 1, /* whether it is suspended: 0 or 1 */
  ncclStatGpuMemPersist = 2,   /* bytes that it keeps */
  ncclStatGpuMemTotal = 3      /* the sum of both */
} ncclCommMemStat_t;

/* ---- Structures ---------------------------------------------------------------------------- */

/* How a communicator behaves. Begin with NCCL_CONFIG_INITIALIZER, then set what matters. Of these,
 * blocking, maxCTAs and commName mean something here; all are checked. */
typedef struct ncclConfig_v23000 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                  \
  {                                                                                              \
    sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT,              \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                     \
        NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                     \
        NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                     \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                     \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,                     \
        NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT                                             \
  }

typedef struct ncclSimInfo_v22200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION_CODE, NCCL_UNDEF_FLOAT }

typedef enum {
  NCCL_GIN_TYPE_NONE = 0,
  NCCL_GIN_TYPE_PROXY = 2,
  NCCL_GIN_TYPE_GDAKI = 3,
  NCCL_GIN_TYPE_GPI = 4
} ncclGinType_t;

/* What a communicator can. Begin with NCCL_COMM_PROPERTIES_INITIALIZER. */
typedef struct ncclCommProperties {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int rank;
  int nRanks;
  int cudaDev; /* -1 where ranks run on the host */
  int nvmlDev;
  bool deviceApiSupport;
  bool multimemSupport;
  ncclGinType_t ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  ncclGinType_t railedGinType;
} ncclCommProperties_t;

#define NCCL_COMM_PROPERTIES_INITIALIZER                                                       \
  {                                                                                            \
    sizeof(ncclCommProperties_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, 0, 0, 0, 0, false, false, \
        NCCL_GIN_TYPE_NONE, 0, false, NCCL_GIN_TYPE_NONE                                       \
  }

/* How many signals of a peer a rank waits for. */
typedef struct {
  int opCnt;
  int peer;
  int sigIdx; /* 0 */
  int ctx;    /* 0 */
} ncclWaitSignalDesc_t;

typedef struct ncclParamHandle* ncclParamHandle_t;

typedef struct ncclTeam {
  int nRanks, rank, stride;
} ncclTeam_t;

/* Of NCCL's device interface, which is not supported. */
typedef struct ncclDevComm ncclDevComm_t;
typedef struct ncclDevCommRequirements ncclDevCommRequirements_t;
typedef struct ncclDevResourceRequirements ncclDevResourceRequirements_t;
typedef struct ncclLsaBarrierHandle ncclLsaBarrierHandle_t;
typedef struct ncclGinBarrierHandle ncclGinBarrierHandle_t;
typedef struct ncclLLA2AHandle ncclLLA2AHandle_t;

/* Declares a function under both of its names; the second is for profilers that define the first. */
#define NCCL_BOTH(result, name, ...) \
  result name(__VA_ARGS__);          \
  result p##name(__VA_ARGS__)

/* ---- Who we are, what went wrong ----------------------------------------------------------- */

/* 23007. */
NCCL_BOTH(ncclResult_t, ncclGetVersion, int* version);
/* Never NULL. */
NCCL_BOTH(const char*, ncclGetErrorString, ncclResult_t result);
/* The last warning of the process, whatever the communicator, which may be NULL. */
NCCL_BOTH(const char*, ncclGetLastError, ncclComm_t comm);
/* NCCL_DEBUG and what belongs to it are read again. */
NCCL_BOTH(void, ncclResetDebugInit, void);

/* ---- Communicators ------------------------------------------------------------------------- */

NCCL_BOTH(ncclResult_t, ncclGetUniqueId, ncclUniqueId* uniqueId);
NCCL_BOTH(ncclResult_t, ncclCommInitRank, ncclComm_t* comm, int nranks, ncclUniqueId commId,
          int rank);
NCCL_BOTH(ncclResult_t, ncclCommInitRankConfig, ncclComm_t* comm, int nranks, ncclUniqueId commId,
          int rank, ncclConfig_t* config);
NCCL_BOTH(ncclResult_t, ncclCommInitRankScalable, ncclComm_t* newcomm, int nranks, int myrank,
          int nId, ncclUniqueId* commIds, ncclConfig_t* config);
/* Several ranks may have one device. */
NCCL_BOTH(ncclResult_t, ncclCommInitAll, ncclComm_t* comm, int ndev, const int* devlist);
NCCL_BOTH(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
          ncclConfig_t* config);
NCCL_BOTH(ncclResult_t, ncclCommShrink, ncclComm_t comm, int* excludeRanksList,
          int excludeRanksCount, ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);
/* An id by which new ranks come to a communicator that is about to grow. */
NCCL_BOTH(ncclResult_t, ncclCommGetUniqueId, ncclComm_t comm, ncclUniqueId* uniqueId);
/* Ranks of comm pass -1 and keep their numbers; new ones pass no comm, the id, and a number. */
NCCL_BOTH(ncclResult_t, ncclCommGrow, ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId,
          int rank, ncclComm_t* newcomm, ncclConfig_t* config);
NCCL_BOTH(ncclResult_t, ncclCommFinalize, ncclComm_t comm);
NCCL_BOTH(ncclResult_t, ncclCommDestroy, ncclComm_t comm);
/* From any thread. */
NCCL_BOTH(ncclResult_t, ncclCommAbort, ncclComm_t comm);
NCCL_BOTH(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int revokeFlags);
NCCL_BOTH(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* asyncError);
NCCL_BOTH(ncclResult_t, ncclCommCount, const ncclComm_t comm, int* count);
NCCL_BOTH(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int* rank);
NCCL_BOTH(ncclResult_t, ncclCommQueryProperties, ncclComm_t comm, ncclCommProperties_t* props);
/* All ranks free the memory of links and calls, and make it again. In between they make no call. */
NCCL_BOTH(ncclResult_t, ncclCommSuspend, ncclComm_t comm, int flags);
NCCL_BOTH(ncclResult_t, ncclCommResume, ncclComm_t comm);
NCCL_BOTH(ncclResult_t, ncclCommMemStats, ncclComm_t comm, ncclCommMemStat_t stat,
          uint64_t* value);
/* -1 where ranks run on the host. */
NCCL_BOTH(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int* device);

/* ---- Collectives --------------------------------------------------------------------------- */

NCCL_BOTH(ncclResult_t, ncclAllReduce, const void* sendbuff, void* recvbuff, size_t count,
          ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
NCCL_BOTH(ncclResult_t, ncclReduceScatter, const void* sendbuff, void* recvbuff, size_t recvcount,
          ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
NCCL_BOTH(ncclResult_t, ncclAllGather, const void* sendbuff, void* recvbuff, size_t sendcount,
          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
/* In place is allowed. */
NCCL_BOTH(ncclResult_t, ncclAlltoAll, const void* sendbuff, void* recvbuff, size_t count,
          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
NCCL_BOTH(ncclResult_t, ncclReduce, const void* sendbuff, void* recvbuff, size_t count,
          ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
NCCL_BOTH(ncclResult_t, ncclBroadcast, const void* sendbuff, void* recvbuff, size_t count,
          ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
NCCL_BOTH(ncclResult_t, ncclBcast, void* buff, size_t count, ncclDataType_t datatype, int root,
          ncclComm_t comm, cudaStream_t stream);
NCCL_BOTH(ncclResult_t, ncclGather, const void* sendbuff, void* recvbuff, size_t count,
          ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
NCCL_BOTH(ncclResult_t, ncclScatter, const void* sendbuff, void* recvbuff, size_t count,
          ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
NCCL_BOTH(ncclResult_t, ncclSend, const void* sendbuff, size_t count, ncclDataType_t datatype,
          int peer, ncclComm_t comm, cudaStream_t stream);
NCCL_BOTH(ncclResult_t, ncclRecv, void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
          ncclComm_t comm, cudaStream_t stream);

/* ---- One-sided transfers ------------------------------------------------------------------- */

/* Into windows that all ranks have registered with NCCL_WIN_COLL_SYMMETRIC, of ranks of this node;
 * others are refused. sigIdx, ctx and flags are 0. */
NCCL_BOTH(ncclResult_t, ncclPutSignal, const void* localbuff, size_t count,
          ncclDataType_t datatype, int peer, ncclWindow_t peerWin, size_t peerWinOffset,
          int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream);
NCCL_BOTH(ncclResult_t, ncclSignal, int peer, int sigIdx, int ctx, unsigned int flags,
          ncclComm_t comm, cudaStream_t stream);
NCCL_BOTH(ncclResult_t, ncclWaitSignal, int nDesc, ncclWaitSignalDesc_t* signalDescs,
          ncclComm_t comm, cudaStream_t stream);

/* ---- Groups -------------------------------------------------------------------------------- */

NCCL_BOTH(ncclResult_t, ncclGroupStart, void);
NCCL_BOTH(ncclResult_t, ncclGroupEnd, void);
/* Discards the group, and says how long it would have taken by the cost model, in us. */
NCCL_BOTH(ncclResult_t, ncclGroupSimulateEnd, ncclSimInfo_t* simInfo);

/* ---- Operators ----------------------------------------------------------------------------- */

NCCL_BOTH(ncclResult_t, ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar,
          ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm);
NCCL_BOTH(ncclResult_t, ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm);

/* ---- Memory -------------------------------------------------------------------------------- */

NCCL_BOTH(ncclResult_t, ncclMemAlloc, void** ptr, size_t size);
NCCL_BOTH(ncclResult_t, ncclMemFree, void* ptr);
NCCL_BOTH(ncclResult_t, ncclCommRegister, const ncclComm_t comm, void* buff, size_t size,
          void** handle);
NCCL_BOTH(ncclResult_t, ncclCommDeregister, const ncclComm_t comm, void* handle);
NCCL_BOTH(ncclResult_t, ncclCommWindowRegister, ncclComm_t comm, void* buff, size_t size,
          ncclWindow_t* win, int winFlags);
NCCL_BOTH(ncclResult_t, ncclCommWindowDeregister, ncclComm_t comm, ncclWindow_t win);
NCCL_BOTH(ncclResult_t, ncclWinGetUserPtr, ncclComm_t comm, ncclWindow_t win, void** outUserPtr);

/* ---- Device interface ---------------------------------------------------------------------- */

/* NULL: there is no multicast. */
NCCL_BOTH(ncclResult_t, ncclGetLsaMultimemDevicePointer, ncclWindow_t window, size_t offset,
          void** outPtr);
/* Not supported. */
NCCL_BOTH(ncclResult_t, ncclGetLsaDevicePointer, ncclWindow_t window, size_t offset, int lsaRank,
          void** outPtr);
NCCL_BOTH(ncclResult_t, ncclGetPeerDevicePointer, ncclWindow_t window, size_t offset, int peer,
          void** outPtr);
NCCL_BOTH(ncclResult_t, ncclDevCommCreate, ncclComm_t comm, const ncclDevCommRequirements_t* reqs,
          ncclDevComm_t* outDevComm);
NCCL_BOTH(ncclResult_t, ncclDevCommDestroy, ncclComm_t comm, const ncclDevComm_t* devComm);
NCCL_BOTH(ncclResult_t, ncclLsaBarrierCreateRequirement, ncclTeam_t team, int nBarriers,
          ncclLsaBarrierHandle_t* outHandle, ncclDevResourceRequirements_t* outReq);
NCCL_BOTH(ncclResult_t, ncclGinBarrierCreateRequirement, ncclComm_t comm, ncclTeam_t team,
          int nBarriers, ncclGinBarrierHandle_t* outHandle,
          ncclDevResourceRequirements_t* outReq);
NCCL_BOTH(ncclResult_t, ncclLLA2ACreateRequirement, int nBlocks, int nSlots,
          ncclLLA2AHandle_t* outHandle, ncclDevResourceRequirements_t* outReq);
NCCL_BOTH(int, ncclLLA2ACalcSlots, int maxElts, int maxEltSize);

/* Teams are supported; every rank is alone in its LSA team. */
NCCL_BOTH(ncclTeam_t, ncclTeamWorld, ncclComm_t comm);
NCCL_BOTH(ncclTeam_t, ncclTeamLsa, ncclComm_t comm);
NCCL_BOTH(ncclTeam_t, ncclTeamRail, ncclComm_t comm);
NCCL_BOTH(int, ncclTeamRankToWorld, ncclComm_t comm, ncclTeam_t team, int rank);
NCCL_BOTH(int, ncclTeamRankToLsa, ncclComm_t comm, ncclTeam_t team, int rank);

/* ---- Parameters ---------------------------------------------------------------------------- */

/* Not supported. */
NCCL_BOTH(ncclResult_t, ncclParamBind, ncclParamHandle_t* out, const char* key);
NCCL_BOTH(ncclResult_t, ncclParamGetI8, ncclParamHandle_t h, int8_t* out);
NCCL_BOTH(ncclResult_t, ncclParamGetI16, ncclParamHandle_t h, int16_t* out);
NCCL_BOTH(ncclResult_t, ncclParamGetI32, ncclParamHandle_t h, int32_t* out);
NCCL_BOTH(ncclResult_t, ncclParamGetI64, ncclParamHandle_t h, int64_t* out);
NCCL_BOTH(ncclResult_t, ncclParamGetU8, ncclParamHandle_t h, uint8_t* out);
NCCL_BOTH(ncclResult_t, ncclParamGetU16, ncclParamHandle_t h, uint16_t* out);
NCCL_BOTH(ncclResult_t, ncclParamGetU32, ncclParamHandle_t h, uint32_t* out);
NCCL_BOTH(ncclResult_t, ncclParamGetU64, ncclParamHandle_t h, uint64_t* out);
NCCL_BOTH(ncclResult_t, ncclParamGetStr, ncclParamHandle_t h, const char** out);
NCCL_BOTH(ncclResult_t, ncclParamGet, ncclParamHandle_t h, void* out, int maxLen, int* len);
NCCL_BOTH(ncclResult_t, ncclParamGetParameter, const char* key, const char** value, int* valueLen);
NCCL_BOTH(ncclResult_t, ncclParamGetAllParameterKeys, const char*** table, int* tableLen);
NCCL_BOTH(void, ncclParamDumpAll, void);

/* ---- Layouts ------------------------------------------------------------------------------- */

#ifdef __cplusplus
#define NCCL_ASSERT static_assert
#else
#define NCCL_ASSERT _Static_assert
#endif
NCCL_ASSERT(sizeof(ncclUniqueId) == 128, "layout of ncclUniqueId");
NCCL_ASSERT(sizeof(ncclTeam_t) == 12, "layout of ncclTeam_t");
NCCL_ASSERT(sizeof(ncclSimInfo_t) == 24, "layout of ncclSimInfo_t");
NCCL_ASSERT(sizeof(ncclConfig_t) == 96, "layout of ncclConfig_t");
NCCL_ASSERT(offsetof(ncclConfig_t, graphStreamOrdering) == 92, "layout of ncclConfig_t");
NCCL_ASSERT(sizeof(ncclCommProperties_t) == 56, "layout of ncclCommProperties_t");
NCCL_ASSERT(offsetof(ncclCommProperties_t, railedGinType) == 48, "layout of properties");
NCCL_ASSERT(offsetof(ncclConfig_t, blocking) == 16, "layout of ncclConfig_t");
NCCL_ASSERT(offsetof(ncclConfig_t, netName) == 32, "layout of ncclConfig_t");
NCCL_ASSERT(offsetof(ncclConfig_t, commName) == 48, "layout of ncclConfig_t");
NCCL_ASSERT(offsetof(ncclConfig_t, nvlinkCentricSched) == 76, "layout of ncclConfig_t");
#undef NCCL_ASSERT

#ifdef __cplusplus
}
#endif

#endif
