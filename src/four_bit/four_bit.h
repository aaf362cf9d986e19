// FourBitProduct: a few rows times weights of four bits, as one kernel computes it, and
// FourBitSchedule, how.
#ifndef SINTER_SRC_FOUR_BIT_FOUR_BIT_H_
#define SINTER_SRC_FOUR_BIT_FOUR_BIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/codec.h"
#include "src/base/device_model.h"
#include "src/base/dtype.h"
#include "src/base/fields.h"
#include "src/base/launch_recipe.h"
#include "src/model/search.h"
#include "src/product/epilogue.h"
#include "src/product/four_bit_weights.h"
#include "src/product/sequence.h"

namespace sinter {

// product.weights.element is what codes are unpacked to, rounded once; the epilogue is a program.
// Gate and up of a pair have one format and equal strides.
struct FourBitProduct {
  MatrixProduct product;
  FourBitWeights weights;
  int64_t fixed_rows = 0;                                       // 0: M of them
  int64_t row_stride = 0, residual_stride = 0, out_stride = 0;  // elements
  SINTER_FIELDS(FourBitProduct, product, weights, fixed_rows, row_stride, residual_stride,
                out_stride);

  int64_t Rows(int64_t bucket) const { return fixed_rows > 0 ? fixed_rows : bucket; }
  // Columns of a schedule's tile.
  int64_t TileColumns() const { return weights.packed ? 64 : 16; }
  // Bytes of codes, scales and zeros.
  int64_t WeightBytes() const;
  std::string ToString() const;
  void Write(ByteWriter& w) const;
  static absl::StatusOr<FourBitProduct> Read(ByteReader& r);
};

struct FourBitSchedule {
  int tiles = 0;    // of 16 columns of a matrix, of packed weights of 64, in a block
  int slices = 0;   // parts of 128 of K of a step, each with warps of its own
  int split = 1;    // blocks of a cluster, among which K is divided
  int block_m = 8;  // rows of a block: all of them, at most 32; of packed weights at most 64
  int stages = 0;
  int grid = 1;

  int Warps(const FourBitProduct& p) const { return p.product.Width() * tiles * slices; }
  // Pieces of 8 rows and 128 of K in a step.
  int RowPieces() const { return slices * block_m / 8; }
  // Warps that load: rows, two pieces each at most; packed weights are loaded with their rows by
  // one warp, or from 32 rows on, whose sums leave no registers for it, by one that multiplies.
  int LoadWarps(const FourBitProduct& p) const;
  int Threads(const FourBitProduct& p) const { return 32 * (Warps(p) + LoadWarps(p)); }
  std::string ToString(bool with_grid = true) const;
  void Write(ByteWriter& w) const { w(*this); }
  static absl::StatusOr<FourBitSchedule> Read(ByteReader& r);
  SINTER_FIELDS(FourBitSchedule, tiles, slices, split, block_m, stages, grid);
};

constexpr int64_t kSliceK = 128;          // K of a slice of a step
constexpr int64_t kMostFourBitRows = 32;  // of weights that are not packed

// OK, or why no kernel of the family computes it, naming field, value and bound.
absl::Status CheckFourBitProduct(const FourBitProduct& p);
// FAILED_PRECONDITION naming field, value and bound where the schedule cannot run on the chip.
absl::Status CheckSchedule(const FourBitProduct& p, const FourBitSchedule& s,
                           const DeviceModel& model);
// Dynamic.
int64_t SharedMemoryBytes(const FourBitProduct& p, const FourBitSchedule& s);
// Blocks that have all columns of block_m rows.
int64_t BlocksOf(const FourBitProduct& p, const FourBitSchedule& s);

inline constexpr char kFourBitEntry[] = "sinter_four_bit_product";
std::vector<std::string> HeadersOf(const FourBitProduct& p, const FourBitSchedule& s);
std::string SourceOf(const FourBitProduct& p, const FourBitSchedule& s);
// `places`: of rows, bytes, scales and zeros in memory, each of gate, then of up; of the leaves,
// and of the result.
absl::StatusOr<LaunchRecipe> RecipeOf(const FourBitProduct& p, const FourBitSchedule& s,
                                      const std::vector<BufferPlace>& places);

using RankedFourBit = RankedKernel<FourBitSchedule>;

// Time in a plan for `bucket` rows. FAILED_PRECONDITION where the schedule cannot run, or has fewer
// rows.
absl::StatusOr<Prediction> PredictSchedule(const FourBitProduct& p, const FourBitSchedule& s,
                                           int64_t bucket, const DeviceModel& model);
// Legal schedules, best first; none where weights are not packed and `bucket` has more than
// kMostFourBitRows rows.
std::vector<RankedFourBit> SearchFourBit(const FourBitProduct& p, int64_t bucket,
                                         const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_FOUR_BIT_FOUR_BIT_H_
