// Programs in the epilogue: schedules over the whole space of a product, rows that end anywhere,
// auxiliary results, all against the float64 reference with poisoned outputs; NaN stays NaN.
#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/stitch_runs.h"
#include "tests/support/epilogue_chains.h"

namespace sinter::gpu_testing::programs {
namespace {

using testing::EpilogueChain;

constexpr int64_t kRows = 200;  // no multiple of any tile
constexpr int64_t kSomeRows[] = {200, 129, 8, 1};

class Programs : public GpuTest {
 protected:
  // `count` schedules of a dataflow for each chain.
  static void RunAll(const std::vector<EpilogueChain>& chains, Dataflow dataflow, size_t count,
                     bool jitter = false) {
    size_t ran = 0;
    for (const EpilogueChain& c : chains) {
      SCOPED_TRACE(c.name);
      HandPlans hand{std::make_shared<const Chain>(c.chain), {}, kRows, 31};
      hand.plans = SpreadPlans(c.chain, BucketOf(kRows), ports().model, dataflow, count);
      hand.options.codegen.jitter = hand.may_be_refused = jitter;
      const auto run = [](DeviceChain& data, const LoadedPlanPtr& plan) {
        ExpectRows(data, plan, kSomeRows);
      };
      ran += RunPlans(hand, run).ran;
    }
    std::printf("%zu schedules ran\n", ran);
    EXPECT_GT(ran, 0u);
  }
};

constexpr testing::EpilogueSizes kSizes = {264, 136, 120};
constexpr testing::EpilogueSizes kRagged = {131, 136, 67};

TEST_F(Programs, Products) {
  RunAll(testing::ProductEpilogues({DType::kBF16, DType::kBF16, DType::kBF16}, kSizes),
         Dataflow::kProduct, 6);
}
TEST_F(Programs, ProductsWithBiasesOfF32) {
  RunAll(testing::ProductEpilogues({DType::kF16, DType::kF32, DType::kF16}, kRagged),
         Dataflow::kProduct, 4);
}
TEST_F(Programs, ResultsOfF32) {
  RunAll(testing::ProductEpilogues({DType::kBF16, DType::kF32, DType::kF32}, kSizes),
         Dataflow::kProduct, 4);
}
TEST_F(Programs, ProductsWithPauses) {
  RunAll(testing::ProductEpilogues({DType::kBF16, DType::kF32, DType::kBF16}, kSizes),
         Dataflow::kProduct, 2, true);
}
TEST_F(Programs, PairsAlone) {
  RunAll(testing::PairEpilogues({DType::kBF16, DType::kF32, DType::kBF16}, kSizes),
         Dataflow::kProduct, 4);
}
TEST_F(Programs, ConvolutionsAndProductsOfCodes) {
  RunAll(testing::OtherEpilogues(), Dataflow::kProduct, 6);
}
TEST_F(Programs, GridExchange) {
  RunAll(testing::FusedEpilogues({DType::kBF16, DType::kBF16, DType::kBF16}, kSizes),
         Dataflow::kGridExchange, 4);
}
TEST_F(Programs, ClusterExchange) {
  RunAll(testing::FusedEpilogues({DType::kF16, DType::kF32, DType::kF16}, kSizes),
         Dataflow::kClusterExchange, 4);
}

// Matrices of f32 with operands of 16 bits and of 8, and matrices of 16 bits with results of f32.
TEST_F(Programs, MatricesOfAnyElement) {
  for (const testing::EpilogueTypes& types : testing::kMatrixTypes) {
    RunAll(testing::MatrixEpilogues(types, kSizes), Dataflow::kProduct, 4);
  }
}
TEST_F(Programs, MatricesOfAnyElementOfRaggedColumns) {
  RunAll(testing::MatrixEpilogues(testing::kMatrixTypes[0], kRagged), Dataflow::kProduct, 4);
  RunAll(testing::MatrixEpilogues(testing::kMatrixTypes[1], kRagged), Dataflow::kProduct, 4);
}
TEST_F(Programs, MatricesOfF32BehindTwoProducts) {
  for (const Dataflow dataflow : {Dataflow::kGridExchange, Dataflow::kClusterExchange}) {
    RunAll(testing::FusedEpilogues(testing::kMatrixTypes[0], kSizes), dataflow, 3);
  }
}

// Numbers of rows, and plans for each: the chosen one and others that tuning would measure.
constexpr int64_t kAuxRows[] = {1, 37, 128, 300, 1000};
constexpr size_t kAuxPlans = 3;

void ExpectAux(const Ports& ports, const std::vector<EpilogueChain>& chains) {
  size_t ran = 0;
  for (const EpilogueChain& c : chains) {
    SCOPED_TRACE(c.name);
    std::vector<Plan> plans;
    std::vector<int64_t> rows;  // by plan
    for (const int64_t m : kAuxRows) {
      const auto planned =
          Got(PlanChain(c.chain, BucketOf(c.chain, m), ports.model, {.for_tuning = true}));
      EXPECT_EQ(planned.chosen.kernels.size(), 1u) << planned.chosen.ToText();
      plans.push_back(planned.chosen);
      for (size_t i = 0; i < planned.alternatives.size() && i + 1 < kAuxPlans; ++i) {
        plans.push_back(planned.alternatives[i]);
      }
      rows.resize(plans.size(), m);
    }
    const auto built = BuildPlans(ports, std::make_shared<const Chain>(c.chain), plans);
    for (size_t i = 0; i < plans.size(); ++i) {
      SCOPED_TRACE(absl::StrCat("m ", rows[i], " ", plans[i].ToText()));
      ASSERT_OK(built[i]);
      const bench::GraphCase graph{c.name, "", c.chain, rows[i]};
      EXPECT_OK(Got(StitchRuns::Make(ports, graph, 31))->Check(*built[i], 2));
      ++ran;
    }
  }
  std::printf("%zu plans ran\n", ran);
}

TEST_F(Programs, AuxiliaryResults) {
  ExpectAux(ports(), testing::AuxEpilogues({DType::kBF16, DType::kF32, DType::kBF16}, kSizes));
}
TEST_F(Programs, AuxiliaryResultsOfRaggedColumns) {
  ExpectAux(ports(), testing::AuxEpilogues({DType::kF16, DType::kF16, DType::kF16}, kRagged));
}
TEST_F(Programs, AuxiliaryResultsOfF32) {
  ExpectAux(ports(), testing::AuxEpilogues({DType::kBF16, DType::kF32, DType::kF32}, kSizes));
}
TEST_F(Programs, AuxiliaryResultsBesideMatricesOfF32) {
  ExpectAux(ports(), testing::AuxEpilogues(testing::kMatrixTypes[0], kSizes));
}
TEST_F(Programs, AuxiliaryResultsOfConvolutionsAndProductsOfCodes) {
  ExpectAux(ports(), testing::OtherEpilogues(true));
}

// A NaN in a row makes all of its results NaN, and no other row's.
TEST_F(Programs, KeepNan) {
  constexpr int64_t kM = 16;
  for (const EpilogueChain& c :
       testing::ProductEpilogues({DType::kBF16, DType::kBF16, DType::kBF16}, kSizes)) {
    SCOPED_TRACE(c.name);
    const auto data = Got(DeviceChain::Make(ports(), c.chain, kM, 37));
    const int rows = data->matched().rows;
    std::string bytes = data->inputs()[static_cast<size_t>(rows)];
    const uint16_t nan = 0x7FC0;
    std::memcpy(&bytes[2 * 3 * static_cast<size_t>(kSizes.k)], &nan, 2);  // of row 3
    ASSERT_OK(ports().measurer->Upload(data->input_buffer(rows), bytes.data(), bytes.size()));
    PrepareOptions options;
    const auto run = Got(data->Bind(Got(engine()->Prepare(c.chain, kM, options))));
    const auto output = Got(data->Run(run, kM));
    for (int64_t row = 0; row < kM; ++row) {
      for (int64_t column = 0; column < kSizes.n; ++column) {
        uint16_t bits = 0;
        std::memcpy(&bits, output.data() + 2 * (row * kSizes.n + column), 2);
        const bool is_nan = (bits & 0x7F80) == 0x7F80 && (bits & 0x7F) != 0;
        ASSERT_EQ(is_nan, row == 3) << "row " << row << " column " << column;
      }
    }
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::programs
