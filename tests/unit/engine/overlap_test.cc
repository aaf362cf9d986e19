// Which buffers may share memory: an output's is its own, or that of the input that it is declared
// to share.
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

using testing::kL;
using testing::kN;

constexpr DevicePtr kX = DevicePtr{1} << 20, kW1 = 2 * kX, kW2 = 3 * kX, kWorkspace = 64 * kX;

// A plan of `chain`, bound and launched without a GPU.
struct Bound {
  explicit Bound(const Chain& chain) {
    world.compute = false;
    world.plan = PlanChain;
    world.generate = [](const KernelSpec& spec, const DeviceModel& model) {
      return Generate(spec, model);
    };
    plan = world.MakeEngine()->Prepare(chain, 16, {}).value();
  }
  absl::StatusOr<std::shared_ptr<const PlanBinding>> Bind(const std::vector<DevicePtr>& buffers) {
    return plan->Bind(buffers, kWorkspace);
  }
  std::string Refused(const std::vector<DevicePtr>& buffers) {
    const absl::Status status = Bind(buffers).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }
  // The most rows that a launch takes; -1: the buffers are refused.
  int64_t MostRows(const std::vector<DevicePtr>& buffers) {
    const auto binding = Bind(buffers);
    for (int64_t m = 16; binding.ok() && m >= 0; --m) {
      if (plan->Launch(**binding, nullptr, m, false).ok()) return m;
    }
    return -1;
  }

  FakeWorld world;
  std::shared_ptr<const PreparedPlan> plan;
};

// x [M, kK], w1 [kN, kK], w2 [kN, kL], out [M, kL].
TEST(OverlapTest, AnOutputReachesIntoNoOtherBuffer) {
  FakeWorld world{.compute = false};
  const auto plan = world.MakeEngine()->Prepare(world.chain, 16, {}).value();
  constexpr int64_t kRow = kL * 2, kWeights = kN * kL * 2;
  const auto bind = [&](DevicePtr x, DevicePtr out) {
    return plan->Bind({x, kW1, kW2, out}, kWorkspace);
  };
  // Everything about weights is known when they are bound.
  const std::string weights(bind(kX, kW2 + kWeights - 16).status().message());
  EXPECT_THAT(weights, HasSubstr(absl::StrCat("buffer of output 0 begins ", kWeights - 16,
                                              " bytes into that of input 2, which has ", kWeights,
                                              " bytes; an output's buffer must be its own")));
  EXPECT_TRUE(bind(kX, kW2 + kWeights).ok());
  EXPECT_TRUE(
      Says(bind(kX, kW2), "buffer of output 0 begins where that of input 2 does; an output's"));
  // The launch says how many rows there are: three end before the weights begin.
  const auto below = Got(bind(kX, kW2 - 3 * kRow));
  EXPECT_TRUE(plan->Launch(*below, nullptr, 3, false).ok());
  EXPECT_TRUE(
      Fails(plan->Launch(*below, nullptr, 4, false), absl::StatusCode::kInvalidArgument,
            absl::StrCat("buffer of input 2 begins ", 3 * kRow,
                         " bytes into that of output 0, which has ", kRow,
                         " bytes in each row of M, ", kRow, " apart: they lie apart up to m = 3")));
  EXPECT_TRUE(Says(bind(kX, kX + 16), "begins 16 bytes into that of input 0"));
}

TEST(OverlapTest, AnOutputSharesTheInputThatItIsDeclaredToShareAlone) {
  for (const bool declared : {false, true}) {
    Bound bound(ReadChain("x, y: bf16[M,64]; out x + y $0", declared ? "over x" : ""));
    EXPECT_EQ(bound.MostRows({kX, kW1, kX}), declared ? 16 : -1);
    EXPECT_THAT(bound.Refused({kX, kW1, kW1}), HasSubstr("output 0 begins where that of input 1"));
    EXPECT_THAT(bound.Refused({kX, kX, kX}), HasSubstr("output 0 begins where that of input"));
    EXPECT_THAT(bound.Refused({kX, kW1, kX + 16}), HasSubstr("16 bytes into that of input 0"));
    EXPECT_EQ(bound.MostRows({kX, kX, kW1}), 16);  // what is read may be shared
  }
}

// The workspace is written while all buffers are in use, whatever M is.
TEST(OverlapTest, TheWorkspaceIsNoBuffer) {
  Bound bound(ParseProblem("gemm_chain m=M n=4096 k=1024 l=1024 act=relu layout=oi dtype=bf16")
                  .value()
                  .chain);
  const auto bytes = static_cast<DevicePtr>(bound.plan->WorkspaceBytes());
  ASSERT_GT(bytes, 0u) << "the plan must have a workspace";
  const auto refused = [&](DevicePtr x, DevicePtr out, bool no_rows) {
    return std::string(
        bound.plan->Bind({x, kW1, kW2, out}, kWorkspace, no_rows).status().message());
  };
  EXPECT_THAT(refused(kX, kWorkspace, false),
              HasSubstr("the workspace begins where that of output 0 does; a plan's workspace"));
  EXPECT_THAT(refused(kWorkspace + 128, kX, false),
              HasSubstr("buffer of input 0 begins 128 bytes into the workspace, which has"));
  EXPECT_EQ(refused(kWorkspace + bytes, kX, false), "");
  EXPECT_EQ(refused(kWorkspace, kWorkspace, true), "");  // neither has an element
}

// A window reads pixels on whose places the results of its neighbours would lie.
TEST(OverlapTest, PoolingInPlaceIsRefused) {
  Bound bound(ParseProblem("pool b=M ic=64 h=8 w=8 k=3").value().chain);
  EXPECT_THAT(bound.Refused({kX, kX}), HasSubstr("output 0 begins where that of input 0 does"));
}

TEST(OverlapTest, TwoOutputsNeedTwoBuffers) {
  Bound bound(ReadChain("x: bf16[M,64]; out relu(x) over x, abs(x)"));
  EXPECT_EQ(bound.MostRows({kX, kX, kW1}), 16);
  EXPECT_THAT(bound.Refused({kX, kW1, kW1}), HasSubstr("output 1 begins where that of output 0"));
  EXPECT_THAT(bound.Refused({kX, kX, kX}), HasSubstr("output 1 begins where that of"));
}

// Two halves of the columns of one matrix.
TEST(OverlapTest, AnOutputMayLieBesideAnInput) {
  constexpr int64_t kColumns = 64;
  Bound bound(ReadChain("x: bf16[M,64] strides(128, 1); out relu(x) strides(128, 1)"));
  EXPECT_EQ(bound.MostRows({kX, kX + 2 * kColumns}), 16);
  EXPECT_EQ(bound.MostRows({kX, kX + 2 * kColumns + 16}), 1);
}

// A bias, and rows of another pitch, placed after the columns of an output's rows: 128 bytes of
// each 256.
TEST(OverlapTest, WhatLiesBetweenRowsMustFitThere) {
  const auto most = [](const char* type, int64_t at) {
    return Bound(
               ReadChain("x: bf16[M,64]; other: $0; out relu(x) strides(128, 1), abs(other)", type))
        .MostRows({kX, kW1 + static_cast<DevicePtr>(at), kW1, kW2});
  };
  EXPECT_EQ(most("bf16[256]", 128), 1);
  EXPECT_EQ(most("bf16[256]", 3 * 256 + 128), 4);
  EXPECT_EQ(most("bf16[64]", 128), 16);
  EXPECT_EQ(most("bf16[64]", 144), 1);
  EXPECT_EQ(most("bf16[M,64] strides(256, 1)", 128), 16);  // in every second gap
  EXPECT_EQ(most("bf16[M,64]", 128), 1);
  EXPECT_EQ(most("bf16[M,16] strides(192, 1)", 128), 1);
}

}  // namespace
}  // namespace sinter
