// Mutations: device headers with one wait, fence or arrive taken out, or one place that is wrong.
// Each must be caught.
#pragma once

#include "src/base/compile_request.h"
#include "src/product/schedule.h"
#include "tests/support/common.h"

namespace sinter::gpu_testing {

// Schedules that a mutation shows on.
enum class Needs {
  kAny,
  kSplit,       // some product's K is shared by the blocks of a cluster
  kBothSplit,   // both products' are
  kManyTiles,   // a group of blocks takes several tiles of a split product
  kPairs,       // two blocks load for each other
  kSlab,        // shared memory does not hold all of C
  kEarlyC,      // the ring lets C's loader come to its wait before a product can have ended
  kShortRing,   // fewer than four stages
  kLongRing,    // four stages and more
  kWindow,      // the first product's rows are windows
  kHalfWindow,  // and two blocks load half of them each
  kChunks,      // a block takes its range of N in several chunks
  kNorm,        // a product computes the norm of its rows
  kNormTiles,   // and each block several tiles
  kGrouped,     // grouped products, whose tiles a block has one at a time
  kSwapped,     // grouped products in swapped tiles
  kSplitKeys,   // attention whose keys the blocks of one cluster split, an item after another
  kMma,         // a product by mma.sync, as PTX of a chip without wgmma
};

struct Mutation {
  std::string name;
  std::string header;  // as generated source includes it
  std::string find;    // replaced where it stands once; white space does not count
  std::string replace;
  Dataflow dataflow;  // that it is tried on
  Needs needs = Needs::kAny;
  bool must_die = true;  // false: the hardware may hide it; reported only
};

// The mutations of mutations.txt, in its order. One of each kernel replaces nothing and must
// survive.
std::vector<Mutation> AllMutations();

// An error unless the header has the text in one place: the table must follow the device library.
absl::Status Apply(const Mutation& mutation, CompileRequest* request);

}  // namespace sinter::gpu_testing
