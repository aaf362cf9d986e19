// How each reduction of a body is computed, as its axes lie to the units: along a unit's elements,
// down the units, or neither.
#ifndef SINTER_SRC_STITCH_REDUCE_USE_H_
#define SINTER_SRC_STITCH_REDUCE_USE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "src/chain/chain.h"

namespace sinter {

struct StitchProgram;

// How a reduction (or a product) is computed.
enum class ReduceUse : uint8_t {
  kNone = 0,     // not a reduction
  kRow = 1,      // by the threads of a unit together
  kColumn = 2,   // over all units
  kSerial = 3,   // by each thread that reads it, for itself
  kSegment = 4,  // of a part of a unit, by neighbouring lanes (segment.h)
};

// With the owner and the units of `program`.
ReduceUse UseOf(const Chain& body, const Op& op, const StitchProgram& program);

// Elements that one result of a reduction or product is made of; 0 when M is among them.
int64_t ReducedElements(const Chain& body, const Op& op);

// Reductions that may own the units, in the order of the body; -1 first: no units.
std::vector<ValueId> OwnerCandidates(const Chain& body);

// Gives `program` the units of `owner`; -1: none. INVALID_ARGUMENT where that is no reduction,
// FAILED_PRECONDITION where it reduces other axes than the last or the first ones.
absl::Status SetOwner(const Chain& body, ValueId owner, StitchProgram& program);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_REDUCE_USE_H_
