#include <algorithm>
#include <set>
#include <utility>

#include "src/stitch/search/stitch_cost_model.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

// The most accesses of a loop that are examined, since each costs time for every schedule. A loop
// with more, as in products of products, is bound by its instructions.
constexpr size_t kMostTouches = 256;

// How many elements, units and steps of a thread's own reductions threads take together.
struct Box {
  int64_t elements = 1, units = 1, inner = 1;
};

SectorDigits DigitsIn(const MemoryTouch& touch, const Box& box, int64_t vector = 1) {
  SectorDigits digits = EachOf(FirstOf(touch.element, box.elements), vector);
  const auto add = [&](const SectorDigits& more) {
    digits.insert(digits.end(), more.begin(), more.end());
  };
  add(FirstOf(touch.unit, box.units));
  add(FirstOf(touch.inner, box.inner));
  return digits;
}

int64_t InnerOf(const MemoryTouch& touch) {
  int64_t count = 1;
  for (const SectorDigit& digit : touch.inner) count *= digit.extent;
  return count;
}

// What tells accesses apart: the input, where they begin and how they move.
std::vector<int64_t> PlacesOf(const MemoryTouch& touch, const SectorDigits& digits) {
  std::vector<int64_t> places = {touch.input, touch.first};
  for (const SectorDigit& digit : digits) {
    if (digit.extent > 1) places.insert(places.end(), {digit.step, digit.extent});
  }
  return places;
}

double CountOf(const Box& box) {
  return static_cast<double>(box.elements) * static_cast<double>(box.units) *
         static_cast<double>(box.inner);
}

// Whether a warp's accesses lie side by side, whatever its vectors: nothing to count.
bool LiesTogether(const MemoryTouch& touch) {
  constexpr int64_t kMost = 256;  // elements of a warp
  if (touch.by_ids) return true;
  if (touch.window) return false;  // L1 answers most of them
  int64_t next = touch.bytes, count = 1;
  for (const SectorDigit& digit : touch.element) {
    if (count >= kMost) break;
    if (digit.step != 0 && digit.step != next) return false;
    if (digit.step != 0) next = digit.step * digit.extent;
    count *= digit.extent;
  }
  if (count >= kMost) return true;
  for (const SectorDigit& digit : touch.unit) {
    if (digit.step != 0 && digit.step != next) return false;
    if (digit.step != 0) next = digit.step * digit.extent;
  }
  return true;
}

int64_t ElementsOf(const StitchLoop& loop, int64_t m) {
  return loop.elements * (loop.symbolic ? m : 1);
}

}  // namespace

std::optional<double> SectorBytesRead(const StitchProgram& program, const LoopEvaluations& times,
                                      ValueId input, int64_t m) {
  std::set<std::vector<int64_t>> seen;
  double bytes = 0;
  bool by_ids = false;
  ForEachLoop(program, [&](const StitchLoop& loop, const StitchPhase* units) {
    if (loop.apart >= 0) return;  // the usual case is in place
    for (const MemoryTouch& touch : times.at(&loop).touches) {
      if (touch.input != input) continue;
      by_ids |= touch.by_ids;
      const Box all{ElementsOf(loop, m), units != nullptr ? WorkItems(program, m) : 1,
                    InnerOf(touch)};
      SectorDigits digits = DigitsIn(touch, all);
      if (!seen.insert(PlacesOf(touch, digits)).second) continue;
      bytes += GranulesOf(std::move(digits), touch.bytes, kSectorBytes) * kSectorBytes;
    }
  });
  if (by_ids) return std::nullopt;
  return bytes;
}

SectorLoad::SectorLoad(const Chain& body, const StitchProgram& program,
                       const LoopEvaluations& times, int64_t m, const DeviceModel& model)
    : body_(body), m_(m), units_(WorkItems(program, m)), model_(model), program_(program) {
  std::set<ValueId> staged;
  for (const StagedInput& input : program.staged) staged.insert(input.value);
  std::set<std::vector<int64_t>> seen;
  ForEachLoop(program, [&](const StitchLoop& loop, const StitchPhase* phase) {
    if (loop.apart >= 0) return;
    const bool units = phase != nullptr;
    Strewn strewn{&loop, units, {}, {}};
    for (const MemoryTouch& touch : times.at(&loop).touches) {
      if (units && staged.count(touch.input) > 0) {
        ++staged_.try_emplace(touch.input, touch, 0).first->second.second;
      }
      if (LiesTogether(touch)) continue;
      const Box all{loop.elements, units_, InnerOf(touch)};
      const bool fresh = !units || touch.input < 0 || !touch.inner.empty() ||
                         seen.insert(PlacesOf(touch, DigitsIn(touch, all))).second;
      (fresh ? strewn.touches : strewn.again).push_back(touch);
    }
    const size_t count = strewn.touches.size() + strewn.again.size();
    if (count > 0 && count <= kMostTouches) strewn_.push_back(std::move(strewn));
  });
}

StrewnLoad SectorLoad::Of(const StitchSchedule& s) {
  if (strewn_.empty() && !s.staged) return {};
  const auto [known, fresh] =
      known_.try_emplace({s.block_threads, s.unit_threads, s.vector, s.chunks, s.split,
                          s.blocks_per_sm, s.keep_inputs, s.staged});
  if (!fresh) return known->second;
  StrewnLoad& load = known->second;
  const auto add = [&load](const StrewnLoad& of) {
    load.bytes += of.bytes;
    load.cycles += of.cycles;
    load.shared_cycles += of.shared_cycles;
  };
  for (const Strewn& strewn : strewn_) {
    add(OfLoop(strewn, strewn.touches, s));
    // Passes that are unrolled to keep inputs keep what they read one by one as well.
    if (!s.keep_inputs) add(OfLoop(strewn, strewn.again, s));
  }
  for (const StagedPlace& place : LayOutStaged(body_, program_, s)) {
    if (staged_.count(place.input) > 0) add(OfStaged(place, s));
  }
  return load;
}

StrewnLoad SectorLoad::OfStaged(const StagedPlace& place, const StitchSchedule& s) const {
  const auto& [touch, loops] = staged_.at(place.input);
  const auto units = std::min<int64_t>(s.UnitsPerBlock(), units_);
  const Box block{place.elements, units, 1};
  const Box warp{std::max<int64_t>(1, kWarpLanes * place.wide / units), units, 1};
  const double count = static_cast<double>(place.elements) * static_cast<double>(units_);
  const auto granules = [&, &of = touch](const Box& box, int64_t bytes) {
    return GranulesOf(DigitsIn(of, box), of.bytes, bytes) / CountOf(box);
  };
  StrewnLoad load;
  load.bytes = granules(block, kSectorBytes) * kSectorBytes * count;
  load.cycles = granules(warp, kLineBytes) * count;
  const double packs = std::min<double>(kWarpLanes, static_cast<double>(units) / place.wide);
  const double meeting = std::max(1.0, packs / (place.mask + 1));  // packs in one bank
  load.shared_cycles = count * (meeting / kWarpLanes + loops * static_cast<double>(touch.bytes) /
                                                           static_cast<double>(kLineBytes));
  return load;
}

StrewnLoad SectorLoad::OfLoop(const Strewn& strewn, const std::vector<MemoryTouch>& touches,
                              const StitchSchedule& s) const {
  const StitchLoop& loop = *strewn.loop;
  const int64_t vector = LoopVector(body_, s, loop), split = LoopSplit(s, loop);
  const int64_t all = ElementsOf(loop, m_), units = strewn.units ? units_ : 1;
  const auto within = [&](int64_t elements, int64_t of_units, int64_t inner) {
    return Box{std::clamp<int64_t>(elements, 1, all), std::min(units, of_units), inner};
  };
  constexpr int64_t kAllInner = int64_t{1} << 40;
  Box warp, turn, whole;
  if (strewn.units) {
    const int64_t lanes = std::min<int64_t>(kWarpLanes, s.unit_threads);
    warp = within(lanes / split * vector, kWarpLanes / lanes, split);
    turn = within(s.unit_threads / split * vector, s.UnitsPerBlock(), split);
    whole = within(all / s.cluster, s.UnitsPerBlock(), kAllInner);
  } else {
    warp = within(kWarpLanes / split * vector, 1, split);
    turn = within(s.block_threads / split * vector, 1, split);
    whole = within(s.block_threads / split * vector * s.chunks, 1, kAllInner);
  }
  const auto of = [](const MemoryTouch& touch, Box box) {
    box.inner = std::min(box.inner, InnerOf(touch));
    return box;
  };
  const auto apart = [&](const MemoryTouch& touch) {  // comes another way
    return s.staged && strewn.units && staged_.count(touch.input) > 0;
  };
  const auto fits = [&](const Box& box) {
    double bytes = 0;
    for (const MemoryTouch& touch : touches) {
      if (touch.input < 0 || apart(touch)) continue;
      bytes += GranulesOf(DigitsIn(touch, of(touch, box)), touch.bytes, kLineBytes) * kLineBytes;
    }
    return bytes * s.blocks_per_sm <= static_cast<double>(model_.shared_bytes_per_sm);
  };
  const Box& near = fits(whole) ? whole : fits(turn) ? turn : warp;
  StrewnLoad load;
  for (const MemoryTouch& touch : touches) {
    if (apart(touch)) continue;
    const double count = touch.times * static_cast<double>(all) * static_cast<double>(units);
    const Box one = of(touch, warp);
    // L1 keeps nothing that is stored.
    const Box box = touch.input < 0 ? one : of(touch, near);
    load.bytes += GranulesOf(DigitsIn(touch, box), touch.bytes, kSectorBytes) * kSectorBytes *
                  count / CountOf(box);
    const bool pack = !touch.element.empty() && touch.element[0].step == touch.bytes &&
                      touch.element[0].extent % vector == 0;
    const double accesses = pack ? 1 : static_cast<double>(std::min(vector, one.elements));
    load.cycles += accesses *
                   GranulesOf(DigitsIn(touch, one, pack ? 1 : vector), touch.bytes, kLineBytes) *
                   count / CountOf(one);
  }
  return load;
}

}  // namespace sinter
