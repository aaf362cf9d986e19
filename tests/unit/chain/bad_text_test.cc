// Bad input of the text form: every case with its exact message.
#include <gtest/gtest.h>

#include "src/chain/problem.h"

namespace sinter {
namespace {

struct BadLine {
  const char* input;
  const char* message;
};

// clang-format off
const BadLine kBadTexts[] = {
    {R"x(gemm_chain)x",
     R"x(gemm_chain: key m is missing)x"},
    {R"x(frobnicate m=1)x",
     R"x(kind is frobnicate, must be one of all_gather all_reduce argmax attention bias_gelu_residual_layernorm clamp conv conv_chain cumsum depthwise_conv dropout gate_up gated_ffn gather gelu gemm_chain grouped_gated_ffn grouped_matmul grouped_matmul_ends gru_cell layernorm lstm_cell masked_softmax matmul pool products quantize reduce_scatter residual_rmsnorm rmsnorm rmsnorm_quantize rope row_parallel scaled_gated_ffn scaled_gemm_chain scaled_grouped_gated_ffn scaled_grouped_matmul scaled_matmul scatter silu softmax softplus swiglu top_k)x"},
    {R"x(gemm_chain m=128 n=512 k=32 l=256)x",
     R"x(gemm_chain: key act is missing)x"},
    {R"x(gemm_chain m=-1 n=512 k=32 l=256 act=relu)x",
     R"x(gemm_chain: m is -1, must be an integer in [0, 2^31 - 1] or M)x"},
    {R"x(gemm_chain m=1.5 n=512 k=32 l=256 act=relu)x",
     R"x(gemm_chain: m is 1.5, must be an integer in [0, 2^31 - 1] or M)x"},
    {R"x(gemm_chain m=m n=512 k=32 l=256 act=relu)x",
     R"x(gemm_chain: m is m, must be an integer in [0, 2^31 - 1] or M)x"},
    {R"x(gemm_chain m=2147483648 n=512 k=32 l=256 act=relu)x",
     R"x(gemm_chain: m is 2147483648, must be an integer in [0, 2^31 - 1] or M)x"},
    {R"x(gemm_chain m= n=512 k=32 l=256 act=relu)x",
     R"x(gemm_chain: m is , must be an integer in [0, 2^31 - 1] or M)x"},
    {R"x(gemm_chain m=128 n=0 k=32 l=256 act=relu)x",
     R"x(gemm_chain: n is 0, must be an integer in [1, 2^31 - 1])x"},
    {R"x(gemm_chain m=128 n=M k=32 l=256 act=relu)x",
     R"x(gemm_chain: n is M, must be an integer in [1, 2^31 - 1])x"},
    {R"x(gemm_chain m=128 n=99999999999999999999 k=32 l=256 act=relu)x",
     R"x(gemm_chain: n is 99999999999999999999, must be an integer in [1, 2^31 - 1])x"},
    {R"x(gemm_chain m=128 n=+5 k=32 l=256 act=relu)x",
     R"x(gemm_chain: n is +5, must be an integer in [1, 2^31 - 1])x"},
    {R"x(gemm_chain m=128 n=512 k=32 l=256 act=gelu)x",
     R"x(gemm_chain: act is gelu, must be one of identity relu gelu_tanh gelu_erf silu; did you mean gelu_tanh or gelu_erf?)x"},
    {R"x(gemm_chain m=128 n=512 k=32 l=256 act=relu layout=xx)x",
     R"x(gemm_chain: layout is xx, must be one of oi io)x"},
    {R"x(gemm_chain m=128 n=512 k=32 l=256 act=relu dtype=f64)x",
     R"x(gemm_chain: dtype is f64, must be one of f32 f16 bf16)x"},
    {R"x(gemm_chain m=128 n=512 k=32 l=256 act=relu dtype=s32)x",
     R"x(gemm_chain: dtype is s32, must be one of f32 f16 bf16)x"},
    {R"x(gemm_chain m=128 n=512 k=32 l=256 act=relu bias1=2)x",
     R"x(gemm_chain: bias1 is 2, must be 0 or 1)x"},
    {R"x(gemm_chain m=128 n=512 k=32 l=256 act=relu bias3=1)x",
     R"x(gemm_chain: key is bias3, must be one of m n k l act layout dtype bias1 bias2; did you mean bias1?)x"},
    {R"x(gemm_chain m=128 m=128 n=512 k=32 l=256 act=relu)x",
     R"x(gemm_chain: key m is given twice)x"},
    {R"x(gemm_chain m=128 n=512 k=32 l=256 act=relu extra)x",
     R"x(gemm_chain: word is extra, must be key=value with a key of m n k l act layout dtype bias1 bias2)x"},
    {R"x(gemm_chain 128 n=512 k=32 l=256 act=relu)x",
     R"x(gemm_chain: word is 128, must be key=value with a key of m n k l act layout dtype bias1 bias2)x"},
    {R"x(gemm_chain m = 128)x",
     R"x(gemm_chain: word is m, must be key=value with a key of m n k l act layout dtype bias1 bias2)x"},
    {R"x(gelu gemm_chain 128)x",
     R"x(gemm_chain: word is 128, must be key=value with a key of m n k l act layout dtype bias1 bias2)x"},
    {R"x(gemm_chain m=128 n=2147483647 k=2147483647 l=256 act=relu)x",
     R"x(gemm_chain: op 1 (input): elements of [2147483647,2147483647] are more than 2^40)x"},
    {R"x(G1 G2 gemm_chain m=128)x",
     R"x(kind is G2, must be one of all_gather all_reduce argmax attention bias_gelu_residual_layernorm clamp conv conv_chain cumsum depthwise_conv dropout gate_up gated_ffn gather gelu gemm_chain grouped_gated_ffn grouped_matmul grouped_matmul_ends gru_cell layernorm lstm_cell masked_softmax matmul pool products quantize reduce_scatter residual_rmsnorm rmsnorm rmsnorm_quantize rope row_parallel scaled_gated_ffn scaled_gemm_chain scaled_grouped_gated_ffn scaled_grouped_matmul scaled_matmul scatter silu softmax softplus swiglu top_k)x"},
    {R"x(top_k rows=4 cols=8 k=9)x",
     R"x(top_k: op 1 (top_k): count is 9, must be in [1, 8]: a row has no more elements)x"},
    {R"x(dropout rows=4 cols=8 p=1)x",
     R"x(dropout: p is 1, must be in [0, 1))x"},
    {R"x(G/1 gemm_chain m=128 n=512 k=32 l=256 act=relu)x",
     R"x(id is G/1, must be 1 to 64 letters, digits, '_', '-' or '.')x"},
    {R"x(conv_chain b=1 ic=64)x",
     R"x(conv_chain: key h is missing)x"},
    {R"x(conv_chain)x",
     R"x(conv_chain: key b is missing)x"},
    {R"x(conv b=1 ic=64 h=8 w=6 oc=16)x",
     R"x(conv: key k is missing)x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 groups=4)x",
     R"x(conv_chain: groups is 4, must be 1)x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 groups=0)x",
     R"x(conv_chain: groups is 0, must be 1)x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 weights=OIHW)x",
     R"x(conv_chain: weights is OIHW, must be one of HWIO OHWI (PyTorch: weight.to(memory_format=torch.channels_last)))x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=3 weights=oi)x",
     R"x(conv: weights is oi, must be one of HWIO OHWI (PyTorch: weight.to(memory_format=torch.channels_last)))x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 format=NCHW)x",
     R"x(conv_chain: format is NCHW, must be NHWC (PyTorch: x.to(memory_format=torch.channels_last)))x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=3 format=nhwc)x",
     R"x(conv: format is nhwc, must be NHWC (PyTorch: x.to(memory_format=torch.channels_last)))x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 stride=0)x",
     R"x(conv_chain: stride is 0, must be 1 or 2 integers in [1, 1024])x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 stride=1025)x",
     R"x(conv_chain: stride is 1025, must be 1 or 2 integers in [1, 1024])x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 stride=2,0)x",
     R"x(conv_chain: stride is 2,0, must be 1 or 2 integers in [1, 1024])x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 stride=1,1,1)x",
     R"x(conv_chain: stride is 1,1,1, must be 1 or 2 integers in [1, 1024])x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 stride=-1)x",
     R"x(conv_chain: stride is -1, must be 1 or 2 integers in [1, 1024])x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 dilation=0)x",
     R"x(conv_chain: dilation is 0, must be 1 or 2 integers in [1, 1024])x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 dilation=x)x",
     R"x(conv_chain: dilation is x, must be 1 or 2 integers in [1, 1024])x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=3 dilation=99999999999999999999)x",
     R"x(conv: dilation is 99999999999999999999, must be 1 or 2 integers in [1, 1024])x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 pad=-1)x",
     R"x(conv_chain: pad is -1, must be same, or 1 or 4 integers in [0, 1024])x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 pad=1025)x",
     R"x(conv_chain: pad is 1025, must be same, or 1 or 4 integers in [0, 1024])x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 pad=1,1)x",
     R"x(conv_chain: pad is 1,1, must be same, or 1 or 4 integers in [0, 1024])x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 pad=valid)x",
     R"x(conv_chain: pad is valid, must be same, or 1 or 4 integers in [0, 1024])x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 pad=)x",
     R"x(conv_chain: pad is , must be same, or 1 or 4 integers in [0, 1024])x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=0)x",
     R"x(conv: k is 0, must be 1 or 2 integers in [1, 1024])x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=3x3)x",
     R"x(conv: k is 3x3, must be 1 or 2 integers in [1, 1024])x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=3,)x",
     R"x(conv: k is 3,, must be 1 or 2 integers in [1, 1024])x"},
    {R"x(conv b=-1 ic=64 h=8 w=6 oc=16 k=3)x",
     R"x(conv: b is -1, must be an integer in [0, 2^31 - 1] or M)x"},
    {R"x(conv b=M ic=64 h=M w=6 oc=16 k=3)x",
     R"x(conv: h is M, must be an integer in [1, 2^31 - 1])x"},
    {R"x(conv b=M ic=0 h=8 w=6 oc=16 k=3)x",
     R"x(conv: ic is 0, must be an integer in [1, 2^31 - 1])x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=3 residual=1)x",
     R"x(conv: residual is 1, must be one of none before behind)x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=3 scale=0.5)x",
     R"x(conv: scale is 0.5, must be 0 or 1)x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=3 dtype=e4m3)x",
     R"x(conv: dtype is e4m3, must be one of f32 f16 bf16)x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=3 act=swish)x",
     R"x(conv: act is swish, must be one of identity relu gelu_tanh gelu_erf silu; did you mean silu?)x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=3 k1=3)x",
     R"x(conv: key is k1, must be one of b ic h w oc k act stride pad dilation scale bias residual weights format groups dtype)x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=16 oc2=8 k1=3 k2=1 residual=none)x",
     R"x(conv_chain: key is residual, must be one of b ic h w oc1 oc2 k1 k2 act stride pad dilation weights format groups dtype bias1 bias2)x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=3 pad=0 k=3)x",
     R"x(conv: key k is given twice)x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=9 pad=0)x",
     R"x(conv: op 2 (conv2d): height of w is 9, must be at most 8, that of x with its padding)x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=8,7 pad=0)x",
     R"x(conv: op 2 (conv2d): width of w is 7, must be at most 6, that of x with its padding)x"},
    {R"x(conv b=M ic=64 h=8 w=6 oc=16 k=7 pad=1,3,0,6 dilation=2,1)x",
     R"x(conv: op 2 (conv2d): height of w is 7 (dilation 2: 13), must be at most 12, that of x with its padding)x"},
    {R"x(conv b=M ic=2000000000 h=2000000000 w=6 oc=16 k=3)x",
     R"x(conv: op 0 (input): elements of [M,2000000000,6,2000000000] are more than 2^40)x"},
    {R"x(conv_chain b=M ic=64 h=8 w=6 oc1=2000000000 oc2=2000000000 k1=1 k2=1)x",
     R"x(conv_chain: op 3 (input): elements of [2000000000,1,1,2000000000] are more than 2^40)x"},
    {R"x(layernorm rows=8 cols=1024 eps=nan)x",
     R"x(layernorm: eps is nan, must be a finite number)x"},
    {R"x(layernorm rows=8 cols=1024 eps=1e-5x)x",
     R"x(layernorm: eps is 1e-5x, must be a finite number)x"},
    {R"x(layernorm rows=8 cols=1024 eps=-1)x",
     R"x(layernorm: op 3 (layernorm): eps is -1, must be more than 0 in f32 and at most 1)x"},
    {R"x(layernorm rows=8 cols=1024 eps=0)x",
     R"x(layernorm: op 3 (layernorm): eps is 0, must be more than 0 in f32 and at most 1)x"},
    {R"x(rmsnorm rows=8 cols=1024 eps=1e-50)x",
     R"x(rmsnorm: op 2 (rmsnorm): eps is 1e-50, must be more than 0 in f32 and at most 1)x"},
    {R"x(softmax rows=8 cols=16 scale=-0)x",
     R"x(softmax: op 1 (softmax): scale is -0, must not be 0 in f32)x"},
    {R"x(layernorm rows=8 cols=1024 affine=yes)x",
     R"x(layernorm: affine is yes, must be 0 or 1)x"},
    {R"x(layernorm rows=8)x",
     R"x(layernorm: key cols is missing)x"},
    {R"x(softmax rows=8 cols=16 scale=inf)x",
     R"x(softmax: scale is inf, must be a finite number)x"},
    {R"x(softmax rows=8 cols=16 scale=1e300)x",
     R"x(softmax: op 1 (softmax): op 2 (scalar): value is 1e+300, too large for f32)x"},
    {R"x(masked_softmax rows=8 cols=16 mask=causal)x",
     R"x(masked_softmax: mask is causal, must be one of full row)x"},
    {R"x(residual_rmsnorm rows=8 cols=16 outputs=3)x",
     R"x(residual_rmsnorm: outputs is 3, must be one of 1 2)x"},
    {R"x(rope rows=8 heads=2 dim=5)x",
     R"x(rope: op 5 (rope): x is bf16[M,2,5], its last dimension must be a multiple of 2)x"},
    {R"x(swiglu rows=8 cols=2000000000)x",
     R"x(swiglu: op 0 (input): dimension 1 is 4000000000, must be in [1, 2^31 - 1] or M)x"},
    {R"x(matmul m=8 n=8 k=8 l=8)x",
     R"x(matmul: key is l, must be one of m n k act layout dtype bias1)x"},
    {R"x(gate_up m=8 n=8 k=8 act=relu bias2=1)x",
     R"x(gate_up: key is bias2, must be one of m n k act layout dtype bias1; did you mean bias1?)x"},
    {R"x(products m=8 k=8 n=8,x)x",
     R"x(products: n is x, must be an integer in [1, 2^31 - 1])x"},
    {R"x(products m=8 k=8 n=8,,8)x",
     R"x(products: n is , must be an integer in [1, 2^31 - 1])x"},
    {R"x(products m=8 k=8 n=8,8,8 act=relu,identity)x",
     R"x(products: act has 2 items, n has 3: must be one, or as many)x"},
    {R"x(products m=8 k=8 n=8 gated=1,0)x",
     R"x(products: gated has 2 items, n has 1: must be one, or as many)x"},
    {R"x(products m=8 k=8 n=8,8 bias=1,2)x",
     R"x(products: bias is 2, must be 0 or 1)x"},
    {R"x(products m=8 k=8 n=8,8 act=relu,swish)x",
     R"x(products: act is swish, must be one of identity relu gelu_tanh gelu_erf silu; did you mean silu?)x"},
    {R"x( # only a comment)x",
     R"x(the line is empty)x"},
};
// clang-format on

TEST(TextForm, RefusesBadInputWithItsMessage) {
  for (const BadLine& bad : kBadTexts) {
    const absl::Status status = ParseProblem(bad.input).status();
    EXPECT_EQ(status.message(), bad.message) << bad.input;
  }
}

TEST(TextForm, RefusesLongLinesAndControlCharacters) {
  EXPECT_EQ(ParseProblem(std::string(5000, 'a')).status().message(),
            "line has 5000 bytes, must be at most 4096");
  EXPECT_EQ(ParseProblem("softmax rows=1\nsoftmax rows=2").status().message(),
            "the text has more than one line");
  EXPECT_EQ(ParseProblem(absl::string_view("softmax\0", 8)).status().message(),
            "the line holds a zero byte");
  EXPECT_EQ(ParseProblem("a\x01z softmax rows=1").status().message(),
            "id is a?z, must be 1 to 64 letters, digits, '_', '-' or '.'");
  EXPECT_EQ(ParseProblem(std::string(65, 'a') + " softmax rows=1").status().message(),
            "id is aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa..., must be 1 to 64 letters, digits, "
            "'_', '-' or '.'");
}

TEST(TextForm, RefusesLongLists) {
  std::string line = "products m=8 k=8 n=8";
  for (int i = 0; i < 64; ++i) line += ",8";
  EXPECT_EQ(ParseProblem(line).status().message(),
            "products: n has 65 items, must have at most 64");
}

TEST(TextForm, NamesTheLineOfAnError) {
  EXPECT_EQ(ParseProblems("# list\nA softmax rows=1 cols=2\nB softmax rows=1\n").status().message(),
            "line 3: softmax: key cols is missing");
  EXPECT_EQ(ParseProblems("A softmax rows=1 cols=2\n\nA silu rows=1 cols=2").status().message(),
            "line 3: id A is given twice");
}

TEST(TextForm, BoundsTheProblemsOfAList) {
  std::string lines;
  for (int i = 0; i <= 16384; ++i) lines += "silu rows=1 cols=2\n";
  EXPECT_EQ(ParseProblems(lines).status().message(),
            "line 16385: a list has at most 16384 problems");
  std::string widths = "8";
  for (int i = 1; i < 64; ++i) widths += ",8";
  const std::string line = "products m=8 k=8 act=gelu_tanh gated=1 bias=1 n=" + widths + "\n";
  const size_t ops = ParseProblem(line)->chain.ops().size();
  std::string chains;
  for (size_t i = 0; i <= (1 << 20) / ops; ++i) chains += line;
  EXPECT_EQ(ParseProblems(chains).status().message(),
            absl::StrCat("line ", (1 << 20) / ops + 1,
                         ": the problems of a list have together at most 1048576 ops"));
}

}  // namespace
}  // namespace sinter
