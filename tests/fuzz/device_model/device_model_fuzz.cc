// Fuzz target over device models as text: what is accepted reads as itself when written again, and
// a plan that is made for it is one that its check accepts.
#include "src/base/device_model.h"
#include "src/chain/problem.h"
#include "tests/fuzz/target.h"
#include "tests/unit/fusion/assembly/reassembled.h"

namespace sinter::device_model_fuzz {
namespace {

// A chain of one stitched kernel, whose search is short.
const sinter::Chain& SmallChain() {
  static const auto* const chain =
      new sinter::Chain(sinter::ParseProblem("softmax rows=M cols=64")->chain);
  return *chain;
}

}  // namespace

SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto model = sinter::DeviceModel::FromText(text);
  if (!model.ok()) return 0;
  const std::string written = model->ToText();
  const auto again = sinter::DeviceModel::FromText(written);
  Require(again.ok() && again->ToText() == written, "a text that reads as another model");
  Require(again->ModelDigest() == model->ModelDigest(), "another digest");
  const auto planned = sinter::PlanChain(SmallChain(), 8, *model, {});
  if (!planned.ok()) return 0;
  const sinter::Plan& plan = planned->chosen;
  const double us = plan.PredictedUs();
  Require(std::isfinite(us) && us >= 0, std::to_string(us) + " us are predicted");
  const absl::Status fits = sinter::testing::Reassembled(plan, SmallChain(), *model).status();
  Require(fits.ok(), fits.ToString());
  return 0;
}

}  // namespace sinter::device_model_fuzz
