#include "tests/bench/prepared_case.h"

namespace sinter::bench {

PreparedCase PrepareCase(Engine* engine, Engine* untuned, const PrepareOptions& chosen,
                         const Case& c, const Wanted& wanted) {
  const auto prepare =
      [&](Engine* by, bool asked_for, PrepareOptions::Choice choice,
          bool batch_invariant) -> absl::StatusOr<std::shared_ptr<const PreparedPlan>> {
    if (!asked_for) return absl::NotFoundError("not asked for");
    return by->Prepare(c.chain, c.m, {.batch_invariant = batch_invariant, .choice = choice});
  };
  Engine* const rest = untuned == nullptr ? engine : untuned;
  return {engine->Prepare(c.chain, c.m, chosen),
          prepare(rest, wanted.fused, PrepareOptions::Choice::kFused, false),
          prepare(rest, wanted.unfused, PrepareOptions::Choice::kUnfused, false),
          prepare(rest, wanted.batch_invariant, PrepareOptions::Choice::kBest, true),
          prepare(rest, untuned != nullptr, PrepareOptions::Choice::kBest, false)};
}

Row RowOf(const Case& c, const PreparedCase& prepared, const DeviceModel& model) {
  Row row;
  row.id = c.id;
  row.problem = c.line;
  row.layout = std::string(NameOf(c.matched.sequence.layout()));
  row.limit_us = c.LimitUs(model);
  if (prepared.fused.ok()) {
    row.fused_schedule = SchedulesOf((*prepared.fused)->plan());
    row.fused_predicted_us = (*prepared.fused)->plan().PredictedUs();
  }
  if (prepared.unfused.ok()) {
    row.unfused_schedule = SchedulesOf((*prepared.unfused)->plan());
    row.unfused_predicted_us = (*prepared.unfused)->plan().PredictedUs();
  }
  if (!prepared.best.ok()) return row;
  row.plan = SchedulesOf((*prepared.best)->plan());
  row.chosen = std::string((*prepared.best)->plan().name());
  row.predicted_us = (*prepared.best)->plan().PredictedUs();
  return row;
}

std::string SchedulesOf(const Plan& plan) {
  std::string text;
  for (const PlannedKernel& kernel : plan.kernels) {
    absl::StrAppend(&text, text.empty() ? "" : " | ", ProductOf(kernel.spec).schedule.ToString());
  }
  return text;
}

}  // namespace sinter::bench
