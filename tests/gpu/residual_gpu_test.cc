// Residuals in the epilogue of every dataflow: schedules over the whole space, rows that end
// anywhere, the result in a buffer of its own and in the residual's place, with and without pauses,
// and launches that are looped over rows.
#include "tests/gpu/sweep_test.h"
#include "tests/support/chains.h"

namespace sinter::gpu_testing::residual {
namespace {

constexpr size_t kSchedules = 10, kPaused = 3;  // of each dataflow and chain

// Plain and gated, either layout and dtype, aligned and ragged columns, rounded once and twice,
// sums activated and not.
std::vector<FfnSpec> Specs() {
  FfnSpec plain{
      .n = 776, .k = 328, .l = 523, .act = Activation::kRelu, .bias2 = true, .residual = true};
  FfnSpec gated = plain;
  gated.gated = true;
  gated.n = 520;
  gated.l = 264;
  gated.act = Activation::kSilu;
  gated.dtype = DType::kF16;
  gated.rounds_sum = true;
  FfnSpec io = gated;
  io.layout = Layout::kIO;
  io.dtype = DType::kBF16;
  io.bias2 = false;
  io.sum_act = Activation::kRelu;
  FfnSpec wide = plain;
  wide.l = 1024;
  wide.rounds_sum = true;
  plain.sum_act = Activation::kSilu;
  return {plain, gated, io, wide};
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
      ASSERT_OK(
          ports().measurer->Upload(data.input_buffer(residual), before.data(), before.size()));
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
  const Chain chain = MakeFfnChain({.gated = true,
                                    .n = 256,
                                    .k = 128,
                                    .l = 128,
                                    .act = Activation::kSilu,
                                    .residual = true,
                                    .rounds_sum = true})
                          .value();
  const auto data = Got(DeviceChain::Make(ports(), chain, kMany, 23));
  for (const auto choice : {PrepareOptions::Choice::kUnfused, PrepareOptions::Choice::kFused}) {
    const auto plan = Got(engine()->Prepare(chain, kMany, {.choice = choice}));
    ExpectCorrect(*data, plan, kMany, 2);
    ExpectCorrect(*data, plan, 8193, 1);
  }
}

// Rows of the residual stand further apart than they are long, and not on 16 bytes.
TEST_F(Residuals, RowsWithGaps) {
  constexpr int64_t kWidth = 128, kStride = 131;
  ChainBuilder b;
  const auto weight = [&] {
    return *b.Input({DType::kBF16, {Dim::Constant(kWidth), Dim::Constant(kWidth)}}, {true, {}, ""});
  };
  const ValueId a = *b.Input({DType::kBF16, {Dim::M(), Dim::Constant(kWidth)}});
  const ValueId r = *b.Input({DType::kBF16, {Dim::M(), Dim::Constant(kWidth)}},
                             {.strides = {{kStride, 0}, {1, 0}}});
  const ValueId c = *AddLinear(b, a, weight(), kNoValue, Layout::kOI, Activation::kRelu);
  const ValueId e = *AddLinear(b, c, weight(), kNoValue, Layout::kOI);
  const auto chain = Finished(b, {*b.Cast(*b.Binary(BinaryKind::kAdd, e, r), DType::kBF16)});
  const auto data = Got(DeviceChain::Make(ports(), chain, kRows, 29));
  for (const auto choice : {PrepareOptions::Choice::kUnfused, PrepareOptions::Choice::kFused}) {
    const auto plan = Got(engine()->Prepare(chain, kRows, {.choice = choice}));
    for (int64_t m : kSomeRows) ExpectCorrect(*data, plan, m, 2);
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::residual
