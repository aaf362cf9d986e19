#include "src/stitch/search/stitch_search.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/stitch/body_work.h"
#include "src/stitch/search/stitch_cost_model.h"
#include "src/stitch/shared_reads.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr int64_t kWalks = 2, kHandWalks = 16;  // walks to cost a program; one with hand-overs
constexpr double kMostBehind = 2;               // times the best: owners whose units may hand over

// Takes from the budget what costing a program needs, besides making it.
absl::Status Charge(const StitchProgram& program, const SearchOptions& options) {
  if (options.budget == nullptr) return absl::OkStatus();
  return options.budget->Take(program.visits * (program.handed.empty() ? kWalks : kHandWalks));
}

// Appends the schedules of one program with their predictions.
void AddRanked(const Chain& body, const StitchProgram& program, int64_t bucket,
               const DeviceModel& model, const SearchOptions& options,
               std::vector<RankedStitch>* ranked) {
  const auto ops = static_cast<int64_t>(body.ops().size());
  const auto add = [&](const StitchSchedule& s, const StitchLoad& load) {
    Step(options.pace, ops);
    const uint64_t scratch =
        program.phases.size() > 1 ? LayOutColumns(body, program, s).scratch_bytes : uint64_t{0};
    const StitchTimes times = TimesOfStitch(body, program, s, load, bucket, model);
    ranked->push_back({s, times.alone, {}, scratch});
  };
  EnumerateStitchSpace(body, program, bucket, model, options, add);
}

// A program without hand-overs, and its best schedule.
struct Owned {
  StitchProgram program;
  Prediction best;
};

// Programs with hand-overs: for owners close to the best, where the kernel is not bound by memory.
absl::StatusOr<std::vector<StitchProgram>> HandingOver(const Chain& body,
                                                       const std::vector<Owned>& owned,
                                                       const DeviceModel& model,
                                                       const SearchOptions& options) {
  double best_us = std::numeric_limits<double>::infinity();
  for (const Owned& one : owned) best_us = std::min(best_us, one.best.total_us);
  std::vector<StitchProgram> programs;
  for (const Owned& one : owned) {
    const bool units = one.program.owner >= 0 && one.program.tile.axis < 0;
    if (!units || one.best.bound == "hbm") continue;
    if (one.best.total_us > kMostBehind * best_us) continue;
    for (const std::vector<ValueId>& handed :
         HandChoices(body, one.program, model, options.budget)) {
      absl::StatusOr<StitchProgram> with =
          MakeStitchProgram(body, one.program.owner, handed, options.budget);
      if (absl::IsResourceExhausted(with.status())) return with.status();
      if (!with.ok()) continue;
      SINTER_RETURN_IF_ERROR(Charge(*with, options));
      programs.push_back(*std::move(with));
    }
  }
  return programs;
}

// The schedule's bytes without the grid, the amount that is held, and whether values that all units
// read alike are kept.
std::string KindOf(StitchSchedule s) {
  s.grid = s.cluster;
  s.hold_bytes = std::min(s.hold_bytes, 16);
  s.keep_alike = false;
  return s.Canonical();
}

// By predicted time; of equal times by the schedules' bytes, which are made once, and moved once.
void SortRanked(std::vector<RankedStitch>* ranked) {
  std::vector<size_t> order(ranked->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<std::string> bytes(ranked->size());
  const auto bytes_of = [&](size_t i) -> const std::string& {
    if (bytes[i].empty()) bytes[i] = (*ranked)[i].schedule.Canonical();
    return bytes[i];
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const double first = (*ranked)[a].prediction.total_us;
    const double second = (*ranked)[b].prediction.total_us;
    return first != second ? first < second : a != b && bytes_of(a) < bytes_of(b);
  });
  std::vector<RankedStitch> sorted;
  sorted.reserve(order.size());
  for (const size_t i : order) sorted.push_back(std::move((*ranked)[i]));
  *ranked = std::move(sorted);
}

constexpr int64_t kMostBlocks = 1 << 19;

// Units (elements without units) that a block, or a cluster that shares a unit, takes in one turn.
int64_t ItemsPerTurn(const StitchSchedule& s) {
  if (s.owner >= 0) return s.UnitsPerBlock();
  return s.TurnElements();
}

}  // namespace

absl::StatusOr<std::vector<RankedStitch>> SearchStitch(const Chain& body, int64_t bucket,
                                                       const DeviceModel& model,
                                                       const SearchOptions& options) {
  if (options.only != nullptr) SINTER_RETURN_IF_ERROR(options.only->Check(body));
  std::vector<RankedStitch> ranked;
  absl::Status first_error;
  std::vector<Owned> owned;
  std::vector<ValueId> owners = OwnerCandidates(body);
  for (size_t i = 0; i < owners.size(); ++i) {
    const ValueId owner = owners[i];
    absl::StatusOr<StitchProgram> program = MakeStitchProgram(body, owner, {}, options.budget);
    if (absl::IsResourceExhausted(program.status())) return program.status();
    first_error.Update(program.status());
    if (!program.ok()) continue;
    SINTER_RETURN_IF_ERROR(Charge(*program, options));
    if (owner < 0) {
      const std::vector<ValueId> tiles = TileOwners(body, *program);
      owners.insert(owners.end(), tiles.begin(), tiles.end());
    }
    const size_t before = ranked.size();
    AddRanked(body, *program, bucket, model, options, &ranked);
    const auto best = std::min_element(
        ranked.begin() + static_cast<std::ptrdiff_t>(before), ranked.end(),
        [](const auto& x, const auto& y) { return x.prediction.total_us < y.prediction.total_us; });
    if (best != ranked.end()) owned.push_back({*std::move(program), best->prediction});
  }
  SINTER_ASSIGN_OR_RETURN(const std::vector<StitchProgram> handing,
                          HandingOver(body, owned, model, options));
  for (const StitchProgram& program : handing) {
    AddRanked(body, program, bucket, model, options, &ranked);
  }
  if (ranked.empty()) {
    if (!first_error.ok()) return first_error;
    return absl::FailedPreconditionError("no schedule of the stitch family is legal");
  }
  SortRanked(&ranked);
  if (options.kinds_first) PutKindsFirst(&ranked);
  const size_t kept = std::min<size_t>(ranked.size(), static_cast<size_t>(options.top_k));
  ranked.resize(kept);
  return ranked;
}

void PutKindsFirst(std::vector<RankedStitch>* ranked) {
  std::set<std::string> kinds;
  std::vector<RankedStitch> first, others;
  for (RankedStitch& one : *ranked) {
    const bool fresh = kinds.insert(KindOf(one.schedule)).second;
    (fresh ? first : others).push_back(std::move(one));
  }
  std::move(others.begin(), others.end(), std::back_inserter(first));
  *ranked = std::move(first);
}

absl::StatusOr<RankedStitch> AtBucket(const Chain& body, const StitchSchedule& schedule,
                                      int64_t bucket, const DeviceModel& model) {
  SINTER_ASSIGN_OR_RETURN(const StitchProgram program,
                          MakeStitchProgram(body, schedule.owner, schedule.handed));
  if (program.phases.size() > 1) return absl::FailedPreconditionError("its blocks meet");
  const int64_t items = std::max<int64_t>(1, FlatItems(program, schedule, bucket));
  const int64_t wanted = CeilDiv(items, ItemsPerTurn(schedule)) * schedule.cluster;
  const int64_t resident = int64_t{model.ResidentBlocks(schedule.cluster)} * schedule.blocks_per_sm;
  std::optional<RankedStitch> best;
  for (const int64_t grid : {std::min(wanted, kMostBlocks), std::min(wanted, resident)}) {
    StitchSchedule s = schedule;
    s.grid = static_cast<int>(std::max<int64_t>(1, grid / s.cluster) * s.cluster);
    const StitchLoad load = LoadOf(body, program, s, bucket, model);
    const Prediction prediction = TimesOfStitch(body, program, s, load, bucket, model).alone;
    if (!best.has_value() || prediction.total_us < best->prediction.total_us) {
      best = RankedStitch{s, prediction, {}, 0};
    }
  }
  return *best;
}

}  // namespace sinter
