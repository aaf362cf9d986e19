// Bad calls of the builder and the composites: every case with its exact message.
#include <gtest/gtest.h>

#include <limits>

#include "src/chain/builder.h"
#include "src/chain/composites.h"
#include "tests/support/constant_dim.h"

namespace sinter {
namespace {

const double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr auto kAdd = BinaryKind::kAdd;

// Values that every case starts from: 0 x f32[M,8], 1 w bf16[4,8], 2 t s32[M,8], 3 p pred[M,8], 4 v
// f32[8] constant, 5 b f32[2,3,4], 6 s f32 scalar.
void AddValues(ChainBuilder& b) {
  ASSERT_TRUE(b.Input({DType::kF32, {kM, C(8)}}).ok());
  ASSERT_TRUE(b.Input({DType::kBF16, {C(4), C(8)}}).ok());
  ASSERT_TRUE(b.Input({DType::kS32, {kM, C(8)}}).ok());
  ASSERT_TRUE(b.Input({DType::kPred, {kM, C(8)}}).ok());
  ASSERT_TRUE(b.Input({DType::kF32, {C(8)}}, {true, {}, "v"}).ok());
  ASSERT_TRUE(b.Input({DType::kF32, {C(2), C(3), C(4)}}).ok());
  ASSERT_TRUE(b.Scalar(1.0).ok());
}

struct BadCall {
  absl::Status (*call)(ChainBuilder&);
  const char* message;
};

const BadCall kBadCalls[] = {
    {[](ChainBuilder& b) {
       return b.Input({static_cast<DType>(9), {C(2)}}).status();
     },
     "op 7 (input): dtype is 9, must be f32, f16, bf16, s32, pred, e4m3, s8 or s64"},
    {[](ChainBuilder& b) {
       return b.Input({DType::kF32, {C(2), C(-1)}}).status();
     },
     "op 7 (input): dimension 1 is -1, must be in [1, 2^31 - 1] or M"},
    {[](ChainBuilder& b) {
       return b.Input({DType::kF32, {C(1), C(1), C(1), C(1), C(1), C(1), C(1)}}).status();
     },
     "op 7 (input): rank is 7, must be at most 6"},
    {[](ChainBuilder& b) {
       return b.Input({DType::kF32, {C(1 << 20), C(1 << 20), C(2)}}).status();
     },
     "op 7 (input): elements of [1048576,1048576,2] are more than 2^40"},
    {[](ChainBuilder& b) {
       return b.Input({DType::kF32, {kM, C(4)}}, {false, {{1, 0}}, ""}).status();
     },
     "op 7 (input): strides are 1, rank is 2"},
    {[](ChainBuilder& b) {
       return b.Input({DType::kF32, {kM, C(4)}}, {false, {{-4, 0}, {1, 0}}, ""}).status();
     },
     "op 7 (input): stride 0 is -4, must be in [0, 2^40]"},
    {[](ChainBuilder& b) {
       return b.Input({DType::kF32, {kM, C(4)}}, {false, {{1, 0}, {1, 9}}, ""}).status();
     },
     "op 7 (input): power of M in stride 1 is 9, must be in [0, 5]"},
    {[](ChainBuilder& b) {
       return b.Input({DType::kF32, {kM, C(4)}}, {false, {{1, 6}, {1, 0}}, ""}).status();
     },
     "op 7 (input): power of M in stride 0 is 6, must be in [0, 5]"},
    {[](ChainBuilder& b) {
       return b.Input({DType::kF32, {kM, C(4)}}, {false, {{1, -1}, {1, 0}}, ""}).status();
     },
     "op 7 (input): power of M in stride 0 is -1, must be in [0, 5]"},
    {[](ChainBuilder& b) { return b.Scalar(kNaN).status(); },
     "op 7 (scalar): value is nan, must be a number"},
    {[](ChainBuilder& b) { return b.Scalar(1e39).status(); },
     "op 7 (scalar): value is 1e+39, too large for f32"},
    {[](ChainBuilder& b) { return b.Scalar(70000, DType::kF16).status(); },
     "op 7 (scalar): value is 70000, too large for f16"},
    {[](ChainBuilder& b) { return b.Scalar(449, DType::kE4M3).status(); },
     "op 7 (scalar): value is 449, too large for e4m3"},
    {[](ChainBuilder& b) { return b.Scalar(-kInf, DType::kE4M3).status(); },
     "op 7 (scalar): value is -inf, too large for e4m3"},
    {[](ChainBuilder& b) { return b.Scalar(0.5, DType::kS32).status(); },
     "op 7 (scalar): value is 0.5, must be an integer in [-2^31, 2^31 - 1] for s32"},
    {[](ChainBuilder& b) { return b.Scalar(2147483648.0, DType::kS32).status(); },
     "op 7 (scalar): value is 2.14748e+09, must be an integer in [-2^31, 2^31 - 1] for "
     "s32"},
    {[](ChainBuilder& b) { return b.Scalar(2, DType::kPred).status(); },
     "op 7 (scalar): value is 2, must be 0 or 1 for pred"},
    {[](ChainBuilder& b) { return b.Scalar(1, static_cast<DType>(0)).status(); },
     "op 7 (scalar): dtype is 0, must be f32, f16, bf16, s32, pred, e4m3, s8 or s64"},
    {[](ChainBuilder& b) {
       return b.Iota({kM, C(4)}, 2, DType::kS32).status();
     },
     "op 7 (iota): axis is 2, must be in [0, 1]"},
    {[](ChainBuilder& b) {
       return b.Iota({kM, C(4)}, 0, DType::kBF16).status();
     },
     "op 7 (iota): dtype is bf16, must be s32 or f32"},
    {[](ChainBuilder& b) {
       return b.Iota({kM, C(0)}, 0, DType::kS32).status();
     },
     "op 7 (iota): dimension 1 is 0, must be in [1, 2^31 - 1] or M"},
    {[](ChainBuilder& b) { return b.Matmul(0, 1).status(); },
     "op 7 (matmul): k of a is 8, k of b is 4"},
    {[](ChainBuilder& b) { return b.Matmul(0, 9).status(); },
     "op 7 (matmul): b is value 9, must be in [0, 6]"},
    {[](ChainBuilder& b) { return b.Matmul(-1, 1).status(); },
     "op 7 (matmul): a is value -1, must be in [0, 6]"},
    {[](ChainBuilder& b) { return b.Matmul(0, 2).status(); },
     "op 7 (matmul): dtype of b is s32, must be f32, f16, bf16, e4m3 or s8"},
    {[](ChainBuilder& b) { return b.Matmul(3, 0).status(); },
     "op 7 (matmul): dtype of a is pred, must be f32, f16, bf16, e4m3 or s8"},
    {[](ChainBuilder& b) { return b.Matmul(4, 0).status(); },
     "op 7 (matmul): rank of a is 1, must be at least 2"},
    {[](ChainBuilder& b) { return b.Matmul(0, 4).status(); },
     "op 7 (matmul): rank of b is 1, must be at least 2"},
    {[](ChainBuilder& b) { return b.Matmul(0, 1, true, true).status(); },
     "op 7 (matmul): k of a is M, k of b is 8"},
    {[](ChainBuilder& b) { return b.Unary(static_cast<UnaryKind>(0), 0).status(); },
     "op 7 (unary): kind is 0, which does not exist"},
    {[](ChainBuilder& b) { return b.Unary(UnaryKind::kExp, 2).status(); },
     "op 7 (exp): dtype of a is s32, must be f32, f16 or bf16"},
    {[](ChainBuilder& b) { return b.Unary(UnaryKind::kNot, 0).status(); },
     "op 7 (not): dtype of a is f32, must be pred"},
    {[](ChainBuilder& b) { return b.Unary(UnaryKind::kNeg, 3).status(); },
     "op 7 (neg): dtype of a is pred, must be f32, f16, bf16 or s32"},
    {[](ChainBuilder& b) { return b.Binary(static_cast<BinaryKind>(77), 0, 0).status(); },
     "op 7 (binary): kind is 77, which does not exist"},
    {[](ChainBuilder& b) { return b.Binary(kAdd, 0, 1).status(); },
     "op 7 (add): a is f32[M,8], b is bf16[4,8]: dims must be equal, or one of rank 0"},
    {[](ChainBuilder& b) { return b.Binary(kAdd, 0, 2).status(); },
     "op 7 (add): dtype of a is f32, of b s32: must both be floating, or both s32"},
    {[](ChainBuilder& b) { return b.Binary(kAdd, 3, 3).status(); },
     "op 7 (add): dtype of a is pred, of b pred: must both be floating, or both s32"},
    {[](ChainBuilder& b) { return b.Binary(BinaryKind::kDiv, 2, 2).status(); },
     "op 7 (div): dtype of a is s32, of b s32: must both be floating"},
    {[](ChainBuilder& b) { return b.Binary(BinaryKind::kAnd, 0, 3).status(); },
     "op 7 (and): dtype of a is f32, of b pred: must both be pred"},
    {[](ChainBuilder& b) { return b.Binary(kAdd, 0, 7).status(); },
     "op 7 (add): b is value 7, must be in [0, 6]"},
    {[](ChainBuilder& b) { return b.Compare(CompareKind::kEq, 0, 2).status(); },
     "op 7 (eq): dtype of a is f32, of b s32: must both be floating, or both s32"},
    {[](ChainBuilder& b) { return b.Compare(CompareKind::kEq, 3, 3).status(); },
     "op 7 (eq): dtype of a is pred, of b pred: must both be floating, or both s32"},
    {[](ChainBuilder& b) { return b.Compare(static_cast<CompareKind>(-1), 0, 0).status(); },
     "op 7 (compare): kind is -1, which does not exist"},
    {[](ChainBuilder& b) { return b.Select(0, 0, 0).status(); },
     "op 7 (select): dtype of condition is f32, must be pred"},
    {[](ChainBuilder& b) { return b.Select(3, 0, 2).status(); },
     "op 7 (select): dtype of a is f32, of b s32: must both be floating, or equal"},
    {[](ChainBuilder& b) { return b.Select(3, 4, 4).status(); },
     "op 7 (select): condition is pred[M,8], a and b have dims [8]: must be equal, or of rank 0"},
    {[](ChainBuilder& b) { return b.Select(12, 0, 0).status(); },
     "op 7 (select): condition is value 12, must be in [0, 6]"},
    {[](ChainBuilder& b) { return b.Cast(0, static_cast<DType>(99)).status(); },
     "op 7 (cast): dtype is 99, must be f32, f16, bf16, s32, pred, e4m3, s8 or s64"},
    {[](ChainBuilder& b) { return b.Broadcast(0, {C(8)}).status(); },
     "op 7 (broadcast): rank of the result is 1, must be at least that of a, 2"},
    {[](ChainBuilder& b) {
       return b.Broadcast(4, {kM, C(9)}).status();
     },
     "op 7 (broadcast): dimension 0 of a is 8, must be 1 or 9 for dims [M,9]"},
    {[](ChainBuilder& b) {
       return b.Broadcast(4, {kM, C(0)}).status();
     },
     "op 7 (broadcast): dimension 1 is 0, must be in [1, 2^31 - 1] or M"},
    {[](ChainBuilder& b) { return b.Transpose(0, {0}).status(); },
     "op 7 (transpose): permutation has 1 axes, rank of a is 2"},
    {[](ChainBuilder& b) {
       return b.Transpose(0, {0, 2}).status();
     },
     "op 7 (transpose): axis is 2, must be in [0, 1]"},
    {[](ChainBuilder& b) {
       return b.Transpose(0, {1, 1}).status();
     },
     "op 7 (transpose): axis 1 is given twice"},
    {[](ChainBuilder& b) { return b.Reshape(0, {C(8)}).status(); },
     "op 7 (reshape): elements of a are 8*M, of the result 8"},
    {[](ChainBuilder& b) {
       return b.Reshape(5, {C(5), C(5)}).status();
     },
     "op 7 (reshape): elements of a are 24, of the result 25"},
    {[](ChainBuilder& b) {
       return b.Reshape(0, {kM, kM, C(8)}).status();
     },
     "op 7 (reshape): elements of a are 8*M, of the result 8*M^2"},
    {[](ChainBuilder& b) {
       return b.Slice(0, {0}, {C(1), C(1)}).status();
     },
     "op 7 (slice): starts are 1, rank of a is 2"},
    {[](ChainBuilder& b) {
       return b.Slice(0, {0, 0}, {kM}).status();
     },
     "op 7 (slice): limits are 1, rank of a is 2"},
    {[](ChainBuilder& b) {
       return b.Slice(0, {0, 0}, {kM, C(4)}, {1}).status();
     },
     "op 7 (slice): steps are 1, rank of a is 2"},
    {[](ChainBuilder& b) {
       return b.Slice(0, {1, 0}, {kM, C(4)}).status();
     },
     "op 7 (slice): axis 0 is M and must be taken whole: start 0, limit M, step 1"},
    {[](ChainBuilder& b) {
       return b.Slice(0, {0, 0}, {kM, kM}).status();
     },
     "op 7 (slice): limit 1 is M, must be in [1, 8]"},
    {[](ChainBuilder& b) {
       return b.Slice(0, {0, 4}, {kM, C(4)}).status();
     },
     "op 7 (slice): start 1 is 4, must be in [0, 3]"},
    {[](ChainBuilder& b) {
       return b.Slice(0, {0, -1}, {kM, C(4)}).status();
     },
     "op 7 (slice): start 1 is -1, must be in [0, 3]"},
    {[](ChainBuilder& b) {
       return b.Slice(0, {0, 0}, {kM, C(9)}).status();
     },
     "op 7 (slice): limit 1 is 9, must be in [1, 8]"},
    {[](ChainBuilder& b) {
       return b.Slice(0, {0, 0}, {kM, C(4)}, {1, 0}).status();
     },
     "op 7 (slice): step 1 is 0, must be in [1, 2^31 - 1]"},
    {[](ChainBuilder& b) { return b.Concat({}, 0).status(); },
     "op 7 (concat): operands are 0, must be in [1, 64]"},
    {[](ChainBuilder& b) {
       return b.Concat({0, 2}, 1).status();
     },
     "op 7 (concat): operand 1 is s32[M,8], operand 0 is f32[M,8]: must be equal but for axis 1"},
    {[](ChainBuilder& b) {
       return b.Concat({0, 0}, 0).status();
     },
     "op 7 (concat): axis 0 of operand 0 is M, must be constant"},
    {[](ChainBuilder& b) {
       return b.Concat({0, 0}, 2).status();
     },
     "op 7 (concat): axis is 2, must be in [0, 1]"},
    {[](ChainBuilder& b) {
       return b.Concat({0, 8}, 1).status();
     },
     "op 7 (concat): operand 1 is value 8, must be in [0, 6]"},
    {[](ChainBuilder& b) { return b.Reduce(ReduceKind::kSum, 0, {}).status(); },
     "op 7 (reduce): axes are empty, at least one is needed"},
    {[](ChainBuilder& b) { return b.Reduce(ReduceKind::kSum, 0, {2}).status(); },
     "op 7 (reduce): axis is 2, must be in [0, 1]"},
    {[](ChainBuilder& b) { return b.Reduce(ReduceKind::kSum, 6, {0}).status(); },
     "op 7 (reduce): axis is 0, a tensor of rank 0 has none"},
    {[](ChainBuilder& b) {
       return b.Concat({6, 6}, 0).status();
     },
     "op 7 (concat): axis is 0, a tensor of rank 0 has none"},
    {[](ChainBuilder& b) { return b.Iota({}, -1, DType::kS32).status(); },
     "op 7 (iota): axis is -1, a tensor of rank 0 has none"},
    {[](ChainBuilder& b) {
       return b.Reduce(ReduceKind::kSum, 0, {1, 1}).status();
     },
     "op 7 (reduce): axis 1 is given twice"},
    {[](ChainBuilder& b) { return b.Reduce(ReduceKind::kSum, 3, {1}).status(); },
     "op 7 (reduce): dtype of a is pred, must be floating or s32"},
    {[](ChainBuilder& b) { return b.Reduce(ReduceKind::kMean, 2, {1}).status(); },
     "op 7 (reduce): dtype of a is s32, must be floating"},
    {[](ChainBuilder& b) { return b.Reduce(static_cast<ReduceKind>(5), 0, {1}).status(); },
     "op 7 (reduce): kind is 5, which does not exist"},
    {[](ChainBuilder& b) { return b.Output(7); },
     "output 0: value is 7, must be one of the 7 added"},
    {[](ChainBuilder& b) {
       return b.Output(0, {{{8, 0}}, -1});
     },
     "output 0: strides are 1, rank is 2"},
    {[](ChainBuilder& b) {
       return b.Output(0, {{{4, 0}, {1, 0}}, -1});
     },
     "output 0: stride 0 of [4,1] for dims [M,8] makes elements overlap"},
    {[](ChainBuilder& b) {
       return b.Output(0, {{{0, 0}, {1, 0}}, -1});
     },
     "output 0: stride 0 of [0,1] for dims [M,8] makes elements overlap"},
    {[](ChainBuilder& b) {
       return b.Output(0, {{}, 1});
     },
     "output 0: alias is bf16[4,8] with strides [8,1], the output f32[M,8] with strides [8,1]: "
     "must be equal"},
    {[](ChainBuilder& b) {
       return b.Output(0, {{}, 6});
     },
     "output 0: alias is value 6, must be an input"},
    {[](ChainBuilder& b) {
       return b.Output(4, {{}, 4});
     },
     "output 0: alias is value 4, a constant input, which is never written"},
    {[](ChainBuilder& b) { return AddSoftmax(b, 0, 2).status(); },
     "op 7 (softmax): axis is 2, must be in [-2, 1]"},
    {[](ChainBuilder& b) { return AddSoftmax(b, 9, 0).status(); },
     "op 7 (softmax): x is value 9, which does not exist"},
    {[](ChainBuilder& b) { return AddSoftmax(b, 0, -1, 1.0, 1).status(); },
     "op 7 (softmax): mask is bf16[4,8], must broadcast to [M,8], as [8] does"},
    {[](ChainBuilder& b) { return AddSoftmax(b, 0, -1, 1.0, 3).status(); },
     "op 7 (softmax): mask is pred[M,8], must be a number, which is added: select 0 or -inf by it"},
    {[](ChainBuilder& b) { return AddSoftmax(b, 2, 3).status(); },
     "op 7 (softmax): axis is 3, must be in [-2, 1]"},
    {[](ChainBuilder& b) { return AddSoftmax(b, 0, -1, 0).status(); },
     "op 7 (softmax): scale is 0, must not be 0 in f32"},
    {[](ChainBuilder& b) { return AddAttention(b, 0, 0, 20).status(); },
     "op 7 (attention): v is value 20, which does not exist"},
    {[](ChainBuilder& b) { return AddAttention(b, 0, 1, 0).status(); },
     "op 7 (attention): k is bf16[4,8], must have q's dtype, f32: cast it"},
    {[](ChainBuilder& b) { return AddAttention(b, 0, 4, 0).status(); },
     "op 7 (attention): k is f32[8], must be [.., keys, d]"},
    {[](ChainBuilder& b) { return AddAttention(b, 0, 5, 5).status(); },
     "op 7 (attention): k is f32[2,3,4], must have 8 columns: q is f32[M,8]"},
    {[](ChainBuilder& b) { return AddAttention(b, 5, 5, 0).status(); },
     "op 7 (attention): v is f32[M,8], must have 3 rows: k is f32[2,3,4]"},
    {[](ChainBuilder& b) {
       AttentionOptions options;
       options.scale = kNaN;
       return AddAttention(b, 0, 0, 0, options).status();
     },
     "op 7 (attention): scale is nan, must be finite and not 0 in f32"},
    {[](ChainBuilder& b) {
       AttentionOptions options;
       options.bias = 3;
       return AddAttention(b, 5, 5, 5, options).status();
     },
     "op 7 (attention): bias is pred[M,8], must be a number, which is added: a pred is a mask"},
    {[](ChainBuilder& b) {
       AttentionOptions options;
       options.mask = 3;
       return AddAttention(b, 5, 5, 5, options).status();
     },
     "op 7 (attention): mask is pred[M,8], must broadcast to the scores' [2,3,3]"},
    {[](ChainBuilder& b) {
       AttentionOptions options;
       options.mask = 5;
       return AddAttention(b, 5, 5, 5, options).status();
     },
     "op 7 (attention): mask is f32[2,3,4], must be pred: numbers are a bias"},
    {[](ChainBuilder& b) { return AddLayerNorm(b, 0, -1).status(); },
     "op 7 (layernorm): eps is -1, must be more than 0 in f32 and at most 1"},
    {[](ChainBuilder& b) { return AddLayerNorm(b, 0, 1e-5, 5).status(); },
     "op 7 (layernorm): gamma is f32[2,3,4], must broadcast to [M,8], as [8] does"},
    {[](ChainBuilder& b) { return AddLayerNorm(b, 0, 1e-5, 4, 2).status(); },
     "op 7 (layernorm): beta is s32[M,8], must be f32, f16 or bf16: cast it"},
    {[](ChainBuilder& b) { return AddLayerNorm(b, 0, 1e-5, 4, 1).status(); },
     "op 7 (layernorm): beta is bf16[4,8], must broadcast to [M,8], as [8] does"},
    {[](ChainBuilder& b) { return AddRmsNorm(b, 0, 1e-6, 3).status(); },
     "op 7 (rmsnorm): gamma is pred[M,8], must be f32, f16 or bf16: cast it"},
    {[](ChainBuilder& b) { return AddRmsNorm(b, 5, 1e-6, 4).status(); },
     "op 7 (rmsnorm): gamma is f32[8], must broadcast to [2,3,4], as [4] does"},
    {[](ChainBuilder& b) { return AddLayerNorm(b, 6, 1e-5).status(); },
     "op 7 (layernorm): rank of x is 0, must be at least 1"},
    {[](ChainBuilder& b) { return AddRmsNorm(b, 0, kNaN).status(); },
     "op 7 (rmsnorm): eps is nan, must be more than 0 in f32 and at most 1"},
    {[](ChainBuilder& b) { return AddRmsNorm(b, 0, 1e-6, 20).status(); },
     "op 7 (rmsnorm): gamma is value 20, which does not exist"},
    {[](ChainBuilder& b) { return AddRope(b, 5, 0, 0).status(); },
     "op 7 (rope): cos is f32[M,8], must broadcast to [2,3,2], as [2] does"},
    {[](ChainBuilder& b) { return AddRope(b, 5, 6, 4).status(); },
     "op 7 (rope): sin is f32[8], must broadcast to [2,3,2], as [2] does"},
    {[](ChainBuilder& b) { return AddRope(b, 6, 0, 0).status(); },
     "op 7 (rope): x is f32[], its last dimension must be a multiple of 2"},
    {[](ChainBuilder& b) { return AddLstmCell(b, 5, 40).status(); },
     "op 7 (lstm_cell): c is value 40, which does not exist"},
    {[](ChainBuilder& b) { return AddLstmCell(b, 0, 0).status(); },
     "op 7 (lstm_cell): c is f32[M,8], must have the dims [M,2]: a quarter of gates"},
    {[](ChainBuilder& b) { return AddGruCell(b, 0, 0, 0).status(); },
     "op 7 (gru_cell): xg is f32[M,8], its last dimension must be a multiple of 3"},
    {[](ChainBuilder& b) { return AddActivation(b, Activation::kRelu, 3).status(); },
     "op 7 (relu): x is pred[M,8], must be f32, f16 or bf16: cast it"},
    {[](ChainBuilder& b) { return AddSwiglu(b, 0, 1).status(); },
     "op 7 (swiglu): up is bf16[4,8], must have the dims [M,8]: those of gate"},
    {[](ChainBuilder& b) { return AddLinear(b, 0, 1, 2, Layout::kOI).status(); },
     "op 7 (linear): bias is s32[M,8], must be f32, f16 or bf16: cast it"},
    {[](ChainBuilder& b) { return AddLinear(b, 4, 1, kNoValue, Layout::kOI).status(); },
     "op 7 (linear): x is f32[8], its rank must be at least 2"},
    {[](ChainBuilder& b) { return AddLinear(b, 0, 4, kNoValue, Layout::kOI).status(); },
     "op 7 (linear): w is f32[8], must be [n,8] in layout oi: x is f32[M,8]"},
    {[](ChainBuilder& b) { return AddLinear(b, 0, 2, kNoValue, Layout::kOI).status(); },
     "op 7 (linear): w is s32[M,8], must be f32, f16, bf16, e4m3 or s8"},
    {[](ChainBuilder& b) { return AddActivation(b, static_cast<Activation>(8), 0).status(); },
     "op 7 (activation): act is 8, which does not exist"},
    {[](ChainBuilder& b) { return AddActivation(b, Activation::kIdentity, 8).status(); },
     "op 7 (identity): x is value 8, which does not exist"},
    {[](ChainBuilder& b) { return AddSilu(b, -1).status(); },
     "op 7 (silu): x is value -1, which does not exist"},
    {[](ChainBuilder& b) { return AddSwiglu(b, 0, 30).status(); },
     "op 7 (swiglu): up is value 30, which does not exist"},
    {[](ChainBuilder& b) { return AddLinear(b, 0, 1, kNoValue, static_cast<Layout>(0)).status(); },
     "op 7 (linear): layout is 0, must be oi or io"},
    {[](ChainBuilder& b) { return AddLinear(b, 0, 1, kNoValue, Layout::kIO).status(); },
     "op 7 (linear): w is bf16[4,8], must be [8,n] in layout io: x is f32[M,8]"},
    {[](ChainBuilder& b) { return AddLinear(b, 0, 1, 4, Layout::kOI).status(); },
     "op 7 (linear): bias is f32[8], must broadcast to [M,4], as [4] does"},
    {[](ChainBuilder& b) {
       return AddGemmChain(b, {5, 1, -1, 1, -1}, Activation::kRelu, Layout::kOI).status();
     },
     "op 7 (gemm_chain): a is f32[2,3,4], its rank must be 2"},
    {[](ChainBuilder& b) {
       return AddGemmChain(b, {0, 1, -1, 1, -1}, Activation::kRelu, Layout::kOI).status();
     },
     "op 7 (gemm_chain): w1 is bf16[4,8], must be of a's dtype f32 and rank 2"},
    {[](ChainBuilder& b) {
       return AddGemmChain(b, {1, 1, 4, 1, -1}, Activation::kRelu, Layout::kOI).status();
     },
     "op 7 (gemm_chain): bias1 is f32[8], must be of a's dtype bf16 and rank 1"},
    {[](ChainBuilder& b) {
       return AddGemmChain(b, {1, 1, -1, 1, -1}, Activation::kRelu, Layout::kOI).status();
     },
     "op 7 (gemm_chain): w2 is bf16[4,8], must be [n,4] in layout oi: c is f32[4,4]"},
    {[](ChainBuilder& b) {
       return AddGatedFfn(b, {1, 1, 1, -1, -1, -1, -1}, Activation::kSilu, Layout::kOI).status();
     },
     "op 7 (gated_ffn): w_down is value -1, which does not exist"},
};

TEST(Builder, RefusesBadCallsWithTheirMessageAndStaysAsItWas) {
  for (const BadCall& bad : kBadCalls) {
    ChainBuilder b;
    AddValues(b);
    const absl::Status status = bad.call(b);
    EXPECT_EQ(std::string(status.message()), bad.message);
    EXPECT_EQ(b.size(), 7) << bad.message;
  }
}

// Cases that start from three values more: 7 i s64[M], 8 j s32[M], 9 a view of 7, s64[M,1].
const BadCall kBadGathers[] = {
    {[](ChainBuilder& b) { return b.Gather(1, 10).status(); },
     "op 10 (gather): ids is value 10, must be in [0, 9]"},
    {[](ChainBuilder& b) { return b.Gather(-1, 8).status(); },
     "op 10 (gather): x is value -1, must be in [0, 9]"},
    {[](ChainBuilder& b) { return b.Gather(1, 4).status(); },
     "op 10 (gather): dtype of ids is f32, must be s32 or s64: cast it to s32"},
    {[](ChainBuilder& b) { return b.Gather(6, 8).status(); },
     "op 10 (gather): rank of x is 0, must be at least 1"},
    {[](ChainBuilder& b) { return b.Gather(5, 8, 1).status(); },
     "op 10 (gather): axis is 1, must be 0, for rows of x, or 2, its last axis: transpose x for "
     "another one"},
    {[](ChainBuilder& b) { return b.Gather(5, 8, -2).status(); },
     "op 10 (gather): axis is -2, must be 0, for rows of x, or 2, its last axis: transpose x for "
     "another one"},
    {[](ChainBuilder& b) {
       const ValueId ids = *b.Input({DType::kS32, {C(1), C(1), C(1), C(1), C(1)}});
       const absl::Status status = b.Gather(5, ids).status();
       return status.ok() || ids != 10 ? absl::OkStatus() : status;
     },
     "op 11 (gather): rank of ids is 5, must be at most 4: the result has as many axes and 2 of x"},
    {[](ChainBuilder& b) { return b.Gather(0, 8, 1).status(); },
     "op 10 (gather): dims of ids are [M], of x [M,8]: must be equal but for axis 1"},
    {[](ChainBuilder& b) { return b.Gather(1, 2, -1).status(); },
     "op 10 (gather): dims of ids are [M,8], of x [4,8]: must be equal but for axis 1"},
    {[](ChainBuilder& b) {
       const ValueId turned = *b.Transpose(0, {1, 0});
       return b.Gather(turned, 2, -1).status();
     },
     "op 11 (gather): axis 1 of x is M, must be constant: only rows of M are gathered"},
    {[](ChainBuilder& b) { return b.Scatter(1, 8, 10).status(); },
     "op 10 (scatter): rows is value 10, must be in [0, 9]"},
    {[](ChainBuilder& b) { return b.Scatter(1, 10, 0).status(); },
     "op 10 (scatter): ids is value 10, must be in [0, 9]"},
    {[](ChainBuilder& b) { return b.Scatter(-1, 8, 0).status(); },
     "op 10 (scatter): x is value -1, must be in [0, 9]"},
    {[](ChainBuilder& b) { return b.Scatter(1, 4, 0).status(); },
     "op 10 (scatter): dtype of ids is f32, must be s32 or s64: cast it to s32"},
    {[](ChainBuilder& b) { return b.Scatter(6, 8, 0).status(); },
     "op 10 (scatter): rank of x is 0, must be at least 1"},
    {[](ChainBuilder& b) { return b.Scatter(1, 8, 2).status(); },
     "op 10 (scatter): dtype of rows is s32, must be x's, bf16: cast them"},
    {[](ChainBuilder& b) { return b.Scatter(0, 9, 0).status(); },
     "op 10 (scatter): dims of rows are [M,8], must be [M,1,8]: those of ids, then x's behind its "
     "rows"},
    {[](ChainBuilder& b) { return b.Scatter(7, 8, 7).status(); },
     "op 10 (scatter): dtype of operand 0 is s64, which only ids of a gather or "
     "scatter and the seed and offset of a random may be, as an input or a view of one: use s32"},
    {[](ChainBuilder& b) { return b.Gather(7, 8).status(); },
     "op 10 (gather): dtype of operand 0 is s64, which only ids of a gather or "
     "scatter and the seed and offset of a random may be, as an input or a view of one: use s32"},
    {[](ChainBuilder& b) { return b.Binary(kAdd, 7, 7).status(); },
     "op 10 (add): dtype of operand 0 is s64, which only ids of a gather or "
     "scatter and the seed and offset of a random may be, as an input or a view of one: use s32"},
    {[](ChainBuilder& b) { return b.Cast(9, DType::kS32).status(); },
     "op 10 (cast): dtype of operand 0 is s64, which only ids of a gather or "
     "scatter and the seed and offset of a random may be, as an input or a view of one: use s32"},
    {[](ChainBuilder& b) { return b.Cast(8, DType::kS64).status(); },
     "op 10 (cast): dtype is s64, which only ids of a gather or "
     "scatter and the seed and offset of a random may be, as an input or a view of one: use s32"},
    {[](ChainBuilder& b) { return b.Scalar(3, DType::kS64).status(); },
     "op 10 (scalar): dtype is s64, which only ids of a gather or "
     "scatter and the seed and offset of a random may be, as an input or a view of one: use s32"},
    {[](ChainBuilder& b) {
       return b.Concat({9, 9}, 1).status();
     },
     "op 10 (concat): dtype of operand 0 is s64, which only ids of a gather or "
     "scatter and the seed and offset of a random may be, as an input or a view of one: use s32"},
    {[](ChainBuilder& b) { return b.Output(9); },
     "output 0: value 9 is s64, which only ids of a gather or scatter and the seed and offset of a "
     "random may be"},
};

TEST(Builder, RefusesBadGathersAndScattersAndOtherUsesOfTheirIds) {
  for (const BadCall& bad : kBadGathers) {
    ChainBuilder b;
    AddValues(b);
    ASSERT_EQ(*b.Input({DType::kS64, {kM}}), 7);
    ASSERT_EQ(*b.Input({DType::kS32, {kM}}), 8);
    ASSERT_EQ(*b.Reshape(7, {kM, C(1)}), 9);
    EXPECT_EQ(std::string(bad.call(b).message()), bad.message);
  }
}

// Cases that start from three values more: 7 seed s64[], 8 p pred[M,8], 9 turned f32[8,M].
const BadCall kBadRowSteps[] = {
    {[](ChainBuilder& b) { return b.TopK(10, 1).status(); },
     "op 10 (top_k): x is value 10, must be in [0, 9]"},
    {[](ChainBuilder& b) { return b.TopK(8, 1).status(); },
     "op 10 (top_k): dtype of x is pred, must be floating or s32: cast it"},
    {[](ChainBuilder& b) { return b.TopK(6, 1).status(); },
     "op 10 (top_k): rank of x is 0, must be at least 1"},
    {[](ChainBuilder& b) { return b.TopK(9, 1).status(); },
     "op 10 (top_k): axis 1 of x is M, must be constant: only rows of M are taken"},
    {[](ChainBuilder& b) { return b.TopK(0, 0).status(); },
     "op 10 (top_k): count is 0, must be in [1, 8]: a row has no more elements"},
    {[](ChainBuilder& b) { return b.TopK(0, 9).status(); },
     "op 10 (top_k): count is 9, must be in [1, 8]: a row has no more elements"},
    {[](ChainBuilder& b) {
       const ValueId wide = *b.Broadcast(6, {C(99)});
       const absl::Status status = b.TopK(wide, 33).status();
       return status;
     },
     "op 11 (top_k): count is 33, must be in [1, 32]: more are no op of a chain"},
    {[](ChainBuilder& b) { return b.TopK(0, -(int64_t{1} << 62)).status(); },
     "op 10 (top_k): count is -4611686018427387904, must be in [1, 8]: a row has no more elements"},
    {[](ChainBuilder& b) { return b.TopK(7, 1).status(); },
     "op 10 (top_k): dtype of operand 0 is s64, which only ids of a gather or "
     "scatter and the seed and offset of a random may be, as an input or a view of one: use s32"},
    {[](ChainBuilder& b) { return AddArgmax(b, 8).status(); },
     "op 10 (argmax): x is pred[M,8], must be f32, f16 or bf16: cast it"},
    {[](ChainBuilder& b) { return AddArgmin(b, 9).status(); },
     "op 10 (argmin): axis 1 of x is M, must be constant: only rows of M are taken"},
    {[](ChainBuilder& b) { return AddArgmax(b, 6).status(); },
     "op 10 (argmax): rank of x is 0, must be at least 1"},
    {[](ChainBuilder& b) { return AddArgmin(b, 77).status(); },
     "op 10 (argmin): x is value 77, which does not exist"},
    {[](ChainBuilder& b) { return b.Scan(ReduceKind::kMax, 0).status(); },
     "op 10 (scan): kind is max, must be sum"},
    {[](ChainBuilder& b) { return b.Scan(static_cast<ReduceKind>(9), 0).status(); },
     "op 10 (scan): kind is 9, which does not exist"},
    {[](ChainBuilder& b) { return b.Scan(ReduceKind::kSum, -1).status(); },
     "op 10 (scan): x is value -1, must be in [0, 9]"},
    {[](ChainBuilder& b) { return b.Scan(ReduceKind::kSum, 8).status(); },
     "op 10 (scan): dtype of x is pred, must be floating or s32: cast it"},
    {[](ChainBuilder& b) { return b.Scan(ReduceKind::kSum, 9).status(); },
     "op 10 (scan): axis 1 of x is M, must be constant: only rows of M are taken"},
    {[](ChainBuilder& b) { return b.Random({kM}, 10, 7).status(); },
     "op 10 (random): seed is value 10, must be in [0, 9]"},
    {[](ChainBuilder& b) { return b.Random({kM}, 7, 10).status(); },
     "op 10 (random): offset is value 10, must be in [0, 9]"},
    {[](ChainBuilder& b) { return b.Random({kM}, 6, 7).status(); },
     "op 10 (random): dtype of seed is f32, must be s32 or s64"},
    {[](ChainBuilder& b) { return b.Random({kM}, 7, 2).status(); },
     "op 10 (random): rank of offset is 2, must be 0: reshape one element to []"},
    {[](ChainBuilder& b) { return b.Random({C(0)}, 7, 7).status(); },
     "op 10 (random): dimension 0 is 0, must be in [1, 2^31 - 1] or M"},
};

TEST(Builder, RefusesBadStepsOfRowsAndRandomNumbers) {
  for (const BadCall& bad : kBadRowSteps) {
    ChainBuilder b;
    AddValues(b);
    ASSERT_EQ(*b.Input({DType::kS64, {}}), 7);
    ASSERT_EQ(*b.Compare(CompareKind::kLt, 0, 0), 8);
    ASSERT_EQ(*b.Transpose(0, {1, 0}), 9);
    EXPECT_EQ(std::string(bad.call(b).message()), bad.message);
  }
}

// Cases that start from three values more: 7 x f32[M,5,4,8], 8 a scalar, 9 w f32[8,3,3,1].
const BadCall kBadWindows[] = {
    {[](ChainBuilder& b) {
       return b.Window(7, 10, {3, 3}).status();
     },
     "op 10 (window): fill is value 10, must be in [0, 9]"},
    {[](ChainBuilder& b) {
       return b.Window(0, 8, {3, 3}).status();
     },
     "op 10 (window): rank of x is 2, must be 4 ([batch, height, width, channels])"},
    {[](ChainBuilder& b) {
       return b.Window(7, 9, {3, 3}).status();
     },
     "op 10 (window): rank of fill is 4, must be 0"},
    {[](ChainBuilder& b) {
       return b.Window(7, *b.Scalar(0, DType::kBF16), {3, 3}).status();
     },
     "op 11 (window): dtype of fill is bf16, must be x's, f32: cast it"},
    {[](ChainBuilder& b) {
       return b.Window(7, 8, {0, 3}).status();
     },
     "op 10 (window): height of the window is 0, must be in [1, 1024]"},
    {[](ChainBuilder& b) {
       return b.Window(7, 8, {3, 1025}).status();
     },
     "op 10 (window): width of the window is 1025, must be in [1, 1024]"},
    {[](ChainBuilder& b) {
       return b.Window(7, 8, {3, 5}).status();
     },
     "op 10 (window): width of the window is 5, must be at most 4, that of x with its padding"},
    {[](ChainBuilder& b) {
       Conv2d moves;
       moves.dilations = {3, 1};
       return b.Window(7, 8, {3, 3}, moves).status();
     },
     "op 10 (window): height of the window is 3 (dilation 3: 7), must be at most 5, that of x with "
     "its padding"},
    {[](ChainBuilder& b) {
       Conv2d moves;
       moves.strides = {1, 0};
       return b.Window(7, 8, {3, 3}, moves).status();
     },
     "op 10 (window): stride 1 is 0, must be in [1, 1024]"},
    {[](ChainBuilder& b) {
       return AddMaxPool2d(b, 0, {3, 3}, {}).status();
     },
     "op 10 (max_pool2d): rank of x is 2, must be 4 ([batch, height, width, channels])"},
    {[](ChainBuilder& b) {
       Conv2d moves;
       moves.pads = {0, 0, -1, 0};
       return AddMaxPool2d(b, 7, {3, 3}, moves).status();
     },
     "op 10 (max_pool2d): pad left is -1, must be in [0, 1024]"},
    {[](ChainBuilder& b) {
       Conv2d moves;
       moves.dilations = {1, 2};
       return AddAvgPool2d(b, 7, {1, 2}, moves, true).status();
     },
     "op 10 (avg_pool2d): dilation 1 is 2, must be 1: a mean takes neighbouring pixels"},
    {[](ChainBuilder& b) {
       Conv2d moves;
       moves.pads = {0, 2, 0, 0};
       return AddAvgPool2d(b, 7, {2, 2}, moves, false).status();
     },
     "op 10 (avg_pool2d): pad bottom is 2, must be below the height of the window, 2: a window of "
     "pads alone has no mean; pads may be counted"},
    {[](ChainBuilder& b) {
       Conv2d moves;
       moves.pads = {0, 0, 1, 0};
       return AddAvgPool2d(b, 7, {2, 1}, moves, false).status();
     },
     "op 10 (avg_pool2d): pad left is 1, must be below the width of the window, 1: a window of "
     "pads alone has no mean; pads may be counted"},
    {[](ChainBuilder& b) {
       Conv2d moves;
       moves.pads = {0, 0, 1, 1};
       const ValueId x = *b.Input({DType::kF32, {C(1), C(1), C(2147483647), C(1)}});
       return AddAvgPool2d(b, x, {1, 3}, moves, false).status();
     },
     "op 11 (avg_pool2d): width of x with its padding is 2147483649, must be at most 2147483647: "
     "the pixels inside are counted in s32; pads may be counted"},
    {[](ChainBuilder& b) {
       return AddAvgPool2d(b, 99, {3, 3}, {}, true).status();
     },
     "op 10 (avg_pool2d): x is value 99, which does not exist"},
    {[](ChainBuilder& b) { return AddConv2d(b, 7, 9, {}, 2).status(); },
     "op 10 (conv2d): channels of w are 1, must be those of x, 8, over the 2 groups: 4"},
    {[](ChainBuilder& b) { return AddConv2d(b, 7, 9, {}, 3).status(); },
     "op 10 (conv2d): groups is 3, must divide the channels of x, 8"},
    {[](ChainBuilder& b) { return AddConv2d(b, 7, 9, {}, 0).status(); },
     "op 10 (conv2d): groups is 0, must divide the channels of x, 8"},
    {[](ChainBuilder& b) { return AddConv2d(b, 7, 9, {}, int64_t{1} << 60).status(); },
     "op 10 (conv2d): groups is 1152921504606846976, must divide the channels of x, 8"},
    {[](ChainBuilder& b) {
       const ValueId w = *b.Input({DType::kF32, {C(6), C(3), C(3), C(2)}});
       return AddConv2d(b, 7, w, {}, 4).status();
     },
     "op 11 (conv2d): out of w is 6, must be a multiple of the 4 groups"},
    {[](ChainBuilder& b) { return AddConv2d(b, 0, 9, {}, 2).status(); },
     "op 10 (conv2d): rank of x is 2, must be 4 ([batch, height, width, channels])"},
    {[](ChainBuilder& b) { return AddConv2d(b, 7, 0, {}, 8).status(); },
     "op 10 (conv2d): rank of w is 2, must be 4 ([out, height, width, in])"},
    {[](ChainBuilder& b) {
       Conv2d moves;
       moves.filter = FilterLayout::kHWIO;
       return AddConv2d(b, 7, 9, moves, 8).status();
     },
     "op 10 (conv2d): channels of w are 3, must be those of x, 8, over the 8 groups: 1"},
    {[](ChainBuilder& b) {
       const ValueId w = *b.Input({DType::kF32, {C(12), C(3), C(3), C(1)}});
       return AddConv2d(b, 7, w, {}, 8).status();
     },
     "op 11 (conv2d): out of w is 12, must be a multiple of the 8 groups"},
    {[](ChainBuilder& b) {
       const ValueId w = *b.Input({DType::kF32, {C(8), C(9), C(3), C(1)}});
       return AddConv2d(b, 7, w, {}, 8).status();
     },
     "op 11 (conv2d): height of w is 9, must be at most 5, that of x with its padding"},
    {[](ChainBuilder& b) {
       const ValueId w = *b.Input({DType::kF32, {C(8), C(3), C(1025), C(1)}});
       return AddConv2d(b, 7, w, {}, 8).status();
     },
     "op 11 (conv2d): width of w is 1025, must be in [1, 1024]"},
};

TEST(Builder, RefusesBadWindowsAndWhatIsMadeOfThem) {
  for (const BadCall& bad : kBadWindows) {
    ChainBuilder b;
    AddValues(b);
    ASSERT_EQ(*b.Input({DType::kF32, {kM, C(5), C(4), C(8)}}), 7);
    ASSERT_EQ(*b.Scalar(0), 8);
    ASSERT_EQ(*b.Input({DType::kF32, {C(8), C(3), C(3), C(1)}}), 9);
    EXPECT_EQ(std::string(bad.call(b).message()), bad.message);
  }
}

// Cases that start from one value more: 7 q e4m3[M,8].
const BadCall kBadE4M3Calls[] = {
    {[](ChainBuilder& b) { return b.Binary(kAdd, 0, 7).status(); },
     "op 8 (add): dtype of a is f32, of b e4m3: must both be floating, or both s32"},
    {[](ChainBuilder& b) { return b.Binary(kAdd, 7, 7).status(); },
     "op 8 (add): dtype of a is e4m3, of b e4m3: must both be floating, or both s32"},
    {[](ChainBuilder& b) { return b.Binary(BinaryKind::kPow, 7, 7).status(); },
     "op 8 (pow): dtype of a is e4m3, of b e4m3: must both be floating"},
    {[](ChainBuilder& b) { return b.Binary(BinaryKind::kOr, 7, 7).status(); },
     "op 8 (or): dtype of a is e4m3, of b e4m3: must both be pred"},
    {[](ChainBuilder& b) { return b.Unary(UnaryKind::kAbs, 7).status(); },
     "op 8 (abs): dtype of a is e4m3, must be f32, f16, bf16 or s32"},
    {[](ChainBuilder& b) { return b.Unary(UnaryKind::kExp, 7).status(); },
     "op 8 (exp): dtype of a is e4m3, must be f32, f16 or bf16"},
    {[](ChainBuilder& b) { return b.Compare(CompareKind::kLt, 7, 7).status(); },
     "op 8 (lt): dtype of a is e4m3, of b e4m3: must both be floating, or both s32"},
    {[](ChainBuilder& b) { return b.Reduce(ReduceKind::kMax, 7, {1}).status(); },
     "op 8 (reduce): dtype of a is e4m3, must be floating or s32"},
    {[](ChainBuilder& b) { return b.Matmul(0, 7, false, true).status(); },
     "op 8 (matmul): dtype of a is f32, of b e4m3: must both be floating, both e4m3 or both s8"},
};

TEST(Builder, RefusesArithmeticOnE4M3) {
  ChainBuilder b;
  AddValues(b);
  ASSERT_TRUE(b.Input({DType::kE4M3, {kM, C(8)}}).ok());
  for (const BadCall& bad : kBadE4M3Calls) EXPECT_EQ(bad.call(b).message(), bad.message);
  EXPECT_TRUE(b.Select(3, 7, 7).ok());
  EXPECT_TRUE(b.Concat({7, 7}, 1).ok());
}

TEST(Builder, RefusesAnOperandBeforeTheFirstValue) {
  ChainBuilder b;
  EXPECT_EQ(b.Unary(UnaryKind::kExp, 0).status().message(),
            "op 0 (exp): a is value 0, none exists yet");
}

// A gated FFN of fitting operands, which each case spoils: a [M,8], w_gate and w_up [4,8], w_down
// [8,4] of bf16, and a vector of each length.
struct Gated {
  ChainBuilder b;
  GatedFfnOperands in;
  ValueId four = kNoValue, eight = kNoValue, other = kNoValue, five = kNoValue;
  ValueId Add(std::vector<Dim> dims, DType dtype = DType::kBF16) {
    return *b.Input({dtype, std::move(dims)});
  }
  Gated() {
    in.a = Add({kM, C(8)});
    in.w_gate = Add({C(4), C(8)});
    in.w_up = Add({C(4), C(8)});
    in.w_down = Add({C(8), C(4)});
    four = Add({C(4)});
    eight = Add({C(8)});
    other = Add({C(4)}, DType::kS32);
    five = Add({C(5), C(8)});
  }
  std::string Message() {
    return std::string(AddGatedFfn(b, in, Activation::kSilu, Layout::kOI).status().message());
  }
};

TEST(Builder, NamesTheOperandOfAGatedFfnThatDoesNotFit) {
  const std::pair<void (*)(Gated&), std::string> cases[] = {
      {[](Gated& g) { g.in.bias_gate = g.eight; },
       "bias_gate is bf16[8], must broadcast to [M,4], as [4] does"},
      {[](Gated& g) { g.in.bias_up = g.eight; },
       "bias_up is bf16[8], must broadcast to [M,4], as [4] does"},
      {[](Gated& g) { g.in.bias2 = g.four; },
       "bias2 is bf16[4], must broadcast to [M,8], as [8] does"},
      {[](Gated& g) { g.in.bias_up = g.other; },
       "bias_up is s32[4], must be of a's dtype bf16 and rank 1"},
      {[](Gated& g) { g.in.w_up = g.five; }, "w_up is bf16[5,8], must be as w_gate, bf16[4,8]"},
      {[](Gated& g) { g.in.w_gate = g.in.w_up = g.in.w_down; },
       "w_gate is bf16[8,4], must be [n,8] in layout oi: a is bf16[M,8]"},
      {[](Gated& g) { g.in.w_down = g.five; },
       "w_down is bf16[5,8], must be [n,4] in layout oi: c is f32[M,4]"},
  };
  EXPECT_EQ(Gated().Message(), "");
  for (const auto& [spoil, message] : cases) {
    Gated gated;
    spoil(gated);
    EXPECT_EQ(gated.Message(), "op 8 (gated_ffn): " + message);
    EXPECT_EQ(gated.b.size(), 8);
  }
}

TEST(Builder, NamesTheOperandOfACellThatDoesNotFit) {
  ChainBuilder b;
  const ValueId gates = *b.Input({DType::kF32, {kM, C(12)}});
  const ValueId wide = *b.Input({DType::kBF16, {kM, C(6)}});
  const ValueId state = *b.Input({DType::kBF16, {kM, C(4)}});
  EXPECT_EQ(std::string(AddGruCell(b, gates, wide, state).status().message()),
            "op 3 (gru_cell): hg is bf16[M,6], must have the dims [M,12]: those of xg");
  EXPECT_EQ(std::string(AddGruCell(b, gates, gates, wide).status().message()),
            "op 3 (gru_cell): h is bf16[M,6], must have the dims [M,4]: a third of xg");
  EXPECT_TRUE(AddGruCell(b, gates, gates, state).ok());
}

TEST(Builder, FinishRefusesNoOutputAndDeadValues) {
  ChainBuilder b;
  EXPECT_EQ(b.Finish().status().message(), "the chain has no output");
  AddValues(b);
  ASSERT_TRUE(b.Output(0).ok());
  EXPECT_EQ(b.Finish().status().message(), "op 1 (input): no output needs its value");
  ChainBuilder dead;
  const ValueId x = *dead.Input({DType::kF32, {kM}});
  ASSERT_TRUE(dead.Unary(UnaryKind::kExp, x).ok());
  ASSERT_TRUE(dead.Output(x).ok());
  EXPECT_EQ(dead.Finish().status().message(), "op 1 (exp): no output needs its value");
}

// Launch recipes number no more.
TEST(ChainBuilder, RefusesMoreBuffersThanLaunchesTake) {
  ChainBuilder b;
  for (int i = 0; i < 4095; ++i) ASSERT_TRUE(b.Input({DType::kF32, {C(8)}}).ok());
  ASSERT_TRUE(b.Output(0).ok());
  const std::string why =
      "a chain has at most 4096 inputs and outputs: give slices of one input, or several chains";
  EXPECT_EQ(b.Input({DType::kF32, {C(8)}}).status().message(), "op 4095 (input): " + why);
  EXPECT_EQ(b.Output(0).message(), "output 1: " + why);
}

TEST(MakeFfnChain, RefusesBadSpecs) {
  FfnSpec spec;
  spec.n = spec.k = spec.l = 8;
  spec.products = 3;
  EXPECT_EQ(MakeFfnChain(spec).status().message(), "products is 3, must be 1 or 2");
  spec.products = 1;
  spec.bias2 = true;
  EXPECT_EQ(MakeFfnChain(spec).status().message(), "bias2 is set, but there is one product");
  spec.bias2 = false;
  spec.n = 0;
  EXPECT_EQ(MakeFfnChain(spec).status().message(),
            "op 1 (input): dimension 0 is 0, must be in [1, 2^31 - 1] or M");
}

}  // namespace
}  // namespace sinter
