// Bad products with matrices that ids name: every case with its exact message.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "src/chain/builder.h"
#include "src/chain/chain.h"
#include "src/chain/composites.h"
#include "src/chain/problem.h"
#include "tests/support/constant_dim.h"

namespace sinter {
namespace {

const Dim kTokens = Dim::M();

// Values that every case starts from: 0 a bf16[M,16], 1 w bf16[4,8,16], 2 ids s32[M,2], 3 x
// bf16[M,2,16], 4 f f32[M,2], 5 w2 bf16[4,24,4], 6 a constant s32[5,2], 7 b bf16[5,16].
void AddGroupedValues(ChainBuilder& b) {
  ASSERT_TRUE(b.Input({DType::kBF16, {kTokens, C(16)}}).ok());
  ASSERT_TRUE(b.Input({DType::kBF16, {C(4), C(8), C(16)}}, {true, {}, "w"}).ok());
  ASSERT_TRUE(b.Input({DType::kS32, {kTokens, C(2)}}).ok());
  ASSERT_TRUE(b.Input({DType::kBF16, {kTokens, C(2), C(16)}}).ok());
  ASSERT_TRUE(b.Input({DType::kF32, {kTokens, C(2)}}).ok());
  ASSERT_TRUE(b.Input({DType::kBF16, {C(4), C(24), C(4)}}, {true, {}, "w2"}).ok());
  ASSERT_TRUE(b.Input({DType::kS32, {C(5), C(2)}}, {true, {}, "fixed"}).ok());
  ASSERT_TRUE(b.Input({DType::kBF16, {C(5), C(16)}}).ok());
}

struct BadGroupedCall {
  std::function<absl::Status(ChainBuilder&)> call;
  const char* message;  // behind "op 8 (grouped_matmul): "
};

using BadAdd = std::function<absl::Status(ChainBuilder&)>;

// With an operand of another type, added first, as value 8.
BadAdd With(const TensorType& type, int place) {
  return [type, place](ChainBuilder& b) {
    const ValueId own = b.Input(type).value();
    return b.GroupedMatmul(place == 0 ? own : 0, place == 1 ? own : 1, place == 2 ? own : 2, true)
        .status();
  };
}

TEST(GroupedMatmul, RefusesBadCallsWithTheirMessage) {
  const BadGroupedCall cases[] = {
      {[](ChainBuilder& b) { return b.GroupedMatmul(-1, 1, 2, true).status(); },
       "op 8 (grouped_matmul): a is value -1, must be in [0, 7]"},
      {[](ChainBuilder& b) { return b.GroupedMatmul(0, 8, 2, true).status(); },
       "op 8 (grouped_matmul): w is value 8, must be in [0, 7]"},
      {[](ChainBuilder& b) { return b.GroupedMatmul(0, 1, 99, true).status(); },
       "op 8 (grouped_matmul): ids is value 99, must be in [0, 7]"},
      {[](ChainBuilder& b) { return b.GroupedMatmul(7, 1, 6, true).status(); },
       "op 8 (grouped_matmul): ids is a constant, must be an input that is none, or a value of "
       "the chain: groups change with each launch"},
      {[](ChainBuilder& b) { return b.GroupedMatmul(0, 1, 2, false).status(); },
       "op 8 (grouped_matmul): k of a is 16, k of w is 8: must be equal, of a w that is "
       "[experts,k,n]"},
      {[](ChainBuilder& b) { return b.GroupedMatmul(2, 1, 2, true).status(); },
       "op 8 (grouped_matmul): dtype of a is s32, must be f32, f16 or bf16: cast a"},
      {[](ChainBuilder& b) { return b.GroupedMatmul(7, 1, 2, true).status(); },
       "op 8 (grouped_matmul): axis 0 of a has extent 5, of ids M: must be equal"},
      {[](ChainBuilder& b) { return b.GroupedMatmul(0, 0, 2, true).status(); },
       "op 8 (grouped_matmul): rank of w is 2, must be 3: give all matrices as one [experts,n,k]"},
      {With({DType::kE4M3, {kTokens, C(16)}}, 0),
       "op 9 (grouped_matmul): dtype of a is e4m3, must be f32, f16 or bf16: cast a"},
      {With({DType::kS8, {kTokens, C(16)}}, 0),
       "op 9 (grouped_matmul): dtype of a is s8, must be f32, f16 or bf16: cast a"},
      {With({DType::kPred, {kTokens, C(16)}}, 0),
       "op 9 (grouped_matmul): dtype of a is pred, must be f32, f16 or bf16: cast a"},
      {With({DType::kE4M3, {C(4), C(8), C(16)}}, 1),
       "op 9 (grouped_matmul): dtype of w is e4m3, must be f32, f16 or bf16: cast w"},
      {With({DType::kS32, {C(4), C(8), C(16)}}, 1),
       "op 9 (grouped_matmul): dtype of w is s32, must be f32, f16 or bf16: cast w"},
      {With({DType::kF32, {kTokens, C(2)}}, 2),
       "op 9 (grouped_matmul): dtype of ids is f32, must be s32: cast ids"},
      {With({DType::kPred, {kTokens, C(2)}}, 2),
       "op 9 (grouped_matmul): dtype of ids is pred, must be s32: cast ids"},
      {With({DType::kS64, {kTokens, C(2)}}, 2),
       "op 9 (grouped_matmul): dtype of operand 2 is s64, which only ids of a gather or scatter "
       "and the seed and offset of a random may be, as an input or a view of one: use s32"},
      {With({DType::kBF16, {C(16)}}, 0),
       "op 9 (grouped_matmul): rank of a is 1, must be 2, [m,k], or 3, [m,slots,k]"},
      {With({DType::kBF16, {}}, 0),
       "op 9 (grouped_matmul): rank of a is 0, must be 2, [m,k], or 3, [m,slots,k]"},
      {With({DType::kBF16, {kTokens, C(2), C(2), C(16)}}, 0),
       "op 9 (grouped_matmul): rank of a is 4, must be 2, [m,k], or 3, [m,slots,k]"},
      {With({DType::kBF16, {C(4), C(2), C(8), C(16)}}, 1),
       "op 9 (grouped_matmul): rank of w is 4, must be 3: give all matrices as one [experts,n,k]"},
      {With({DType::kS32, {kTokens}}, 2),
       "op 9 (grouped_matmul): rank of ids is 1, must be 2: [m,slots], of one id a row [m,1]; "
       "ends of sorted rows are another add"},
      {With({DType::kS32, {}}, 2), "op 9 (grouped_matmul): rank of ids is 0, must be 2: [m,slots]"},
      {With({DType::kS32, {kTokens, C(2), C(1)}}, 2),
       "op 9 (grouped_matmul): rank of ids is 3, must be 2: [m,slots]"},
      {With({DType::kBF16, {kTokens, C(8), C(16)}}, 1),
       "op 9 (grouped_matmul): dimension 0 of w is M, must be constant: M is of rows"},
      {With({DType::kBF16, {C(4), kTokens, C(16)}}, 1),
       "op 9 (grouped_matmul): dimension 1 of w is M, must be constant: M is of rows"},
      {With({DType::kBF16, {C(4), C(8), kTokens}}, 1),
       "op 9 (grouped_matmul): dimension 2 of w is M, must be constant: M is of rows"},
      {With({DType::kBF16, {C(1025), C(8), C(16)}}, 1),
       "op 9 (grouped_matmul): experts of w are 1025, must be 1 to 1024: slice w, and add what "
       "each part gives"},
      {With({DType::kS32, {kTokens, C(40)}}, 2),
       "op 9 (grouped_matmul): dims of ids are [M,40], the second must be 1 to 32: slots "
       "of a row"},
      {With({DType::kS32, {kTokens, C(33)}}, 2),
       "op 9 (grouped_matmul): dims of ids are [M,33], the second must be 1 to 32: slots "
       "of a row"},
      {With({DType::kS32, {C(2), kTokens}}, 2),
       "op 9 (grouped_matmul): dims of ids are [2,M], the second must be 1 to 32: slots "
       "of a row"},
      {With({DType::kS32, {C(3), C(2)}}, 2),
       "op 9 (grouped_matmul): axis 0 of a has extent M, of ids 3: must be equal"},
      {With({DType::kBF16, {kTokens, C(4), C(16)}}, 0),
       "op 9 (grouped_matmul): axis 1 of a has extent 4, of ids 2: must be equal"},
      {With({DType::kBF16, {C(2), kTokens, C(16)}}, 0),
       "op 9 (grouped_matmul): axis 0 of a has extent 2, of ids M: must be equal"},
      {With({DType::kBF16, {kTokens, C(24)}}, 0),
       "op 9 (grouped_matmul): k of a is 24, k of w is 16: must be equal, of a w that is "
       "[experts,n,k]"},
      {With({DType::kBF16, {kTokens, kTokens}}, 0),
       "op 9 (grouped_matmul): k of a is M, k of w is 16: must be equal, of a w that is "
       "[experts,n,k]"},
      {[](ChainBuilder& b) {
         const ValueId a = b.Input({DType::kF32, {kTokens, C(2044)}}).value();
         const ValueId w = b.Input({DType::kF32, {C(4), C(8), C(2044)}}).value();
         return b.GroupedMatmul(a, w, 2, true).status();
       },
       "op 10 (grouped_matmul): k is 2044, must be a multiple of 8: put zeros behind the columns "
       "of "
       "a and w"},
      {[](ChainBuilder& b) {
         const ValueId a = b.Input({DType::kF32, {kTokens, C(4)}}).value();
         return b.GroupedMatmul(a, b.Input({DType::kF32, {C(4), C(4), C(9)}}).value(), 2).status();
       },
       "op 10 (grouped_matmul): k is 4, must be a multiple of 8: put zeros behind the columns of "
       "a and w"},
      {[](ChainBuilder& b) {
         const ValueId ids = b.Input({DType::kS32, {C(1 << 30), C(32)}}).value();
         const ValueId a = b.Input({DType::kF32, {C(1 << 30), C(8)}}).value();
         const ValueId w = b.Input({DType::kF32, {C(1), C(64), C(8)}}).value();
         return b.GroupedMatmul(a, w, ids, true).status();
       },
       "op 11 (grouped_matmul): elements of [1073741824,32,64] are more than 2^40"},
  };
  for (const BadGroupedCall& bad : cases) {
    ChainBuilder b;
    AddGroupedValues(b);
    EXPECT_EQ(std::string(bad.call(b).message()), bad.message);
  }
}

// By ends, with an operand of another type in the place of 0 a, 1 w or 2 ends s32[4].
BadAdd ByEnds(const TensorType& type, int place, bool transposed = true) {
  return [type, place, transposed](ChainBuilder& b) {
    const ValueId ends = b.Input({DType::kS32, {C(4)}}).value();  // value 8
    const ValueId own = b.Input(type).value();
    return b
        .GroupedMatmulByEnds(place == 0 ? own : 0, place == 1 ? own : 1, place == 2 ? own : ends,
                             transposed)
        .status();
  };
}

TEST(GroupedMatmulByEnds, RefusesBadCallsWithTheirMessage) {
  const TensorType w{DType::kBF16, {C(4), C(8), C(16)}};
  const BadGroupedCall cases[] = {
      {[](ChainBuilder& b) { return b.GroupedMatmulByEnds(8, 1, 2).status(); },
       "op 8 (grouped_matmul): a is value 8, must be in [0, 7]"},
      {[](ChainBuilder& b) { return b.GroupedMatmulByEnds(0, -1, 2).status(); },
       "op 8 (grouped_matmul): w is value -1, must be in [0, 7]"},
      {[](ChainBuilder& b) { return b.GroupedMatmulByEnds(0, 1, 8).status(); },
       "op 8 (grouped_matmul): ends is value 8, must be in [0, 7]"},
      {[](ChainBuilder& b) { return b.GroupedMatmulByEnds(0, 1, 6).status(); },
       "op 8 (grouped_matmul): ends is a constant, must be an input that is none, or a value of "
       "the chain: groups change with each launch"},
      {ByEnds({DType::kS32, {C(3)}}, 2),
       "op 10 (grouped_matmul): dims of ends are [3], must be [4]: where the rows of each of w's "
       "matrices end"},
      {ByEnds({DType::kS32, {C(5)}}, 2),
       "op 10 (grouped_matmul): dims of ends are [5], must be [4]: where the rows of each of w's "
       "matrices end"},
      {ByEnds({DType::kS32, {kTokens}}, 2),
       "op 10 (grouped_matmul): dims of ends are [M], must be [4]: where the rows of each of w's "
       "matrices end"},
      {ByEnds({DType::kS32, {}}, 2),
       "op 10 (grouped_matmul): dims of ends are [], must be [4]: where the rows of each of w's "
       "matrices end"},
      {ByEnds({DType::kS32, {kTokens, C(2)}}, 2),
       "op 10 (grouped_matmul): dims of ends are [M,2], must be [4]: where the rows of each of "
       "w's matrices end"},
      {ByEnds({DType::kF32, {C(4)}}, 2),
       "op 10 (grouped_matmul): dtype of ends is f32, must be s32: cast ends"},
      {ByEnds({DType::kPred, {C(4)}}, 2),
       "op 10 (grouped_matmul): dtype of ends is pred, must be s32: cast ends"},
      {ByEnds({DType::kS64, {C(4)}}, 2),
       "op 10 (grouped_matmul): dtype of operand 2 is s64, which only ids of a gather or scatter "
       "and the seed and offset of a random may be, as an input or a view of one: use s32"},
      {ByEnds({DType::kBF16, {kTokens, C(2), C(16)}}, 0),
       "op 10 (grouped_matmul): rank of a is 3, must be 2: [m,k], rows in the order of ends"},
      {ByEnds({DType::kBF16, {C(16)}}, 0),
       "op 10 (grouped_matmul): rank of a is 1, must be 2: [m,k], rows in the order of ends"},
      {ByEnds({DType::kS8, {kTokens, C(16)}}, 0),
       "op 10 (grouped_matmul): dtype of a is s8, must be f32, f16 or bf16: cast a"},
      {ByEnds({DType::kE4M3, {C(4), C(8), C(16)}}, 1),
       "op 10 (grouped_matmul): dtype of w is e4m3, must be f32, f16 or bf16: cast w"},
      {ByEnds({DType::kBF16, {C(8), C(16)}}, 1),
       "op 10 (grouped_matmul): rank of w is 2, must be 3: give all matrices as one "
       "[experts,n,k]"},
      {ByEnds({DType::kBF16, {kTokens, C(8), C(16)}}, 1),
       "op 10 (grouped_matmul): dimension 0 of w is M, must be constant: M is of rows"},
      {ByEnds({DType::kBF16, {C(1025), C(8), C(16)}}, 1),
       "op 10 (grouped_matmul): experts of w are 1025, must be 1 to 1024: slice w, and add what "
       "each part gives"},
      {ByEnds({DType::kBF16, {C(4), C(8), C(24)}}, 1),
       "op 10 (grouped_matmul): k of a is 16, k of w is 24: must be equal, of a w that is "
       "[experts,n,k]"},
      {ByEnds(w, 1, false),
       "op 10 (grouped_matmul): k of a is 16, k of w is 8: must be equal, of a w that is "
       "[experts,k,n]"},
      {[](ChainBuilder& b) {
         const ValueId a = b.Input({DType::kBF16, {kTokens, C(20)}}).value();
         const ValueId w = b.Input({DType::kBF16, {C(4), C(8), C(20)}}).value();
         const ValueId ends = b.Input({DType::kS32, {C(4)}}).value();
         return b.GroupedMatmulByEnds(a, w, ends, true).status();
       },
       "op 11 (grouped_matmul): k is 20, must be a multiple of 8: put zeros behind the columns of "
       "a and w"},
      {[](ChainBuilder& b) {
         const ValueId a = b.Input({DType::kBF16, {C(1 << 30), C(8)}}).value();
         const ValueId w = b.Input({DType::kBF16, {C(1), C(2048), C(8)}}).value();
         const ValueId ends = b.Input({DType::kS32, {C(1)}}).value();
         return b.GroupedMatmulByEnds(a, w, ends, true).status();
       },
       "op 11 (grouped_matmul): elements of [1073741824,2048] are more than 2^40"},
  };
  for (const BadGroupedCall& bad : cases) {
    ChainBuilder b;
    AddGroupedValues(b);
    const std::string message(bad.call(b).message());
    EXPECT_EQ(message, bad.message);
  }
}

TEST(GroupedGatedFfn, RefusesBadCallsWithTheirMessageAndAddsNothing) {
  const auto with = [](GroupedFfnOperands in, Layout layout = Layout::kOI) {
    return [in, layout](ChainBuilder& b) {
      return AddGroupedGatedFfn(b, in, {Activation::kSilu, layout}).status();
    };
  };
  const auto option = [](void (*set)(GroupedFfnOptions*)) {
    return [set](ChainBuilder& b) {
      GroupedFfnOptions options{Activation::kSilu};
      set(&options);
      return AddGroupedGatedFfn(b, {0, 2, 4, 1, 5}, options).status();
    };
  };
  const auto biased = [](ValueId bias1, ValueId bias2) {
    return [bias1, bias2](ChainBuilder& b) {
      return AddGroupedGatedFfn(b, {0, 2, 4, 1, 5, bias1, bias2}, {Activation::kSilu}).status();
    };
  };
  const BadGroupedCall cases[] = {
      {with({8, 2, 4, 1, 5}), "a is value 8, which does not exist"},
      {with({0, -1, 4, 1, 5}), "ids is value -1, which does not exist"},
      {with({0, 2, 9, 1, 5}), "weights is value 9, which does not exist"},
      {with({0, 2, 4, 9, 5}), "w1 is value 9, which does not exist"},
      {with({0, 2, 4, 1, -1}), "w2 is value -1, which does not exist"},
      {with({2, 2, 4, 1, 5}), "a is s32[M,2], must be f32, f16 or bf16: cast it"},
      {with({0, 2, 2, 1, 5}), "weights is s32[M,2], must be f32, f16 or bf16: cast it"},
      {with({3, 2, 4, 1, 5}), "a is bf16[M,2,16], its rank must be 2"},
      {with({0, 2, 0, 1, 5}), "weights is bf16[M,16], must have the dims [M,2]: those of ids"},
      {with({0, 2, 4, 7, 5}), "w1 is bf16[5,16], its rank must be 3"},
      {with({0, 2, 4, 1, 0}), "w2 is bf16[M,16], its rank must be 3"},
      {with({0, 2, 4, 1, 1}),
       "w1 is bf16[4,8,16], w2 bf16[4,8,16]: w1 must have twice the 16 columns that w2 takes"},
      {with({0, 2, 4, 1, 5}, Layout::kIO),
       "w1 is bf16[4,8,16], w2 bf16[4,24,4]: w1 must have twice the 24 columns that w2 takes"},
      {with({0, 2, 4, 1, 5}, static_cast<Layout>(3)), "layout is 3, must be oi or io"},
      {with({0, 2, 4, 1, 5}),
       "c times w2: k is 4, must be a multiple of 8: put zeros behind the columns of "
       "a and w"},
      {with({0, 4, 4, 1, 5}), "a times w1: dtype of ids is f32, must be s32: cast ids"},
      {with({7, 6, 4, 1, 5}), "weights is f32[M,2], must have the dims [5,2]: those of ids"},
      {option([](GroupedFfnOptions* o) { o->alpha = NAN; }), "alpha is nan, must be finite"},
      {option([](GroupedFfnOptions* o) { o->alpha = 0; }),
       "alpha is 0, must be another number: gate * sigmoid(0) is gate / 2"},
      {option([](GroupedFfnOptions* o) { o->beta = INFINITY; }), "beta is inf, must be finite"},
      {option([](GroupedFfnOptions* o) { o->limit = INFINITY; }), "limit is inf, must be finite"},
      {option([](GroupedFfnOptions* o) { o->limit = -7; }),
       "limit is -7, must be more than 0, or 0 for none"},
      {option([](GroupedFfnOptions* o) {
         o->alpha = 1.702;
         o->act = Activation::kRelu;
       }),
       "alpha is 1.702, must be 1 with the activation relu: it is of silu alone"},
      {biased(99, kNoValue), "bias1 is value 99, which does not exist"},
      {biased(kNoValue, 8), "bias2 is value 8, which does not exist"},
      {biased(2, kNoValue), "bias1 is s32[M,2], must be f32, f16 or bf16: cast it"},
      {biased(0, kNoValue),
       "bias1 is bf16[M,16], must have the dims [4,8]: the experts, and a bias of each of their "
       "columns"},
      {biased(kNoValue, 7),
       "bias2 is bf16[5,16], must have the dims [4,24]: the experts, and a bias of each of their "
       "columns"},
      {[](ChainBuilder& b) {
         const ValueId w1 = b.Input({DType::kBF16, {C(4), C(9), C(16)}}).value();
         return AddGroupedGatedFfn(b, {0, 2, 4, w1, 5}, {Activation::kSilu}).status();
       },
       "w1 is bf16[4,9,16], w2 bf16[4,24,4]: w1 must have twice the 4 columns that w2 takes"},
      {[](ChainBuilder& b) {
         const ValueId w1 = b.Input({DType::kBF16, {C(128), C(8), C(16)}}).value();
         const ValueId w2 = b.Input({DType::kBF16, {C(64), C(24), C(4)}}).value();
         return AddGroupedGatedFfn(b, {0, 2, 4, w1, w2}, {Activation::kSilu}).status();
       },
       "experts of w2 are 64, of w1 128: must be equal"},
      {[](ChainBuilder& b) {
         const ValueId w1 = b.Input({DType::kF16, {C(4), C(8), C(16)}}).value();
         return AddGroupedGatedFfn(b, {0, 2, 4, w1, 5}, {Activation::kSilu}).status();
       },
       "w1 is f16[4,8,16], must be of a's dtype bf16"},
  };
  for (const BadGroupedCall& bad : cases) {
    ChainBuilder b;
    AddGroupedValues(b);
    const std::string message(bad.call(b).message());
    EXPECT_EQ(message.substr(message.find("): ") + 3), bad.message) << message;
    EXPECT_LE(b.size(), 10) << "an op of the composite stayed";
  }
}

TEST(GroupedKinds, RefuseBadTextWithItsMessage) {
  const std::pair<const char*, const char*> cases[] = {
      {"grouped_matmul m=M", "grouped_matmul: key experts is missing"},
      {"grouped_matmul m=M experts=1025 top=2 n=8 k=8",
       "grouped_matmul: op 3 (grouped_matmul): experts of w are 1025, must be 1 to 1024: slice w, "
       "and add what "
       "each part gives"},
      {"grouped_matmul m=M experts=8 top=33 n=8 k=8",
       "grouped_matmul: op 3 (grouped_matmul): dims of ids are [M,33], the second must be 1 to 32: "
       "slots "
       "of a row"},
      {"grouped_matmul m=M experts=8 top=2 n=8 k=12",
       "grouped_matmul: op 3 (grouped_matmul): k is 12, must be a multiple of 8: put zeros behind "
       "the columns of "
       "a and w"},
      {"grouped_gated_ffn m=M experts=8 top=2 n=12 k=8 l=8 act=silu",
       "grouped_gated_ffn: op 5 (grouped_gated_ffn): c times w2: k is 12, must be a multiple of 8: "
       "put zeros behind the columns of "
       "a and w"},
      {"grouped_gated_ffn m=M experts=8 top=2 n=8 k=8 l=8 act=silu order=up",
       "grouped_gated_ffn: order is up, must be one of gate_up up_gate interleaved"},
      {"grouped_gated_ffn m=M experts=8 top=2 n=8 k=8 l=8 act=silu weight=both",
       "grouped_gated_ffn: weight is both, must be one of output input"},
      {"grouped_matmul m=M experts=0 top=2 n=8 k=8",
       "grouped_matmul: experts is 0, must be an integer in [1, 2^31 - 1]"},
      {"grouped_matmul m=M experts=8 top=0 n=8 k=8",
       "grouped_matmul: top is 0, must be an integer in [1, 2^31 - 1]"},
      {"grouped_matmul_ends m=M experts=0 n=8 k=8",
       "grouped_matmul_ends: experts is 0, must be an integer in [1, 2^31 - 1]"},
      {"grouped_matmul_ends m=M experts=8 top=2 n=8 k=8",
       "grouped_matmul_ends: key is top, must be one of m experts n k layout dtype"},
      {"grouped_matmul_ends m=M experts=2048 n=8 k=8",
       "grouped_matmul_ends: op 3 (grouped_matmul): experts of w are 2048, must be 1 to 1024: "
       "slice w, and add what each part gives"},
      {"grouped_gated_ffn m=M experts=8 top=2 n=8 k=8 l=8 act=silu limit=-1",
       "grouped_gated_ffn: op 5 (grouped_gated_ffn): limit is -1, must be more than 0, or 0 for "
       "none"},
      {"grouped_gated_ffn m=M experts=8 top=2 n=8 k=8 l=8 act=relu alpha=1.702",
       "grouped_gated_ffn: op 5 (grouped_gated_ffn): alpha is 1.702, must be 1 with the "
       "activation relu: it is of silu alone"},
      {"top_k rows=M cols=8 k=9",
       "top_k: op 1 (top_k): count is 9, must be in [1, 8]: a row has no more elements"},
      {"grouped_gated_ffn m=M experts=8 top=2 n=2147483647 k=8 l=8 act=silu",
       "grouped_gated_ffn: n is 2147483647, must be at most 1073741823: w1 has 2 n columns"},
  };
  for (const auto& [line, message] : cases) {
    EXPECT_EQ(std::string(ParseProblem(line).status().message()), message);
  }
}

// Values: 0 a e4m3[M,256], 1 w e4m3[4,200,256], 2 ids s32[M,2], 3 scale_a f32[M,2], 4 scale_w
// f32[4,2,2], 5 slots e4m3[M,2,256].
struct BadScaledCall {
  TensorType type;  // of value 6, which takes the place of an operand
  int place;
  const char* message;  // behind "op 7 (scaled_grouped_matmul): "
};

TEST(ScaledGroupedMatmul, RefusesBadCallsWithTheirMessage) {
  const DType f32 = DType::kF32, e4m3 = DType::kE4M3;
  const BadScaledCall cases[] = {
      {{DType::kBF16, {kTokens, C(256)}}, 0, "dtype of a is bf16, must be e4m3"},
      {{DType::kS8, {C(4), C(200), C(256)}}, 1, "dtype of w is s8, must be e4m3"},
      {{e4m3, {kTokens, C(128)}},
       0,
       "k of a is 128, k of w is 256: must be equal, of a w that is [experts,n,k]"},
      {{e4m3, {C(200), C(256)}},
       1,
       "rank of w is 2, must be 3: give all matrices as one [experts,n,k]"},
      {{f32, {kTokens, C(2)}}, 2, "dtype of ids is f32, must be s32: cast ids"},
      {{DType::kS32, {kTokens, C(40)}},
       2,
       "dims of ids are [M,40], the second must be 1 to 32: slots of a row"},
      {{DType::kBF16, {kTokens, C(2)}}, 3, "dtype of scale_a is bf16, must be f32"},
      {{f32, {kTokens, C(3)}},
       3,
       "dims of scale_a are [M,3], must be one of [], [1,1], [M,1], [M,2] for e4m3[M,256]"},
      {{f32, {kTokens, C(2), C(2)}},
       3,
       "dims of scale_a are [M,2,2], must be one of [], [1,1], [M,1], [M,2] for e4m3[M,256]"},
      {{f32, {C(4), C(2)}},
       4,
       "dims of scale_w are [4,2], must be one of [], [1,1,1], [4,1,1], [4,200,1], [4,2,2] for "
       "e4m3[4,200,256]"},
      {{f32, {C(4), C(200), C(2)}},
       4,
       "dims of scale_w are [4,200,2], must be one of [], [1,1,1], [4,1,1], [4,200,1], [4,2,2] for "
       "e4m3[4,200,256]"},
  };
  for (const BadScaledCall& bad : cases) {
    ChainBuilder b;
    const auto input = [&](const TensorType& type) { ASSERT_TRUE(b.Input(type).ok()); };
    input({e4m3, {kTokens, C(256)}});
    input({e4m3, {C(4), C(200), C(256)}});
    input({DType::kS32, {kTokens, C(2)}});
    input({f32, {kTokens, C(2)}});
    input({f32, {C(4), C(2), C(2)}});
    input({e4m3, {kTokens, C(2), C(256)}});
    input(bad.type);
    const auto of = [&](int place) { return place == bad.place ? 6 : place; };
    const auto y = b.ScaledGroupedMatmul(of(0), of(1), of(2), of(3), of(4));
    EXPECT_EQ(y.status().message(), absl::StrCat("op 7 (scaled_grouped_matmul): ", bad.message));
    EXPECT_EQ(b.size(), 7);
  }
}

TEST(ScaledGroupedMatmul, RefusesOperandsThatAreNotThere) {
  ChainBuilder b;
  ASSERT_TRUE(b.Input({DType::kE4M3, {kTokens, C(256)}}).ok());
  EXPECT_EQ(b.ScaledGroupedMatmul(0, 0, 0, 7, 0).status().message(),
            "op 1 (scaled_grouped_matmul): scale_a is value 7, must be in [0, 0]");
  const auto text = [](const char* line) {
    return std::string(ParseProblem(line).status().message());
  };
  EXPECT_EQ(
      text("scaled_grouped_matmul m=M experts=4 top=2 n=8 k=200 scales=group"),
      "scaled_grouped_matmul: columns of a are 200, must be a multiple of 128 for scales=group");
  EXPECT_EQ(text("scaled_grouped_matmul m=M experts=4 top=2 n=8 k=256 codes=s8"),
            "scaled_grouped_matmul: codes is s8, must be e4m3");
  EXPECT_EQ(
      text("scaled_grouped_gated_ffn m=M experts=4 top=2 n=96 k=256 l=8 act=silu quantize=group"),
      "scaled_grouped_gated_ffn: op 8 (scaled_grouped_gated_ffn): the quantising of c: x is "
      "f32[M,2,96], its last dimension must be a constant multiple of 128");
}

TEST(ScaledGroupedMatmul, OfJsonIsRefusedWithItsMessage) {
  const auto message = [](const std::string& op) {
    const auto read = ChainFromJson(
        R"({"schema":1,"inputs":[{"id":0,"dtype":"e4m3","dims":["M",128]},)"
        R"({"id":1,"dtype":"e4m3","dims":[4,8,128]},{"id":2,"dtype":"s32","dims":["M",2]},)"
        R"({"id":3,"dtype":"f32","dims":[]}],"ops":[{"id":4,"op":"grouped_matmul",)" +
        op + R"(}],"outputs":[{"value":4}]})");
    return std::string(read.status().message());
  };
  EXPECT_EQ(message(R"("in":[0,1,2,3,3],"transpose_b":true)"), "");
  EXPECT_EQ(message(R"("in":[0,1,2,3,3])"),
            "ops[0]: op 4 (grouped_matmul): transpose_b is false, must be true with scales: w is "
            "[experts, n, k]");
  EXPECT_EQ(message(R"("in":[0,1,2,3],"transpose_b":true)"),
            "ops[0]: op 4 (grouped_matmul): operands are 4, must be 3, or 5 with scales");
}

}  // namespace
}  // namespace sinter
