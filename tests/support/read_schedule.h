// Schedules of products from the text that Schedule::ToString() writes:
// ReadSchedule("product bm40 wg1x2 bk64 st4 cl2 swapped grid30 first 128/2").
//
// docs/plan-formats.md says what each word means. A field that no word names has its default. Tests
// that change a schedule also write:
//   wg3x, wgx2       warpgroups along M, or along N, only
//   first 64, second 64   a tile's columns without its split of K
//   unswapped        swapped is false
//   cut6             what "ranges6" and "slab6" set, in a dataflow that has no cut
//   dataflow9, share3   values that no schedule has
#pragma once

#include "src/product/schedule.h"
#include "tests/support/common.h"

namespace sinter {

// `schedule` with the fields changed that `words` name. A word that is not one ends the test.
Schedule With(Schedule schedule, absl::string_view words);

inline Schedule ReadSchedule(absl::string_view text) { return With({}, text); }

}  // namespace sinter
