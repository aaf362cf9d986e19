// What checks of schedules share: CheckSchedule for searches, the wording of a refusal, what
// registers hold, and the row order of batch-invariant kernels.
#ifndef SINTER_SRC_PRODUCT_SCHEDULE_CHECK_H_
#define SINTER_SRC_PRODUCT_SCHEDULE_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/base/device_model.h"
#include "src/base/status.h"
#include "src/product/epilogue.h"
#include "src/product/schedule.h"
#include "src/stitch/body_work.h"

namespace sinter {

// CheckSchedule of a sequence that CheckSequence accepts: searches ask of thousands of schedules
// and once of their sequence.
absl::Status CheckScheduleAlone(const ProductSequence& sequence, const Schedule& schedule,
                                const DeviceModel& model);

// Names the field, its value and the bound.
inline absl::Status RefuseSchedule(absl::string_view field, int64_t value,
                                   absl::string_view bound) {
  return Invalid("schedule: ", field, " ", value, " ", bound);
}

// registers.cc: whether the registers of a thread that multiplies hold a tile's sums and the
// kernel's other values. Sums that spill cost more than a narrower tile.

// A product of a sequence, and the tile that a schedule cuts it by.
struct TileOf {
  absl::string_view name;  // "first" or "second"
  const MatrixProduct& product;
  const ProductTile& tile;
  int width;             // weight matrices of a block
  int64_t accumulators;  // of a thread
};

// Words of a residual that a thread holds in addition to the sums of `groups` column groups. They
// are of both of its rows, or of one row for wide tiles. held_matrix_words of the device library is
// the same.
constexpr int64_t HeldResidualWords(int64_t groups) { return groups > 16 ? groups : 2 * groups; }

// OK, or the sums that are too many.
absl::Status CheckAccumulators(const ProductSequence& p, const Schedule& s, const TileOf& of);
// The same of promoted sums, which need registers for those of one part besides.
absl::Status CheckPromoted(const ProductSequence& p, const Schedule& s, const TileOf& of);

// Checks the row order (src/plan/plan.h): OK when the kernel sums K in the order of batch-invariant
// plans: operands not swapped, all of K in one block, in order, in the fewest steps of 64. Else
// FAILED_PRECONDITION naming field, value and bound.
absl::Status CheckRowOrder(const ProductSequence& sequence, const Schedule& schedule);

// What an epilogue's program costs for one value.

OpCost CostOfProgram(const EpilogueProgram& program);
// Registers that a thread computes it with, in addition to the ones that every kernel keeps for an
// epilogue: for functions with slow paths, and for values that are live at the same time.
int ScratchRegisters(const EpilogueProgram& program);
// Scratch registers of a program with one or two kinds of functions with slow paths.
constexpr int kSlowPathRegisters = 64;

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SCHEDULE_CHECK_H_
