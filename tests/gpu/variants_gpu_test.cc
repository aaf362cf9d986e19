// Every dtype, activation, layout and bias; ragged sizes; rows with gaps between them.
#include "tests/gpu/gpu_tests.h"

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
      const auto data = Got(DeviceChain::Make(ports(), *jobs[i].chain, m, 11 + i));
      ExpectCorrect(*data, *plans[i], m, 3);
    }
  }

  void ExpectSpecs(const std::vector<FfnSpec>& specs, int64_t m) {
    std::vector<Chain> chains;
    std::vector<std::string> names;
    for (const FfnSpec& spec : specs) {
      Chain chain = Got(MakeFfnChain(spec), NameOf(spec));
      chains.push_back(std::move(chain));
      names.push_back(NameOf(spec));
    }
    Check(chains, names, m);
  }
};

std::vector<FfnSpec> AllActivations(DType dtype) {
  std::vector<FfnSpec> specs;
  for (Activation act : kActivations) {
    for (bool gated : {false, true}) {
      for (Layout layout : {Layout::kOI, Layout::kIO}) {
        specs.push_back({.gated = gated,
                         .n = 384,
                         .k = 256,
                         .l = 192,
                         .act = act,
                         .layout = layout,
                         .dtype = dtype,
                         .bias1 = gated != (layout == Layout::kOI),
                         .bias2 = !gated});
      }
    }
  }
  return specs;
}

TEST_F(Variants, EveryActivationInBFloat16) { ExpectSpecs(AllActivations(DType::kBF16), 96); }
TEST_F(Variants, EveryActivationInFloat16) { ExpectSpecs(AllActivations(DType::kF16), 96); }

TEST_F(Variants, BiasesOnAndOff) {
  std::vector<FfnSpec> specs;
  for (int mask = 0; mask < 8; ++mask) {
    FfnSpec spec;
    spec.gated = (mask & 4) != 0;
    spec.bias1 = (mask & 1) != 0;
    spec.bias2 = (mask & 2) != 0;
    spec.act = Activation::kSilu;
    spec.n = 520;
    spec.k = 264;
    spec.l = 100;
    specs.push_back(spec);
  }
  ExpectSpecs(specs, 40);
}

TEST_F(Variants, RaggedSizes) {
  struct Size {
    int64_t n, k, l;
  };
  std::vector<FfnSpec> specs;
  for (const Size& s : {Size{8, 8, 1}, Size{200, 72, 37}, Size{1000, 120, 77}, Size{264, 1032, 255},
                        Size{72, 40, 1001}, Size{2056, 520, 517}}) {
    FfnSpec spec{.n = s.n, .k = s.k, .l = s.l, .act = Activation::kRelu};
    specs.push_back(spec);
    spec.gated = true;
    specs.push_back(spec);
    spec.layout = Layout::kIO;
    spec.l = (s.l + 7) / 8 * 8;
    specs.push_back(spec);
  }
  ExpectSpecs(specs, 77);
}

TEST_F(Variants, ResidualsOnRaggedSizes) {
  std::vector<FfnSpec> specs;
  for (int mask = 0; mask < 16; ++mask) {
    FfnSpec spec;
    spec.residual = true;
    spec.rounds_sum = (mask & 1) != 0;
    spec.gated = (mask & 2) != 0;
    spec.layout = (mask & 4) != 0 ? Layout::kIO : Layout::kOI;
    spec.dtype = (mask & 8) != 0 ? DType::kF16 : DType::kBF16;
    spec.act = Activation::kSilu;
    spec.bias2 = spec.gated;
    spec.n = 520;
    spec.k = 264;
    spec.l = spec.layout == Layout::kIO ? 136 : 77 + mask;
    specs.push_back(spec);
  }
  ExpectSpecs(specs, 77);
}

TEST_F(Variants, OneProduct) {
  std::vector<Chain> chains;
  for (bool gated : {false, true}) {
    Chain chain = Got(MakeFfnChain({.gated = gated,
                                    .products = 1,
                                    .n = gated ? 328 : 331,
                                    .k = 136,
                                    .act = Activation::kGeluTanh,
                                    .bias1 = true}));
    chains.push_back(std::move(chain));
  }
  for (const Chain& chain : chains) {
    const auto plan =
        Got(engine()->Prepare(chain, 100, {.choice = PrepareOptions::Choice::kUnfused}));
    const auto data = Got(DeviceChain::Make(ports(), chain, 100, 3));
    ExpectCorrect(*data, plan, 100, 3);
  }
}

// Rows of every tensor stand further apart than they are long.
absl::StatusOr<Chain> StridedChain(Layout layout) {
  const int64_t n = 256, k = 128, l = 136;
  ChainBuilder b;
  const auto input = [&](Dim rows, int64_t columns, int64_t stride, bool constant) {
    return b.Input({DType::kBF16, {rows, Dim::Constant(columns)}},
                   {.constant = constant, .strides = {{stride, 0}, {1, 0}}});
  };
  const bool oi = layout == Layout::kOI;
  GatedFfnOperands in;
  SINTER_ASSIGN_OR_RETURN(in.a, input(Dim::M(), k, k + 24, false));
  SINTER_ASSIGN_OR_RETURN(in.w_gate, input(Dim::Constant(oi ? n : k), oi ? k : n, 320, true));
  SINTER_ASSIGN_OR_RETURN(in.w_up, input(Dim::Constant(oi ? n : k), oi ? k : n, 264, true));
  SINTER_ASSIGN_OR_RETURN(in.w_down, input(Dim::Constant(oi ? l : n), oi ? n : l, 280, true));
  SINTER_ASSIGN_OR_RETURN(const ValueId out, AddGatedFfn(b, in, Activation::kSilu, layout));
  SINTER_RETURN_IF_ERROR(b.Output(out, {.strides = {{l + 16, 0}, {1, 0}}}));
  return b.Finish();
}

TEST_F(Variants, RowsWithGaps) {
  std::vector<Chain> chains;
  for (Layout layout : {Layout::kOI, Layout::kIO}) {
    Chain chain = Got(StridedChain(layout));
    chains.push_back(std::move(chain));
  }
  Check(chains, {"oi", "io"}, 50);
}

}  // namespace
}  // namespace sinter::gpu_testing::variants
