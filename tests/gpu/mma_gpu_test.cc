// Products by mma.sync as planned for chips without wgmma, as PTX that the driver translates for
// this one: drawn FFNs of every type and layout, programs, codes of 8 bits, against the float64
// reference with poisoned outputs.
#include "src/normal/normal_form.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/other_chip.h"
#include "tests/support/epilogue_chains.h"

namespace sinter::gpu_testing::mma {
namespace {

constexpr size_t kPlans = 3;  // of each chain
constexpr int kDrawn = 40;

class MmaProducts : public ::testing::Test {
 protected:
  void SetUp() override {
    ports_[0] = Got(PortsOfPtx(TestConfig(), *BuiltinModel("a100"), "compute_80"));
    ports_[1] = Got(PortsOfPtx(TestConfig(), *BuiltinModel("rtx-4090"), "compute_89"));
  }

  // `rows` at most; with fewer too.
  void Expect(const Ports& ports, const Chain& of, int64_t rows) {
    const auto chain = Got(NormalFormOf(std::make_shared<const Chain>(of)))->chain;
    const FusionResult result = Got(PlanChain(*chain, BucketOf(*chain, rows), ports.model, {}));
    std::vector<Plan> plans = {result.chosen};
    const size_t others = result.alternatives.size();
    for (size_t i = 1; i < kPlans && others > 0; ++i) {  // evenly among them
      plans.push_back(result.alternatives[(others - 1) * i / (kPlans - 1)]);
    }
    const auto built = BuildPlans(ports, chain, plans);
    const auto data = Got(DeviceChain::Make(ports, *chain, rows, 7));
    for (size_t i = 0; i < plans.size(); ++i) {
      SCOPED_TRACE(plans[i].ToText());
      ASSERT_OK(built[i]);
      const auto run = Got(data->Bind(*built[i]));
      for (const int64_t m : {rows, rows / 2 + 1, int64_t{1}}) {
        ASSERT_OK(data->Check(Got(data->Run(run, m)), m)) << "m " << m;
      }
      ++ran_;
    }
  }
  void TearDown() override { std::printf("%d plans ran\n", ran_); }

  const Ports& a100() const { return ports_[0]; }
  const Ports& rtx4090() const { return ports_[1]; }

 private:
  Ports ports_[2];
  int ran_ = 0;
};

TEST_F(MmaProducts, DrawnFfnsEqualTheReference) {
  std::mt19937_64 rng(60);
  const auto below = [&](int64_t end) {
    return static_cast<int64_t>(rng() % static_cast<uint64_t>(end));
  };
  for (int i = 0; i < kDrawn; ++i) {
    FfnSpec spec;
    spec.gated = below(2) == 0;
    spec.products = below(2) == 0 ? 1 : 2;
    spec.dtype = below(3) == 0 ? DType::kF16 : DType::kBF16;
    spec.layout = below(2) == 0 ? Layout::kIO : Layout::kOI;
    // Rows of weights are whole 16 bytes: n and l too where they are contiguous.
    const bool ragged = spec.layout == Layout::kOI && spec.products == 1;
    spec.k = 8 * (1 + below(160));
    spec.n = ragged ? 1 + below(700) : 8 * (1 + below(90));
    spec.l = spec.layout == Layout::kOI ? 1 + below(500) : 8 * (1 + below(60));
    spec.act = static_cast<Activation>(below(5));
    spec.bias1 = below(2) == 0;
    spec.bias2 = below(2) == 0 && spec.products == 2;
    spec.residual = below(3) == 0;
    spec.factor1 = below(4) == 0;
    const int64_t rows = int64_t{1} << below(10) | below(64);
    SCOPED_TRACE(absl::StrCat(i, ": ", NameOf(spec), " rows ", rows));
    ASSERT_NO_FATAL_FAILURE(Expect(i % 2 == 0 ? a100() : rtx4090(), Got(MakeFfnChain(spec)), rows));
  }
}

TEST_F(MmaProducts, LargeSizesEqualTheReference) {
  for (const char* line :
       {"matmul m=M n=1024 k=1024 act=silu bias1=1", "gated_ffn m=M n=768 k=512 l=520 act=silu",
        "matmul m=M n=1032 k=520 layout=io dtype=f16"}) {
    SCOPED_TRACE(line);
    const Chain chain = ParseProblem(line)->chain;
    for (const int64_t rows : {2000, 500}) {
      ASSERT_NO_FATAL_FAILURE(Expect(a100(), chain, rows));
    }
  }
}

TEST_F(MmaProducts, ProgramsEqualTheReference) {
  constexpr testing::EpilogueSizes kSizes = {264, 136, 120}, kRagged = {131, 136, 67};
  std::vector<testing::EpilogueChain> chains =
      testing::ProductEpilogues({DType::kBF16, DType::kF32, DType::kBF16}, kRagged);
  const auto add = [&](std::vector<testing::EpilogueChain> more) {
    std::move(more.begin(), more.end(), std::back_inserter(chains));
  };
  add(testing::PairEpilogues({DType::kF16, DType::kF32, DType::kF32}, kSizes));
  for (const testing::EpilogueChain& c : chains) {
    SCOPED_TRACE(c.name);
    ASSERT_NO_FATAL_FAILURE(Expect(rtx4090(), c.chain, 75));
  }
}

TEST_F(MmaProducts, ProductsOfCodesEqualTheReference) {
  for (const char* codes : {"e4m3", "s8"}) {
    for (const char* rest : {"scales=row", "scales=tensor dtype=f16 act=silu bias1=1",
                             "scales=row dtype=f32 act=gelu_tanh"}) {
      for (const char* sizes : {"n=203 k=1296", "n=512 k=2048"}) {
        const std::string line =
            absl::StrCat("scaled_matmul m=M ", sizes, " codes=", codes, " ", rest);
        SCOPED_TRACE(line);
        ASSERT_NO_FATAL_FAILURE(Expect(rtx4090(), ParseProblem(line)->chain, 130));
      }
    }
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::mma
