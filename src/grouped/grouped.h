// GroupedProduct: products of rows with the matrices that ids name, or ends say, as one kernel
// computes them, and GroupedSchedule, how.
#ifndef SINTER_SRC_GROUPED_GROUPED_H_
#define SINTER_SRC_GROUPED_GROUPED_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/codec.h"
#include "src/base/device_model.h"
#include "src/base/dtype.h"
#include "src/base/fields.h"
#include "src/base/launch_recipe.h"
#include "src/chain/choices.h"
#include "src/model/search.h"
#include "src/product/epilogue.h"
#include "src/product/four_bit_weights.h"

namespace sinter {

// The W of a pair has 2 n columns: the first half and then the second, or columns of both in turns.
// The program reads the sum of a column of the first half as its value, and of the second as up.
// Numbers are part of a kernel's key.
enum class GroupedPair : uint8_t { kNone = 0, kHalves = 1, kInTurns = 2 };

// What a value of a scale is of, along K: nothing, all of K, or each 128 elements of it; of weights
// then also of each 128 columns. Numbers are part of a kernel's key.
enum class GroupedScales : uint8_t { kNone = 0, kWhole = 1, kGroups = 2 };

// How results become e4m3 codes: over max(min(largest magnitude of 128 columns, upper_bound), eps)
// / 448, or the least power of two that is not less (tile/code_scale.cuh).
struct GroupedQuantizer {
  bool present = false, ue8m0 = false;
  double eps = 0, upper_bound = 0;  // 0: none
  SINTER_FIELDS(GroupedQuantizer, present, ue8m0, eps, upper_bound);
};

// What a program's input reads of operand `operand`, in elements: for row m, its slot t, expert e
// and column j of the result the one at
// m * row + t * slot + e * expert + j * column + offset. The fields that a kind does not have are
// 0.
struct GroupedLeaf {
  int operand = 0;  // among those that the program reads; leaves may share one
  int64_t row = 0, slot = 0;
  int64_t expert = 0;  // of kColumn: where it is not 0, slots that name no expert read zeros
  int64_t column = 0, offset = 0;
  SINTER_FIELDS(GroupedLeaf, operand, row, slot, expert, column, offset);
};

// result[m, t] = program(W[e] row) with e = ids[m, t], where row is rows[m] or rows[m, t]; it is
// rounded to `result`. Where e names no expert, sums are 0. By ends: `slots` is 1, a row's slot is
// the row, and e the first of m < ends[e]. Rows and W of e4m3 have scales, f32. W of four bits is
// unpacked to `weights`, rounded once.
struct GroupedProduct {
  DType rows = DType::kBF16, weights = DType::kBF16, result = DType::kF32;
  int64_t experts = 0, slots = 0, n = 0, k = 0;  // n: columns of the result
  int64_t fixed_rows = 0;                        // 0: M of them
  bool slot_rows = false;                        // rows are [m, t, k]
  bool by_ends = false;                          // instead of ids there are ends, [experts]
  // Its rows are computed from another grouped product of the same ids, and W by nobody: ids and W
  // were complete before the kernel before this one let it begin, so that it need not wait for
  // them.
  bool early = false;
  bool input_major = false;  // W is [experts, k, n]
  FourBitWeights codes;      // of W, where it has four bits
  GroupedPair pair = GroupedPair::kNone;
  GroupedScales row_scales = GroupedScales::kNone, weight_scales = GroupedScales::kNone;
  GroupedQuantizer
      quantizer;  // of results of e4m3, whose scales it stores too: f32 [slot, n / 128]
  // What becomes of a sum, or of both sums of a pair; none: nothing. It gives f32 for results of
  // e4m3.
  EpilogueProgram program;
  std::vector<GroupedLeaf> leaves;  // by input of the program; no fields are set of its sums
  // In elements; the innermost stride of rows, W and the result is 1.
  int64_t row_stride = 0, row_slot_stride = 0;
  int64_t id_stride = 0, id_slot_stride = 0;     // by ends: from one to the next, and 0
  int64_t expert_stride = 0, weight_stride = 0;  // of W's first and second dim; not of codes
  int64_t out_stride = 0, out_slot_stride = 0;
  // Strides of scales; 0 where they share a value. `group`: of 128 of K; `column`: of W, or of 128
  // of them.
  int64_t row_scale_stride = 0, row_scale_slot_stride = 0, row_scale_group = 0;
  int64_t weight_scale_expert = 0, weight_scale_column = 0, weight_scale_group = 0;

  int64_t Rows(int64_t bucket) const { return fixed_rows > 0 ? fixed_rows : bucket; }
  bool IsPair() const { return pair != GroupedPair::kNone; }
  // Whether the halves follow one another, of which a tile has equal parts.
  bool HasHalves() const { return pair == GroupedPair::kHalves; }
  bool HasCodes() const { return codes.group > 0; }  // of four bits
  bool HasScales() const { return row_scales != GroupedScales::kNone; }
  int64_t WeightColumns() const { return IsPair() ? 2 * n : n; }
  bool Reads(LeafKind kind) const { return program.present() && program.Reads(kind); }
  // The program's inputs that read an operand, and one of them for each operand, in order.
  std::vector<int> LeafInputs() const;
  std::vector<int> OperandInputs() const;
  const GroupedLeaf& LeafOf(int input) const { return leaves[static_cast<size_t>(input)]; }
  // "grouped product top=8 experts=128 n=768 k=2048 pair=halves program=.."
  std::string ToString() const;
  void Write(ByteWriter& w) const;
  // DATA_LOSS unless within the bounds of a chain's op.
  static absl::StatusOr<GroupedProduct> Read(ByteReader& r);
  SINTER_FIELDS(GroupedProduct, rows, weights, result, experts, slots, n, k, fixed_rows, slot_rows,
                input_major, by_ends, early, codes, pair, row_scales, weight_scales, row_stride,
                row_slot_stride, id_stride, id_slot_stride, expert_stride, weight_stride,
                out_stride, out_slot_stride, row_scale_stride, row_scale_slot_stride,
                row_scale_group, weight_scale_expert, weight_scale_column, weight_scale_group,
                quantizer, program, leaves);
};

// What happens to its sums, in words: "silu", "bias", "weights".
std::vector<std::string> GroupedWords(const GroupedProduct& p);

// The program that `body` is for the product's result; none where it changes nothing.
EpilogueProgram GroupedProgramOf(std::shared_ptr<const Chain> body, std::vector<LeafKind> leaves,
                                 const GroupedProduct& p);
// Why no kernel applies its program; OK where one does.
absl::Status CheckGroupedProgram(const GroupedProduct& p);

struct GroupedSchedule {
  int block_m = 0;  // rows of a tile, 64 or 128; 0: dots
  // Columns of W in a tile, 64, 128 or 256. For dots: 0, a thread has a result, of any types and
  // strides; or 1, a warp has neighbouring results of a slot, of types that tensor cores take.
  int block_n = 0;
  int stages = 0;
  int grid = 1;
  // 0: rows of A are the rows of wgmma. Else swapped: columns of W are, so that a tile has any
  // number of rows of A up to block_m, and this is the number of blocks of a cluster, 1 or 2. Two
  // blocks have rows of one expert, and each loads half of the columns for both.
  int swapped = 0;
  // Of W of four bits, whose tiles have 8, 16 or 32 rows: parts of 256 of K that a step has, each
  // with warps of its own for each 16 of block_n columns. Else 0.
  int slices = 0;

  // A warpgroup that copies, and one for each 64 rows that multiplies; swapped, two of either. Of
  // four bits: warps that multiply, load rows in turns, load weights, find slots and store.
  int Threads() const {
    if (slices > 0) return 32 * (block_n / 16 * slices + kRowTurns * RowWarps() + 2 + kEndWarps);
    return block_m == 0 ? 128 + 128 * block_n : swapped > 0 ? 512 : 128 + 2 * block_m;
  }
  static constexpr int kRowTurns = 2, kEndWarps = 2;
  // Pieces of 8 rows and 128 of K of a step, of four bits, and the warps that load them: two each,
  // but not fewer than two.
  int RowPieces() const { return 2 * slices * block_m / 8; }
  int RowWarps() const { return RowPieces() < 4 ? 2 : RowPieces() / 2; }
  bool IsWarpDots() const { return block_m == 0 && block_n == 1; }
  int ClusterBlocks() const { return swapped > 0 ? swapped : 1; }
  // The columns of weights that a tensor map permutes together.
  int64_t MappedColumns() const { return swapped > 0 ? 16 : 32; }
  std::string ToString(bool with_grid = true) const;
  void Write(ByteWriter& w) const;
  static absl::StatusOr<GroupedSchedule> Read(ByteReader& r);
  SINTER_FIELDS(GroupedSchedule, block_m, block_n, stages, grid, swapped, slices);
};

// Dynamic.
int64_t SharedMemoryBytes(const GroupedProduct& p, const GroupedSchedule& s);
// Blocks of an SM that registers and shared memory are asked to leave room for.
int BlocksPerSm(const GroupedProduct& p, const GroupedSchedule& s);

// Whether tensor cores read its weights by a tensor map: sets of columns are whole, and experts
// follow one another. Else they are copied, where the schedule is not swapped.
bool MapsWeights(const GroupedProduct& p, const GroupedSchedule& s);

// Results of a slot that a warp of dots has.
int64_t WarpColumns(const GroupedProduct& p);

// Why tensor cores cannot compute it, in the words of the product's fields; OK where they can.
absl::Status CheckTensorCores(const GroupedProduct& p);
// FAILED_PRECONDITION naming field, value and bound where the schedule cannot run on the chip.
absl::Status CheckSchedule(const GroupedProduct& p, const GroupedSchedule& s,
                           const DeviceModel& model);

inline constexpr char kGroupedEntry[] = "sinter_grouped_product";
// The headers of the device library that the source includes.
std::vector<std::string> HeadersOf(const GroupedProduct& p, const GroupedSchedule& s);

std::string SourceOf(const GroupedProduct& p, const GroupedSchedule& s);

// `places`: of rows, weights, ids, scales of both where there are some, or the scales and zeros of
// four bits, the program's operands, then of the scales of codes and of the result.
absl::StatusOr<LaunchRecipe> RecipeOf(const GroupedProduct& p, const GroupedSchedule& s,
                                      const std::vector<BufferPlace>& places);

using RankedGrouped = RankedKernel<GroupedSchedule>;

// Experts that uniform routing of `rows` rows to `slots` each names: E (1 - (1 - K / E)^M).
double ExpectedExperts(int64_t experts, int64_t slots, int64_t rows);

// The most tiles of `block_m` slots that any routing of `slots` slots to `groups` groups gives.
int64_t MostTiles(int64_t slots, int64_t groups, int64_t block_m);

// Time in a plan for `bucket` rows, for uniform routing. FAILED_PRECONDITION where the schedule
// cannot run.
absl::StatusOr<Prediction> PredictSchedule(const GroupedProduct& p, const GroupedSchedule& s,
                                           int64_t bucket, const DeviceModel& model);

// Legal schedules, best first; never empty but of four bits. batch_invariant: only the schedules
// that sum in one order whatever the bucket is.
std::vector<RankedGrouped> SearchGrouped(const GroupedProduct& p, int64_t bucket,
                                         const DeviceModel& model, bool batch_invariant);

}  // namespace sinter

#endif  // SINTER_SRC_GROUPED_GROUPED_H_
