// RowLevels: the loops over rows that a stand-in walks.
#ifndef SINTER_SRC_STITCH_ROWS_ROW_LEVELS_H_
#define SINTER_SRC_STITCH_ROWS_ROW_LEVELS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "src/stitch/rows/row_values.h"

namespace sinter {

// The dims of rows, joined where all places walk two of them as one.
class RowLevels {
 public:
  explicit RowLevels(const RowValues& rows);
  // FAILED_PRECONDITION: more than two are left.
  absl::Status Check() const;
  int64_t rows_per_m() const { return rows_per_m_; }
  int64_t inner_rows() const { return levels_.size() == 2 ? levels_[1].extent : 1; }
  int64_t Outer(const RowPlace& p) const {
    return levels_.empty() ? 0 : p.steps[levels_.front().dim];
  }
  int64_t Inner(const RowPlace& p) const {
    return levels_.size() < 2 ? 0 : p.steps[levels_.back().dim];
  }

 private:
  struct Level {
    int64_t extent;
    size_t dim;  // whose steps are the level's
  };
  std::vector<Level> levels_;
  int64_t rows_per_m_ = 1;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_ROWS_ROW_LEVELS_H_
