// Replays the corpus and seeded mutations of it through the fuzz target, so that every build runs
// some of it. SINTER_UPDATE_CORPUS=1 rewrites the corpus.
#include "src/base/codec.h"
#include "src/base/device_model.h"
#include "src/chain/problem.h"
#include "src/fusion/fusion.h"
#include "src/normal/normal_form.h"
#include "src/plan/kernel_code.h"
#include "src/plan/plan.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/test.h"

namespace sinter::canonical_fuzz {

int Target(const uint8_t* data, size_t size);

namespace {

constexpr char kCorpus[] = "tests/fuzz/canonical/corpus";  // the test runs in the root of the tree

const char* const kLines[] = {
    "gemm_chain m=64 n=256 k=128 l=128 act=relu layout=oi dtype=bf16",
    "gated_ffn m=16 n=256 k=128 l=128 act=silu layout=io dtype=f16",
    "residual_rmsnorm rows=M cols=64",
    "lstm_cell rows=M hidden=24",
    "conv b=M ic=64 h=8 w=8 oc=96 k=3 act=relu bias=1 residual=before",
    "scaled_gemm_chain m=16 n=256 k=384 l=160 act=relu scales=group quantize=group bias1=1",
    "rmsnorm_quantize rows=M cols=512 granularity=group",
    "scaled_matmul m=48 n=256 k=192 codes=s8",
    "grouped_gated_ffn m=M experts=5 top=3 n=64 k=64 l=64 act=silu",
    "scaled_grouped_gated_ffn m=M experts=5 top=3 n=256 k=256 l=256 act=silu",
    "grouped_matmul_ends m=M experts=5 n=64 k=64",
    "attention rows=M heads=2 queries=96 keys=128 dim=64",
    "attention rows=M heads=2 queries=128 keys=128 dim=64 mask=causal",
    "all_reduce rows=M cols=256 ranks=4",
};

void Write(const std::string& name, char reader, const std::string& bytes) {
  WriteSeed(absl::StrCat(kCorpus, "/", name), std::string(1, reader) + bytes);
}

// Each form of the plan's first kernel, and the plan.
void WriteForms(size_t i, Plan plan) {
  plan.runners_up.resize(std::min<size_t>(plan.runners_up.size(), 1));
  const KernelSpec& spec = plan.kernels[0].spec;
  const KernelCode code = *CodeOf(spec);
  ByteWriter both;
  both.Bytes(code.Bytes());
  both.Bytes(code.ScheduleBytes());
  // Other bodies have no form but the plan's and the code's.
  if (const auto* products = BodyAs<ProductBody>(spec.body)) {
    Write(absl::StrCat("schedule", i), 0, products->schedule.Canonical());
    Write(absl::StrCat("sequence", i), 2, products->sequence.Canonical());
  } else if (const StitchSpec* stitch = StitchOf(spec)) {
    Write(absl::StrCat("stitch", i), 1, stitch->schedule.Canonical());
  }
  const std::string bytes = EncodeDecisions(DecisionsOf(plan));
  Write(absl::StrCat("plan", i), 3, bytes);
  Write(absl::StrCat("plan", i, "_cut"), 3, bytes.substr(0, bytes.size() * 2 / 3));
  Write(absl::StrCat("code", i), 4, both.Take());
}

void WriteCorpus() {
  const DeviceModel model = *BuiltinModel("h200");
  for (size_t i = 0; i < std::size(kLines); ++i) {
    const auto given = std::make_shared<const Chain>(ParseProblem(kLines[i])->chain);
    WriteForms(i, PlanChain(*(*NormalFormOf(given))->chain, 16, model, {})->chosen);
  }
}

bool Accepted(const std::string& seed) {
  const absl::string_view bytes = absl::string_view(seed).substr(1);
  ByteReader r(bytes);
  switch (seed[0]) {
    case 0:
      return Schedule::FromCanonical(bytes).ok();
    case 1:
      return StitchSchedule::FromCanonical(bytes).ok();
    case 2:
      return ProductSequence::FromCanonical(bytes).ok();
    case 3:
      return DecodeDecisions(bytes).ok();
  }
  const absl::string_view code = r.Bytes(), schedule = r.Bytes();
  return r.ok() && ReadCode(code, schedule).ok();
}

TEST(CanonicalFuzzTest, TheCorpusAndMutationsAreHandled) {
  if (std::getenv("SINTER_UPDATE_CORPUS") != nullptr) WriteCorpus();
  const int files =
      ReplayCorpus(Target, kCorpus, 3000, 1, [&](const std::string& name, const std::string& seed) {
        const bool cut = name.find("_cut") != std::string::npos;
        EXPECT_EQ(Accepted(seed), !cut) << name;
      });
  EXPECT_GE(files, 50);
}

}  // namespace
}  // namespace sinter::canonical_fuzz
