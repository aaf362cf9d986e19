// Fuzz target over plan records: what decodes encodes to the same bytes, and every plan that is
// made of one stays inside its buffers, with a key for each kernel.
#include "tests/fuzz/decisions/judged_chains.h"
#include "tests/fuzz/plan_record/records.h"
#include "tests/fuzz/reader.h"
#include "tests/fuzz/target.h"
#include "tests/unit/fusion/assembly/bound_addresses.h"

namespace sinter::plan_record_fuzz {
namespace {

const sinter::Chain& ChainAt(size_t i) {
  static const auto* const chains = [] {
    auto* list = new std::vector<sinter::Chain>();
    for (const sinter::JudgedChain& of : sinter::kJudgedChains) list->push_back(ChainOf(of));
    return list;
  }();
  return (*chains)[i];
}

}  // namespace

SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto at = static_cast<size_t>(ReaderOf(data[0], std::size(sinter::kJudgedChains)));
  const absl::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  sinter::PlanRequest request;
  request.form = sinter::IdentityForm(std::make_shared<const sinter::Chain>(ChainAt(at)));
  request.bucket = sinter::kJudgedChains[at].bucket;
  auto record = sinter::DecodePlanRecord(bytes, LimitsOf(request));
  if (!record.ok()) return 0;
  Require(EncodePlanRecord(*record) == bytes, "a record that encodes to other bytes");
  const sinter::DeviceModel& model = sinter::Core().ports.model;
  if (!CompletePlanRecord(request, model, sinter::Core(), sinter::BuildControl(), &*record).ok()) {
    return 0;
  }
  for (const sinter::PlanVariant& variant : record->variants) {
    Require(variant.kernel_keys.size() == variant.plan.kernels.size(), "a kernel without a key");
    const std::string escape = sinter::testing::FindEscape(request.planned(), variant.plan, model);
    Require(escape.empty(), escape.c_str());
  }
  return 0;
}

}  // namespace sinter::plan_record_fuzz
