#include "src/stitch/rows/row_levels.h"

#include <cstddef>

namespace sinter {

RowLevels::RowLevels(const RowValues& rows) {
  const RowDomain& domain = rows.domain;
  for (size_t d = 0; d < domain.last(); ++d) {
    rows_per_m_ *= domain.dims[d];
    if (domain.dims[d] > 1 || (d == 0 && domain.of_m)) levels_.push_back({domain.dims[d], d});
  }
  for (size_t i = 0; i + 1 < levels_.size();) {
    const Level outer = levels_[i], inner = levels_[i + 1];
    const auto joins = [&](const RowPlace& p) {
      return p.steps[outer.dim] == p.steps[inner.dim] * inner.extent;
    };
    bool all = true;
    for (const RowValue& v : rows.values) all &= v.kind != RowValue::Kind::kInput || joins(v.place);
    for (const RowResult& r : rows.results) all &= joins(r.place);
    if (!all) {
      ++i;
      continue;
    }
    levels_[i + 1].extent *= outer.extent;
    levels_.erase(levels_.begin() + static_cast<std::ptrdiff_t>(i));
    if (i > 0) --i;
  }
}

absl::Status RowLevels::Check() const {
  if (levels_.size() <= 2) return absl::OkStatus();
  return absl::FailedPreconditionError("no stand-in walks rows whose three dims lie apart");
}

}  // namespace sinter
