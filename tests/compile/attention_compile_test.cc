// Kernels of attention through the real NVRTC for sm_90a: the four that planning offers first, of
// every spelling. The compiler port refuses a kernel that spills or draws a C75xx remark; here none
// may.
#include "src/attention/attention.h"
#include "src/normal/normal_form.h"
#include "src/plan/attention_family.h"
#include "tests/compile/compile_jobs.h"
#include "tests/support/attention_chains.h"

namespace sinter {
namespace {

KernelSpec SpecOf(const AttentionProblem& problem, const AttentionSchedule& schedule) {
  auto own = std::make_shared<AttentionSpec>();
  own->code = {problem, schedule};
  for (int i = 0; i < 4 + problem.Terms(); ++i) own->places.push_back({i, 0});
  return KernelSpec{.family = &AttentionFamily(), .body = MakeBody(std::move(*own))};
}

TEST(AttentionCompile, FirstSchedulesDoNotSpill) {
  const DeviceModel model = *BuiltinModel("h200");
  std::vector<CompileJob> jobs;
  std::set<std::string> sources;
  std::vector<testing::AttentionForm> forms = testing::AttentionForms();
  for (const testing::AttentionForm& form : testing::AttentionForms("compiled")) {
    forms.push_back(form);
  }
  for (const testing::AttentionForm& form : forms) {
    const auto normal = *NormalFormOf(std::make_shared<const Chain>(testing::MakeAttention(form)));
    const AttentionProblem problem = FindAttention(*normal->chain).at(0).problem;
    const auto ranked = Got(RankAttention(problem, 8, model, 4, true), form.Name());
    for (const RankedAttention& one : ranked) {
      const KernelSpec spec = SpecOf(problem, one.schedule);
      const auto generated = Got(Generate(spec, model), form.Name());
      if (!sources.insert(generated.request.source).second) continue;
      jobs.push_back({absl::StrCat(form.Name(), " ", one.schedule.ToString()), spec, {}});
    }
  }
  // Strides that 32 bits do not hold.
  const testing::AttentionForm far = testing::ReadAttentionForm("2x3 49x49 32 of_heads");
  const auto normal = *NormalFormOf(std::make_shared<const Chain>(testing::MakeAttention(far)));
  AttentionProblem problem = FindAttention(*normal->chain).at(0).problem;
  for (BatchedMatrix& term : problem.terms) {
    term.row = int64_t{1} << 33, term.column = int64_t{1} << 32;
  }
  ASSERT_TRUE(problem.Check().ok()) << problem.Check();
  jobs.push_back({"far terms",
                  SpecOf(problem, RankAttention(problem, 1, model, 1, true)->at(0).schedule),
                  {}});
  ExpectCompile(jobs, model);
}

}  // namespace
}  // namespace sinter
