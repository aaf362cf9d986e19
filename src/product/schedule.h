// Schedule: how one kernel of products runs. Plain data: search enumerates it, codegen turns it
// into source.
#ifndef SINTER_SRC_PRODUCT_SCHEDULE_H_
#define SINTER_SRC_PRODUCT_SCHEDULE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/device_model.h"
#include "src/product/sequence.h"

// The list of dataflows, in the order of their enumerators. To add one: a line, a file in
// src/product/dataflow that defines k<Name>Row, with a byte of its own, and a kernel in
// src/device/kernels.
#define SINTER_DATAFLOWS(ROW) \
  ROW(Product)                \
  ROW(GridExchange)           \
  ROW(ClusterExchange)        \
  ROW(ClusterRanges)          \
  ROW(ClusterSlab)            \
  ROW(SpatialGate)            \
  ROW(ResidentWeights)

namespace sinter {

// How the products of one kernel hand over: kProduct, kGridExchange, .. Each is described in its
// file of src/product/dataflow.
enum class Dataflow : uint8_t {
  kNone = 0,
#define SINTER_ENUMERATOR(name) k##name,
  SINTER_DATAFLOWS(SINTER_ENUMERATOR)
#undef SINTER_ENUMERATOR
};
absl::string_view NameOf(Dataflow dataflow);  // "grid-exchange"; "invalid" for none

// Which operand two blocks of a cluster load together: each loads half for both (TMA multicast), so
// L2 is read once for two tiles. For kProduct. The cluster is then split_k blocks for each of the
// two tiles.
enum class Share : uint8_t {
  kNone = 0,
  kWeights = 1,  // the blocks take neighbouring row tiles of the same columns
  kRows = 2,     // the blocks take neighbouring column tiles of the same rows
};

absl::string_view NameOf(Share share);  // "none", "weights", "rows"

// How one product is cut. `split_k` blocks of a cluster share a tile's K range and add their f32
// parts through distributed shared memory (dsm_reduce_scatter by rows). This is FlashFuser's cls_k
// in the first product and cls_reduce in the second.
struct ProductTile {
  int block_n = 0;  // output columns of one tile; a multiple of 8 (layout oi) or of 64 (layout io)
  int split_k = 1;  // 1, 2, 4, 8 or 16; 1 where a cluster owns a row tile
  SINTER_FIELDS(ProductTile, block_n, split_k);
};

struct Schedule {
  Dataflow dataflow = Dataflow::kProduct;
  int block_m = 128;  // rows of a row tile: a multiple of 8, at most 64 * warpgroups_m; at most 256
                      // with swapped operands
  int warpgroups_m = 2;  // consumer warpgroups along M, 64 rows each: 1 or 2; 3 for kProduct; 1
                         // with swapped operands
  int warpgroups_n = 1;  // consumer warpgroups along N, block_n / warpgroups_n columns each: 1 or
                         // 2; 2 only with one along M; 1 to 3 with swapped operands
  bool swapped = false;  // kProduct: weights are the 64 rows of wgmma and rows are its columns, so
                         // that tiles have any multiple of 8 rows. The result is transposed when it
                         // is stored. block_n is a multiple of 64 * warpgroups_n
  int block_k = 128;     // K elements of one ring stage: 64 or 128
  int stages = 3;        // ring stages
  int cluster = 1;       // blocks a cluster: 1, 2, 4, 8, 16
  int cut = 0;           // how the dataflow cuts C. kClusterRanges: clusters that share a row
                         // tile; kClusterSlab: columns that a cluster keeps; others: 0
  Share share = Share::kNone;  // the operand that blocks of two tiles load together
  int pushes = 0;  // ranks of a group: the result is pushed to the other ranks' slots too, for the
                   // all-reduce that follows (src/collective); 0: it is not. kProduct
  int pushed_columns = 0;  // with pushes: of each row, whole tiles that a producer warp sends from
                           // memory while they multiply the next ones; the sum sends the others. 0:
                           // the consumers send all that they store
  int grid = 0;            // blocks of the launch, a multiple of cluster
  ProductTile first;       // where a cluster owns a row tile, block_n = columns of C per block
  ProductTile second;      // the same for E; unused when the sequence has one product

  SINTER_FIELDS(Schedule, dataflow, block_m, warpgroups_m, warpgroups_n, block_k, stages, cluster,
                share, grid, first, second, cut, swapped, pushes, pushed_columns);
  std::string Canonical() const;  // versioned bytes
  // One line, without the grid where it is 0: "grid-exchange bm128 wg2x1 bk128 st3 cl4 grid116
  // first 72/1 second 72/4". docs/plan-formats.md says what each word means.
  std::string ToString() const;
  static absl::StatusOr<Schedule> FromCanonical(absl::string_view bytes);
};

// Rows of a tile whose norm a product computes.
constexpr int kMostNormRows = 48;

// Tiles along M and along the columns that a cluster takes at once: 2 where blocks share the loads
// of the other operand, else 1.
constexpr int TilesM(Share share) { return share == Share::kWeights ? 2 : 1; }
constexpr int TilesN(Share share) { return share == Share::kRows ? 2 : 1; }
constexpr int TilesOf(Share share) { return TilesM(share) * TilesN(share); }

// Ranks that compute a tile of C together, one matrix each; and the matrices that one rank has.
int GateRanks(const Schedule& schedule);
int FirstWidth(const ProductSequence& sequence, const Schedule& schedule);
// Clusters that share a row tile by ranges of N and add their partial sums of E through L2.
int RangesOf(const Schedule& schedule);
// Columns of C that a cluster keeps in shared memory.
int64_t KeptColumns(const ProductSequence& sequence, const Schedule& schedule);
// Whether C, or a part of its columns, is written to the workspace.
bool WritesC(const Schedule& schedule);
// Whether blocks wait for blocks of other clusters: all must be resident at once.
bool IsCooperative(const Schedule& schedule);

// wgmmas that a warpgroup issues side by side with swapped operands, each for 64 columns of the
// result.
constexpr int SwappedSets(const Schedule& s, const ProductTile& tile, int width) {
  return width * tile.block_n / (64 * s.warpgroups_n);
}

// Parts of a warpgroup's sums that the tensor cores compute one after another, 1 unless sums are
// promoted (device library, tile/product.cuh). `columns`: of all its wgmmas side by side.
constexpr int PromotedParts(const ElementRow& element, const Schedule& s, int columns) {
  if (!element.promoted || columns <= 128) return 1;
  return s.swapped ? columns / s.block_m : 2;
}

// Accumulators of a consumer thread for a tile of `width` matrices; 0 without warpgroups.
constexpr int64_t AccumulatorsOf(const Schedule& s, const ProductTile& tile, int width) {
  if (s.warpgroups_n < 1) return 0;
  if (s.swapped) return int64_t{SwappedSets(s, tile, width)} * s.block_m / 2;
  return int64_t{width} * tile.block_n / s.warpgroups_n / 2;
}

// Whether the tensor map of weights permutes their rows, so that a thread's accumulators are eight
// neighbouring columns (device library, tile/layout.cuh): in kernels of one product, which stores
// values of 16 bits.
constexpr int kPermutedRows = 32;
bool PermutesColumns(const ProductSequence& sequence, const Schedule& schedule);

// Sizes that follow from a sequence and a schedule. The device library computes the same sizes;
// generated source asserts that they agree.
struct ScheduleSizes {
  int64_t stage_bytes = 0;    // one ring stage: A part, then weights
  int64_t kept_bytes = 0;     // columns of C that a cluster keeps, in every block
  int64_t weights_bytes = 0;  // weights that stay in a block
  int64_t reduce_bytes =
      0;  // f32 partial sums that peers send to a block (0 where no ranks share a tile)
  int64_t shared_bytes = 0;  // dynamic shared memory of the launch, alignment slack included
  int64_t accumulators = 0;  // most f32 accumulators a consumer thread holds
  int64_t row_tiles = 0, first_tiles = 0,
          second_tiles = 0;  // tiles of C and E over the bucket (column tiles x row_tiles)
  int64_t units = 0;  // what clusters take one after another, a tile or a pair of tiles; 0: none
  int64_t flag_bytes = 0;         // header and ready flags in the workspace (cooperative schedules)
  int64_t c_bytes = 0;            // C in the workspace (WritesC)
  int64_t partial_out_bytes = 0;  // partial sums of out in the workspace (RangesOf > 1)
};

ScheduleSizes SizesOf(const ProductSequence& sequence, const Schedule& schedule);

// Units that a cluster takes one after another, at most; 1 where there are none.
int64_t TurnsOf(const ProductSequence& sequence, const Schedule& schedule);

// The first columns of one product that have no tile computed in the last turn; 0 if there are
// none.
int64_t EarlyColumns(const ProductSequence& sequence, const Schedule& schedule);

// The checks of CheckSchedule that need no chip: fields, tiles against the sequence, registers.
// Decoders use it alone.
absl::Status CheckScheduleFields(const ProductSequence& sequence, const Schedule& schedule);

// OK, or why no kernel can be made: names the field, the value and the bound. Deterministic:
// only `model` describes the chip.
absl::Status CheckSchedule(const ProductSequence& sequence, const Schedule& schedule,
                           const DeviceModel& model);

// Every kernel's workspace begins with this many bytes for ready flags. C follows, so it never
// overlays them.
constexpr uint64_t kWorkspaceFlagBytes = 64 * 1024;
// Their last words are the two of stitched kernels' grid barrier; kernels use it one after another.
constexpr uint64_t kGridBarrierOffset = kWorkspaceFlagBytes - 64;
// Words before the flags: the launch epoch, and one word for each block to say that it has read it
// (device library, kernels/epoch.cuh).
constexpr int64_t kFlagHeaderWords = 256;

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SCHEDULE_H_
