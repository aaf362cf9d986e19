#include "src/fusion/ffn_plans.h"

#include "absl/strings/str_cat.h"
#include "src/base/launch_recipe.h"

namespace sinter {
namespace {

constexpr uint64_t kCAlignment = 1024;

uint64_t WorkspaceWithC(const FfnProblem& p) {
  const auto c = static_cast<uint64_t>(p.bucket * p.n * SizeOf(p.dtype));
  return kWorkspaceFlagBytes + (c + kCAlignment - 1) / kCAlignment * kCAlignment;
}

void Bind(Role role, int buffer, int64_t row_stride, KernelSpec* spec) {
  if (buffer >= 0) spec->operands.push_back({role, buffer, 0, row_stride});
}

void BindC(Role role, const FfnProblem& chain, KernelSpec* spec) {
  spec->operands.push_back({role, kWorkspaceBuffer, kWorkspaceFlagBytes, chain.n});
}

void BindFirst(const FfnView& v, KernelSpec* spec) {
  Bind(Role::kA, v.a, v.ld_a, spec);
  Bind(Role::kW1, v.w1, v.ld_w1, spec);
  Bind(Role::kWUp, v.w_up, v.ld_w_up, spec);
  Bind(Role::kB1, v.b1, 0, spec);
  Bind(Role::kBUp, v.b_up, 0, spec);
}

PlannedKernel KernelOf(KernelFamily family, const FfnProblem& problem, const FfnView& view,
                       const RankedSchedule& ranked) {
  PlannedKernel kernel;
  kernel.spec.family = family;
  kernel.spec.problem = problem;
  kernel.spec.schedule = ranked.schedule;
  kernel.spec.constant_weights = view.weights_constant;
  kernel.prediction = ranked.prediction;
  return kernel;
}

}  // namespace

FfnProblem ProblemOf(const FfnView& v, int64_t bucket) {
  FfnProblem p;
  p.products = v.products;
  p.gated = v.gated;
  p.activation = v.act;
  p.bias1 = v.bias1;
  p.bias2 = v.bias2;
  p.layout = v.layout;
  p.dtype = v.dtype;
  p.n = v.n;
  p.k = v.k;
  p.l = v.products == 2 ? v.l : 0;
  p.bucket = bucket;
  return p;
}

absl::Status CheckStrides(const FfnView& v) {
  struct Operand {
    const char* name;
    int input;
    int64_t stride;
  };
  const Operand operands[] = {{"a", v.a, v.ld_a},
                              {"w1", v.w1, v.ld_w1},
                              {"w_up", v.w_up, v.ld_w_up},
                              {"w2", v.w2, v.ld_w2}};
  for (const Operand& o : operands) {
    if (o.input < 0 || o.stride % 8 == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(o.name, " (input ", o.input, "): row stride ",
                                                   o.stride, " is not a multiple of 8"));
  }
  return absl::OkStatus();
}

Plan FusedPlan(const FfnView& view, int num_inputs, const FfnProblem& problem,
               const RankedSchedule& ranked) {
  Plan plan;
  plan.name = "fused";
  plan.bucket = problem.bucket;
  PlannedKernel kernel = KernelOf(KernelFamily::kChain, problem, view, ranked);
  KernelSpec& spec = kernel.spec;
  BindFirst(view, &spec);
  Bind(Role::kW2, view.w2, view.ld_w2, &spec);
  Bind(Role::kB2, view.b2, 0, &spec);
  Bind(Role::kOut, num_inputs + view.output, view.ld_out, &spec);
  if (ranked.schedule.dataflow == Dataflow::kGridExchange) {
    BindC(Role::kC, problem, &spec);
    plan.workspace_bytes = WorkspaceWithC(problem);
  }
  plan.kernels.push_back(std::move(kernel));
  return plan;
}

Plan UnfusedPlan(const FfnView& view, int num_inputs, const FfnProblem& problem,
                 const RankedSchedule& first, const RankedSchedule* second) {
  Plan plan;
  plan.name = "unfused";
  plan.bucket = problem.bucket;
  PlannedKernel one = KernelOf(KernelFamily::kGemm, FirstProductOf(problem), view, first);
  BindFirst(view, &one.spec);
  const int output = num_inputs + view.output;
  if (second == nullptr) {
    Bind(Role::kOut, output, view.ld_out, &one.spec);
    plan.kernels.push_back(std::move(one));
    return plan;
  }
  BindC(Role::kOut, problem, &one.spec);
  PlannedKernel two = KernelOf(KernelFamily::kGemm, SecondProductOf(problem), view, *second);
  BindC(Role::kA, problem, &two.spec);
  Bind(Role::kW1, view.w2, view.ld_w2, &two.spec);
  Bind(Role::kB1, view.b2, 0, &two.spec);
  Bind(Role::kOut, output, view.ld_out, &two.spec);
  plan.kernels = {std::move(one), std::move(two)};
  plan.workspace_bytes = WorkspaceWithC(problem);
  return plan;
}

}  // namespace sinter
