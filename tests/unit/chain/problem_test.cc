// The text form: the published problem lists as they are, round trips, and what each kind stands
// for.
#include "src/chain/problem.h"

#include "tests/support/test.h"

namespace sinter {
namespace {

// clang-format off
constexpr char kLists[] = R"x(# FlashFuser Table VII: GEMM chains. C[m,n] = relu(A[m,k] B[k,n]); E[m,l] = C D[n,l].
G1   gemm_chain m=128 n=512 k=32 l=256 act=relu layout=oi dtype=bf16   # DLRM-0
G2   gemm_chain m=128 n=256 k=512 l=64 act=relu layout=oi dtype=bf16   # DLRM-1
G3   gemm_chain m=128 n=512 k=416 l=256 act=relu layout=oi dtype=bf16   # DLRM-2
G4   gemm_chain m=128 n=3072 k=768 l=768 act=relu layout=oi dtype=bf16   # GPT-2-Small
G5   gemm_chain m=128 n=16384 k=4096 l=4096 act=relu layout=oi dtype=bf16   # GPT-6.7B
G6   gemm_chain m=128 n=4096 k=1024 l=1024 act=relu layout=oi dtype=bf16   # GPT2-medium
G7   gemm_chain m=128 n=768 k=768 l=768 act=relu layout=oi dtype=bf16   # nlp_gpt3_base
G8   gemm_chain m=128 n=8192 k=2048 l=2048 act=relu layout=oi dtype=bf16   # OPT-1.3B
G9   gemm_chain m=128 n=2048 k=512 l=512 act=relu layout=oi dtype=bf16   # Performer
G10  gemm_chain m=128 n=1536 k=384 l=384 act=relu layout=oi dtype=bf16   # BERT
# FlashFuser Table VI: gated FFN. C = silu(A Bg) * (A Bu); E = C D.
S1   gated_ffn m=128 n=8192 k=3072 l=3072 act=silu layout=oi dtype=bf16   # llama-3.2-3B
S2   gated_ffn m=128 n=5632 k=2048 l=2048 act=silu layout=oi dtype=bf16   # llama-1.1B
S3   gated_ffn m=128 n=11008 k=4096 l=4096 act=silu layout=oi dtype=bf16   # Llama-2-7b
S4   gated_ffn m=128 n=8192 k=2048 l=2048 act=silu layout=oi dtype=bf16   # Qwen2.5-2.1B
S5   gated_ffn m=128 n=11008 k=2048 l=2048 act=silu layout=oi dtype=bf16   # Qwen2.5-3B
S6   gated_ffn m=128 n=8960 k=1536 l=1536 act=silu layout=oi dtype=bf16   # Qwen2.5-1.5B
S7   gated_ffn m=128 n=9728 k=2560 l=2560 act=silu layout=oi dtype=bf16   # Qwen3-4B
S8   gated_ffn m=128 n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16   # Qwen3-0.6B
# One FFN over the batch: Llama-3-8B.
L1     gated_ffn m=1 n=14336 k=4096 l=4096 act=silu layout=oi dtype=bf16
L8     gated_ffn m=8 n=14336 k=4096 l=4096 act=silu layout=oi dtype=bf16
L16    gated_ffn m=16 n=14336 k=4096 l=4096 act=silu layout=oi dtype=bf16
L32    gated_ffn m=32 n=14336 k=4096 l=4096 act=silu layout=oi dtype=bf16
L64    gated_ffn m=64 n=14336 k=4096 l=4096 act=silu layout=oi dtype=bf16
L128   gated_ffn m=128 n=14336 k=4096 l=4096 act=silu layout=oi dtype=bf16
L256   gated_ffn m=256 n=14336 k=4096 l=4096 act=silu layout=oi dtype=bf16
L512   gated_ffn m=512 n=14336 k=4096 l=4096 act=silu layout=oi dtype=bf16
L1024  gated_ffn m=1024 n=14336 k=4096 l=4096 act=silu layout=oi dtype=bf16
L4096  gated_ffn m=4096 n=14336 k=4096 l=4096 act=silu layout=oi dtype=bf16
# Memory-intensive chains, bf16 in and out, f32 inside, statistics in f32.
N1 layernorm rows=8192 cols=1024 eps=1e-5 affine=1 dtype=bf16
N2 layernorm rows=4096 cols=8192 eps=1e-5 affine=1 dtype=bf16
N3 softmax rows=16384 cols=1024 scale=0.125 dtype=bf16
N4 softmax rows=4096 cols=16384 scale=0.125 dtype=bf16
N5 bias_gelu_residual_layernorm rows=8192 cols=4096 gelu=tanh eps=1e-5 dtype=bf16   # LN(gelu(x + b) + r)
N6 residual_rmsnorm rows=128 cols=4096 eps=1e-6 outputs=2 dtype=bf16                 # h = x + r and rmsnorm(h)*gamma
N7 residual_rmsnorm rows=8192 cols=4096 eps=1e-6 outputs=2 dtype=bf16
N8 masked_softmax rows=16384 cols=2048 scale=0.125 mask=full dtype=bf16              # softmax(0.125*x + mask), mask [rows, cols]
)x";
// clang-format on

TEST(ProblemLists, ReadAsTheyAre) {
  const std::vector<Problem> problems = Got(ParseProblems(kLists));
  EXPECT_EQ(problems.size(), 36u);
  for (const Problem& p : problems) {
    ASSERT_TRUE(p.m.has_value()) << p.id;
    EXPECT_TRUE(p.chain.UsesM()) << p.id;
  }
}

TEST(ProblemLists, ShapesArriveInTheChain) {
  const std::vector<Problem> problems = *ParseProblems(kLists);
  const Chain& g5 = problems[4].chain;
  ASSERT_EQ(g5.num_inputs(), 3);
  EXPECT_EQ(ToString(g5.input_op(0).type), "bf16[M,4096]");
  EXPECT_EQ(ToString(g5.output_type(0)), "bf16[M,4096]");
  EXPECT_EQ(problems[4].m, 128);
  const Chain& s8 = problems[17].chain;
  ASSERT_EQ(s8.num_inputs(), 4);
  EXPECT_EQ(ToString(s8.input_op(1).type), "bf16[3072,1024]");
  // A batch sweep is one chain.
  for (int i = 19; i < 28; ++i) EXPECT_EQ(problems[i].chain, problems[18].chain);
}

TEST(WriteProblem, RoundTripsEveryProblemOfTheLists) {
  const std::vector<Problem> problems = *ParseProblems(kLists);
  for (const Problem& p : problems) {
    const std::string line = WriteProblem(p);
    const Problem back = Got(ParseProblem(line), line);
    EXPECT_EQ(WriteProblem(back), line);
    EXPECT_EQ(back.id, p.id);
    EXPECT_EQ(back.m, p.m);
    EXPECT_EQ(back.chain, p.chain);
  }
}

TEST(WriteProblem, SpellsDefaultsAndNumbersInOneWay) {
  const struct {
    const char* in;
    const char* out;
  } cases[] = {
      {"gemm_chain l=4 k=3 n=2 m=007 act=relu",
       "gemm_chain m=7 n=2 k=3 l=4 act=relu layout=oi dtype=bf16 bias1=0 bias2=0"},
      {"x.1 matmul m=M n=2 k=3 bias1=1",
       "x.1 matmul m=M n=2 k=3 act=identity layout=oi dtype=bf16 bias1=1"},
      {"gate_up m=0 n=2 k=3 act=silu layout=io dtype=f16",
       "gate_up m=0 n=2 k=3 act=silu layout=io dtype=f16 bias1=0"},
      {"\tlayernorm rows=3\tcols=8 eps=0.00001 # comment",
       "layernorm rows=3 cols=8 eps=1e-05 affine=1 dtype=bf16"},
      {"softmax rows=3 cols=8 scale=.1250", "softmax rows=3 cols=8 scale=0.125 dtype=bf16"},
      {"softmax rows=3 cols=8 scale=0.1", "softmax rows=3 cols=8 scale=0.1 dtype=bf16"},
      {"masked_softmax rows=3 cols=8 mask=row",
       "masked_softmax rows=3 cols=8 scale=1 mask=row dtype=bf16"},
      {"rmsnorm rows=M cols=8 affine=0", "rmsnorm rows=M cols=8 eps=1e-06 affine=0 dtype=bf16"},
      {"residual_rmsnorm rows=3 cols=8",
       "residual_rmsnorm rows=3 cols=8 eps=1e-06 outputs=2 dtype=bf16"},
      {"bias_gelu_residual_layernorm rows=3 cols=8",
       "bias_gelu_residual_layernorm rows=3 cols=8 gelu=tanh eps=1e-05 dtype=bf16"},
      {"gelu rows=3 cols=8 form=erf", "gelu rows=3 cols=8 form=erf dtype=bf16"},
      {"silu rows=3 cols=8 dtype=f32", "silu rows=3 cols=8 dtype=f32"},
      {"softplus rows=3 cols=8", "softplus rows=3 cols=8 dtype=bf16"},
      {"clamp rows=3 cols=8 max=6.0 min=-0.5", "clamp rows=3 cols=8 min=-0.5 max=6 dtype=bf16"},
      {"swiglu rows=3 cols=8", "swiglu rows=3 cols=8 dtype=bf16"},
      {"products m=3 k=8 n=8",
       "products m=3 k=8 n=8 act=identity gated=0 bias=0 layout=oi dtype=bf16"},
      {"products m=3 k=8 n=016,8,8 act=relu,relu,relu gated=0,1,0 bias=1,1,1 dtype=f16",
       "products m=3 k=8 n=16,8,8 act=relu gated=0,1,0 bias=1 layout=oi dtype=f16"},
      {"rope rows=3 heads=2 dim=8", "rope rows=3 heads=2 dim=8 dtype=bf16"},
      {"lstm_cell rows=3 hidden=8", "lstm_cell rows=3 hidden=8 dtype=bf16"},
      {"gru_cell rows=3 hidden=8", "gru_cell rows=3 hidden=8 dtype=bf16"},
      {"next_token rows=3 cols=80 top_p=1 count=020",
       "next_token rows=3 cols=80 count=20 temperature=0 k=0 top_p=1 min_p=0 logprob=0 dtype=bf16"},
      {"gather rows=3 cols=8 table=9", "gather rows=3 table=9 cols=8 ids=s32 dtype=bf16"},
      {"grouped_matmul k=8 n=4 top=2 experts=3 m=5",
       "grouped_matmul m=5 experts=3 top=2 n=4 k=8 layout=oi dtype=bf16"},
      {"grouped_matmul_ends k=8 n=4 experts=3 m=5",
       "grouped_matmul_ends m=5 experts=3 n=4 k=8 layout=oi dtype=bf16"},
      {"grouped_gated_ffn act=silu k=16 n=8 l=4 top=2 experts=3 m=5",
       "grouped_gated_ffn m=5 experts=3 top=2 n=8 k=16 l=4 act=silu order=gate_up layout=oi "
       "weight=output dtype=bf16 bias1=0 bias2=0 alpha=1 beta=0 limit=0"},
      {"grouped_gated_ffn act=silu k=16 n=8 l=4 top=1 experts=3 m=5 weight=input order=interleaved "
       "limit=7.0 beta=1 alpha=1.702 bias2=1",
       "grouped_gated_ffn m=5 experts=3 top=1 n=8 k=16 l=4 act=silu order=interleaved layout=oi "
       "weight=input dtype=bf16 bias1=0 bias2=1 alpha=1.702 beta=1 limit=7"},
      {"scaled_grouped_matmul k=128 n=4 top=2 experts=3 m=5 scales=group",
       "scaled_grouped_matmul m=5 experts=3 top=2 n=4 k=128 scales=group codes=e4m3 dtype=bf16"},
      {"scaled_grouped_gated_ffn act=silu k=16 n=8 l=4 top=2 experts=3 m=5",
       "scaled_grouped_gated_ffn m=5 experts=3 top=2 n=8 k=16 l=4 act=silu order=gate_up "
       "scales=row "
       "quantize=row codes=e4m3 quantize_eps=1e-10 upper_bound=0 ue8m0=0 dtype=bf16"},
      {"top_k cols=8 rows=3 k=2", "top_k rows=3 cols=8 k=2 dtype=bf16"},
      {"argmax cols=8 rows=3", "argmax rows=3 cols=8 dtype=bf16"},
      {"cumsum cols=8 rows=3", "cumsum rows=3 cols=8 dtype=bf16"},
      {"dropout cols=8 rows=3 p=.10", "dropout rows=3 cols=8 p=0.1 dtype=bf16"},
      {"scatter table=9 rows=3 cols=8", "scatter rows=3 table=9 cols=8 ids=s32 dtype=bf16"},
      {"pool b=3 ic=8 h=5 w=5 k=3",
       "pool b=3 ic=8 h=5 w=5 k=3 pool=max stride=1 pad=same count_pads=1 format=NHWC dtype=bf16"},
      {"depthwise_conv b=3 ic=8 h=5 w=5 k=3 stride=2 act=silu",
       "depthwise_conv b=3 ic=8 h=5 w=5 k=3 act=silu stride=2 pad=same dilation=1 scale=0 bias=0 "
       "weights=OHWI format=NHWC dtype=bf16"},
  };
  for (const auto& c : cases) {
    const Problem problem = Got(ParseProblem(c.in), c.in);
    EXPECT_EQ(WriteProblem(problem), c.out);
    EXPECT_EQ(ParseProblem(c.out)->chain, problem.chain);
  }
}

TEST(ParseProblem, TheValueOfMIsNotPartOfTheChain) {
  const Problem one = *ParseProblem("matmul m=1 n=8 k=8"),
                all = *ParseProblem("matmul m=M n=8 k=8");
  EXPECT_EQ(one.chain, all.chain);
  EXPECT_EQ(one.m, 1);
  EXPECT_FALSE(all.m.has_value());
}

TEST(ParseProblem, InputsComeInTheDocumentedOrder) {
  const struct {
    const char* line;
    std::vector<std::string> names;
  } cases[] = {
      {"gemm_chain m=1 n=8 k=8 l=8 act=relu bias1=1 bias2=1", {"a", "w1", "bias1", "w2", "bias2"}},
      {"gated_ffn m=1 n=8 k=8 l=8 act=relu bias1=1 bias2=1",
       {"a", "w_gate", "w_up", "bias_gate", "bias_up", "w_down", "bias2"}},
      {"gate_up m=1 n=8 k=8 act=relu", {"a", "w_gate", "w_up"}},
      {"products m=1 k=8 n=8,8,8 gated=0,1,0 bias=1,1,0",
       {"a", "w1", "bias1", "w_gate2", "w_up2", "bias_gate2", "bias_up2", "w3"}},
      {"layernorm rows=1 cols=8", {"x", "gamma", "beta"}},
      {"bias_gelu_residual_layernorm rows=1 cols=8", {"x", "b", "r", "gamma", "beta"}},
      {"residual_rmsnorm rows=1 cols=8", {"x", "r", "gamma"}},
      {"masked_softmax rows=1 cols=8", {"x", "mask"}},
      {"rope rows=1 heads=2 dim=8", {"x", "cos", "sin"}},
      {"lstm_cell rows=1 hidden=8", {"gates", "c"}},
      {"gru_cell rows=1 hidden=8", {"xg", "hg", "h"}},
      {"next_token rows=1 cols=80 count=20 temperature=1 k=1 top_p=1 min_p=1",
       {"x", "temperature", "k", "top_p", "min_p", "seed", "offset"}},
      {"gather rows=1 table=9 cols=8 ids=s64", {"x", "ids"}},
      {"scatter rows=1 table=9 cols=8 ids=s64", {"x", "ids", "r"}},
      {"grouped_matmul m=1 experts=3 top=2 n=8 k=8", {"a", "w", "ids"}},
      {"grouped_matmul_ends m=1 experts=3 n=8 k=8", {"a", "w", "ends"}},
      {"grouped_gated_ffn m=1 experts=3 top=2 n=8 k=8 l=8 act=silu bias1=1 bias2=1",
       {"x", "ids", "weights", "w1", "bias1", "w2", "bias2"}},
      {"grouped_gated_ffn m=1 experts=3 top=2 n=8 k=8 l=8 act=silu",
       {"x", "ids", "weights", "w1", "w2"}},
      {"scaled_grouped_matmul m=1 experts=3 top=2 n=8 k=8",
       {"a", "scale_a", "ids", "w", "scale_w"}},
      {"scaled_grouped_gated_ffn m=1 experts=3 top=2 n=8 k=8 l=8 act=silu quantize=static",
       {"x", "scale_x", "ids", "weights", "w1", "scale_w1", "scale", "w2", "scale_w2"}},
      {"dropout rows=1 cols=8 p=0.5", {"x", "seed", "offset"}},
      {"depthwise_conv b=1 ic=8 h=5 w=5 k=3 scale=1 bias=1", {"x", "w1", "s1", "bias1"}},
      {"pool b=1 ic=8 h=5 w=5 k=3", {"x"}},
  };
  for (const auto& c : cases) {
    const Chain chain = ParseProblem(c.line)->chain;
    std::vector<std::string> names;
    for (int i = 0; i < chain.num_inputs(); ++i) names.push_back(chain.InputName(i));
    EXPECT_THAT(names, ::testing::ElementsAreArray(c.names)) << c.line;
  }
}

}  // namespace
}  // namespace sinter
