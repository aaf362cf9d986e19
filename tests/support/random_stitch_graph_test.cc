#include "tests/support/random_stitch_graph.h"

#include "src/reference/compare.h"
#include "src/reference/evaluator.h"
#include "src/reference/reference.h"
#include "tests/bench/random.h"
#include "tests/support/chains.h"
#include "tests/support/drawn.h"
#include "tests/support/pointers.h"
#include "tests/support/random_graph.h"
#include "tests/support/test.h"

namespace sinter::testing {
namespace {

// Floats in [-1, 1), s32 and s64 in [0, 15], pred 0 or 1.
std::vector<std::vector<uint8_t>> Inputs(const Chain& chain, uint64_t seed, int64_t m = 0) {
  std::vector<std::vector<uint8_t>> inputs;
  bench::Random random(seed);
  for (int i = 0; i < chain.num_inputs(); ++i) {
    const Op& op = chain.input_op(i);
    const int64_t bytes = *BufferBytes(op.type, op.strides, m);
    std::vector<double> values(bytes / SizeOf(op.type.dtype));
    for (double& v : values) {
      const int64_t draw = random.In(-4096, 4095);
      v = static_cast<double>(draw) / 4096;
      if (op.type.dtype == DType::kS32 || op.type.dtype == DType::kS64)
        v = static_cast<double>(draw & 15);
      if (op.type.dtype == DType::kS8) v = static_cast<double>(draw % 128);
      if (op.type.dtype == DType::kPred) v = static_cast<double>(draw & 1);
    }
    inputs.emplace_back(bytes);
    reference::StoreRun(values.data(), static_cast<int64_t>(values.size()), inputs.back().data(),
                        reference::StorageOf(op.type.dtype), 0, 1);
  }
  return inputs;
}

std::vector<std::vector<double>> Outputs(const Chain& chain,
                                         const std::vector<std::vector<uint8_t>>& inputs,
                                         int64_t m = 0) {
  return Got(RunReferenceF64(chain, m, PointersTo(inputs)));
}

// The chain with a cast to f32 after every f32 value that is computed: what a kernel that keeps
// nothing wider than f32 would give.
Chain RoundedEverywhere(const Chain& chain) {
  ChainBuilder b;
  std::vector<ValueId> now;
  for (Op op : chain.ops()) {
    for (ValueId& operand : op.operands) operand = now[operand];
    ValueId id = *Replay(b, op);
    const bool computed = op.kind != OpKind::kInput && op.kind != OpKind::kCast;
    if (computed && op.type.dtype == DType::kF32) id = *b.Cast(id, DType::kF32);
    now.push_back(id);
  }
  for (const ChainOutput& out : chain.outputs()) {
    EXPECT_TRUE(b.Output(now[out.value], {out.strides, -1}).ok());
  }
  return *b.Finish();
}

int OpsOf(const Chain& chain) { return static_cast<int>(chain.ops().size()) - chain.num_inputs(); }

TEST(RandomStitchGraph, IsAFunctionOfItsSeedAndReadsBackFromJson) {
  std::set<std::string> different;
  for (uint64_t seed = 1; seed <= kRandomStitchGraphs; ++seed) {
    const Chain chain = MakeRandomStitchGraph(seed);
    EXPECT_EQ(chain.CanonicalBytes(), MakeRandomStitchGraph(seed).CanonicalBytes());
    different.insert(chain.CanonicalBytes());
    EXPECT_EQ(*ChainFromJson(ChainToJson(chain)), chain);
    EXPECT_GE(OpsOf(chain), 5) << seed;
    EXPECT_LE(OpsOf(chain), 60) << seed;
    EXPECT_LE(chain.num_outputs(), 8) << seed;
    EXPECT_EQ(chain.MatmulFlops(1), 0);
    EXPECT_FALSE(chain.UsesM());
  }
  EXPECT_EQ(different.size(), kRandomStitchGraphs);
}

TEST(RandomStitchGraph, GivesFiniteValuesThatF32ComputesWithinTheBounds) {
  for (uint64_t seed = 1; seed <= kRandomStitchGraphs; ++seed) {
    const Chain chain = MakeRandomStitchGraph(seed);
    const auto inputs = Inputs(chain, seed);
    const auto want = Outputs(chain, inputs);
    EXPECT_EQ(Outputs(chain, inputs), want);
    const Chain rounded = RoundedEverywhere(chain);
    // Depth-first order is the same except for the casts, and so are the inputs.
    const auto got = Outputs(rounded, inputs);
    for (int i = 0; i < chain.num_outputs(); ++i) {
      for (double v : want[i]) ASSERT_TRUE(std::isfinite(v)) << seed << " output " << i;
      const DType dtype = chain.output_type(i).dtype;
      const ErrorMeasure error = Compare(got[i], want[i], dtype);
      EXPECT_TRUE(error.Within(BoundsFor(dtype)))
          << seed << " output " << i << " " << NameOf(dtype) << ": " << error.ToString();
    }
  }
}

TEST(RandomStitchGraph, TheSetHasEverythingInIt) {
  std::map<std::string, int> seen;
  for (uint64_t seed = 1; seed <= kRandomStitchGraphs; ++seed) {
    const Chain chain = MakeRandomStitchGraph(seed);
    for (const Op& op : chain.ops()) {
      ++seen[std::string(NameOf(op))];
      ++seen["rank " + std::to_string(op.type.rank())];
      if (op.kind == OpKind::kInput && op.strides != ContiguousStrides(op.type.dims)) {
        ++seen["strided input"];
      }
      if (op.type.rank() > 0 && op.type.dims.back() == Dim::Constant(37)) ++seen["37 columns"];
      if (op.kind == OpKind::kReduce) {
        const bool row = op.axes.back() == chain.op(op.operands[0]).type.rank() - 1;
        ++seen[row ? "row reduction" : (op.axes[0] == 0 ? "column reduction" : "middle reduction")];
      }
    }
    for (int i = 0; i < chain.num_outputs(); ++i) {
      const ChainOutput& out = chain.outputs()[i];
      ++seen["output " + std::string(NameOf(chain.output_type(i).dtype))];
      if (out.alias_input >= 0) ++seen["in place"];
      if (out.strides != ContiguousStrides(chain.output_type(i).dims)) ++seen["strided output"];
    }
    if (chain.num_outputs() > 1) ++seen["several outputs"];
  }
  for (const UnaryKind kind : UnaryKinds()) {
    EXPECT_GE(seen[std::string(NameOf(kind))], 3) << NameOf(kind);
  }
  for (const BinaryKind kind : BinaryKinds()) {
    EXPECT_GE(seen[std::string(NameOf(kind))], 5) << NameOf(kind);
  }
  for (const char* what : {"select",
                           "cast",
                           "broadcast",
                           "transpose",
                           "reshape",
                           "slice",
                           "concat",
                           "reduce",
                           "iota",
                           "rank 1",
                           "rank 2",
                           "rank 3",
                           "rank 4",
                           "strided input",
                           "37 columns",
                           "row reduction",
                           "column reduction",
                           "middle reduction",
                           "output bf16",
                           "output f16",
                           "output f32",
                           "output e4m3",
                           "output s32",
                           "in place",
                           "strided output",
                           "several outputs"}) {
    EXPECT_GE(seen[what], 5) << what;
  }
}

TEST(RandomStitchGraph, GrowsToItsLimit) {
  int64_t largest = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Chain chain = MakeRandomStitchGraph(seed, {int64_t{1} << 20});
    for (const Op& op : chain.ops()) largest = std::max(largest, *ElementCount(op.type.dims, 0));
  }
  EXPECT_GE(largest, int64_t{1} << 18);
  EXPECT_LE(largest, int64_t{1} << 23);
}

TEST(RandomGraph, IsAFunctionOfItsSeedAndReadsBackFromJson) {
  std::set<std::string> different;
  constexpr uint64_t kSeeds = 2000;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Chain chain = MakeRandomGraph(seed);
    EXPECT_EQ(chain.CanonicalBytes(), MakeRandomGraph(seed).CanonicalBytes());
    different.insert(chain.CanonicalBytes());
    EXPECT_EQ(*ChainFromJson(ChainToJson(chain)), chain);
    EXPECT_LE(chain.num_outputs(), 8) << seed;
    EXPECT_EQ(MakeRandomWideGraph(seed).CanonicalBytes(),
              MakeRandomWideGraph(seed).CanonicalBytes());
  }
  EXPECT_GT(different.size(), kSeeds * 98 / 100);
}

// A third of the graphs in an everyday run, which the commit draws.
TEST(RandomGraph, GivesFiniteValuesThatF32ComputesWithinTheBounds) {
  constexpr int64_t kM = 5;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    if (!IsDrawn(seed, 3)) continue;
    for (const Chain& chain : {MakeRandomGraph(seed), MakeRandomWideGraph(seed)}) {
      const auto inputs = Inputs(chain, seed, kM);
      const auto want = Outputs(chain, inputs, kM);
      const auto got = Outputs(RoundedEverywhere(chain), inputs, kM);
      for (int i = 0; i < chain.num_outputs(); ++i) {
        for (double v : want[i]) ASSERT_TRUE(std::isfinite(v)) << seed << " output " << i;
        const DType dtype = chain.output_type(i).dtype;
        const ErrorMeasure error = Compare(got[i], want[i], dtype);
        EXPECT_TRUE(error.Within(BoundsOf(chain, i)))
            << seed << " output " << i << " " << NameOf(dtype) << ": " << error.ToString() << "\n"
            << ChainToJson(chain);
      }
    }
  }
}

// All kinds of ops, and every type as operand and as result of a cast.
TEST(RandomGraph, TheSetHasEverythingInIt) {
  std::map<std::string, int> seen;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const Chain chain = MakeRandomGraph(seed);
    seen[chain.UsesM() ? "with M" : "without M"]++;
    for (const Op& op : chain.ops()) {
      seen[std::string(NameOf(op.kind))]++;
      if (op.kind == OpKind::kUnary) seen[absl::StrCat("unary ", NameOf(op.unary))]++;
      if (op.kind == OpKind::kCast) {
        seen[absl::StrCat("to ", NameOf(op.type.dtype))]++;
        seen[absl::StrCat("from ", NameOf(chain.op(op.operands[0]).type.dtype))]++;
      }
      if (op.kind == OpKind::kReduce) {
        seen[absl::StrCat(NameOf(op.reduce), " of ",
                          NameOf(chain.op(op.operands[0]).type.dtype))]++;
      }
    }
  }
  for (int kind = 1; IsValid(static_cast<OpKind>(kind)); ++kind) {
    Op op{.kind = static_cast<OpKind>(kind)};
    if (IsCollective(op)) continue;  // wants a group of GPUs
    EXPECT_GT(seen[std::string(NameOf(static_cast<OpKind>(kind)))], 5) << kind;
  }
  for (const char* dtype : {"f32", "bf16", "f16", "s32", "pred", "e4m3", "s8"}) {
    EXPECT_GT(seen[absl::StrCat("to ", dtype)], 3) << dtype;
    EXPECT_GT(seen[absl::StrCat("from ", dtype)], 3) << dtype;
  }
  for (const UnaryKind kind : UnaryKinds()) {
    EXPECT_GT(seen[absl::StrCat("unary ", NameOf(kind))], 0) << NameOf(kind);
  }
  for (const char* what : {"max of bf16", "min of bf16", "max of f16", "min of f16", "sum of f32",
                           "with M", "without M"}) {
    EXPECT_GT(seen[what], 5) << what;
  }
}

}  // namespace
}  // namespace sinter::testing