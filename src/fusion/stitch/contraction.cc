#include "src/fusion/stitch/contraction.h"

#include <algorithm>

#include "src/stitch/body_work.h"
#include "src/stitch/in_place.h"

namespace sinter {
namespace {

// Ops of one vertex: a kernel follows consecutive ops by recursion (kMostBodyDepth).
constexpr size_t kMostContracted = 512;
// Branches in the source of what joins an op, so that its vertex is never refused for them. A
// concatenation has up to 64 operands.
constexpr int64_t kMostBranchesJoined = kMostBranches / 4;
constexpr int64_t kMostBranchesOfASide = 2;

}  // namespace

// Whether `reader` is a scatter that computes `operand` again for each row, its ids, or whose
// buffer is among what it would be computed from.
bool Contraction::IsKeptFrom(ValueId reader, ValueId operand, const VertexReads& reads) const {
  const Op& op = chain_.op(reader);
  if (op.kind != OpKind::kScatter) return false;
  if (op.operands[1] == operand) return true;
  return WritesInPlace(chain_, reader) &&
         std::any_of(reads.sources.begin(), reads.sources.end(),
                     [&](const SourceRead& read) { return read.source == op.operands[0]; });
}

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
    if (IsKeptFrom(users[0], reader, reads)) return false;
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
