// JSON and canonical digests of chains against committed files.
#include "tests/support/files.h"
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
  return ReadChain(
      "state: f32[4]; logits: bf16[M,2,4] strides(16, 8, 2); target: s32[M,2]; w: const bf16[8,4]; "
      "columns = iota([M,2,4], 2, s32); hit = eq(columns, spread(reshape(target, [M,2,1]), "
      "[M,2,4])); "
      "low = -inf; picked = select(hit, logits, low); "
      "flat = reshape(exp(reduce_max(picked, 2, 1, keep)), [M]); "
      "cut = logits[:, 1:2, 0:4:2]; turned = transpose(concat(cut, cut, 2), 1, 0, 2); "
      "ids: s64[M,2]; cache: bf16[9,2]; rows: bf16[3,2]; slots: s64[3]; "
      "written = scatter(cache, slots, rows); "
      "taken = gather(gather(w, ids), reshape(target, [M,2,1]), 2); "
      "experts: const bf16[3,4,8]; token: bf16[M,8]; expert = grouped(token, experts.T, target); "
      "product = turned @ w.T; next = state + mean(logits, 0, 1); "
      "out f16(product) strides(8*M, 8, 1); out flat, flat; out next over state; out taken; "
      "out written over cache; out expert");
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

std::string ReadFile(const std::string& file) { return FileText(PathOf(file)); }

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
