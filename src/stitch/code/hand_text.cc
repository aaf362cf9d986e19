#include "src/stitch/code/hand_text.h"

#include <algorithm>

#include "absl/strings/substitute.h"
#include "src/base/ceil_div.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr int kWarp = 32;
constexpr int64_t kAlignment = 16;

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

}  // namespace sinter
