#include <algorithm>
#include <cmath>
#include <limits>

#include "src/base/numbers.h"
#include "src/stitch/body_work.h"
#include "src/stitch/search/stitch_cost_model.h"
#include "src/stitch/shared_reads.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

// Applies the schedule's hold and split.
void Compose(const Chain& body, const StitchProgram& program, const StitchSchedule& schedule,
             int64_t m, StitchLoad& load) {
  if (schedule.hold_bytes > 0 && load.crossing_element_bytes > 0) {
    const int64_t rounds = schedule.hold_bytes / HoldRoundBytes(body, program, schedule, load);
    const double share = std::min(
        1.0, static_cast<double>(rounds) / static_cast<double>(UnitRounds(program, schedule, m)));
    load.again_bytes -= share * load.crossing_bytes;
    load.crossing_bytes *= 1 - share;
  }
  if (schedule.split > 1) {
    load.serial_steps = std::ceil(load.serial_steps / schedule.split);
    load.serial_issue /= schedule.split;
    load.instructions += load.serial_elements * schedule.split * kShuffleInstructions;
  }
}

// The same program without hand-overs.
StitchProgram BaseOf(const Chain& body, const StitchProgram& program, Pace* pace) {
  if (program.handed.empty()) return StitchProgram();
  StitchBudget unbounded;
  unbounded.visits = std::numeric_limits<int64_t>::max();
  unbounded.pace = pace;
  // Outputs in place may need hand-overs: then the program is its own base.
  return MakeStitchProgram(body, program.owner, {}, &unbounded).value_or(StitchProgram(program));
}

constexpr int kAccessBytes = 16;

}  // namespace

int64_t HoldRoundBytes(const Chain& body, const StitchProgram& program,
                       const StitchSchedule& schedule, const StitchLoad& load) {
  StitchLoop main;
  main.elements = MainElements(program);
  return load.crossing_element_bytes * LoopTurns(body, schedule, main) *
         LoopVector(body, schedule, main) * schedule.block_threads;
}

LoadTable::LoadTable(const Chain& body, const StitchProgram& program, int64_t m,
                     const DeviceModel& model, Pace* pace)
    : body_(body),
      program_(program),
      base_(BaseOf(body, program, pace)),
      m_(m),
      model_(model),
      costs_(model.stitch),
      pace_(pace),
      times_(EvaluationsOfLoops(body, program.handed.empty() ? program : base_, pace)),
      handed_times_(program.handed.empty() ? LoopEvaluations()
                                           : EvaluationsOfLoops(body, program, pace)),
      sectors_(body, program, program.handed.empty() ? times_ : handed_times_, m, model),
      serial_depth_(SerialDepthOf(body, program)) {}

LoadTable::Slid& LoadTable::SlidBy(int pixels) {
  const auto known = slid_.find(pixels);
  if (known != slid_.end()) return known->second;
  LoopEvaluations times = EvaluationsOfLoops(body_, program_, pace_, pixels);
  SectorLoad sectors(body_, program_, times, m_, model_);
  return slid_.emplace(pixels, Slid{std::move(times), std::move(sectors)}).first->second;
}

StitchLoad LoadTable::Of(const StitchSchedule& schedule) {
  Slid* const slid = schedule.pixels > 1 ? &SlidBy(schedule.pixels) : nullptr;
  const auto [at, fresh] =
      counted_.try_emplace({schedule.vector, schedule.pixels, schedule.keep_inputs,
                            schedule.keep_values, schedule.keep_alike, schedule.staged});
  if (fresh) Step(pace_, static_cast<int64_t>(body_.ops().size()));
  if (fresh && program_.handed.empty()) {
    const LoopEvaluations& times = slid == nullptr ? times_ : slid->times;
    at->second = LoadOfProgram(body_, program_, schedule, m_, times, costs_);
  } else if (fresh) {
    at->second = LoadOfProgram(body_, base_, schedule, m_, times_, costs_);
    AddHands(schedule, at->second);
    at->second.flat.clear();
  }
  StitchLoad load = at->second;
  const StrewnLoad strewn = (slid == nullptr ? sectors_ : slid->sectors).Of(schedule);
  load.strewn_bytes = strewn.bytes;
  load.line_cycles = strewn.cycles;
  load.shared_cycles += strewn.shared_cycles;
  load.instructions += InstructionsOfSteps(body_, schedule) * schedule.unit_threads *
                       static_cast<double>(WorkItems(program_, m_));
  if (!program_.windows.reductions.empty()) {
    load.again_bytes += (WindowReads(body_, program_.windows, schedule) - 1) * load.input_bytes;
  }
  load.serial_depth = serial_depth_;
  const auto [meetings, is_new] = meetings_.try_emplace(schedule.unit_threads);
  if (is_new) meetings->second = MeetingsOf(body_, program_, schedule.unit_threads);
  load.meetings = meetings->second;
  const int64_t threads = int64_t{schedule.unit_threads} * schedule.cluster;
  if (schedule.keep_inputs && program_.owner >= 0) {
    load.kept_words = CeilDiv(load.unit_bytes, 4 * threads);
  }
  if (schedule.keep_alike) {
    load.kept_words += load.alike * CeilDiv(MainElements(program_), threads);
  }
  if (schedule.keep_values && program_.owner >= 0) {
    load.kept_words += CeilDiv(MainElements(program_), threads);
  }
  Compose(body_, program_, schedule, m_, load);
  return load;
}

StitchLoad LoadOf(const Chain& body, const StitchProgram& program, const StitchSchedule& schedule,
                  int64_t m, const DeviceModel& model) {
  return LoadTable(body, program, m, model).Of(schedule);
}

bool IsAlike(const Op& input, int64_t elements, int64_t units) {
  double count = 1;
  for (const Dim& dim : input.type.dims) {
    count *= dim.symbolic ? 1e9 : static_cast<double>(dim.value);
  }
  return count == static_cast<double>(elements) && units > 1;
}

int64_t WorkItems(const StitchProgram& program, int64_t m) {
  if (program.owner >= 0) return program.units * (program.units_symbolic ? m : 1);
  int64_t items = 1;
  ForEachLoop(program, [&](const StitchLoop& loop, const StitchPhase*) {
    if (loop.apart < 0) items = std::max(items, loop.elements * (loop.symbolic ? m : 1));
  });
  return items;
}

int64_t FlatItems(const StitchProgram& program, const StitchSchedule& schedule, int64_t m) {
  const int64_t items = WorkItems(program, m);
  if (schedule.pixels == 1 || program.windows.reductions.empty()) return items;
  const int64_t results = program.windows.dims[2].value;
  return items / results * RoundUp(results, int64_t{schedule.pixels});
}

int64_t MainElements(const StitchProgram& program) {
  int64_t elements = 1;
  ForEachLoop(program, [&](const StitchLoop& loop, const StitchPhase* units) {
    if (units != nullptr) elements = std::max(elements, loop.elements);
  });
  return elements;
}

int WidestVector(const Chain& body) {
  int64_t narrowest = 4;
  for (int i = 0; i < body.num_inputs(); ++i) {
    if (IsFloat(body.input_op(i).type.dtype)) {
      narrowest = std::min(narrowest, SizeOf(body.input_op(i).type.dtype));
    }
  }
  for (int i = 0; i < body.num_outputs(); ++i) {
    if (IsFloat(body.output_type(i).dtype)) {
      narrowest = std::min(narrowest, SizeOf(body.output_type(i).dtype));
    }
  }
  return std::min<int>(8, static_cast<int>(kAccessBytes / narrowest));
}

}  // namespace sinter
