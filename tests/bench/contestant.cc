#include "tests/bench/contestant.h"

namespace sinter::bench {

bool Runs(const Contestant& one,
          const absl::StatusOr<std::shared_ptr<const PreparedPlan>>& prepared) {
  return prepared.ok() && (*prepared)->plan().PlanDigest() == one.plan->plan().PlanDigest();
}

void KeepFigures(const Contestant& one, const PreparedCase& prepared, bool batch_invariant,
                 Row* row) {
  if (one.name == "fused") {
    row->fused_cold_us = one.cold_us;
    row->fused_hot_us = one.hot_us;
    row->fused_pdl_us = one.pdl_us;
    row->fused_mj_per_call = one.mj_per_call;
  }
  if (one.name == "unfused") {
    row->unfused_cold_us = one.cold_us;
    row->unfused_hot_us = one.hot_us;
    row->unfused_pdl_us = one.pdl_us;
    row->unfused_mj_per_call = one.mj_per_call;
  }
  if (batch_invariant && Runs(one, prepared.batch_invariant)) {
    row->batch_invariant_cold_us = one.cold_us;
  }
  if (Runs(one, prepared.untuned)) row->untuned_cold_us = one.cold_us;
  if (!Runs(one, prepared.best)) return;
  row->chosen_cold_us = one.cold_us;
  row->chosen_pdl_us = one.pdl_us;
  row->chosen_mj_per_call = one.mj_per_call;
}

}  // namespace sinter::bench
