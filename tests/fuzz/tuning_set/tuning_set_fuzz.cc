// Fuzz target over tuning sets, as they are and sealed again with the right digest: what is read is
// canonical, and no plan in it is believed for a chain that it is not of.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "src/base/device_model.h"
#include "src/base/digest.h"
#include "src/chain/problem.h"
#include "src/engine/keys.h"
#include "src/engine/tuning_set.h"
#include "src/fusion/assembly.h"
#include "src/plan/plan.h"
#include "tests/fuzz/target.h"

namespace sinter::tuning_set_fuzz {
namespace {

// Another chain than those of the corpus, of operands as large.
const sinter::Chain& OtherChain() {
  static const auto* const chain = new sinter::Chain(
      sinter::ParseProblem("gemm_chain m=16 n=256 k=128 l=128 act=gelu_erf layout=oi dtype=bf16")
          ->chain);
  return *chain;
}

void Read(absl::string_view text) {
  static const auto* const model = new sinter::DeviceModel(*sinter::BuiltinModel("h200"));
  const auto set = sinter::TuningSet::FromText(text);
  if (!set.ok()) return;
  Require(set->ToText() == text);
  for (const auto& [key, entry] : set->entries()) {
    Require(set->Find(key) == &entry);
    const auto record = sinter::DecodePlanRecord(entry.record);
    if (!record.ok()) continue;
    const sinter::Decisions& decisions = record->variants.front().decisions;
    const auto plan = sinter::Assembly(OtherChain(), 16, *model).Assemble(decisions);
    Require(!plan.ok() || ProductOf(plan->plan.kernels[0].spec).sequence[0].epilogue.activation() ==
                              sinter::Activation::kGeluErf);
  }
}

}  // namespace

SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Read(text);
  const size_t seal = text.rfind("sha256 ");
  const std::string body = text.substr(0, seal == std::string::npos ? text.size() : seal);
  Read(absl::StrCat(body, "sha256 ", sinter::Sha256(body).Hex(), "\n"));
  return 0;
}

}  // namespace sinter::tuning_set_fuzz
