// Decisions: what planning decided of a chain: which ops share a kernel, and how each kernel runs.
// Assembly (src/fusion/assembly.h) makes the plan of a chain from them. They name no buffer, no
// offset and no kernel's key, so that damaged ones can choose badly and nothing else.
#ifndef SINTER_SRC_PLAN_DECISIONS_H_
#define SINTER_SRC_PLAN_DECISIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/plan/plan.h"

namespace sinter {

struct KernelDecision {
  const KernelFamily* family = &StitchFamily();
  KernelOps ops;
  int products = 0;   // of products: how many of its run
  Schedule schedule;  // of products
  // Of a stitched kernel; of a packed one the common launch and the parts.
  StitchSchedule stitch;
  std::vector<StitchPart> parts;
  std::string own;  // of any other family: its choice as bytes
  Prediction prediction;
  double measured_us = 0;  // 0 unless tuned
};

struct Decisions {
  bool fused = false;
  bool batch_invariant = false;
  int64_t bucket = 0;
  Absorbed absorbed;
  std::vector<KernelDecision> kernels;  // in the order in which they run
  std::string note;                     // Plan::note
  std::vector<Candidate> runners_up;    // Plan::runners_up
};

// Of a plan that needs a compiler: none of stand-ins.
Decisions DecisionsOf(const Plan& plan);

// DATA_LOSS of the bytes of decisions.
absl::Status LostDecision(absl::string_view what);

std::string EncodeDecisions(const Decisions& decisions);
// Trusts nothing: DATA_LOSS unless `bytes` are those of decisions whose fields are within their
// bounds. Whether they are decisions of a chain, Assembly says.
absl::StatusOr<Decisions> DecodeDecisions(absl::string_view bytes);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_DECISIONS_H_
