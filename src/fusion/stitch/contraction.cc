#include "src/fusion/stitch/contraction.h"

#include <algorithm>

#include "src/stitch/body_work.h"

namespace sinter {
namespace {

// Ops of one vertex: a kernel follows consecutive ops by recursion (kMostBodyDepth).
constexpr size_t kMostContracted = 512;
// Branches in the source of what joins an op, so that its vertex is never refused for them. A
// concatenation has up to 64 operands.
constexpr int64_t kMostBranchesJoined = kMostBranches / 4;
constexpr int64_t kMostBranchesOfASide = 2;

}  // namespace

bool Contraction::Joins(ValueId value, const VertexReads& reads) const {
  const OpClass op_class = ClassOf(chain_, value);
  if (op_class != OpClass::kLight && op_class != OpClass::kExpensive) return false;
  if (roles_.stored[static_cast<size_t>(value)]) return false;
  if (reads.along.size() >= kMostContracted) return false;
  int64_t branches = BranchesOf(chain_.op(value));
  for (const ValueId along : reads.along) branches += BranchesOf(chain_.op(along));
  const int64_t elements = ElementsOf(chain_.op(value), bucket_);
  int64_t most = elements;
  ValueId reader = value;
  do {
    const std::vector<ValueId>& users = roles_.users[static_cast<size_t>(reader)];
    if (users.size() != 1) return false;
    reader = users[0];
    const bool side = chain_.op(reader).kind == OpKind::kConcat;
    if (branches > (side ? kMostBranchesOfASide : kMostBranchesJoined)) return false;
    if (ClassOf(chain_, reader) != OpClass::kReduction) {
      most = std::max(most, ElementsOf(chain_.op(reader), bucket_));
    }
  } while (roles_.inlined[static_cast<size_t>(reader)] &&
           !roles_.stored[static_cast<size_t>(reader)]);
  const bool stored_view = roles_.inlined[static_cast<size_t>(reader)];
  if (stored_view ? !roles_.users[static_cast<size_t>(reader)].empty() : !contract_) return false;
  if (roles_.run[static_cast<size_t>(reader)] >= 0) return false;
  if (ClassOf(chain_, reader) == OpClass::kProduct) return false;
  if (op_class == OpClass::kExpensive && most > elements) return false;
  return 4 * HandOverOf(reads) <=
         9 * elements * SizeOf(roles_.stored_dtype[static_cast<size_t>(value)]);
}

int64_t Contraction::HandOverOf(const VertexReads& reads) const {
  int64_t bytes = 0;
  for (const SourceRead& read : reads.sources) {
    const bool input = chain_.op(read.source).kind == OpKind::kInput;
    const int64_t size = SizeOf(roles_.stored_dtype[static_cast<size_t>(read.source)]);
    bytes += read.elements * size * (input ? 1 : 2);
  }
  return bytes;
}

}  // namespace sinter
