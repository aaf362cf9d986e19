// Legality of problems and schedules. Every refusal names the field, its value and the bound.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "src/base/ceil_div.h"
#include "src/base/status.h"
#include "src/plan/schedule.h"

namespace sinter {
namespace {

constexpr int kMaxBox = 256;  // extent of one dimension of a TMA box
constexpr int64_t kMaxAccumulators = 128;
constexpr int64_t kMaxErfAccumulators = 104, kMaxScaledErfAccumulators = 88,
                  kMaxScaledErfAccumulatorsOfOne = 72;
constexpr int64_t kMaxManyPartsAccumulators = 112;
constexpr int64_t kMaxAccumulatorsOfThree = 72, kMaxErfAccumulatorsOfThree = 56,
                  kMaxResidualAccumulatorsOfThree = 48;
constexpr int64_t kMaxSwappedAccumulators = 160, kMaxListResidualAccumulators = 112;
constexpr int kMaxGrid = 1 << 24;
constexpr int kMaxStages = 32;
constexpr int kMostFlaggedBlocks = 240;  // kMaxGrid of the device library: greetings in the header

absl::Status Refuse(absl::string_view field, int64_t value, absl::string_view bound) {
  return absl::InvalidArgumentError(absl::StrCat("schedule: ", field, " ", value, " ", bound));
}

absl::Status RefuseProblem(absl::string_view field, int64_t value, absl::string_view bound) {
  return absl::InvalidArgumentError(absl::StrCat("problem: ", field, " ", value, " ", bound));
}

bool IsClusterSize(int v) { return ClusterIndex(v) >= 0; }

absl::Status CheckExtent(absl::string_view field, int64_t value, bool multiple_of_8) {
  if (value < 1 || value > kLargestExtent) {
    return RefuseProblem(field, value, absl::StrCat("is not in 1..", kLargestExtent));
  }
  if (multiple_of_8 && value % 8 != 0) {
    return RefuseProblem(field, value, "is not a multiple of 8 (16-byte rows of tensor maps)");
  }
  return absl::OkStatus();
}

absl::Status CheckScaling(absl::string_view product, const Scaling& s) {
  if (!std::isfinite(s.constant) || s.constant == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("problem: scale", product, " ", s.constant, " is not finite, or 0"));
  }
  const int rows = static_cast<int>(s.rows);
  if (rows <= static_cast<int>(RowFactor::kElement)) return absl::OkStatus();
  return RefuseProblem(absl::StrCat("factor", product), rows, "is not 0 to 2");
}

// With swapped operands a warpgroup has 64 columns and all rows of a tile.
absl::Status CheckSwapped(const Schedule& s) {
  if (s.dataflow != Dataflow::kProduct)
    return Refuse("swapped", 1, absl::StrCat("is not 0 in ", NameOf(s.dataflow)));
  if (s.warpgroups_m != 1)
    return Refuse("warpgroups_m", s.warpgroups_m, "is not 1 with swapped operands");
  if (s.warpgroups_n < 1 || s.warpgroups_n > 3)
    return Refuse("warpgroups_n", s.warpgroups_n, "is not in 1..3 with swapped operands");
  if (s.block_m < 8 || s.block_m > kMaxBox || s.block_m % 8 != 0) {
    return Refuse("block_m", s.block_m,
                  absl::StrCat("is not a multiple of 8 in 8..", kMaxBox, " with swapped operands"));
  }
  return absl::OkStatus();
}

absl::Status CheckWarpgroups(const Schedule& s) {
  if (s.swapped) return CheckSwapped(s);
  const int most = s.dataflow == Dataflow::kProduct ? 3 : 2;
  if (s.warpgroups_m < 1 || s.warpgroups_m > most) {
    return Refuse("warpgroups_m", s.warpgroups_m,
                  absl::StrCat("is not in 1..", most, " (", NameOf(s.dataflow), ")"));
  }
  if (s.warpgroups_n < 1 || s.warpgroups_n > 2) {
    return Refuse("warpgroups_n", s.warpgroups_n, "is not 1 or 2");
  }
  if (s.warpgroups_m > 1 && s.warpgroups_n > 1) {
    return Refuse("warpgroups_n", s.warpgroups_n, "is not 1 beside several along M");
  }
  const int low = 64 * (s.warpgroups_m - 1) + 8, high = 64 * s.warpgroups_m;
  if (s.block_m < low || s.block_m > high || s.block_m % 8 != 0) {
    return Refuse("block_m", s.block_m,
                  absl::StrCat("is not a multiple of 8 in ", low, "..", high,
                               " (64 rows per warpgroup, none idle)"));
  }
  return absl::OkStatus();
}

absl::Status CheckRing(const Schedule& s) {
  if (s.block_k != 64 && s.block_k != 128) return Refuse("block_k", s.block_k, "is not 64 or 128");
  if (s.stages < 2 || s.stages > kMaxStages) {
    return Refuse("stages", s.stages, absl::StrCat("is not in 2..", kMaxStages));
  }
  if (s.clusters_n < 1 || s.clusters_n > kMostFlaggedBlocks) {
    return Refuse("clusters_n", s.clusters_n, absl::StrCat("is not in 1..", kMostFlaggedBlocks));
  }
  if (s.clusters_n > 1 && s.dataflow != Dataflow::kClusterExchange) {
    return Refuse("clusters_n", s.clusters_n, absl::StrCat("is not 1 in ", NameOf(s.dataflow)));
  }
  if (!IsClusterSize(s.cluster)) return Refuse("cluster", s.cluster, "is not 1, 2, 4, 8 or 16");
  if (s.grid < 1 || s.grid > kMaxGrid || s.grid % s.cluster != 0) {
    return Refuse("grid", s.grid,
                  absl::StrCat("is not a positive multiple of the cluster of ", s.cluster));
  }
  return absl::OkStatus();
}

// With two consumer warpgroups a thread of a persistent kernel has 216 registers, 232 where there
// is one product, and 152 with three; the erf form of GELU, and the sum of eight ranks' parts, need
// so many themselves that wider tiles spill. `last`: of the product whose result a residual is
// added to.
int64_t MaxAccumulators(const FfnProblem& p, const Schedule& s, bool last) {
  const int warpgroups = s.warpgroups_m * s.warpgroups_n;
  if (s.dataflow == Dataflow::kClusterExchange) return kMaxAccumulators;
  const bool erf = p.activation == Activation::kGeluErf;
  if (warpgroups < 2) return erf && p.scaled() ? kMaxScaledErfAccumulatorsOfOne : kMaxAccumulators;
  const bool residual = p.residual != Residual::kNone;
  if (warpgroups == 3 && residual) return kMaxResidualAccumulatorsOfThree;
  if (warpgroups == 3) return erf ? kMaxErfAccumulatorsOfThree : kMaxAccumulatorsOfThree;
  if (erf) return p.scaled() ? kMaxScaledErfAccumulators : kMaxErfAccumulators;
  if (s.swapped) return kMaxSwappedAccumulators;
  if (s.dataflow == Dataflow::kProduct) return kMaxAccumulators;
  // With a residual also by the second product's ranks, or with factors of rows: what is added
  // takes the registers that are left.
  if (s.dataflow == Dataflow::kTaskList && residual && last) return kMaxListResidualAccumulators;
  const bool many = s.first.split_k >= 8 || (residual && (p.scaled() || s.second.split_k >= 8));
  return many ? kMaxManyPartsAccumulators : kMaxAccumulators;
}

// One product over K = `k` cut by `tile`. `name` is "first" or "second".
absl::Status CheckTile(const FfnProblem& p, const Schedule& s, absl::string_view name,
                       const ProductTile& tile, int width, int64_t k) {
  const int step = p.layout == Layout::kIO || s.swapped ? 64 : 8;
  const int box = kMaxBox * s.warpgroups_n;
  if (tile.block_n < 1 || tile.block_n > box || tile.block_n % (step * s.warpgroups_n) != 0) {
    return Refuse(absl::StrCat(name, ".block_n"), tile.block_n,
                  absl::StrCat("is not a multiple of ", step, " per warpgroup in 1..", box));
  }
  const int64_t accumulators = AccumulatorsOf(s, tile, width);
  const int64_t most = MaxAccumulators(p, s, p.products == 1 || name == "second");
  if (accumulators > most) {
    return Refuse(absl::StrCat(name, " accumulators"), accumulators,
                  absl::StrCat("is above ", most, " registers a thread"));
  }
  if (!IsClusterSize(tile.split_k)) {
    return Refuse(absl::StrCat(name, ".split_k"), tile.split_k, "is not 1, 2, 4, 8 or 16");
  }
  const int64_t steps = CeilDiv(k, s.block_k);
  if (tile.split_k > steps) {
    return Refuse(absl::StrCat(name, ".split_k"), tile.split_k,
                  absl::StrCat("is above the ", steps, " steps of K"));
  }
  return absl::OkStatus();
}

// Each block of a pair loads half of what both need; a half begins where a swizzle pattern does,
// on 8 rows of a tile. `legal`: the dataflow has pairs in this product.
absl::Status CheckShare(const FfnProblem& p, const Schedule& s, Share value, absl::string_view name,
                        bool legal, absl::string_view tile_name, const ProductTile& tile) {
  const int share = static_cast<int>(value);
  if (share < 0 || share > 2) return Refuse(name, share, "is not 0 to 2");
  if (value == Share::kNone) return absl::OkStatus();
  if (!legal) return Refuse(name, share, absl::StrCat("is not 0 in ", NameOf(s.dataflow)));
  if (value == Share::kRows && s.block_m % 16 != 0)
    return Refuse("block_m", s.block_m, "is not a multiple of 16, with rows in halves");
  if (value == Share::kWeights && p.layout == Layout::kOI &&
      tile.block_n % (16 * s.warpgroups_n) != 0) {
    return Refuse(absl::StrCat(tile_name, ".block_n"), tile.block_n,
                  "is not a multiple of 16 per warpgroup, with weights in halves");
  }
  return absl::OkStatus();
}

absl::Status CheckShares(const FfnProblem& p, const Schedule& s) {
  const bool list = s.dataflow == Dataflow::kTaskList;
  SINTER_RETURN_IF_ERROR(CheckShare(p, s, s.share, "share",
                                    list || s.dataflow == Dataflow::kProduct, "first", s.first));
  return CheckShare(p, s, s.second_share, "second_share", list, "second", s.second);
}

absl::Status CheckProductShape(const Schedule& s, const ScheduleSizes& z) {
  const int tiles = TilesOf(s.share);
  if (s.cluster != tiles * s.first.split_k) {
    return Refuse("cluster", s.cluster,
                  absl::StrCat("is not first.split_k ", s.first.split_k,
                               tiles > 1 ? absl::StrCat(" for each of ", tiles, " tiles") : ""));
  }
  const int64_t most = z.units * s.cluster;
  if (s.grid > most) {
    return Refuse("grid", s.grid, absl::StrCat("is above the ", most, " blocks with work"));
  }
  return absl::OkStatus();
}

absl::Status CheckFlags(const ScheduleSizes& z) {
  if (z.flag_bytes > static_cast<int64_t>(kGridBarrierOffset)) {
    return Refuse("flag bytes", z.flag_bytes, absl::StrCat("is above ", kGridBarrierOffset));
  }
  return absl::OkStatus();
}

absl::Status CheckGridShape(const Schedule& s, const ScheduleSizes& z) {
  const int want = std::max(s.first.split_k, s.second.split_k);
  if (s.cluster != want) {
    return Refuse("cluster", s.cluster, absl::StrCat("is not the larger split_k ", want));
  }
  return CheckFlags(z);
}

// A cluster is one unit wide in both products. Blocks that fill each other's stages walk the ring
// in step: ranks that share K must then have equally much of it.
absl::Status CheckTasksShape(const FfnProblem& p, const Schedule& s, const ScheduleSizes& z) {
  const bool pairs = TilesOf(s.share) * TilesOf(s.second_share) > 1;
  const auto check = [&](absl::string_view name, const ProductTile& tile, Share share, int64_t k) {
    if (s.cluster != TilesOf(share) * tile.split_k) {
      return Refuse("cluster", s.cluster,
                    absl::StrCat("is not ", name, ".split_k ", tile.split_k, " for each of ",
                                 TilesOf(share), " tiles"));
    }
    const int64_t steps = CeilDiv(k, s.block_k);
    if (pairs && steps % tile.split_k != 0) {
      return Refuse(
          absl::StrCat(name, ".split_k"), tile.split_k,
          absl::StrCat("does not divide the ", steps, " steps of K, with pairs of blocks"));
    }
    return absl::OkStatus();
  };
  SINTER_RETURN_IF_ERROR(check("first", s.first, s.share, p.k));
  SINTER_RETURN_IF_ERROR(check("second", s.second, s.second_share, p.n));
  const int64_t most = z.units * s.cluster;
  if (s.grid > most) {
    return Refuse("grid", s.grid, absl::StrCat("is above the ", most, " blocks with work"));
  }
  return CheckFlags(z);
}

// Ranges of N that clusters own: whole stages of the second product, none empty.
absl::Status CheckRanges(const FfnProblem& p, const Schedule& s, const ScheduleSizes& z) {
  if (s.clusters_n == 1) return absl::OkStatus();
  const int64_t range = int64_t{s.first.block_n} * s.cluster;
  if (range % s.block_k != 0) {
    return Refuse("first.block_n", s.first.block_n,
                  absl::StrCat("times the cluster of ", s.cluster, " is not a multiple of block_k ",
                               s.block_k));
  }
  if (range * (s.clusters_n - 1) >= p.n) {
    return Refuse("clusters_n", s.clusters_n,
                  absl::StrCat("leaves a cluster without a column of n ", p.n));
  }
  const int64_t units = int64_t{s.block_m} * s.second.block_n / 4;
  if (s.clusters_n > units) {
    return Refuse("clusters_n", s.clusters_n,
                  absl::StrCat("is above the ", units, " shares of a tile of E"));
  }
  const int64_t taken = CeilDiv(units, s.clusters_n) * 16 * s.clusters_n;
  if (taken > s.stages * z.stage_bytes + z.exchange_bytes) {
    return Refuse("parts of E", taken,
                  absl::StrCat("are above the ", s.stages * z.stage_bytes + z.exchange_bytes,
                               " bytes of ring and slab that take them"));
  }
  if (s.grid > kMostFlaggedBlocks) {
    return Refuse("grid", s.grid,
                  absl::StrCat("is above the ", kMostFlaggedBlocks, " blocks that greet"));
  }
  return absl::OkStatus();
}

// What stays in the cluster is whole stages of the second product, and there is something on either
// side.
absl::Status CheckSlab(const FfnProblem& p, const Schedule& s) {
  if (s.slab_columns == 0) return absl::OkStatus();
  if (s.dataflow != Dataflow::kClusterExchange) {
    return Refuse("slab_columns", s.slab_columns, absl::StrCat("is not 0 in ", NameOf(s.dataflow)));
  }
  if (s.slab_columns < 0 || s.slab_columns >= p.n || s.slab_columns % s.block_k != 0) {
    return Refuse("slab_columns", s.slab_columns,
                  absl::StrCat("is not a multiple of block_k ", s.block_k, " below n ", p.n));
  }
  if (s.clusters_n > 1) {
    return Refuse("slab_columns", s.slab_columns, "is not 0 where clusters share an M tile");
  }
  if (s.cluster == 1) return Refuse("slab_columns", s.slab_columns, "is not 0 in a cluster of 1");
  return absl::OkStatus();
}

// Pairs of ranks, each with its own matrix.
absl::Status CheckSpatialGate(const FfnProblem& p, const Schedule& s) {
  if (!s.spatial_gate) return absl::OkStatus();
  if (s.dataflow != Dataflow::kClusterExchange) {
    return Refuse("spatial_gate", 1, absl::StrCat("is not 0 in ", NameOf(s.dataflow)));
  }
  if (!p.gated) return Refuse("spatial_gate", 1, "is not 0 without a gate");
  if (s.clusters_n > 1 || s.slab_columns > 0) {
    return Refuse("spatial_gate", 1, "is not 0 beside clusters_n or slab_columns");
  }
  if (s.cluster == 1) return Refuse("spatial_gate", 1, "is not 0 in a cluster of 1");
  if (p.k <= s.block_k) {
    return Refuse("spatial_gate", 1, absl::StrCat("is not 0 with k ", p.k, " in one step of K"));
  }
  return absl::OkStatus();
}

absl::Status CheckClusterShape(const FfnProblem& p, const Schedule& s, const ScheduleSizes& z) {
  if (s.first.split_k != 1) return Refuse("first.split_k", s.first.split_k, "is not 1");
  if (s.second.split_k != 1) return Refuse("second.split_k", s.second.split_k, "is not 1");
  if (int64_t{s.first.block_n} * s.cluster / GateRanks(s) * s.clusters_n < p.n) {
    return Refuse(
        "first.block_n", s.first.block_n,
        absl::StrCat(
            "times the cluster of ", s.cluster, s.spatial_gate ? " in pairs" : "",
            s.clusters_n > 1 ? absl::StrCat(" times clusters_n ", s.clusters_n) : std::string(),
            " is below n ", p.n));
  }
  SINTER_RETURN_IF_ERROR(CheckRanges(p, s, z));
  if (int64_t{s.second.block_n} * s.cluster < p.l) {
    return Refuse("second.block_n", s.second.block_n,
                  absl::StrCat("times the cluster of ", s.cluster, " is below l ", p.l));
  }
  const int64_t want = z.m_tiles * s.clusters_n * s.cluster;
  if (s.grid != want) {
    return Refuse("grid", s.grid,
                  absl::StrCat("is not M tiles * cluster ", s.clusters_n > 1 ? "* clusters_n " : "",
                               "= ", want));
  }
  return absl::OkStatus();
}

absl::Status CheckFamily(const FfnProblem& p, const Schedule& s) {
  const int dataflow = static_cast<int>(s.dataflow);
  if (dataflow < 1 || dataflow > 4) return Refuse("dataflow", dataflow, "is not 1 to 4");
  if ((s.dataflow == Dataflow::kProduct) != (p.products == 1)) {
    return Refuse("dataflow", dataflow,
                  absl::StrCat("(", NameOf(s.dataflow), ") cannot take ", p.products,
                               p.products == 1 ? " product" : " products"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckProblem(const FfnProblem& p) {
  if (p.products != 1 && p.products != 2)
    return RefuseProblem("products", p.products, "is not 1 or 2");
  if (p.dtype != DType::kBF16 && p.dtype != DType::kF16) {
    return RefuseProblem("dtype", static_cast<int>(p.dtype),
                         absl::StrCat("(", NameOf(p.dtype), ") is not bf16 or f16"));
  }
  if (p.layout != Layout::kOI && p.layout != Layout::kIO) {
    return RefuseProblem("layout", static_cast<int>(p.layout), "is not oi or io");
  }
  const int activation = static_cast<int>(p.activation);
  if (activation < 0 || activation > static_cast<int>(Activation::kSilu)) {
    return RefuseProblem("activation", activation, "is not 0 to 4");
  }
  const int residual = static_cast<int>(p.residual);
  if (residual > static_cast<int>(Residual::kAddedRounded)) {
    return RefuseProblem("residual", residual, "is not 0 to 2");
  }
  SINTER_RETURN_IF_ERROR(CheckScaling("1", p.scaling1));
  SINTER_RETURN_IF_ERROR(CheckScaling("2", p.scaling2));
  const bool io = p.layout == Layout::kIO;
  SINTER_RETURN_IF_ERROR(CheckExtent("k", p.k, true));
  SINTER_RETURN_IF_ERROR(CheckExtent("n", p.n, io || p.products == 2));
  if (p.products == 2) SINTER_RETURN_IF_ERROR(CheckExtent("l", p.l, io));
  if (p.products == 1 && p.l != 0) return RefuseProblem("l", p.l, "is not 0 with one product");
  if (p.products == 1 && p.bias2) return RefuseProblem("bias2", 1, "is set with one product");
  if (p.products == 1 && p.scaling2.any()) {
    return absl::InvalidArgumentError("problem: scale2 or factor2 is set with one product");
  }
  if (p.bucket < 1 || p.bucket > kLargestBucket) {
    return RefuseProblem("bucket", p.bucket, absl::StrCat("is not in 1..", kLargestBucket));
  }
  return absl::OkStatus();
}

absl::Status CheckScheduleFields(const FfnProblem& p, const Schedule& s) {
  SINTER_RETURN_IF_ERROR(CheckProblem(p));
  SINTER_RETURN_IF_ERROR(CheckFamily(p, s));
  SINTER_RETURN_IF_ERROR(CheckWarpgroups(s));
  SINTER_RETURN_IF_ERROR(CheckRing(s));
  SINTER_RETURN_IF_ERROR(CheckTile(p, s, "first", s.first, FirstWidth(p, s), p.k));
  if (p.products == 2) SINTER_RETURN_IF_ERROR(CheckTile(p, s, "second", s.second, 1, p.n));
  SINTER_RETURN_IF_ERROR(CheckShares(p, s));
  SINTER_RETURN_IF_ERROR(CheckSlab(p, s));
  SINTER_RETURN_IF_ERROR(CheckSpatialGate(p, s));
  const ScheduleSizes z = SizesOf(p, s);
  switch (s.dataflow) {
    case Dataflow::kProduct:
      return CheckProductShape(s, z);
    case Dataflow::kGridExchange:
      return CheckGridShape(s, z);
    case Dataflow::kClusterExchange:
      return CheckClusterShape(p, s, z);
    case Dataflow::kTaskList:
      return CheckTasksShape(p, s, z);
  }
  return absl::InternalError("schedule: unreachable dataflow");
}

absl::Status CheckSchedule(const FfnProblem& problem, const Schedule& s, const DeviceModel& model) {
  SINTER_RETURN_IF_ERROR(CheckScheduleFields(problem, s));
  const ScheduleSizes z = SizesOf(problem, s);
  if (z.shared_bytes > model.shared_bytes_per_block) {
    return Refuse("shared memory", z.shared_bytes,
                  absl::StrCat("is above the ", model.shared_bytes_per_block, " bytes of a block"));
  }
  const int resident = model.ResidentBlocks(s.cluster);
  if (resident < s.cluster) {
    return Refuse("cluster", s.cluster, absl::StrCat("does not fit on ", model.name));
  }
  if (IsCooperative(s) && s.grid > resident) {
    return Refuse("grid", s.grid,
                  absl::StrCat("is above the ", resident, " blocks in clusters of ", s.cluster,
                               " that are resident at once"));
  }
  return absl::OkStatus();
}

}  // namespace sinter
