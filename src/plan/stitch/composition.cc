#include "src/plan/stitch/composition.h"

namespace sinter {
namespace {

constexpr int kWarpThreads = 32;

// What the threads that share a unit hand over through.
Composition OfUnits(const StitchSchedule& schedule) {
  if (schedule.cluster > 1) return Composition::kCluster;
  if (schedule.unit_threads > kWarpThreads) return Composition::kBlock;
  return schedule.unit_threads > 1 ? Composition::kWarp : Composition::kThread;
}

}  // namespace

absl::string_view NameOf(Composition composition) {
  constexpr absl::string_view kNames[] = {"thread", "warp", "block", "cluster", "grid"};
  const auto index = static_cast<size_t>(composition);
  return index < kCompositions ? kNames[index] : "invalid";
}

std::vector<Composition> CompositionsOf(const Chain& body, const StitchProgram& program,
                                        const StitchSchedule& schedule) {
  std::vector<Composition> list(body.ops().size(), Composition::kThread);
  for (const StitchPhase& phase : program.phases) {
    for (const StitchLoop& loop : phase.loops) {
      for (const StitchRoot& root : loop.roots) {
        // A reduction of rows that no loop has is made by each thread for itself.
        if (root.kind == StitchRoot::kStore) continue;
        list[static_cast<size_t>(root.value)] =
            root.kind == StitchRoot::kRow ? OfUnits(schedule) : Composition::kGrid;
      }
    }
  }
  return list;
}

}  // namespace sinter
