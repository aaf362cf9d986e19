// Only a cast rounds. A value in memory between two kernels is at least as wide as in the chain,
// unless only GEMMs read it, which multiply 16 bits.
#include "src/base/launch_recipe.h"
#include "src/fusion/fusion.h"
#include "src/fusion/product_runs.h"
#include "src/plan/plan.h"
#include "src/product/sequence.h"
#include "src/stitch/spec.h"
#include "tests/support/random_graph.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

bool IsNarrower(DType stored, DType value) { return SizeOf(stored) < SizeOf(value); }

// Whether every use of `value` is as the rows of a product, or a cast to as few bits.
bool OnlyRowsOfProducts(const Chain& chain, ValueId value) {
  for (const ChainOutput& out : chain.outputs()) {
    if (out.value == value) return false;
  }
  for (const Op& op : chain.ops()) {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const bool cast = op.kind == OpKind::kCast && SizeOf(op.type.dtype) <= 2;
      const bool product = op.kind == OpKind::kMatmul || op.kind == OpKind::kConv2d || cast;
      if (op.operands[i] == value && !(product && i == 0)) return false;
    }
  }
  return true;
}

// The value that a kernel of `plan` reads from the workspace in fewer bits than f32, though no GEMM
// takes it as rows; "" if there is none. All computed values of the chain are f32.
std::string NarrowRead(const Plan& plan) {
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const KernelSpec& spec = plan.kernels[k].spec;
    if (spec.family == &StitchFamily()) {
      const Chain& body = StitchOf(spec)->body;
      for (int i = 0; i < body.num_inputs(); ++i) {
        const bool own =
            StitchOf(spec)->operands[static_cast<size_t>(i)].buffer == kWorkspaceBuffer;
        if (own && IsNarrower(body.input_op(i).type.dtype, DType::kF32)) {
          return absl::StrCat("kernel ", k, " reads ", NameOf(body.input_op(i).type.dtype));
        }
      }
      continue;
    }
    for (const OperandBinding& b : ProductOf(spec).operands) {
      if (b.buffer != kWorkspaceBuffer || b.role == Role::kA || b.role == Role::kOut ||
          b.role == Role::kC || b.role == Role::kPartialOut) {
        continue;
      }
      if (IsNarrower(ShapeOf(ProductOf(spec).sequence, b.role).element, DType::kF32)) {
        return absl::StrCat("kernel ", k, " reads a ", FieldOf(b.role), " of 16 bits");
      }
    }
  }
  return "";
}

void ExpectWide(const Chain& chain, const std::string& name) {
  const auto planned = PlanChain(chain, 64, *BuiltinModel("h200"), {});
  if (!planned.ok()) return;
  EXPECT_EQ(NarrowRead(planned->chosen), "") << name;
  for (const Plan& other : planned->alternatives) EXPECT_EQ(NarrowRead(other), "") << name;
}

TEST(StoredWidth, ChainsWithoutACastKeepF32BetweenTheirKernels) {
  int planned = 0, several = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const Chain chain = testing::MakeRandomWideGraph(seed);
    const auto result = PlanChain(chain, 64, *BuiltinModel("h200"), {});
    planned += result.ok();
    several += result.ok() && result->chosen.kernels.size() > 1;
    ExpectWide(chain, absl::StrCat("seed ", seed));
  }
  EXPECT_GT(planned, 100);
  EXPECT_GT(several, 40);
}

TEST(StoredWidth, RunsOfRandomGraphsReadWhatIsStoredInNoFewerBits) {
  int runs = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    const Chain chain = testing::MakeRandomGraph(seed);
    for (const bool norms : {false, true}) {
      const ProductRuns found = FindProductRuns(chain, 64, nullptr, {norms, true});
      for (const GraphRun& run : found.runs) {
        ++runs;
        const auto narrow = [&](ValueId value, DType stored) {
          return IsNarrower(stored, chain.op(value).type.dtype) &&
                 !OnlyRowsOfProducts(chain, value);
        };
        EXPECT_FALSE(narrow(run.end, run.dtype())) << seed << " op " << run.end;
        for (const ProductOperand& operand : run.matched.operands) {
          EXPECT_FALSE(narrow(operand.value, operand.type.dtype))
              << seed << " op " << operand.value;
          for (const GraphRun& other : found.runs) {
            const bool inside = std::count(other.values.begin(), other.values.end(), operand.value);
            EXPECT_TRUE(!inside || operand.value == other.end || operand.value == other.scale)
                << seed << " op " << operand.value << " lies in no memory";
          }
        }
      }
    }
  }
  EXPECT_GT(runs, 300);
}

// The product has two readers, so that no kernel of a product takes either.
TEST(StoredWidth, AnF32ReluOfAProductReadsF32) {
  for (const int n : {1001, 1000, 1}) {
    const Chain chain =
        ReadChain("x: bf16[M,264]; w: const bf16[$0,264]; h = x @ w.T; out relu(h), tanh(h)", n);
    ExpectWide(chain, absl::StrCat("n ", n));
  }
}

TEST(StoredWidth, WhatAProductAndOthersReadIsToBeCast) {
  const Chain chain = ReadChain(
      "x: bf16[M,264]; w: const bf16[256,264]; next: const bf16[64,256]; h = x @ w.T; "
      "out bf16(h @ next.T), tanh(h)");
  const auto planned = PlanChain(chain, 64, *BuiltinModel("h200"), {});
  EXPECT_EQ(StatusNumber(planned.status()), static_cast<int32_t>(ErrorCode::kNoLegalPlan));
  EXPECT_TRUE(Says(planned, "cast it to bf16"));
}

}  // namespace
}  // namespace sinter
