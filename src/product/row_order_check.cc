#include "src/product/row_order_check.h"

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter {
namespace {

absl::Status RefuseOrder(absl::string_view field, int64_t value, absl::string_view bound) {
  return absl::FailedPreconditionError(
      absl::StrCat("batch_invariant: ", field, " ", value, " ", bound));
}

absl::Status CheckSteps(const MatrixProduct& p, const Schedule& s, absl::string_view name) {
  const int64_t least = ElementOf(p.rows.element).swizzle_span, k = p.StagedK();
  if (RoundUp(k, s.block_k) == RoundUp(k, least)) return absl::OkStatus();
  return RefuseOrder("block_k", s.block_k,
                     absl::StrCat("gives ", name, " of ", k, " more steps than ", least));
}

}  // namespace

absl::Status CheckRowOrder(const ProductSequence& p, const Schedule& s) {
  if (p.front().epilogue.norm.has_value()) return RefuseOrder("norm", 1, "is not 0");
  if (s.swapped) return RefuseOrder("swapped", 1, "is not 0");
  if (s.first.split_k != 1) return RefuseOrder("first.split_k", s.first.split_k, "is not 1");
  const DataflowRow& row = RowOf(s);
  if (row.gate_ranks > 1 || row.ranges || row.medium == Medium::kRegister) {
    return RefuseOrder("dataflow", static_cast<int64_t>(s.dataflow),
                       absl::StrCat("(", row.name, ") adds parts in an order of its own"));
  }
  const absl::Status first = CheckSteps(p.front(), s, "k");
  if (!first.ok() || p.size() == 1) return first;
  if (s.second.split_k != 1) return RefuseOrder("second.split_k", s.second.split_k, "is not 1");
  return CheckSteps(p.back(), s, "n");
}

}  // namespace sinter
