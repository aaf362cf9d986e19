#include "src/product/schedule.h"

#include <tuple>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// Fields behind all others, each in a version of its own and only where it says something: bytes of
// schedules without them did not change when they came. Swapped operands are their version alone.
constexpr uint8_t kScheduleVersion = 2, kClustersVersion = 3, kSecondShareVersion = 4,
                  kSlabVersion = 5, kSwappedVersion = 6, kSpatialVersion = 7;

auto Fields(const Schedule& s) {
  return std::tie(s.dataflow, s.block_m, s.warpgroups_m, s.warpgroups_n, s.block_k, s.stages,
                  s.cluster, s.clusters_n, s.slab_columns, s.spatial_gate, s.swapped, s.share,
                  s.second_share, s.grid, s.first, s.second);
}

uint8_t VersionOf(const Schedule& s) {
  if (s.swapped) return kSwappedVersion;
  if (s.clusters_n != 1) return kClustersVersion;
  if (s.slab_columns != 0) return kSlabVersion;
  if (s.spatial_gate) return kSpatialVersion;
  return s.second_share != Share::kNone ? kSecondShareVersion : kScheduleVersion;
}

bool IsDataflow(uint8_t v) { return v >= 1 && v <= 4; }
bool IsShare(uint8_t v) { return v <= 2; }

}  // namespace

absl::string_view NameOf(Dataflow dataflow) {
  switch (dataflow) {
    case Dataflow::kProduct:
      return "product";
    case Dataflow::kGridExchange:
      return "grid-exchange";
    case Dataflow::kClusterExchange:
      return "cluster-exchange";
    case Dataflow::kTaskList:
      return "task-list";
  }
  return "invalid";
}

absl::string_view NameOf(Share share) {
  switch (share) {
    case Share::kNone:
      return "none";
    case Share::kWeights:
      return "weights";
    case Share::kRows:
      return "rows";
  }
  return "invalid";
}

bool Schedule::operator==(const Schedule& o) const { return Fields(*this) == Fields(o); }

std::string Schedule::Canonical() const {
  ByteWriter w;
  w.U8(VersionOf(*this));
  w.U8(static_cast<uint8_t>(dataflow));
  w.U8(static_cast<uint8_t>(share));
  for (int v : {block_m, warpgroups_m, warpgroups_n, block_k, stages, cluster, grid, first.block_n,
                first.split_k, second.block_n, second.split_k}) {
    w.U32(static_cast<uint32_t>(v));
  }
  if (VersionOf(*this) == kClustersVersion) w.U32(static_cast<uint32_t>(clusters_n));
  if (VersionOf(*this) == kSlabVersion) w.U32(static_cast<uint32_t>(slab_columns));
  if (VersionOf(*this) == kSecondShareVersion) w.U8(static_cast<uint8_t>(second_share));
  return w.Take();
}

absl::StatusOr<Schedule> Schedule::FromCanonical(absl::string_view bytes) {
  ByteReader r(bytes);
  const uint8_t version = r.U8();
  const uint8_t dataflow = r.U8();
  const uint8_t share = r.U8();
  Schedule s;
  for (int* v :
       {&s.block_m, &s.warpgroups_m, &s.warpgroups_n, &s.block_k, &s.stages, &s.cluster, &s.grid,
        &s.first.block_n, &s.first.split_k, &s.second.block_n, &s.second.split_k}) {
    *v = static_cast<int>(r.U32());
  }
  if (version == kClustersVersion) s.clusters_n = static_cast<int>(r.U32());
  if (version == kSlabVersion) s.slab_columns = static_cast<int>(r.U32());
  const uint8_t second_share = version == kSecondShareVersion ? r.U8() : 0;
  SINTER_RETURN_IF_ERROR(r.Finish("schedule"));
  if (version < kScheduleVersion || version > kSpatialVersion) {
    return absl::DataLossError(absl::StrCat("schedule: version ", version, " is not ",
                                            kScheduleVersion, " to ", kSpatialVersion));
  }
  s.swapped = version == kSwappedVersion;
  if (version == kClustersVersion && s.clusters_n == 1) {
    return absl::DataLossError("schedule: clusters_n 1 is written twice");
  }
  if (version == kSlabVersion && s.slab_columns == 0) {
    return absl::DataLossError("schedule: slab_columns 0 is written twice");
  }
  if (version == kSecondShareVersion && second_share == 0) {
    return absl::DataLossError("schedule: second_share none is written twice");
  }
  if (!IsDataflow(dataflow)) {
    return absl::DataLossError(absl::StrCat("schedule: dataflow ", dataflow, " is not 1 to 4"));
  }
  for (uint8_t v : {share, second_share}) {
    if (!IsShare(v)) {
      return absl::DataLossError(absl::StrCat("schedule: share ", v, " is not 0 to 2"));
    }
  }
  s.dataflow = static_cast<Dataflow>(dataflow);
  s.share = static_cast<Share>(share);
  s.second_share = static_cast<Share>(second_share);
  s.spatial_gate = version == kSpatialVersion;
  return s;
}

std::string Schedule::ToString() const {
  std::string text = absl::StrCat(NameOf(dataflow), " bm", block_m, " wg", warpgroups_m, "x",
                                  warpgroups_n, " bk", block_k, " st", stages, " cl", cluster);
  if (swapped) absl::StrAppend(&text, " swapped");
  if (clusters_n != 1) absl::StrAppend(&text, " n", clusters_n);
  if (slab_columns != 0) absl::StrAppend(&text, " slab", slab_columns);
  if (spatial_gate) absl::StrAppend(&text, " spatial");
  if (share != Share::kNone) absl::StrAppend(&text, " share-", NameOf(share));
  if (grid > 0) absl::StrAppend(&text, " grid", grid);
  absl::StrAppend(&text, " first ", first.block_n, "/", first.split_k);
  if (dataflow != Dataflow::kProduct) {
    absl::StrAppend(&text, " second ", second.block_n, "/", second.split_k);
  }
  if (second_share != Share::kNone) absl::StrAppend(&text, " share-", NameOf(second_share));
  return text;
}

}  // namespace sinter
