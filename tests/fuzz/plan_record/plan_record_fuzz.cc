// Fuzz target over plan records and their check: what decodes encodes to the same bytes, and every
// plan of a record that passes the check fits its chain and stays inside its buffers.
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "src/engine/record_check.h"
#include "tests/fuzz/plan_fit/judged_chains.h"
#include "tests/fuzz/plan_record/records.h"
#include "tests/fuzz/reader.h"
#include "tests/unit/fusion/fit/bound_addresses.h"

namespace {

const sinter::Chain& ChainAt(size_t i) {
  static const auto* const chains = [] {
    auto* list = new std::vector<sinter::Chain>();
    for (const sinter::JudgedChain& of : sinter::kJudgedChains) list->push_back(ChainOf(of));
    return list;
  }();
  return (*chains)[i];
}

void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void Check(const sinter::PlanRecord& record, const sinter::PlanRequest& request) {
  const sinter::DeviceModel& model = sinter::Core().ports.model;
  if (!CheckPlanRecord(record, request, model, sinter::Core()).ok()) return;
  for (const sinter::PlanVariant& variant : record.variants) {
    const absl::Status fits = CheckPlanFits(variant.plan, *request.chain, request.bucket, model);
    Require(fits.ok(), fits.ToString().c_str());
    const std::string escape = sinter::testing::FindEscape(*request.chain, variant.plan, model);
    Require(escape.empty(), escape.c_str());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto at = static_cast<size_t>(ReaderOf(data[0], std::size(sinter::kJudgedChains)));
  const absl::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  sinter::PlanRequest request;
  request.chain = &ChainAt(at);
  request.bucket = sinter::kJudgedChains[at].bucket;
  auto record = sinter::DecodePlanRecord(bytes, LimitsOf(request));
  if (!record.ok()) return 0;
  Require(EncodePlanRecord(*record) == bytes, "a record that encodes to other bytes");
  Check(*record, request);
  if (sinter::MakeKeys(&*record)) Check(*record, request);
  return 0;
}
