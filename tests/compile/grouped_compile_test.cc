// Kernels of grouped products through the real NVRTC for sm_90a: every form of tiles, of products
// that planning finds in mixtures of experts, also as test builds have them. The compiler port
// refuses a kernel that spills or draws a C75xx remark; here none may.
#include "src/base/ports.h"
#include "src/fusion/fusion.h"
#include "src/normal/normal_form.h"
#include "src/plan/grouped_family.h"
#include "tests/compile/compile_jobs.h"
#include "tests/support/grouped_ends.h"

namespace sinter {
namespace {

const GroupedSchedule kWarpDots{0, 1, 0, 2};

// Adds the chain's grouped GEMMs in each of the forms that takes them.
void AddJobs(const Chain& chain, const std::vector<GroupedSchedule>& forms,
             const DeviceModel& model, std::vector<CompileJob>* jobs) {
  const auto form = Got(NormalFormOf(std::make_shared<const Chain>(chain)));
  const auto result = Got(PlanChain(*form->chain, 4096, model, {}));
  std::vector<KernelSpec> specs;
  for (const PlannedKernel& kernel : result.chosen.kernels) {
    if (kernel.spec.family != &GroupedFamily()) continue;
    specs.push_back(kernel.spec);
    GroupedSpec apart = GroupedKernels::Of(kernel.spec);
    if (!apart.code.problem.quantizer.present) continue;
    apart.code.problem.quantizer = {};  // as where a stitched kernel quantises
    apart.code.problem.result = DType::kF32;
    apart.code.problem.program.for_codes = false;
    apart.places.erase(apart.places.end() - 2);
    specs.push_back(kernel.spec);
    specs.back().body = MakeBody(std::move(apart));
  }
  for (const KernelSpec& spec : specs) {
    for (const GroupedSchedule& schedule : forms) {
      auto own = std::make_shared<GroupedSpec>(GroupedKernels::Of(spec));
      own->code.schedule = schedule;
      if (!CheckSchedule(own->code.problem, schedule, model).ok()) continue;
      CompileJob job{absl::StrCat(own->code.problem.ToString(), ", ", schedule.ToString(false)),
                     spec, CodegenOptions()};
      job.spec.body = MakeBody(std::move(*own));
      jobs->push_back(job);
      job.name += " with pauses";
      job.options.jitter = true;
      if (schedule.swapped == 2) jobs->push_back(job);
    }
  }
}

const std::vector<GroupedSchedule>& AllForms() {
  static const auto* const forms = new std::vector<GroupedSchedule>{{64, 64, 5, 2},
                                                                    {64, 128, 4, 2},
                                                                    {64, 256, 4, 2},
                                                                    {128, 64, 4, 2},
                                                                    {128, 128, 4, 2},
                                                                    {128, 256, 4, 2},
                                                                    {128, 256, 4, 2, 2},
                                                                    {128, 256, 4, 2, 1},
                                                                    {64, 256, 5, 2, 2},
                                                                    {64, 256, 5, 2, 1},
                                                                    kWarpDots};
  return *forms;
}

TEST(GroupedCompile, EveryFormOfTilesDoesNotSpill) {
  const DeviceModel model = *BuiltinModel("h200");
  const std::vector<GroupedSchedule>& forms = AllForms();
  std::vector<CompileJob> jobs;
  for (const char* line :
       {"grouped_gated_ffn m=M experts=4 top=1 n=128 k=128 l=256 act=silu",
        "grouped_gated_ffn m=M experts=512 top=10 n=512 k=2048 l=2048 act=silu",
        "grouped_gated_ffn m=M experts=128 top=8 n=768 k=2048 l=2048 act=silu",
        "grouped_gated_ffn m=M experts=5 top=3 n=208 k=200 l=272 act=gelu_erf order=up_gate "
        "dtype=f16",
        "grouped_gated_ffn m=M experts=160 top=8 n=192 k=5120 l=5120 act=silu",
        "grouped_gated_ffn m=M experts=1024 top=32 n=64 k=64 l=64 act=silu layout=io",
        "grouped_matmul_ends m=M experts=128 n=1536 k=2048",
        "grouped_matmul_ends m=M experts=1024 n=64 k=72 layout=io dtype=f16",
        "grouped_gated_ffn m=M experts=32 top=4 n=2880 k=2880 l=2880 act=silu order=interleaved "
        "alpha=1.702 beta=1 limit=7 bias1=1 bias2=1",
        "scaled_grouped_gated_ffn m=M experts=256 top=8 n=256 k=7168 l=7168 act=silu scales=group "
        "quantize=group",
        "scaled_grouped_gated_ffn m=M experts=5 top=3 n=208 k=400 l=272 act=silu scales=row "
        "order=interleaved"}) {
    AddJobs(ParseProblem(line)->chain, forms, model, &jobs);
    if (HasFatalFailure()) return;
  }
  ExpectCompile(jobs, model);
}

TEST(GroupedCompile, AnyEndDoesNotSpill) {
  const DeviceModel model = *BuiltinModel("h200");
  std::vector<CompileJob> jobs;
  for (const testing::GroupedEndCase& one : testing::GroupedEndCases()) {
    AddJobs(one.Make(16, 2, 768, 1024), AllForms(), model, &jobs);
    if (HasFatalFailure()) return;
  }
  ExpectCompile(jobs, model);
}

// Registers of dots of warps follow from the batches of K.
TEST(GroupedCompile, WarpsOfAnyKDoNotSpill) {
  const DeviceModel model = *BuiltinModel("h200");
  std::vector<CompileJob> jobs;
  for (const int k : {128, 256, 768, 1024, 1152, 1280, 2048, 2880, 3584, 4096, 7168, 18432}) {
    std::vector<std::string> lines = {
        absl::StrCat("grouped_matmul n=1000 k=", k),
        absl::StrCat("grouped_gated_ffn n=", k, " k=", k, " l=", k,
                     " act=silu order=interleaved alpha=1.702 beta=1 limit=7 bias1=1 bias2=1"),
        absl::StrCat("scaled_grouped_gated_ffn n=256 l=128 act=silu scales=row k=", k)};
    if (k % 128 == 0) {
      lines.push_back(
          absl::StrCat("scaled_grouped_gated_ffn n=256 l=128 act=silu scales=group k=", k));
    }
    for (const std::string& line : lines) {
      AddJobs(ParseProblem(absl::StrCat(line, " m=M experts=16 top=4"))->chain, {kWarpDots}, model,
              &jobs);
      if (HasFatalFailure()) return;
    }
  }
  ExpectCompile(jobs, model);
}

}  // namespace
}  // namespace sinter
