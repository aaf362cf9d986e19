#include "src/stitch/code/phase_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// The part of `used` that pass number `pass` reads.
Used ReadBy(const Used& used, int pass) {
  Used some;
  for (const auto& [key, passes] : used.inputs) {
    if (passes.count(pass) > 0) some.inputs[key] = {pass};
  }
  return some;
}

}  // namespace

PhaseWriter::PhaseWriter(const StitchCode& code, const StitchProgram& program,
                         const FrameNames& names)
    : code_(code),
      program_(program),
      names_(names),
      emitter_(*code.body, program),
      columns_(code, program),
      hands_(code, program),
      staged_(code, program),
      keep_(code, program, loops_, emitter_) {}

absl::StatusOr<std::string> PhaseWriter::Write() {
  SINTER_RETURN_IF_ERROR(Run(nullptr).status());
  const std::vector<Used> uses = std::move(uses_);
  keep_.ChooseHeld(uses);
  return Run(&uses);
}

absl::StatusOr<std::string> PhaseWriter::Run(const std::vector<Used>* uses) {
  std::string text;
  uses_.clear();
  if (names_.sizes != nullptr) names_.sizes->clear();
  passes_ = 0;
  for (size_t i = 0; i < program_.phases.size(); ++i) {
    const Used* used = uses == nullptr ? nullptr : &(*uses)[i];
    SINTER_ASSIGN_OR_RETURN(const std::string phase, Phase(i, used));
    absl::StrAppend(&text, "  {\n", phase, "  }\n");
  }
  return text;
}

absl::StatusOr<std::string> PhaseWriter::Phase(size_t number, const Used* used) {
  const StitchPhase& phase = program_.phases[number];
  emitter_.StartUses();
  emitter_.OpenScope();
  absl::Status status;
  if (!phase.loops.empty()) status.Update(Units(number, used));
  for (const StitchLoop& loop : phase.flat) {
    StitchLoop left = loop;
    left.roots.erase(std::remove_if(left.roots.begin(), left.roots.end(),
                                    [&](const StitchRoot& root) { return columns_.Stores(root); }),
                     left.roots.end());
    if (status.ok() && !left.roots.empty()) status.Update(Flat(left, used));
  }
  const std::string text = emitter_.CloseScope();
  SINTER_RETURN_IF_ERROR(status);
  uses_.push_back(emitter_.used());
  return absl::StrCat(columns_.Declarations(phase), text, columns_.Join(phase, emitter_));
}

absl::Status PhaseWriter::Units(size_t number, const Used* used) {
  const StitchPhase& phase = program_.phases[number];
  const StitchSchedule& s = code_.schedule;
  emitter_.ForgetRows();
  emitter_.SetReadsBack(&phase);
  Kept kept;
  if (used != nullptr) {
    kept = keep_.Choose(*used, s.keep_inputs, s.keep_values);
    SINTER_RETURN_IF_ERROR(keep_.ComputeAlike(*used, kept));
  }
  emitter_.SetKept(kept);
  staged_.Publish(emitter_);
  emitter_.OpenScope();
  BatchReads batch;
  const int at_once = UnitsAtOnce(*code_.body, s, phase);
  keep_.Preload(kept, false, number, at_once, at_once > 1 ? &batch : nullptr);
  absl::Status status;
  for (size_t i = 0; i < phase.loops.size() && status.ok(); ++i) {
    const StitchLoop& loop = phase.loops[i];
    const PassShape shape = ShapeOf(*code_.body, s, loop, false);
    const std::string meet = hands_.Meet(number, i);
    if (!meet.empty()) emitter_.Add(meet);
    PassWriter writer(code_, program_, emitter_, hands_, number, &keep_.holds());
    status.Update(writer.Write(loop, shape, loops_.Of(shape, emitter_.space()), passes_++));
    hands_.Publish(number, i, emitter_);
  }
  const std::string passes = emitter_.CloseScope();
  const std::string loads = staged_.Text(emitter_.TakeStaged());
  emitter_.ForgetRows();  // flat loops have no unit
  emitter_.SetReadsBack(nullptr);
  SINTER_RETURN_IF_ERROR(status);
  const HoldText& holds = keep_.holds();
  emitter_.Append(hands_.Declarations(number));
  const bool backward = number % 2 == 1 && !holds.IsWhole();
  emitter_.Append(AroundUnits(code_, program_, phase,
                              {holds.Counts(number), holds.MostRounds(), backward, !loads.empty()},
                              batch, names_, absl::StrCat(loads, passes)));
  return absl::OkStatus();
}

absl::Status PhaseWriter::Windows(const StitchLoop& loop) {
  if (program_.windows.reductions.empty()) {
    return absl::FailedPreconditionError("stitch: no row of windows for several pixels at once");
  }
  PassWriter writer(code_, program_, emitter_, hands_, 0);
  WindowText windows(code_, program_, emitter_, writer);
  SINTER_ASSIGN_OR_RETURN(const std::string text, windows.Write(loop, names_, passes_++));
  emitter_.Append(text);
  return absl::OkStatus();
}

absl::Status PhaseWriter::Flat(const StitchLoop& loop, const Used* used) {
  if (code_.schedule.pixels > 1) return Windows(loop);
  PassShape shape = ShapeOf(*code_.body, code_.schedule, loop, true);
  shape.known = names_.KnowCounts();
  const IndexVar element = loops_.Of(shape, emitter_.space());
  Kept kept;
  if (used != nullptr) kept = keep_.Choose(ReadBy(*used, passes_), true, false);
  emitter_.SetKept(kept);
  emitter_.OpenScope();
  keep_.Preload(kept, true, 0);
  PassWriter writer(code_, program_, emitter_, hands_, 0);
  const absl::Status status = writer.Write(loop, shape, element, passes_++);
  const std::string inside = emitter_.CloseScope();
  SINTER_RETURN_IF_ERROR(status);
  if (loop.apart < 0) {
    emitter_.Append(FlatLoopText(shape, inside));
    return absl::OkStatus();
  }
  const int input = code_.body->outputs()[static_cast<size_t>(loop.apart)].alias_input;
  emitter_.Append(absl::StrCat("  if (out", loop.apart, " != in", input, ") {\n",
                               FlatLoopText(shape, inside), "  }\n"));
  return absl::OkStatus();
}

std::string PhaseWriter::FlatLoopText(const PassShape& shape, const std::string& inside) const {
  const int64_t tile =
      int64_t{code_.schedule.block_threads} / shape.split * shape.width * shape.turns;
  return absl::Substitute(
      "  for (long long base = $3 * $0ll, count = $1; base < count;\n"
      "       base += $4 * $0ll) {\n    constexpr bool live = true;\n$2  }\n",
      tile, names_.Count(shape.elements, shape.symbolic), inside, names_.block, names_.blocks);
}

}  // namespace sinter
