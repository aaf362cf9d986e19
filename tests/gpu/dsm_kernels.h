// Kernels that force one exchange of src/device/dsm each, check every element that it delivers, and
// the data and expectations that they need. No driver: the compile test builds them too.
#ifndef SINTER_TESTS_GPU_DSM_KERNELS_H_
#define SINTER_TESTS_GPU_DSM_KERNELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/compile_request.h"
#include "src/base/launch_recipe.h"

namespace sinter::gpu_testing {

// Each names what a missing wait or fence does in its case; "stale" means that a value of an
// earlier round, or poison, is compared with this round's, and that both differ.
enum class DsmPrimitive {
  // No wait for full(0) or full(1): stale. No wait for empty: a peer's next part replaces one that
  // is not yet read. No release, no expect, no drain: a spin that never ends, or a fault when a
  // block has left. A wait for the whole cluster: a spin that never ends, see `staggered` below.
  kExchangeAdd,
  kExchangeMul,      // the spatial gate; as above
  kSequentialGated,  // both halves of a gated product summed, then activated and multiplied
  kReduceScatter,    // as above, for full(0) and empty
  // No fence or meeting before the push: slices with holes. No wait for full(s): stale. No wait for
  // empty: a slice is overwritten while peers read it, or while it is copied.
  kShuffleBF16,
  kShuffleF16,
  // Scatter in the cluster, then parts of all clusters. No meeting before the counter, or a counter
  // that neither releases nor acquires: sums without some parts. A scratch or counter that is not
  // left as it was: every later launch is wrong.
  kStoreFixed,
  kStoreFree,
  kStoreFreeBulk,
};
const char* NameOf(DsmPrimitive primitive);

struct DsmCase {
  DsmPrimitive primitive = DsmPrimitive::kExchangeAdd;
  int cluster = 2;    // blocks of a cluster
  int ranks = 2;      // of a group; cluster / ranks groups exchange, the other blocks only join
  int registers = 8;  // of each thread, a multiple of 4: the part
  int threads = 64;   // of each block
  int clusters = 1;   // of the grid; parts of a tile for the kStore.. primitives
  int rounds = 3;

  bool IsStore() const { return primitive >= DsmPrimitive::kStoreFixed; }
  bool IsShuffle() const {
    return primitive == DsmPrimitive::kShuffleBF16 || primitive == DsmPrimitive::kShuffleF16;
  }
  bool IsGated() const {
    return primitive == DsmPrimitive::kExchangeMul || primitive == DsmPrimitive::kSequentialGated;
  }
  // Whether equal inputs must give equal bits.
  bool IsFixedOrder() const {
    return primitive != DsmPrimitive::kStoreFree && primitive != DsmPrimitive::kStoreFreeBulk;
  }
  int Groups() const { return cluster / ranks; }  // of a cluster
  std::string Name() const;
};

constexpr int kDsmSets = 5;  // of inputs; launches and groups take turns

// What a launch reports by atomic additions, in words of the report buffer.
enum DsmReportWord {
  kDsmWrong = 0,     // elements that differ from what was wanted
  kDsmCompared = 1,  // elements compared
  kDsmDigest = 2,    // of the bits of all elements, whatever their order
  kDsmFirst = 3,     // 1 once the words behind it tell of the first wrong element
  kDsmLaunch = 4,
  kDsmRound = 5,
  kDsmBlock = 6,
  kDsmElement = 7,
  kDsmGot = 8,
  kDsmWanted = 9,
  kDsmReportWords = 16,
};

// Buffers in the order of the recipe's arguments; the launch's m is its number.
struct DsmData {
  std::vector<float> in;
  std::vector<uint32_t> wanted;  // bits of f32, or words of two 16-bit elements
  uint64_t scratch_bytes = 0;    // zero before the first launch
  uint64_t counter_bytes = 0;    // zero before the first launch
};

// Every case at its own cluster size: groups of the whole cluster, and parts of it.
std::vector<DsmCase> AllDsmCases();
// With random pauses and spin traps.
CompileRequest DsmRequest(const DsmCase& c, bool jitter = true);
LaunchRecipe DsmRecipe(const DsmCase& c);
// Of any kernel in clusters: `pointers` buffers in their order, then m.
LaunchRecipe ClusterRecipe(const char* entry, int cluster, int clusters, int threads,
                           uint64_t shared_bytes, int pointers);
// Random inputs, and what a float64 evaluation of the primitive makes of them.
DsmData MakeDsmData(const DsmCase& c, uint64_t seed);
// Elements that one launch compares.
uint64_t DsmComparedPerLaunch(const DsmCase& c);

}  // namespace sinter::gpu_testing

#endif  // SINTER_TESTS_GPU_DSM_KERNELS_H_
