// Source and recipe of fixed kernels of the stitch family, byte for byte: every composition, with
// what is kept, held and handed over, whatever search would choose.
#include "src/chain/problem.h"
#include "src/fusion/fusion.h"
#include "tests/golden/codegen/kernel_text.h"
#include "tests/support/files.h"
#include "tests/support/named_graphs.h"
#include "tests/support/random_stitch_graph.h"
#include "tests/support/stitch_schedules.h"

namespace sinter {
namespace {

Chain ChainOf(const std::string& text) {
  if (absl::StartsWith(text, "random ")) {
    return testing::MakeRandomStitchGraph(std::stoi(text.substr(7)));
  }
  if (absl::StrContains(text, "(")) return testing::GraphOf(text);
  return Got(ParseProblem(text), text).chain;
}

KernelSpec SpecOf(const Chain& body, const StitchSchedule& schedule) {
  auto stitch = std::make_shared<StitchSpec>();
  stitch->body = body;
  stitch->schedule = schedule;
  for (int i = 0; i < body.num_inputs() + body.num_outputs(); ++i) {
    stitch->operands.push_back({i, 0});
  }
  stitch->scratch_offset = kWorkspaceFlagBytes;
  KernelSpec spec;
  spec.family = &StitchFamily();
  spec.body = MakeBody(std::move(*stitch));
  return spec;
}

TEST(StitchGolden, EveryComposition) {
  for (const std::string& line : LinesOf("tests/golden/codegen/stitch_samples.txt")) {
    const std::vector<std::string> parts = absl::StrSplit(line, "; ");
    ASSERT_EQ(parts.size(), 4u) << line;
    const StitchSchedule schedule = testing::ScheduleOf(std::stoi(parts[2]), parts[3]);
    ExpectGoldenKernel("stitch/" + parts[0], SpecOf(ChainOf(parts[1]), schedule));
  }
}

// What packs is the plan's choice: parts have schedules of their own.
TEST(StitchGolden, PackedKernels) {
  const std::pair<const char*, Chain> graphs[] = {
      {"updates", testing::IndependentUpdates(std::vector<int64_t>(80, 12288))},
      {"rows", testing::IndependentRows({{900, 768}, {64, 4096}, {300, 74}}, 100000)}};
  for (const auto& [name, graph] : graphs) {
    const auto planned = Got(PlanChain(graph, 1, *BuiltinModel("h200"), {}), name);
    ASSERT_EQ(planned.chosen.kernels.size(), 1u) << name;
    const KernelSpec& spec = planned.chosen.kernels[0].spec;
    ASSERT_FALSE(StitchOf(spec)->parts.empty()) << name;
    ExpectGoldenKernel(std::string("stitch/packed-") + name, spec);
  }
}

}  // namespace
}  // namespace sinter
