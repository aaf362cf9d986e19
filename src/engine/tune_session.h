// The state of one tuning, for Tuner's own files.
#ifndef SINTER_SRC_ENGINE_TUNE_SESSION_H_
#define SINTER_SRC_ENGINE_TUNE_SESSION_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/engine/control.h"
#include "src/engine/rotation.h"
#include "src/engine/tune.h"
#include "src/engine/verify.h"

namespace sinter {

// One plan of the ranking.
struct Tuner::Trial {
  explicit Trial(Plan p) : plan(std::move(p)) {}
  Plan plan;
  LoadedPlanPtr loaded;                                 // null unless it was built and is resident
  std::vector<std::shared_ptr<const BoundPlan>> bound;  // set where only times in turns decide
  double measured_us = 0;                               // 0: not measured
  double in_turns_us = 0;                               // 0: not on the short list
  std::vector<double> rounds;                           // the times whose median is in_turns_us
  bool checked = false;
  Verdict verdict;
  std::string state;  // "ok", "not checked", or why there is no time
};

// One call of Tune. trials[0] is the predicted choice.
struct Tuner::Session {
  const PlanRequest& request;
  const TuneOptions& options;
  const BuildControl& control;
  Measurer* const measurer;
  std::vector<Plan> ranking;  // everything that was planned, the predicted choice first
  std::vector<Trial> trials;
  LoadedPlanPtr unfused;  // null when it could not be built
  std::unique_ptr<Verifier> verifier;
  std::unique_ptr<Rotation> rotation;
  std::shared_ptr<KernelSources> sources;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TUNE_SESSION_H_
