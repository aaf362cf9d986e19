#include "src/stitch/composition.h"

#include <set>

#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr int kWarpThreads = 32;

// The memory through which the threads of a unit hand over.
Composition OfUnits(const StitchSchedule& schedule) {
  if (schedule.cluster > 1) return Composition::kCluster;
  if (schedule.unit_threads > kWarpThreads) return Composition::kBlock;
  return schedule.unit_threads > 1 ? Composition::kWarp : Composition::kThread;
}

Composition OfRoot(const StitchRoot& root, const StitchSchedule& schedule) {
  switch (root.kind) {
    case StitchRoot::kRow:
      return OfUnits(schedule);
    case StitchRoot::kSegment:
      return Composition::kWarp;
    case StitchRoot::kHand:
      return Composition::kBlock;
    default:
      return Composition::kGrid;
  }
}

// Marks the reductions that the lanes of an element share: its outermost serial ones.
void MarkShared(const Chain& body, const StitchProgram& program, ValueId id,
                std::vector<Composition>& list, std::set<ValueId>& seen) {
  if (!seen.insert(id).second) return;
  const ReduceUse use = program.uses[static_cast<size_t>(id)];
  if (use == ReduceUse::kSerial) list[static_cast<size_t>(id)] = Composition::kWarp;
  if (use != ReduceUse::kNone) return;
  for (const ValueId operand : body.op(id).operands) {
    MarkShared(body, program, operand, list, seen);
  }
}

void MarkLoop(const Chain& body, const StitchProgram& program, const StitchSchedule& schedule,
              const StitchLoop& loop, std::vector<Composition>& list) {
  std::set<ValueId> seen;
  for (const StitchRoot& root : loop.roots) {
    const bool stored = root.kind == StitchRoot::kStore || root.kind == StitchRoot::kScatter;
    if (LoopSplit(schedule, loop) > 1) {
      MarkShared(body, program, WalkedValue(body, root), list, seen);
    }
    if (stored) continue;
    list[static_cast<size_t>(root.value)] = OfRoot(root, schedule);
    if (root.mean >= 0) list[static_cast<size_t>(root.mean)] = Composition::kGrid;
  }
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
  // A reduction in no loop is made by each thread for itself.
  for (const StitchPhase& phase : program.phases) {
    for (const StitchLoop& loop : phase.loops) MarkLoop(body, program, schedule, loop, list);
    for (const StitchLoop& loop : phase.flat) MarkLoop(body, program, schedule, loop, list);
  }
  return list;
}

}  // namespace sinter
