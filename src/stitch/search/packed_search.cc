#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "src/stitch/body_work.h"
#include "src/stitch/search/stitch_search.h"

namespace sinter {
namespace {

constexpr size_t kMostOps = 800;   // of all different texts
constexpr size_t kMostPacked = 4;  // packings of a ranking
constexpr int64_t kMostPackedBlocks = 1 << 19;
constexpr double kAsGood = 1.01;  // times the best sum: then fewer blocks are preferred

// Work of a block in one turn.
int64_t WorkOf(const StitchSchedule& s) {
  return s.owner >= 0 ? s.UnitsPerBlock() : s.TurnElements();
}

// A key of bodies that differ only in values and in the number of elements; with reductions, in the
// number of rows.
std::string ShapeOf(const Chain& body) {
  std::string shape;
  const bool reduces = std::any_of(body.ops().begin(), body.ops().end(), [](const Op& op) {
    return op.kind == OpKind::kReduce || op.kind == OpKind::kMatmul || TakesRow(op);
  });
  for (const Op& op : body.ops()) {
    absl::StrAppend(&shape, NameOf(op), " ", static_cast<int>(op.reduce), " ",
                    static_cast<int>(op.type.dtype), " ", op.type.rank());
    for (const ValueId operand : op.operands) absl::StrAppend(&shape, " ", operand);
    for (const int32_t axis : op.axes) absl::StrAppend(&shape, " a", axis);
    for (size_t i = 1; reduces && i < op.type.dims.size(); ++i) {
      absl::StrAppend(&shape, " d", op.type.dims[i].value);
    }
    shape += ";";
  }
  for (const ChainOutput& output : body.outputs()) {
    absl::StrAppend(&shape, output.value, output.alias_input >= 0 ? "p " : " ");
  }
  return shape;
}

StitchSchedule WithGrid(StitchSchedule schedule, int64_t grid) {
  schedule.grid = static_cast<int>(grid);
  return schedule;
}

}  // namespace

const std::vector<RankedStitch>& PackedSearch::RankingOf(const Chain& body) {
  const auto [at, fresh] = rankings_.try_emplace(body.CanonicalDigest());
  if (!fresh) return at->second;
  SearchOptions options;
  options.top_k = std::numeric_limits<int>::max();
  options.allow_cooperative = false;
  options.budget = budget_;
  options.pace = PaceOf(budget_);
  const absl::StatusOr<std::vector<RankedStitch>> ranked =
      SearchStitch(body, bucket_, model_, options);
  if (!ranked.ok()) return at->second;
  std::set<std::string> known;
  std::map<ValueId, bool> one_phase;  // by owner: whether its program has one phase, as parts need
  for (const RankedStitch& one : *ranked) {
    if (!known.insert(WithGrid(one.schedule, 1).Canonical()).second) continue;
    Ask(PaceOf(budget_));
    if (!CheckPartFields(one.schedule).ok()) continue;
    const auto [phase, fresh_owner] = one_phase.try_emplace(one.schedule.owner);
    if (fresh_owner) phase->second = CheckPart(body, one.schedule).ok();
    if (phase->second) at->second.push_back(one);
  }
  return at->second;
}

bool PackedSearch::FillSchedules(Class* one) {
  struct Sum {
    size_t parts = 0;
    double us = 0;
    StitchSchedule schedule;
  };
  std::map<std::string, Sum> sums;
  for (const Part* part : one->parts) {
    for (const RankedStitch& ranked : RankingOf(part->body)) {
      const StitchSchedule schedule = WithGrid(ranked.schedule, 1);
      Sum& sum = sums[schedule.Canonical()];
      ++sum.parts;
      sum.us += ranked.prediction.total_us;
      sum.schedule = schedule;
    }
  }
  std::vector<const Sum*> all;
  for (const auto& [key, sum] : sums) {
    if (sum.parts == one->parts.size()) all.push_back(&sum);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Sum* a, const Sum* b) { return a->us < b->us; });
  for (const Sum* sum : all) one->schedules.push_back({sum->schedule, sum->us});
  return !all.empty();
}

const StitchTimes* PackedSearch::TimesOf(const Chain& body, const StitchSchedule& schedule) {
  const auto key = std::make_pair(body.CanonicalDigest(), schedule.Canonical());
  auto known = times_.find(key);
  if (known == times_.end()) {
    Ask(PaceOf(budget_));
    const absl::StatusOr<StitchTimes> times =
        TimesOfStitch(body, schedule, bucket_, model_, budget_);
    if (!times.ok()) return nullptr;
    known = times_.emplace(key, *times).first;
  }
  return &known->second;
}

const StitchSchedule* PackedSearch::Choose(const Class& one, int threads, int resident) {
  const Choice* best = nullptr;
  double us = 0;  // of the first that fits
  for (const Choice& choice : one.schedules) {
    const StitchSchedule& s = choice.schedule;
    if (s.block_threads != threads || s.blocks_per_sm < resident) continue;
    if (best == nullptr) us = choice.us;
    if (choice.us > kAsGood * us) break;
    if (best == nullptr || WorkOf(s) > WorkOf(best->schedule)) best = &choice;
  }
  return best == nullptr ? nullptr : &best->schedule;
}

bool PackedSearch::Pack(const std::vector<Class>& classes, int threads, int resident,
                        RankedStitch* packed) {
  std::vector<std::pair<StitchPart, StitchTimes>> parts;
  for (const Class& one : classes) {
    const StitchSchedule* found = Choose(one, threads, resident);
    if (found == nullptr) return false;
    for (const Part* part : one.parts) {
      const StitchTimes* times = TimesOf(part->body, WithGrid(*found, kMostPackedBlocks));
      if (times == nullptr) return false;
      const auto blocks = static_cast<int64_t>(times->blocks);
      const StitchSchedule schedule = WithGrid(*found, std::min(kMostPackedBlocks, blocks));
      parts.push_back({{part->outputs, schedule}, *times});
    }
  }
  // Blocks with long turns come first, so that the last blocks are short.
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return a.second.turn_us > b.second.turn_us;
  });
  std::vector<StitchTimes> times;
  for (const auto& [part, time] : parts) {
    packed->parts.push_back(part);
    times.push_back(time);
  }
  packed->schedule = PackedSchedule(packed->parts);
  packed->prediction = PredictTogether(times, packed->schedule.blocks_per_sm, model_);
  return CheckStitchFields(packed->schedule).ok();
}

std::vector<RankedStitch> PackedSearch::Of(const Chain& body) {
  Ask(PaceOf(budget_));
  const std::vector<std::vector<int>> groups = IndependentOutputs(body);
  if (groups.size() < 2 || groups.size() > kMostParts) return {};
  std::vector<Part> parts;
  for (const std::vector<int>& outputs : groups) {
    Ask(PaceOf(budget_));
    absl::StatusOr<PartBody> part = ExtractPart(body, outputs);
    if (!part.ok()) return {};
    parts.push_back({outputs, std::move(part->body)});
  }
  std::vector<Class> classes;
  std::map<std::string, size_t> known;
  size_t ops = 0;
  for (const Part& part : parts) {
    const auto [at, fresh] = known.try_emplace(ShapeOf(part.body), classes.size());
    if (fresh) {
      classes.emplace_back();
      ops += part.body.ops().size();
    }
    classes[at->second].parts.push_back(&part);
  }
  if (ops > kMostOps) return {};
  for (Class& one : classes) {
    if (!FillSchedules(&one)) return {};
  }
  std::vector<RankedStitch> packings;
  for (const int threads : {128, 256, 512, 1024}) {
    for (const int resident : {1, 2, 3, 4, 6, 8, 12, 16}) {
      Ask(PaceOf(budget_));
      RankedStitch packed;
      if (Pack(classes, threads, resident, &packed)) packings.push_back(std::move(packed));
    }
  }
  SortByTime(&packings);
  const auto same = [this](const RankedStitch& a, const RankedStitch& b) {
    Ask(PaceOf(budget_));
    return a.parts == b.parts;
  };
  packings.erase(std::unique(packings.begin(), packings.end(), same), packings.end());
  if (packings.size() > kMostPacked) packings.resize(kMostPacked);
  return packings;
}

}  // namespace sinter
