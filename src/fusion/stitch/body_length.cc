#include "src/fusion/stitch/body_length.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

// Without reductions the ops are written out for each output.
constexpr int64_t kMostWritten = 4400, kMostFlatWritten = 2000;

}  // namespace

absl::Status CheckBodyLength(const Chain& body) {
  int64_t concatenations = 0;
  bool reduces = false;
  for (const Op& op : body.ops()) {
    concatenations += op.kind == OpKind::kConcat;
    reduces |= op.kind == OpKind::kReduce;
  }
  const auto ops = static_cast<int64_t>(body.ops().size());
  const int64_t most = reduces ? kMostWritten : kMostFlatWritten;
  if (ops * (1 + concatenations) <= most) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(ops, " ops around ", concatenations,
                                                    " concatenations take a compiler too long"));
}

}  // namespace sinter
