#include "src/product/dataflow_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/ceil_div.h"
#include "src/base/status.h"
#include "src/product/schedule_refusal.h"

namespace sinter {
namespace {

absl::Status CheckProductShape(const Schedule& s, const ScheduleSizes& z) {
  const int tiles = TilesOf(s.share);
  if (s.cluster != tiles * s.first.split_k) {
    return RefuseSchedule(
        "cluster", s.cluster,
        absl::StrCat("is not first.split_k ", s.first.split_k,
                     tiles > 1 ? absl::StrCat(" for each of ", tiles, " tiles") : ""));
  }
  const int64_t most = z.units * s.cluster;
  if (s.grid > most) {
    return RefuseSchedule("grid", s.grid, absl::StrCat("is above the ", most, " blocks with work"));
  }
  return absl::OkStatus();
}

absl::Status CheckFlags(const ScheduleSizes& z) {
  if (z.flag_bytes > static_cast<int64_t>(kGridBarrierOffset)) {
    return RefuseSchedule("flag bytes", z.flag_bytes,
                          absl::StrCat("is above ", kGridBarrierOffset));
  }
  return absl::OkStatus();
}

absl::Status CheckGridShape(const Schedule& s, const ScheduleSizes& z) {
  const int want = std::max(s.first.split_k, s.second.split_k);
  if (s.cluster != want) {
    return RefuseSchedule("cluster", s.cluster, absl::StrCat("is not the larger split_k ", want));
  }
  return CheckFlags(z);
}

// A cluster is one unit wide in both products. Blocks that fill each other's stages walk the ring
// in step: ranks that share K must then have equally much of it.
absl::Status CheckTasksShape(const ProductSequence& p, const Schedule& s, const ScheduleSizes& z) {
  const bool pairs = TilesOf(s.share) * TilesOf(s.second_share) > 1;
  const auto check = [&](absl::string_view name, const ProductTile& tile, Share share, int64_t k) {
    if (s.cluster != TilesOf(share) * tile.split_k) {
      return RefuseSchedule("cluster", s.cluster,
                            absl::StrCat("is not ", name, ".split_k ", tile.split_k,
                                         " for each of ", TilesOf(share), " tiles"));
    }
    const int64_t steps = CeilDiv(k, s.block_k);
    if (pairs && steps % tile.split_k != 0) {
      return RefuseSchedule(
          absl::StrCat(name, ".split_k"), tile.split_k,
          absl::StrCat("does not divide the ", steps, " steps of K, with pairs of blocks"));
    }
    return absl::OkStatus();
  };
  SINTER_RETURN_IF_ERROR(check("first", s.first, s.share, p[0].k));
  SINTER_RETURN_IF_ERROR(check("second", s.second, s.second_share, p[0].n));
  const int64_t most = z.units * s.cluster;
  if (s.grid > most) {
    return RefuseSchedule("grid", s.grid, absl::StrCat("is above the ", most, " blocks with work"));
  }
  return CheckFlags(z);
}

// Ranges of N that clusters own: whole stages of the second product, none empty.
absl::Status CheckRanges(const ProductSequence& p, const Schedule& s, const ScheduleSizes& z) {
  if (s.clusters_n == 1) return absl::OkStatus();
  const int64_t range = int64_t{s.first.block_n} * s.cluster;
  if (range % s.block_k != 0) {
    return RefuseSchedule("first.block_n", s.first.block_n,
                          absl::StrCat("times the cluster of ", s.cluster,
                                       " is not a multiple of block_k ", s.block_k));
  }
  if (range * (s.clusters_n - 1) >= p[0].n) {
    return RefuseSchedule("clusters_n", s.clusters_n,
                          absl::StrCat("leaves a cluster without a column of n ", p[0].n));
  }
  const int64_t units = int64_t{s.block_m} * s.second.block_n / 4;
  if (s.clusters_n > units) {
    return RefuseSchedule("clusters_n", s.clusters_n,
                          absl::StrCat("is above the ", units, " shares of a tile of E"));
  }
  const int64_t taken = CeilDiv(units, s.clusters_n) * 16 * s.clusters_n;
  if (taken > s.stages * z.stage_bytes + z.exchange_bytes) {
    return RefuseSchedule(
        "parts of E", taken,
        absl::StrCat("are above the ", s.stages * z.stage_bytes + z.exchange_bytes,
                     " bytes of ring and slab that take them"));
  }
  if (s.grid > kMostFlaggedBlocks) {
    return RefuseSchedule("grid", s.grid,
                          absl::StrCat("is above the ", kMostFlaggedBlocks, " blocks that greet"));
  }
  return absl::OkStatus();
}

// What stays in the cluster is whole stages of the second product, and there is something on either
// side.
absl::Status CheckSlab(const ProductSequence& p, const Schedule& s) {
  if (s.slab_columns == 0) return absl::OkStatus();
  if (s.dataflow != Dataflow::kClusterExchange) {
    return RefuseSchedule("slab_columns", s.slab_columns,
                          absl::StrCat("is not 0 in ", NameOf(s.dataflow)));
  }
  if (s.slab_columns < 0 || s.slab_columns >= p[0].n || s.slab_columns % s.block_k != 0) {
    return RefuseSchedule(
        "slab_columns", s.slab_columns,
        absl::StrCat("is not a multiple of block_k ", s.block_k, " below n ", p[0].n));
  }
  if (s.clusters_n > 1) {
    return RefuseSchedule("slab_columns", s.slab_columns,
                          "is not 0 where clusters share an M tile");
  }
  if (s.cluster == 1)
    return RefuseSchedule("slab_columns", s.slab_columns, "is not 0 in a cluster of 1");
  return absl::OkStatus();
}

// Pairs of ranks, each with its own matrix.
absl::Status CheckSpatialGate(const ProductSequence& p, const Schedule& s) {
  if (!s.spatial_gate) return absl::OkStatus();
  if (s.dataflow != Dataflow::kClusterExchange) {
    return RefuseSchedule("spatial_gate", 1, absl::StrCat("is not 0 in ", NameOf(s.dataflow)));
  }
  if (!p[0].pair) return RefuseSchedule("spatial_gate", 1, "is not 0 without a gate");
  if (s.clusters_n > 1 || s.slab_columns > 0) {
    return RefuseSchedule("spatial_gate", 1, "is not 0 beside clusters_n or slab_columns");
  }
  if (s.cluster == 1) return RefuseSchedule("spatial_gate", 1, "is not 0 in a cluster of 1");
  if (p[0].k <= s.block_k) {
    return RefuseSchedule("spatial_gate", 1,
                          absl::StrCat("is not 0 with k ", p[0].k, " in one step of K"));
  }
  return absl::OkStatus();
}

absl::Status CheckClusterShape(const ProductSequence& p, const Schedule& s,
                               const ScheduleSizes& z) {
  if (s.first.split_k != 1) return RefuseSchedule("first.split_k", s.first.split_k, "is not 1");
  if (s.second.split_k != 1) return RefuseSchedule("second.split_k", s.second.split_k, "is not 1");
  if (int64_t{s.first.block_n} * s.cluster / GateRanks(s) * s.clusters_n < p[0].n) {
    return RefuseSchedule(
        "first.block_n", s.first.block_n,
        absl::StrCat(
            "times the cluster of ", s.cluster, s.spatial_gate ? " in pairs" : "",
            s.clusters_n > 1 ? absl::StrCat(" times clusters_n ", s.clusters_n) : std::string(),
            " is below n ", p[0].n));
  }
  SINTER_RETURN_IF_ERROR(CheckRanges(p, s, z));
  if (int64_t{s.second.block_n} * s.cluster < p[1].n) {
    return RefuseSchedule("second.block_n", s.second.block_n,
                          absl::StrCat("times the cluster of ", s.cluster, " is below l ", p[1].n));
  }
  const int64_t want = z.m_tiles * s.clusters_n * s.cluster;
  if (s.grid != want) {
    return RefuseSchedule("grid", s.grid,
                          absl::StrCat("is not M tiles * cluster ",
                                       s.clusters_n > 1 ? "* clusters_n " : "", "= ", want));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDataflow(const ProductSequence& p, const Schedule& s) {
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

}  // namespace sinter
