#include "tests/support/forced_hands.h"

#include "src/stitch/sizes.h"

namespace sinter::testing {
namespace {

constexpr int64_t kSharedPerSm = 233472, kSharedOfSystem = 1024;

}  // namespace

StitchSchedule WithForcedHands(const Chain& body, StitchSchedule schedule, uint64_t seed,
                               size_t most, int64_t shared_bytes) {
  if (schedule.owner < 0 || schedule.cluster > 1) return schedule;
  const size_t count = body.ops().size();
  // Blocks that wait for one another are all resident.
  const int64_t room =
      std::min(shared_bytes, kSharedPerSm / schedule.blocks_per_sm - kSharedOfSystem);
  for (size_t i = 0; i < count && schedule.handed.size() < most; ++i) {
    StitchSchedule with = schedule;
    // 17: neighbours compute nearly the same.
    with.handed.push_back(static_cast<int32_t>((seed + i * 17) % count));
    std::sort(with.handed.begin(), with.handed.end());
    if (!CheckStitchFields(with).ok()) continue;
    const auto program = MakeStitchProgram(body, with.owner, with.handed);
    if (!program.ok() || StitchSharedBytes(body, *program, with) > room) continue;
    schedule = with;
  }
  return schedule;
}

}  // namespace sinter::testing
