// Products with matrices that ids name, or ends say, and the gated FFN of a mixture of experts,
// against loops.
#include "src/reference/rows.h"
#include "tests/support/read_chain.h"
#include "tests/support/test.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

using testing::C;
using testing::ExpectNear;
using testing::Random;
using testing::RunF64;
using V = std::vector<double>;

constexpr int64_t kTokens = 5, kSlots = 3, kExperts = 4, kN = 6, kK = 16;
// Two of them twice in a row, three outside.
const V kIds = {0, 3, 1, 2, 2, 2, -1, 4, 0, 3, 3, 2147483647, 1, -2147483648.0, 2};

V Expected(const V& a, const V& w, bool slot_rows, bool transposed) {
  V y(kTokens * kSlots * kN, 0.0);
  for (int64_t i = 0; i < kTokens * kSlots; ++i) {
    const double id = kIds[static_cast<size_t>(i)];
    if (id < 0 || id >= kExperts) continue;
    for (int64_t j = 0; j < kN; ++j) {
      for (int64_t p = 0; p < kK; ++p) {
        const auto e = static_cast<int64_t>(id);
        y[i * kN + j] += a[(slot_rows ? i : i / kSlots) * kK + p] *
                         w[e * kN * kK + (transposed ? j * kK + p : p * kN + j)];
      }
    }
  }
  return y;
}

TEST(GroupedMatmul, EqualsLoopsInEveryForm) {
  for (const bool slot_rows : {false, true}) {
    for (const bool transposed : {false, true}) {
      const Chain chain = ReadChain(
          "a: bf16[M,$0]; w: f16[$1]; ids: s32[M,3]; out grouped(a, w$2, ids)",
          slot_rows ? "3,16" : "16", transposed ? "4,6,16" : "4,16,6", transposed ? ".T" : "");
      EXPECT_EQ(reference::WhyRowsMix(chain), "");
      const V in_a = Random(DType::kBF16, kTokens * (slot_rows ? kSlots : 1) * kK, 1);
      const V in_w = Random(DType::kF16, kExperts * kN * kK, 2);
      const auto result = RunF64(chain, kTokens, {in_a, in_w, kIds});
      ExpectNear(result[0], Expected(in_a, in_w, slot_rows, transposed), 1e-13);
      EXPECT_EQ(RunF64(chain, 0, {{}, in_w, {}})[0].size(), 0u);
    }
  }
}

// Codes times scales that spread over what shares them, in float64.
TEST(GroupedMatmul, OfCodesIsTheProductOfWhatTheyStandFor) {
  constexpr int64_t kN8 = 200, kK8 = 384;
  const std::vector<Dim> one = {C(1), C(1), C(1)};
  struct Case {
    std::vector<Dim> a, w;
  };
  const Dim m = Dim::M(), t = C(kSlots), e = C(kExperts);
  for (const bool slot_rows : {false, true}) {
    const auto rows = [&](Dim last) {
      return slot_rows ? std::vector<Dim>{m, t, last} : std::vector<Dim>{m, last};
    };
    for (const Case& c : {Case{rows(C(3)), {e, C(2), C(3)}}, Case{rows(C(1)), {e, C(kN8), C(1)}},
                          Case{{}, {e, C(1), C(1)}}, Case{rows(C(3)), one}, Case{rows(C(1)), {}}}) {
      ChainBuilder b;
      const ValueId a = *b.Input({DType::kE4M3, rows(C(kK8))});
      const ValueId w = *b.Input({DType::kE4M3, {e, C(kN8), C(kK8)}});
      const ValueId ids = *b.Input({DType::kS32, {m, t}});
      const ValueId scale_a = *b.Input({DType::kF32, c.a}), scale_w = *b.Input({DType::kF32, c.w});
      const Chain chain = Finished(b, {*b.ScaledGroupedMatmul(a, w, ids, scale_a, scale_w)});
      EXPECT_EQ(reference::WhyRowsMix(chain), "");
      const auto count = [](const std::vector<Dim>& dims) {
        int64_t all = 1;
        for (const Dim dim : dims) all *= dim.At(kTokens);
        return all;
      };
      const V in_a = Random(DType::kE4M3, count(rows(C(kK8))), 1);
      const V in_w = Random(DType::kE4M3, kExperts * kN8 * kK8, 2);
      const V in_sa = Random(DType::kF32, count(c.a), 3),
              in_sw = Random(DType::kF32, count(c.w), 4);
      // The scale of row `row` of `rows` at k, of `columns` a row with groups.
      const auto scale_of_row = [&](int64_t row, int64_t k) {
        if (c.a.empty()) return in_sa[0];
        return c.a.back() == C(1) ? in_sa[row] : in_sa[row * 3 + k / 128];
      };
      const auto scale_of_w = [&](int64_t expert, int64_t j, int64_t k) {
        if (c.w.empty() || c.w == one) return in_sw[0];
        if (c.w[1] == C(1)) return in_sw[expert];
        return c.w[2] == C(1) ? in_sw[expert * kN8 + j]
                              : in_sw[(expert * 2 + j / 128) * 3 + k / 128];
      };
      V want(kTokens * kSlots * kN8, 0.0);
      for (int64_t i = 0; i < kTokens * kSlots; ++i) {
        const double id = kIds[static_cast<size_t>(i)];
        if (id < 0 || id >= kExperts) continue;
        const auto expert = static_cast<int64_t>(id);
        const int64_t row = slot_rows ? i : i / kSlots;
        for (int64_t j = 0; j < kN8; ++j) {
          for (int64_t k = 0; k < kK8; ++k) {
            want[i * kN8 + j] += in_a[row * kK8 + k] * scale_of_row(row, k) *
                                 in_w[(expert * kN8 + j) * kK8 + k] * scale_of_w(expert, j, k);
          }
        }
      }
      ExpectNear(RunF64(chain, kTokens, {in_a, in_w, kIds, in_sa, in_sw})[0], want, 1e-11);
    }
  }
}

// Rows after padding, matrices of which every second is taken, ids in a wider table.
TEST(GroupedMatmul, ReadsStridedOperands) {
  const Chain chain = ReadChain(
      "a: f32[M,16] strides(20, 1); all: f32[8,6,16]; w = all[0:8:2, :, :]; given: s32[3,M];"
      "ids = transpose(given, 1, 0); out grouped(a, w.T, ids)");
  const V wide = Random(DType::kF32, kTokens * (kK + 4) - 4, 1);
  const V matrices = Random(DType::kF32, 2 * kExperts * kN * kK, 2);
  V turned(kIds.size()), in_a, in_w;
  for (int64_t i = 0; i < kTokens; ++i) {
    for (int64_t t = 0; t < kSlots; ++t) turned[t * kTokens + i] = kIds[i * kSlots + t];
    for (int64_t p = 0; p < kK; ++p) in_a.push_back(wide[i * (kK + 4) + p]);
  }
  for (int64_t e = 0; e < kExperts; ++e) {
    const auto from = matrices.begin() + 2 * e * kN * kK;
    in_w.insert(in_w.end(), from, from + kN * kK);
  }
  const auto result = RunF64(chain, kTokens, {wide, matrices, turned});
  ExpectNear(result[0], Expected(in_a, in_w, false, true), 1e-13);
}

TEST(GroupedMatmul, KeepsNaNInItsRow) {
  const Chain chain =
      ReadChain("a: f32[M,16]; w: f32[4,16,6]; ids: s32[M,3]; out grouped(a, w, ids)");
  V rows = Random(DType::kF32, kTokens * kK, 1);
  rows[kK] = std::numeric_limits<double>::quiet_NaN();  // of row 1
  const V result =
      RunF64(chain, kTokens, {rows, Random(DType::kF32, kExperts * kN * kK, 2), kIds})[0];
  for (size_t i = 0; i < result.size(); ++i) {
    EXPECT_EQ(std::isnan(result[i]), i / (kSlots * kN) == 1) << i;
  }
}

// Row m's matrix is the first whose end is more than m. Ends that fall do not end rows, and neither
// do negative ends. An end larger than the number of rows ends with them, and rows past all ends
// are zeros.
TEST(GroupedMatmulByEnds, EqualsLoopsForAnyEnds) {
  constexpr int64_t kSorted = 9;
  const std::pair<V, std::vector<int64_t>> cases[] = {
      {{2, 2, 7, 9}, {0, 0, 2, 2, 2, 2, 2, 3, 3}},
      {{9, 9, 9, 9}, {0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {{0, 0, 0, 9}, {3, 3, 3, 3, 3, 3, 3, 3, 3}},
      {{0, 0, 0, 0}, {-1, -1, -1, -1, -1, -1, -1, -1, -1}},
      {{1, 4, 4, 6}, {0, 1, 1, 1, 3, 3, -1, -1, -1}},
      {{5, 2, 3, 8}, {0, 0, 0, 0, 0, 3, 3, 3, -1}},
      {{-3, 4, -2147483648.0, 2147483647}, {1, 1, 1, 1, 3, 3, 3, 3, 3}},
      {{2147483647, 0, 3, 9}, {0, 0, 0, 0, 0, 0, 0, 0, 0}},
  };
  for (const bool transposed : {false, true}) {
    const Chain chain =
        ReadChain("a: bf16[M,16]; w: f16[$0]; ends: s32[4]; out grouped_by_ends(a, w$1, ends)",
                  transposed ? "4,6,16" : "4,16,6", transposed ? ".T" : "");
    EXPECT_TRUE(IsByEnds(chain.op(chain.outputs()[0].value)));
    EXPECT_NE(reference::WhyRowsMix(chain), "") << "a row's place says its matrix";
    const V in_a = Random(DType::kBF16, kSorted * kK, 1);
    const V in_w = Random(DType::kF16, kExperts * kN * kK, 2);
    for (const auto& [given, experts] : cases) {
      V y(kSorted * kN, 0.0);
      for (int64_t i = 0; i < kSorted * kN; ++i) {
        const int64_t row = i / kN, j = i % kN, e = experts[static_cast<size_t>(row)];
        for (int64_t p = 0; e >= 0 && p < kK; ++p) {
          y[static_cast<size_t>(i)] +=
              in_a[row * kK + p] * in_w[e * kN * kK + (transposed ? j * kK + p : p * kN + j)];
        }
      }
      ExpectNear(RunF64(chain, kSorted, {in_a, in_w, given})[0], y, 1e-13);
      EXPECT_EQ(RunF64(chain, 0, {{}, in_w, given})[0].size(), 0u);
    }
  }
}

// gpt-oss's gate is the last of these; Llama-4's weights multiply the input.
TEST(GroupedGatedFfn, EqualsItsFormulaInEveryOrderLayoutAndOption) {
  constexpr int64_t kL = 5, kHalf = 8;
  struct Gate {
    const char* keys;
    double alpha, beta, limit;
    bool weight_on_input, biased;
  };
  const Gate gates[] = {
      {"", 1, 0, 0, false, false},
      {" weight=input", 1, 0, 0, true, false},
      {" limit=0.5", 1, 0, 0.5, false, false},
      {" bias1=1 bias2=1", 1, 0, 0, false, true},
      {" bias1=1 bias2=1 weight=input", 1, 0, 0, true, true},
      {" bias1=1 bias2=1 alpha=1.702 beta=1 limit=0.7", 1.702, 1, 0.7, false, true}};
  for (const Gate& given : gates) {
    for (const char* form : {"oi gate_up", "oi up_gate", "oi interleaved", "io gate_up",
                             "io up_gate", "io interleaved"}) {
      const std::string layout(form, 2), order(form + 3);
      const std::string line =
          absl::StrCat("grouped_gated_ffn m=5 experts=4 top=3 n=8 k=16 l=5 act=silu order=", order,
                       " layout=", layout, " dtype=f32", given.keys);
      SCOPED_TRACE(line);
      const auto problem = Got(ParseProblem(line));
      const V x = Random(DType::kF32, kTokens * kK, 1), factors = Random(DType::kF32, 15, 2);
      const V w1 = Random(DType::kF32, kExperts * 2 * kHalf * kK, 3);
      const V w2 = Random(DType::kF32, kExperts * kL * kHalf, 4);
      const V bias1 = Random(DType::kF32, kExperts * 2 * kHalf, 5);
      const V bias2 = Random(DType::kF32, kExperts * kL, 6);
      const bool oi = layout == "oi", up_first = order == "up_gate", turns = order == "interleaved";
      V y(kTokens * kL, 0.0);
      for (int64_t i = 0; i < kTokens * kSlots; ++i) {
        const double id = kIds[static_cast<size_t>(i)];
        if (id < 0 || id >= kExperts) continue;
        const auto e = static_cast<int64_t>(id);
        const double factor = factors[static_cast<size_t>(i)];
        V both(2 * kHalf, 0.0);
        for (int64_t j = 0; j < 2 * kHalf; ++j) {
          for (int64_t p = 0; p < kK; ++p) {
            both[j] += x[i / kSlots * kK + p] *
                       w1[e * 2 * kHalf * kK + (oi ? j * kK + p : p * 2 * kHalf + j)];
          }
          if (given.weight_on_input) both[j] *= factor;
          if (given.biased) both[j] += bias1[e * 2 * kHalf + j];
        }
        for (int64_t l = 0; l < kL; ++l) {
          double sum = given.biased ? bias2[e * kL + l] : 0;
          for (int64_t j = 0; j < kHalf; ++j) {
            double gate = both[turns ? 2 * j : up_first ? kHalf + j : j];
            double up = both[turns ? 2 * j + 1 : up_first ? j : kHalf + j];
            if (given.limit > 0) {
              gate = std::min(gate, given.limit);
              up = std::clamp(up, -given.limit, given.limit);
            }
            sum += gate / (1 + std::exp(-given.alpha * gate)) * (up + given.beta) *
                   w2[e * kL * kHalf + (oi ? l * kHalf + j : j * kL + l)];
          }
          y[i / kSlots * kL + l] += given.weight_on_input ? sum : factor * sum;
        }
      }
      // Casts to f32 do not round what the reference holds in float64.
      std::vector<V> inputs = {x, kIds, factors, w1};
      if (given.biased) inputs.push_back(bias1);
      inputs.push_back(w2);
      if (given.biased) inputs.push_back(bias2);
      ExpectNear(RunF64(problem.chain, kTokens, inputs)[0], y, 1e-5);
    }
  }
}

}  // namespace
}  // namespace sinter
