// Schedule: how one kernel of the chain or gemm family runs. Plain data; search enumerates it,
// codegen turns it into source.
#ifndef SINTER_SRC_PRODUCT_SCHEDULE_H_
#define SINTER_SRC_PRODUCT_SCHEDULE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/device_model.h"
#include "src/product/dataflow/list.h"
#include "src/product/sequence.h"

namespace sinter {

// How the products of one kernel hand over: kProduct, kGridExchange, .. Each has a file of
// src/product/dataflow that says what it is.
enum class Dataflow : uint8_t {
  kNone = 0,
#define SINTER_ENUMERATOR(name) k##name,
  SINTER_DATAFLOWS(SINTER_ENUMERATOR)
#undef SINTER_ENUMERATOR
};
absl::string_view NameOf(Dataflow dataflow);  // "grid-exchange"; "invalid" for none

// What two blocks of a cluster load together, each half of it for both (TMA multicast): L2 is read
// once for two tiles. kProduct, and each product of kTaskList; the cluster is split_k blocks for
// each of the two.
enum class Share : uint8_t {
  kNone = 0,
  kWeights = 1,  // the blocks take neighbouring M tiles of the same columns
  kRows = 2,     // the blocks take neighbouring column tiles of the same rows
};

absl::string_view NameOf(Share share);  // "none", "weights", "rows"

// How one product is cut. `split_k` blocks of a cluster share a tile's K range and add their f32
// parts through distributed shared memory (dsm_reduce_scatter by rows): FlashFuser's cls_k for the
// first product, cls_reduce for the second.
struct ProductTile {
  int block_n = 0;  // output columns of one tile; a multiple of 8 (layout oi) or of 64 (layout io)
  int split_k = 1;  // 1, 2, 4, 8 or 16; 1 where a cluster owns an M tile
  bool operator==(const ProductTile& o) const {
    return block_n == o.block_n && split_k == o.split_k;
  }
};

struct Schedule {
  Dataflow dataflow = Dataflow::kProduct;
  int block_m = 128;     // rows of an M tile that are loaded: a multiple of 8, at most 64 *
                         // warpgroups_m; at most 256 with swapped operands
  int warpgroups_m = 2;  // consumer warpgroups along M, 64 rows each: 1 or 2; 3 for kProduct; 1
                         // with swapped operands
  int warpgroups_n = 1;  // consumer warpgroups along N, block_n / warpgroups_n columns each: 1 or
                         // 2; 2 only beside one along M; 1 to 3 with swapped operands
  bool swapped = false;  // kProduct: weights are the 64 rows of wgmma, rows of the matrix its
                         // columns, so that tiles have any multiple of 8 rows; the result is turned
                         // when it is stored. block_n is a multiple of 64 * warpgroups_n
  int block_k = 128;     // K elements of one ring stage: 64 or 128
  int stages = 3;        // ring stages
  int cluster = 1;       // blocks of a cluster: 1, 2, 4, 8, 16
  int cut = 0;  // by what its dataflow cuts C: kClusterRanges: clusters that share an M tile;
                // kClusterSlab: columns that a cluster keeps; others: 0
  Share share = Share::kNone;         // what blocks of two tiles load together
  Share second_share = Share::kNone;  // the same of the second product; kTaskList
  int grid = 0;                       // blocks of the launch, a multiple of cluster
  ProductTile first;   // where a cluster owns an M tile, block_n = columns of C per block
  ProductTile second;  // the same of E; unused when the sequence has one product

  bool operator==(const Schedule& o) const;
  std::string Canonical() const;  // versioned bytes
  std::string ToString() const;   // one line, without the grid where it is 0: "grid-exchange bm128
                                  // bk128 st3 cl4 grid116 first 72/1 second 72/4"
  static absl::StatusOr<Schedule> FromCanonical(absl::string_view bytes);
};

// Tiles along M and along the columns that a cluster takes at once: 2 where its blocks share what
// the other dimension loads, else 1.
constexpr int TilesM(Share share) { return share == Share::kWeights ? 2 : 1; }
constexpr int TilesN(Share share) { return share == Share::kRows ? 2 : 1; }
constexpr int TilesOf(Share share) { return TilesM(share) * TilesN(share); }

// Ranks that make a tile of C together, each a matrix of its own; matrices that one of them has.
int GateRanks(const Schedule& schedule);
int FirstWidth(const ProductSequence& sequence, const Schedule& schedule);
// Clusters that share an M tile by ranges of N, and add their parts of E through L2.
int ClustersN(const Schedule& schedule);
// Columns of C that a cluster keeps in shared memory.
int64_t KeptColumns(const ProductSequence& sequence, const Schedule& schedule);
// Whether C, or some of its columns, is written to the workspace.
bool WritesC(const Schedule& schedule);
// Whether blocks wait for blocks of other clusters: all must be resident at once.
bool IsCooperative(const Schedule& schedule);

// wgmma operations of a warpgroup side by side that take a product's weights as their rows: 64
// columns of the result each.
constexpr int SwappedSets(const Schedule& s, const ProductTile& tile, int width) {
  return width * tile.block_n / (64 * s.warpgroups_n);
}

// f32 registers of a consumer thread that hold a tile of `width` matrices; 0 without warpgroups.
constexpr int64_t AccumulatorsOf(const Schedule& s, const ProductTile& tile, int width) {
  if (s.warpgroups_n < 1) return 0;
  if (s.swapped) return int64_t{SwappedSets(s, tile, width)} * s.block_m / 2;
  return int64_t{width} * tile.block_n / s.warpgroups_n / 2;
}

// Sizes that follow from a sequence and a schedule. The device library computes the same ones;
// generated source asserts it.
struct ScheduleSizes {
  int64_t stage_bytes = 0;     // one ring stage: A part, then weights
  int64_t exchange_bytes = 0;  // columns of C that a cluster keeps, in every block
  int64_t reduce_bytes = 0;    // f32 parts that peers send to a block (0 when no product is split)
  int64_t shared_bytes = 0;    // dynamic shared memory of the launch, alignment slack included
  int64_t accumulators = 0;    // f32 registers a consumer thread holds at most
  int64_t m_tiles = 0, first_tiles = 0,
          second_tiles = 0;  // tiles of C and E over the bucket (column tiles x m_tiles)
  int64_t units = 0;       // what clusters take one after another, a tile or a pair of them, of all
                           // products that are taken so; 0: none is
  int64_t flag_bytes = 0;  // header and ready flags in the workspace (cooperative schedules)
  int64_t c_bytes = 0;     // C in the workspace (WritesC)
  int64_t parts_bytes = 0;  // parts of E in the workspace (ClustersN > 1)
};

ScheduleSizes SizesOf(const ProductSequence& sequence, const Schedule& schedule);

// Everything of CheckSchedule that needs no chip: fields, tiles against the sequence, registers.
// Decoders use it alone.
absl::Status CheckScheduleFields(const ProductSequence& sequence, const Schedule& schedule);

// OK, or why no kernel can be made: names the field, the value and the bound. Deterministic; knows
// the chip through `model`.
absl::Status CheckSchedule(const ProductSequence& sequence, const Schedule& schedule,
                           const DeviceModel& model);

// Every kernel's workspace begins with this many bytes for ready flags; C follows, so that it never
// overlays them.
constexpr uint64_t kWorkspaceFlagBytes = 64 * 1024;
// The last of them are the two words of stitch kernels' grid barrier: kernels take turns on it.
constexpr uint64_t kGridBarrierOffset = kWorkspaceFlagBytes - 64;
// Words before the flags: the launch epoch and a greeting of each block (device library,
// kernels/l2_exchange.cuh).
constexpr int64_t kFlagHeaderWords = 256;

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SCHEDULE_H_
