// SectorLoad: bytes that a stitched kernel moves between L2 and its SMs, and from HBM, because
// memory comes in sectors (src/stitch/sectors.h).
#ifndef SINTER_SRC_STITCH_SEARCH_SECTOR_LOAD_H_
#define SINTER_SRC_STITCH_SEARCH_SECTOR_LOAD_H_

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "src/base/device_model.h"
#include "src/stitch/evaluations.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"
#include "src/stitch/staging.h"

namespace sinter {

using LoopEvaluations = std::map<const StitchLoop*, Evaluations>;

// Bytes of the sectors of `input` that the loops read; none where ids say which.
std::optional<double> SectorBytesRead(const StitchProgram& program, const LoopEvaluations& times,
                                      ValueId input, int64_t m);

// What accesses cost that do not lie side by side.
struct StrewnLoad {
  double bytes = 0;          // of sectors on their way between L2 and the SMs
  double cycles = 0;         // of L1s, one for each line that an access of a warp touches
  double shared_cycles = 0;  // of warps that write and read staged inputs
};

// Body, program and model must outlive it. Not thread-safe.
class SectorLoad {
 public:
  // `times`: of the loops of `program`.
  SectorLoad(const Chain& body, const StitchProgram& program, const LoopEvaluations& times,
             int64_t m, const DeviceModel& model);

  // What a block reads again soon is in L1.
  StrewnLoad Of(const StitchSchedule& schedule);

 private:
  // A loop's accesses that do not lie side by side.
  struct Strewn {
    const StitchLoop* loop;
    bool units;
    std::vector<MemoryTouch> touches, again;  // again: also in an earlier loop of a unit
  };

  // Of a staged input's one read of memory, and of its ways through shared memory.
  StrewnLoad OfStaged(const StagedPlace& place, const StitchSchedule& schedule) const;
  StrewnLoad OfLoop(const Strewn& strewn, const std::vector<MemoryTouch>& touches,
                    const StitchSchedule& schedule) const;

  const Chain& body_;
  const int64_t m_, units_;
  const DeviceModel& model_;
  const StitchProgram& program_;
  std::vector<Strewn> strewn_;
  std::map<ValueId, std::pair<MemoryTouch, int>> staged_;  // with the loops that read it
  // By threads of a block and of a unit, vector, chunks, split, blocks of an SM, kept and staged
  // inputs.
  std::map<std::tuple<int, int, int, int, int, int, bool, bool>, StrewnLoad> known_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_SECTOR_LOAD_H_
