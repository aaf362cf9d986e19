// Every dtype, activation, layout and bias; ragged sizes; rows with gaps between them.
#include "tests/gpu/gpu_tests.h"
#include "tests/support/read_chain.h"

namespace sinter::gpu_testing::variants {
namespace {

class Variants : public GpuTest {
 protected:
  // Both plans of every chain at `m` rows, kernels compiled at once.
  void Check(const std::vector<Chain>& chains, const std::vector<std::string>& names, int64_t m) {
    std::vector<PlanJob> jobs;
    for (const Chain& chain : chains) {
      jobs.push_back({&chain, m, PrepareOptions::Choice::kUnfused});
      jobs.push_back({&chain, m, PrepareOptions::Choice::kFused});
    }
    const std::vector<absl::StatusOr<PreparedPlanPtr>> plans = PrepareAll(engine(), jobs);
    for (size_t i = 0; i < jobs.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(names[i / 2], i % 2 == 0 ? " unfused" : " fused"));
      EXPECT_OK(plans[i]);
      if (!plans[i].ok()) continue;
      ExpectCorrect(*Got(DeviceChain::Make(ports(), *jobs[i].chain, m, 11 + i)), *plans[i], m, 3);
    }
  }

  void ExpectSpecs(const std::vector<FfnSpec>& specs, int64_t m) {
    std::vector<Chain> chains;
    std::vector<std::string> names;
    for (const FfnSpec& spec : specs) {
      chains.push_back(Got(MakeFfnChain(spec), NameOf(spec)));
      names.push_back(NameOf(spec));
    }
    Check(chains, names, m);
  }
};

// As far as the bits of `mask` say, the words of `bits` after `text`.
FfnSpec Masked(const std::string& text, int mask, const std::vector<const char*>& bits) {
  std::string all = text;
  for (size_t i = 0; i < bits.size(); ++i) {
    if ((mask >> i & 1) != 0) absl::StrAppend(&all, " ", bits[i]);
  }
  return ReadFfn(all);
}

std::vector<FfnSpec> AllActivations(const char* dtype) {
  std::vector<FfnSpec> specs;
  for (const Activation act : kActivations) {
    for (const char* form : {"bias1 bias2", "io bias2", "gated", "gated io bias1"}) {
      specs.push_back(ReadFfn(absl::StrCat("n384 k256 l192 ", NameOf(act), " ", dtype, " ", form)));
    }
  }
  return specs;
}

TEST_F(Variants, EveryActivationInBFloat16) { ExpectSpecs(AllActivations("bf16"), 96); }
TEST_F(Variants, EveryActivationInFloat16) { ExpectSpecs(AllActivations("f16"), 96); }

TEST_F(Variants, BiasesOnAndOff) {
  std::vector<FfnSpec> specs;
  for (int mask = 0; mask < 8; ++mask) {
    specs.push_back(Masked("n520 k264 l100 silu", mask, {"bias1", "bias2", "gated"}));
  }
  ExpectSpecs(specs, 40);
}

TEST_F(Variants, RaggedSizes) {
  std::vector<FfnSpec> specs;
  for (const auto& [nk, l, whole_l] : {std::tuple("n8 k8", " l1", " l8"),
                                       {"n200 k72", " l37", " l40"},
                                       {"n1000 k120", " l77", " l80"},
                                       {"n264 k1032", " l255", " l256"},
                                       {"n72 k40", " l1001", " l1008"},
                                       {"n2056 k520", " l517", " l520"}}) {
    const std::string sizes = absl::StrCat(nk, " relu");
    for (const FfnSpec& spec : ReadFfns({absl::StrCat(sizes, l), absl::StrCat(sizes, l, " gated"),
                                         absl::StrCat(sizes, whole_l, " gated io")})) {
      specs.push_back(spec);
    }
  }
  ExpectSpecs(specs, 77);
}

TEST_F(Variants, ResidualsOnRaggedSizes) {
  std::vector<FfnSpec> specs;
  for (int mask = 0; mask < 16; ++mask) {
    specs.push_back(
        Masked(absl::StrCat("n520 k264 silu residual l", (mask & 4) != 0 ? 136 : 77 + mask), mask,
               {"rounded", "gated bias2", "io", "f16"}));
  }
  ExpectSpecs(specs, 77);
}

TEST_F(Variants, OneProduct) {
  for (const char* ffn :
       {"single n331 k136 gelu_tanh bias1", "single gated n328 k136 gelu_tanh bias1"}) {
    const Chain chain = MakeFfnChain(ReadFfn(ffn)).value();
    const auto plan =
        Got(engine()->Prepare(chain, 100, {.choice = PrepareOptions::Choice::kUnfused}));
    ExpectCorrect(*Got(DeviceChain::Make(ports(), chain, 100, 3)), plan, 100, 3);
  }
}

// Rows of every tensor stand further apart than they are long.
constexpr char kStridedOi[] =
    "a: bf16[M,128] strides(152, 1); gate: const bf16[256,128] strides(320, 1);"
    "up: const bf16[256,128] strides(264, 1); down: const bf16[136,256] strides(280, 1); y = "
    "gated_ffn(a, gate, up, none, none, down, none, silu)";
constexpr char kStridedIo[] =
    "a: bf16[M,128] strides(152, 1); gate: const bf16[128,256] strides(320, 1);"
    "up: const bf16[128,256] strides(264, 1); down: const bf16[256,136] strides(280, 1); y = "
    "gated_ffn(a, gate, up, none, none, down, none, silu, layout=io)";

TEST_F(Variants, RowsWithGaps) {
  std::vector<Chain> chains;
  for (const char* text : {kStridedOi, kStridedIo}) {
    ChainReader r(text);
    r.Out(r["y"], {.strides = {{152, 0}, {1, 0}}});
    chains.push_back(r.Finish());
  }
  Check(chains, {"oi", "io"}, 50);
}

}  // namespace
}  // namespace sinter::gpu_testing::variants
