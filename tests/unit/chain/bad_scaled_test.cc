// Bad 8-bit operands, scales and quantisers: every case with its exact message, in the builder, in
// text and in JSON.
#include <gtest/gtest.h>

#include <limits>

#include "src/chain/builder.h"
#include "src/chain/chain.h"
#include "src/chain/composites.h"
#include "src/chain/infer.h"
#include "src/chain/problem.h"
#include "tests/support/constant_dim.h"

namespace sinter {
namespace {

constexpr DType kE4M3 = DType::kE4M3, kS8 = DType::kS8, kF32 = DType::kF32;
const Dim kRows = Dim::M();

// What every case starts from.
struct Values {
  ChainBuilder b;
  ValueId a = Add(kE4M3, {kRows, C(256)}), w = Add(kE4M3, {C(300), C(256)});
  ValueId i = Add(kS8, {kRows, C(64)}), j = Add(kS8, {C(40), C(64)});
  ValueId row = Add(kF32, {kRows, C(1)}), column = Add(kF32, {C(300), C(1)});
  ValueId groups = Add(kF32, {kRows, C(2)}), blocks = Add(kF32, {C(3), C(2)});
  ValueId one = Add(kF32, {}), half = Add(DType::kBF16, {});
  ValueId x = Add(DType::kBF16, {kRows, C(300)}), wide = Add(kF32, {kRows, C(256)});
  ValueId vector = Add(kF32, {C(300)}), small_row = Add(kF32, {C(40), C(1)});

  ValueId Add(DType dtype, const std::vector<Dim>& dims) { return *b.Input({dtype, dims}); }
  ValueId Odd() { return Add(kE4M3, {kRows, C(100)}); }
  absl::Status Product(ValueId p, ValueId q, ValueId scale_p, ValueId scale_q,
                       Accumulate accumulate = Accumulate::kPromoted) {
    return b.ScaledMatmul(p, q, scale_p, scale_q, accumulate).status();
  }
  absl::Status Quantize(ValueId value, const QuantizeSpec& spec) {
    return AddQuantize(b, value, spec).status();
  }
};

struct BadScaledCase {
  absl::Status (*call)(Values&);
  const char* message;
};

QuantizeSpec Spec(Granularity granularity, DType codes = kE4M3) {
  QuantizeSpec spec;
  spec.granularity = granularity;
  spec.codes = codes;
  return spec;
}
QuantizeSpec WithEps(double eps) {
  QuantizeSpec spec;
  spec.eps = eps;
  return spec;
}
QuantizeSpec WithBound(double bound) {
  QuantizeSpec spec;
  spec.upper_bound = bound;
  return spec;
}

const BadScaledCase kBadOperands[] = {
    {[](Values& v) { return v.b.Binary(BinaryKind::kMul, v.i, v.i).status(); },
     "op 14 (mul): dtype of a is s8, of b s8: must both be floating, or both s32"},
    {[](Values& v) { return v.b.Unary(UnaryKind::kAbs, v.i).status(); },
     "op 14 (abs): dtype of a is s8, must be f32, f16, bf16 or s32"},
    {[](Values& v) { return v.b.Unary(UnaryKind::kCeilPow2, v.a).status(); },
     "op 14 (ceil_pow2): dtype of a is e4m3, must be f32, f16 or bf16"},
    {[](Values& v) { return v.b.Compare(CompareKind::kEq, v.i, v.i).status(); },
     "op 14 (eq): dtype of a is s8, of b s8: must both be floating, or both s32"},
    {[](Values& v) { return v.b.Reduce(ReduceKind::kSum, v.i, {1}).status(); },
     "op 14 (reduce): dtype of a is s8, must be floating or s32"},
    {[](Values& v) { return v.b.Iota({C(4)}, 0, kS8).status(); },
     "op 14 (iota): dtype is s8, must be s32 or f32"},
    {[](Values& v) { return v.b.Scalar(128, kS8).status(); },
     "op 14 (scalar): value is 128, must be an integer in [-128, 127] for s8"},
    {[](Values& v) { return v.b.Scalar(0.5, kS8).status(); },
     "op 14 (scalar): value is 0.5, must be an integer in [-128, 127] for s8"},
    {[](Values& v) { return v.b.Matmul(v.a, v.w).status(); },
     "op 14 (matmul): k of a is 256, k of b is 300"},
    {[](Values& v) {
       return v.b.Matmul(v.a, v.Add(kE4M3, {C(256), C(8)})).status();
     },
     "op 15 (matmul): transpose_b is false, must be true for e4m3: b is [.., n, k]"},
    {[](Values& v) {
       return v.b.Matmul(v.a, v.Add(kE4M3, {C(8), kRows}), true, true).status();
     },
     "op 15 (matmul): transpose_a is true, must be false for e4m3: a is [.., m, k]"},
    {[](Values& v) {
       return v.b.Matmul(v.i, v.Add(kS8, {C(64), C(8)})).status();
     },
     "op 15 (matmul): transpose_b is false, must be true for s8: b is [.., n, k]"},
    {[](Values& v) { return v.b.Matmul(v.a, v.x, false, true).status(); },
     "op 14 (matmul): dtype of a is e4m3, of b bf16: must both be floating, both e4m3 or both s8"},
    {[](Values& v) { return v.b.Matmul(v.i, v.a, false, true).status(); },
     "op 14 (matmul): dtype of a is s8, of b e4m3: must both be floating, both e4m3 or both s8"},
    {[](Values& v) {
       return v.b.Matmul(v.Add(kS8, {kRows, C(131072)}), v.Add(kS8, {C(8), C(131072)}), false, true)
           .status();
     },
     "op 16 (matmul): k is 131072, must be at most 131071 for s8: sums are exact in s32"},
    {[](Values& v) {
       return v.b.Matmul(v.Add(kS8, {C(8), kRows}), v.Add(kS8, {C(8), kRows}), false, true)
           .status();
     },
     "op 16 (matmul): k is M, must be at most 131071 for s8: sums are exact in s32"},
    {[](Values& v) {
       return v.b.Convolve(v.Add(kE4M3, {kRows, C(4), C(4), C(8)}), v.w).status();
     },
     "op 15 (conv2d): dtype of x is e4m3, must be f32, f16 or bf16"},
};

const BadScaledCase kBadProducts[] = {
    {[](Values& v) { return v.Product(99, v.w, v.row, v.column); },
     "op 14 (scaled_matmul): a is value 99, must be in [0, 13]"},
    {[](Values& v) { return v.Product(v.a, -1, v.row, v.column); },
     "op 14 (scaled_matmul): w is value -1, must be in [0, 13]"},
    {[](Values& v) { return v.Product(v.a, v.w, 14, v.column); },
     "op 14 (scaled_matmul): scale_a is value 14, must be in [0, 13]"},
    {[](Values& v) { return v.Product(v.a, v.w, v.row, -2); },
     "op 14 (scaled_matmul): scale_w is value -2, must be in [0, 13]"},
    {[](Values& v) { return v.Product(v.x, v.w, v.row, v.column); },
     "op 14 (scaled_matmul): dtype of a is bf16, must be e4m3 or s8"},
    {[](Values& v) { return v.Product(v.a, v.x, v.row, v.column); },
     "op 14 (scaled_matmul): dtype of w is bf16, must be e4m3 or s8"},
    {[](Values& v) { return v.Product(v.a, v.j, v.row, v.column); },
     "op 14 (scaled_matmul): dtype of a is e4m3, of w s8: must be equal"},
    {[](Values& v) {
       return v.Product(v.Add(kE4M3, {C(2), kRows, C(256)}), v.w, v.one, v.one);
     },
     "op 15 (scaled_matmul): rank of a is 3, must be 2 [m, k]"},
    {[](Values& v) { return v.Product(v.a, v.Add(kE4M3, {C(256)}), v.one, v.one); },
     "op 15 (scaled_matmul): rank of w is 1, must be 2 [n, k]"},
    {[](Values& v) {
       return v.Product(v.Add(kE4M3, {C(8), kRows}), v.w, v.one, v.one);
     },
     "op 15 (scaled_matmul): dimension 1 of a is M, must be constant"},
    {[](Values& v) { return v.Product(v.a, v.a, v.one, v.one); },
     "op 14 (scaled_matmul): dimension 0 of w is M, must be constant"},
    {[](Values& v) { return v.Product(v.Odd(), v.w, v.one, v.one); },
     "op 15 (scaled_matmul): k of a is 100, k of w is 256"},
    {[](Values& v) {
       return v.Product(v.Add(kS8, {kRows, C(1 << 20)}), v.Add(kS8, {C(8), C(1 << 20)}), v.one,
                        v.one);
     },
     "op 16 (scaled_matmul): k is 1048576, must be at most 131071 for s8: sums are exact in s32"},
    {[](Values& v) { return v.Product(v.a, v.w, v.half, v.one); },
     "op 14 (scaled_matmul): dtype of scale_a is bf16, must be f32"},
    {[](Values& v) { return v.Product(v.a, v.w, v.one, v.half); },
     "op 14 (scaled_matmul): dtype of scale_w is bf16, must be f32"},
    {[](Values& v) { return v.Product(v.a, v.w, v.one, v.vector); },
     "op 14 (scaled_matmul): dims of scale_w are [300], must be one of [], [1, 1], [300, 1], [1, "
     "2], "
     "[300, 2], [3, 2] for e4m3[300,256]"},
    {[](Values& v) { return v.Product(v.a, v.w, v.column, v.one); },
     "op 14 (scaled_matmul): dims of scale_a are [300,1], must be one of [], [1, 1], [M, 1], [1, "
     "2], "
     "[M, 2] for e4m3[M,256]"},
    {[](Values& v) { return v.Product(v.a, v.w, v.wide, v.one); },
     "op 14 (scaled_matmul): dims of scale_a are [M,256], must be one of [], [1, 1], [M, 1], [1, "
     "2], "
     "[M, 2] for e4m3[M,256]"},
    {[](Values& v) { return v.Product(v.a, v.w, v.blocks, v.one); },
     "op 14 (scaled_matmul): dims of scale_a are [3,2], must be one of [], [1, 1], [M, 1], [1, 2], "
     "[M, 2] for e4m3[M,256]"},
    {[](Values& v) {
       return v.Product(v.a, v.w, v.one, v.Add(kF32, {C(3), C(1)}));
     },
     "op 15 (scaled_matmul): dims of scale_w are [3,1], must be one of [], [1, 1], [300, 1], [1, "
     "2], "
     "[300, 2], [3, 2] for e4m3[300,256]"},
    {[](Values& v) {
       return v.Product(v.a, v.w, v.one, v.Add(kF32, {C(2), C(2)}));
     },
     "op 15 (scaled_matmul): dims of scale_w are [2,2], must be one of [], [1, 1], [300, 1], [1, "
     "2], "
     "[300, 2], [3, 2] for e4m3[300,256]"},
    {[](Values& v) {
       return v.Product(v.a, v.w, v.one, v.Add(kF32, {C(2), C(3)}));
     },
     "op 15 (scaled_matmul): dims of scale_w are [2,3], must be one of [], [1, 1], [300, 1], [1, "
     "2], "
     "[300, 2], [3, 2] for e4m3[300,256]"},
    {[](Values& v) {
       return v.Product(v.Odd(), v.Add(kE4M3, {C(300), C(100)}), v.Add(kF32, {kRows, C(2)}), v.one);
     },
     "op 17 (scaled_matmul): dims of scale_a are [M,2], must be one of [], [1, 1], [M, 1] for "
     "e4m3[M,100]: groups need k in multiples of 128"},
    {[](Values& v) {
       return v.Product(v.Add(kS8, {kRows, C(256)}), v.Add(kS8, {C(40), C(256)}), v.groups, v.one);
     },
     "op 16 (scaled_matmul): dims of scale_a are [M,2], must be one of [], [1, 1], [M, 1] for "
     "s8[M,256]: s8 has no groups of k"},
    {[](Values& v) { return v.Product(v.i, v.j, v.row, v.column); },
     "op 14 (scaled_matmul): dims of scale_w are [300,1], must be one of [], [1, 1], [40, 1] for "
     "s8[40,64]: s8 has no groups of k"},
};

const BadScaledCase kBadQuantizers[] = {
    {[](Values& v) { return v.Quantize(77, {}); },
     "op 14 (quantize): x is value 77, which does not exist"},
    {[](Values& v) { return v.Quantize(v.a, {}); },
     "op 14 (quantize): dtype of x is e4m3, must be f32, f16 or bf16"},
    {[](Values& v) { return v.Quantize(v.one, {}); },
     "op 14 (quantize): x is f32[], its last dimension must be a constant"},
    {[](Values& v) {
       return v.Quantize(v.Add(kF32, {C(8), kRows}), {});
     },
     "op 15 (quantize): x is f32[8,M], its last dimension must be a constant"},
    {[](Values& v) { return v.Quantize(v.x, Spec(Granularity::kGroup)); },
     "op 14 (quantize): x is bf16[M,300], its last dimension must be a constant multiple of 128"},
    {[](Values& v) { return v.Quantize(v.x, Spec(static_cast<Granularity>(5))); },
     "op 14 (quantize): granularity is 5, which does not exist"},
    {[](Values& v) { return v.Quantize(v.x, Spec(Granularity::kRow, DType::kBF16)); },
     "op 14 (quantize): codes are bf16, must be e4m3 or s8"},
    {[](Values& v) { return v.Quantize(v.wide, Spec(Granularity::kGroup, kS8)); },
     "op 14 (quantize): granularity is group, must be tensor, row or static for s8"},
    {[](Values& v) {
       QuantizeSpec spec = Spec(Granularity::kRow, kS8);
       spec.ue8m0 = true;
       return v.Quantize(v.x, spec);
     },
     "op 14 (quantize): ue8m0 is true, must be false for s8"},
    {[](Values& v) { return v.Quantize(v.x, WithEps(0)); },
     "op 14 (quantize): eps is 0, must be in [1e-30, 1]"},
    {[](Values& v) { return v.Quantize(v.x, WithEps(1.5)); },
     "op 14 (quantize): eps is 1.5, must be in [1e-30, 1]"},
    {[](Values& v) { return v.Quantize(v.x, WithEps(std::nan(""))); },
     "op 14 (quantize): eps is nan, must be in [1e-30, 1]"},
    {[](Values& v) { return v.Quantize(v.x, WithBound(1e-12)); },
     "op 14 (quantize): upper_bound is 1e-12, must be 0 or in [eps, 3.40282e+38], eps is 1e-10"},
    {[](Values& v) { return v.Quantize(v.x, WithBound(std::numeric_limits<double>::infinity())); },
     "op 14 (quantize): upper_bound is inf, must be 0 or in [eps, 3.40282e+38], eps is 1e-10"},
    {[](Values& v) {
       QuantizeSpec spec;
       spec.scale = v.one;
       return v.Quantize(v.x, spec);
     },
     "op 14 (quantize): scale is value 8, must be none for granularity row"},
    {[](Values& v) { return v.Quantize(v.x, Spec(Granularity::kStatic)); },
     "op 14 (quantize): scale is value -1, which does not exist"},
    {[](Values& v) {
       QuantizeSpec spec = Spec(Granularity::kStatic);
       spec.scale = v.half;
       return v.Quantize(v.x, spec);
     },
     "op 14 (quantize): scale is bf16[], must be f32[]"},
    {[](Values& v) {
       QuantizeSpec spec = Spec(Granularity::kStatic);
       spec.scale = v.row;
       return v.Quantize(v.x, spec);
     },
     "op 14 (quantize): scale is f32[M,1], must be f32[]"},
    {[](Values& v) {
       QuantizeSpec spec = Spec(Granularity::kStatic);
       spec.scale = v.one;
       spec.ue8m0 = true;
       return v.Quantize(v.x, spec);
     },
     "op 14 (quantize): ue8m0 is true, must be false for granularity static"},
    {[](Values& v) {
       QuantizeSpec spec = Spec(Granularity::kStatic);
       spec.scale = v.one;
       spec.upper_bound = 2;
       return v.Quantize(v.x, spec);
     },
     "op 14 (quantize): upper_bound is 2, must be 0 for granularity static"},
};

ScaledFfnOperands Ffn(Values& v) {
  ScaledFfnOperands in;
  in.a = {v.a, v.row};
  in.w1 = in.w_up = {v.w, v.column};
  in.w2 = {v.Add(kE4M3, {C(40), C(300)}), v.small_row};
  return in;
}
absl::Status AddFfn(Values& v, const ScaledFfnOperands& in, bool gated, const QuantizeSpec& spec) {
  return AddScaledFfn(v.b, in, gated, spec, Activation::kSilu).status();
}

constexpr Accumulate kFast = Accumulate::kFast;
const BadScaledCase kBadSums[] = {
    {[](Values& v) { return v.Product(v.i, v.j, v.row, v.small_row, kFast); },
     "op 14 (scaled_matmul): accumulate is fast, must be promoted for s8: its sums are exact"},
    {[](Values& v) { return v.Product(v.a, v.w, v.groups, v.column, kFast); },
     "op 14 (scaled_matmul): accumulate is fast, must be promoted where scale_a has a value for "
     "each 128 of k"},
    {[](Values& v) { return v.Product(v.a, v.w, v.row, v.blocks, kFast); },
     "op 14 (scaled_matmul): accumulate is fast, must be promoted where scale_w has a value for "
     "each 128 of k"},
    {[](Values& v) { return v.Product(v.a, v.w, v.row, v.column, static_cast<Accumulate>(2)); },
     "op 14 (scaled_matmul): accumulate is 2, which does not exist"},
};

const BadScaledCase kBadComposites[] = {
    {[](Values& v) {
       return AddScaledLinear(v.b, {v.a, v.row}, {v.w, v.column}, 99).status();
     },
     "op 14 (scaled_matmul): bias is value 99, which does not exist"},
    {[](Values& v) {
       return AddScaledLinear(v.b, {v.a, v.row}, {}).status();
     },
     "op 14 (scaled_matmul): a times w: w is value -1, must be in [0, 13]"},
    {[](Values& v) {
       return AddScaledLinear(v.b, {v.a, v.row}, {v.w, v.column}, v.small_row).status();
     },
     "op 14 (scaled_matmul): bias is f32[40,1], must broadcast to [M,300], as [300] does"},
    {[](Values& v) {
       ScaledFfnOperands in = Ffn(v);
       in.bias_up = v.small_row;
       return AddFfn(v, in, true, {});
     },
     "op 15 (scaled_gated_ffn): bias_up is f32[40,1], must broadcast to [M,300], as [300] does"},
    {[](Values& v) {
       ScaledFfnOperands in = Ffn(v);
       in.bias1 = v.small_row;
       return AddFfn(v, in, false, {});
     },
     "op 15 (scaled_gemm_chain): bias1 is f32[40,1], must broadcast to [M,300], as [300] does"},
    {[](Values& v) { return AddFfn(v, Ffn(v), true, Spec(Granularity::kGroup)); },
     "op 15 (scaled_gated_ffn): the quantising of c: x is f32[M,300], its last dimension must be a "
     "constant multiple of 128"},
    {[](Values& v) { return AddFfn(v, Ffn(v), false, Spec(Granularity::kRow, kS8)); },
     "op 15 (scaled_gemm_chain): c times w2: dtype of a is s8, of w e4m3: must be equal"},
    {[](Values& v) {
       ScaledFfnOperands in = Ffn(v);
       in.w2 = {v.j, v.small_row};
       return AddFfn(v, in, true, {});
     },
     "op 15 (scaled_gated_ffn): c times w_down: dtype of a is e4m3, of w s8: must be equal"},
};

template <size_t kCount>
void ExpectRefused(const BadScaledCase (&cases)[kCount]) {
  for (const BadScaledCase& bad : cases) {
    Values v;
    const absl::Status status = bad.call(v);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.message;
    EXPECT_EQ(std::string(status.message()), bad.message);
  }
}

TEST(BadScaled, OperandsAreRefusedWithTheirMessage) { ExpectRefused(kBadOperands); }
TEST(BadScaled, ProductsAreRefusedWithTheirMessage) { ExpectRefused(kBadProducts); }
TEST(BadScaled, QuantizersAreRefusedWithTheirMessage) { ExpectRefused(kBadQuantizers); }
TEST(BadScaled, SumsAreRefusedWithTheirMessage) { ExpectRefused(kBadSums); }
TEST(BadScaled, CompositesAreRefusedWithTheirMessage) { ExpectRefused(kBadComposites); }

TEST(BadScaled, ARefusedCompositeAddsNothing) {
  Values v;
  const ScaledFfnOperands in = Ffn(v);
  const int size = v.b.size();
  EXPECT_FALSE(AddFfn(v, in, true, Spec(Granularity::kGroup)).ok());
  EXPECT_EQ(v.b.size(), size);
  EXPECT_TRUE(AddFfn(v, in, true, {}).ok());
}

struct BadText {
  const char* text;
  const char* message;
};

TEST(BadScaled, TextIsRefusedWithItsMessage) {
  const BadText cases[] = {
      {"quantize rows=M cols=100 granularity=group",
       "quantize: op 1 (quantize): x is bf16[M,100], its last dimension must be a constant "
       "multiple "
       "of 128"},
      {"quantize rows=M cols=128 granularity=block",
       "quantize: granularity is block, must be one of tensor row group static"},
      {"quantize rows=M cols=128 codes=e5m2", "quantize: codes is e5m2, must be one of e4m3 s8"},
      {"quantize rows=M cols=128 codes=s8 ue8m0=1",
       "quantize: op 1 (quantize): ue8m0 is true, must be false for s8"},
      {"quantize rows=M cols=128 quantize_eps=0",
       "quantize: op 1 (quantize): eps is 0, must be in [1e-30, 1]"},
      {"quantize rows=M cols=128 dtype=s8", "quantize: dtype is s8, must be one of f32 f16 bf16"},
      {"scaled_matmul m=M n=8 k=100 scales=group",
       "scaled_matmul: columns of a are 100, must be a multiple of 128 for scales=group"},
      {"scaled_matmul m=M n=8 k=128 scales=static",
       "scaled_matmul: scales is static, must be one of tensor row group"},
      {"scaled_matmul m=M n=8 k=256 scales=group codes=s8",
       "scaled_matmul: op 4 (scaled_matmul): a times w: dims of scale_a are [M,2], must "
       "be one of [], [1, 1], [M, 1] for s8[M,256]: s8 has no groups of k"},
      {"scaled_gemm_chain m=M n=200 k=128 l=64 act=relu quantize=group",
       "scaled_gemm_chain: op 6 (scaled_gemm_chain): the quantising of c: x is f32[M,200], its "
       "last "
       "dimension must be a constant multiple of 128"},
      {"scaled_gemm_chain m=M n=200 k=128 l=64 act=relu scales=group",
       "scaled_gemm_chain: columns of w2 are 200, must be a multiple of 128 for scales=group"},
      {"scaled_gated_ffn m=M n=128 k=128 l=64 act=silu layout=io",
       "scaled_gated_ffn: key is layout, must be one of m n k l act scales quantize codes "
       "quantize_eps upper_bound ue8m0 dtype bias1 bias2 accumulate"},
      {"scaled_matmul m=M n=8 k=256 accumulate=exact",
       "scaled_matmul: accumulate is exact, must be one of promoted fast"},
      {"scaled_matmul m=M n=8 k=256 scales=group accumulate=fast",
       "scaled_matmul: op 4 (scaled_matmul): a times w: accumulate is fast, must be "
       "promoted where scale_a has a value for each 128 of k"},
      {"scaled_matmul m=M n=8 k=256 codes=s8 accumulate=fast",
       "scaled_matmul: op 4 (scaled_matmul): a times w: accumulate is fast, must be "
       "promoted for s8: its sums are exact"},
      {"scaled_gemm_chain m=M n=256 k=256 l=64 act=relu quantize=group accumulate=fast",
       "scaled_gemm_chain: op 6 (scaled_gemm_chain): c times w2: accumulate is fast, "
       "must be promoted where scale_a has a value for each 128 of k"},
  };
  for (const BadText& bad : cases)
    EXPECT_EQ(std::string(ParseProblem(bad.text).status().message()), bad.message);
}

TEST(BadScaled, JsonIsRefusedWithItsMessage) {
  const auto with = [](const std::string& op) {
    return R"({"schema":1,"inputs":[{"id":0,"dtype":"e4m3","dims":["M",128]},)"
           R"({"id":1,"dtype":"e4m3","dims":[8,128]},{"id":2,"dtype":"f32","dims":[]}],"ops":[)" +
           op + R"(],"outputs":[{"value":3}]})";
  };
  const BadText cases[] = {
      {R"({"id":3,"op":"scaled_matmul","in":[0,1,2]})",
       "ops[0]: op 3 (scaled_matmul): operands are 3, must be 4"},
      {R"({"id":3,"op":"scaled_matmul","in":[0,1,2,2],"transpose_b":true})",
       "ops[0].transpose_b: unknown key"},
      {R"({"id":3,"op":"scaled_matmul","in":[0,1,2,0]})",
       "ops[0]: op 3 (scaled_matmul): dtype of scale_w is e4m3, must be f32"},
      {R"({"id":3,"op":"scaled_matmul","in":[0,1,2,2],"dtype":"bf16"})",
       "ops[0]: type is bf16[M,8], must be f32[M,8]"},
      {R"({"id":3,"op":"scaled_matmul","in":[0,1,2,2],"accumulate":"slow"})",
       "ops[0].accumulate: accumulate is slow, must be one of promoted fast"},
      {R"({"id":3,"op":"scaled_matmul","in":[0,1,2,2],"accumulate":1})",
       "ops[0].accumulate: must be a string"},
      {R"({"id":3,"op":"matmul","in":[0,1],"accumulate":"fast"})",
       "ops[0].accumulate: unknown key"},
      {R"({"id":3,"op":"matmul","in":[0,1]})", "ops[0]: op 3 (matmul): k of a is 128, k of b is 8"},
  };
  for (const BadText& bad : cases) {
    EXPECT_EQ(std::string(ChainFromJson(with(bad.text)).status().message()), bad.message);
  }
}

TEST(ScaledMatmul, SaysWhatSharesAScale) {
  const TensorType w{kE4M3, {C(300), C(256)}};
  const auto grain = [&](const std::vector<Dim>& dims) {
    return *GrainOf("scale_w", w, {kF32, dims}, true);
  };
  const auto expect = [&](const std::vector<Dim>& dims, int64_t rows, int64_t k) {
    EXPECT_EQ(grain(dims).rows, rows) << ToString(absl::MakeConstSpan(dims));
    EXPECT_EQ(grain(dims).k, k) << ToString(absl::MakeConstSpan(dims));
  };
  expect({}, 0, 0);
  expect({C(1), C(1)}, 0, 0);
  expect({C(300), C(1)}, 1, 0);
  expect({C(1), C(2)}, 0, 128);
  expect({C(300), C(2)}, 1, 128);
  expect({C(3), C(2)}, 128, 128);
}

}  // namespace
}  // namespace sinter
