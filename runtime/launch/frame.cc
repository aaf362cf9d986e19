#include "runtime/launch/frame.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

void* Address(const void* value) { return const_cast<void*>(value); }

// The maps that depend on M: kept from an earlier launch, or encoded in the frame.
absl::StatusOr<const CUtensorMap*> MapsOf(const Driver& driver, const Binding& bound, int64_t m,
                                          int64_t row_offset, Frame* frame) {
  const CUtensorMap* const kept = row_offset == 0 ? bound.row_maps.Find(m) : nullptr;
  if (kept != nullptr) return kept;
  for (const BoundMap& map : bound.maps) {
    if (map.prepared.m_dim < 0) continue;
    const int64_t unit = map.prepared.im2col ? 1 : bound.rows_per_m;  // images, or rows
    SINTER_RETURN_IF_ERROR(EncodeTensorMap(driver, map.prepared, m * unit, row_offset * unit,
                                           &frame->maps[map.row_map]));
  }
  if (row_offset == 0) bound.row_maps.Keep(m, frame->maps);
  return frame->maps;
}

}  // namespace

absl::Status FillParams(const Driver& driver, const Binding& bound, int64_t m, int64_t row_offset,
                        Frame* frame) {
  const int64_t per_m = bound.rows_per_m, most = std::numeric_limits<int32_t>::max() / per_m;
  const int64_t furthest = (int64_t{1} << 40) / per_m - 1;  // addresses have 64 bits
  if (m < 0 || m > most || row_offset < 0 || row_offset > furthest) {
    return absl::InvalidArgumentError(absl::StrCat("m ", m, " and row offset ", row_offset,
                                                   " must lie in 0..", most, " and 0..", furthest));
  }
  frame->m = static_cast<int32_t>(m * per_m);
  const CUtensorMap* row_maps = nullptr;
  if (bound.row_maps.count() > 0) {
    SINTER_ASSIGN_OR_RETURN(row_maps, MapsOf(driver, bound, m, row_offset, frame));
  }
  for (size_t i = 0; i < bound.args.size(); ++i) {
    const BoundArg& arg = bound.args[i];
    if (arg.kind == ArgKind::kTensorMap) {
      const BoundMap& map = bound.maps[arg.map];
      frame->params[i] = Address(map.prepared.m_dim < 0 ? &map.encoded : row_maps + map.row_map);
    } else if (arg.kind == ArgKind::kSymbolM) {
      frame->params[i] = &frame->m;
    } else if (arg.kind == ArgKind::kBytes) {
      frame->params[i] = Address(bound.bytes[arg.map].data());
    } else {
      frame->pointers[i] = arg.value + arg.row_bytes * static_cast<uint64_t>(row_offset * per_m);
      frame->params[i] = &frame->pointers[i];
    }
  }
  return absl::OkStatus();
}

}  // namespace sinter
