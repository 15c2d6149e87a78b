/* One thread, many ranks: everything goes through groups. */
#include "check.h"

#define RANKS 5
#define COUNT 100

static ncclComm_t comms[RANKS];
static int from[RANKS][RANKS * COUNT], to[RANKS][RANKS * COUNT];

static void fill(void) {
  for (int r = 0; r < RANKS; r++) {
    for (int i = 0; i < RANKS * COUNT; i++) from[r][i] = r * 1000 + i;
  }
  memset(to, 0, sizeof to);
}

static void collectives_of_all_ranks(void) {
  fill();
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) {
    OK(ncclAllReduce(from[r], to[r], COUNT, ncclInt, ncclSum, comms[r], NULL));
  }
  OK(ncclGroupEnd());
  for (int i = 0; i < COUNT; i++) CHECK(to[3][i] == 1000 * (0 + 1 + 2 + 3 + 4) + RANKS * i);
}

/* Several collectives of each communicator, in nested groups; later ones see what earlier ones
 * wrote. */
static void several_in_order(void) {
  fill();
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) {
    OK(ncclGroupStart());
    OK(ncclBroadcast(from[r], to[r], COUNT, ncclInt, 2, comms[r], NULL));
    OK(ncclAllReduce(to[r], to[r], COUNT, ncclInt, ncclMax, comms[r], NULL));
    OK(ncclGroupEnd());
  }
  OK(ncclGroupEnd());
  for (int r = 0; r < RANKS; r++) CHECK(memcmp(to[r], from[2], COUNT * sizeof(int)) == 0);
}

/* To the right neighbour, with two messages per pair that must not be swapped. */
static void ring_of_messages(void) {
  fill();
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) {
    int left = (r + RANKS - 1) % RANKS, right = (r + 1) % RANKS;
    OK(ncclSend(from[r], 10, ncclInt, right, comms[r], NULL));
    OK(ncclRecv(to[r], 10, ncclInt, left, comms[r], NULL));
    OK(ncclSend(from[r] + 50, 3, ncclInt, right, comms[r], NULL));
    OK(ncclRecv(to[r] + 50, 3, ncclInt, left, comms[r], NULL));
  }
  OK(ncclGroupEnd());
  for (int r = 0; r < RANKS; r++) {
    int left = (r + RANKS - 1) % RANKS;
    CHECK(memcmp(to[r], from[left], 10 * sizeof(int)) == 0);
    CHECK(memcmp(to[r] + 50, from[left] + 50, 3 * sizeof(int)) == 0);
  }
}

/* How many elements go from one rank to another; some pairs have nothing to say, and a rank writes
 * to itself. */
static size_t amount(int sender, int receiver) {
  return (size_t)((sender * 7 + receiver * 3) % 4 == 0 ? 0 : sender + receiver + 1);
}

static void all_to_all_of_any_sizes(void) {
  fill();
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) {
    for (int p = 0; p < RANKS; p++) {
      OK(ncclSend(from[r] + p * COUNT, amount(r, p), ncclInt, p, comms[r], NULL));
      OK(ncclRecv(to[r] + p * COUNT, amount(p, r), ncclInt, p, comms[r], NULL));
    }
  }
  OK(ncclGroupEnd());
  for (int r = 0; r < RANKS; r++) {
    for (int p = 0; p < RANKS; p++) {
      size_t bytes = amount(p, r) * sizeof(int);
      CHECK(memcmp(to[r] + p * COUNT, from[p] + r * COUNT, bytes) == 0);
      CHECK(to[r][p * COUNT + (int)amount(p, r)] == 0);
    }
  }
}

/* Messages and collectives of one group; messages go after the collectives. */
static void both_kinds(void) {
  fill();
  int sum = 0;
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) {
    OK(ncclAllReduce(from[r], to[r], 1, ncclInt, ncclSum, comms[r], NULL));
  }
  OK(ncclSend(to[1], 1, ncclInt, 4, comms[1], NULL));
  OK(ncclRecv(&sum, 1, ncclInt, 1, comms[4], NULL));
  OK(ncclGroupEnd());
  CHECK(sum == 10000);
}

/* Nothing of a group happens if one of its calls was refused. */
static void refusals_stop_the_group(void) {
  fill();
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) {
    OK(ncclAllReduce(from[r], to[r], COUNT, ncclInt, ncclSum, comms[r], NULL));
  }
  REFUSED(ncclInvalidArgument, ncclSend(from[0], 1, ncclInt, RANKS, comms[0], NULL));
  REFUSED(ncclInvalidArgument, ncclGroupEnd());
  CHECK(to[0][0] == 0);
  collectives_of_all_ranks();
}

static void initialise_in_a_group(void) {
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) OK(ncclCommInitRank(&comms[r], RANKS, id, r));
  OK(ncclGroupEnd());
}

/* By two ids, whose roots share the work. */
static void initialise_by_several_ids(void) {
  ncclUniqueId ids[2];
  ncclComm_t all[RANKS];
  OK(ncclGetUniqueId(&ids[0]));
  OK(ncclGetUniqueId(&ids[1]));
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) OK(ncclCommInitRankScalable(&all[r], RANKS, r, 2, ids, NULL));
  OK(ncclGroupEnd());
  int count = 0;
  for (int r = 0; r < RANKS; r++) {
    OK(ncclCommCount(all[r], &count));
    CHECK(count == RANKS);
    OK(ncclCommDestroy(all[r]));
  }
}

/* Two communicators of the same ranks in one group. */
static void two_communicators(void) {
  ncclComm_t others[RANKS];
  OK(ncclCommInitAll(others, RANKS, NULL));
  fill();
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) {
    OK(ncclAllReduce(from[r], to[r], 1, ncclInt, ncclSum, comms[r], NULL));
    OK(ncclAllReduce(from[r], to[r] + 1, 1, ncclInt, ncclMax, others[r], NULL));
  }
  OK(ncclGroupEnd());
  for (int r = 0; r < RANKS; r++) CHECK(to[r][0] == 10000 && to[r][1] == 4000);
  /* What was gathered before the end of a communicator still happens. */
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) {
    OK(ncclAllReduce(from[r], to[r], 1, ncclInt, ncclMin, others[r], NULL));
    OK(ncclCommDestroy(others[r]));
  }
  OK(ncclGroupEnd());
  for (int r = 0; r < RANKS; r++) CHECK(to[r][0] == 0);
}

/* A refusal takes back the communicators that the group was to make. */
static void refused_initialisation(void) {
  ncclUniqueId id;
  ncclComm_t two[2] = {NULL, NULL};
  OK(ncclGetUniqueId(&id));
  OK(ncclGroupStart());
  OK(ncclCommInitRank(&two[0], 2, id, 0));
  REFUSED(ncclInvalidArgument, ncclCommInitRank(&two[1], 2, id, 2));
  REFUSED(ncclInvalidArgument, ncclGroupEnd());
  CHECK(two[0] == NULL);
}

static void all_patterns(void) {
  collectives_of_all_ranks();
  several_in_order();
  ring_of_messages();
  all_to_all_of_any_sizes();
  both_kinds();
  refusals_stop_the_group();
}

int main(void) {
  OK(ncclCommInitAll(comms, RANKS, NULL));
  all_patterns();
  two_communicators();
  for (int r = 0; r < RANKS; r++) OK(ncclCommDestroy(comms[r]));
  initialise_by_several_ids();
  initialise_in_a_group();
  all_patterns();
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) OK(ncclCommDestroy(comms[r]));
  OK(ncclGroupEnd());
  refused_initialisation();
  puts("groups: ok");
  return 0;
}
