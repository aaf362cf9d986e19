#include "src/stitch/code/staged_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/ceil_div.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr int64_t kAlignment = 16;

// "Staged<32, 64, 8, 8, 7>": the layout.
std::string LayoutName(const StagedPlace& place, int units) {
  return absl::Substitute("Staged<$0, $1, $2, $3, $4>", units, place.elements, place.wide,
                          place.chunk, place.mask);
}

}  // namespace

StagedText::StagedText(const StitchCode& code, const StitchProgram& program)
    : code_(code),
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
                                "        [&](long long u, int i) { return in$4 + ($5); });\n",
                                LayoutName(place, code_.schedule.UnitsPerBlock()),
                                ElementTypeName(place.dtype), code_.schedule.block_threads,
                                First(place), code_.body->op(place.input).input, address->second));
  }
  return text + "    __syncthreads();\n";
}

}  // namespace sinter
