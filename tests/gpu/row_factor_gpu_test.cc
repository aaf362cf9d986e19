// Products that a constant and a number of each row multiply, in every dataflow: schedules over the
// whole space, rows that end anywhere, with residuals and without, with and without pauses, and
// launches that are looped over rows.
#include <vector>

#include "tests/gpu/sweep_test.h"

namespace sinter::gpu_testing {
namespace {

constexpr size_t kSchedules = 8, kPaused = 3;  // of each dataflow and chain

// Factors of either product or both, of either dtype; plain and gated, either layout, aligned and
// ragged columns, with bias, constant and residual.
std::vector<FfnSpec> Specs() {
  FfnSpec plain;
  plain.n = 776;
  plain.k = 328;
  plain.l = 523;
  plain.act = Activation::kRelu;
  plain.factor1 = plain.factor2 = true;
  plain.bias2 = true;
  FfnSpec gated = plain;
  gated.gated = true;
  gated.n = 520;
  gated.l = 264;
  gated.act = Activation::kSilu;
  gated.dtype = gated.factor_dtype = DType::kF16;
  gated.bias1 = true;
  gated.factor2 = false;
  gated.scale1 = 1.25;
  FfnSpec io = gated;
  io.layout = Layout::kIO;
  io.dtype = DType::kBF16;
  io.factor_dtype = DType::kF32;
  io.residual = true;
  FfnSpec second = plain;
  second.l = 1024;
  second.factor1 = false;
  second.factor_dtype = DType::kBF16;
  second.scale2 = -0.75;
  second.residual = second.rounds_sum = true;
  FfnSpec constants = gated;
  constants.factor1 = false;
  constants.scale2 = 3;
  return {plain, gated, io, second, constants};
}

class RowFactors : public SweepTest {
 protected:
  static void RunAll(Dataflow dataflow, bool jitter) {
    Sweep(Specs(), dataflow, jitter ? kPaused : kSchedules, jitter, 31, RunOne);
  }

  // Right at every number of rows, and the same bytes again.
  static void RunOne(DeviceChain& data, const LoadedPlanPtr& plan) {
    const auto bound = data.Bind(plan);
    ASSERT_OK(bound);
    for (int64_t m : kSomeRows) {
      const auto output = data.Run(*bound, m), again = data.Run(*bound, m);
      ASSERT_OK(output);
      ASSERT_OK(data.Check(*output, m));
      ASSERT_OK(again);
      ASSERT_TRUE(*output == *again) << "m " << m;
    }
  }
};

TEST_F(RowFactors, Products) { RunAll(Dataflow::kProduct, false); }
TEST_F(RowFactors, GridExchange) { RunAll(Dataflow::kGridExchange, false); }
TEST_F(RowFactors, ClusterExchange) { RunAll(Dataflow::kClusterExchange, false); }
TEST_F(RowFactors, TaskList) { RunAll(Dataflow::kTaskList, false); }
TEST_F(RowFactors, ProductsWithPauses) { RunAll(Dataflow::kProduct, true); }
TEST_F(RowFactors, GridExchangeWithPauses) { RunAll(Dataflow::kGridExchange, true); }
TEST_F(RowFactors, ClusterExchangeWithPauses) { RunAll(Dataflow::kClusterExchange, true); }

// The factors of a launch that is looped over rows move with them.
TEST_F(RowFactors, ManyRows) {
  constexpr int64_t kMany = 9000;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    FfnSpec spec;
    spec.gated = true;
    spec.act = Activation::kSilu;
    spec.n = 256;
    spec.k = 128;
    spec.l = 128;
    spec.factor1 = spec.factor2 = true;
    spec.factor_dtype = dtype;
    const Chain chain = MakeFfnChain(spec).value();
    const auto data = DeviceChain::Make(ports(), chain, kMany, 37);
    ASSERT_OK(data);
    for (const auto choice : {PrepareOptions::Choice::kUnfused, PrepareOptions::Choice::kFused}) {
      PrepareOptions options;
      options.choice = choice;
      const auto plan = engine()->Prepare(chain, kMany, options);
      ASSERT_OK(plan);
      ExpectCorrect(**data, *plan, kMany, 2);
      ExpectCorrect(**data, *plan, 8193, 1);
    }
  }
}

}  // namespace
}  // namespace sinter::gpu_testing
