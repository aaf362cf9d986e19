// Times each kernel of experts' layers by itself, in every form of tiles that the search offers,
// and prints the predicted time too:
//   grouped_forms ROWS uniform|zipf LINE [FORM ..]
// LINE is a grouped_gated_ffn of problem texts; FORM "bm,bn,stages,swapped" replaces the
// search's. Calls repeat in a graph with programmatic edges. Weights should be much larger than
// L2: all calls share them. Without a GPU it says what is predicted for an H200.
#include "absl/strings/numbers.h"
#include "src/chain/problem.h"
#include "src/engine/bound_plan.h"
#include "src/engine/verify.h"
#include "src/plan/grouped_family.h"
#include "tests/gpu/plan_build.h"

namespace sinter::bench {
namespace {

constexpr int kCalls = 6, kReplays = 11, kBadArgument = 2;

// Ids of `top` distinct experts a row: each alike, or by Zipf's law with exponent 1 of permuted
// ranks.
std::string IdsOf(int64_t rows, int64_t top, int64_t experts, bool zipf) {
  std::mt19937 random(1);
  std::vector<double> weights(static_cast<size_t>(experts), 1);
  for (size_t e = 0; zipf && e < weights.size(); ++e) weights[e] /= static_cast<double>(e + 1);
  std::shuffle(weights.begin(), weights.end(), random);
  std::vector<int32_t> ids;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<double> left = weights;
    for (int64_t t = 0; t < top; ++t) {
      std::discrete_distribution<int32_t> draw(left.begin(), left.end());
      ids.push_back(draw(random));
      left[static_cast<size_t>(ids.back())] = 0;
    }
  }
  return std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t));
}

absl::StatusOr<GroupedSchedule> FormOf(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  int values[4] = {};
  if (parts.size() != 4) return absl::InvalidArgumentError(text);
  for (size_t i = 0; i < 4; ++i) {
    if (!absl::SimpleAtoi(parts[i], &values[i])) return absl::InvalidArgumentError(text);
  }
  return GroupedSchedule{values[0], values[1], values[2], 1, values[3]};
}

bool IsGrouped(const PlannedKernel& kernel) { return kernel.spec.family == &GroupedFamily(); }

// One chain's buffers on the device.
class Layer {
 public:
  static absl::StatusOr<Layer> Make(const Ports& ports, std::shared_ptr<const Chain> chain,
                                    int64_t rows, bool zipf) {
    Layer layer(ports, std::move(chain), rows);
    SINTER_ASSIGN_OR_RETURN(auto inputs, RandomInputs(*layer.chain_, rows, 11));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (layer.chain_->InputName(layer.chain_->InputOrder()[i]) == "ids") {
        const TensorType& w1 = layer.chain_->input_op(layer.InputOf("w1")).type;
        const int64_t top = static_cast<int64_t>(inputs[i].size()) / 4 / rows;
        inputs[i] = IdsOf(rows, top, w1.dims[0].value, zipf);
      }
      SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer, layer.arena_->Allocate(inputs[i].size()));
      SINTER_RETURN_IF_ERROR(ports.measurer->Upload(buffer, inputs[i].data(), inputs[i].size()));
      layer.buffers_.push_back(buffer.ptr);
    }
    SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(*layer.chain_, 0, rows));
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer out,
                            layer.arena_->Allocate(static_cast<uint64_t>(bytes)));
    layer.buffers_.push_back(out.ptr);
    return layer;
  }

  // Microseconds of each kernel of the plan, then of all together.
  absl::StatusOr<std::vector<double>> Times(const LoadedPlanPtr& plan) {
    if (plan->plan.workspace_bytes > workspace_.bytes) {
      SINTER_ASSIGN_OR_RETURN(workspace_, arena_->Allocate(plan->plan.workspace_bytes));
    }
    SINTER_RETURN_IF_ERROR(ports_.measurer->RunAndWait([&](StreamHandle stream) {
      return ClearHeader(plan->plan, *ports_.loader, workspace_.ptr, stream);
    }));
    SINTER_ASSIGN_OR_RETURN(const auto bound, BindPlan(plan, buffers_, workspace_.ptr));
    SINTER_RETURN_IF_ERROR(ports_.measurer->RunAndWait(
        [&](StreamHandle stream) { return EnqueuePlan(*bound, stream, rows_, false); }));
    std::vector<double> times;
    for (size_t i = 0; i <= plan->kernels.size(); ++i) {
      const GraphCalls calls = {[&](StreamHandle stream, int) {
        if (i == plan->kernels.size()) return EnqueuePlan(*bound, stream, rows_, true);
        return plan->kernels[i]->loaded->Launch(*bound->kernels[i], stream, rows_, 0, true);
      }};
      SINTER_ASSIGN_OR_RETURN(const double us, ports_.measurer->TimeGraph(calls, kCalls, kReplays));
      times.push_back(us);
    }
    return times;
  }

 private:
  Layer(const Ports& ports, std::shared_ptr<const Chain> chain, int64_t rows)
      : ports_(ports),
        chain_(std::move(chain)),
        rows_(rows),
        arena_(std::make_unique<DeviceArena>(ports.measurer.get())) {}
  int InputOf(const std::string& name) const {
    for (int i = 0; i < chain_->num_inputs(); ++i) {
      if (chain_->InputName(chain_->InputOrder()[static_cast<size_t>(i)]) == name) return i;
    }
    return 0;
  }

  const Ports& ports_;
  std::shared_ptr<const Chain> chain_;
  int64_t rows_;
  std::unique_ptr<DeviceArena> arena_;
  std::vector<DevicePtr> buffers_;
  DeviceBuffer workspace_;
};

// The plan with its i-th kernel, a grouped product, of this form on a grid of its own.
absl::Status Reschedule(const DeviceModel& model, GroupedSchedule schedule, PlannedKernel* kernel) {
  auto own = std::make_shared<GroupedSpec>(GroupedKernels::Of(kernel->spec));
  const int blocks = schedule.ClusterBlocks();
  schedule.grid = schedule.swapped > 0 ? model.ResidentBlocks(blocks) / blocks * blocks
                                       : model.sm_count * BlocksPerSm(own->code.problem, schedule);
  SINTER_RETURN_IF_ERROR(CheckSchedule(own->code.problem, schedule, model));
  own->code.schedule = schedule;
  kernel->spec.body = MakeBody(std::move(*own));
  return absl::OkStatus();
}

absl::Status Run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 3) return absl::InvalidArgumentError("ROWS uniform|zipf LINE [FORM ..]");
  int64_t rows = 0;
  if (!absl::SimpleAtoi(arguments[0], &rows)) return absl::InvalidArgumentError(arguments[0]);
  SINTER_ASSIGN_OR_RETURN(Config config, ConfigFromEnvironment());
  absl::StatusOr<Ports> opened = MakePorts(config, 0, "", LogSink());
  const bool measures = opened.ok();
  if (!measures) opened = MakePorts(config, 0, "h200", LogSink());
  SINTER_RETURN_IF_ERROR(opened.status());
  const Ports& ports = *opened;
  SINTER_ASSIGN_OR_RETURN(const Problem problem, ParseProblem(arguments[2]));
  SINTER_ASSIGN_OR_RETURN(const auto form,
                          NormalFormOf(std::make_shared<const Chain>(problem.chain)));
  const std::shared_ptr<const Chain> chain = form->chain;
  SINTER_ASSIGN_OR_RETURN(const FusionResult planned, PlanChain(*chain, rows, ports.model, {}));
  const Plan& chosen = planned.chosen;

  std::vector<GroupedSchedule> forms;
  for (size_t i = 3; i < arguments.size(); ++i) {
    SINTER_ASSIGN_OR_RETURN(const GroupedSchedule one, FormOf(arguments[i]));
    forms.push_back(one);
  }
  for (const PlannedKernel& kernel : chosen.kernels) {
    if (!IsGrouped(kernel) || arguments.size() > 3) continue;
    for (RankedGrouped& one :
         SearchGrouped(GroupedKernels::Of(kernel.spec).code.problem, rows, ports.model, false)) {
      one.schedule.grid = 1;
      const bool held = std::find(forms.begin(), forms.end(), one.schedule) != forms.end();
      if (one.schedule.Threads() != 128 && !held) forms.push_back(one.schedule);
    }
  }
  std::vector<Plan> plans = {chosen};
  std::vector<std::string> names = {"chosen"};
  for (const GroupedSchedule& schedule : forms) {
    Plan plan = chosen;
    absl::Status legal;
    for (PlannedKernel& kernel : plan.kernels) {
      if (IsGrouped(kernel)) legal.Update(Reschedule(ports.model, schedule, &kernel));
    }
    if (!legal.ok()) continue;
    plans.push_back(std::move(plan));
    names.push_back(schedule.ToString(false));
  }
  std::printf("%s rows=%lld %s: us (predicted)\n", arguments[2].c_str(),
              static_cast<long long>(rows), arguments[1].c_str());
  const auto print = [&](size_t i, const std::vector<double>& times) {
    std::printf("%-24s", names[i].c_str());
    for (size_t k = 0; k < plans[i].kernels.size(); ++k) {
      const PlannedKernel& kernel = plans[i].kernels[k];
      const auto predicted = kernel.spec.family->Predict(kernel.spec, rows, ports.model);
      std::printf("  %s %.1f (%.1f)", IsGrouped(kernel) ? "grouped" : "other", times[k],
                  predicted.ok() ? predicted->total_us : 0.0);
      if (i == 0 && IsGrouped(kernel)) {
        std::printf(" [%s]", GroupedKernels::Of(kernel.spec).code.schedule.ToString(false).c_str());
      }
    }
    std::printf("  all %.1f\n", times.back());
    std::fflush(stdout);
  };
  if (!measures) {
    for (size_t i = 0; i < plans.size(); ++i) {
      print(i, std::vector<double>(plans[i].kernels.size() + 1));
    }
    return absl::OkStatus();
  }
  SINTER_ASSIGN_OR_RETURN(Layer layer, Layer::Make(ports, chain, rows, arguments[1] == "zipf"));
  const auto built = gpu_testing::BuildPlans(ports, chain, plans);
  for (size_t i = 0; i < built.size(); ++i) {
    if (built[i].ok()) {
      SINTER_ASSIGN_OR_RETURN(const std::vector<double> times, layer.Times(*built[i]));
      print(i, times);
    } else {
      std::printf("%-24s %s\n", names[i].c_str(),
                  std::string(built[i].status().message()).substr(0, 100).c_str());
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace sinter::bench

int main(int argc, char** argv) {
  const absl::Status status =
      sinter::bench::Run(std::vector<std::string>(argv + 1, argv + std::max(1, argc)));
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return sinter::bench::kBadArgument;
}
