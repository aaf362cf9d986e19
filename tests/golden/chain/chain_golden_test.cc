// JSON and canonical digests of chains against committed files.
#include "tests/support/golden_file.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

struct Golden {
  const char* name;
  Chain chain;
};

// Every kind of op, attributes away from their defaults, strides, a repeated and an aliasing
// output.
Chain EveryOp() {
  ChainBuilder b;
  const ValueId state = *b.Input({DType::kF32, {C(4)}}, {false, {}, "state"});
  const ValueId logits = *b.Input({DType::kBF16, {Dim::M(), C(2), C(4)}},
                                  {false, {{16, 0}, {8, 0}, {2, 0}}, "logits"});
  const ValueId target = *b.Input({DType::kS32, {Dim::M(), C(2)}}, {false, {}, "target"});
  const ValueId w = *b.Input({DType::kBF16, {C(8), C(4)}}, {true, {}, "w"});
  const ValueId columns = *b.Iota({Dim::M(), C(2), C(4)}, 2, DType::kS32);
  const ValueId wanted = *b.Reshape(target, {Dim::M(), C(2), C(1)});
  const ValueId hit =
      *b.Compare(CompareKind::kEq, columns, *b.Broadcast(wanted, {Dim::M(), C(2), C(4)}));
  const ValueId low = *b.Scalar(-std::numeric_limits<double>::infinity());
  const ValueId picked = *b.Select(hit, logits, low);
  const ValueId most = *b.Reduce(ReduceKind::kMax, picked, {2, 1}, true);
  const ValueId flat = *b.Reshape(*b.Unary(UnaryKind::kExp, most), {Dim::M()});
  const ValueId cut = *b.Slice(logits, {0, 1, 0}, {Dim::M(), C(2), C(4)}, {1, 1, 2});
  const ValueId doubled = *b.Concat({cut, cut}, 2);
  const ValueId turned = *b.Transpose(doubled, {1, 0, 2});
  const ValueId ids = *b.Input({DType::kS64, {Dim::M(), C(2)}}, {false, {}, "ids"});
  const ValueId cache = *b.Input({DType::kBF16, {C(9), C(2)}}, {false, {}, "cache"});
  const ValueId rows = *b.Input({DType::kBF16, {C(3), C(2)}}, {false, {}, "rows"});
  const ValueId slots = *b.Input({DType::kS64, {C(3)}}, {false, {}, "slots"});
  const ValueId written = *b.Scatter(cache, slots, rows);
  const ValueId taken = *b.Gather(*b.Gather(w, ids), *b.Reshape(target, {Dim::M(), C(2), C(1)}), 2);
  const ValueId experts = *b.Input({DType::kBF16, {C(3), C(4), C(8)}}, {true, {}, "experts"});
  const ValueId token = *b.Input({DType::kBF16, {Dim::M(), C(8)}}, {false, {}, "token"});
  const ValueId expert = *b.GroupedMatmul(token, experts, target, true);
  const ValueId product = *b.Matmul(turned, w, false, true);
  const ValueId columnwise = *b.Reduce(ReduceKind::kMean, logits, {0, 1});
  const ValueId next = *b.Binary(BinaryKind::kAdd, state, columnwise);
  EXPECT_TRUE(b.Output(*b.Cast(product, DType::kF16), {{{8, 1}, {8, 0}, {1, 0}}, -1}).ok());
  EXPECT_TRUE(b.Output(flat).ok());
  EXPECT_TRUE(b.Output(flat).ok());
  EXPECT_TRUE(b.Output(next, {{}, state}).ok());
  EXPECT_TRUE(b.Output(taken).ok());
  EXPECT_TRUE(b.Output(written, {{}, cache}).ok());
  EXPECT_TRUE(b.Output(expert).ok());
  return *b.Finish();
}

// Steps of rows and random numbers, with what they are read by.
Chain RowSteps() {
  return ReadChain(
      "x: bf16[M,16]; seed: s64[]; offset: s32[]; ids = topk(x, 3); "
      "out ids, cumsum(gather(x, ids, -1)), random([M,2], seed, offset)");
}

// Rows to e4m3 by their largest magnitude, and an e4m3 input widened.
Chain QuantizedRows() {
  return ReadChain(
      "x: bf16[M,16]; old: e4m3[M,16]; most = reduce_max(abs(x), 1, keep); "
      "wide = spread(f32(most), [M,16]); scaled = x / wide; "
      "out e4m3(scaled) over old, bf16(old)");
}

std::vector<Golden> Goldens() {
  const auto text = [](const char* line) { return ParseProblem(line)->chain; };
  return {
      {"gemm_chain",
       text("gemm_chain m=M n=512 k=416 l=256 act=gelu_tanh bias1=1 bias2=1 layout=io dtype=f16")},
      {"gated_ffn", text("gated_ffn m=M n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16")},
      {"residual_rmsnorm", text("residual_rmsnorm rows=M cols=4096 eps=1e-6")},
      {"masked_softmax", text("masked_softmax rows=M cols=2048 scale=0.125 mask=full")},
      {"every_op", EveryOp()},
      {"quantized_rows", QuantizedRows()},
      {"row_steps", RowSteps()},
      {"quantize",
       text(
           "quantize rows=M cols=256 granularity=group quantize_eps=1e-4 upper_bound=1e3 ue8m0=1")},
      {"scaled_gated_ffn",
       text("scaled_gated_ffn m=M n=384 k=256 l=200 act=silu scales=group quantize=group bias1=1")},
      {"scaled_gemm_chain", text("scaled_gemm_chain m=M n=48 k=64 l=32 act=relu codes=s8")},
      {"scaled_matmul_fast", text("scaled_matmul m=M n=48 k=256 accumulate=fast")},
      {"grouped_gated_ffn",
       text("grouped_gated_ffn m=M experts=128 top=8 n=768 k=2048 l=2048 act=silu order=up_gate")},
      {"grouped_matmul_ends", text("grouped_matmul_ends m=M experts=64 n=256 k=512")},
      {"row_parallel", text("row_parallel m=M n=8192 k=4096 ranks=2")},
      {"all_gather", text("all_gather rows=M cols=4096 ranks=8")},
      {"reduce_scatter", text("reduce_scatter rows=M cols=4096 ranks=4 along=rows")},
      {"conv",
       text("conv b=M ic=24 h=9 w=7 oc=40 k=3,1 act=relu stride=2 pad=1,0,2,1 dilation=1,2 scale=1 "
            "bias=1 residual=before weights=HWIO")},
      {"conv_chain",
       text("conv_chain b=M ic=64 h=56 w=56 oc1=64 oc2=256 k1=3 k2=1 act=relu bias1=1")},
      {"depthwise_conv",
       text(
           "depthwise_conv b=M ic=24 h=9 w=7 k=5,3 act=silu stride=2,1 dilation=1,2 scale=1 bias=1 "
           "weights=HWIO")},
      {"pool", text("pool b=M ic=24 h=9 w=7 k=3 pool=avg stride=2 pad=1,0,2,1 count_pads=0")},
  };
}

std::string PathOf(const std::string& file) { return "tests/golden/chain/" + file; }

std::string ReadFile(const std::string& file) {
  std::ifstream in(PathOf(file), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string Digests() {
  std::string text;
  for (const Golden& golden : Goldens()) {
    text += std::string(golden.name) + " " + golden.chain.CanonicalDigest().Hex() + "\n";
  }
  return text;
}

TEST(ChainGolden, JsonIsAsCommitted) {
  for (const Golden& golden : Goldens()) {
    testing::ExpectGoldenFile(PathOf(std::string(golden.name) + ".json"),
                              ChainToJson(golden.chain));
  }
}

TEST(ChainGolden, CommittedJsonReadsAsTheChain) {
  for (const Golden& golden : Goldens()) {
    const auto chain =
        Got(ChainFromJson(ReadFile(std::string(golden.name) + ".json")), golden.name);
    EXPECT_EQ(chain, golden.chain);
  }
}

TEST(ChainGolden, CanonicalDigestsAreAsCommitted) {
  testing::ExpectGoldenFile(PathOf("digests.txt"), Digests());
}

}  // namespace
}  // namespace sinter
