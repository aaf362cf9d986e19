// Residuals in the epilogue of every dataflow: schedules over the whole space, rows that end
// anywhere, the result in a buffer of its own and in the residual's place, with and without pauses,
// and launches that are looped over rows.
#include "tests/gpu/sweep_test.h"
#include "tests/support/read_chain.h"

namespace sinter::gpu_testing::residual {
namespace {

constexpr size_t kSchedules = 10, kPaused = 3;  // of each dataflow and chain

// Plain and gated, either layout and dtype, aligned and ragged columns, rounded once and twice,
// sums activated and not.
std::vector<FfnSpec> Specs() {
  return ReadFfns({"n776 k328 l523 relu bias2 residual sum_silu",
                   "gated n520 k328 l264 silu f16 bias2 residual rounded",
                   "gated n520 k328 l264 silu io residual rounded sum_relu",
                   "n776 k328 l1024 relu bias2 residual rounded"});
}

class Residuals : public SweepTest {
 protected:
  static void RunAll(Dataflow dataflow, bool jitter) {
    Sweep(Specs(), dataflow, jitter ? kPaused : kSchedules, jitter, 17, RunOne);
  }

  // Right in a buffer of its own; then, in the residual's place, the same bytes, and the rows after
  // m unchanged.
  static void RunOne(DeviceChain& data, const LoadedPlanPtr& plan) {
    const int residual = data.matched().NumberOf(data.matched().size() - 1, Role::kResidual);
    const auto apart = Got(data.Bind(plan));
    const auto in_place = Got(data.BindOver(plan, residual));
    const size_t row = static_cast<size_t>(data.matched().output_stride *
                                           SizeOf(data.matched().sequence.element()));
    for (int64_t m : kSomeRows) {
      const auto output = Got(data.Run(apart, m));
      ASSERT_OK(data.Check(output, m));
      const auto over = Got(data.RunOver(in_place, residual, m));
      const size_t written = static_cast<size_t>(m) * row;
      const std::string& before = data.inputs()[static_cast<size_t>(residual)];
      ASSERT_TRUE(over.substr(0, written) == output.substr(0, written)) << "in place, m " << m;
      ASSERT_TRUE(over.substr(written) == before.substr(written)) << "after row " << m;
      // The residual as it was, for the next run apart.
      ASSERT_OK(data.Replace(residual, before));
    }
  }
};

TEST_F(Residuals, Products) { RunAll(Dataflow::kProduct, false); }
TEST_F(Residuals, GridExchange) { RunAll(Dataflow::kGridExchange, false); }
TEST_F(Residuals, ClusterExchange) { RunAll(Dataflow::kClusterExchange, false); }
TEST_F(Residuals, ProductsWithPauses) { RunAll(Dataflow::kProduct, true); }
TEST_F(Residuals, GridExchangeWithPauses) { RunAll(Dataflow::kGridExchange, true); }
TEST_F(Residuals, ClusterExchangeWithPauses) { RunAll(Dataflow::kClusterExchange, true); }

// The residual of a launch that is looped over rows moves with them.
TEST_F(Residuals, ManyRows) {
  constexpr int64_t kMany = 9000;
  const Chain chain = MakeFfnChain(ReadFfn("gated n256 k128 l128 silu residual rounded")).value();
  const auto data = Got(DeviceChain::Make(ports(), chain, kMany, 23));
  for (const auto choice : {PrepareOptions::Choice::kUnfused, PrepareOptions::Choice::kFused}) {
    const auto plan = Got(engine()->Prepare(chain, kMany, {.choice = choice}));
    ExpectCorrect(*data, plan, kMany, 2);
    ExpectCorrect(*data, plan, 8193, 1);
  }
}

// Rows of the residual stand further apart than they are long, and not on 16 bytes.
TEST_F(Residuals, RowsWithGaps) {
  const Chain chain = ReadChain(
      "a: bf16[M,128]; r: bf16[M,128] strides(131, 1); w1, w2: const bf16[128,128];"
      "out bf16(linear(linear(a, w1, none, relu), w2, none) + r)");
  const auto data = Got(DeviceChain::Make(ports(), chain, kRows, 29));
  for (const auto choice : {PrepareOptions::Choice::kUnfused, PrepareOptions::Choice::kFused}) {
    const auto plan = Got(engine()->Prepare(chain, kRows, {.choice = choice}));
    for (int64_t m : kSomeRows) ExpectCorrect(*data, plan, m, 2);
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::residual
