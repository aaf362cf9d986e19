#include "src/product/schedule.h"

#include <tuple>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/status.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter {
namespace {

// Versions of dataflows of version 2 with a knob that is not at its default. Schedules without the
// knob keep the bytes that they had before it was added. Other versions belong to one dataflow.
constexpr uint8_t kScheduleVersion = 2, kSecondShareVersion = 4, kSwappedVersion = 6;

auto Fields(const Schedule& s) {
  return std::tie(s.dataflow, s.block_m, s.warpgroups_m, s.warpgroups_n, s.block_k, s.stages,
                  s.cluster, s.cut, s.swapped, s.share, s.second_share, s.grid, s.first, s.second);
}

uint8_t VersionOf(const Schedule& s) {
  if (s.swapped) return kSwappedVersion;
  return s.second_share != Share::kNone ? kSecondShareVersion : RowOf(s).version;
}

const DataflowRow* RowOfBytes(uint8_t dataflow, uint8_t version) {
  const bool knob = version == kSecondShareVersion || version == kSwappedVersion;
  return FindDataflow(dataflow, knob ? kScheduleVersion : version);
}

bool HasCut(const DataflowRow& row) { return row.cut[0] != 0; }
bool IsShare(uint8_t v) { return v <= 2; }

// "72/4 share-rows"
std::string TileText(const ProductTile& tile, Share share) {
  return absl::StrCat(tile.block_n, "/", tile.split_k,
                      share == Share::kNone ? "" : absl::StrCat(" share-", NameOf(share)));
}

}  // namespace

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
  w.U8(static_cast<uint8_t>(WrittenAs(RowOf(*this))));
  w.U8(static_cast<uint8_t>(share));
  for (int v : {block_m, warpgroups_m, warpgroups_n, block_k, stages, cluster, grid, first.block_n,
                first.split_k, second.block_n, second.split_k}) {
    w.U32(static_cast<uint32_t>(v));
  }
  if (HasCut(RowOf(*this))) w.U32(static_cast<uint32_t>(cut));
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
  const DataflowRow* row = RowOfBytes(dataflow, version);
  if (row != nullptr && HasCut(*row)) s.cut = static_cast<int>(r.U32());
  const uint8_t second_share = version == kSecondShareVersion ? r.U8() : 0;
  if (row == nullptr) {
    return absl::DataLossError(
        absl::StrCat("schedule: there is no dataflow ", dataflow, " of version ", version));
  }
  SINTER_RETURN_IF_ERROR(r.Finish("schedule"));
  s.swapped = version == kSwappedVersion;
  if (version == kSecondShareVersion && second_share == 0) {
    return absl::DataLossError("schedule: second_share none is written twice");
  }
  for (uint8_t v : {share, second_share}) {
    if (!IsShare(v)) {
      return absl::DataLossError(absl::StrCat("schedule: share ", v, " is not 0 to 2"));
    }
  }
  s.dataflow = row->dataflow;
  s.share = static_cast<Share>(share);
  s.second_share = static_cast<Share>(second_share);
  if (s.Canonical() != bytes) return absl::DataLossError("schedule: a field is written otherwise");
  return s;
}

std::string Schedule::ToString() const {
  const DataflowRow& row = RowOf(*this);
  std::string text = absl::StrCat(row.name, " bm", block_m, " wg", warpgroups_m, "x", warpgroups_n,
                                  " bk", block_k, " st", stages, " cl", cluster);
  if (swapped) absl::StrAppend(&text, " swapped");
  if (HasCut(row)) absl::StrAppend(&text, " ", row.cut, cut);
  if (grid > 0) absl::StrAppend(&text, " grid", grid);
  absl::StrAppend(&text, " first ", TileText(first, share));
  if (row.products > 1) absl::StrAppend(&text, " second ", TileText(second, second_share));
  return text;
}

}  // namespace sinter
