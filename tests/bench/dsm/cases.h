// The kernels that sinter_dsm_bench times: one exchange of src/device/dsm, round after round.
#ifndef SINTER_TESTS_BENCH_DSM_CASES_H_
#define SINTER_TESTS_BENCH_DSM_CASES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/compile_request.h"
#include "src/base/launch_recipe.h"

namespace sinter::bench {

enum class DsmTimed {
  kAllExchangeAdd,
  kAllExchangeMul,
  kReduceScatter,
  kShuffle,
  kInterClusterFixed,
  kInterClusterFree,
  kInterClusterFreeBulk,
};
constexpr int kDsmTimedCount = 7;
const char* NameOf(DsmTimed primitive);

struct DsmTimedCase {
  DsmTimed primitive = DsmTimed::kAllExchangeAdd;
  int cluster = 2;           // the group is the cluster
  int payload_bytes = 1024;  // of a block's f32 part, of the shuffle's whole slab

  bool CrossesClusters() const { return primitive >= DsmTimed::kInterClusterFixed; }
  std::string Name() const;
  int Threads() const;
  int Registers() const;
  // That leave a block in one round, into distributed shared memory or, across clusters, into L2.
  double BytesPerRound() const;
};

constexpr int kDsmParts = 3;       // clusters that add to the same tiles
constexpr int kDsmMaxTiles = 6;    // rounds of the kernels across clusters: each takes new tiles
constexpr int kDsmSinkBytes = 16;  // of the buffer that keeps results alive

// All primitives at clusters of 2, 4, 8, 16 and payloads of 1 to 64 KB.
std::vector<DsmTimedCase> AllDsmTimedCases();
CompileRequest DsmTimedRequest(const DsmTimedCase& c);
// Arguments: sink, scratch, counters, cycles of each block (u64); m is the number of rounds.
LaunchRecipe DsmTimedRecipe(const DsmTimedCase& c, int clusters);
uint64_t DsmScratchBytes(const DsmTimedCase& c, int clusters);
uint64_t DsmCounterBytes(const DsmTimedCase& c, int clusters);

}  // namespace sinter::bench

#endif  // SINTER_TESTS_BENCH_DSM_CASES_H_
