// Composition: how a result reaches the ops of its kernel that use it.
#ifndef SINTER_SRC_STITCH_COMPOSITION_H_
#define SINTER_SRC_STITCH_COMPOSITION_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {

// FusionStitching's thread, warp and block composition, and those of a cluster and of the grid.
// Kernel packing joins parts without a hand-over.
enum class Composition : uint8_t {
  kThread = 0,   // in registers, or recomputed by the reader
  kWarp = 1,     // shuffles
  kBlock = 2,    // shared memory
  kCluster = 3,  // distributed shared memory
  kGrid = 4,     // through L2, after a grid barrier
};
constexpr int kCompositions = 5;
absl::string_view NameOf(Composition composition);  // "thread", ..

// By op of the body: the widest composition through which its result is read.
std::vector<Composition> CompositionsOf(const Chain& body, const StitchProgram& program,
                                        const StitchSchedule& schedule);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_COMPOSITION_H_
