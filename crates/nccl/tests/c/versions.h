/* The structures of NCCL that grew from version to version, as each version from 2.19 to 2.30 has
 * them: programs compiled with any of its headers pass these. */
#ifndef VERSIONS_H_
#define VERSIONS_H_

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CODE(minor, patch) (20000 + (minor) * 100 + (patch))

#define CONFIG_19   \
  size_t size;      \
  unsigned magic;   \
  unsigned version; \
  int blocking;     \
  int cgaClusterSize; \
  int minCTAs;      \
  int maxCTAs;      \
  const char* netName; \
  int splitShare;
#define CONFIG_26 CONFIG_19 int trafficClass;
#define CONFIG_27        \
  CONFIG_26              \
  const char* commName;  \
  int collnetEnable;     \
  int CTAPolicy;         \
  int shrinkShare;       \
  int nvlsCTAs;
#define CONFIG_28 CONFIG_27 int nChannelsPerNetPeer; int nvlinkCentricSched;
#define CONFIG_29 CONFIG_28 int graphUsageMode; int numRmaCtx;
#define CONFIG_30_3 CONFIG_29 int maxP2pPeers;
#define CONFIG_30_7 CONFIG_30_3 int graphStreamOrdering;

struct config_19 { CONFIG_19 };
struct config_26 { CONFIG_26 };
struct config_27 { CONFIG_27 };
struct config_28 { CONFIG_28 };
struct config_29 { CONFIG_29 };
struct config_30_3 { CONFIG_30_3 };
struct config_30_7 { CONFIG_30_7 };

_Static_assert(sizeof(struct config_19) == 48 && sizeof(struct config_26) == 48, "2.19 to 2.26");
_Static_assert(sizeof(struct config_27) == 72 && sizeof(struct config_28) == 80, "2.27, 2.28");
_Static_assert(sizeof(struct config_29) == 88 && sizeof(struct config_30_3) == 96, "2.29, 2.30.3");
_Static_assert(sizeof(struct config_30_7) == 96, "2.30.7");

/* 2.29.2 and 2.29.3: the kind of network is one byte. */
struct properties_29_3 {
  size_t size;
  unsigned magic;
  unsigned version;
  int rank;
  int nRanks;
  int cudaDev;
  int nvmlDev;
  bool deviceApiSupport;
  bool multimemSupport;
  uint8_t ginType;
};

/* Since 2.29.7. */
struct properties_29_7 {
  size_t size;
  unsigned magic;
  unsigned version;
  int rank;
  int nRanks;
  int cudaDev;
  int nvmlDev;
  bool deviceApiSupport;
  bool multimemSupport;
  int ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  int railedGinType;
};

_Static_assert(sizeof(struct properties_29_3) == 40 && sizeof(struct properties_29_7) == 56,
               "properties");

/* Since 2.22. */
struct simulation_22 {
  size_t size;
  unsigned magic;
  unsigned version;
  float estimatedTime;
};

_Static_assert(sizeof(struct simulation_22) == 24, "simulation");

#endif
