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
  for (const int64_t head : {32, 64, 96, 128}) {
    testing::AttentionForm form;
    form.batch = 16, form.heads = 12, form.rows = form.keys = 1500, form.head = head;
    forms.push_back(form);
    form.term = testing::AttentionForm::Term::kCausal;
    forms.push_back(form);
  }
  // Small heads in small layers, in one tile of keys and in several.
  for (const int64_t head : {8, 16, 32}) {
    for (const int64_t keys : {50, 197, 1000}) {
      testing::AttentionForm form;
      form.batch = 2, form.heads = 4, form.rows = form.keys = keys, form.head = head;
      forms.push_back(form);
      form.layout = testing::AttentionForm::Layout::kRowsFirst;
      form.term = keys == 197 ? testing::AttentionForm::Term::kOfHeads
                              : testing::AttentionForm::Term::kCausal;
      forms.push_back(form);
    }
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
  testing::AttentionForm far;
  far.batch = 2, far.heads = 3, far.rows = far.keys = 49, far.head = 32;
  far.term = testing::AttentionForm::Term::kOfHeads;
  const auto normal = *NormalFormOf(std::make_shared<const Chain>(testing::MakeAttention(far)));
  AttentionProblem problem = FindAttention(*normal->chain).at(0).problem;
  for (ScoreStep& step : problem.steps) {
    if (step.HasTerm()) step.term.row = int64_t{1} << 33, step.term.column = int64_t{1} << 32;
  }
  ASSERT_TRUE(problem.Check().ok()) << problem.Check();
  jobs.push_back({"far terms",
                  SpecOf(problem, RankAttention(problem, 1, model, 1, true)->at(0).schedule),
                  {}});
  ExpectCompile(jobs, model);
}

}  // namespace
}  // namespace sinter
