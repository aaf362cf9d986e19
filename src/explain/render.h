// Renders explanations, and parts of them, as text, JSON and SVG. Texts end with a newline.
#ifndef SINTER_SRC_EXPLAIN_RENDER_H_
#define SINTER_SRC_EXPLAIN_RENDER_H_

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/explain/explain.h"

namespace sinter {

// The plan on one screen: drawings, bytes and time per level, where each kernel came from; below it
// the best plans that were not chosen, each with the reason.
std::string ExplanationText(const Explanation& explanation);
// The plan in a few lines: schedules, times, search, where each kernel came from.
std::string SummaryText(const Explanation& explanation);
// The first of these lines: those of the plan, without where it came from.
std::string PlanText(const Explanation& explanation);

// {"schema": 3, "kernels": [{"title", "formulas", "launch", "shared", "products", "window" (of
// a convolution), "hand_overs", "intermediate_bytes" (c's bytes by level), "levels"}],
// "runners_up", "fusion" (FusionJson, for plans with stitched kernels), "model":
// {"name", "measured", "note", "constants"}}. The names are a stable format.
std::string ExplanationJson(const Explanation& explanation);
// {"saved_bytes", "equal_kernels", "kernels": [{"ops", "inlined", "reads", "writes", "parts",
// "edges", "border_bytes", "saved_bytes", "times" (if known), "hands" (if any)}], "not_fused":
// [{"from", "to", "bytes", "why"}]}. A read of an op has "through" where it passes views.
std::string FusionJson(const Explanation& explanation);
// The plan itself, for tools: docs/plan-formats.md has the names.
std::string PlanJson(const Plan& plan);
// Both as values, for a document that holds them.
nlohmann::ordered_json PlanDocument(const Plan& plan);
nlohmann::ordered_json ExplanationDocument(const Explanation& explanation);

// A self-contained SVG document, well-formed for any plan: equal kernels once, with their products
// and tiles, one cluster with its exchanges, the launch, or their ops; hand-overs; the time of each
// level; what is apart and why; a legend.
std::string PlanSvg(const Explanation& explanation);

// One kernel: its schedule, drawing, bytes and time of each level, predicted and measured time.
std::string KernelText(const Explanation& explanation, size_t kernel);
// A kernel of products in ASCII: its products as boxes from left to right, their operands above,
// the transfer of the intermediate between them, shared memory below. At most 100 columns for two
// products; no trailing blanks.
std::string ProductsText(const ProductsPicture& products);
// Parts, ops, compositions and bytes of a stitched kernel; "" for another.
std::string FusionText(const KernelDescription& kernel);
// Why kernels are not one; "" when nothing is handed over.
std::string ApartText(const Explanation& explanation);
// The first candidates, so that a plan fits a screen; "" for none.
std::string RunnersUpText(const std::vector<Candidate>& runners_up);
// "predicted 11.50 us, measured 12.10 us: 5.2 % more than predicted". Without a measurement: how to
// get one.
std::string MeasuredText(double predicted_us, double measured_us);
// "0", "0, 3, 6", "0, 3, 6 .. 57 (20)".
std::string KernelNumbers(const std::vector<int>& kernels);

// Parts of ExplainFusion.

// Adds the ops of the kernel's body, each of which would be a kernel of its own, to a description
// that has the tensors at its border. None when the body makes no StitchGraph or no program.
void AddOps(const KernelSpec& spec, int64_t bucket, KernelDescription* kernel);

// A body, and the tensor of each of its inputs and outputs: equal numbers are one tensor in any
// body.
struct NamedBody {
  const Chain* body = nullptr;
  std::vector<int> tensors;
};

// `first` followed by `second`. An output of `first` that `second` reads is computed, an input of
// both is read once. Outputs of `first` among `wanted` stay outputs, and so do all of `second`.
// Outputs keep the inputs' buffers that they share. An error names the op that does not fit.
absl::StatusOr<Chain> JoinBodies(const NamedBody& first, const NamedBody& second,
                                 const std::set<int>& wanted);

}  // namespace sinter

#endif  // SINTER_SRC_EXPLAIN_RENDER_H_
