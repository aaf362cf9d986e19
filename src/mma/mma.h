// MmaProduct: rows times one weight matrix, or gate and up, as one kernel of mma.sync computes it,
// on chips without wgmma; and MmaSchedule, how.
#ifndef SINTER_SRC_MMA_MMA_H_
#define SINTER_SRC_MMA_MMA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/codec.h"
#include "src/base/device_model.h"
#include "src/base/fields.h"
#include "src/base/launch_recipe.h"
#include "src/model/search.h"
#include "src/product/sequence.h"

namespace sinter {

struct MmaProduct {
  MatrixProduct product;
  int64_t rows = 0;  // the most of a launch; 0 in codes, which serve any
  bool of_m = true;  // a launch has M rows, else `rows`
  // Elements between rows; of weights between columns, or between K where columns are contiguous.
  // Gate and up have one stride.
  int64_t row_stride = 0, weight_stride = 0, residual_stride = 0, out_stride = 0;
  SINTER_FIELDS(MmaProduct, product, rows, of_m, row_stride, weight_stride, residual_stride,
                out_stride);

  int64_t Rows(int64_t bucket) const { return of_m ? bucket : rows; }
  bool along_k() const { return product.weights.layout == Layout::kOI; }
  std::string ToString() const;
  void Write(ByteWriter& w) const;
  static absl::StatusOr<MmaProduct> Read(ByteReader& r);
};

// An operand of the kernel, in the order in which it takes them.
struct MmaOperand {
  enum Kind : uint8_t { kRows, kWeights, kRowScale, kWeightScale, kLeaf, kResult };
  Kind kind = kRows;
  int number = 0;  // of kWeights and kWeightScale: 1 is up's; of kLeaf: an input of the program
  DType element = DType::kBF16;
  int64_t rows = 1, columns = 1;              // rows: 0 is one for each row of the launch
  int64_t row_stride = 0, column_stride = 1;  // elements
};
std::vector<MmaOperand> OperandsOf(const MmaProduct& p);

struct MmaSchedule {
  int block_m = 0, block_n = 0;  // a block's rows, and columns of each matrix
  int warp_m = 0, warp_n = 0;    // a warp's
  int slices = 1;                // warps that divide each step of K
  int stages = 0;
  int grid = 1;

  int Warps() const { return block_m / warp_m * (block_n / warp_n) * slices; }
  int Threads() const { return 32 * Warps(); }
  std::string ToString(bool with_grid = true) const;
  void Write(ByteWriter& w) const { w(*this); }
  static absl::StatusOr<MmaSchedule> Read(ByteReader& r);
  SINTER_FIELDS(MmaSchedule, block_m, block_n, warp_m, warp_n, slices, stages, grid);
};

// OK, or why no kernel of the family computes it, naming field, value and bound.
absl::Status CheckMmaProduct(const MmaProduct& p);
// FAILED_PRECONDITION naming field, value and bound where the schedule cannot run on the chip.
absl::Status CheckSchedule(const MmaProduct& p, const MmaSchedule& s, const DeviceModel& model);
// Blocks that have all rows and columns.
int64_t BlocksOf(const MmaProduct& p, const MmaSchedule& s);
// Dynamic, of a block.
int64_t SharedMemoryBytes(const MmaProduct& p, const MmaSchedule& s);
// An estimate of what the compiler uses of a thread.
int RegistersOf(const MmaProduct& p, const MmaSchedule& s);

inline constexpr char kMmaEntry[] = "sinter_mma_product";
std::vector<std::string> HeadersOf(const MmaProduct& p, const MmaSchedule& s);
std::string SourceOf(const MmaProduct& p, const MmaSchedule& s);
// `places`: of OperandsOf.
absl::StatusOr<LaunchRecipe> RecipeOf(const MmaProduct& p, const MmaSchedule& s,
                                      const std::vector<BufferPlace>& places);

using RankedMma = RankedKernel<MmaSchedule>;

// FAILED_PRECONDITION where the schedule cannot run. The time is of p.rows rows, a plan's bucket.
absl::StatusOr<Prediction> PredictSchedule(const MmaProduct& p, const MmaSchedule& s,
                                           int64_t bucket, const DeviceModel& model);
// Legal schedules, best first. `one_order`: only those that sum a row as all others do.
std::vector<RankedMma> SearchMma(const MmaProduct& p, const DeviceModel& model, bool one_order);

}  // namespace sinter

#endif  // SINTER_SRC_MMA_MMA_H_
