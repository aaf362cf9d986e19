#include "src/stitch/code/hand_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/numbers.h"
#include "src/stitch/code/kernel_frame.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr int kWarp = 32;
constexpr int64_t kAlignment = 16;

// "Staged<32, 64, 8, 8, 7>": the layout.
std::string LayoutName(const StagedPlace& place, int units) {
  return absl::Substitute("Staged<$0, $1, $2, $3, $4>", units, place.elements, place.wide,
                          place.chunk, place.mask);
}

}  // namespace

HandText::HandText(const StitchCode& code, const StitchProgram& program)
    : code_(code),
      program_(program),
      layout_(program.handed.empty() ? HandLayout()
                                     : LayOutHands(*code.body, program, code.schedule)) {}

std::string HandText::Declarations(size_t phase) const {
  if (program_.phases[phase].hands.empty()) return "";
  const StitchSchedule& s = code_.schedule;
  const int64_t begin = RoundUp(HandsOffset(*code_.body, program_, s), kAlignment);
  return absl::Substitute("  unsigned char* const handed = dynamic_shared + $0$1;\n", begin,
                          s.UnitsPerBlock() == 1
                              ? ""
                              : absl::Substitute(" + static_cast<int>(threadIdx.x) / $0 * $1",
                                                 s.unit_threads, layout_.group_bytes));
}

std::string HandText::Meet(size_t phase, size_t loop) const {
  const StitchPhase& of = program_.phases[phase];
  if (of.hands.empty()) return "";
  return MeetsBefore(of, code_.schedule.unit_threads > kWarp)[loop] ? "group.share();" : "";
}

HandedResult HandText::ResultOf(size_t phase, ValueId value) const {
  const std::vector<HandPlace>& places = layout_.phases[phase];
  const auto place = std::find_if(places.begin(), places.end(),
                                  [&](const HandPlace& one) { return one.value == value; });
  return {
      ElementTypeName(place->dtype),
      absl::Substitute("handed_at<$0>(handed + $1)", ElementTypeName(place->dtype), place->offset),
      place->strides};
}

void HandText::Publish(size_t phase, size_t loop, StitchEmitter& emitter) const {
  for (const StitchHand& hand : program_.phases[phase].hands) {
    if (hand.made == loop) emitter.SetHanded(hand.value, ResultOf(phase, hand.value));
  }
}

StagedText::StagedText(const StitchCode& code, const StitchProgram& program)
    : code_(code),
      ints_(UnitsAreInts(program)),
      places_(LayOutStaged(*code.body, program, code.schedule)),
      offset_(places_.empty()
                  ? 0
                  : RoundUp(HandsOffset(*code.body, program, code.schedule), kAlignment)) {}

std::string StagedText::First(const StagedPlace& place) const {
  return absl::Substitute("handed_at<$0>(dynamic_shared + $1)", ElementTypeName(place.dtype),
                          offset_ + place.offset);
}

void StagedText::Publish(StitchEmitter& emitter) const {
  const StitchSchedule& s = code_.schedule;
  for (const StagedPlace& place : places_) {
    emitter.SetStaged(
        place.input,
        {First(place), absl::Substitute("$0::place(static_cast<int>(threadIdx.x) / "
                                        "$1, ",
                                        LayoutName(place, s.UnitsPerBlock()), s.unit_threads)});
  }
}

// The first barrier waits for readers of the units before.
std::string StagedText::Text(const std::map<ValueId, std::string>& from) const {
  if (from.empty()) return "";
  std::string text = "    __syncthreads();\n";
  for (const StagedPlace& place : places_) {
    const auto address = from.find(place.input);
    if (address == from.end()) continue;
    absl::StrAppend(
        &text, absl::Substitute("    $0::fill<$1, $2>($3, base, units,\n"
                                "        [&]($6 u, int i) { return in$4 + ($5); });\n",
                                LayoutName(place, code_.schedule.UnitsPerBlock()),
                                ElementTypeName(place.dtype), code_.schedule.block_threads,
                                First(place), code_.body->op(place.input).input, address->second,
                                ints_ ? "int" : "long long"));
  }
  return text + "    __syncthreads();\n";
}

}  // namespace sinter
