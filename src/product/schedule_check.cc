// Legality of schedules. Every refusal names the field, its value and the bound.
#include "src/product/schedule_check.h"

#include <algorithm>

#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter {
namespace {

constexpr int kWarpgroupRows = 64,
              kColumnStep = 8;  // a warpgroup's rows in a wgmma, and the step of its N
constexpr int kMaxBox = 256;    // extent of one dimension of a TMA box
constexpr int kMaxGrid = 1 << 24;
constexpr int kMaxStages = 32;
constexpr int kMostRanks = 8;          // of a group
constexpr int64_t kPushedColumns = 8;  // that are stored at once

bool IsClusterSize(int v) { return ClusterIndex(v) >= 0; }

// With swapped operands a warpgroup has 64 columns and all rows of a tile.
absl::Status CheckSwapped(const Schedule& s) {
  if (!RowOf(s).swaps)
    return RefuseSchedule("swapped", 1, absl::StrCat("is not 0 in ", NameOf(s.dataflow)));
  if (s.warpgroups_m != 1)
    return RefuseSchedule("warpgroups_m", s.warpgroups_m, "is not 1 with swapped operands");
  if (s.warpgroups_n < 1 || s.warpgroups_n > 3)
    return RefuseSchedule("warpgroups_n", s.warpgroups_n, "is not in 1..3 with swapped operands");
  if (s.block_m < 8 || s.block_m > kMaxBox || s.block_m % 8 != 0) {
    return RefuseSchedule(
        "block_m", s.block_m,
        absl::StrCat("is not a multiple of 8 in 8..", kMaxBox, " with swapped operands"));
  }
  return absl::OkStatus();
}

absl::Status CheckWarpgroups(const Schedule& s) {
  if (s.swapped) return CheckSwapped(s);
  const int most = RowOf(s).products == 1 ? 3 : 2;
  if (s.warpgroups_m < 1 || s.warpgroups_m > most) {
    return RefuseSchedule("warpgroups_m", s.warpgroups_m,
                          absl::StrCat("is not in 1..", most, " (", NameOf(s.dataflow), ")"));
  }
  if (s.warpgroups_n < 1 || s.warpgroups_n > 2) {
    return RefuseSchedule("warpgroups_n", s.warpgroups_n, "is not 1 or 2");
  }
  if (s.warpgroups_m > 1 && s.warpgroups_n > 1) {
    return RefuseSchedule("warpgroups_n", s.warpgroups_n, "is not 1 with several along M");
  }
  const int low = 64 * (s.warpgroups_m - 1) + 8, high = 64 * s.warpgroups_m;
  if (s.block_m < low || s.block_m > high || s.block_m % 8 != 0) {
    return RefuseSchedule("block_m", s.block_m,
                          absl::StrCat("is not a multiple of 8 in ", low, "..", high,
                                       " (64 rows per warpgroup, none idle)"));
  }
  return absl::OkStatus();
}

absl::Status CheckRing(const ProductSequence& p, const Schedule& s) {
  const int span = ElementOf(p.element()).swizzle_span;
  if (s.block_k != span && s.block_k != 2 * span) {
    return RefuseSchedule("block_k", s.block_k, absl::StrCat("is not ", span, " or ", 2 * span));
  }
  if (s.stages < 2 || s.stages > kMaxStages) {
    return RefuseSchedule("stages", s.stages, absl::StrCat("is not in 2..", kMaxStages));
  }
  if (s.cut != 0 && RowOf(s).cut[0] == 0) {
    return RefuseSchedule("cut", s.cut, absl::StrCat("is not 0 in ", NameOf(s.dataflow)));
  }
  if (!IsClusterSize(s.cluster))
    return RefuseSchedule("cluster", s.cluster, "is not 1, 2, 4, 8 or 16");
  if (s.grid < 1 || s.grid > kMaxGrid || s.grid % s.cluster != 0) {
    return RefuseSchedule("grid", s.grid,
                          absl::StrCat("is not a positive multiple of the cluster of ", s.cluster));
  }
  return absl::OkStatus();
}

// The N of a warpgroup's wgmma.
absl::Status CheckColumns(const ProductSequence& p, const Schedule& s, absl::string_view name,
                          int64_t accumulators) {
  const int64_t n = s.swapped ? s.block_m : 2 * accumulators;
  if (HasColumns(ElementOf(p.front()), n)) return absl::OkStatus();
  return RefuseSchedule(
      s.swapped ? "block_m" : absl::StrCat(name, " columns of a warpgroup"), n,
      absl::StrCat("is above 32 and no multiple of 16, of ", NameOf(p.element()), " operands"));
}

// Sums of a warpgroup have the scale of one block of columns, or its two parts those of one each.
absl::Status CheckBlocks(const ProductSequence& p, const Schedule& s, const ProductTile& tile) {
  if (p[0].weights.scales.kind != ScaleKind::kBlock) return absl::OkStatus();
  const int64_t columns = tile.block_n / s.warpgroups_n;
  if (kScaleBlock % columns == 0 || (!s.swapped && columns == 2 * kScaleBlock)) {
    return absl::OkStatus();
  }
  return RefuseSchedule("first.block_n", tile.block_n,
                        absl::StrCat("is not, per warpgroup, a divisor of the ", kScaleBlock,
                                     " columns that share a scale, nor two such blocks"));
}

// A tile has whole groups of columns that share a scale.
absl::Status CheckGroups(const ProductSequence& p, const ProductTile& tile) {
  if (!p.back().HasGroups() || tile.block_n % kScaleBlock == 0) return absl::OkStatus();
  return RefuseSchedule("first.block_n", tile.block_n,
                        absl::StrCat("is not a multiple of the ", kScaleBlock,
                                     " columns of codes that share a scale"));
}

// A tile lies in one bundle of groups, and loads its rows and weights by itself.
absl::Status CheckBundle(const ProductSequence& p, const Schedule& s, const ProductTile& tile) {
  const int64_t columns = p.front().BundleColumns();
  if (columns == 0) return absl::OkStatus();
  if (columns % tile.block_n != 0) {
    return RefuseSchedule(
        "first.block_n", tile.block_n,
        absl::StrCat("does not divide the ", columns, " columns of groups that share a tile"));
  }
  if (s.share == Share::kNone) return absl::OkStatus();
  return RefuseSchedule("share", static_cast<int>(s.share), "is not 0, of groups");
}

// Checks one product of depth `k`, cut by `tile`. `name` is "first" or "second".
absl::Status CheckTile(const ProductSequence& p, const Schedule& s, absl::string_view name,
                       const MatrixProduct& product, const ProductTile& tile, int width,
                       int64_t k) {
  const int step = p.layout() == Layout::kIO ? ElementOf(p.element()).swizzle_span
                   : s.swapped               ? kWarpgroupRows
                                             : kColumnStep;
  const int box = kMaxBox * s.warpgroups_n;
  if (tile.block_n < 1 || tile.block_n > box || tile.block_n % (step * s.warpgroups_n) != 0) {
    return RefuseSchedule(
        absl::StrCat(name, ".block_n"), tile.block_n,
        absl::StrCat("is not a multiple of ", step, " per warpgroup in 1..", box));
  }
  const int64_t accumulators = AccumulatorsOf(s, tile, width);
  const TileOf of{name, product, tile, width, accumulators};
  SINTER_RETURN_IF_ERROR(CheckAccumulators(p, s, of));
  SINTER_RETURN_IF_ERROR(CheckColumns(p, s, name, accumulators));
  SINTER_RETURN_IF_ERROR(CheckPromoted(p, s, of));
  SINTER_RETURN_IF_ERROR(CheckBlocks(p, s, tile));
  SINTER_RETURN_IF_ERROR(CheckGroups(p, tile));
  SINTER_RETURN_IF_ERROR(CheckBundle(p, s, tile));
  if (!IsClusterSize(tile.split_k)) {
    return RefuseSchedule(absl::StrCat(name, ".split_k"), tile.split_k, "is not 1, 2, 4, 8 or 16");
  }
  const int64_t steps = CeilDiv(k, s.block_k);
  if (tile.split_k > steps) {
    return RefuseSchedule(absl::StrCat(name, ".split_k"), tile.split_k,
                          absl::StrCat("is above the ", steps, " steps of K"));
  }
  return absl::OkStatus();
}

// Each block of a pair loads half of the shared operand. A half starts at a swizzle pattern: every
// 8 rows of a tile.
absl::Status CheckShare(const ProductSequence& p, const Schedule& s) {
  const int share = static_cast<int>(s.share);
  if (share < 0 || share > 2) return RefuseSchedule("share", share, "is not 0 to 2");
  if (s.share == Share::kNone) return absl::OkStatus();
  if (!RowOf(s).takes_units)
    return RefuseSchedule("share", share, absl::StrCat("is not 0 in ", NameOf(s.dataflow)));
  if (s.share == Share::kRows && s.block_m % 16 != 0)
    return RefuseSchedule("block_m", s.block_m, "is not a multiple of 16, with rows in halves");
  if (s.share == Share::kWeights && p.layout() == Layout::kOI &&
      s.first.block_n % (16 * s.warpgroups_n) != 0) {
    return RefuseSchedule("first.block_n", s.first.block_n,
                          "is not a multiple of 16 per warpgroup, with weights in halves");
  }
  return absl::OkStatus();
}

// The consumers of one block see whole rows, and their factors fit after the barriers.
absl::Status CheckNorm(const ProductSequence& p, const Schedule& s) {
  if (!p.front().epilogue.norm.has_value()) return absl::OkStatus();
  if (s.first.split_k != 1) {
    return RefuseSchedule("first.split_k", s.first.split_k, "is not 1, with a norm of the rows");
  }
  if (s.block_m <= kMostNormRows) return absl::OkStatus();
  return RefuseSchedule("block_m", s.block_m,
                        absl::StrCat("is above ", kMostNormRows, ", with a norm of the rows"));
}

// Transposed rows come in whole rows of the swizzle.
absl::Status CheckTransposed(const ProductSequence& p, const Schedule& s) {
  const int span = ElementOf(p.element()).swizzle_span;
  if (!p.front().HasTransposedRows() || s.block_m % span == 0) return absl::OkStatus();
  return RefuseSchedule("block_m", s.block_m,
                        absl::StrCat("is not a multiple of ", span, ", with transposed rows"));
}

// Columns that a warp sends from memory: whole tiles, of one block each, and not all.
absl::Status CheckPushedColumns(const ProductSequence& p, const Schedule& s) {
  const int64_t tile = int64_t{s.first.block_n} * TilesN(s.share);
  const auto refuse = [&](const std::string& bound) {
    return RefuseSchedule("pushed_columns", s.pushed_columns, bound);
  };
  if (s.pushes == 0) return refuse("is not 0, without pushes");
  if (s.first.split_k > 1) return refuse("is not 0, with K split");
  if (s.pushed_columns < 0 || s.pushed_columns % tile != 0 || s.pushed_columns >= p.back().n) {
    return refuse(absl::StrCat("is not a multiple of ", tile, " below ", p.back().n));
  }
  return absl::OkStatus();
}

// The result that is pushed to other ranks is a matrix of 16 bits without gaps, each element once:
// by the consumers where no tile of the kernel overlaps another one, as tiles of one row of tiles
// do not. Where K is split, threads that store at once have 16 bytes of a row each, unless operands
// are swapped: the link then carried less than half of what it can.
absl::Status CheckPushes(const ProductSequence& p, const Schedule& s) {
  if (s.pushed_columns != 0) SINTER_RETURN_IF_ERROR(CheckPushedColumns(p, s));
  if (s.pushes == 0) return absl::OkStatus();
  const auto refuse = [&](const std::string& bound) {
    return RefuseSchedule("pushes", s.pushes, bound);
  };
  if (!RowOf(s).pushes) return refuse(absl::StrCat("is not 0 in ", NameOf(s.dataflow)));
  if (s.pushes < 2 || s.pushes > kMostRanks) {
    return refuse(absl::StrCat("is not 0, nor 2 to ", kMostRanks, " ranks"));
  }
  const MatrixProduct& last = p.back();
  if (last.ResultBytes() != 2) return refuse("is not 0, with results of other than 16 bits");
  if (last.n % kPushedColumns != 0) {
    return refuse(
        absl::StrCat("is not 0, with ", last.n, " columns, no multiple of ", kPushedColumns));
  }
  if (last.epilogue.quantize.has_value() || last.AuxResults() > 0 || p.rows_per_m != 1) {
    return refuse("is not 0, of codes, with several results, or several rows of each of M");
  }
  if (s.first.split_k > 1 && !s.swapped) {
    return refuse("is not 0, with K split and operands not swapped");
  }
  if (s.pushed_columns > 0 || p.rows() <= s.block_m) return absl::OkStatus();
  return refuse(absl::StrCat("is not 0, with ", p.rows(), " rows in tiles of ", s.block_m));
}

absl::Status CheckFamily(const ProductSequence& p, const Schedule& s) {
  const int dataflow = static_cast<int>(s.dataflow);
  if (RowOf(s).dataflow == Dataflow::kNone) {
    return RefuseSchedule("dataflow", dataflow,
                          absl::StrCat("is not 1 to ", AllDataflows().size()));
  }
  if (RowOf(s).products != p.size()) {
    return RefuseSchedule("dataflow", dataflow,
                          absl::StrCat("(", NameOf(s.dataflow), ") cannot take ", p.size(),
                                       p.size() == 1 ? " product" : " products"));
  }
  return absl::OkStatus();
}

// Every persistent block has work, and the flags fit.
absl::Status CheckWork(const Schedule& s, const ScheduleSizes& z) {
  const int64_t most = z.units * s.cluster;
  if (most > 0 && s.grid > most) {
    return RefuseSchedule("grid", s.grid, absl::StrCat("is above the ", most, " blocks with work"));
  }
  if (z.flag_bytes > static_cast<int64_t>(kGridBarrierOffset)) {
    return RefuseSchedule("flag bytes", z.flag_bytes,
                          absl::StrCat("is above ", kGridBarrierOffset));
  }
  return absl::OkStatus();
}

// Checks a sequence that CheckSequence accepts. Writes its sizes to `z`.
absl::Status CheckFields(const ProductSequence& p, const Schedule& s, ScheduleSizes* z) {
  SINTER_RETURN_IF_ERROR(CheckFamily(p, s));
  SINTER_RETURN_IF_ERROR(CheckWarpgroups(s));
  SINTER_RETURN_IF_ERROR(CheckRing(p, s));
  SINTER_RETURN_IF_ERROR(CheckTile(p, s, "first", p[0], s.first, FirstWidth(p, s), p[0].StagedK()));
  if (p.size() == 2) SINTER_RETURN_IF_ERROR(CheckTile(p, s, "second", p[1], s.second, 1, p[0].n));
  SINTER_RETURN_IF_ERROR(CheckShare(p, s));
  SINTER_RETURN_IF_ERROR(CheckNorm(p, s));
  SINTER_RETURN_IF_ERROR(CheckTransposed(p, s));
  SINTER_RETURN_IF_ERROR(CheckPushes(p, s));
  *z = SizesOf(p, s);
  SINTER_RETURN_IF_ERROR(RowOf(s).check(p, s, *z));
  return CheckWork(s, *z);
}

absl::Status RefuseOrder(absl::string_view field, int64_t value, absl::string_view bound) {
  return FailedPrecondition("batch_invariant: ", field, " ", value, " ", bound);
}

absl::Status CheckSteps(const MatrixProduct& p, const Schedule& s, absl::string_view name) {
  const int64_t least = ElementOf(p.rows.element).swizzle_span, k = p.StagedK();
  if (RoundUp(k, s.block_k) == RoundUp(k, least)) return absl::OkStatus();
  return RefuseOrder("block_k", s.block_k,
                     absl::StrCat("gives ", name, " of ", k, " more steps than ", least));
}

}  // namespace

absl::Status CheckScheduleFields(const ProductSequence& p, const Schedule& s) {
  SINTER_RETURN_IF_ERROR(CheckSequence(p));
  ScheduleSizes z;
  return CheckFields(p, s, &z);
}

absl::Status CheckSchedule(const ProductSequence& sequence, const Schedule& s,
                           const DeviceModel& model) {
  SINTER_RETURN_IF_ERROR(CheckSequence(sequence));
  return CheckScheduleAlone(sequence, s, model);
}

absl::Status CheckScheduleAlone(const ProductSequence& sequence, const Schedule& s,
                                const DeviceModel& model) {
  ScheduleSizes z;
  SINTER_RETURN_IF_ERROR(CheckFields(sequence, s, &z));
  if (z.shared_bytes > model.shared_bytes_per_block) {
    return RefuseSchedule(
        "shared memory", z.shared_bytes,
        absl::StrCat("is above the ", model.shared_bytes_per_block, " bytes of a block"));
  }
  const int resident = model.ResidentBlocks(s.cluster);
  if (resident < s.cluster) {
    return RefuseSchedule("cluster", s.cluster, absl::StrCat("does not fit on ", model.name));
  }
  if (IsCooperative(s) && s.grid > resident) {
    return RefuseSchedule("grid", s.grid,
                          absl::StrCat("is above the ", resident, " blocks in clusters of ",
                                       s.cluster, " that are resident at once"));
  }
  return absl::OkStatus();
}

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
