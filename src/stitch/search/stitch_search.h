// Search of the stitch family: schedules for a body, costed by the device model and ranked.
#ifndef SINTER_SRC_STITCH_SEARCH_STITCH_SEARCH_H_
#define SINTER_SRC_STITCH_SEARCH_STITCH_SEARCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/base/digest.h"
#include "src/chain/chain.h"
#include "src/model/search.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"
#include "src/stitch/search/stitch_cost_model.h"

namespace sinter {

struct RankedStitch {
  StitchSchedule schedule;
  Prediction prediction;
  std::vector<StitchPart> parts;  // packed (PackedSearch); else none
  uint64_t scratch_bytes = 0;     // of LayOutColumns; packed: 0
};

// Best first, at most options.top_k; ties by StitchSchedule::Canonical(). FAILED_PRECONDITION
// naming the op that one kernel cannot take; RESOURCE_EXHAUSTED when options.budget is spent.
// Deterministic, thread-safe.
absl::StatusOr<std::vector<RankedStitch>> SearchStitch(const Chain& body, int64_t bucket,
                                                       const DeviceModel& model,
                                                       const SearchOptions& options);

// Kinds of stitched kernels. Neighbours in a ranking differ in a knob of little effect; tuning
// wants to measure schedules that differ in kind.

// Moves the best of each kind to the front: how units are shared, vectors, blocks an SM, what is
// kept, held and handed over, how columns are joined. Both parts keep their order.
void PutKindsFirst(std::vector<RankedStitch>* ranked);

// `schedule` with the grid for `bucket` rows: a block for each turn of the work, or the resident
// blocks, whichever is predicted faster. Nothing else changes. FAILED_PRECONDITION when the body
// cannot be computed with it, or when its blocks wait for one another. Thread-safe.
absl::StatusOr<RankedStitch> AtBucket(const Chain& body, const StitchSchedule& schedule,
                                      int64_t bucket, const DeviceModel& model);

// The stitch family's space: the schedules of a program that are worth costing. Threads of a unit,
// blocks, clusters, vectors, lanes that share an element, values kept in registers and held in
// shared memory, joins of columns, grids.

// Calls `visit` for every legal schedule of `program`, with its load, in a fixed order. Blocks an
// SM follow from estimated registers. Thread-safe.
void EnumerateStitchSpace(
    const Chain& body, const StitchProgram& program, int64_t bucket, const DeviceModel& model,
    const SearchOptions& options,
    const std::function<void(const StitchSchedule&, const StitchLoad&)>& visit);

// Estimates the registers of a stitched kernel's thread and its occupancy. Nothing is compiled; too
// low an estimate spills.

// Occupancy by registers, in blocks an SM.
struct BlocksByRegisters {
  int liked = 0;   // with the registers that a thread would like; 0: more than it can have
  int needed = 0;  // with those that it needs for kept values: at least as many blocks
};

// For the schedules of one program at `m` rows. Body, program and model must outlive it. Immutable;
// any thread may read it.
class StitchRegisters {
 public:
  StitchRegisters(const Chain& body, const StitchProgram& program, int64_t m,
                  const DeviceModel& model);

  // Whether passes through a unit's elements are unrolled.
  bool Unrolls(const StitchSchedule& s) const { return s.keep_inputs || columns_ > 0; }
  // Blocks an SM without units; 0: the registers do not suffice.
  int FlatBlocks(const StitchSchedule& s, const StitchLoad& load) const;
  // The same where a thread makes several results of windows at once.
  int WindowBlocks(const StitchSchedule& s) const;
  // Blocks an SM with units; the main loop makes `turns`.
  BlocksByRegisters UnitBlocks(const StitchSchedule& s, const StitchLoad& load,
                               int64_t turns) const;

 private:
  int BlocksPerSm(int threads, int registers) const;
  int OfTurns(const StitchSchedule& s, int turns) const;

  const Chain& body_;
  const StitchProgram& program_;
  const DeviceModel& model_;
  int columns_ = 0;      // words of one phase's column reductions for a thread's element
  int unit_inputs_ = 0;  // inputs that differ between units
};

// Search of packed kernels: gives each independent part of a body the best schedule among those
// with the same threads a block.

// Keeps the rankings of all parts seen: bodies of one chain share them. Not thread-safe.
class PackedSearch {
 public:
  // `budget` may be null; once it is spent there are no packings.
  PackedSearch(int64_t bucket, const DeviceModel& model, StitchBudget* budget = nullptr)
      : bucket_(bucket), model_(model), budget_(budget) {}

  // Packings of `body`, best first. Empty where the body has no independent parts, where a part has
  // no schedule that fits the others, or where the text would be long. Parts that differ only in
  // extents get one schedule, so that they can share one text.
  std::vector<RankedStitch> Of(const Chain& body);

 private:
  struct Part {
    std::vector<int> outputs;
    Chain body;
  };
  struct Choice {
    StitchSchedule schedule;
    double us = 0;  // all parts together, alone
  };
  // Parts that are alike, and the schedules that all of them can take: the best sum first.
  struct Class {
    std::vector<const Part*> parts;
    std::vector<Choice> schedules;
  };

  const std::vector<RankedStitch>& RankingOf(const Chain& body);
  bool FillSchedules(Class* one);
  static const StitchSchedule* Choose(const Class& one, int threads, int resident);
  // Makes a packing with `threads` a block and at least `resident` blocks an SM.
  bool Pack(const std::vector<Class>& classes, int threads, int resident, RankedStitch* packed);
  const StitchTimes* TimesOf(const Chain& body, const StitchSchedule& schedule);

  const int64_t bucket_;
  const DeviceModel model_;
  StitchBudget* const budget_;
  std::map<Digest, std::vector<RankedStitch>> rankings_;
  std::map<std::pair<Digest, std::string>, StitchTimes> times_;
};

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_STITCH_SEARCH_H_
