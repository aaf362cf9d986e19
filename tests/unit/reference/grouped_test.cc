// Products with matrices that ids name, and the gated FFN of a mixture of experts, against loops.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "src/chain/composites.h"
#include "src/chain/problem.h"
#include "src/reference/rows.h"
#include "tests/unit/reference/tensors.h"

namespace sinter {
namespace {

using testing::C;
using testing::ExpectNear;
using testing::Random;
using testing::RunF64;
using V = std::vector<double>;

constexpr int64_t kRows = 5, kSlots = 3, kExperts = 4, kN = 6, kK = 16;
// Two of them twice in a row, three outside.
const V kIds = {0, 3, 1, 2, 2, 2, -1, 4, 0, 3, 3, 2147483647, 1, -2147483648.0, 2};

V Expected(const V& a, const V& w, bool slot_rows, bool transposed) {
  V y(kRows * kSlots * kN, 0.0);
  for (int64_t i = 0; i < kRows * kSlots; ++i) {
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
      ChainBuilder b;
      TensorType rows{DType::kBF16, {Dim::M(), C(kK)}};
      if (slot_rows) rows.dims.insert(rows.dims.begin() + 1, C(kSlots));
      const ValueId a = *b.Input(rows);
      const ValueId w =
          *b.Input({DType::kF16, {C(kExperts), C(transposed ? kN : kK), C(transposed ? kK : kN)}});
      const ValueId ids = *b.Input({DType::kS32, {Dim::M(), C(kSlots)}});
      ASSERT_TRUE(b.Output(*b.GroupedMatmul(a, w, ids, transposed)).ok());
      const Chain chain = *b.Finish();
      EXPECT_EQ(reference::WhyRowsMix(chain), "");
      const V in_a = Random(DType::kBF16, kRows * (slot_rows ? kSlots : 1) * kK, 1);
      const V in_w = Random(DType::kF16, kExperts * kN * kK, 2);
      const auto result = RunF64(chain, kRows, {in_a, in_w, kIds});
      ExpectNear(result[0], Expected(in_a, in_w, slot_rows, transposed), 1e-13);
      EXPECT_EQ(RunF64(chain, 0, {{}, in_w, {}})[0].size(), 0u);
    }
  }
}

// Rows behind padding, matrices of which every second is taken, ids in a wider table.
TEST(GroupedMatmul, ReadsStridedOperands) {
  ChainBuilder b;
  const ValueId a = *b.Input({DType::kF32, {Dim::M(), C(kK)}}, {false, {{kK + 4, 0}, {1, 0}}, ""});
  const ValueId all = *b.Input({DType::kF32, {C(2 * kExperts), C(kN), C(kK)}});
  const ValueId w = *b.Slice(all, {0, 0, 0}, {C(2 * kExperts), C(kN), C(kK)}, {2, 1, 1});
  const ValueId ids = *b.Transpose(*b.Input({DType::kS32, {C(kSlots), Dim::M()}}), {1, 0});
  ASSERT_TRUE(b.Output(*b.GroupedMatmul(a, w, ids, true)).ok());
  const V wide = Random(DType::kF32, kRows * (kK + 4) - 4, 1);
  const V matrices = Random(DType::kF32, 2 * kExperts * kN * kK, 2);
  V turned(kIds.size()), in_a, in_w;
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t t = 0; t < kSlots; ++t) turned[t * kRows + i] = kIds[i * kSlots + t];
    for (int64_t p = 0; p < kK; ++p) in_a.push_back(wide[i * (kK + 4) + p]);
  }
  for (int64_t e = 0; e < kExperts; ++e) {
    const auto from = matrices.begin() + 2 * e * kN * kK;
    in_w.insert(in_w.end(), from, from + kN * kK);
  }
  const auto result = RunF64(*b.Finish(), kRows, {wide, matrices, turned});
  ExpectNear(result[0], Expected(in_a, in_w, false, true), 1e-13);
}

TEST(GroupedMatmul, KeepsNaNInItsRow) {
  ChainBuilder b;
  const ValueId a = *b.Input({DType::kF32, {Dim::M(), C(kK)}});
  const ValueId w = *b.Input({DType::kF32, {C(kExperts), C(kK), C(kN)}});
  const ValueId ids = *b.Input({DType::kS32, {Dim::M(), C(kSlots)}});
  ASSERT_TRUE(b.Output(*b.GroupedMatmul(a, w, ids)).ok());
  V rows = Random(DType::kF32, kRows * kK, 1);
  rows[kK] = std::numeric_limits<double>::quiet_NaN();  // of row 1
  const V result =
      RunF64(*b.Finish(), kRows, {rows, Random(DType::kF32, kExperts * kN * kK, 2), kIds})[0];
  for (size_t i = 0; i < result.size(); ++i) {
    EXPECT_EQ(std::isnan(result[i]), i / (kSlots * kN) == 1) << i;
  }
}

TEST(GroupedGatedFfn, EqualsItsFormulaInEveryOrderAndLayout) {
  constexpr int64_t kL = 5, kHalf = 8;
  for (const char* layout : {"oi", "io"}) {
    for (const char* order : {"gate_up", "up_gate"}) {
      const std::string line =
          absl::StrCat("grouped_gated_ffn m=5 experts=4 top=3 n=8 k=16 l=5 act=silu order=", order,
                       " layout=", layout, " dtype=f32");
      const auto problem = ParseProblem(line);
      ASSERT_TRUE(problem.ok()) << problem.status();
      const V x = Random(DType::kF32, kRows * kK, 1), factors = Random(DType::kF32, 15, 2);
      const V w1 = Random(DType::kF32, kExperts * 2 * kHalf * kK, 3);
      const V w2 = Random(DType::kF32, kExperts * kL * kHalf, 4);
      const bool oi = std::string(layout) == "oi", up_first = std::string(order) == "up_gate";
      V y(kRows * kL, 0.0);
      for (int64_t i = 0; i < kRows * kSlots; ++i) {
        const double id = kIds[static_cast<size_t>(i)];
        if (id < 0 || id >= kExperts) continue;
        const auto e = static_cast<int64_t>(id);
        V both(2 * kHalf, 0.0);
        for (int64_t j = 0; j < 2 * kHalf; ++j) {
          for (int64_t p = 0; p < kK; ++p) {
            both[j] += x[i / kSlots * kK + p] *
                       w1[e * 2 * kHalf * kK + (oi ? j * kK + p : p * 2 * kHalf + j)];
          }
        }
        for (int64_t l = 0; l < kL; ++l) {
          double sum = 0;
          for (int64_t j = 0; j < kHalf; ++j) {
            const double gate = both[up_first ? kHalf + j : j], up = both[up_first ? j : kHalf + j];
            sum += gate / (1 + std::exp(-gate)) * up *
                   w2[e * kL * kHalf + (oi ? l * kHalf + j : j * kL + l)];
          }
          y[i / kSlots * kL + l] += factors[static_cast<size_t>(i)] * sum;
        }
      }
      // Casts to f32 do not round what the reference holds in float64.
      ExpectNear(RunF64(problem->chain, kRows, {x, kIds, factors, w1, w2})[0], y, 1e-5);
    }
  }
}

}  // namespace
}  // namespace sinter
