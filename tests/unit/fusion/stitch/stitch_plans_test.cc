// Complete plans: kernels, operands, workspace; mixed graphs; what is refused.
#include "src/fusion/stitch/stitch_plans.h"

#include <chrono>
#include <cstdio>

#include "gtest/gtest.h"
#include "src/base/launch_recipe.h"
#include "src/base/status.h"
#include "src/chain/composites.h"
#include "src/chain/problem.h"
#include "src/plan/stitch/spec.h"
#include "tests/unit/fusion/stitch/graphs.h"

namespace sinter {
namespace {

using testing::H200;

Chain Mixed() {
  testing::Graph g;
  const ValueId x = g.In(DType::kBF16, {-1, 1024});
  const ValueId gamma = g.Cast(g.In(DType::kBF16, {1024}, true), DType::kF32);
  GatedFfnOperands ffn;
  ffn.a = g.Cast(*AddRmsNorm(g.builder(), x, 1e-6, gamma), DType::kBF16);
  ffn.w_gate = g.In(DType::kBF16, {3072, 1024}, true);
  ffn.w_up = g.In(DType::kBF16, {3072, 1024}, true);
  ffn.w_down = g.In(DType::kBF16, {1024, 3072}, true);
  const ValueId down = *AddGatedFfn(g.builder(), ffn, Activation::kSilu, Layout::kOI);
  const ValueId wide = g.Cast(down, DType::kF32);
  g.Out(g.Cast(g.Add(wide, g.Cast(x, DType::kF32)), DType::kBF16));
  return g.Finish();
}

void Show(const char* name, const absl::StatusOr<FusionResult>& result) {
  if (!result.ok()) {
    std::printf("%s: %s\n", name, std::string(result.status().message()).c_str());
    return;
  }
  std::printf(
      "%s: %s, %zu kernels, %.2f us, workspace %llu\n  %s\n", name, result->chosen.name.c_str(),
      result->chosen.kernels.size(), result->chosen.PredictedUs(),
      static_cast<unsigned long long>(result->chosen.workspace_bytes), result->chosen.note.c_str());
  for (const PlannedKernel& k : result->chosen.kernels) {
    std::printf("    %s %.2f us\n", std::string(NameOf(k.spec.family)).c_str(),
                k.prediction.total_us);
  }
  for (const Candidate& c : result->chosen.runners_up) {
    std::printf("    not %s %.2f: %s\n", c.name.c_str(), c.predicted_us, c.why_not.c_str());
  }
}

TEST(StitchPlans, Shows) {
  Show("mixed", PlanChain(Mixed(), 128, H200(), {}));
  for (const char* line :
       {"layernorm rows=M cols=1024", "softmax rows=M cols=1024",
        "residual_rmsnorm rows=M cols=4096", "bias_gelu_residual_layernorm rows=M cols=4096",
        "lstm_cell rows=M hidden=256", "rope rows=M heads=32 dim=128"}) {
    Show(line, PlanChain(ParseProblem(line)->chain, 8192, H200(), {}));
  }
  const auto time = [&](const char* name, const Chain& chain) {
    const auto start = std::chrono::steady_clock::now();
    const auto result = PlanChain(chain, 4096, H200(), {});
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    std::printf("%.1f ms\n", ms);
    Show(name, result);
  };
  time("random 50", testing::RandomDag(1, 50, 4096, 1024));
  time("adam 3", testing::AdamOver({1 << 20, 1 << 20, 1000}));
  time("glue 2", testing::TransformerGlue(2, 4096, 1024));
}

}  // namespace
}  // namespace sinter
